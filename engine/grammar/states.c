#include "engine/grammar/states.h"

#include "kernels/base/array.h"

enum { END = 0, MOST_COMPARED = 64 }; // the end of a net; places of one shape that are compared with each

// ---- tables -------------------------------------------------------------------------------------------------------

static uint32_t hash_pair(uint32_t a, uint32_t b) {
    uint64_t h = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32) ^ (uint32_t)h;
}

static bool no_memory(States *s) {
    s->error.status = error_no_memory(&s->error, "a grammar");
    return false;
}

static uint32_t hash_places(const Place *places, size_t n, bool may_end) {
    uint32_t h = may_end;
    for (size_t i = 0; places && i < n; i++) h = hash_pair(h ^ places[i].node, places[i].stack + (h << 7));
    return h;
}

static uint32_t hash_of_state(const States *s, size_t i) {
    return hash_places(s->places + s->states[i].first, s->states[i].n, s->states[i].may_end);
}
static uint32_t hash_of_stack(const States *s, size_t i) {
    return hash_pair(s->stacks[i].back, s->stacks[i].below);
}
static uint32_t hash_of_seen(const States *s, size_t i) {
    return hash_pair(s->seen[i].node, s->seen[i].stack);
}

// Makes a table twice as large where n of its places would be more than half.
static bool table_grow(States *s, PairTable *t, size_t n, uint32_t (*hash)(const States *, size_t)) {
    if (2 * (n + 1) <= t->capacity) return true;
    size_t capacity = t->capacity ? 2 * t->capacity : 256;
    uint32_t *slots = calloc(capacity, sizeof *slots);
    if (!slots) return no_memory(s);
    for (size_t i = 0; i < n; i++) {
        size_t at = hash(s, i) & (capacity - 1);
        while (slots[at]) at = (at + 1) & (capacity - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    *t = (PairTable){slots, capacity};
    return true;
}

// ---- stacks -------------------------------------------------------------------------------------------------------

// The repetition that a node belongs to if its text need not come any more, and may still come so often; 0: none.
static uint32_t family_of(const Net *net, uint32_t back) {
    const uint32_t number = net->nodes[back].chain;
    const NetChain *chain = &net->chains[number - 1];
    return number && chain->needed == 0 && chain->left >= 0 ? number - (uint32_t)chain->left : 0;
}

// Whether all that may follow on stack `less` may on `more`: they differ in repetitions that may come more often there.
static bool covers(const States *s, uint32_t more, uint32_t less) {
    const Net *net = s->net;
    for (; more != less; more = s->stacks[more].below, less = s->stacks[less].below) {
        if (more == STATES_BOTTOM || less == STATES_BOTTOM) return false;
        const uint32_t a = s->stacks[more].back, b = s->stacks[less].back;
        if (a == b) continue;
        const uint32_t family = family_of(net, a);
        if (!family || family != family_of(net, b) || net->nodes[a].chain < net->nodes[b].chain) return false;
    }
    return true;
}

// The stack with one call more; false: there is none so deep, or no memory.
static bool push_stack(States *s, uint32_t back, uint32_t below, uint32_t *stack) {
    if (!table_grow(s, &s->of_stacks, s->n_stacks, hash_of_stack)) return false;
    size_t mask = s->of_stacks.capacity - 1, at = hash_pair(back, below) & mask;
    for (uint32_t i; (i = s->of_stacks.slots[at]) != 0; at = (at + 1) & mask)
        if (s->stacks[i - 1].back == back && s->stacks[i - 1].below == below) {
            *stack = i - 1;
            return true;
        }
    uint32_t depth = s->stacks[below].depth + 1;
    if (depth > STATES_DEEPEST) return false;
    if (!array_reserve(&s->stacks, sizeof *s->stacks, s->n_stacks, 1, &s->stacks_capacity))
        return no_memory(s);
    *stack = (uint32_t)s->n_stacks++;
    uint32_t base = s->net->nodes[back].chain ? s->stacks[below].base : *stack;
    const uint32_t family = family_of(s->net, back);
    s->stacks[*stack] = (StackCell){.back = back,
                                    .below = below,
                                    .depth = depth,
                                    .base = base,
                                    .shape = hash_pair(family ? ~family : back, s->stacks[below].shape),
                                    .counted = family || s->stacks[below].counted};
    s->bytes += sizeof *s->stacks;
    s->of_stacks.slots[at] = *stack + 1;
    return true;
}

// ---- closures -----------------------------------------------------------------------------------------------------

static void closure_begin(States *s) {
    s->n_seen = s->n_found = 0;
    // Most closures are small: a table that a large one has made grow is used from its beginning only.
    if (s->of_seen.capacity > 256) s->of_seen.capacity = 256;
    if (s->of_seen.capacity) memset(s->of_seen.slots, 0, s->of_seen.capacity * sizeof *s->of_seen.slots);
}

// A place that the closure has come to; each once.
static void see(States *s, uint32_t node, uint32_t stack) {
    if (s->error.status || !table_grow(s, &s->of_seen, s->n_seen, hash_of_seen)) return;
    size_t mask = s->of_seen.capacity - 1, at = hash_pair(node, stack) & mask;
    for (uint32_t i; (i = s->of_seen.slots[at]) != 0; at = (at + 1) & mask)
        if (s->seen[i - 1].node == node && s->seen[i - 1].stack == stack) return;
    if (s->n_seen >= 16 * STATES_MOST_PLACES) {
        s->error.status = error_set(&s->error, STATUS_UNSUPPORTED,
                                    "the grammar can be read in too many ways at once (more than %d)",
                                    16 * STATES_MOST_PLACES);
        return;
    }
    if (!array_reserve(&s->seen, sizeof *s->seen, s->n_seen, 1, &s->seen_capacity)) {
        no_memory(s);
        return;
    }
    s->seen[s->n_seen] = (Place){node, stack};
    s->of_seen.slots[at] = (uint32_t)++s->n_seen;
}

// Goes from what was seen to all that is reached without a byte.
static bool follow(States *s) {
    bool may_end = false;
    for (size_t i = 0; i < s->n_seen && !s->error.status; i++) {
        const Place p = s->seen[i];
        const NetNode *node = &s->net->nodes[p.node];
        uint32_t stack = p.stack;
        switch (node->type) {
        case NET_BYTES:
            if (!array_reserve(&s->found, sizeof *s->found, s->n_found, 1, &s->found_capacity))
                no_memory(s);
            else
                s->found[s->n_found++] = p;
            break;
        case NET_SPLIT:
            see(s, node->a, stack);
            see(s, node->b, stack);
            break;
        case NET_CALL:
            if (node->b == END || push_stack(s, node->b, p.stack, &stack)) see(s, node->a, stack);
            break;
        case NET_END:
            if (stack == STATES_BOTTOM)
                may_end = true;
            else
                see(s, s->stacks[stack].back, s->stacks[stack].below);
            break;
        default:
            break;
        }
    }
    return may_end;
}

static int by_stack(const void *a, const void *b) {
    const Place *x = a, *y = b;
    if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

// The state of these places, which is added where there is none.
static uint32_t intern(States *s, const Place *places, size_t n, bool may_end) {
    if (s->error.status) return STATES_UNKNOWN;
    if (n == 0 && !may_end) return STATES_DEAD;
    if (n > STATES_MOST_PLACES || s->bytes > STATES_HARD_BYTES) {
        s->error.status =
            error_set(&s->error, STATUS_UNSUPPORTED,
                      "the grammar can be read in too many ways at once: more than fit into %d MB",
                      STATES_HARD_BYTES >> 20);
        return STATES_UNKNOWN;
    }
    if (!table_grow(s, &s->of_states, s->n, hash_of_state)) return STATES_UNKNOWN;
    size_t mask = s->of_states.capacity - 1, at = hash_places(places, n, may_end) & mask;
    for (uint32_t i; (i = s->of_states.slots[at]) != 0; at = (at + 1) & mask) {
        const State *known = &s->states[i - 1];
        if (i - 1 > STATES_DEAD && known->n == n && known->may_end == may_end &&
            (n == 0 || !memcmp(s->places + known->first, places, n * sizeof *places)))
            return i - 1;
    }
    size_t classes = (size_t)s->net->n_classes;
    if (!array_reserve(&s->states, sizeof *s->states, s->n, 1, &s->states_capacity) ||
        !array_reserve(&s->places, sizeof *s->places, s->n_places, n, &s->places_capacity) ||
        !array_reserve(&s->next, sizeof *s->next, s->n * classes, classes, &s->next_capacity)) {
        no_memory(s);
        return STATES_UNKNOWN;
    }
    if (n) memcpy(s->places + s->n_places, places, n * sizeof *places);
    memset(s->next + s->n * classes, 0, classes * sizeof *s->next);
    s->states[s->n] = (State){.first = (uint32_t)s->n_places, .n = (uint32_t)n, .may_end = may_end};
    s->n_places += n;
    s->bytes += sizeof(State) + n * sizeof *places + classes * sizeof *s->next;
    s->of_states.slots[at] = (uint32_t)s->n + 1;
    return (uint32_t)s->n++;
}

// Leaves out a place of one node and shape where one that is kept does more. Returns how many of them [n] are kept.
static size_t keep_largest(const States *s, Place *places, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const Place place = places[i];
        size_t left = 0;
        bool is_more = true;
        for (size_t k = 0; k < kept && is_more; k++)
            is_more = k >= MOST_COMPARED || !covers(s, places[k].stack, place.stack);
        if (!is_more) continue;
        for (size_t k = 0; k < kept; k++)
            if (k >= MOST_COMPARED || !covers(s, place.stack, places[k].stack)) places[left++] = places[k];
        places[left++] = place;
        kept = left;
    }
    return kept;
}

typedef struct Shaped {
    uint32_t node, shape, stack;
} Shaped;

static int by_shape(const void *a, const void *b) {
    const Shaped *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->shape < y->shape ? -1 : x->shape > y->shape;
}

// Leaves out of the places found what others do as well.
static void prune(States *s) {
    size_t n_counted = 0, n_kept = 0, same;
    for (size_t i = 0; i < s->n_found; i++) n_counted += s->stacks[s->found[i].stack].counted;
    if (n_counted < 2) return;
    Shaped *shaped = malloc(s->n_found * sizeof *shaped);
    if (!shaped) {
        no_memory(s);
        return;
    }
    for (size_t i = 0; i < s->n_found; i++)
        shaped[i] = (Shaped){s->found[i].node, s->stacks[s->found[i].stack].shape, s->found[i].stack};
    qsort(shaped, s->n_found, sizeof *shaped, by_shape);
    for (size_t i = 0; i < s->n_found; i++) s->found[i] = (Place){shaped[i].node, shaped[i].stack};
    for (size_t i = 0; i < s->n_found; i += same) {
        for (same = 1; i + same < s->n_found && !by_shape(&shaped[i], &shaped[i + same]);) same++;
        const size_t kept = same > 1 ? keep_largest(s, s->found + i, same) : 1;
        memmove(s->found + n_kept, s->found + i, kept * sizeof *s->found);
        n_kept += kept;
    }
    s->n_found = n_kept;
    free(shaped);
}

static uint32_t closure_end(States *s) {
    bool may_end = follow(s);
    prune(s);
    if (s->n_found > 1) qsort(s->found, s->n_found, sizeof *s->found, by_stack);
    return intern(s, s->found, s->n_found, may_end);
}

uint32_t states_at(States *s, uint32_t node, uint32_t stack) {
    closure_begin(s);
    see(s, node, stack);
    return closure_end(s);
}

uint32_t states_start(States *s) {
    return states_at(s, s->net->start, STATES_BOTTOM);
}

uint32_t states_return(States *s, uint32_t stack) {
    return states_at(s, s->stacks[stack].back, s->stacks[stack].below);
}

uint32_t states_read(States *s, uint32_t state, uint8_t byte) {
    size_t at = state * (size_t)s->net->n_classes + s->net->class_of[byte];
    closure_begin(s);
    for (uint32_t i = 0; i < s->states[state].n; i++) {
        Place p = s->places[s->states[state].first + i];
        const NetNode *node = &s->net->nodes[p.node];
        if (byte >= node->first && byte <= node->last) see(s, node->a, p.stack);
    }
    uint32_t next = closure_end(s);
    s->next[at] = next;
    return next;
}

uint32_t states_local(States *s, const Place *places, size_t n, uint32_t bottom) {
    s->n_found = 0;
    if (!array_reserve(&s->found, sizeof *s->found, 0, n, &s->found_capacity))
        return no_memory(s), STATES_UNKNOWN;
    for (size_t i = 0; i < n && !s->error.status; i++) {
        uint32_t backs[STATES_DEEPEST], depth = 0, stack = STATES_BOTTOM;
        for (uint32_t at = places[i].stack; at != bottom; at = s->stacks[at].below)
            backs[depth++] = s->stacks[at].back;
        while (depth > 0 && push_stack(s, backs[depth - 1], stack, &stack)) depth--;
        s->found[i] = (Place){places[i].node, stack};
    }
    if (n > 1) qsort(s->found, n, sizeof *s->found, by_stack);
    return intern(s, s->found, n, false);
}

// ---- all of it ----------------------------------------------------------------------------------------------------

// The two states that are no sets, and the bottom of all stacks.
static Status begin(States *s, Error *error) {
    size_t classes = (size_t)s->net->n_classes;
    if (!array_reserve(&s->states, sizeof *s->states, 0, 2, &s->states_capacity) ||
        !array_reserve(&s->next, sizeof *s->next, 0, 2 * classes, &s->next_capacity) ||
        !array_reserve(&s->stacks, sizeof *s->stacks, 0, 1, &s->stacks_capacity))
        return error_no_memory(error, "a grammar");
    s->states[STATES_UNKNOWN] = s->states[STATES_DEAD] = (State){0};
    for (size_t i = 0; i < 2 * classes; i++) s->next[i] = STATES_DEAD;
    s->stacks[STATES_BOTTOM] = (StackCell){0};
    s->n = 2;
    s->n_stacks = 1;
    return STATUS_OK;
}

static void free_masks(States *s) {
    for (size_t i = 0; i < s->n; i++) {
        free(s->states[i].mask);
        free(s->states[i].local);
    }
}

Status states_open(const Net *net, States *states, Error *error) {
    *states = (States){.net = net};
    Status status = begin(states, error);
    if (status) states_close(states);
    return status;
}

void states_close(States *s) {
    free_masks(s);
    free(s->states);
    free(s->next);
    free(s->places);
    free(s->stacks);
    free(s->of_states.slots);
    free(s->of_stacks.slots);
    free(s->of_seen.slots);
    free(s->seen);
    free(s->found);
    *s = (States){0};
}

// A root's places in another one's numbers of stacks. Stacks lie behind those below them.
static Status keep_root(States *s, const States *old, uint32_t *root, uint32_t *stacks, Error *error) {
    const State *state = &old->states[*root];
    if (*root <= STATES_DEAD) return STATUS_OK;
    if (!array_reserve(&s->found, sizeof *s->found, 0, state->n, &s->found_capacity))
        return error_no_memory(error, "a grammar");
    for (uint32_t i = 0; i < state->n; i++) {
        Place p = old->places[state->first + i];
        uint32_t chain[STATES_DEEPEST], n = 0, stack = STATES_BOTTOM;
        for (uint32_t at = p.stack; at != STATES_BOTTOM; at = old->stacks[at].below) {
            if (stacks[at]) {
                stack = stacks[at];
                break;
            }
            chain[n++] = at;
        }
        while (n > 0) {
            uint32_t at = chain[--n];
            if (!push_stack(s, old->stacks[at].back, stack, &stack))
                return error_no_memory(error, "a grammar");
            stacks[at] = stack;
        }
        s->found[i] = (Place){p.node, stack};
    }
    if (state->n > 1) qsort(s->found, state->n, sizeof *s->found, by_stack);
    *root = intern(s, s->found, state->n, state->may_end);
    return s->error.status ? error_set(error, s->error.status, "%s", s->error.message) : STATUS_OK;
}

Status states_forget(States *states, uint32_t **roots, size_t n, Error *error) {
    States fresh;
    Status status = states_open(states->net, &fresh, error);
    if (status) return status;
    uint32_t *stacks = calloc(states->n_stacks, sizeof *stacks);
    if (!stacks) status = error_no_memory(error, "a grammar");
    for (size_t i = 0; i < n && !status; i++) status = keep_root(&fresh, states, roots[i], stacks, error);
    free(stacks);
    states_close(states);
    *states = fresh;
    return status;
}
