#include "engine/grammar/masks/walks.h"

#include "engine/grammar/masks/repeats.h"

uint32_t walk_classes(Grammar *g, uint32_t state, const ClassTree *tree, uint32_t *mask, bool list) {
    const size_t words = vocabulary_words(g->vocabulary);
    const ClassNode *nodes = tree->nodes;
    uint32_t n_ended = 0;
    g->line[0] = state;
    for (uint32_t i = tree->n_nodes ? 0 : CLASSES_NONE; i != CLASSES_NONE;) {
        const uint32_t next = states_step(&g->states, g->line[nodes[i].depth - 1], nodes[i].byte);
        if (g->states.error.status) return 0;
        if (next > STATES_DEAD) {
            g->line[nodes[i].depth] = next;
            class_tree_add(tree, i, words, mask);
            for (uint32_t k = nodes[i].members;
                 list && g->states.states[next].may_end && k < nodes[i + 1].members; k++)
                g->ended[n_ended++] = tree->members[k];
            if (nodes[i].child != CLASSES_NONE) {
                i = nodes[i].child;
                continue;
            }
        }
        while (i != CLASSES_NONE && nodes[i].sibling == CLASSES_NONE) i = nodes[i].parent;
        if (i != CLASSES_NONE) i = nodes[i].sibling;
    }
    return n_ended;
}

void walk_join_stack(const Grammar *g, uint32_t stack, uint32_t base, Region *region) {
    for (uint32_t at = stack; at != base; at = g->states.stacks[at].below)
        region_join(region, &g->regions.sets[g->regions.of[g->states.stacks[at].back]]);
}

void walk_join(const Grammar *g, Place place, uint32_t base, Region *region) {
    region_join(region, &g->regions.sets[g->regions.of[place.node]]);
    walk_join_stack(g, place.stack, base, region);
}

// Whether a walk from `state` meets many nodes.
static bool is_long(Grammar *g, uint32_t state) {
    const TrieNode *nodes = g->vocabulary->nodes;
    uint32_t n = 0;
    g->line[0] = state;
    for (uint32_t i = 0; i < g->vocabulary->n_nodes && n < REPEATS_LONG;) {
        const uint32_t next = states_step(&g->states, g->line[nodes[i].depth - 1], nodes[i].byte);
        if (g->states.error.status) return false;
        g->line[nodes[i].depth] = next;
        n += next > STATES_DEAD;
        i = next > STATES_DEAD ? i + 1 : nodes[i].skip;
    }
    return n >= REPEATS_LONG;
}

uint32_t walk_all(Grammar *g, uint32_t state, const Place *places, size_t n, uint32_t base, uint32_t *mask,
                  bool list) {
    Region region = {{0}, {0}};
    const ClassTree *tree;
    for (size_t i = 0; i < n; i++) walk_join(g, places[i], base, &region);
    if (!class_tree_find(g->vocabulary, &region, &tree))
        tree = is_long(g, state) ? class_tree_make(g->vocabulary, &region) : NULL;
    return tree ? walk_classes(g, state, tree, mask, list)
                : repeats_walk(g, state, vocabulary_whole(g->vocabulary), mask, list);
}
