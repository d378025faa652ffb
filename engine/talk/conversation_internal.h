// What conversation.c (the messages) shares with reply.c (how an answer is made).
#ifndef PALAVER_ENGINE_CONVERSATION_INTERNAL_H
#define PALAVER_ENGINE_CONVERSATION_INTERNAL_H

#include "engine/talk/conversation.h"

struct Conversation {
    Engine *engine;
    const ChatTemplate *chat_template;
    Session *session;
    Sampler *sampler;
    struct Drafts *drafts;   // NULL: none were wanted yet
    struct Guesser *guesser; // NULL: there is none
    ConversationSettings settings;
    // The prompt of the reply that begins next, where that has been rendered before; all zero: not. Who puts it here lets
    // nothing of the messages change until then.
    ConversationView ahead;
    union {
        MessageList list;
        struct {
            Message *messages; // [n], owned
            int n;
            size_t capacity;
        };
    };
};

// The ids of the messages that are not evicted. With `open_reply` the last message, the assistant's, stays open
// at its end: the model goes on with it.
Status conversation_render(Conversation *conversation, bool open_reply, ConversationView *view, Error *error);

// How a rendered view looks to overflow_plan; spans malloc'ed, with room for one more.
Status conversation_overflow_spans(const Conversation *conversation, const ConversationView *view,
                                   OverflowSpan **spans, Error *error);

// Whether a text has more tokens than the context, whatever stands around it: it is counted no further than that takes.
Status long_prompt_is_beyond(const Conversation *conversation, const char *text, size_t size, bool *beyond,
                             Error *error);

// Refuses a message that no eviction and no cut brings into the context, before the whole of it is split into tokens:
// the system prompt, or the last question. `message` is the one at `index` as the model would see it.
Status long_prompt_check(const Conversation *conversation, int index, const Message *message, Error *error);

// Where nothing more can be evicted, and the settings say so: cuts the last question so that `needed` tokens are free
// behind it. `view` is what is rendered now, with the reply in hand open at its end; *n_cut says how many tokens it
// becomes shorter by, 0: it cannot be done. After a failure the question is as it was.
Status long_prompt_cut(Conversation *conversation, int64_t needed, const ConversationView *view,
                       int64_t *n_cut, Error *error);

// What a prompt is refused for.
typedef struct LackOfRoom {
    int64_t n_tokens, needed; // of the prompt, and of the reply
    bool at_least;            // there are more tokens, which nobody counted
    bool of_system;           // they are the system prompt's
} LackOfRoom;
// STATUS_CONTEXT, with what to do.
Status conversation_no_room(const Conversation *conversation, const LackOfRoom *lack, Error *error);

// Makes room for `needed` tokens behind *view, the rendered messages with the reply in hand open at their end, when
// they do not fit: marks what leaves, renders *view again, and shifts the log of the session as the policy says.
// Counts what was evicted in *event; its n_evaluated plus what session_sync() then evaluates is what was read again.
// STATUS_CONTEXT: it cannot fit. After a failure marks are as they are, and *view may be empty.
Status conversation_make_room(Conversation *conversation, int64_t needed, ConversationView *view,
                              OverflowEvent *event, Error *error);

#endif
