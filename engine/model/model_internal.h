// What the parts of model*.c share: where hyperparameters come from, and what an architecture adds to them.
#ifndef PALAVER_ENGINE_MODEL_INTERNAL_H
#define PALAVER_ENGINE_MODEL_INTERNAL_H

#include "kernels/base/json.h"
#include "kernels/base/text.h"
#include "engine/model/model.h"

// Which layers of an architecture look through a sliding window, where its files announce one.
typedef enum WindowRule {
    WINDOW_NEVER,
    WINDOW_EVERY_LAYER,
    WINDOW_UPPER_LAYERS, // only with use_sliding_window; those of layer_types, else from max_window_layers on
} WindowRule;

// The parts of a model that have a weight, and perhaps a bias.
typedef enum Module {
    MODULE_ATTN_NORM,
    MODULE_Q,
    MODULE_K,
    MODULE_V,
    MODULE_QKV, // all three in one
    MODULE_Q_NORM,
    MODULE_K_NORM,
    MODULE_O,
    MODULE_FFN_NORM,
    MODULE_GATE,
    MODULE_UP,
    MODULE_GATE_UP, // both in one, the gate first
    MODULE_DOWN,
    MODULE_EMBEDDING, // from here on of the model, not of a layer
    MODULE_POSITIONS,
    MODULE_EMBEDDING_NORM,
    MODULE_NORM,
    MODULE_OUTPUT,
    N_MODULES
} Module;

// Which modules have biases.
enum { BIAS_QKV = 1, BIAS_O = 2, BIAS_FFN = 4, BIAS_NORM = 8, BIAS_OUTPUT = 16 };

// How a model knows where a token stands.
typedef enum PositionKind { POSITIONS_ROPE, POSITIONS_LEARNED, POSITIONS_ALIBI } PositionKind;

typedef struct Key {
    const char *hf;   // of config.json, NULL: none
    const char *gguf; // without "llama.", NULL: none; with a leading dot it is a whole key (".general.name")
} Key;

// A number, switch or word of which palaver has code for one value only; absent and null mean that value.
typedef struct Fixed {
    const char *object; // of config.json that holds the key; NULL: the outermost
    Key key;            // no name: the end of a list
    double value;       // of switches 0 or 1
    const char *other;  // what other values mean
    const char *word;   // instead of a number; NULL: none
} Fixed;

// What a file's numbers leave unsaid. The defaults are those of transformers' configuration classes.
typedef struct Architecture {
    const char *name; // model_type of config.json
    const char *gguf; // general.architecture of GGUF; NULL: palaver reads it from Hugging Face folders only
    // Names of weights in a Hugging Face folder: base, which files saved without the head leave out; layer, behind
    // it; and modules, NULL where there are none. The head's own matrix stands outside of the base.
    const char *base, *layer;
    const char *modules[N_MODULES];
    struct {
        const char *usual, *own; // key of config.json: as LLaMA has it, as this architecture has it
        bool both;               // the class takes either, or shapes of weights prove it; else its own alone
    } aliases[8];                // those that differ; NULL ends them
    Fixed fixed[16];
    const char *ignored[6]; // keys of config.json that its class takes and that weights or nothing decide
    const char
        *buffers[3]; // how names of tensors end that are no weights: masks that old files were saved with
    bool
        qkv_by_head; // a Hugging Face file's MODULE_QKV: q, k, v of head 0, of head 1, …; else all q, all k, all v

    unsigned biases; // BIAS_…
    unsigned
        bias_keys; // those that config.json decides: BIAS_QKV (and O) by attention_bias, BIAS_FFN by mlp_bias
    bool parallel_key;   // use_parallel_residual means something
    bool fixed_act;      // the class has one activation, and no key for it
    bool fixed_eps;      // the same of the norm's epsilon
    bool longrope_alone; // rope scaling is LongRoPE, which has names of its own in older files
    bool partial_rotary; // partial_rotary_factor means something
    bool qk_norm, parallel_residual, default_tied;
    NormKind norm;
    double norm_eps;
    Activation activation;
    PositionKind positions;
    int position_offset;         // rows of learned positions before the first
    RopeKind hf_rope, gguf_rope; // GGUF's converter permutes LLaMA's Q and K to interleaved pairs
    WindowRule window_rule;
    bool windows_alike; // layer_types does not decide about them
    int64_t default_context, default_window;
    int64_t default_head_dim;   // of config.json; 0, as in GGUF: hidden_size / n_heads
    int64_t default_rotary_dim; // 0: the rotary part decides
    double default_rotary_part; // 0: the whole head
    int ffn_ratio;              // intermediate size to hidden size where files need not say; 0: they do
} Architecture;

// What of a model's files nobody has asked for yet. What is left of it when all is read, and is not known to be without
// meaning, would be left out of what is computed: it is refused by its name.
typedef struct Unread {
    json_t *config; // config.json without the keys that were read; NULL for GGUF
    bool *meta;     // [checkpoint_n_meta]: was read
    bool *tensors;  // [checkpoint_n_tensors]: was taken
} Unread;

// Names of modules in GGUF files, without ".weight" or ".bias"; those of layers stand behind "blk.N.".
extern const char *const GGUF_MODULES[N_MODULES];

// Hyperparameters under either kind's names.
typedef struct ParamSource {
    const json_t *config, *generation; // Hugging Face; NULL for GGUF
    const Checkpoint *checkpoint;      // NULL when only config.json is read
    const char *path;                  // for messages
    const Architecture *architecture;
    Unread *unread;
} ParamSource;

// model_unread.c. Begins with everything unread.
Status unread_open(ParamSource *source, Unread *unread, Error *error);
void unread_close(Unread *unread);
void unread_take_key(const ParamSource *source, const char *object,
                     const char *key); // object NULL: the outermost
void unread_take_meta(const ParamSource *source, const char *key);
void unread_take_tensor(const ParamSource *source, const CheckpointTensor *tensor);

// STATUS_UNSUPPORTED for the first key of config.json, or of the architecture's in GGUF metadata, that is unread and means
// something or is unknown; the same for tensors.
Status unread_check_keys(const ParamSource *source, Error *error);
Status unread_check_tensors(const ParamSource *source, Error *error);

// The value under `key`, or under the architecture's own name of it, which is read then; absent or null leaves *value as
// it is. Errors name file, key and both types.
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

bool json_is_set(const json_t *object, const char *key); // there, and not null
bool json_same(const json_t *a, const json_t *b);        // 1 and 1.0 are

// The name under which config.json has `key`; if it does not, the architecture's own.
const char *config_param_key(const ParamSource *source, const char *key);

// The whole name of a key in GGUF, perhaps in `text`.
enum { KEY_SIZE = 160 };
const char *gguf_param_key(const ParamSource *source, const char *key, char text[KEY_SIZE]);

// source->architecture.
Status model_find_architecture(ParamSource *source, Error *error);
// Sizes, norm, activation and biases into model->shape and its neighbours; checked against each other.
Status model_read_shape(Model *model, const ParamSource *source, Error *error);
// context_length, and what positions are told by: model->shape.rope, inv_freq and scaling, or n_positions; after the
// shape.
Status model_read_positions(Model *model, const ParamSource *source, Error *error);
Status model_read_windows(Model *model, const ParamSource *source, Error *error);
// Special ids and sampling defaults; after the shape, for ids are checked against vocab_size.
Status model_read_generation(Model *model, const ParamSource *source, Error *error);
// layers, head, n_parameters, weight_bytes.
Status model_read_weights(Model *model, const ParamSource *source, Error *error);

#endif
