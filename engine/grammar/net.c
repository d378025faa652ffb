#include "engine/grammar/net.h"

#include "engine/grammar/components.h"

#include <stdlib.h>
#include <string.h>

enum { END = 0, NOWHERE = 1, DEEPEST = 2000 }; // DEEPEST: expressions in expressions
#define UNKNOWN_START UINT32_MAX

typedef struct Maker {
    const Builder *builder;
    Net *net;
    uint32_t *starts; // [n_rules]
    uint32_t *bodies; // [expressions] the first node of what is repeated; 0: not made yet
    uint32_t capacity, chains_capacity;
    Error *error;
    Status status;
} Maker;

static uint32_t add(Maker *m, NetNode node) {
    Net *net = m->net;
    if (m->status) return NOWHERE;
    if (net->n >= NET_MOST) {
        m->status =
            error_set(m->error, STATUS_UNSUPPORTED,
                      "the grammar is too large: more than %d places, its repetitions written out", NET_MOST);
        return NOWHERE;
    }
    if (net->n == m->capacity) {
        uint32_t capacity = m->capacity ? 2 * m->capacity : 256;
        NetNode *nodes = realloc(net->nodes, capacity * sizeof *nodes);
        if (!nodes) {
            m->status = error_no_memory(m->error, "a grammar");
            return NOWHERE;
        }
        net->nodes = nodes;
        m->capacity = capacity;
    }
    net->nodes[net->n] = node;
    return net->n++;
}

static uint32_t split(Maker *m, uint32_t a, uint32_t b) {
    if (a == NOWHERE) return b;
    if (b == NOWHERE) return a;
    return add(m, (NetNode){.type = NET_SPLIT, .a = a, .b = b});
}

// A rule's start is known when all are made: until then its number stands for it, and chain −1 tells so.
static uint32_t call_rule(Maker *m, uint32_t rule, uint32_t next) {
    return add(m, (NetNode){.type = NET_CALL, .a = rule, .b = next, .chain = UNKNOWN_START});
}

static uint32_t make(Maker *m, Expr expr, uint32_t next, int depth);

// The choice between `body` once more, which comes back to `back` (0: to itself), and what follows.
static uint32_t add_chain(Maker *m, NetChain chain, uint32_t back) {
    Net *net = m->net;
    uint32_t choice = add(m, (NetNode){.type = NET_SPLIT, .a = chain.exit, .b = chain.exit});
    if (m->status) return NOWHERE;
    if (net->n_chains == m->chains_capacity) {
        uint32_t capacity = m->chains_capacity ? 2 * m->chains_capacity : 16;
        NetChain *chains = realloc(net->chains, capacity * sizeof *chains);
        if (!chains) {
            m->status = error_no_memory(m->error, "a grammar");
            return NOWHERE;
        }
        net->chains = chains;
        m->chains_capacity = capacity;
    }
    net->chains[net->n_chains] = chain;
    net->nodes[choice].chain = ++net->n_chains;
    if (chain.left == 0) return choice;
    uint32_t call = add(m, (NetNode){.type = NET_CALL, .a = chain.body, .b = back ? back : choice});
    net->nodes[choice].a = call;
    if (chain.needed > 0) net->nodes[choice].b = call;
    return choice;
}

// From behind: where it has come as often as it may, and once more before that. Bodies are called as rules are, so that
// what is known of one is known of all its times.
static uint32_t repeat(Maker *m, const ExprNode *e, uint32_t exit, int depth) {
    const bool endless = e->max < 0;
    if (!m->bodies[e->a]) m->bodies[e->a] = make(m, e->a, END, depth + 1);
    NetChain chain = {.body = m->bodies[e->a], .exit = exit, .left = endless ? -1 : 0};
    uint32_t next = add_chain(m, chain, 0);
    for (int i = 1; i <= (endless ? e->min : e->max) && !m->status; i++) {
        chain.left = endless ? -1 : i;
        chain.needed = endless ? i : i - (e->max - e->min);
        if (chain.needed < 0) chain.needed = 0;
        next = add_chain(m, chain, next);
    }
    return next;
}

