// Many conversations at once: the item processor.
//
//   items → rows: refill → read prompts in → decode a token for every row that is ready → replies → finished items
//
// A row holds one conversation. Each step takes finished rows out, refills them, first come first served, reads pieces
// of prompts under a budget of tokens, so that rows that decode are not held up for long, and decodes one token for
// each of these. What an item's replies are depends on nothing but the item: not on its neighbours, its row, or when it
// came (the steps of batch.h; other conversations' prompts are shared only as they were read in).
//
// Memory is admitted before: an item enters when the pages that it may come to need, for all of its turns, are not
// promised to others; until then it waits, and those behind it. One thread uses a scheduler, and nobody else its engine
// meanwhile.
//
// A chat at the prompt or in a script has no neighbours and goes through conversation_reply(), which makes the same
// Reply (reply.h) with the backend's kernels for one sequence, keeps branches, and takes back a turn that fails: so a
// script's conversation can be resumed and replayed at the prompt to the last bit.
#ifndef PALAVER_ENGINE_SCHEDULER_H
#define PALAVER_ENGINE_SCHEDULER_H

#include "engine/talk/conversation.h"

#include <stdatomic.h>

// One conversation to be answered. The caller owns it and what it points to, and keeps it until it is finished.
typedef struct SchedulerItem {
    const Message *messages; // [n_messages] what has been said; read when the item is given
    int n_messages;
    // [n_turns] the user's, answered one after the other; none: the messages are answered.
    const char *const *turns;
    int n_turns;
    ConversationSettings settings;

    // What came of it.
    Status status;                       // STATUS_OK, or why the last reply failed; the others are there
    Error error;                         // where it is not
    FinishReason finish;                 // of the last reply
    MessageList replies;                 // scheduler_item_clear() frees them
    int64_t n_prompt, n_cached, n_reply; // tokens: of all prompts, of these found in the cache, and drawn
    int64_t n_prompt_cut;                // tokens that were left out of prompts too long for the context
    int64_t n_evicted;                   // tokens of what left the window when it was full
    double seconds;                      // in a row

    struct SchedulerItem *next; // the scheduler's
} SchedulerItem;

void scheduler_item_clear(SchedulerItem *item);

typedef struct Scheduler Scheduler;

typedef struct SchedulerOptions {
    int budget;                  // most tokens of prompts read in a step; 0: the engine's chunk
    const atomic_int *interrupt; // nonzero ends a step with STATUS_INTERRUPTED; NULL: never
} SchedulerOptions;

// As many rows as the engine was opened for (EngineOptions.n_rows), whose cache has pages. The template is kept by
// reference.
Status scheduler_open(Engine *engine, const ChatTemplate *chat_template, const SchedulerOptions *options,
                      Scheduler **scheduler, Error *error);
void scheduler_close(Scheduler *scheduler); // what is not finished is dropped; NULL is fine

// Whether a row is free and nobody waits for memory: only then give an item, which is the scheduler's until it is
// finished.
bool scheduler_wants(const Scheduler *scheduler);
void scheduler_give(Scheduler *scheduler, SchedulerItem *item);

// One step; nothing to do is none. What fails for one item is that item's status. Any failure here ends everything, and
// leaves the items that are not finished where they were.
Status scheduler_step(Scheduler *scheduler, Error *error);

// The next finished item, which is the caller's again; NULL: none. Each comes once.
SchedulerItem *scheduler_finished(Scheduler *scheduler);

int scheduler_running(const Scheduler *scheduler);   // items in rows, also those that wait for memory
int scheduler_waiting(const Scheduler *scheduler);   // of these, those that wait
int64_t scheduler_drawn(const Scheduler *scheduler); // tokens, ever

#endif
