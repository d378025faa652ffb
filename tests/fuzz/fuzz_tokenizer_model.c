// Hostile tokenizer.model: what passes model_proto_read must be safe in the sentencepiece library's hands.
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "a<s>\xff the  wat\u00e9r\u2581 12<keep> \xe2\x82'LL\n\n \uff21\ufb01 ab\0b";
    Tokenizer *tokenizer;
    Text proto = {0};
    Error error = {0};
    if (tokenizer_new(&tokenizer, NULL) || text_append(&proto, (const char *)data, size, NULL)) abort();
    DummySpace space = size % 2 ? DUMMY_SPACE_EACH : DUMMY_SPACE_FIRST;
    if (tokenizer_load_model_proto(tokenizer, &proto, space, &error)) {
        if (!*error.message || strchr(error.message, '\n')) abort();
    } else {
        fuzz_encode(tokenizer, text, sizeof text - 1, true);
        fuzz_encode(tokenizer, (const char *)data, size < 4096 ? size : 4096, true);
    }
    text_free(&proto);
    tokenizer_close(tokenizer);
    return 0;
}
