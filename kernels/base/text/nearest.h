// "Did you mean …?": the nearest of a list of names, for keys, flags and commands alike.
#ifndef PALAVER_BASE_NEAREST_H
#define PALAVER_BASE_NEAREST_H

#include <stddef.h>

enum { NEAREST_NAME_MAX = 64 }; // longer names are compared by their first bytes

// Damerau-Levenshtein distance (optimal string alignment: insert, delete, replace, swap of neighbours), ASCII
// case ignored, `-` equal to `_`.
size_t nearest_distance(const char *a, const char *b);

// Index of the name nearest to `wrong`, or -1 when none is near enough to be meant: at most a third of its
// length away (and at least 1, at most 3), or one that begins with it. Ties go to the first.
int nearest_name(const char *wrong, const char *const *names, size_t count);

#endif
