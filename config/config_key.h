// What a setting can be: its name, type, range and words, and the field in which its value ends.
#ifndef PALAVER_CONFIG_KEY_H
#define PALAVER_CONFIG_KEY_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONFIG_MOST_TEXT = 4096 }; // bytes of a text

typedef struct ConfigStrings {
    char **items; // [count], UTF-8, no NUL inside
    size_t count;
} ConfigStrings;

typedef struct ConfigBias {
    char *token; // a token id in decimal digits, or the text of one piece
    double bias; // added to the logit
} ConfigBias;

typedef struct ConfigBiases {
    ConfigBias *items; // [count]
    size_t count;
} ConfigBiases;

typedef enum ConfigType {
    CONFIG_BOOL,
    CONFIG_INTEGER,
    CONFIG_NUMBER,
    CONFIG_AMOUNT, // a fraction below 1, or a whole number
    CONFIG_CHOICE, // one of `words`
    CONFIG_TEXT,
    CONFIG_STRINGS,
    CONFIG_BIASES,
} ConfigType;

// What the field of a key is in C. Numbers are rounded to it; ranges see to it that they fit.
typedef enum ConfigField {
    CONFIG_FIELD_BOOL, // also of a CONFIG_CHOICE of two words: the second is true
    CONFIG_FIELD_INT,  // int, or an enum
    CONFIG_FIELD_INT64,
    CONFIG_FIELD_FLOAT,
    CONFIG_FIELD_DOUBLE,
    CONFIG_FIELD_TEXT,    // char *
    CONFIG_FIELD_STRINGS, // ConfigStrings
    CONFIG_FIELD_BIASES,  // ConfigBiases
} ConfigField;

typedef struct ConfigKey {
    const char *section;
    const char *name;
    ConfigType type;
    double min, max;          // range of numbers, inclusive; of CONFIG_BIASES: of each bias
    const char *const *words; // NULL-terminated: the choices; of CONFIG_INTEGER: at most one, for
                              // `word_value`; of CONFIG_TEXT: the usual values, for completion; else NULL
    int64_t word_value;       // what the word of a CONFIG_INTEGER is stored as
    const int *values;        // of CONFIG_CHOICE: what each word is stored as; NULL: its index
    bool (*accepts)(const char *text); // of CONFIG_TEXT: further check, or NULL
    ConfigField field;
    size_t offset;       // of the field from the Config, in bytes
    const char *allowed; // the allowed values in words, where range and words do not say it; or NULL
    const char *doc;     // one line
} ConfigKey;

// Where a value was said, the lowest first.
typedef enum ConfigLayer {
    CONFIG_BUILTIN,
    CONFIG_MODEL,       // generation_config.json
    CONFIG_FILES,       // user file, ./palaver.toml, -c
    CONFIG_PROFILE,     // --profile
    CONFIG_ENVIRONMENT, // PALAVER_*
    CONFIG_FLAGS,
    CONFIG_SESSION, // /set, /config
} ConfigLayer;

// All the keys of a program, in the order of their documentation; those of a section stand together.
typedef struct ConfigTable {
    const ConfigKey *keys; // [n_keys], every name once
    size_t n_keys;
    size_t size;      // of the struct that begins with a Config, in bytes
    const char *name; // of the file below, for messages
    // A TOML file that gives every key its built-in value, and documents it.
    const char *built_in, *built_in_end;
} ConfigTable;

// The key called `name` ("top_p", "sampling.top_p", "top-p"); NULL when there is none.
const ConfigKey *config_key_find(const ConfigTable *table, const char *name);

// Write into buffer like snprintf, return the length: the environment variable, the flag as --help spells it
// ("--page-size"; that of context.size is --context to people), and the allowed values in words ("0 to 5", "true or false",
// "\"turn\" or \"token\"").
int config_key_environment(const ConfigKey *key, char *buffer, size_t size);
int config_key_flag(const ConfigKey *key, char *buffer, size_t size);
int config_key_allowed(const ConfigKey *key, char *buffer, size_t size);

#endif
