// Messages of a conversation: what a person saw, and what of it the model still sees.
#ifndef PALAVER_ENGINE_MESSAGE_H
#define PALAVER_ENGINE_MESSAGE_H

#include "tokenizer/chat/chat_template.h"

// One message. An assistant's message that was sampled here keeps its token ids, and they, not the text, are what
// the model sees again.
typedef struct Message {
    ChatRole role;
    char *text; // UTF-8, NUL-terminated; what a person saw
    size_t size;
    int32_t *ids; // sampled ids without the end token; NULL for messages that were typed, loaded or edited
    int64_t n_ids;
    // Bytes of the text that were left out of a prompt too long for the context; 0, 0: none.
    int64_t cut_from, cut_to;
    int64_t n_evicted; // of ids: the oldest, which overflow discarded from this reply
    bool interrupted;  // the reply was cut short: by the user, by a limit, or by the end of the context
    bool discarded;    // left the window by overflow: still shown and saved, no longer seen by the model
} Message;

// Deep copies, and their end.
Status message_copy(const Message *from, Message *to, Error *error);
void message_free(Message *message);

// What the model sees of a message's text: *joined is malloc'ed where it is not the text itself, else NULL.
Status message_seen_text(const Message *message, const char **text, size_t *size, char **joined,
                         Error *error);

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
