#include "engine/grammar/masks/repeats.h"

#include "kernels/base/array.h"

#include <stdlib.h>
#include <string.h>

enum {
    END = 0, // of a net
    MOST_UNITS = 256,
    FEW = 16,         // a repetition is walked through that may be left at more than one of so many nodes,
    MOST_STACKS = 16, // and text that can be read in more ways than these
};

static void add_below(Grammar *g, uint32_t state, TrieSpan span, uint32_t *mask);

uint32_t repeats_walk(Grammar *g, uint32_t state, TrieSpan span, uint32_t *mask, bool list) {
    const TrieNode *nodes = g->vocabulary->nodes;
    const int32_t *tokens = g->vocabulary->tokens;
    if (span.first >= span.end) return 0;
    uint32_t *line = g->line, n_ended = 0;
    line[nodes[span.first].depth - 1] = state;
    for (uint32_t i = span.first; i < span.end; g->n_walked++) {
        const TrieNode node = nodes[i];
        uint32_t next = states_step(&g->states, line[node.depth - 1], node.byte);
        if (next <= STATES_DEAD) {
            if (g->states.error.status) return 0;
            i = node.skip;
            continue;
        }
        line[node.depth] = next;
        for (uint32_t t = node.token; t < nodes[i + 1].token; t++)
            mask[tokens[t] / 32] |= 1u << (tokens[t] % 32);
        if (list && g->states.states[next].may_end) g->ended[n_ended++] = i;
        i++;
        if (!list && node.skip - i >= REPEATS_LONG) {
            add_below(g, next, (TrieSpan){i, node.skip}, mask);
            i = node.skip;
        }
    }
    return n_ended;
}

const Unit *repeats_unit(Grammar *g, uint32_t body) {
    const NetNode *nodes = g->net.nodes;
    while (nodes[body].type == NET_CALL && nodes[body].b == END) body = nodes[body].a;
    for (size_t i = 0; i < g->n_units; i++)
        if (g->units[i].body == body) return g->units[i].unit;
    if (g->n_units == MOST_UNITS ||
        !array_reserve(&g->units, sizeof *g->units, g->n_units, 1, &g->units_capacity))
        return NULL;
    g->units[g->n_units] = (BodyUnit){body, unit_make(&g->net, body)};
    return g->units[g->n_units++].unit;
}

bool repeats_broad(const Vocabulary *v, TrieSpan span, const Unit *unit) {
    uint32_t n = 0;
    for (uint32_t i = span.first; i < span.end && n < REPEATS_LONG; i = v->nodes[i].skip)
        if (unit->next[0][v->nodes[i].byte] != UNIT_DEAD) n += v->nodes[i].skip - i;
    return n >= REPEATS_LONG;
}

