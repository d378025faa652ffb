#include "engine/grammar/masks.h"

#include "engine/grammar/loops.h"
#include "kernels/base/array.h"

#include <stdlib.h>
#include <string.h>

enum {
    END = 0, // of a net
    MOST_UNITS = 256,
    BROAD = 4096,     // nodes of the tree: a repetition that reaches fewer is walked through,
    FEW = 16,         // as one that may be left at more than one of so many nodes,
    MOST_STACKS = 16, // and text that can be read in more ways than these
};

// What is known of places whose stacks have one base, as if it were the bottom.
struct Local {
    uint32_t n_ended;
    uint32_t
        words[]; // the mask of tokens that begin within; [n_ended] nodes at which the bottom's rule may end
};

static bool no_memory(Grammar *g) {
    g->states.error.status = error_no_memory(&g->states.error, "a grammar");
    return false;
}

// ---- walks --------------------------------------------------------------------------------------------------------

static void add_below(Grammar *g, uint32_t state, TrieSpan span, uint32_t *mask);

// Marks the tokens of a span that fit from `state`, which stands for the span's parent. With `list`, the nodes at
// which the text may end are put into g->ended. Returns how many.
static uint32_t walk(Grammar *g, uint32_t state, TrieSpan span, uint32_t *mask, bool list) {
    const TrieNode *nodes = g->vocabulary->nodes;
    const int32_t *tokens = g->vocabulary->tokens;
    if (span.first >= span.end) return 0;
    uint32_t *line = g->line, n_ended = 0;
    line[nodes[span.first].depth - 1] = state;
    for (uint32_t i = span.first; i < span.end;) {
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
        if (!list && node.skip - i >= BROAD) {
            add_below(g, next, (TrieSpan){i, node.skip}, mask);
            i = node.skip;
        }
    }
    return n_ended;
}

static TrieSpan whole(const Vocabulary *v) {
    return (TrieSpan){0, v->n_nodes};
}

static TrieSpan below(const Vocabulary *v, uint32_t node) {
    return (TrieSpan){node + 1, v->nodes[node].skip};
}

// What is known of places [n] with stacks on `base`. NULL: it cannot be found.
static struct Local *local_of(Grammar *g, const Place *places, size_t n, uint32_t base) {
    const size_t words = vocabulary_words(g->vocabulary);
    uint32_t state = states_local(&g->states, places, n, base);
    if (g->states.error.status) return NULL;
    if (g->states.states[state].local) return g->states.states[state].local;
    memset(g->found, 0, words * sizeof *g->found);
    uint32_t n_ended = walk(g, state, whole(g->vocabulary), g->found, true);
    if (g->states.error.status) return NULL;
    size_t bytes = sizeof(struct Local) + (words + n_ended) * sizeof(uint32_t);
    struct Local *local = malloc(bytes);
    if (!local) return no_memory(g), NULL;
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
        walk(g, states_local(&g->states, places, n, base), whole(g->vocabulary), mask, false);
        return;
    }
    const struct Local *local = local_of(g, places, n, base);
    if (!local) return;
    for (size_t i = 0; i < words; i++) mask[i] |= local->words[i];
    const uint32_t state = local->n_ended ? states_return(&g->states, base) : STATES_DEAD;
    const uint32_t *ended = local->words + words;
    if (state <= STATES_DEAD) return;
    for (uint32_t i = 0; i < local->n_ended && !g->states.error.status; i++)
        walk(g, state, below(g->vocabulary, ended[i]), mask, false);
}

// ---- repetitions --------------------------------------------------------------------------------------------------

// The unit that a repetition's body is; NULL: it is none.
static const Unit *unit_of(Grammar *g, uint32_t body) {
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

static bool is_broad(const Vocabulary *v, TrieSpan span, const Unit *unit) {
    uint32_t n = 0;
    for (uint32_t i = span.first; i < span.end && n < BROAD; i = v->nodes[i].skip)
        if (unit->next[0][v->nodes[i].byte] != UNIT_DEAD) n += v->nodes[i].skip - i;
    return n >= BROAD;
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
                walk(g, exit->state, (TrieSpan){node, v->nodes[node].skip}, mask, false);
        }
    }
}

// The repetition of units, broad ones, that is a stack's top; NULL: it is none.
static const NetChain *repetition_of(Grammar *g, TrieSpan span, uint32_t stack) {
    const uint32_t number = stack == STATES_BOTTOM ? 0 : g->net.nodes[g->states.stacks[stack].back].chain;
    const NetChain *chain = &g->net.chains[number - 1];
    const Unit *unit = number ? unit_of(g, chain->body) : NULL;
    return unit && is_broad(g->vocabulary, span, unit) ? chain : NULL;
}

// Whether places [n] with one stack are where a unit begins.
static bool is_beginning(Grammar *g, const NetChain *chain, const Place *places, size_t n) {
    const uint32_t local = states_local(&g->states, places, n, places->stack);
    return local == states_at(&g->states, chain->body, STATES_BOTTOM);
}

