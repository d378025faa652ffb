// A vocabulary as a tree of bytes: what a grammar's masks are computed over.
//
// The tree lies in the order of a walk: behind a node its subtree. Tokens without bytes (control tokens) and those that
// end a reply are not in it.
#ifndef PALAVER_ENGINE_GRAMMAR_VOCABULARY_H
#define PALAVER_ENGINE_GRAMMAR_VOCABULARY_H

#include "tokenizer/tokenizer.h"

typedef struct TrieNode {
    uint32_t skip;  // the first node behind its subtree
    uint32_t token; // its first token, in `tokens`; its last one is before the next node's first
    uint16_t depth; // bytes from the root, this one included: 1 …
    uint8_t byte;
} TrieNode;

typedef struct Vocabulary {
    const Tokenizer *tokenizer;
    int64_t n_tokens; // of the tokenizer
    int n_ids;        // of the model: bits of a mask
    TrieNode *nodes;  // [n_nodes + 1], the last one bounds the tokens
    uint32_t n_nodes;
    int32_t *tokens;         // in the order of their bytes
    int deepest;             // bytes of the longest token
    uint32_t *parents;       // [n_nodes], n_nodes where there is none
    uint32_t *by_byte;       // [n_nodes] all nodes, by their byte and number
    uint32_t of_byte[257];   // where those of a byte begin there
    int32_t before;          // an ordinary token: behind it no space is left out
    int32_t spaced;          // an ordinary token that begins with a space; −1: there is none
    struct LoopTable *loops; // what loops.c has found for repetitions: the newest, and what frees them
    void (*free_loops)(struct LoopTable *newest);
    struct ClassTree *classes; // likewise, of classes.c
    uint32_t most_classes;     // nodes of such a tree; what would be larger saves too little
    void (*free_classes)(struct ClassTree *newest);
    int references;
} Vocabulary;

// The nodes below one, or all.
typedef struct TrieSpan {
    uint32_t first, end;
} TrieSpan;

static inline TrieSpan vocabulary_whole(const Vocabulary *vocabulary) {
    return (TrieSpan){0, vocabulary->n_nodes};
}
static inline TrieSpan vocabulary_below(const Vocabulary *vocabulary, uint32_t node) {
    return (TrieSpan){node + 1, vocabulary->nodes[node].skip};
}

static inline size_t vocabulary_words(const Vocabulary *vocabulary) {
    return ((size_t)vocabulary->n_ids + 31) / 32;
}

// For a model with n_ids logits; the tokenizer is kept by reference.
Status vocabulary_open(const Tokenizer *tokenizer, int n_ids, Vocabulary **out, Error *error);
Vocabulary *vocabulary_share(Vocabulary *vocabulary);
void vocabulary_close(Vocabulary *vocabulary); // NULL is fine

#endif
