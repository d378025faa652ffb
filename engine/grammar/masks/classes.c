#include "engine/grammar/masks/classes.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 16 }; // tokens of a node for each of which so many words of a mask may be read

// The class of each byte; −1: nothing in the region reads it.
static void classes_of(const Region *region, int16_t of[256]) {
    int16_t class = 0;
    for (int byte = 0; byte < 256; byte++) {
        class = (int16_t)(class + (region->begins[byte / 64] >> (byte % 64) & 1));
        of[byte] = region->read[byte / 64] >> (byte % 64) & 1 ? class : -1;
    }
}

typedef struct Maker {
    const Vocabulary *vocabulary;
    ClassTree *tree;
    int16_t classes[256];
    uint32_t first;    // the first of those without a parent
    uint32_t *node_of; // [vocabulary->n_nodes] a node's class node
    uint32_t *line;    // [vocabulary->deepest + 1] class nodes on the way down
} Maker;

// The child of `parent` (CLASSES_NONE: one without) by a node's byte, made where there is none. CLASSES_NONE: there are
// too many.
static uint32_t child_of(Maker *m, uint32_t parent, const TrieNode *node) {
    ClassTree *t = m->tree;
    uint32_t *at = parent == CLASSES_NONE ? &m->first : &t->nodes[parent].child;
    for (; *at != CLASSES_NONE; at = &t->nodes[*at].sibling)
        if (m->classes[t->nodes[*at].byte] == m->classes[node->byte]) return *at;
    if (t->n_nodes == m->vocabulary->most_classes) return CLASSES_NONE;
    t->nodes[t->n_nodes] = (ClassNode){.child = CLASSES_NONE,
                                       .sibling = CLASSES_NONE,
                                       .parent = parent,
                                       .depth = node->depth,
                                       .byte = node->byte};
    return *at = t->n_nodes++;
}

// Finds each node's class node. False: these are too many.
static bool merge(Maker *m) {
    const Vocabulary *v = m->vocabulary;
    m->line[0] = CLASSES_NONE;
    for (uint32_t i = 0; i < v->n_nodes;) {
        const TrieNode *node = &v->nodes[i];
        if (m->classes[node->byte] < 0) {
            for (; i < node->skip; i++) m->node_of[i] = CLASSES_NONE;
            continue;
        }
        const uint32_t class = child_of(m, m->line[node->depth - 1], node);
        if (class == CLASSES_NONE) return false;
        m->node_of[i++] = m->line[node->depth] = class;
    }
    return true;
}

// Puts members and tokens at their class nodes: counted two nodes behind, summed, then each goes where its node's next
// one goes.
static bool fill(const Maker *m) {
    const Vocabulary *v = m->vocabulary;
    ClassTree *t = m->tree;
    ClassNode *nodes = t->nodes;
    for (uint32_t i = 0; i < v->n_nodes; i++) {
        if (m->node_of[i] == CLASSES_NONE) continue;
        nodes[m->node_of[i] + 2].members++;
        nodes[m->node_of[i] + 2].tokens += v->nodes[i + 1].token - v->nodes[i].token;
    }
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        nodes[i + 2].members += nodes[i + 1].members;
        nodes[i + 2].tokens += nodes[i + 1].tokens;
    }
    t->members = malloc((nodes[t->n_nodes + 1].members + 1) * sizeof *t->members);
    t->tokens = malloc((nodes[t->n_nodes + 1].tokens + 1) * sizeof *t->tokens);
    if (!t->members || !t->tokens) return false;
    for (uint32_t i = 0; i < v->n_nodes; i++) {
        if (m->node_of[i] == CLASSES_NONE) continue;
        ClassNode *next = &nodes[m->node_of[i] + 1];
        t->members[next->members++] = i;
        for (uint32_t k = v->nodes[i].token; k < v->nodes[i + 1].token; k++)
            t->tokens[next->tokens++] = v->tokens[k];
    }
    return true;
}

static bool make_masks(const Vocabulary *v, ClassTree *t) {
    const size_t words = vocabulary_words(v);
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        if (t->nodes[i + 1].tokens - t->nodes[i].tokens < words / MANY) continue;
        uint32_t *mask = calloc(words, sizeof *mask);
        if (!mask) return false;
        class_tree_add(t, i, words, mask);
        t->nodes[i].mask = mask;
    }
    return true;
}

// Frees a tree's nodes; that there are none is remembered.
static void drop_nodes(ClassTree *t) {
    for (uint32_t i = 0; i < t->n_nodes; i++) free(t->nodes[i].mask);
    free(t->nodes);
    free(t->members);
    free(t->tokens);
    *t = (ClassTree){.older = t->older, .region = t->region};
}

static void free_trees(ClassTree *newest) {
    while (newest) {
        ClassTree *older = newest->older;
        drop_nodes(newest);
        free(newest);
        newest = older;
    }
}

static void make(const Vocabulary *v, ClassTree *t) {
    Maker m = {.vocabulary = v, .tree = t, .first = CLASSES_NONE};
    classes_of(&t->region, m.classes);
    t->nodes = calloc((size_t)v->most_classes + 2, sizeof *t->nodes);
    m.node_of = malloc((v->n_nodes + 1) * sizeof *m.node_of);
    m.line = malloc(((size_t)v->deepest + 1) * sizeof *m.line);
    if (!t->nodes || !m.node_of || !m.line || !merge(&m) || !fill(&m) || !make_masks(v, t)) drop_nodes(t);
    ClassNode *fitting = t->nodes ? realloc(t->nodes, (t->n_nodes + 2) * sizeof *t->nodes) : NULL;
    if (fitting) t->nodes = fitting;
    free(m.node_of);
    free(m.line);
}

bool class_tree_find(const Vocabulary *v, const Region *region, const ClassTree **tree) {
    for (const ClassTree *t = v->classes; t; t = t->older) {
        if (memcmp(&t->region, region, sizeof *region)) continue;
        *tree = t->nodes ? t : NULL;
        return true;
    }
    return false;
}

const ClassTree *class_tree_make(Vocabulary *v, const Region *region) {
    const ClassTree *known;
    if (class_tree_find(v, region, &known)) return known;
    ClassTree *t = malloc(sizeof *t), *last = v->classes;
    if (!t) return NULL;
    for (int n = 2; last && n < CLASSES_MOST; n++) last = last->older;
    if (last) {
        free_trees(last->older);
        last->older = NULL;
    }
    *t = (ClassTree){.older = v->classes, .region = *region};
    make(v, t);
    v->classes = t;
    v->free_classes = free_trees;
    return t->nodes ? t : NULL;
}

void class_tree_add(const ClassTree *t, uint32_t node, size_t words, uint32_t *mask) {
    const uint32_t *own = t->nodes[node].mask;
    for (size_t i = 0; own && i < words; i++) mask[i] |= own[i];
    for (uint32_t i = t->nodes[node].tokens; !own && i < t->nodes[node + 1].tokens; i++)
        mask[t->tokens[i] / 32] |= 1u << (t->tokens[i] % 32);
}
