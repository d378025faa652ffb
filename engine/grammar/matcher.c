#include "engine/grammar/matcher.h"

#include "engine/grammar/grammar_internal.h"

#include <stdlib.h>
#include <string.h>

// What is known of places that share a stack, as if it were the bottom.
struct Local {
    uint32_t n_ended;
    uint32_t
        words[]; // the mask of tokens that begin within; [n_ended] nodes at which the bottom's rule may end
};

struct Matcher {
    Grammar *grammar;
    Matcher *next;
    uint32_t state;
    uint32_t *mask; // [words]
    const int32_t *ends;
    int n_ends;
};

// ---- walks --------------------------------------------------------------------------------------------------------------

// Marks in g->found the tokens of nodes [first, end) that fit from `state`, and lists in g->ended, where that is wanted,
// the nodes at which the text may end; returns how many. first's parent is what `state` stands for.
static uint32_t walk(Grammar *g, uint32_t state, uint32_t first, uint32_t end, bool list) {
    const TrieNode *nodes = g->vocabulary->nodes;
    if (first >= end) return 0;
    uint32_t *line = g->line, base = nodes[first].depth - 1u, n_ended = 0;
    line[base] = state;
    for (uint32_t i = first; i < end;) {
        const TrieNode node = nodes[i];
        uint32_t next = states_step(&g->states, line[node.depth - 1], node.byte);
        if (next <= STATES_DEAD) {
            if (g->states.error.status) return 0;
            i = node.skip;
            continue;
        }
        line[node.depth] = next;
        for (uint32_t t = node.token; t < nodes[i + 1].token; t++) {
            uint32_t id = (uint32_t)g->vocabulary->tokens[t];
            g->found[id / 32] |= 1u << (id % 32);
        }
        if (list && g->states.states[next].may_end) g->ended[n_ended++] = i;
        i++;
    }
    return n_ended;
}

// What is known of the `n` places from `first` on of a state. NULL: it cannot be found.
static struct Local *local_of(Grammar *g, size_t first, size_t n) {
    size_t words = vocabulary_words(g->vocabulary);
    uint32_t state = states_local(&g->states, g->states.places + first, n);
    if (g->states.error.status) return NULL;
    if (g->states.states[state].local) return g->states.states[state].local;
    memset(g->found, 0, words * sizeof *g->found);
    uint32_t n_ended = walk(g, state, 0, g->vocabulary->n_nodes, true);
    if (g->states.error.status) return NULL;
    size_t bytes = sizeof(struct Local) + (words + n_ended) * sizeof(uint32_t);
    struct Local *local = malloc(bytes);
    if (!local) {
        g->states.error.status = error_no_memory(&g->states.error, "a grammar");
        return NULL;
    }
    local->n_ended = n_ended;
    memcpy(local->words, g->found, words * sizeof *g->found);
    memcpy(local->words + words, g->ended, n_ended * sizeof *g->ended);
    g->states.states[state].local = local;
    g->states.bytes += bytes;
    return local;
}

// From where the rules of `local` end on the way, tokens go on with what their stack comes back to.
static void go_on(Grammar *g, const struct Local *local, uint32_t stack) {
    uint32_t state = local->n_ended ? states_return(&g->states, stack) : STATES_DEAD;
    const uint32_t *ended = local->words + vocabulary_words(g->vocabulary);
    if (state <= STATES_DEAD) return;
    for (uint32_t i = 0; i < local->n_ended && !g->states.error.status; i++)
        walk(g, state, ended[i] + 1, g->vocabulary->nodes[ended[i]].skip, false);
}

// The mask of a state: its groups of places with one stack, one after the other.
static const uint32_t *mask_of(Grammar *g, uint32_t state) {
    size_t words = vocabulary_words(g->vocabulary);
    if (g->states.states[state].mask) return g->states.states[state].mask;
    uint32_t *mask = calloc(words, sizeof *mask);
    if (!mask) g->states.error.status = error_no_memory(&g->states.error, "a grammar");
    size_t first = g->states.states[state].first, end = first + g->states.states[state].n;
    while (first < end && !g->states.error.status) {
        uint32_t stack = g->states.places[first].stack;
        size_t n = 1;
        while (first + n < end && g->states.places[first + n].stack == stack) n++;
        const struct Local *local = local_of(g, first, n);
        if (!local) break;
        memcpy(g->found, local->words, words * sizeof *g->found);
        if (stack != STATES_BOTTOM) go_on(g, local, stack);
        for (size_t i = 0; i < words; i++) mask[i] |= g->found[i];
        first += n;
    }
    if (g->states.error.status) {
        free(mask);
        return NULL;
    }
    g->states.states[state].mask = mask;
    g->states.bytes += words * sizeof *mask;
    return mask;
}

// Behind a token after which spaces are left out, or at a beginning, tokens have bytes of their own: one by one.
static void mask_at_beginning(Grammar *g, uint32_t state, int32_t previous, uint32_t *mask) {
    const Vocabulary *v = g->vocabulary;
    memset(mask, 0, vocabulary_words(v) * sizeof *mask);
    for (uint32_t i = 0; i < v->nodes[v->n_nodes].token; i++) {
        size_t size;
        uint32_t id = (uint32_t)v->tokens[i], at = state;
        const char *bytes = tokenizer_bytes(v->tokenizer, previous, v->tokens[i], false, &size);
        for (size_t k = 0; k < size && at > STATES_DEAD; k++)
            at = states_step(&g->states, at, (uint8_t)bytes[k]);
        if (size > 0 && at > STATES_DEAD) mask[id / 32] |= 1u << (id % 32);
    }
}

// ---- matchers -------------------------------------------------------------------------------------------------------------

static Status error_of(const Grammar *g, Error *error) {
    return error_set(error, g->states.error.status, "%s", g->states.error.message);
}

// The grammar's states and masks become those of a vocabulary. Matchers of another one are gone by then: a model has
// one, and replies end before their model does.
static Status bind(Grammar *g, Vocabulary *v, Error *error) {
    if (g->vocabulary == v) return STATUS_OK;
    if (g->vocabulary) states_close(&g->states);
    vocabulary_close(g->vocabulary);
    free(g->line);
    free(g->found);
    free(g->ended);
    g->vocabulary = NULL;
    g->line = malloc(((size_t)v->deepest + 1) * sizeof *g->line);
    g->found = malloc(vocabulary_words(v) * sizeof *g->found);
    g->ended = malloc((v->n_nodes + 1) * sizeof *g->ended);
    if (!g->line || !g->found || !g->ended) return error_no_memory(error, "a grammar");
    Status status = states_open(&g->net, &g->states, error);
    if (!status) g->vocabulary = vocabulary_share(v);
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
    if (previous < 0 || tokenizer_kind(v->tokenizer, previous) == TOKEN_CONTROL) {
        mask_at_beginning(g, m->state, previous, m->mask);
    } else {
        const uint32_t *found = mask_of(g, m->state);
        if (found) memcpy(m->mask, found, words * sizeof *found);
    }
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
