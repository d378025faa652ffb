// Hostile tokenizer.json: it is opened or refused with one line; what is opened encodes any text to ids that exist.
#include <string.h>

#include "tests/fuzz/encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "a<s>\xff the  wa\u0323\u0301ter\u2581 12<keep> \xe2\x82'LL\n\n ab<|end|>\0b";
    Tokenizer *tokenizer;
    Error error = {0};
    if (tokenizer_new(&tokenizer, NULL)) abort();
    if (tokenizer_load_json(tokenizer, (const char *)data, size, NULL, &error)) {
        if (!*error.message || strchr(error.message, '\n')) abort();
    } else {
        fuzz_encode(tokenizer, text, sizeof text - 1, false);
        fuzz_encode(tokenizer, text, sizeof text - 1, true);
        fuzz_encode(tokenizer, (const char *)data, size < 4096 ? size : 4096, true);
    }
    tokenizer_close(tokenizer);
    return 0;
}
