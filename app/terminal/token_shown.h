// A token as text.
#ifndef PALAVER_APP_TERMINAL_TOKEN_SHOWN_H
#define PALAVER_APP_TERMINAL_TOKEN_SHOWN_H

#include "tokenizer/tokenizer.h"

#include <stdio.h>

// Prints the text of a token that stands behind `previous` (-1: at the beginning) in quotation marks, bytes that are no
// whole character as \xNN; a control token as its name.
void token_print(FILE *out, const Tokenizer *tokenizer, int32_t previous, int32_t id);
// The same as a text of at most `size` bytes, with what fits.
const char *token_text(const Tokenizer *tokenizer, int32_t previous, int32_t id, char *text, size_t size);

#endif
