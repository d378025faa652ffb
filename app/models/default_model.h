// The model that is taken where none is named: [model] path in a file of its own, which counts less than whatever else
// sets it.
#ifndef PALAVER_APP_DEFAULT_MODEL_H
#define PALAVER_APP_DEFAULT_MODEL_H

#include "kernels/base/status.h"

// Keeps `name`; `path` [PATH_ROOM] becomes the file that holds it. STATUS_FILE: it cannot be written.
Status default_model_keep(const char *name, char *path, Error *error);

#endif
