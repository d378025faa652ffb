// What a person calls a model.
#ifndef PALAVER_APP_LOADING_MODEL_NAME_H
#define PALAVER_APP_LOADING_MODEL_NAME_H

#include <stddef.h>

// The name that its makers gave it, out of where it lies: that of the file without its type (SmolLM2-135M-Instruct of
// SmolLM2-135M-Instruct.Q4_1.gguf), of the folder, of the folder in a hub's cache (models--ORG--NAME/snapshots/…).
// Where that says nothing (model.gguf, a blob's hash), `own`, which is what the file calls itself; "" or NULL: nothing.
void model_name(const char *path, const char *own, char *name, size_t size);

#endif
