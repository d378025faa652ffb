// The normalizer and pre_tokenizer of a tokenizer.json, and what stands beside it.
#ifndef PALAVER_TOKENIZER_RULES_H
#define PALAVER_TOKENIZER_RULES_H

#include "tokenizer/tokenizer_internal.h"
#include "kernels/base/text/json.h"

// Fills tokenizer->normalizer from the file's "normalizer" (NULL: none); a Prepend of U+2581 is a dummy space.
Status tokenizer_read_normalizer(Tokenizer *tokenizer, const json_t *normalizer, Error *error);

// Fills tokenizer->split from the file's "pre_tokenizer" (NULL: none) and sets *byte_level if it makes bytes of
// the text.
Status tokenizer_read_pre_tokenizer(Tokenizer *tokenizer, const json_t *pre_tokenizer, bool *byte_level,
                                    Error *error);

// Writes into `root`, a tokenizer.json, what tokenizer_config.json says and transformers takes instead: the flags of added
// tokens, further ones, and the space before a text. STATUS_UNSUPPORTED: one with an id that it would not get.
Status tokenizer_read_beside(json_t *root, const json_t *config, Error *error);

#endif
