#include "tests/support/talk/settings.h"

#include "config/config_internal.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

Settings settings_fresh(void) {
    Settings settings;
    assert_int_equal(settings_init(&settings, NULL), STATUS_OK);
    return settings;
}

Status settings_apply(Config *config, const char *text, Error *error) {
    return settings_apply_named(config, "talk.toml", text, error);
}

Status settings_apply_named(Config *config, const char *name, const char *text, Error *error) {
    TomlNode *root;
    Status status = toml_parse(name, text, strlen(text), &root, error);
    return status ? status : config_apply_tree(config, CONFIG_FILES, name, root, error);
}

const char *settings_value(const Config *config, const char *name) {
    static char text[8192];
    const ConfigKey *key = settings_key(name);
    assert_non_null(key);
    assert_true((size_t)config_print_value(config, key, text, sizeof text) < sizeof text);
    return text;
}

const char *settings_origin(const Config *config, const char *name) {
    return config_origin(config, settings_key(name));
}

char *settings_all(const Config *config) {
    char *all = NULL;
    size_t size, count;
    FILE *out = open_memstream(&all, &size);
    const ConfigKey *keys = settings_keys(&count);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s = %s # %s\n", keys[i].name, settings_value(config, keys[i].name),
                config_origin(config, &keys[i]));
    fclose(out);
    return all;
}
