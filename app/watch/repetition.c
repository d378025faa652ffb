#include "app/watch/repetition.h"

#include <assert.h>
#include <string.h>

enum {
    LOOK_EVERY = 64, // bytes
    TIMES = 6,
    LEAST = 240,       // bytes of all of it
    LEAST_SHORT = 800, // where what is repeated is shorter than
    SHORT = 8,
};

// Whether an end of the text is one shorter text again and again. The borders of each beginning of the text, read from
// its end (Knuth, Morris and Pratt's failure function), tell the period of each of its ends.
static bool repeats(const char *text, size_t n) {
    static_assert(REPETITION_SEEN <= 65536, "borders fit 16 bits");
    unsigned short border[REPETITION_SEEN];
    border[0] = 0;
    for (size_t i = 1; i < n; i++) {
        size_t k = border[i - 1];
        char c = text[n - 1 - i];
        while (k && text[n - 1 - k] != c) k = border[k - 1];
        border[i] = (unsigned short)(k + (text[n - 1 - k] == c));
        size_t size = i + 1, period = size - border[i];
        if (size >= TIMES * period && size >= (period < SHORT ? LEAST_SHORT : LEAST)) return true;
    }
    return false;
}

bool repetition_found(Repetition *r, const char *text, size_t n) {
    if (r->found) return false;
    if (n > REPETITION_SEEN) text += n - REPETITION_SEEN, n = REPETITION_SEEN;
    size_t kept = r->n + n > REPETITION_SEEN ? REPETITION_SEEN - n : r->n;
    memmove(r->seen, r->seen + r->n - kept, kept);
    memcpy(r->seen + kept, text, n);
    r->n = kept + n;
    r->unchecked += n;
    if (r->unchecked < LOOK_EVERY) return false;
    r->unchecked = 0;
    return r->found = repeats(r->seen, r->n);
}