// The first node of a byte from `least` on, in the vocabulary's list.
static uint32_t first_of(const Vocabulary *v, int byte, uint32_t least) {
    uint32_t low = v->of_byte[byte], high = v->of_byte[byte + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (v->by_byte[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Which bytes lead on from `state`; false: many nodes of the span have them.
static bool few_exits(Grammar *g, TrieSpan span, uint32_t state, bool leads[256]) {
    const uint32_t most = (span.end - span.first) / FEW;
    bool class_leads[256] = {false};
    uint32_t n = 0;
    for (int c = 0; c < g->net.n_classes; c++)
        class_leads[c] = states_step(&g->states, state, g->net.byte_of[c]) > STATES_DEAD;
    for (int byte = 0; byte < 256 && n <= most; byte++) {
        leads[byte] = class_leads[g->net.class_of[byte]];
        if (leads[byte])
            n += first_of(g->vocabulary, byte, span.end) - first_of(g->vocabulary, byte, span.first);
    }
    return n <= most;
}

// Where a repetition is left: for which state, by which bytes, behind how many units (most −1: any number).
typedef struct Exit {
    uint32_t state;
    bool leads[256];
    int least, most;
} Exit;

// Adds the tokens that leave a repetition.
static void add_exits(Grammar *g, const LoopTable *table, const Exit *exit, uint32_t *mask) {
    const Vocabulary *v = g->vocabulary;
    for (int byte = 0; byte < 256 && !g->states.error.status; byte++) {
        if (!exit->leads[byte]) continue;
        const uint32_t end = first_of(v, byte, table->span.end);
        for (uint32_t i = first_of(v, byte, table->span.first); i < end; i++) {
            const uint32_t node = v->by_byte[i], parent = v->parents[node];
            const bool inside = parent >= table->span.first && parent < table->span.end;
            const int units = inside ? table->units[parent - table->span.first] : LOOP_NONE;
            if (units != LOOP_NONE && units >= exit->least && (exit->most < 0 || units <= exit->most))
                repeats_walk(g, exit->state, (TrieSpan){node, v->nodes[node].skip}, mask, false);
        }
    }
}

const NetChain *repeats_chain(Grammar *g, TrieSpan span, uint32_t stack) {
    const uint32_t number = stack == STATES_BOTTOM ? 0 : g->net.nodes[g->states.stacks[stack].back].chain;
    const NetChain *chain = &g->net.chains[number - 1];
    const Unit *unit = number ? repeats_unit(g, chain->body) : NULL;
    return unit && repeats_broad(g->vocabulary, span, unit) ? chain : NULL;
}

bool repeats_begin(Grammar *g, const NetChain *chain, const Place *places, size_t n) {
    const uint32_t local = states_local(&g->states, places, n, places->stack);
    return local == states_at(&g->states, chain->body, STATES_BOTTOM);
}

// Adds the span's tokens of places [n] with one stack whose top is a repetition's, where a unit begins. False: they are
// to be walked for.
static bool add_repeated(Grammar *g, TrieSpan span, const Place *places, size_t n, uint32_t *mask) {
    const StackCell cell = g->states.stacks[places->stack];
    const NetChain *chain = repeats_chain(g, span, places->stack);
    if (!chain || !repeats_begin(g, chain, places, n)) return false;
    // The unit that begins here was counted when the stack was made.
    Exit exit = {.state = states_at(&g->states, chain->exit, cell.below),
                 .least = chain->needed + 1,
                 .most = chain->left < 0 ? -1 : chain->left + 1};
    if (g->states.error.status || !few_exits(g, span, exit.state, exit.leads)) return false;
    const LoopTable *table = loop_table(g->vocabulary, span, repeats_unit(g, chain->body));
    if (!table) return grammar_no_memory(g);
    loop_add(table, vocabulary_words(g->vocabulary), exit.most, g->found, mask);
    add_exits(g, table, &exit, mask);
    return true;
}

size_t repeats_add(Grammar *g, TrieSpan span, Place *places, size_t n, uint32_t *mask) {
    size_t n_rest = 0, same, n_stacks = n > 0;
    for (size_t i = 1; i < n; i++) n_stacks += places[i].stack != places[i - 1].stack;
    if (n_stacks > MOST_STACKS) return n;
    for (size_t i = 0; i < n && !g->states.error.status; i += same) {
        for (same = 1; i + same < n && places[i + same].stack == places[i].stack;) same++;
        if (add_repeated(g, span, places + i, same, mask)) continue;
        memmove(places + n_rest, places + i, same * sizeof *places);
        n_rest += same;
    }
    return n_rest;
}

static void add_below(Grammar *g, uint32_t state, TrieSpan span, uint32_t *mask) {
    const size_t n = g->states.states[state].n;
    if (n == 0) return;
    Place *places = malloc(n * sizeof *places);
    if (!places) {
        grammar_no_memory(g);
        return;
    }
    memcpy(places, g->states.places + g->states.states[state].first, n * sizeof *places);
    const size_t n_rest = repeats_add(g, span, places, n, mask);
    if (n_rest > 0 && n_rest < n) state = states_local(&g->states, places, n_rest, STATES_BOTTOM);
    if (n_rest > 0 && !g->states.error.status) repeats_walk(g, state, span, mask, false);
    free(places);
}
