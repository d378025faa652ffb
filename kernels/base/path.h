// Where palaver keeps things (XDG base directories), and what a name of a model means.
#ifndef PALAVER_BASE_PATH_H
#define PALAVER_BASE_PATH_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PATH_ROOM = 4096 };

// The default model, as `make model` puts it there.
#define DEFAULT_MODEL_FILE "SmolLM2-135M-Instruct.Q4_1.gguf"

// The folder of the small model that comes with palaver, for talks before any other model is there.
#define BUNDLED_MODEL "parley-9m"

// STATUS_USAGE: one that does not fit PATH_ROOM.
Status path_too_long(const char *path, Error *error);

// "FOLDER/NAME", malloc'ed; NULL without memory.
char *path_join(const char *folder, const char *name);

// $HOME, or the user's home folder as the system knows it: a path from / on. NULL: there is none; the error, of
// STATUS_FILE, says why, and which variables would do `instead` (NULL: none).
const char *path_home(const char *instead, Error *error);

// A path of a setting, in which no shell has seen the ~: one that begins with ~/ is below the home folder, where one is known.
const char *path_in_home(const char *path, char whole[PATH_ROOM]);

// Writes the path of `tail` ("conversations") below palaver's state folder into path [PATH_ROOM]. A relative XDG
// variable is ignored, as the specification asks. STATUS_FILE: no home folder is known.
Status path_state(const char *tail, char *path, Error *error);

// The same below palaver's cache folder: what can be made anew at any time.
Status path_cache(const char *tail, char *path, Error *error);

// The same below palaver's folder of settings.
Status path_config(const char *tail, char *path, Error *error);

// Where palaver's own models are, into path [PATH_ROOM].
Status path_models(char *path, Error *error);

// The model that comes with palaver, into path [PATH_ROOM]; `program` as for path_find_model(). False: it is not there.
bool path_find_bundled(const char *program, char *path);

// Makes a folder and those above it, each with `mode`; one that exists is fine.
Status path_make_folder(const char *path, mode_t mode, Error *error);

// The same of the folder that a file at `path` would lie in; a name alone lies in the working folder.
Status path_make_folder_of(const char *path, mode_t mode, Error *error);

// The model that `name` means: a path as it is, else a name (with or without .gguf) in the models folder;
// NULL or "": the default model, else the only one there, else, where there is none, the bundled one.
// `program` is path_program()'s folder, or NULL: then there is no bundled one. STATUS_FILE names what is
// there, or how to get a model.
Status path_find_model(const char *name, const char *program, char *path, Error *error);

// The folder of the running program, links resolved, into path [PATH_ROOM]. False if it is not known.
bool path_program(char *path);

// Whether a found model is the bundled one.
bool path_is_bundled(const char *model);

// Settings that come with a model: X.toml beside X.gguf, palaver.toml in a folder. False if there is no such
// file.
bool path_model_settings(const char *model, char *path);

// A path as it is typed: where nothing is called so, but something is shown so (utf8_spell), that is meant.
const char *path_meant(const char *path, char other[PATH_ROOM]);

// The last name of a path; the path itself where it ends in a slash.
const char *path_base(const char *path);

// Puts the working folder before a relative path [PATH_ROOM], so that it can be kept; links stay links.
void path_make_absolute(char *path);

#endif
