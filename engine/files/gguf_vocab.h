// The vocabulary that a GGUF file carries, for tokenizer_open_vocab().
#ifndef PALAVER_ENGINE_GGUF_VOCAB_H
#define PALAVER_ENGINE_GGUF_VOCAB_H

#include "engine/files/checkpoint.h"
#include "kernels/base/status.h"
#include "tokenizer/tokenizer.h"

// Fills `vocab` from the tokenizer.ggml.* keys. Texts and numbers point into the mapped file where they can;
// tables of them are allocated and freed with gguf_vocab_free(), also after a failure. STATUS_FILE: the keys
// are missing, of another type, or of different lengths. A file that is no GGUF has no vocabulary:
// STATUS_USAGE.
Status gguf_vocab(const Checkpoint *checkpoint, TokenizerVocab *vocab, Error *error);
void gguf_vocab_free(TokenizerVocab *vocab);

#endif
