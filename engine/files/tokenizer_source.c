#include "engine/files/tokenizer_source.h"

#include "engine/files/gguf_vocab.h"

Status tokenizer_open_for(const Checkpoint *checkpoint, Tokenizer **tokenizer, Error *error) {
    *tokenizer = NULL;
    if (checkpoint_format(checkpoint) != CHECKPOINT_GGUF)
        return tokenizer_open_folder(checkpoint_path(checkpoint), tokenizer, error);
    TokenizerVocab vocab;
    Status status = gguf_vocab(checkpoint, &vocab, error);
    if (!status && (status = tokenizer_open_vocab(&vocab, tokenizer, error)))
        error_prefix(error, "%s: ", checkpoint_path(checkpoint));
    gguf_vocab_free(&vocab);
    return status;
}
