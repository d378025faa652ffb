// Where a model's tokenizer comes from: its own folder, or the vocabulary inside its GGUF file.
#ifndef PALAVER_ENGINE_TOKENIZER_SOURCE_H
#define PALAVER_ENGINE_TOKENIZER_SOURCE_H

#include "engine/files/checkpoint.h"
#include "tokenizer/tokenizer.h"

// The tokenizer of an open checkpoint. *tokenizer is the caller's to close.
Status tokenizer_open_for(const Checkpoint *checkpoint, Tokenizer **tokenizer, Error *error);

#endif
