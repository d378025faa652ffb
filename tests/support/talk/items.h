// Conversations of all kinds for the scheduler's tests, and what comes of each when it is alone.
#ifndef PALAVER_TESTS_ITEMS_H
#define PALAVER_TESTS_ITEMS_H

#include "engine/talk/scheduler/scheduler.h"

typedef struct TestItem {
    SchedulerItem item;
    Message messages[3];
    const char *turns[2];
    char texts[4][160];
    SchedulerItem alone; // what is expected
    int n_finished;      // how often the scheduler gave it back
} TestItem;

// Items [n], numbers 0 …: short and long prompts, one turn or two, greedy or drawn, with and without a common system
// prompt, stop strings, penalties, limits of 1 to 12 tokens. Expected results are there: what conversation_reply()
// says, each in a conversation of its own. From the 126th on they come again.
TestItem *items_make(int n, const OverflowSettings *overflow, int context_size, DType cache);
void items_free(TestItem *items, int n);

// An engine for rows, with so many windows of cache in pages of 16; 0 rows: for one conversation, not in pages.
Engine *items_engine(int n_rows, int n_windows, int context_size, DType cache);
ChatTemplate *items_template(void);

// The item as a chat has it: one reply after the other, in a conversation of its own.
void items_answer_alone(Engine *engine, const ChatTemplate *chat_template, const SchedulerItem *item,
                        SchedulerItem *alone);

// Fails unless each was finished once, and as expected; unless number i has come to what was wanted.
void items_check(const TestItem *items, int n);
void items_check_one(int i, const SchedulerItem *got, const SchedulerItem *want);
// Forgets what the scheduler made.
void items_reset(TestItem *items, int n);

#endif
