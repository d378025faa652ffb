// Messages of a conversation, one type from the transcript to the template: what a person saw, and what of it the model
// still sees.
#ifndef PALAVER_TOKENIZER_MESSAGE_H
#define PALAVER_TOKENIZER_MESSAGE_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ChatRole { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT } ChatRole;
const char *chat_role_name(ChatRole role); // "system", "user", "assistant"
int chat_role_find(const char *name);      // a ChatRole, or -1

// One message: a view, or, where message_copy() made it, the owner of its text and ids. An assistant's message that was
// sampled here keeps its token ids, and they, not the text, are what the model sees again.
typedef struct Message {
    ChatRole role;
    const char *text; // UTF-8, NUL-terminated where it is stored; what a person saw
    size_t size;
    const int32_t *ids; // sampled, without the end token; NULL for messages that were typed, loaded or edited
    int64_t n_ids;
    // Bytes of the text that were left out of a prompt too long for the context; 0, 0: none.
    int64_t cut_from, cut_to;
    int64_t n_evicted; // of ids: the oldest
    bool interrupted;  // the reply was cut short: by the user, by a limit, or by the end of the context
    bool evicted;      // from the context window: still shown and saved, no longer seen by the model
} Message;

// A deep copy, and its end.
Status message_copy(const Message *from, Message *to, Error *error);
void message_free(Message *message);

// A view of what the model sees of a message that is not evicted; its text is *joined, to free(), where something was
// left out of it, else *joined is NULL.
Status message_seen(const Message *message, Message *seen, char **joined, Error *error);

// From now on the text counts. Of a message that owns its ids.
void message_drop_ids(Message *message);

// Messages by themselves, that a conversation can take all at once.
typedef struct MessageList {
    Message *messages; // [n], owned
    int n;
    size_t capacity;
} MessageList; // {0} is empty
// Puts a copy of a message before the one at `index`, or (index n) at the end; after a failure the list is as it was.
Status message_list_insert(MessageList *list, int index, const Message *message, Error *error);
// Adds one at the end; after a failure the list is as it was.
Status message_list_add(MessageList *list, const Message *message, Error *error);
void message_list_free(MessageList *list); // and makes it an empty one

#endif
