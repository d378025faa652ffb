#include "engine/grammar/masks/loops.h"

#include <stdlib.h>
#include <string.h>

// ---- units --------------------------------------------------------------------------------------------------------

typedef struct Finder {
    States states;
    uint32_t numbers[UNIT_MOST]; // of the unit's states among `states`
    Unit *unit;
} Finder;

// The unit's number of a state. UNIT_DEAD, too, where there are too many or it does not end where its end is told: then
// the unit is none, and n is 0.
static uint8_t number_of(Finder *f, uint32_t state) {
    if (state == STATES_DEAD) return UNIT_DEAD;
    const State *known = &f->states.states[state];
    if (known->may_end && known->n == 0) return UNIT_DONE;
    for (uint32_t i = 0; i < f->unit->n; i++)
        if (f->numbers[i] == state) return (uint8_t)i;
    if (state == STATES_UNKNOWN || known->may_end || f->unit->n == UNIT_MOST) {
        f->unit->n = 0;
        return UNIT_DEAD;
    }
    f->numbers[f->unit->n] = state;
    return (uint8_t)f->unit->n++;
}

static void find_states(Finder *f, const Net *net, uint32_t body) {
    uint8_t of_class[256];
    if (number_of(f, states_at(&f->states, body, STATES_BOTTOM)) != 0) f->unit->n = 0;
    for (uint32_t i = 0; i < f->unit->n; i++) {
        for (int c = 0; c < net->n_classes && f->unit->n; c++)
            of_class[c] = number_of(f, states_step(&f->states, f->numbers[i], net->byte_of[c]));
        for (int byte = 0; byte < 256 && f->unit->n; byte++)
            f->unit->next[i][byte] = of_class[net->class_of[byte]];
    }
}

Unit *unit_make(const Net *net, uint32_t body) {
    Error error;
    Finder f = {.unit = calloc(1, sizeof(Unit) + UNIT_MOST * sizeof *f.unit->next)};
    if (!f.unit) return NULL;
    if (!states_open(net, &f.states, &error)) {
        find_states(&f, net, body);
        states_close(&f.states);
    }
    Unit *unit = f.unit->n ? realloc(f.unit, sizeof *unit + f.unit->n * sizeof *unit->next) : NULL;
    if (!unit) free(f.unit);
    return unit;
}

// ---- tables -------------------------------------------------------------------------------------------------------

static bool same_unit(const Unit *one, const Unit *other) {
    return one->n == other->n && !memcmp(one->next, other->next, one->n * sizeof *one->next);
}

// Where the path to a node stands.
typedef struct Stand {
    uint8_t state;
    uint16_t units; // whole ones
} Stand;

typedef struct Length {
    int32_t token;
    uint16_t units;
} Length;

