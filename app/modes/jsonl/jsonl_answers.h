// The answers of --jsonl on their way out: as they are finished, or in the order of their lines, and counted.
#ifndef PALAVER_APP_JSONL_ANSWERS_H
#define PALAVER_APP_JSONL_ANSWERS_H

#include "app/modes/jsonl/jsonl_line.h"
#include "app/terminal/screen/screen.h"

enum { JSONL_ANSWERS_HELD = 4096 }; // answers that wait for an earlier one: then no more lines are taken

typedef struct JsonlAnswers {
    Screen *screen;
    bool ordered;     // --ordered
    JsonlLine **held; // [n_held] finished, but earlier ones are not; by number
    int n_held;
    size_t held_room;
    long long next;                         // the number that is written next, where they are ordered
    long long n_written;                    // lines of output
    long long n_failed, n_refused, n_wrong; // of these without a whole answer, and why
    long long unwritten;                    // the line whose answer could not be written; 0: none
} JsonlAnswers;

// A line that is finished, which it takes: its answer goes out, now or when its turn comes.
Status jsonl_answers_deliver(JsonlAnswers *answers, JsonlLine *line, Error *error);
// At an end before the end: writes all that is held, whatever is missing before it.
Status jsonl_answers_flush(JsonlAnswers *answers, Error *error);
bool jsonl_answers_full(const JsonlAnswers *answers); // too many are held
// How many there were, and how fast their tokens came.
void jsonl_answers_sum_up(const JsonlAnswers *answers, long long n_drawn, double seconds);
void jsonl_answers_free(JsonlAnswers *answers); // not the lines that are held

#endif
