// A conversation with the small model that babbles, for tests: what was shown, and whether what the model sees is what
// it ought to see.
#ifndef PALAVER_TESTS_TALK_H
#define PALAVER_TESTS_TALK_H

#include "engine/talk/conversation.h"

typedef struct Talk {
    Engine *engine;
    ChatTemplate *chat_template;
    Conversation *c;
    char text[65536], kept[65536]; // what the events showed, and a copy of an earlier one
    size_t size;
    OverflowEvent last;
    int n_overflows;
    atomic_int stop;
    int stop_after; // pieces of text; 0: never
} Talk;

Talk *talk_open(int context_size, const CacheOptions *cache);
// The same with another model and another of the built-in templates.
Talk *talk_open_model(const char *model, const char *chat_template, int context_size,
                      const CacheOptions *cache);
void talk_close(Talk *talk);

// Another conversation of the same engine, replies of 24 tokens at most, seed 42.
Conversation *talk_conversation(Talk *talk);

int talk_turns(const Talk *talk);      // user messages, those evicted included
const char *talk_remember(Talk *talk); // a copy of what was shown
void talk_append(Conversation *conversation, ChatRole role, const char *text);
Status talk_reply(Talk *talk, bool resume, ReplyReport *report, Error *error);
// A turn that must work: what was shown is what is kept.
ReplyReport talk_say(Talk *talk, const char *text);

// Fails unless the log is the template over the messages that are left.
void talk_check_log(Talk *talk);

#endif
