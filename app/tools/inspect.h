// `palaver inspect MODEL`: what is in a model's files, without loading it.
#ifndef PALAVER_APP_INSPECT_H
#define PALAVER_APP_INSPECT_H

#include "kernels/base/status.h"

#include <stdio.h>

// Architecture, rope, tokenizer, template, bytes by type, memory at a few context sizes, then every tensor.
Status inspect_print(const char *path, FILE *out, Error *error);

// `palaver tokenize MODEL [TEXT]`: one line a token: id, kind, piece as the vocabulary spells it. The text is encoded
// as a person's is: no control tokens.
Status inspect_tokens(const char *path, const char *text, size_t size, FILE *out, Error *error);

#endif
