#include "engine/grammar/masks/masks.h"

#include "engine/grammar/masks/repeats.h"
#include "engine/grammar/masks/walks.h"

#include <stdlib.h>
#include <string.h>

enum {
    AHEAD_UNITS = 64,
    AHEAD_LOOPS = 8,
    AHEAD_TREES = 8
}; // made at most before the first token is asked for

// What is known of places whose stacks have one base, as if it were the bottom.
struct Local {
    uint32_t n_ended;
    uint32_t
        words[]; // the mask of tokens that begin within; [n_ended] nodes at which the bottom's rule may end
};

// What is known of places [n] with stacks on `base`. NULL: it cannot be found.
static struct Local *local_of(Grammar *g, const Place *places, size_t n, uint32_t base) {
    const size_t words = vocabulary_words(g->vocabulary);
    uint32_t state = states_local(&g->states, places, n, base);
    if (g->states.error.status) return NULL;
    if (g->states.states[state].local) return g->states.states[state].local;
    memset(g->found, 0, words * sizeof *g->found);
    uint32_t n_ended = walk_all(g, state, places, n, base, g->found, true);
    if (g->states.error.status) return NULL;
    size_t bytes = sizeof(struct Local) + (words + n_ended) * sizeof(uint32_t);
    struct Local *local = malloc(bytes);
    if (!local) return grammar_no_memory(g), NULL;
    local->n_ended = n_ended;
    memcpy(local->words, g->found, words * sizeof *g->found);
    memcpy(local->words + words, g->ended, n_ended * sizeof *g->ended);
    g->states.states[state].local = local;
    g->states.bytes += bytes;
    return local;
}

// Adds the tokens of places [n]. From where their rules end on the way, tokens go on with what the base comes back to.
static void add_local(Grammar *g, const Place *places, size_t n, uint32_t base, uint32_t *mask) {
    const size_t words = vocabulary_words(g->vocabulary);
    if (base == STATES_BOTTOM) { // nothing to come back to
        walk_all(g, states_local(&g->states, places, n, base), places, n, base, mask, false);
        return;
    }
    const struct Local *local = local_of(g, places, n, base);
    if (!local) return;
    for (size_t i = 0; i < words; i++) mask[i] |= local->words[i];
    const uint32_t state = local->n_ended ? states_return(&g->states, base) : STATES_DEAD;
    const uint32_t *ended = local->words + words;
    if (state <= STATES_DEAD) return;
    for (uint32_t i = 0; i < local->n_ended && !g->states.error.status; i++)
        repeats_walk(g, state, vocabulary_below(g->vocabulary, ended[i]), mask, false);
}

// ---- masks --------------------------------------------------------------------------------------------------------

static int by_base(const void *a, const void *b) {
    const BasedPlace *x = a, *y = b;
    if (x->base != y->base) return x->base < y->base ? -1 : 1;
    return 0;
}

// The base that a place's walk takes: further down than `base` where a tree of classes is there and what is come back to
// tells nothing else apart. Then nothing is gained by ending the walk before.
static uint32_t deepest_base(const Grammar *g, Place place, uint32_t base) {
    Region region = {{0}, {0}};
    const ClassTree *tree;
    walk_join(g, place, base, &region);
    if (base == STATES_BOTTOM || !class_tree_find(g->vocabulary, &region, &tree) || !tree) return base;
    while (base != STATES_BOTTOM) {
        const uint32_t next = g->states.stacks[g->states.stacks[base].below].base;
        Region more = region;
        walk_join_stack(g, base, next, &more);
        if (memcmp(&more, &region, sizeof more)) break;
        base = next;
    }
    return base;
}

// The places [n] of a state, in g->places: repetitions first, the others by their base. Amid a unit of a repetition
// it is that: all times of it have the same units.
static void add_places(Grammar *g, size_t n, uint32_t *mask) {
    const TrieSpan all = vocabulary_whole(g->vocabulary);
    size_t same;
    n = repeats_add(g, all, g->places, n, mask);
    for (size_t i = 0; i < n && !g->states.error.status; i += same) {
        const uint32_t stack = g->places[i].stack;
        for (same = 1; i + same < n && g->places[i + same].stack == stack;) same++;
        const NetChain *chain = repeats_chain(g, all, stack);
        const bool amid = chain && !repeats_begin(g, chain, g->places + i, same);
        const uint32_t base = amid ? stack : g->states.stacks[stack].base;
        for (size_t k = i; k < i + same; k++)
            g->based[k] = (BasedPlace){deepest_base(g, g->places[k], base), g->places[k]};
    }
    if (g->states.error.status) return;
    if (n > 1) qsort(g->based, n, sizeof *g->based, by_base);
    for (size_t i = 0; i < n; i++) g->places[i] = g->based[i].place;
    for (size_t i = 0; i < n && !g->states.error.status; i += same) {
        for (same = 1; i + same < n && g->based[i + same].base == g->based[i].base;) same++;
        add_local(g, g->places + i, same, g->based[i].base, mask);
    }
}