// Adds the span's tokens of places [n] with one stack whose top is a repetition's, where a unit begins. False: they are
// to be walked for.
static bool add_repeated(Grammar *g, TrieSpan span, const Place *places, size_t n, uint32_t *mask) {
    const StackCell cell = g->states.stacks[places->stack];
    const NetChain *chain = repetition_of(g, span, places->stack);
    if (!chain || !is_beginning(g, chain, places, n)) return false;
    // The unit that begins here was counted when the stack was made.
    Exit exit = {.state = states_at(&g->states, chain->exit, cell.below),
                 .least = chain->needed + 1,
                 .most = chain->left < 0 ? -1 : chain->left + 1};
    if (g->states.error.status || !few_exits(g, span, exit.state, exit.leads)) return false;
    const LoopTable *table = loop_table(g->vocabulary, span, unit_of(g, chain->body));
    if (!table) return no_memory(g);
    loop_add(table, vocabulary_words(g->vocabulary), exit.most, g->found, mask);
    add_exits(g, table, &exit, mask);
    return true;
}

// Adds what add_repeated() can of a state's places, in `places`, [n]. Returns how many are left, now the first ones.
static size_t add_repetitions(Grammar *g, TrieSpan span, Place *places, size_t n, uint32_t *mask) {
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

// Adds a span's tokens, as walk() does, where they are many.
static void add_below(Grammar *g, uint32_t state, TrieSpan span, uint32_t *mask) {
    const size_t n = g->states.states[state].n;
    if (n == 0) return;
    Place *places = malloc(n * sizeof *places);
    if (!places) {
        no_memory(g);
        return;
    }
    memcpy(places, g->states.places + g->states.states[state].first, n * sizeof *places);
    const size_t n_rest = add_repetitions(g, span, places, n, mask);
    if (n_rest > 0 && n_rest < n) state = states_local(&g->states, places, n_rest, STATES_BOTTOM);
    if (n_rest > 0 && !g->states.error.status) walk(g, state, span, mask, false);
    free(places);
}

// ---- masks --------------------------------------------------------------------------------------------------------

static int by_base(const void *a, const void *b) {
    const BasedPlace *x = a, *y = b;
    if (x->base != y->base) return x->base < y->base ? -1 : 1;
    return 0;
}

// The places [n] of a state, in g->places: repetitions first, the others by their base. Amid a unit of a repetition
// it is that: all times of it have the same units.
static void add_places(Grammar *g, size_t n, uint32_t *mask) {
    const TrieSpan all = whole(g->vocabulary);
    size_t same;
    n = add_repetitions(g, all, g->places, n, mask);
    for (size_t i = 0; i < n && !g->states.error.status; i += same) {
        const uint32_t stack = g->places[i].stack;
        for (same = 1; i + same < n && g->places[i + same].stack == stack;) same++;
        const NetChain *chain = repetition_of(g, all, stack);
        const bool amid = chain && !is_beginning(g, chain, g->places + i, same);
        for (size_t k = i; k < i + same; k++)
            g->based[k] = (BasedPlace){amid ? stack : g->states.stacks[stack].base, g->places[k]};
    }
    if (g->states.error.status) return;
    if (n > 1) qsort(g->based, n, sizeof *g->based, by_base);
    for (size_t i = 0; i < n; i++) g->places[i] = g->based[i].place;
    for (size_t i = 0; i < n && !g->states.error.status; i += same) {
        for (same = 1; i + same < n && g->based[i + same].base == g->based[i].base;) same++;
        add_local(g, g->places + i, same, g->based[i].base, mask);
    }
}

const uint32_t *masks_of(Grammar *g, uint32_t state) {
    const size_t words = vocabulary_words(g->vocabulary), n = g->states.states[state].n;
    if (g->states.states[state].mask) return g->states.states[state].mask;
    uint32_t *mask = calloc(words, sizeof *mask);
    if (!mask) return no_memory(g), NULL;
    if (n) memcpy(g->places, g->states.places + g->states.states[state].first, n * sizeof *g->places);
    add_places(g, n, mask);
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
    walk(g, state, below(v, space), g->left, false);
    for (uint32_t t = v->nodes[space].token; t < v->nodes[v->nodes[space].skip].token; t++) {
        const uint32_t id = (uint32_t)v->tokens[t], bit = 1u << (id % 32);
        if (tokenizer_kind(v->tokenizer, v->tokens[t]) == TOKEN_NORMAL)
            mask[id / 32] = (mask[id / 32] & ~bit) | (g->left[id / 32] & bit);
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
    if (g->line && g->found && g->left && g->ended && g->places && g->based) return STATUS_OK;
    grammar_free_room(g);
    return error_no_memory(error, "a grammar");
}
