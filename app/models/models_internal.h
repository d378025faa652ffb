// How the list of models is filled, place by place. Only for app/models.
#ifndef PALAVER_APP_MODELS_INTERNAL_H
#define PALAVER_APP_MODELS_INTERNAL_H

#include "app/models/models.h"

// "$VARIABLE", or "$HOME/TAIL", which are absolute, into path [PATH_ROOM]; `variable` NULL: only the latter. False:
// there is no such folder.
bool models_folder(const char *variable, const char *tail, char *path);

// Adds a model; `name` and `path` are taken over, NULL: there was no memory for them.
void models_add(ModelList *list, ModelPlace place, char *name, char *path);
// What lies in a folder of one repository: the folder itself, where it is a Hugging Face model, as NAME, and each GGUF
// file in it, up to three folders deep, as NAME:TYPE, or NAME:FILE where several have one type.
void models_add_repository(ModelList *list, ModelPlace place, const char *name, const char *folder);
// A single GGUF file, as PREFIX and its name without the suffix.
void models_add_file(ModelList *list, ModelPlace place, const char *prefix, const char *folder,
                     const char *file);

// Whether a file's name is that of a GGUF model: not of its second part, nor of a projector for pictures.
bool models_is_gguf(const char *file);

// Of such a name, with or without folders: how many bytes of it stand before ".gguf" and the number of a part; and the
// type that it tells, "Q4_K_M" [*length], or all of that where it tells none.
size_t models_stem(const char *file);
const char *models_label(const char *file, size_t *length);

// Calls `visit` for each visible name in a folder, sorted by bytes; none where it cannot be read.
typedef void ModelVisit(void *context, const char *folder, const char *name, bool is_folder);
void models_visit(ModelList *list, const char *folder, ModelVisit *visit, void *context);

// One function a store.
void models_add_hub(ModelList *list);    // hub_cache.c
void models_add_ollama(ModelList *list); // ollama.c

#endif
