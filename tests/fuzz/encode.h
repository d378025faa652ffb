// Any text through a tokenizer that was opened from any bytes.
#ifndef PALAVER_TESTS_FUZZ_ENCODE_H
#define PALAVER_TESTS_FUZZ_ENCODE_H

#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>

// Aborts unless the text is refused with a message, or encoded to ids that can be decoded.
static inline void fuzz_encode(const Tokenizer *tokenizer, const char *text, size_t size, bool special) {
    Tokens tokens = {0};
    Error error = {0};
    if (tokenizer_encode(tokenizer, text, size, special, &tokens, &error)) {
        if (!*error.message || tokens.n) abort();
        return;
    }
    char *back;
    size_t back_size;
    if (tokenizer_decode(tokenizer, tokens.ids, tokens.n, true, &back, &back_size, NULL)) abort();
    free(back);
    tokens_free(&tokens);
}

#endif
