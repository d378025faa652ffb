#include "engine/grammar/matcher.h"

#include "engine/grammar/masks/masks.h"

#include <stdlib.h>
#include <string.h>

struct Matcher {
    Grammar *grammar;
    Matcher *next;
    uint32_t state;
    uint32_t *mask; // [words]
    const int32_t *ends;
    int n_ends;
};

static Status error_of(const Grammar *g, Error *error) {
    return error_set(error, g->states.error.status, "%s", g->states.error.message);
}

// The grammar's states and masks become those of a vocabulary. Matchers of another one are gone by then: a model has
// one, and replies end before their model does.
static Status bind(Grammar *g, Vocabulary *v, Error *error) {
    if (g->vocabulary == v) return STATUS_OK;
    if (g->vocabulary) states_close(&g->states);
    vocabulary_close(g->vocabulary);
    grammar_free_room(g);
    g->vocabulary = NULL;
    Status status = states_open(&g->net, &g->states, error);
    if (status) return status;
    g->vocabulary = vocabulary_share(v);
    status = masks_open(g, error);
    if (!status) return STATUS_OK;
    states_close(&g->states);
    vocabulary_close(v);
    g->vocabulary = NULL;
    return status;
}

// Between two tokens: what was kept becomes little again, or what has failed is begun anew.
static Status make_room(Grammar *g, Error *error) {
    if (g->states.bytes < STATES_SOFT_BYTES && !g->states.error.status) return STATUS_OK;
    size_t n = 0;
    for (const Matcher *m = g->matchers; m; m = m->next) n++;
    uint32_t **roots = malloc((n + 1) * sizeof *roots);
    if (!roots) return error_no_memory(error, "a grammar");
    n = 0;
    for (Matcher *m = g->matchers; m; m = m->next) roots[n++] = &m->state;
    Status status = states_forget(&g->states, roots, n, error);
    free(roots);
    return status;
}

Status matcher_open(Grammar *grammar, Vocabulary *vocabulary, const int32_t *ends, int n_ends, Matcher **out,
                    Error *error) {
    *out = NULL;
    Status status = bind(grammar, vocabulary, error);
    if (!status) status = make_room(grammar, error);
    if (status) return status;
    Matcher *m = calloc(1, sizeof *m);
    uint32_t *mask = malloc(vocabulary_words(vocabulary) * sizeof *mask);
    if (!m || !mask) {
        free(m);
        free(mask);
        return error_no_memory(error, "a grammar");
    }
    *m = (Matcher){.grammar = grammar_share(grammar),
                   .mask = mask,
                   .ends = ends,
                   .n_ends = n_ends,
                   .state = states_start(&grammar->states)};
    m->next = grammar->matchers;
    grammar->matchers = m;
    *out = m;
    if (!grammar->states.error.status) return STATUS_OK;
    status = error_of(grammar, error);
    matcher_close(m);
    *out = NULL;
    return status;
}

void matcher_close(Matcher *m) {
    if (!m) return;
    Matcher **at = &m->grammar->matchers;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    grammar_close(m->grammar);
    free(m->mask);
    free(m);
}

Status matcher_accept(Matcher *m, const char *bytes, size_t n, Error *error) {
    Grammar *g = m->grammar;
    Status status = make_room(g, error);
    for (size_t i = 0; i < n && !status; i++) {
        uint32_t next = states_step(&g->states, m->state, (uint8_t)bytes[i]);
        if (g->states.error.status) return error_of(g, error);
        if (next <= STATES_DEAD)
            return error_set(error, STATUS_USAGE,
                             "the grammar allows no 0x%02X there (what nests deeper than %d does not fit)",
                             (unsigned)(unsigned char)bytes[i], STATES_DEEPEST);
        m->state = next;
    }
    return status;
}

void matcher_follow(Matcher *m, const Matcher *other) {
    m->state = other->state;
}

bool matcher_may_end(const Matcher *m) {
    return m->grammar->states.states[m->state].may_end;
}

bool matcher_must_end(const Matcher *m) {
    return matcher_may_end(m) && m->grammar->states.states[m->state].n == 0;
}

Status matcher_mask(Matcher *m, int32_t previous, const uint32_t **mask, Error *error) {
    Grammar *g = m->grammar;
    const Vocabulary *v = g->vocabulary;
    size_t words = vocabulary_words(v);
    Status status = make_room(g, error);
    if (status) return status;
    const uint32_t *found = masks_of(g, m->state);
    if (found) memcpy(m->mask, found, words * sizeof *found);
    if (found && (previous < 0 || tokenizer_kind(v->tokenizer, previous) == TOKEN_CONTROL))
        masks_leave_spaces(g, m->state, previous, m->mask);
    if (g->states.error.status) return error_of(g, error);
    for (int i = 0; i < m->n_ends; i++) {
        uint32_t id = (uint32_t)m->ends[i], bit = 1u << (id % 32);
        if (matcher_may_end(m))
            m->mask[id / 32] |= bit;
        else
            m->mask[id / 32] &= ~bit;
    }
    *mask = m->mask;
    for (size_t i = 0; i < words; i++)
        if (m->mask[i]) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     matcher_may_end(m)
                         ? "the grammar's text has ended, and the model has no token to end with"
                         : "no token of the vocabulary fits the grammar here");
}
