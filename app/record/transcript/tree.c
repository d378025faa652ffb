#include "app/record/transcript/tree.h"

#include "kernels/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 1 << 24 };

void tree_init(Tree *tree) {
    *tree = (Tree){.head = TREE_START, .first = TREE_NONE};
}

void tree_free(Tree *tree) {
    for (int i = 0; i < tree->n; i++) free(tree->nodes[i].evictions);
    free(tree->nodes);
    free(tree->attempts);
    tree_init(tree);
}

// ---- changes ----------------------------------------------------------------------------------------------

static bool grow(Tree *tree) {
    size_t n = (size_t)tree->n;
    return tree->n < NODES_MAX &&
           array_reserve(&tree->nodes, sizeof *tree->nodes, n, 1, &tree->nodes_capacity) &&
           array_reserve(&tree->attempts, sizeof *tree->attempts, n, 1, &tree->attempts_capacity);
}

Status tree_evict(Tree *tree, int index, const TreeEviction *evictions, int n, Error *error) {
    TreeNode *node = &tree->nodes[index];
    if (!n) return STATUS_OK;
    if (!array_reserve(&node->evictions, sizeof *evictions, (size_t)node->n_evictions, (size_t)n,
                       &node->evictions_capacity) ||
        !node->evictions)
        return error_set(error, STATUS_MEMORY, "out of memory");
    memcpy(node->evictions + node->n_evictions, evictions, (size_t)n * sizeof *evictions);
    node->n_evictions += n;
    for (int i = 0; i < n; i++)
        if (evictions[i].turns.first == 0 && evictions[i].n_evicted == 0) node->without_system = true;
    return STATUS_OK;
}

// Makes `index` the way on from its parent.
static void link_parent(Tree *tree, int index) {
    int parent = tree->nodes[index].parent;
    *(parent == TREE_START ? &tree->first : &tree->nodes[parent].next) = index;
}

Status tree_add(Tree *tree, int parent, const TreeEviction *evictions, int n, Error *error) {
    if (!grow(tree)) return error_set(error, STATUS_MEMORY, "no memory for %d turns", tree->n + 1);
    int index = tree->n;
    tree->nodes[index] = (TreeNode){.turn = tree_turn(tree, parent) + 1,
                                    .attempt = tree_next_attempt(tree, parent),
                                    .parent = parent,
                                    .next = TREE_NONE};
    if (tree_evict(tree, index, evictions, n, error)) return error->status;
    tree->attempts[tree->n++] = 0;
    tree->attempts[tree->nodes[index].turn - 1]++;
    if (parent == tree->head) { // the way up to here is linked already
        link_parent(tree, index);
        tree->head = index;
    } else {
        tree_go(tree, index);
    }
    return STATUS_OK;
}

bool tree_is_forgotten(const Tree *tree, int index) {
    return index != TREE_START && tree->nodes[index].forgotten;
}

void tree_go(Tree *tree, int index) {
    if (tree_is_forgotten(tree, index))
        for (int i = 0; i < tree->n; i++) tree->nodes[i].forgotten = false;
    tree->head = index;
    while (index != TREE_START) {
        link_parent(tree, index);
        index = tree->nodes[index].parent;
    }
}

void tree_forget(Tree *tree, int index, TreeRange range) {
    for (; index != TREE_START; index = tree->nodes[index].parent)
        if (tree->nodes[index].turn >= range.first && tree->nodes[index].turn <= range.last)
            tree->nodes[index].forgotten = true;
}

// ---- ways -------------------------------------------------------------------------------------------------

static void take_eviction(const TreeEviction *eviction, int last_turn, TreeEvicted *evicted) {
    for (int turn = eviction->turns.first; turn <= eviction->turns.last && turn <= last_turn; turn++) {
        if (turn < 1) continue;
        TreeEvicted *of = &evicted[turn - 1];
        if (eviction->n_evicted == 0) of->whole = true;
        if (eviction->n_evicted == TREE_REPLY) of->reply = true;
        if (eviction->n_evicted > of->n_evicted) of->n_evicted = eviction->n_evicted;
    }
}

static void find_evicted(const Tree *tree, int index, bool remember, TreeEvicted *evicted) {
    memset(evicted, 0, (size_t)tree_turn(tree, index) * sizeof *evicted);
    for (; index != TREE_START; index = tree->nodes[index].parent) {
        const TreeNode *node = &tree->nodes[index];
        if (node->forgotten && !remember) evicted[node->turn - 1].whole = true;
        for (int i = 0; i < node->n_evictions; i++) take_eviction(&node->evictions[i], node->turn, evicted);
    }
}

void tree_find_evicted(const Tree *tree, int index, TreeEvicted *evicted) {
    find_evicted(tree, index, false, evicted);
}

void tree_find_evicted_after(const Tree *tree, int index, TreeEvicted *evicted) {
    find_evicted(tree, index, tree_is_forgotten(tree, index), evicted);
}

bool tree_is_system_evicted(const Tree *tree, int index) {
    while (index != TREE_START && !tree->nodes[index].without_system) index = tree->nodes[index].parent;
    return index != TREE_START;
}

void tree_renew_system(Tree *tree) {
    for (int i = 0; i < tree->n; i++) tree->nodes[i].without_system = false;
}

int tree_turn(const Tree *tree, int index) {
    return index == TREE_START ? 0 : tree->nodes[index].turn;
}

int tree_depth(const Tree *tree) {
    return tree_turn(tree, tree->head);
}

int tree_ancestor(const Tree *tree, int index, int up) {
    while (up-- > 0 && index != TREE_START) index = tree->nodes[index].parent;
    return index;
}

int tree_at(const Tree *tree, int turn) {
    return tree_ancestor(tree, tree->head, tree_depth(tree) - turn);
}

int tree_redo(const Tree *tree, int down, int *n) {
    int index = tree->head;
    for (*n = 0; *n < down; ++*n) {
        int next = index == TREE_START ? tree->first : tree->nodes[index].next;
        if (next == TREE_NONE) break;
        index = next;
    }
    return index;
}

void tree_path(const Tree *tree, int index, int *path) {
    for (; index != TREE_START; index = tree->nodes[index].parent) path[tree->nodes[index].turn - 1] = index;
}

// ---- names ------------------------------------------------------------------------------------------------

int tree_next_attempt(const Tree *tree, int parent) {
    int turn = tree_turn(tree, parent) + 1;
    return turn <= tree->n ? tree->attempts[turn - 1] + 1 : 1;
}

void tree_name(const Tree *tree, int index, char *text) {
    if (index == TREE_START)
        strcpy(text, "0");
    else
        snprintf(text, TREE_NAME_ROOM, "%d.%d", tree->nodes[index].turn, tree->nodes[index].attempt);
}

// Most nodes that are named are young: the search begins at the end.
int tree_find(const Tree *tree, const char *name) {
    char *rest, known[TREE_NAME_ROOM];
    if (!strcmp(name, "0")) return TREE_START;
    long turn = strtol(name, &rest, 10), attempt = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
    for (int i = tree->n - 1; i >= 0; i--) {
        if (tree->nodes[i].turn != turn || tree->nodes[i].attempt != attempt) continue;
        tree_name(tree, i, known);
        return strcmp(known, name) ? TREE_NONE : i; // spelled in another way
    }
    return TREE_NONE;
}
