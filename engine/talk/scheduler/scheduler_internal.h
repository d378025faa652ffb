// What the scheduler consists of, and what its files share: scheduler.c has rows that come, are read, decode and leave,
// scheduler_pages.c the memory that each is promised.
#ifndef PALAVER_ENGINE_SCHEDULER_INTERNAL_H
#define PALAVER_ENGINE_SCHEDULER_INTERNAL_H

#include "engine/batch.h"
#include "engine/talk/reply.h"
#include "engine/talk/scheduler/scheduler.h"

typedef enum RowState {
    ROW_EMPTY,
    ROW_WAITING,  // for pages
    ROW_READING,  // its session has pending tokens of a prompt, or its reply has not begun
    ROW_DECODING, // the last token of its reply is pending
} RowState;

typedef struct Row {
    RowState state;
    Conversation *conversation; // opened when the row is first used
    SchedulerItem *item;
    Reply *reply; // NULL: it begins with the next piece that is read
    ReplyReport report;
    int turn;        // replies made of the item
    int64_t entered; // which item it is, counted as they came
    int pages;       // promised to it, or what it waits for
    double start;
} Row;

struct Scheduler {
    Engine *engine;
    const ChatTemplate *chat_template;
    Batch *batch;
    const atomic_int *interrupt;
    int budget;
    Row *rows; // [n_rows]
    int n_rows;
    int promised; // pages, to rows that do not wait
    int64_t n_entered, n_drawn;
    SchedulerItem *finished, **last; // in the order in which they were
    // A step of decoding: [n_rows] each.
    Row **decoding;
    Session **sessions;
    SampleParams *params;
    int32_t *ids;
};

// Of the rows in a state that came behind another (-1: of all), the one that came first; NULL: there is none.
Row *scheduler_row_after(const Scheduler *scheduler, RowState state, int64_t entered);
// The user's next turn becomes a message of the conversation.
Status scheduler_ask(Conversation *conversation, const char *text, Error *error);

// ---- scheduler_pages.c

// Pages that the row's item needs at most from the turn in hand on: for all of its prompts and replies, where these have a
// limit, and never more than the window's. Of this turn that is certain; a reply that a stop string cut may take more
// tokens when its text is read again than it was made of. What was rendered for it is kept for the last turn's reply.
Status scheduler_pages_count(const Scheduler *scheduler, const Row *row, int *pages, Error *error);
// Promises are kept to those who wait, first come first served: whoever came first and does not fit is waited for.
void scheduler_pages_admit(Scheduler *scheduler);
// Between two turns: what the rest does not need is others', unless the row has a whole window, where tokens may lie
// anywhere. An item that needs more than was thought gives everything back and waits like one that comes: also where
// there would be room, for what it says must not depend on others.
Status scheduler_pages_renew(Scheduler *scheduler, Row *row, Error *error);
// The row holds nothing any more, and nothing is promised to it.
void scheduler_pages_give_back(Scheduler *scheduler, Row *row);

#endif
