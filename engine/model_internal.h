// What the parts of model*.c share: where hyperparameters come from, and what an architecture adds to them.
#ifndef PALAVER_ENGINE_MODEL_INTERNAL_H
#define PALAVER_ENGINE_MODEL_INTERNAL_H

#include "engine/json_text.h"
#include "engine/model.h"

// Which layers of an architecture look through a sliding window, where its files announce one.
typedef enum WindowRule {
    WINDOW_NEVER,
    WINDOW_EVERY_LAYER,
    WINDOW_UPPER_LAYERS, // only with use_sliding_window; those of layer_types, else from max_window_layers on
} WindowRule;

// What a file's numbers leave unsaid. The defaults are those of transformers' configuration classes.
typedef struct Architecture {
    const char *name; // model_type of config.json, and general.architecture of GGUF
    RopeKind
        gguf_rope; // GGUF's converter permutes LLaMA's Q and K to interleaved pairs; HF is always half-split
    bool qkv_bias, qk_norm;
    WindowRule window_rule;
    int64_t default_context, default_window;
    int64_t default_head_dim; // of config.json; 0, as in GGUF: hidden_size / n_heads
} Architecture;

// Hyperparameters under either kind's names.
typedef struct ParamSource {
    const json_t *config, *generation; // Hugging Face; NULL for GGUF
    const Checkpoint *checkpoint;      // NULL when only config.json is read
    const char *path;                  // for messages
    const Architecture *architecture;
} ParamSource;

typedef struct Key {
    const char *hf;   // of config.json, NULL: none
    const char *gguf; // without "llama.", NULL: none; with a leading dot it is a whole key (".general.name")
} Key;

// The value under `key`; absent or null leaves *value as it is. Errors name file, key and both types.
Status param_integer(const ParamSource *source, Key key, int64_t *value, Error *error);
Status param_number(const ParamSource *source, Key key, double *value, Error *error);
Status param_bool(const ParamSource *source, Key key, bool *value, Error *error);
Status param_string(const ParamSource *source, Key key, char *value, size_t size, Error *error); // cut to fit

// The same from a JSON object; `what` names it in messages.
Status json_integer_at(const json_t *object, const char *what, const char *key, int64_t *value, Error *error);
Status json_number_at(const json_t *object, const char *what, const char *key, double *value, Error *error);
Status json_bool_at(const json_t *object, const char *what, const char *key, bool *value, Error *error);
Status json_string_at(const json_t *object, const char *what, const char *key, char *value, size_t size,
                      Error *error);

// Sizes, norm, activation and biases into model->shape and its neighbours; checked against each other.
Status model_read_shape(Model *model, const ParamSource *source, Error *error);
// model->shape.rope, inv_freq, scaling and context_length; after the shape.
Status model_read_rope(Model *model, const ParamSource *source, Error *error);
Status model_read_windows(Model *model, const ParamSource *source, Error *error);
// Special ids and sampling defaults; after the shape, for ids are checked against vocab_size.
Status model_read_generation(Model *model, const ParamSource *source, Error *error);
// layers, head, n_parameters, weight_bytes.
Status model_read_weights(Model *model, const ParamSource *source, Error *error);

#endif
