// Hostile tokenizer.json: it is opened or refused with one line; what is opened encodes any text to ids that exist.
#include <stdlib.h>
#include <string.h>

#include "tokenizer/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_text(const Tokenizer *tokenizer, const char *text, size_t size, bool special) {
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "a<s>\xff the  wa\u0323\u0301ter\u2581 12<keep> \xe2\x82'LL\n\n ab<|end|>\0b";
    Tokenizer *tokenizer;
    Error error = {0};
    if (tokenizer_new(&tokenizer, NULL)) abort();
    if (tokenizer_load_json(tokenizer, (const char *)data, size, &error)) {
        if (!*error.message || strchr(error.message, '\n')) abort();
    } else {
        try_text(tokenizer, text, sizeof text - 1, false);
        try_text(tokenizer, text, sizeof text - 1, true);
        try_text(tokenizer, (const char *)data, size < 4096 ? size : 4096, true);
    }
    tokenizer_close(tokenizer);
    return 0;
}
