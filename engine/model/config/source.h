// Where hyperparameters come from, and the names they have there.
#ifndef PALAVER_ENGINE_SOURCE_H
#define PALAVER_ENGINE_SOURCE_H

#include "engine/files/checkpoint.h"
#include "engine/model/architecture.h"
#include "kernels/base/text/json.h"

// Hyperparameters under either kind's names.
typedef struct ParamSource {
    const json_t *config, *generation; // Hugging Face; NULL for GGUF
    const Checkpoint *checkpoint;      // NULL when only config.json is read
    const char *path;                  // for messages
    const char *whole; // model_type of config.json where `config` is its text_config; else NULL
    const Architecture *architecture;
    struct Unread *unread; // see unread.h
} ParamSource;

// The name under which config.json has `key`; if it does not, the architecture's own.
const char *source_config_key(const ParamSource *source, const char *key);

// The whole name of a key in GGUF, perhaps in `text`.
enum { KEY_SIZE = 160 };
const char *source_gguf_key(const ParamSource *source, const char *key, char text[KEY_SIZE]);

// The name that the files have for a key: whole, perhaps in `text`; and short, in GGUF without the architecture before it.
const char *source_key(const ParamSource *source, Key key, char text[KEY_SIZE]);
const char *source_short_key(const ParamSource *source, Key key);

#endif
