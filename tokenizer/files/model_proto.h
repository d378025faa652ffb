// SentencePiece's serialized ModelProto, read and written by hand: field numbers are those of
// sentencepiece_model.proto, wire types those of the protocol buffers encoding guide.
#ifndef PALAVER_TOKENIZER_MODEL_PROTO_H
#define PALAVER_TOKENIZER_MODEL_PROTO_H

#include "kernels/base/text/text.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

typedef struct ModelProto {
    int64_t n_pieces;
    bool unigram; // else BPE
    bool add_dummy_prefix, remove_extra_whitespaces;
    bool folds; // has a character map: decoding need not give the text back
    int32_t bos, eos, unk, pad;
} ModelProto;

// User-defined pieces with the name of a control piece become control pieces, in `data` too, so that the library
// does not find them in what people type. Checks what the library would trust (piece sizes, finite scores, the
// character map's tables stay inside it), fills `model` and, with the pieces, `vocabulary` (vocabulary_init is done
// here; free it also after a failure).
Status model_proto_read(void *data, size_t size, ModelProto *model, Vocabulary *vocabulary, Error *error);

// Appends to `out` the ModelProto of a GGUF vocabulary (model "llama" or "t5"). Pieces that the library refuses
// (empty, or the second with its text) become control pieces under a made-up name: their ids stay free.
Status model_proto_write(const TokenizerVocab *vocab, Text *out, Error *error);

// Appends a setting that overrides the model's own add_dummy_prefix: a repeated message field is merged.
Status model_proto_set_dummy_prefix(Text *proto, bool on, Error *error);

// Puts n control pieces before all others, so that ids begin with n.
Status model_proto_move(Text *proto, int32_t n, Error *error);

#endif
