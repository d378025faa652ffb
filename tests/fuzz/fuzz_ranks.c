// Hostile tekken.json and files of tiktoken: opened or refused with one line; what is opened encodes any text to ids
// that exist.
#include <string.h>

#include "tests/fuzz/encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "a<s>\xff the  wa\u0323\u0301ter 12[INST] \xe2\x82'LL\n\n ab<|im_end|>\0b";
    const char *bytes = (const char *)data;
    Tokenizer *tokenizer;
    Error error = {0};
    json_t *config = json_pack("{s:s}", "tokenizer_class", size % 2 ? "QWenTokenizer" : "ChatGLM4Tokenizer");
    if (!config || tokenizer_new(&tokenizer, NULL)) abort();
    Status status = size > 0 && data[0] == '{'
                        ? tokenizer_load_tekken(tokenizer, bytes, size, &error)
                        : tokenizer_load_tiktoken(tokenizer, bytes, size, config, &error);
    if (status) {
        if (!*error.message || strchr(error.message, '\n')) abort();
    } else {
        fuzz_encode(tokenizer, text, sizeof text - 1, false);
        fuzz_encode(tokenizer, text, sizeof text - 1, true);
    }
    json_decref(config);
    tokenizer_close(tokenizer);
    return 0;
}
