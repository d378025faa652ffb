// Byte-pair encoding: the word's symbols are merged, always the pair of lowest rank, the leftmost first.
#ifndef PALAVER_TOKENIZER_BPE_H
#define PALAVER_TOKENIZER_BPE_H

#include "tokenizer/vocabulary.h"

#include <stdbool.h>

typedef struct Bpe Bpe;

typedef struct BpeOptions {
    bool byte_level;    // symbols are bytes, spelled as in byte_level.h; else characters
    bool byte_fallback; // a character that is no piece becomes its bytes' pieces <0xHH>, if all of them exist
    bool fuse_unk;      // neighbouring unknown characters become one unknown token
    bool ignore_merges; // a word that is a piece is that token, whatever the merges say (Llama 3)
    int32_t unk;        // for what has no piece; -1: it is left out, as the tokenizers package does
} BpeOptions;

// Borrows `vocabulary`, which must outlive it and keep its texts.
Status bpe_open(const Vocabulary *vocabulary, const BpeOptions *options, int64_t n_merges, Bpe **out,
                Error *error);
void bpe_close(Bpe *bpe);

// The next merge, best first, at most n_merges of them. STATUS_FILE where a side or the result is no piece.
Status bpe_add_merge(Bpe *bpe, const char *left, size_t left_size, const char *right, size_t right_size,
                     Error *error);

// A merge of two pieces into a third with a rank of its own, which several merges may have; instead of
// bpe_add_merge(). STATUS_FILE: more than n_merges.
Status bpe_add_ranked(Bpe *bpe, int32_t left, int32_t right, int32_t id, int32_t rank, Error *error);

// Appends the ids of one word, of any bytes. O(n log n) in the word's length.
Status bpe_encode(const Bpe *bpe, const char *word, size_t size, Tokens *tokens, Error *error);

#endif
