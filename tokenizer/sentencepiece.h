// The sentencepiece library behind a C interface: no C++ type and no exception comes through.
#ifndef PALAVER_TOKENIZER_SENTENCEPIECE_H
#define PALAVER_TOKENIZER_SENTENCEPIECE_H

#include "tokenizer/tokens.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SentencePiece SentencePiece; // a loaded model: immutable, usable from several threads

// Opens a serialized ModelProto, which is borrowed for the call. The library trusts some parts of it, so it must
// have passed model_proto_read (model_proto.h). STATUS_FILE with the library's words where it refuses.
Status sentencepiece_open(const void *proto, size_t size, SentencePiece **out, Error *error);
void sentencepiece_close(SentencePiece *model); // NULL is fine
int64_t sentencepiece_size(const SentencePiece *model);

// Appends the ids of a text, with the model's own normalizer and dummy space. STATUS_MEMORY from 1 GiB on. Takes
// O(n log n), but the library joins a run of unknown characters in quadratic time (models without byte fallback).
Status sentencepiece_encode(const SentencePiece *model, const char *text, size_t size, Tokens *tokens,
                            Error *error);

#ifdef __cplusplus
}
#endif
#endif
