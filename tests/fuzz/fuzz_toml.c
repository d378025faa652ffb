// Hostile TOML as a settings file: it is applied or refused with one line, and a refused one changes nothing. What
// begins with / is text typed for the key of the second byte's number.
#include "config/config_internal.h"
#include "app/settings/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Applied values must print as TOML that reads back to the same text.
static void read_back(const Config *config) {
    size_t count;
    const ConfigKey *keys = settings_keys(&count);
    static char text[1 << 20], again[1 << 20];
    for (size_t i = 0; i < count; i++) {
        Settings twin;
        Config *copy = &twin.config;
        if (config_origin_layer(config, &keys[i]) == CONFIG_BUILTIN || config_copy(copy, config, NULL))
            continue;
        config_print_value(config, &keys[i], text, sizeof text);
        if (config_set(copy, CONFIG_SESSION, keys[i].name, text, NULL)) abort();
        config_print_value(copy, &keys[i], again, sizeof again);
        if (strcmp(text, again) != 0) abort();
        config_free(copy);
    }
}

static Status type(Config *config, const uint8_t *data, size_t size, Error *error) {
    size_t count;
    const ConfigKey *keys = settings_keys(&count);
    char *text = strndup((const char *)data + 2, size - 2);
    Status status = config_set(config, CONFIG_SESSION, keys[data[1] % count].name, text ? text : "", error);
    free(text);
    return status;
}

static Status apply(Config *config, const uint8_t *data, size_t size, Error *error) {
    TomlNode *root;
    Status status = toml_parse("fuzz.toml", (const char *)data, size, &root, error);
    return status ? status : config_apply_tree(config, CONFIG_FILES, "fuzz.toml", root, error);
}

static void print_all(const Config *config, char *buffer, size_t size) {
    size_t count, at = 0;
    const ConfigKey *keys = settings_keys(&count);
    for (size_t i = 0; i < count && at < size; i++)
        at += (size_t)config_print_value(config, &keys[i], buffer + at, size - at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Settings settings;
    Config *config = &settings.config;
    Error error = {0};
    if (settings_init(&settings, &error)) abort();
    static char before[1 << 16], after[1 << 16];
    print_all(config, before, sizeof before);
    if (size > 1 && data[0] == '/' ? type(config, data, size, &error) : apply(config, data, size, &error)) {
        print_all(config, after, sizeof after);
        if (strcmp(before, after) != 0) abort();
        if (!*error.message || strchr(error.message, '\n')) abort();
    } else {
        read_back(config);
        const char *profile = config_profile_name(config, 0);
        if (profile && config_apply_profile(config, CONFIG_PROFILE, profile, &error)) abort();
    }
    config_free(config);
    return 0;
}
