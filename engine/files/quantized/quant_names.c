// Lists of modules that are not quantised.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/files/quantized/quantized.h"

#include <pcre2.h>
#include <string.h>

enum { MOST_STEPS = 100000 }; // of matching one name: lists are strangers'

// As Python's re.match(): from the beginning of the name, to wherever the expression ends. One that does not compile
// matches nothing.
static bool matches(const char *expression, const char *name) {
    int code;
    PCRE2_SIZE at;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED, &code, &at, NULL);
    pcre2_match_data *data = compiled ? pcre2_match_data_create_from_pattern(compiled, NULL) : NULL;
    pcre2_match_context *bounds = data ? pcre2_match_context_create(NULL) : NULL;
    bool found = false;
    if (bounds) {
        pcre2_set_match_limit(bounds, MOST_STEPS);
        found = pcre2_match(compiled, (PCRE2_SPTR)name, strlen(name), 0, 0, data, bounds) >= 0;
    }
    pcre2_match_context_free(bounds);
    pcre2_match_data_free(data);
    pcre2_code_free(compiled);
    return found;
}

static bool is_part(const char *entry, const char *module) {
    size_t n = strlen(entry), m = strlen(module);
    if (n == 0 || n > m) return false;
    bool begins = strncmp(module, entry, n) == 0 && (module[n] == '.' || module[n] == '\0');
    bool ends = strcmp(module + m - n, entry) == 0 && (n == m || module[m - n - 1] == '.');
    return begins || ends;
}

const char *quant_names_ignored(const QuantConfig *config, const char *module) {
    size_t i;
    json_t *value;
    json_array_foreach(config->ignored, i, value) {
        const char *entry = json_string_value(value);
        if (strncmp(entry, "re:", 3) == 0 ? matches(entry + 3, module) : is_part(entry, module)) return entry;
    }
    return NULL;
}
