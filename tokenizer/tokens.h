// Ids of tokens, and what there is to say of one.
#ifndef PALAVER_TOKENIZER_TOKENS_H
#define PALAVER_TOKENIZER_TOKENS_H

#include "kernels/base/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum TokenKind {
    TOKEN_NORMAL,
    TOKEN_BYTE,         // stands for one byte (SentencePiece's <0x0A>)
    TOKEN_CONTROL,      // special: <s>, <|im_end|>; no text of its own
    TOKEN_USER_DEFINED, // an added token that is plain text
    TOKEN_UNKNOWN,
    TOKEN_UNUSED, // a hole in the vocabulary
} TokenKind;

typedef struct TokenText {
    const char *text; // need not end with NUL
    size_t size;
} TokenText;

// A growable list of ids.
typedef struct Tokens {
    int32_t *ids; // [capacity], the first n are set
    int64_t n;
    size_t capacity;
} Tokens; // {0} is an empty list

// Appends one id, or n of them. STATUS_MEMORY leaves the list as it was.
Status tokens_push(Tokens *tokens, int32_t id, Error *error);
Status tokens_append(Tokens *tokens, const int32_t *ids, int64_t n, Error *error);
// Frees the ids and makes the list empty; it may be used again.
void tokens_free(Tokens *tokens);

#ifdef __cplusplus
}
#endif
#endif
