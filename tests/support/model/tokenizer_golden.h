// The golden tokenizers of tests/golden/tokenizers and the texts that they are tried on.
#ifndef PALAVER_TESTS_TOKENIZER_GOLDEN_H
#define PALAVER_TESTS_TOKENIZER_GOLDEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tokenizer/tokenizer.h"

#define GOLDEN_TOKENIZERS "tests/golden/tokenizers"

typedef struct GoldenTexts {
    char *data;       // the file
    TokenText *texts; // [n], the first n_valid are UTF-8
    int64_t n, n_valid;
} GoldenTexts;

// A whole file, NUL-terminated, freed by the caller; fails the test if it cannot be read.
char *golden_read(const char *path, size_t *size);

GoldenTexts golden_texts(void);
GoldenTexts golden_texts_of(const char *path); // of another file of that form
void golden_texts_free(GoldenTexts *texts);

// The folder tests/golden/tokenizers/NAME, opened.
Tokenizer *golden_open(const char *name);

// A TokenizerVocab with what it borrows.
typedef struct GoldenVocab {
    TokenizerVocab vocab;
    TokenText *pieces, *merges;
    float *scores;
    int32_t *types;
    char *joined; // the merges' text
    char *charsmap;
    json_t *json;
} GoldenVocab;

// The vocabulary of NAME as a GGUF file carries it: from its vocab.json, or else from its tokenizer.json.
// `pre` is borrowed.
GoldenVocab golden_vocab(const char *name, const char *pre);
void golden_vocab_free(GoldenVocab *vocab);

// The golden hash of ids: the low half of 64-bit FNV-1a over their bytes.
uint32_t golden_hash(const Tokens *tokens);

// The ids of a text; fails the test on an error.
Tokens golden_encode(const Tokenizer *tokenizer, TokenText text, bool special);

bool golden_contains(TokenText text, const char *part);

// Shows text `index` of tokenizer `name` and its ids on stderr, and the ids that the package gives, if recorded.
void golden_print(const char *name, int64_t index, TokenText text, const Tokens *tokens);

#endif
