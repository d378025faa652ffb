// What of a model's files is left unread.
#ifndef PALAVER_ENGINE_UNREAD_H
#define PALAVER_ENGINE_UNREAD_H

#include "engine/model/source.h"

// What of a model's files nobody has asked for yet. What is left of it when all is read, and is not known to be without
// meaning, would be left out of what is computed: it is refused by its name.
typedef struct Unread {
    json_t *config; // config.json without the keys that were read; NULL for GGUF
    bool *meta;     // [checkpoint_n_meta]: was read
    bool *tensors;  // [checkpoint_n_tensors]: was taken
} Unread;

// Begins with everything unread.
Status unread_open(ParamSource *source, Unread *unread, Error *error);
void unread_close(Unread *unread);
// `object` NULL: the outermost.
void unread_take_key(const ParamSource *source, const char *object, const char *key);
void unread_take_meta(const ParamSource *source, const char *key);
void unread_take_tensor(const ParamSource *source, const CheckpointTensor *tensor);

// STATUS_UNSUPPORTED for the first key of config.json, or of the architecture's in GGUF metadata, that is unread and
// means something or is unknown; the same for tensors.
Status unread_check_keys(const ParamSource *source, Error *error);
Status unread_check_tensors(const ParamSource *source, Error *error);

#endif
