// The models that are on this machine, wherever a program has put them, by the names that people have for them.
//
//   NAME                 palaver's own folder: a file without .gguf, or a folder
//   ORG/NAME[@REF]       the Hugging Face cache; :TYPE or :FILE behind it says which GGUF file of it
//   ollama:NAME:TAG      Ollama's store
//   lmstudio:ORG/NAME    LM Studio's, likewise with :TYPE
//   llama.cpp:FILE       llama.cpp's cache
//
// Looking reads folders and small files, no model.
#ifndef PALAVER_APP_MODELS_H
#define PALAVER_APP_MODELS_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum ModelPlace {
    MODELS_OWN,
    MODELS_BUNDLED,
    MODELS_HUGGING_FACE,
    MODELS_OLLAMA,
    MODELS_LM_STUDIO,
    MODELS_LLAMA_CPP,
} ModelPlace;
const char *models_place_name(ModelPlace place); // "Hugging Face"

typedef struct ModelEntry {
    char *name; // no other has it; as it is shown (text_name), whatever a file's name is
    char *path; // what engine_open() takes: a folder or a file
    ModelPlace place;
} ModelEntry;

typedef struct ModelList {
    ModelEntry *entries; // [count] by place, then by name; owned
    size_t count, capacity;
    bool lost; // there was no memory for all
} ModelList;

// All that are there. `program` is path_program()'s folder, or NULL: then there is no bundled one. STATUS_MEMORY; a
// folder that is not there or cannot be read is empty.
Status models_find(const char *program, ModelList *list, Error *error);
void models_free(ModelList *list);

// The entry that `name` means, as it is shown or as its file is called: its whole name; that without the place; the name
// of a repository that has one model; a part that only one has, upper and lower case alike. STATUS_FILE: none (with the
// nearest name); STATUS_USAGE: several, which are named. The same file under several names is one.
Status models_choose(const ModelList *list, const char *name, size_t *index, Error *error);

// The path of the model that `name` means, into path [PATH_ROOM]: as path_find_model(), else one of the others.
Status models_path(const char *name, const char *program, char *path, Error *error);

#endif
