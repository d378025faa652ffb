// A reply that says the same over and over.
#ifndef PALAVER_APP_REPETITION_H
#define PALAVER_APP_REPETITION_H

#include <stdbool.h>
#include <stddef.h>

enum { REPETITION_SEEN = 4096 };

// All zero at the beginning of a reply.
typedef struct Repetition {
    char seen[REPETITION_SEEN]; // [n] the end of what was said
    size_t n;
    size_t unchecked; // bytes since the last look
    bool found;
} Repetition;

// Takes the next piece of a reply. True, once: its end is one text, six times and more, and long enough not to be a
// rule or a row of a table.
bool repetition_found(Repetition *repetition, const char *text, size_t n);

#endif
