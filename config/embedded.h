// The TOML files that are part of the program. The Makefile turns each into an object (`ld -r -b binary`)
// whose symbols carry the file's path; the bytes end without a NUL.
#ifndef PALAVER_CONFIG_EMBEDDED_H
#define PALAVER_CONFIG_EMBEDDED_H

#include <stddef.h>
#include <stdint.h>

// Bytes from a symbol to its end. To the compiler they are two objects, whose addresses must not be subtracted.
static inline size_t embedded_size(const char *start, const char *end) {
    return (uintptr_t)end - (uintptr_t)start;
}

#define EMBEDDED(name)                                                                                       \
    extern const char _binary_config_##name##_toml_start[], _binary_config_##name##_toml_end[]

EMBEDDED(default);

// Chat templates; the order is that of tokenizer/chat/chat_template.c.
EMBEDDED(chat_chatml);
EMBEDDED(chat_llama_2);
EMBEDDED(chat_llama_3);
EMBEDDED(chat_llama_3_1);
EMBEDDED(chat_mistral_v1);
EMBEDDED(chat_mistral_v2);
EMBEDDED(chat_mistral_v3);
EMBEDDED(chat_mistral_v3_tekken);
EMBEDDED(chat_mistral_v7);
EMBEDDED(chat_mistral_v7_tekken);
EMBEDDED(chat_zephyr);
EMBEDDED(chat_gemma);
EMBEDDED(chat_phi_3);
EMBEDDED(chat_qwen_3);
EMBEDDED(chat_qwen_3_thinking);
EMBEDDED(chat_vicuna);
EMBEDDED(chat_vicuna_lines);
EMBEDDED(chat_alpaca);

#endif