static int longest_first(const void *a, const void *b) {
    const Length *x = a, *y = b;
    if (x->units != y->units) return x->units > y->units ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

// Walks the span; `longest` gets the tokens that no mask is for. Returns how many these are.
static size_t fill(const Vocabulary *v, LoopTable *t, Stand *line, Length *longest) {
    const size_t words = vocabulary_words(v);
    size_t n_long = 0;
    line[v->nodes[t->span.first].depth - 1] = (Stand){0};
    for (uint32_t i = t->span.first; i < t->span.end;) {
        const TrieNode node = v->nodes[i];
        Stand stand = line[node.depth - 1];
        stand.state = t->unit->next[stand.state][node.byte];
        if (stand.state == UNIT_DEAD) {
            for (uint32_t k = i; k < node.skip; k++) t->units[k - t->span.first] = LOOP_NONE;
            i = node.skip;
            continue;
        }
        const uint16_t begun = stand.units + 1;
        if (stand.state == UNIT_DONE) stand = (Stand){0, begun};
        line[node.depth] = stand;
        t->units[i - t->span.first] = stand.state ? LOOP_NONE : begun;
        for (uint32_t k = node.token; k < v->nodes[i + 1].token; k++) {
            const uint32_t id = (uint32_t)v->tokens[k];
            if (begun <= LOOP_MASKS)
                t->masks[(begun - 1u) * words + id / 32] |= 1u << (id % 32);
            else
                longest[n_long++] = (Length){(int32_t)id, begun};
        }
        i++;
    }
    return n_long;
}

static void table_free(LoopTable *t) {
    if (!t) return;
    free(t->unit);
    free(t->units);
    free(t->masks);
    free(t->long_tokens);
    free(t->lengths);
    free(t);
}

static void free_tables(LoopTable *newest) {
    while (newest) {
        LoopTable *older = newest->older;
        table_free(newest);
        newest = older;
    }
}

// Each mask takes in the one before; the last also the longest tokens.
static bool finish(LoopTable *t, size_t words, Length *longest, size_t n_long) {
    t->n_long = n_long;
    t->long_tokens = malloc((n_long + 1) * sizeof *t->long_tokens);
    t->lengths = malloc((n_long + 1) * sizeof *t->lengths);
    if (!t->long_tokens || !t->lengths) return false;
    for (size_t i = words; i < (LOOP_MASKS + 1) * words; i++) t->masks[i] |= t->masks[i - words];
    if (n_long > 1) qsort(longest, n_long, sizeof *longest, longest_first);
    for (size_t i = 0; i < n_long; i++) {
        const uint32_t id = (uint32_t)longest[i].token;
        t->masks[LOOP_MASKS * words + id / 32] |= 1u << (id % 32);
        t->long_tokens[i] = longest[i].token;
        t->lengths[i] = longest[i].units;
    }
    return true;
}

static LoopTable *table_make(const Vocabulary *v, TrieSpan span, const Unit *unit) {
    const size_t words = vocabulary_words(v), bytes = sizeof *unit + unit->n * sizeof *unit->next;
    LoopTable *t = calloc(1, sizeof *t);
    Stand *line = malloc(((size_t)v->deepest + 1) * sizeof *line);
    Length *longest =
        malloc(((size_t)v->nodes[span.end].token - v->nodes[span.first].token + 1) * sizeof *longest);
    if (t) {
        t->unit = malloc(bytes);
        t->span = span;
        t->units = malloc((span.end - span.first + 1) * sizeof *t->units);
        t->masks = calloc((LOOP_MASKS + 1) * words, sizeof *t->masks);
    }
    bool made = line && longest && t && t->unit && t->units && t->masks;
    if (made) {
        memcpy(t->unit, unit, bytes);
        made = finish(t, words, longest, fill(v, t, line, longest));
    }
    free(line);
    free(longest);
    if (made) return t;
    table_free(t);
    return NULL;
}

const LoopTable *loop_table(Vocabulary *v, TrieSpan span, const Unit *unit) {
    int n = 0;
    for (LoopTable **at = &v->loops; *at; at = &(*at)->older) {
        if ((*at)->span.first == span.first && same_unit((*at)->unit, unit)) return *at;
        if (++n < LOOPS_MOST) continue;
        free_tables((*at)->older);
        (*at)->older = NULL;
    }
    LoopTable *t = table_make(v, span, unit);
    if (!t) return NULL;
    t->older = v->loops;
    v->loops = t;
    v->free_loops = free_tables;
    return t;
}

void loop_add(const LoopTable *t, size_t words, int most, uint32_t *room, uint32_t *mask) {
    const uint32_t *fitting =
        t->masks + (most > 0 && most <= LOOP_MASKS ? (size_t)most - 1 : LOOP_MASKS) * words;
    if (most > LOOP_MASKS && t->n_long > 0 && t->lengths[0] > most) {
        memcpy(room, fitting, words * sizeof *room);
        for (size_t i = 0; i < t->n_long && t->lengths[i] > most; i++)
            room[t->long_tokens[i] / 32] &= ~(1u << (t->long_tokens[i] % 32));
        fitting = room;
    }
    for (size_t i = 0; i < words; i++) mask[i] |= fitting[i];
}
