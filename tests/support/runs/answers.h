// What `palaver --jsonl` answers, line by line.
#ifndef PALAVER_TESTS_ANSWERS_H
#define PALAVER_TESTS_ANSWERS_H

#include "tests/support/program.h"

#include <jansson.h>

enum { ANSWERS_MOST = 128 };

// The answers of a run, each a line of JSON with its newline.
typedef struct Answers {
    json_t *each[ANSWERS_MOST];
    int n;
} Answers;

Answers answers_of(const Run *run);
void answers_free(Answers *a);

// The one whose "id" (or else "line") is the number; there is one.
const json_t *answers_find(const Answers *a, int number);

// Of an answer or a message: a member's string, "" where it is none; an answer's message, which is its own.
const char *answer_word(const json_t *object, const char *key);
json_t *answer_message(const json_t *object, size_t i);

#endif
