// Texts that fit several schemas at once: the product of their automata, written out as rules.
#include "engine/grammar/schema/schema_internal.h"
#include "engine/grammar/states.h"
#include "kernels/base/array.h"
#include "kernels/base/hash.h"

#include <string.h>

enum { MOST_TUPLES = 1 << 14, SLOTS = 2 * MOST_TUPLES };

// A state of each.
typedef struct Tuple {
    uint32_t states[SCHEMA_MOST_BOTH];
} Tuple;

typedef struct Product {
    Schema *schema;
    int n; // schemas
    Net nets[SCHEMA_MOST_BOTH];
    States states[SCHEMA_MOST_BOTH];
    bool needed[SCHEMA_MOST_BOTH]; // a text that all others take is not taken by it
    Tuple *tuples;                 // [n_tuples]
    size_t n_tuples, capacity;
    uint32_t *slots; // [SLOTS] 1 + the tuple, by its hash
    int *rules;      // [n_tuples] 1 + the rule of those without a dead state
} Product;

static bool same(const Tuple *a, const Tuple *b) {
    return !memcmp(a, b, sizeof *a);
}

// The tuple's number; it is added where it is new. UINT32_MAX: more than one is dead, or it failed.
static uint32_t number_of(Product *p, const Tuple *tuple) {
    int dead = 0;
    for (int i = 0; i < p->n; i++) dead += tuple->states[i] == STATES_DEAD;
    if (dead > 1 || schema_failed(p->schema)) return UINT32_MAX;
    size_t at = (size_t)hash_bytes(HASH_START, tuple, sizeof *tuple) % SLOTS;
    for (; p->slots[at]; at = (at + 1) % SLOTS)
        if (same(&p->tuples[p->slots[at] - 1], tuple)) return p->slots[at] - 1;
    if (p->n_tuples == MOST_TUPLES)
        schema_refuse(p->schema, "pattern, format and lengths together are too much to be written by");
    else if (!array_reserve(&p->tuples, sizeof *p->tuples, p->n_tuples, 1, &p->capacity))
        expr_fail(p->schema->builder, STATUS_MEMORY, "no memory for a grammar");
    if (schema_failed(p->schema)) return UINT32_MAX;
    p->tuples[p->n_tuples] = *tuple;
    p->slots[at] = (uint32_t)++p->n_tuples;
    return p->slots[at] - 1;
}

static Tuple step(Product *p, const Tuple *from, int byte) {
    Tuple to = {{0}};
    for (int i = 0; i < p->n; i++) {
        to.states[i] = states_step(&p->states[i], from->states[i], (uint8_t)byte);
        const Error *error = &p->states[i].error;
        if (error->status) expr_fail(p->schema->builder, error->status, "%s", error->message);
    }
    return to;
}

// How many of a tuple's schemas a text may end in; *not is one where it may not.
static int ends(const Product *p, const Tuple *tuple, int * not ) {
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        const bool may_end = p->states[i].states[tuple->states[i]].may_end;
        n += may_end;
        if (!may_end) *not = i;
    }
    return n;
}

// All tuples that a text leads to.
static void explore(Product *p) {
    Tuple first = {{0}};
    for (int i = 0; i < p->n; i++) first.states[i] = states_start(&p->states[i]);
    number_of(p, &first);
    for (size_t t = 0; t < p->n_tuples && !schema_failed(p->schema); t++) {
        const Tuple from = p->tuples[t];
        int not = 0;
        if (ends(p, &from, &not ) == p->n - 1) p->needed[not ] = true;
        for (int byte = 0; byte < 256; byte++) {
            const Tuple to = step(p, &from, byte);
            number_of(p, &to);
        }
    }
}

static bool is_dead(const Product *p, const Tuple *tuple) {
    for (int i = 0; i < p->n; i++)
        if (tuple->states[i] == STATES_DEAD) return true;
    return false;
}

// What may follow at a tuple: bytes in runs that lead to the same one.
static Expr follow(Product *p, const Tuple *from) {
    Builder *b = p->schema->builder;
    int targets[257], not, begin = 0;
    for (int byte = 0; byte < 256; byte++) {
        const Tuple to = step(p, from, byte);
        const uint32_t target = is_dead(p, &to) ? UINT32_MAX : number_of(p, &to);
        targets[byte] = target == UINT32_MAX ? 0 : p->rules[target];
    }
    targets[256] = -1;
    Expr whole = ends(p, from, &not ) == p->n ? EXPR_NOTHING : EXPR_NEVER;
    for (int byte = 1; byte <= 256; byte++) {
        if (targets[byte] == targets[begin]) continue;
        if (targets[begin] > 0)
            whole = expr_alt(b, whole,
                             expr_seq(b, expr_byte(b, begin, byte - 1), expr_call(b, targets[begin] - 1)));
        begin = byte;
    }
    return whole;
}

static Expr write_out(Product *p) {
    Builder *b = p->schema->builder;
    p->rules = calloc(p->n_tuples + 1, sizeof *p->rules);
    if (!p->rules) {
        expr_fail(b, STATUS_MEMORY, "no memory for a grammar");
        return EXPR_NEVER;
    }
    for (size_t t = 0; t < p->n_tuples && !schema_failed(p->schema); t++)
        if (!is_dead(p, &p->tuples[t])) p->rules[t] = 1 + expr_rule(b, "a text", 6);
    for (size_t t = 0; t < p->n_tuples && !schema_failed(p->schema); t++)
        if (p->rules[t]) expr_define(b, p->rules[t] - 1, follow(p, &p->tuples[t]));
    return schema_failed(p->schema) || !p->rules[0] ? EXPR_NEVER : expr_call(b, p->rules[0] - 1);
}

static void product_close(Product *p) {
    for (int i = 0; i < p->n; i++) {
        states_close(&p->states[i]);
        net_free(&p->nets[i]);
    }
    free(p->tuples);
    free(p->slots);
    free(p->rules);
}

// False: it failed, or no text fits one of them.
static bool product_open(Product *p, json_t *const *schemas) {
    Error error;
    p->slots = calloc(SLOTS, sizeof *p->slots);
    if (!p->slots) expr_fail(p->schema->builder, STATUS_MEMORY, "no memory for a grammar");
    bool fits = true;
    for (int i = 0; i < p->n; i++) {
        if (!schema_net(p->schema, schemas[i], &p->nets[i])) fits = false;
        if (fits && states_open(&p->nets[i], &p->states[i], &error))
            expr_fail(p->schema->builder, error.status, "%s", error.message);
    }
    return fits && !schema_failed(p->schema);
}

// Finds one that asks for nothing beyond the others, or, where there is none, writes them out into *whole.
static int find_unneeded(Schema *s, json_t *const *schemas, int n, Expr *whole) {
    Product p = {.schema = s, .n = n};
    int unneeded = -1;
    *whole = EXPR_NEVER;
    if (product_open(&p, schemas)) {
        explore(&p);
        for (int i = 0; i < n; i++)
            if (!p.needed[i]) unneeded = i;
        if (unneeded < 0) *whole = write_out(&p);
    }
    product_close(&p);
    return unneeded;
}

Expr schema_both(Schema *s, json_t **schemas, int n) {
    Expr whole = EXPR_NEVER;
    while (n > 1 && !schema_failed(s)) {
        const int unneeded = find_unneeded(s, schemas, n, &whole);
        if (unneeded < 0) return whole;
        schemas[unneeded] = schemas[--n];
    }
    return schema_value(s, schemas[0]);
}