// The nodes of an expression that is followed by `next`; returns the first.
static uint32_t make(Maker *m, Expr expr, uint32_t next, int depth) {
    const ExprNode *e = &m->builder->nodes[expr];
    if (depth > DEEPEST && !m->status)
        m->status = error_set(m->error, STATUS_UNSUPPORTED, "the grammar nests deeper than %d", DEEPEST);
    if (m->status) return NOWHERE;
    for (; e->type == EXPR_SEQ; e = &m->builder->nodes[e->a]) next = make(m, e->b, next, depth + 1);
    uint32_t other = NOWHERE;
    for (; e->type == EXPR_ALT; e = &m->builder->nodes[e->a])
        other = split(m, make(m, e->b, next, depth + 1), other);
    switch (e->type) {
    case EXPR_EMPTY:
        return split(m, next, other);
    case EXPR_BYTES:
        return split(
            m, add(m, (NetNode){.type = NET_BYTES, .first = (uint8_t)e->a, .last = (uint8_t)e->b, .a = next}),
            other);
    case EXPR_REPEAT:
        if (e->max == 1) return split(m, split(m, make(m, e->a, next, depth + 1), next), other);
        return split(m, repeat(m, e, next, depth), other);
    case EXPR_RULE:
        return split(m, call_rule(m, (uint32_t)e->a, next), other);
    case EXPR_SEQ: // the last of a choice
        return split(m, make(m, (Expr)(e - m->builder->nodes), next, depth + 1), other);
    default:
        return other;
    }
}

static Status make_rules(Maker *m) {
    const Builder *b = m->builder;
    add(m, (NetNode){.type = NET_END});
    add(m, (NetNode){.type = NET_NEVER});
    for (size_t i = 0; i < b->n_rules && !m->status; i++) {
        if (!b->rules[i].defined)
            return error_set(m->error, STATUS_USAGE, "there is no rule named %.200s", b->rules[i].name);
        m->starts[i] = make(m, b->rules[i].body, END, 0);
    }
    if (m->status) return m->status;
    for (uint32_t i = 0; i < m->net->n; i++) {
        NetNode *node = &m->net->nodes[i];
        if (node->chain != UNKNOWN_START) continue;
        node->a = m->starts[node->a];
        node->chain = 0;
    }
    m->net->start = m->starts[0];
    return STATUS_OK;
}

// ---- what comes to an end -----------------------------------------------------------------------------------------

// For each node, who leads to it: callers also of a rule's first node.
typedef struct Sources {
    uint32_t *begin; // [n + 1]
    uint32_t *nodes;
    uint32_t *waiting; // [n] room for a list of work
} Sources;

static void sources_free(Sources *s) {
    free(s->begin);
    free(s->nodes);
    free(s->waiting);
}

static Status sources_find(const Net *net, Sources *s, Error *error) {
    uint32_t to[2];
    *s = (Sources){.begin = calloc(net->n + 2, sizeof *s->begin),
                   .nodes = malloc(2 * (size_t)net->n * sizeof *s->nodes),
                   .waiting = malloc(net->n * sizeof *s->waiting)};
    if (!s->begin || !s->nodes || !s->waiting) return error_no_memory(error, "a grammar");
    for (uint32_t i = 0; i < net->n; i++)
        for (int k = net_targets(&net->nodes[i], to); k-- > 0;) s->begin[to[k] + 2]++;
    for (uint32_t i = 0; i < net->n; i++) s->begin[i + 2] += s->begin[i + 1];
    for (uint32_t i = 0; i < net->n; i++)
        for (int k = net_targets(&net->nodes[i], to); k-- > 0;) s->nodes[s->begin[to[k] + 1]++] = i;
    return STATUS_OK;
}

// From which nodes the end of their rule is reached: without a byte, or at all. The least fixed point, each node looked
// at again when one of its targets came to be so.
static void reach_end(const Net *net, const Sources *s, bool without_bytes, bool *reaches) {
    uint32_t n = 0;
    memset(reaches, 0, net->n * sizeof *reaches);
    reaches[END] = true;
    s->waiting[n++] = END;
    while (n > 0) {
        uint32_t done = s->waiting[--n];
        for (uint32_t k = s->begin[done]; k < s->begin[done + 1]; k++) {
            uint32_t i = s->nodes[k];
            const NetNode *node = &net->nodes[i];
            bool now = node->type == NET_BYTES   ? !without_bytes && reaches[node->a]
                       : node->type == NET_SPLIT ? reaches[node->a] || reaches[node->b]
                                                 : reaches[node->a] && reaches[node->b];
            if (now && !reaches[i]) {
                reaches[i] = true;
                s->waiting[n++] = i;
            }
        }
    }
}

