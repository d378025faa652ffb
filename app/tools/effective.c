#include "app/tools/effective.h"

#include "app/terminal/text.h"

#include <stdlib.h>
#include <string.h>

// The value, however long it is; malloc'ed.
static char *value_of(const Config *config, const ConfigKey *key) {
    size_t size = (size_t)config_print_value(config, key, NULL, 0) + 1;
    char *value = malloc(size);
    if (value) config_print_value(config, key, value, size);
    return value;
}

Status effective_print(const Config *config, const char *model, FILE *out, Error *error) {
    size_t n = config->table->n_keys;
    const ConfigKey *keys = config->table->keys;
    bool ok =
        fputs("# ", out) >= 0 && text_print_escaped(out, model, strlen(model)) && fputc('\n', out) != EOF;
    for (size_t i = 0; ok && i < n; i++) {
        char *value = value_of(config, &keys[i]);
        const char *origin = config_origin(config, &keys[i]);
        if (!i || strcmp(keys[i].section, keys[i - 1].section)) fprintf(out, "\n[%s]\n", keys[i].section);
        if (value) fprintf(out, "%-17s = %-20s # ", keys[i].name, value);
        ok = value && text_print_escaped(out, origin, strlen(origin)) && fputc('\n', out) != EOF;
        free(value);
    }
    return ok ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
}
