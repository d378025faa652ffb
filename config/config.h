// Settings: every key a person can set, its range, its value, and where that value came from.
//
// A Config is a plain struct of sections that the program reads (`config.sampling.top_p`), computed from
// layers. A higher layer hides a lower one; within a layer the later assignment wins:
//
//     built in < the model's own < files, in order < profile < PALAVER_* < flags < the session (/set)
//
// The built-in values are those of config/default.toml, which is embedded in the program. The files are, in
// order, $XDG_CONFIG_HOME/palaver/palaver.toml, ./palaver.toml and every `-c FILE`. A key is written
// `section.name`; as all names are unique, `name` alone is enough everywhere, and `-` may stand for `_`.
// The environment variable of a key is always PALAVER_SECTION_NAME (PALAVER_SAMPLING_TOP_P).
//
// Strings and lists in the sections belong to the Config. Two conversations that differ in settings each have
// their own, made by config_copy(); a struct assignment is only a view, good until the original changes.
#ifndef PALAVER_CONFIG_CONFIG_H
#define PALAVER_CONFIG_CONFIG_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONFIG_SEED_RANDOM = -1,     // sampling.seed = "random"
    CONFIG_REPEAT_CONTEXT = -1,  // sampling.repeat_last = "context": all that is in the window
    CONFIG_TOKENS_UNLIMITED = 0, // sampling.max_tokens = "unlimited"
    CONFIG_SIZE_MODEL = 0,       // context.size = "model": the model's own, fitted to memory
    CONFIG_KEEP_SYSTEM = -1,     // context.keep = "system": BOS and the system prompt
    CONFIG_GROUP_AUTO = 0,       // cache.group = "auto": 32 for int8, 16 for int4
    CONFIG_THREADS_AUTO = 0,     // backend.threads = "auto": one a physical core
};

typedef enum ConfigOverflow {
    CONFIG_OVERFLOW_REEVALUATE,
    CONFIG_OVERFLOW_SHIFT,
    CONFIG_OVERFLOW_SHIFT_INPLACE,
    CONFIG_OVERFLOW_STOP,
} ConfigOverflow;

typedef enum ConfigBy { CONFIG_BY_TURN, CONFIG_BY_TOKEN } ConfigBy;

typedef enum ConfigCacheType {
    CONFIG_CACHE_F16,
    CONFIG_CACHE_F32,
    CONFIG_CACHE_INT8,
    CONFIG_CACHE_INT4,
} ConfigCacheType;

typedef enum ConfigWeights {
    CONFIG_WEIGHTS_AS_IS,
    CONFIG_WEIGHTS_F16,
    CONFIG_WEIGHTS_INT8,
    CONFIG_WEIGHTS_INT4,
} ConfigWeights;

typedef enum ConfigColor { CONFIG_COLOR_AUTO, CONFIG_COLOR_ALWAYS, CONFIG_COLOR_NEVER } ConfigColor;

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

typedef struct SamplingConfig {
    double temperature; // 0 is greedy
    double top_p;       // 1: off
    int64_t top_k;      // 0: off
    double min_p;       // 0: off
    double typical_p;   // 1: off
    double repeat_penalty;
    int64_t repeat_last; // tokens the penalties look back, or CONFIG_REPEAT_CONTEXT
    double frequency_penalty;
    double presence_penalty;
    double dry_multiplier; // 0: off
    double dry_base;
    int64_t dry_allowed;
    int64_t seed;       // or CONFIG_SEED_RANDOM
    int64_t max_tokens; // or CONFIG_TOKENS_UNLIMITED
    ConfigStrings stop;
    ConfigBiases logit_bias;
    bool ignore_eos;
} SamplingConfig;

typedef struct ContextConfig {
    int64_t size;    // tokens, or CONFIG_SIZE_MODEL
    int64_t reserve; // tokens kept free for the reply
    ConfigOverflow overflow;
    int64_t keep;     // tokens, or CONFIG_KEEP_SYSTEM
    double discard;   // below 1: that share of what is not kept; from 1 on: so many tokens (a whole number)
    double low_water; // share of the context that may stay used after whole turns left
    ConfigBy by;
} ContextConfig;

typedef struct CacheConfig {
    ConfigCacheType type;
    int64_t group;  // elements that share one scale (int8, int4), or CONFIG_GROUP_AUTO
    int64_t layout; // 0..3, as MultiHeadCacheAttention's cache_layout
    bool paged;
    int64_t page_size; // tokens
} CacheConfig;

typedef struct ModelConfig {
    char *path; // "": the default model
    ConfigWeights weights;
    char *template; // "auto", the name of a chat template, or a .toml file
} ModelConfig;

typedef struct BackendConfig {
    char *device;    // "auto", "cpu", "cpu:reference", "cuda" or "cuda:N"
    int64_t threads; // or CONFIG_THREADS_AUTO
} BackendConfig;

typedef struct UiConfig {
    bool stats;
    ConfigColor color;
    bool gauge;
    bool history;
} UiConfig;

typedef struct ConfigLayers ConfigLayers; // every assignment so far, with its origin

typedef struct Config {
    SamplingConfig sampling;
    ContextConfig context;
    CacheConfig cache;
    ModelConfig model;
    BackendConfig backend;
    UiConfig ui;
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
    CONFIG_BOOL,    // bool
    CONFIG_INTEGER, // int64_t
    CONFIG_NUMBER,  // double
    CONFIG_AMOUNT,  // double: a fraction below 1, or a whole number
    CONFIG_CHOICE,  // an enum (int), one of `words` in order
    CONFIG_TEXT,    // char *
    CONFIG_STRINGS, // ConfigStrings
    CONFIG_BIASES,  // ConfigBiases
} ConfigType;

typedef struct ConfigKey {
    const char *section;
    const char *name;
    ConfigType type;
    double min, max;          // range of numbers, inclusive; of CONFIG_BIASES: of each bias
    const char *const *words; // NULL-terminated: the choices; of CONFIG_INTEGER: at most one, for
                              // `word_value`; of CONFIG_TEXT: the usual values, for completion; else NULL
    int64_t word_value;       // what the word of a CONFIG_INTEGER is stored as
    bool (*accepts)(const char *text); // of CONFIG_TEXT: further check, or NULL
    size_t offset;                     // in Config
    const char *allowed; // the allowed values in words, where range and words do not say it; or NULL
    const char *doc;     // one line
} ConfigKey;

// All keys in the order of the documentation, [*count]. Static.
const ConfigKey *config_keys(size_t *count);

// The key called `name` ("top_p", "sampling.top_p", "top-p"); NULL when there is none.
const ConfigKey *config_key_find(const char *name);

// Fills `error` with "unknown key …" and the nearest name, returns STATUS_USAGE.
Status config_key_unknown(const char *name, Error *error);

// Write into buffer like snprintf, return the length: the environment variable, and the allowed values in
// words ("0 to 5", "true or false", "\"turn\" or \"token\"").
int config_key_environment(const ConfigKey *key, char *buffer, size_t size);
int config_key_allowed(const ConfigKey *key, char *buffer, size_t size);

// ---- life -----------------------------------------------------------------------------------------------

// The built-in values. On failure (out of memory) `config` holds nothing and needs no config_free().
Status config_init(Config *config, Error *error);
void config_free(Config *config);

// A deep copy with all layers; `copy` is uninitialised before.
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
char *config_default_text(void);

#endif
