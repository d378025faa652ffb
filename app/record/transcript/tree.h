// The tree of a conversation's turns: which turn follows which, where one stands, and what was evicted
// on the way there. Pure structure: what was said at a node lies beside it, by the same index (transcript.h).
//
// Node 3.1 is the first attempt at the third turn, 3.2 the second (a retry, an edited question, or another
// question after an undo); "0" is the place before the first turn. The head is the node that the next turn
// follows. Nodes are never removed.
//
// What was evicted from the context window belongs to the way: turns that were while turn 9.1 was answered are so
// for 9.1 and all that follows it, but at 8.1 they are seen, as they were then. So is the system prompt, which is turn 0
// of every way, until there is another. What was forgotten by hand stays forgotten on every way, until the head goes back
// to one of the forgotten turns; then all are seen again.
#ifndef PALAVER_APP_TREE_H
#define PALAVER_APP_TREE_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TREE_START = -1,     // the index of the place before the first turn
    TREE_NONE = -2,      // no such node
    TREE_NAME_ROOM = 24, // bytes of "3.1"
    TREE_REPLY = -1,     // see TreeEviction
};

typedef struct TreeRange {
    int first, last; // turns, both included
} TreeRange;

// What was evicted: turns, or something of theirs; from turn 0 on: the system prompt with them.
typedef struct TreeEviction {
    TreeRange turns;
    int64_t n_evicted; // 0: all; > 0: the first tokens of their reply, so many in all; TREE_REPLY: the reply
} TreeEviction;

// What of a turn is evicted.
typedef struct TreeEvicted {
    bool whole, reply;
    int64_t n_evicted; // tokens of its reply, later than it was made
} TreeEvicted;

typedef struct TreeNode {
    int turn, attempt; // from 1
    int parent;        // index of an older node, or TREE_START
    int next;          // the child by which the head last went on; TREE_NONE: none yet
    bool forgotten;
    bool without_system;     // the system prompt was evicted while this one was answered
    TreeEviction *evictions; // [n_evictions] what of its way was evicted while this one was answered, owned
    int n_evictions;
    size_t evictions_capacity;
} TreeNode;

typedef struct Tree {
    TreeNode *nodes; // [n] parents before children; owned
    int *attempts;   // [n] at turn 1, 2, …; owned
    int n;
    size_t nodes_capacity, attempts_capacity;
    int head;
    int first; // what `next` is for TREE_START
} Tree;

void tree_init(Tree *tree); // empty
void tree_free(Tree *tree); // and makes it an empty one

// A new attempt at the turn after `parent`, with which evictions [n] (may be NULL) of its way; it becomes
// the head. On failure nothing is changed, here and below.
Status tree_add(Tree *tree, int parent, const TreeEviction *evictions, int n, Error *error);
// The head moves to a node or to TREE_START. Going to a forgotten turn is to remember all that was forgotten: no way is
// left with a hole in its middle.
void tree_go(Tree *tree, int index);
bool tree_is_forgotten(const Tree *tree, int index); // what a node says by itself

// More was evicted with a node (its reply went on).
Status tree_evict(Tree *tree, int index, const TreeEviction *evictions, int n, Error *error);
// A range of the way to `index` is forgotten: from now on, on every way.
void tree_forget(Tree *tree, int index, TreeRange range);
// What of the way to `index` is evicted there: evicted [tree_turn(index)], turn 1 first.
void tree_find_evicted(const Tree *tree, int index, TreeEvicted *evicted);
// The same as it will be after tree_go(index).
void tree_find_evicted_after(const Tree *tree, int index, TreeEvicted *evicted);
bool tree_is_system_evicted(const Tree *tree, int index); // on the way to it
void tree_renew_system(Tree *tree);                       // there is another: it is seen everywhere

int tree_turn(const Tree *tree, int index); // 0 for TREE_START
int tree_depth(const Tree *tree);           // turns from the beginning to the head
// The node `up` steps before `index`; up beyond the beginning gives TREE_START.
int tree_ancestor(const Tree *tree, int index, int up);
// The node of `turn` (1 … depth) on the way to the head.
int tree_at(const Tree *tree, int turn);
// The node `down` steps after the head, on the way that it last went; *n is how many of the steps there are.
int tree_redo(const Tree *tree, int down, int *n);
// The way from the first turn to `index`: path [tree_turn(index)].
void tree_path(const Tree *tree, int index, int *path);

// Which attempt the next turn after `parent` would be.
int tree_next_attempt(const Tree *tree, int parent);
// Writes "3.1" (or "0") into text [TREE_NAME_ROOM].
void tree_name(const Tree *tree, int index, char *text);
// The node that is called so, TREE_START for "0"; TREE_NONE: there is none.
int tree_find(const Tree *tree, const char *name);

#endif