// ---- rules that begin with themselves -----------------------------------------------------------------------------

typedef struct Silent { // edges that read no byte
    const Net *net;
    const bool *empty;
} Silent;

static int silent_targets(const void *context, uint32_t i, uint32_t to[2]) {
    const Silent *s = context;
    const NetNode *node = &s->net->nodes[i];
    const int n = node->type == NET_BYTES ? 0 : net_targets(node, to);
    return node->type == NET_CALL && !s->empty[node->a] ? 1 : n;
}

// Goes on unless the component holds a node that goes through a rule whose beginning is in it, too.
static bool is_not_left_recursive(void *context, const Components *c, const uint32_t *nodes, uint32_t n) {
    const Silent *s = context;
    for (uint32_t k = 0; k < n; k++) {
        const NetNode *node = &s->net->nodes[nodes[k]];
        if (node->type == NET_CALL && c->of[node->a] == c->n) return false;
    }
    return true;
}

static Status refuse_left_recursion(const Maker *m, const bool *empty) {
    Silent silent = {m->net, empty};
    Components c = {.context = &silent, .targets = silent_targets, .visit = is_not_left_recursive};
    Status status = components_open(&c, m->net->n) ? STATUS_OK : error_no_memory(m->error, "a grammar");
    for (size_t i = 0; i < m->builder->n_rules && !status; i++)
        if (!components_from(&c, m->starts[i]))
            status = error_set(m->error, STATUS_USAGE,
                               "rule %.200s begins with itself (left recursion), before any text is read",
                               m->builder->rules[i].name);
    components_close(&c);
    return status;
}

// ---- the whole ----------------------------------------------------------------------------------------------------

// Choices lose what never comes to an end; such nodes lead nowhere.
static void cut_dead_ends(Net *net, const bool *ends) {
    for (uint32_t i = 0; i < net->n; i++) {
        NetNode *node = &net->nodes[i];
        if (!ends[i]) {
            *node = (NetNode){.type = NET_NEVER};
        } else if (node->type == NET_SPLIT) {
            if (!ends[node->a]) node->a = node->b;
            if (!ends[node->b]) node->b = node->a;
        }
    }
}

static void find_classes(Net *net) {
    bool begins[257] = {true};
    for (uint32_t i = 0; i < net->n; i++)
        if (net->nodes[i].type == NET_BYTES)
            begins[net->nodes[i].first] = begins[net->nodes[i].last + 1] = true;
    for (int byte = 0; byte < 256; byte++) {
        if (begins[byte]) net->byte_of[net->n_classes++] = (uint8_t)byte;
        net->class_of[byte] = (uint8_t)(net->n_classes - 1);
    }
}

static Status check(Maker *m) {
    Sources sources;
    bool *reaches = malloc(m->net->n * sizeof *reaches);
    Status status = sources_find(m->net, &sources, m->error);
    if (!reaches && !status) status = error_no_memory(m->error, "a grammar");
    if (!status) {
        reach_end(m->net, &sources, true, reaches);
        status = refuse_left_recursion(m, reaches);
    }
    if (!status) {
        reach_end(m->net, &sources, false, reaches);
        if (!reaches[m->net->start] && m->builder->never.status)
            status = error_set(m->error, STATUS_USAGE, "%s", m->builder->never.message);
        else if (!reaches[m->net->start])
            status =
                error_set(m->error, STATUS_USAGE, "no text fits: what is asked for never comes to an end");
        cut_dead_ends(m->net, reaches);
    }
    free(reaches);
    sources_free(&sources);
    return status;
}

Status net_make(const Builder *builder, Net *net, Error *error) {
    *net = (Net){0};
    if (builder->error.status) return error_set(error, builder->error.status, "%s", builder->error.message);
    Maker m = {.builder = builder, .net = net, .error = error};
    m.starts = calloc(builder->n_rules + 1, sizeof *m.starts);
    m.bodies = calloc(builder->n + 1, sizeof *m.bodies);
    Status status = m.starts && m.bodies ? make_rules(&m) : error_no_memory(error, "a grammar");
    if (!status) status = check(&m);
    free(m.bodies);
    free(m.starts);
    if (status)
        net_free(net);
    else
        find_classes(net);
    return status;
}

void net_free(Net *net) {
    free(net->chains);
    free(net->nodes);
    *net = (Net){0};
}
