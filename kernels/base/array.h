// Growing arrays: sizes are checked, capacity doubles, and a failure leaves the array as it was.
#ifndef PALAVER_BASE_ARRAY_H
#define PALAVER_BASE_ARRAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAY_LEAST = 16 };

// Makes room for `more` elements of `element` bytes behind the first `count` of an array on the heap. `items` is the
// address of the pointer to it (NULL: there is none yet), *capacity how many elements it has room for. False: no
// memory.
static inline bool array_reserve(void *items, size_t element, size_t count, size_t more, size_t *capacity) {
    if (more <= *capacity - count) return true;
    if (more > SIZE_MAX / 4 / element - count) return false;
    size_t wanted = count + more;
    if (wanted < 2 * *capacity) wanted = 2 * *capacity;
    if (wanted < ARRAY_LEAST) wanted = ARRAY_LEAST;
    void *old, *grown;
    memcpy(&old, items, sizeof old); // whatever the pointer points to
    grown = realloc(old, wanted * element);
    if (!grown) return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    // cppcheck-suppress memleak; *items holds it
    return true;
}

#endif
