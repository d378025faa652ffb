// Settings as a mechanism: layers of assignments, their origins, and the values that are computed from them. Which keys
// there are, and in which fields of which structs their values end, is said by a table of the program's
// (app/settings.c): nothing here knows one of them.
//
// A higher layer hides a lower one; within a layer the later assignment wins:
//
//     built in < the model's own < files, in order < profile < PALAVER_* < flags < the session (/set)
//
// The built-in values are those of a documented TOML file that comes with the table. The files are, in order, $XDG_CONFIG_HOME/palaver/palaver.toml, ./palaver.toml and every `-c FILE`. A key is written
// `section.name`; as all names are unique, `name` alone is enough everywhere, and `-` may stand for `_`.
// The environment variable of a key is always PALAVER_SECTION_NAME (PALAVER_SAMPLING_TOP_P).
//
// Strings and lists in the fields belong to the Config. Two conversations that differ in settings each have
// their own, made by config_copy(); a struct assignment is only a view, good until the original changes.
#ifndef PALAVER_CONFIG_CONFIG_H
#define PALAVER_CONFIG_CONFIG_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

typedef struct ConfigLayers ConfigLayers; // every assignment so far, with its origin
typedef struct ConfigTable ConfigTable;

// The first member of the struct in which a program reads its settings (app/settings.h): the places of the keys are
// counted from here.
typedef struct Config {
    const ConfigTable *table;
    ConfigLayers *layers;
} Config;

typedef enum ConfigLayer {
    CONFIG_BUILTIN,
    CONFIG_MODEL,       // generation_config.json
    CONFIG_FILES,       // user file, ./palaver.toml, -c
    CONFIG_PROFILE,     // --profile
    CONFIG_ENVIRONMENT, // PALAVER_*
    CONFIG_FLAGS,
    CONFIG_SESSION, // /set, /config
} ConfigLayer;

// ---- keys -----------------------------------------------------------------------------------------------

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

// All the keys of a program, in the order of their documentation; those of a section stand together.
struct ConfigTable {
    const ConfigKey *keys; // [n_keys], every name once
    size_t n_keys;
    size_t size;      // of the struct that begins with a Config, in bytes
    const char *name; // of the file below, for messages
    const char *built_in,
        *built_in_end; // a TOML file that gives every key its built-in value, and documents it
};

// The key called `name` ("top_p", "sampling.top_p", "top-p"); NULL when there is none.
const ConfigKey *config_key_find(const ConfigTable *table, const char *name);

// Fills `error` with "unknown key …" and the nearest name, returns STATUS_USAGE.
Status config_key_unknown(const ConfigTable *table, const char *name, Error *error);

// Write into buffer like snprintf, return the length: the environment variable, and the allowed values in
// words ("0 to 5", "true or false", "\"turn\" or \"token\"").
int config_key_environment(const ConfigKey *key, char *buffer, size_t size);
int config_key_allowed(const ConfigKey *key, char *buffer, size_t size);

// ---- life -----------------------------------------------------------------------------------------------

// The built-in values, in the struct of `table` that begins with `config`; fields without a key become zero. On failure
// (out of memory) it holds nothing and needs no config_free(), which leaves zeros.
Status config_init(const ConfigTable *table, Config *config, Error *error);
void config_free(Config *config);

// A deep copy with all layers, fields without a key as they are; `copy`, of the same size, is uninitialised before.
Status config_copy(Config *copy, const Config *from, Error *error);

// ---- layers ---------------------------------------------------------------------------------------------
// Each of these either succeeds or leaves `config` as it was.

// Where the user's file is looked for, written like snprintf; 0 when there is neither XDG_CONFIG_HOME nor
// HOME.
int config_user_path(char *buffer, size_t size);

// The user's file and ./palaver.toml, those that exist.
Status config_apply_user_files(Config *config, Error *error);

// One TOML file; its [profile.NAME] sections are only remembered. `layer` is CONFIG_FILES, or CONFIG_SESSION
// for `/config FILE`. Errors read FILE:LINE:COLUMN: what, and the allowed values.
Status config_apply_file(Config *config, ConfigLayer layer, const char *path, Error *error);

// The same for text in memory (`length` bytes, need not end with NUL); `name` stands for the file in
// messages.
Status config_apply_text(Config *config, ConfigLayer layer, const char *name, const char *text, size_t length,
                         Error *error);

// The [profile.NAME] sections of all files read so far. CONFIG_PROFILE replaces the profile chosen before.
Status config_apply_profile(Config *config, ConfigLayer layer, const char *profile, Error *error);
// Name of the i-th remembered profile, NULL past the last; in order of appearance.
const char *config_profile_name(const Config *config, size_t i);

// All PALAVER_SECTION_NAME variables of `environment` (NAME=VALUE strings, NULL-terminated, as environ). A
// variable that nearly names a key is an error; other PALAVER_ variables are ignored.
Status config_apply_environment(Config *config, char *const *environment, Error *error);

// One key from text, as typed after a flag or /set: a TOML value; strings need no quotes, switches also know
// on and off, lists may be a,b,c, and biases id=1.5,piece=-2.
Status config_set(Config *config, ConfigLayer layer, const char *key, const char *text, Error *error);

// Removes the session's value of one key, or all values of a layer (the model's own when the model changes).
Status config_reset(Config *config, const char *key, Error *error);
void config_clear(Config *config, ConfigLayer layer);

// ---- looking --------------------------------------------------------------------------------------------

// The value as TOML text, written like snprintf.
int config_print_value(const Config *config, const ConfigKey *key, char *buffer, size_t size);

// Where the value came from: "built in", "generation_config.json", "palaver.toml:3", "PALAVER_SAMPLING_SEED",
// "--seed", "/set". Belongs to `config`, good until it changes.
const char *config_origin(const Config *config, const ConfigKey *key);
ConfigLayer config_origin_layer(const Config *config, const ConfigKey *key);

// The documented file with every key commented out, as `palaver config --default` prints it: as a user's file
// it changes nothing until a line is uncommented. malloc'd, NULL when out of memory.
char *config_default_text(const ConfigTable *table);

#endif
