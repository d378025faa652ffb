// What is refused of a golden model's files with changes, with cmocka: each ends the test where it is not.
#ifndef PALAVER_TESTS_REFUSALS_H
#define PALAVER_TESTS_REFUSALS_H

#include <stddef.h>
#include <stdint.h>

// Keys of config.json, as JSON, and what is said of them.
typedef struct ConfigRefusal {
    const char *changes, *fragment;
} ConfigRefusal;

// Of the folder at `folder`, its config.json alone.
void refuse_configs(const char *folder, const ConfigRefusal *cases, size_t n);

// A name in a GGUF file that has another last letter, or a 32-bit value `at` bytes behind the key that is another one.
typedef struct GgufRefusal {
    const char *name;
    int at; // 0: the name changes
    uint32_t value;
    const char *fragment;
} GgufRefusal;
enum {
    GGUF_VALUE = 4,
    GGUF_FIRST = 4 + 4 + 8
}; // behind the type; behind the type, the elements' and their number

void refuse_ggufs(const char *path, const GgufRefusal *cases, size_t n);

#endif
