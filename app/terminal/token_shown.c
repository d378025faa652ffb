#include "app/terminal/token_shown.h"

#include "app/terminal/text_shown.h"

#include <string.h>

void token_print(FILE *out, const Tokenizer *tokenizer, int32_t previous, int32_t id) {
    size_t size;
    if (tokenizer_kind(tokenizer, id) == TOKEN_CONTROL) {
        const char *piece = tokenizer_piece(tokenizer, id, &size);
        text_print_escaped(out, piece, size);
        return;
    }
    const char *bytes = tokenizer_bytes(tokenizer, previous, id, false, &size);
    text_print_quoted(out, bytes, size);
}

const char *token_text(const Tokenizer *tokenizer, int32_t previous, int32_t id, char *text, size_t size) {
    FILE *out = fmemopen(text, size, "w");
    text[0] = 0;
    if (!out) return text;
    token_print(out, tokenizer, previous, id);
    fclose(out);
    text[size - 1] = 0;
    return text;
}
