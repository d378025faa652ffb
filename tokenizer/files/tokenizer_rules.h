// The normalizer and pre_tokenizer of a tokenizer.json.
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

#endif
