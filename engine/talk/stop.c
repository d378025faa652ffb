#include "engine/talk/stop.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// One stop string and how much of it the stream ends with (Knuth, Morris and Pratt).
typedef struct Pattern {
    char *text;
    size_t size;
    size_t *border; // [size] longest proper border of text[0 … i]
    size_t matched;
} Pattern;

struct StopMatcher {
    int n;
    bool stopped;
    Pattern *patterns; // [n]
    int longest;       // the pattern of which most is matched: its beginning is what is held back
};

static Status pattern_init(Pattern *pattern, const char *text, Error *error) {
    size_t size = strlen(text);
    if (size == 0) return error_set(error, STATUS_USAGE, "sampling.stop: an empty stop string");
    pattern->size = size;
    pattern->text = malloc(size);
    pattern->border = size <= SIZE_MAX / sizeof(size_t) ? malloc(size * sizeof(size_t)) : NULL;
    if (!pattern->text || !pattern->border)
        return error_set(error, STATUS_MEMORY, "no memory for a stop string of %zu bytes", size);
    memcpy(pattern->text, text, size);
    pattern->border[0] = 0;
    for (size_t i = 1, k = 0; i < size; i++) {
        while (k && text[i] != text[k]) k = pattern->border[k - 1];
        k += text[i] == text[k];
        pattern->border[i] = k;
    }
    return STATUS_OK;
}

Status stop_open(const char *const *strings, int n, StopMatcher **matcher, Error *error) {
    *matcher = NULL;
    StopMatcher *m = calloc(1, sizeof *m);
    if (m && n > 0) m->patterns = calloc((size_t)n, sizeof *m->patterns);
    Status status = STATUS_OK;
    if (!m || (n > 0 && !m->patterns)) {
        status = error_set(error, STATUS_MEMORY, "no memory for %d stop strings", n);
    } else {
        while (m->n < n && !status) { // counted first, so that a failed one is freed
            m->n++;
            status = pattern_init(&m->patterns[m->n - 1], strings[m->n - 1], error);
        }
    }
    if (status) {
        stop_close(m);
        return status;
    }
    *matcher = m;
    return STATUS_OK;
}

void stop_close(StopMatcher *matcher) {
    if (!matcher) return;
    for (int i = 0; i < matcher->n; i++) {
        free(matcher->patterns[i].text);
        free(matcher->patterns[i].border);
    }
    free(matcher->patterns);
    free(matcher);
}

// Moves all patterns on by one byte; the longest match is then that of `longest`. Whether it is a whole one.
static bool advance(StopMatcher *matcher, char byte) {
    int whole = -1;
    matcher->longest = 0;
    for (int i = 0; i < matcher->n; i++) {
        Pattern *p = &matcher->patterns[i];
        while (p->matched && p->text[p->matched] != byte) p->matched = p->border[p->matched - 1];
        p->matched += p->text[p->matched] == byte;
        if (p->matched > matcher->patterns[matcher->longest].matched) matcher->longest = i;
        if (p->matched == p->size && (whole < 0 || p->size > matcher->patterns[whole].size)) whole = i;
    }
    if (whole >= 0) matcher->longest = whole;
    return whole >= 0;
}

StopText stop_feed(StopMatcher *matcher, const char *bytes, size_t size) {
    if (matcher->stopped) return (StopText){.stopped = true};
    if (matcher->n == 0) return (StopText){.fresh = bytes, .n_fresh = size};
    const Pattern *before = &matcher->patterns[matcher->longest];
    size_t n_held = before->matched, used = 0;
    while (used < size && !matcher->stopped) matcher->stopped = advance(matcher, bytes[used++]);
    size_t n = n_held + used - matcher->patterns[matcher->longest].matched;
    StopText text = {.held = before->text, .n_held = n < n_held ? n : n_held, .stopped = matcher->stopped};
    text.fresh = bytes;
    text.n_fresh = n - text.n_held;
    return text;
}

StopText stop_flush(StopMatcher *matcher) {
    if (matcher->stopped) return (StopText){.stopped = true};
    if (matcher->n == 0) return (StopText){.n_held = 0};
    const Pattern *p = &matcher->patterns[matcher->longest];
    StopText text = {.held = p->text, .n_held = p->matched};
    matcher->longest = 0;
    for (int i = 0; i < matcher->n; i++) matcher->patterns[i].matched = 0;
    return text;
}