// Adds the tokens of a state's places, in g->places [n]. Where a tree of classes is there for all that they tell apart,
// by that; it is made where the other ways have turned out long.
static void add_state(Grammar *g, uint32_t state, size_t n, uint32_t *mask) {
    Region region = {{0}, {0}};
    const ClassTree *tree = NULL;
    for (size_t i = 0; i < n; i++) walk_join(g, g->places[i], STATES_BOTTOM, &region);
    const bool known = class_tree_find(g->vocabulary, &region, &tree);
    if (tree) {
        walk_classes(g, state, tree, mask, false);
        return;
    }
    g->n_walked = 0;
    add_places(g, n, mask);
    if (!known && g->n_walked >= REPEATS_LONG) class_tree_make(g->vocabulary, &region);
}

const uint32_t *masks_of(Grammar *g, uint32_t state) {
    const size_t words = vocabulary_words(g->vocabulary), n = g->states.states[state].n;
    if (g->states.states[state].mask) return g->states.states[state].mask;
    uint32_t *mask = calloc(words, sizeof *mask);
    if (!mask) return grammar_no_memory(g), NULL;
    if (n) memcpy(g->places, g->states.places + g->states.states[state].first, n * sizeof *g->places);
    add_state(g, state, n, mask);
    if (g->states.error.status) {
        free(mask);
        return NULL;
    }
    g->states.states[state].mask = mask;
    g->states.bytes += words * sizeof *mask;
    return mask;
}

// Tokens that begin with a space have no space there if the tokenizer leaves one out: they fit where the rest does.
void masks_leave_spaces(Grammar *g, uint32_t state, int32_t previous, uint32_t *mask) {
    const Vocabulary *v = g->vocabulary;
    uint32_t space = 0;
    size_t usual, here;
    while (space < v->n_nodes && v->nodes[space].byte != ' ') space = v->nodes[space].skip;
    if (space == v->n_nodes || v->spaced < 0) return;
    (void)tokenizer_bytes(v->tokenizer, v->before, v->spaced, false, &usual);
    (void)tokenizer_bytes(v->tokenizer, previous, v->spaced, false, &here);
    if (here == usual) return;
    memset(g->left, 0, vocabulary_words(v) * sizeof *g->left);
    repeats_walk(g, state, vocabulary_below(v, space), g->left, false);
    for (uint32_t t = v->nodes[space].token; t < v->nodes[v->nodes[space].skip].token; t++) {
        const uint32_t id = (uint32_t)v->tokens[t], bit = 1u << (id % 32);
        if (tokenizer_kind(v->tokenizer, v->tokens[t]) == TOKEN_NORMAL)
            mask[id / 32] = (mask[id / 32] & ~bit) | (g->left[id / 32] & bit);
    }
}

// ---- ahead of need ------------------------------------------------------------------------------------------------

// What the vocabulary keeps for repetitions.
static void make_loops(Grammar *g) {
    const NetChain *chains = g->net.chains;
    const TrieSpan all = vocabulary_whole(g->vocabulary);
    for (uint32_t i = 0, n_units = 0, n = 0; i < g->net.n_chains && n_units < AHEAD_UNITS; i++) {
        if (i > 0 && chains[i].body == chains[i - 1].body) continue;
        const Unit *unit = repeats_unit(g, chains[i].body);
        n_units++;
        if (!unit || n == AHEAD_LOOPS || !repeats_broad(g->vocabulary, all, unit)) continue;
        loop_table(g->vocabulary, all, unit);
        n++;
    }
}

// What it keeps for the regions of most nodes: texts are there most of the time.
static void make_classes(Grammar *g) {
    const Regions *r = &g->regions;
    uint32_t counts[REGIONS_MOST] = {0};
    const ClassTree *tree;
    for (uint32_t i = 0; i < g->net.n; i++) counts[r->of[i]]++;
    counts[r->of[g->net.start]] = UINT32_MAX; // the whole text's
    counts[0] = 0;                            // the empty one
    for (int k = 0; k < AHEAD_TREES; k++) {
        size_t most = 0;
        for (size_t i = 1; i < r->n; i++)
            if (counts[i] > counts[most]) most = i;
        if (most == 0) return;
        counts[most] = 0;
        if (!class_tree_find(g->vocabulary, &r->sets[most], &tree))
            class_tree_make(g->vocabulary, &r->sets[most]);
    }
}

// ---- room ---------------------------------------------------------------------------------------------------------

Status masks_open(Grammar *g, Error *error) {
    const Vocabulary *v = g->vocabulary;
    g->line = malloc(((size_t)v->deepest + 1) * sizeof *g->line);
    g->found = malloc(vocabulary_words(v) * sizeof *g->found);
    g->left = malloc(vocabulary_words(v) * sizeof *g->left);
    g->ended = malloc((v->n_nodes + 1) * sizeof *g->ended);
    g->places = malloc(STATES_MOST_PLACES * sizeof *g->places);
    g->based = malloc(STATES_MOST_PLACES * sizeof *g->based);
    if (!g->line || !g->found || !g->left || !g->ended || !g->places || !g->based) {
        grammar_free_room(g);
        return error_no_memory(error, "a grammar");
    }
    make_loops(g);
    make_classes(g);
    return STATUS_OK;
}
