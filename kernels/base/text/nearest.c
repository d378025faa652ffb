// Optimal string alignment over three rows, as long as the shorter name.
#include "kernels/base/text/nearest.h"

#include <string.h>

static char folded(char c) {
    if (c >= 'A' && c <= 'Z') return (char)(c - 'A' + 'a');
    return c == '-' ? '_' : c;
}

static size_t smallest(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

size_t nearest_distance(const char *a, const char *b) {
    size_t a_length = strnlen(a, NEAREST_NAME_MAX), b_length = strnlen(b, NEAREST_NAME_MAX);
    size_t rows[3][NEAREST_NAME_MAX + 1] = {{0}}; // rows[i % 3][j]: distance of the first i of a and j of b
    for (size_t j = 0; j <= b_length; j++) rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t differs = folded(a[i - 1]) != folded(b[j - 1]);
            row[j] = smallest(last[j] + 1, row[j - 1] + 1, last[j - 1] + differs);
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1]) && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
    }
    return rows[a_length % 3][b_length];
}

static int begins_with(const char *name, const char *start) {
    while (*start && folded(*name) == folded(*start)) name++, start++;
    return !*start;
}

int nearest_name(const char *wrong, const char *const *names, size_t count) {
    size_t length = strnlen(wrong, NEAREST_NAME_MAX);
    size_t allowed = length / 3 < 1 ? 1 : length / 3 > 3 ? 3 : length / 3;
    int nearest = -1;
    for (size_t i = 0; i < count; i++) {
        size_t distance = nearest_distance(wrong, names[i]);
        if (distance > allowed || distance >= length) continue;
        nearest = (int)i, allowed = distance ? distance - 1 : 0;
        if (!distance) return nearest;
    }
    for (size_t i = 0; nearest < 0 && length >= 2 && i < count; i++)
        if (begins_with(names[i], wrong)) nearest = (int)i;
    return nearest;
}
