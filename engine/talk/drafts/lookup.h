// Where the end of a text stood before in it: what followed there is a guess of what comes next ("prompt lookup",
// Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding).
#ifndef PALAVER_ENGINE_LOOKUP_H
#define PALAVER_ENGINE_LOOKUP_H

#include "kernels/base/status.h"

#include <stdint.h>

enum {
    LOOKUP_LEAST = 3,  // tokens that two places have to have in common
    LOOKUP_MOST = 32,  // more of them count like so many
    LOOKUP_PLACES = 32 // that are compared, the newest first
};

typedef struct Lookup Lookup;

// For texts of at most `most` tokens. Nothing is allocated later.
Status lookup_open(int64_t most, Lookup **lookup, Error *error);
void lookup_close(Lookup *lookup); // NULL is fine
void lookup_clear(Lookup *lookup); // the next text is another one

// The place behind the tokens of text [n] that its end is most like, the newest of those alike: text[place] followed. It
// begins with what was looked up since the last clear. *match: how many tokens before both are the same, at least
// LOOKUP_LEAST. 0: there is no such place. O(what is new + LOOKUP_PLACES · LOOKUP_MOST).
int64_t lookup_find(Lookup *lookup, const int32_t *text, int64_t n, int *match);

#endif
