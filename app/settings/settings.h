// What a person can set, where the program reads it: fields of the engine's own options, computed from the layers of a
// Config (config/config.h). The table in settings.c leads from each key to its field.
#ifndef PALAVER_APP_SETTINGS_H
#define PALAVER_APP_SETTINGS_H

#include "app/terminal/encoding.h"
#include "app/terminal/screen/screen.h"
#include "config/config.h"
#include "engine/talk/conversation.h"

enum { SETTINGS_SEED_RANDOM = -1 };

// What becomes of a reply that says the same over and over.
typedef enum SettingsLoops { LOOPS_TELL, LOOPS_STOP, LOOPS_OFF } SettingsLoops;

typedef struct Settings {
    Config config;             // the layers: for config_set() and the like
    ConversationSettings talk; // [sampling], [context]; biases and stop strings are empty, their names below
    EngineOptions engine;      // [context] size, [cache], [backend], [model] weights and head
    struct {
        int64_t seed; // or SETTINGS_SEED_RANDOM
        ConfigStrings stop;
        ConfigBiases logit_bias; // of tokens by id or piece, which only a tokenizer can find
        // What replies fit: a file, a pattern, a file; "": nothing. At most one of them.
        char *grammar, *regex, *json_schema;
    } sampling;
    struct {
        char *path;          // "": the default model
        char *draft;         // "": none
        char *template;      // "auto", "jinja", the name of a chat template, or a .toml or .jinja file
        char *template_args; // a JSON object, or ""
        int thinking;        // 1, 0, or -1: as the model is made
    } model;
    struct {
        char *snapshots; // bytes of all, as format_read_bytes() reads them
    } cache;
    struct {
        bool stats;
        ScreenColor color;
        bool gauge;
        bool history;
        bool wrap, markdown, space, live_speed;
        ScreenLinks links;
        ThemeName theme;
        SettingsLoops loops;
        TextEncoding encoding; // of files and stdin
    } ui;
    char *colors[THEME_N_PARTS]; // [colors]: "" is the theme's own
} Settings;

// The built-in values. After a failure nothing has to be freed.
Status settings_init(Settings *settings, Error *error);
void settings_free(Settings *settings); // leaves zeros
// All of it, layers included; `copy` is uninitialised before.
Status settings_copy(Settings *copy, const Settings *from, Error *error);
const ConfigTable *settings_table(void);
// All keys [*count].
const ConfigKey *settings_keys(size_t *count);
// The key of that name, or NULL, as config_key_find().
const ConfigKey *settings_key(const char *name);
// Whether a key only counts when palaver starts.
bool settings_key_is_fixed(const ConfigKey *key);
// A fresh seed: nine digits or less, easy to type.
uint64_t settings_random_seed(void);

#endif
