// One setting's value: from a TOML node, from typed text, to TOML text. Inner header of the room.
#ifndef PALAVER_CONFIG_VALUE_H
#define PALAVER_CONFIG_VALUE_H

#include "config/config_key.h"
#include "kernels/base/text/toml.h"

// Which member is meant follows from the key's type.
typedef union ConfigValue {
    bool boolean;
    int64_t integer;
    double number; // CONFIG_NUMBER, CONFIG_AMOUNT
    int choice;    // index into the key's words
    char *text;    // owned
    ConfigStrings strings;
    ConfigBiases biases;
} ConfigValue;

// Checks type and range. A failing call leaves nothing to free; the message names the key, what it was given
// and what is allowed, not the place.
Status value_from_node(const ConfigKey *key, const TomlNode *node, ConfigValue *value, Error *error);
Status value_from_text(const ConfigKey *key, const char *text, ConfigValue *value, Error *error);

// STATUS_MEMORY, and the key that cannot be kept.
Status value_no_memory(const ConfigKey *key, Error *error);

Status value_copy(const ConfigKey *key, const ConfigValue *from, ConfigValue *copy, Error *error);
void value_free(const ConfigKey *key, ConfigValue *value);

// Stores into the key's field of `settings`, the struct that its table is about; strings and lists are shared, not
// copied.
void value_store(const ConfigKey *key, const ConfigValue *value, void *settings);

#endif
