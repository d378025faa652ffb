// Hyperparameters, one name at a time, from config.json or from GGUF metadata.
#ifndef PALAVER_ENGINE_PARAM_H
#define PALAVER_ENGINE_PARAM_H

#include "engine/model/config/source.h"
#include "kernels/base/text/quote.h"

// The value under `key`, or under the architecture's own name of it, which is read then; absent, or null where
// that says something, leaves *value as it is. Errors name file, key and both types.
Status param_integer(const ParamSource *source, Key key, int64_t *value, Error *error);
Status param_number(const ParamSource *source, Key key, double *value, Error *error);
Status param_bool(const ParamSource *source, Key key, bool *value, Error *error);
Status param_string(const ParamSource *source, Key key, char *value, size_t size, Error *error); // cut to fit

// A value of config.json or of GGUF metadata as messages quote it.
enum { VALUE_SIZE = QUOTE_ROOM + 2 };
const char *param_json_text(const json_t *value, char text[VALUE_SIZE]);
const char *param_meta_text(const MetaValue *value, char text[VALUE_SIZE]);

// STATUS_FILE: a key of config.json, or of its `object`, is null and may not be.
Status param_refuse_null(const ParamSource *source, const char *object, const char *name, Error *error);

#endif
