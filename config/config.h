// Settings as a mechanism: layers of assignments, their origins, and the values that are computed from them. Which keys
// there are, and in which fields of which structs their values end, is said by a table of the program's
// (app/settings/settings.c): nothing here knows one of them.
//
// A higher layer hides a lower one; within a layer the later assignment wins:
//
//     built in < the model's own < files, in order < profile < PALAVER_* < flags < the session (/set)
//
// The built-in values are those of a documented TOML file that comes with the table. The files are, in order,
// $XDG_CONFIG_HOME/palaver/default-model.toml, palaver.toml beside it, ./palaver.toml and every `-c FILE`. A key is
// written `section.name`; as all names are unique, `name` alone is enough everywhere, and `-` may stand for `_`. The
// environment variable of a key is always PALAVER_SECTION_NAME (PALAVER_SAMPLING_TOP_P).
//
// Strings and lists in the fields belong to the Config. Two conversations that differ in settings each have
// their own, made by config_copy(); a struct assignment is only a view, good until the original changes.
#ifndef PALAVER_CONFIG_CONFIG_H
#define PALAVER_CONFIG_CONFIG_H

#include "config/config_key.h"
#include "kernels/base/status.h"
#include "kernels/base/text/toml.h"

typedef struct ConfigLayers ConfigLayers; // every assignment so far, with its origin

// The first member of the struct in which a program reads its settings (app/settings/settings.h): the places of the keys are
// counted from here.
typedef struct Config {
    const ConfigTable *table;
    ConfigLayers *layers;
} Config;

// ---- life -----------------------------------------------------------------------------------------------

// The built-in values, in the struct of `table` that begins with `config`; fields without a key become zero. On failure
// (out of memory) it holds nothing and needs no config_free(), which leaves zeros.
Status config_init(const ConfigTable *table, Config *config, Error *error);
void config_free(Config *config);

// A deep copy with all layers, fields without a key as they are; `copy`, of the same size, is uninitialised before.
Status config_copy(Config *copy, const Config *from, Error *error);

// ---- layers ---------------------------------------------------------------------------------------------
// Each of these either succeeds or leaves `config` as it was.

// The user's files ($XDG_CONFIG_HOME/palaver/default-model.toml and palaver.toml, or below $HOME/.config) and
// ./palaver.toml, those that exist.
Status config_apply_user_files(Config *config, Error *error);

// Where the first of these is, which a program writes, into path [PATH_ROOM]. STATUS_FILE: no home folder is known.
Status config_default_model_path(char *path, Error *error);

// One TOML file; its [profile.NAME] sections are only remembered. `layer` is CONFIG_FILES, or CONFIG_SESSION
// for `/config FILE`. Errors read FILE:LINE:COLUMN: what, and the allowed values.
Status config_apply_file(Config *config, ConfigLayer layer, const char *path, Error *error);

// The same of a file that somebody names, which may be a pipe, as a shell's <(…) is; others are not waited for.
Status config_apply_named_file(Config *config, ConfigLayer layer, const char *path, Error *error);

// The [profile.NAME] sections of all files read so far. CONFIG_PROFILE replaces the profile chosen before.
Status config_apply_profile(Config *config, ConfigLayer layer, const char *profile, Error *error);
// Name of the i-th remembered profile, NULL past the last; in order of appearance.
const char *config_profile_name(const Config *config, size_t i);

// All PALAVER_SECTION_NAME variables of `environment` (NAME=VALUE strings, NULL-terminated, as environ). A
// variable that nearly names a key is an error; other PALAVER_ variables are ignored (settings_tell_variables).
Status config_apply_environment(Config *config, char *const *environment, Error *error);

// One key from text, as typed after a flag or /set: a TOML value; strings need no quotes, switches also know
// on and off, lists may be a,b,c, and biases id=1.5,piece=-2.
Status config_set(Config *config, ConfigLayer layer, const char *key, const char *text, Error *error);

// One key of the session from a value that is already read (of JSON), which is taken as it is: nothing in a text is
// a quotation mark or a comma of a list.
Status config_set_value(Config *config, const char *key, const TomlNode *value, Error *error);

// Removes the session's value of one key, or all values of a layer (the model's own when the model changes).
Status config_reset(Config *config, const char *key, Error *error);
void config_clear(Config *config, ConfigLayer layer);

// ---- looking --------------------------------------------------------------------------------------------

// The value as TOML text, written like snprintf.
int config_print_value(const Config *config, const ConfigKey *key, char *buffer, size_t size);

// The same, however long it is; malloc'd, NULL when out of memory.
char *config_value_text(const Config *config, const ConfigKey *key);

// Where the value came from: "built in", "generation_config.json", "palaver.toml:3", "PALAVER_SAMPLING_SEED",
// "--seed", "/set". Belongs to `config`, good until it changes.
const char *config_origin(const Config *config, const ConfigKey *key);
ConfigLayer config_origin_layer(const Config *config, const ConfigKey *key);

// The documented file with every key commented out, as `palaver config --default` prints it: as a user's file
// it changes nothing until a line is uncommented. malloc'd, NULL when out of memory.
char *config_default_text(const ConfigTable *table);

#endif
