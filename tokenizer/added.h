// Added tokens: texts that become one id before anything else looks at them.
#ifndef PALAVER_TOKENIZER_ADDED_H
#define PALAVER_TOKENIZER_ADDED_H

#include "tokenizer/tokens.h"

#include <stdbool.h>

typedef struct AddedToken {
    int32_t id;
    bool special;        // only where the text is marked as special
    bool single_word;    // only between characters that are no word characters
    bool lstrip, rstrip; // takes the white space before, after it along
} AddedToken;

typedef struct TrieNode {
    int32_t child, sibling; // -1: none
    int32_t token;          // index of the added token that ends here, -1: none
    unsigned char byte;
} TrieNode;

// A trie over the texts. The children of the root, which every position looks at, are a table.
typedef struct AddedTokens {
    AddedToken *tokens; // [n]
    TrieNode *nodes;    // [n_nodes]
    int64_t n, n_nodes;
    size_t capacity, nodes_capacity;
    int32_t roots[256]; // -1: none; not yet meaningful while n is 0
} AddedTokens;          // {0} is empty

// The longest text of an added token: matching costs that much per position at worst.
enum { MAX_ADDED_TOKEN_SIZE = 512 };

Status added_tokens_add(AddedTokens *added, const char *text, size_t size, AddedToken token, Error *error);
void added_tokens_free(AddedTokens *added);

// Where in the text control pieces may be recognised: sorted, disjoint ranges [from[i], to[i]).
typedef struct SpecialRanges {
    const size_t *from, *to; // [n]
    int64_t n;
} SpecialRanges;

typedef struct AddedMatch {
    size_t start, stop; // what of the text it takes
    int32_t id;
} AddedMatch;

// The next match at or after `from`, the longest of those that begin leftmost; false if there is none. `ranges`
// may be NULL: no special tokens. An AddedMatch never begins before `from`.
bool added_tokens_next(const AddedTokens *added, const char *text, size_t size, size_t from,
                       const SpecialRanges *ranges, AddedMatch *match);

#endif
