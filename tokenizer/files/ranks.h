// Vocabularies as tiktoken has them: pieces of bytes with ranks. Neighbours merge where what they are together is a
// piece, the one of the lowest rank first; a word that is a piece is that token.
#ifndef PALAVER_TOKENIZER_RANKS_H
#define PALAVER_TOKENIZER_RANKS_H

#include "tokenizer/tokenizer_internal.h"

// The longest piece: each costs the square of its length once. Known files have up to 256 bytes.
enum { RANKS_MAX_PIECE = 512 };

// Sets piece `id` of the vocabulary, one that has none yet, to the bytes of a base64 text.
Status ranks_set_piece(Tokenizer *tokenizer, int32_t id, const char *base64, size_t size, Error *error);

// Once pieces first … first+n-1 are set, in the order of their ranks: the merges, and what pieces mean. STATUS_FILE: a
// byte has no piece, or an id.
Status ranks_finish(Tokenizer *tokenizer, int32_t first, int32_t n, Error *error);

// A control token with this id, after all pieces are set: a piece that is spelled like it stays one.
Status ranks_add_special(Tokenizer *tokenizer, int32_t id, const char *text, Error *error);

#endif
