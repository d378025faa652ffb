#include "engine/talk/drafts/lookup.h"

#include <stdlib.h>
#include <string.h>

// Places in chains by a hash of the LOOKUP_LEAST tokens before them, the newest first.
struct Lookup {
    int64_t most;
    int64_t n_read;   // places below it are in their chains
    int bits;         // of a hash
    int32_t *newest;  // [1 << bits] 0: none
    int32_t *earlier; // [most + 1] of each place
};

Status lookup_open(int64_t most, Lookup **out, Error *error) {
    Lookup *l = calloc(1, sizeof *l);
    *out = NULL;
    if (l) {
        l->most = most;
        for (l->bits = 8; l->bits < 24 && ((int64_t)1 << l->bits) < most; l->bits++) {
        }
        l->newest = malloc(sizeof *l->newest << l->bits);
        l->earlier = malloc((size_t)(most + 1) * sizeof *l->earlier);
    }
    if (!l || !l->newest || !l->earlier) {
        lookup_close(l);
        return error_set(error, STATUS_MEMORY, "no memory to look up %lld tokens", (long long)most);
    }
    lookup_clear(l);
    *out = l;
    return STATUS_OK;
}

void lookup_close(Lookup *l) {
    if (!l) return;
    free(l->newest);
    free(l->earlier);
    free(l);
}

void lookup_clear(Lookup *l) {
    memset(l->newest, 0, sizeof *l->newest << l->bits);
    l->n_read = LOOKUP_LEAST;
}

static int32_t *chain_of(const Lookup *l, const int32_t *text, int64_t place) {
    uint64_t hash = 0;
    for (int i = 1; i <= LOOKUP_LEAST; i++) hash = (hash ^ (uint32_t)text[place - i]) * 0x9e3779b97f4a7c15u;
    return &l->newest[hash >> (64 - l->bits)];
}

static int match_of(const int32_t *text, int64_t place, int64_t n) {
    int m = 0;
    while (m < LOOKUP_MOST && m < place && text[place - 1 - m] == text[n - 1 - m]) m++;
    return m;
}

int64_t lookup_find(Lookup *l, const int32_t *text, int64_t n, int *match) {
    int64_t best = 0;
    *match = 0;
    if (n > l->most) return 0;
    for (; l->n_read < n; l->n_read++) {
        int32_t *chain = chain_of(l, text, l->n_read);
        l->earlier[l->n_read] = *chain;
        *chain = (int32_t)l->n_read;
    }
    if (n < LOOKUP_LEAST) return 0;
    int64_t place = *chain_of(l, text, n);
    for (int i = 0; i < LOOKUP_PLACES && place > 0 && *match < LOOKUP_MOST; i++) {
        const int m = match_of(text, place, n);
        if (m >= LOOKUP_LEAST && m > *match) best = place, *match = m;
        place = l->earlier[place];
    }
    return best;
}
