#include "engine/grammar/regions.h"

#include "kernels/base/array.h"
#include "kernels/base/hash.h"

enum { EMPTY, ALL, SLOTS = 4 * REGIONS_MOST }; // the first two regions

// Tarjan's strongly connected components, with a stack of its own: what is reached from one is known when it is
// complete.
typedef struct Search {
    const Net *net;
    Regions *regions;
    uint32_t *order, *low, *stack, *path; // [n] each; order 0: not seen yet
    uint8_t *edge;                        // [n] the next edge of a node on the path
    bool *on_stack;
    uint32_t n_seen, n_stack, n_path;
    uint16_t slots[SLOTS]; // a region by its hash; 0: none
} Search;

static void add_bytes(Region *region, int first, int last) {
    region->begins[first / 64] |= 1ull << (first % 64);
    if (last < 255) region->begins[(last + 1) / 64] |= 1ull << ((last + 1) % 64);
    for (int byte = first; byte <= last; byte++) region->read[byte / 64] |= 1ull << (byte % 64);
}

static int targets_of(const NetNode *node, uint32_t to[2]) {
    to[0] = node->a, to[1] = node->b;
    return node->type == NET_BYTES ? 1 : node->type == NET_SPLIT || node->type == NET_CALL ? 2 : 0;
}

// The region's number; `near` is one that it may well be. False: no memory.
static bool number_of(Search *s, const Region *region, uint16_t near, uint16_t *number) {
    Regions *r = s->regions;
    size_t at = (size_t)hash_bytes(HASH_START, region, sizeof *region) % SLOTS;
    *number = near;
    if (!memcmp(&r->sets[near], region, sizeof *region)) return true;
    for (; (*number = s->slots[at]) != 0; at = (at + 1) % SLOTS)
        if (!memcmp(&r->sets[*number], region, sizeof *region)) return true;
    *number = ALL;
    if (r->n == REGIONS_MOST) return true;
    if (!array_reserve(&r->sets, sizeof *r->sets, r->n, 1, &r->capacity)) return false;
    *number = s->slots[at] = (uint16_t)r->n;
    r->sets[r->n++] = *region;
    return true;
}

static bool close_component(Search *s, uint32_t root) {
    uint32_t first = s->n_stack, to[2];
    Region region = {{0}, {0}};
    uint16_t number = EMPTY;
    do first--;
    while (s->stack[first] != root);
    for (uint32_t k = first; k < s->n_stack; k++) {
        const NetNode *node = &s->net->nodes[s->stack[k]];
        if (node->type == NET_BYTES) add_bytes(&region, node->first, node->last);
        for (int i = targets_of(node, to); i-- > 0;) {
            if (s->on_stack[to[i]] && s->order[to[i]] >= s->order[root]) continue;
            number = s->regions->of[to[i]];
            region_join(&region, &s->regions->sets[number]);
        }
    }
    if (!number_of(s, &region, number, &number)) return false;
    for (uint32_t k = first; k < s->n_stack; k++) {
        s->on_stack[s->stack[k]] = false;
        s->regions->of[s->stack[k]] = number;
    }
    s->n_stack = first;
    return true;
}

static void see(Search *s, uint32_t i) {
    s->order[i] = s->low[i] = ++s->n_seen;
    s->stack[s->n_stack++] = i;
    s->path[s->n_path++] = i;
    s->on_stack[i] = true;
}

static bool search(Search *s, uint32_t from) {
    uint32_t to[2];
    see(s, from);
    while (s->n_path > 0) {
        const uint32_t i = s->path[s->n_path - 1];
        if (s->edge[i] < targets_of(&s->net->nodes[i], to)) {
            const uint32_t next = to[s->edge[i]++];
            if (!s->order[next])
                see(s, next);
            else if (s->on_stack[next] && s->order[next] < s->low[i])
                s->low[i] = s->order[next];
            continue;
        }
        s->n_path--;
        if (s->low[i] == s->order[i] && !close_component(s, i)) return false;
        const uint32_t above = s->n_path ? s->path[s->n_path - 1] : i;
        if (s->low[i] < s->low[above]) s->low[above] = s->low[i];
    }
    return true;
}

// The empty region, and the one of all that the net tells apart.
static bool begin(const Net *net, Regions *r) {
    *r = (Regions){.of = calloc(net->n, sizeof *r->of)};
    if (!r->of || !array_reserve(&r->sets, sizeof *r->sets, 0, 2, &r->capacity)) return false;
    r->n = 2;
    r->sets[EMPTY] = r->sets[ALL] = (Region){{0}, {0}};
    for (uint32_t i = 0; i < net->n; i++)
        if (net->nodes[i].type == NET_BYTES)
            add_bytes(&r->sets[ALL], net->nodes[i].first, net->nodes[i].last);
    return true;
}

bool regions_find(const Net *net, Regions *regions) {
    const size_t n = net->n;
    bool found = begin(net, regions);
    Search s = {.net = net,
                .regions = regions,
                .order = calloc(n, sizeof *s.order),
                .low = calloc(n, sizeof *s.low),
                .stack = calloc(n, sizeof *s.stack),
                .path = calloc(n, sizeof *s.path),
                .edge = calloc(n, 1),
                .on_stack = calloc(n, sizeof *s.on_stack)};
    if (!s.order || !s.low || !s.stack || !s.path || !s.edge || !s.on_stack) found = false;
    for (uint32_t i = 0; i < n && found; i++)
        if (!s.order[i]) found = search(&s, i);
    free(s.order);
    free(s.low);
    free(s.stack);
    free(s.path);
    free(s.edge);
    free(s.on_stack);
    if (!found) regions_free(regions);
    return found;
}

void regions_free(Regions *r) {
    free(r->of);
    free(r->sets);
    *r = (Regions){0};
}
