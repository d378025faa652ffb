// Keys by name, and what they allow in words.
#include "config/config_key.h"

#include <stdio.h>
#include <string.h>

// Whether the bytes [name, name + length) spell `word`, with - for _ allowed.
static bool spells(const char *name, size_t length, const char *word) {
    if (strlen(word) != length) return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] != word[i] && !(name[i] == '-' && word[i] == '_')) return false;
    return true;
}

const ConfigKey *config_key_find(const ConfigTable *table, const char *name) {
    const ConfigKey *keys = table->keys;
    const char *dot = strchr(name, '.');
    const char *last = dot ? dot + 1 : name;
    for (size_t i = 0; i < table->n_keys; i++)
        if (spells(last, strlen(last), keys[i].name) &&
            (!dot || spells(name, (size_t)(dot - name), keys[i].section)))
            return &keys[i];
    return NULL;
}

int config_key_environment(const ConfigKey *key, char *buffer, size_t size) {
    int length = snprintf(buffer, size, "PALAVER_%s_%s", key->section, key->name);
    for (char *c = buffer; size && *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    return length;
}

int config_key_flag(const ConfigKey *key, char *buffer, size_t size) {
    int length = snprintf(buffer, size, "--%s", strcmp(key->name, "size") ? key->name : key->section);
    for (char *c = buffer; size && *c; c++)
        if (*c == '_') *c = '-';
    return length;
}

static int print_words(const char *const *words, char *buffer, size_t size) {
    int length = 0;
    for (size_t i = 0; words[i]; i++) {
        size_t at = (size_t)length < size ? (size_t)length : size;
        length += snprintf(buffer + at, size - at, "%s\"%s\"",
                           !i             ? ""
                           : words[i + 1] ? ", "
                                          : " or ",
                           words[i]);
    }
    return length;
}

int config_key_allowed(const ConfigKey *key, char *buffer, size_t size) {
    if (key->allowed) return snprintf(buffer, size, "%s", key->allowed);
    switch (key->type) {
    case CONFIG_BOOL:
        return snprintf(buffer, size, "true or false");
    case CONFIG_CHOICE:
        return print_words(key->words, buffer, size);
    case CONFIG_TEXT:
        return snprintf(buffer, size, "a text of up to %d bytes", CONFIG_MOST_TEXT);
    case CONFIG_INTEGER:
        if (key->words)
            return snprintf(buffer, size, "a whole number from %.0f to %.0f, or \"%s\"", key->min, key->max,
                            key->words[0]);
        return snprintf(buffer, size, "a whole number from %.0f to %.0f", key->min, key->max);
    default:
        return snprintf(buffer, size, "%g to %g", key->min, key->max);
    }
}
