// Hyperparameters, one name at a time, from config.json or from GGUF metadata.
#include "engine/model_internal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- either kind of file -----------------------------------------------------------------------------

enum { KEY_SIZE = 160 };

static const char *full_key(const ParamSource *source, Key key, char text[KEY_SIZE]) {
    if (key.gguf[0] == '.') return key.gguf + 1;
    snprintf(text, KEY_SIZE, "%s.%s", source->architecture->name, key.gguf);
    return text;
}

Status param_integer(const ParamSource *source, Key key, int64_t *value, Error *error) {
    char text[KEY_SIZE];
    if (source->config == NULL) {
        return key.gguf == NULL
                   ? STATUS_OK
                   : checkpoint_get_integer(source->checkpoint, full_key(source, key, text), value, error);
    }
    return key.hf == NULL ? STATUS_OK : json_integer_at(source->config, source->path, key.hf, value, error);
}

Status param_number(const ParamSource *source, Key key, double *value, Error *error) {
    char text[KEY_SIZE];
    if (source->config == NULL) {
        return key.gguf == NULL
                   ? STATUS_OK
                   : checkpoint_get_number(source->checkpoint, full_key(source, key, text), value, error);
    }
    return key.hf == NULL ? STATUS_OK : json_number_at(source->config, source->path, key.hf, value, error);
}

Status param_bool(const ParamSource *source, Key key, bool *value, Error *error) {
    char text[KEY_SIZE];
    if (source->config == NULL) {
        return key.gguf == NULL
                   ? STATUS_OK
                   : checkpoint_get_bool(source->checkpoint, full_key(source, key, text), value, error);
    }
    return key.hf == NULL ? STATUS_OK : json_bool_at(source->config, source->path, key.hf, value, error);
}

Status param_string(const ParamSource *source, Key key, char *value, size_t size, Error *error) {
    char text[KEY_SIZE];
    if (source->config == NULL) {
        MetaString found = {NULL, 0};
        if (key.gguf == NULL) return STATUS_OK;
        Status status = checkpoint_get_string(source->checkpoint, full_key(source, key, text), &found, error);
        if (status == STATUS_OK && found.data != NULL) copy_printable(value, size, found.data, found.length);
        return status;
    }
    return key.hf == NULL ? STATUS_OK
                          : json_string_at(source->config, source->path, key.hf, value, size, error);
}

// ---- JSON ------------------------------------------------------------------------------------------------

static Status wrong_type(const char *what, const char *key, const char *wanted, Error *error) {
    return error_set(error, STATUS_FILE, "%s: %s should be %s", what, key, wanted);
}

Status json_integer_at(const json_t *object, const char *what, const char *key, int64_t *value,
                       Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_integer(found)) return wrong_type(what, key, "an integer", error);
    *value = json_integer_value(found);
    return STATUS_OK;
}

Status json_number_at(const json_t *object, const char *what, const char *key, double *value, Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_number(found)) return wrong_type(what, key, "a number", error);
    *value = json_number_value(found);
    return STATUS_OK;
}

Status json_bool_at(const json_t *object, const char *what, const char *key, bool *value, Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_boolean(found)) return wrong_type(what, key, "true or false", error);
    *value = json_is_true(found);
    return STATUS_OK;
}

Status json_string_at(const json_t *object, const char *what, const char *key, char *value, size_t size,
                      Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_string(found)) return wrong_type(what, key, "a string", error);
    copy_printable(value, size, json_string_value(found), json_string_length(found));
    return STATUS_OK;
}

// ---- the decoder's shape -----------------------------------------------------------------------------

typedef struct Size {
    Key key;
    size_t offset; // of an int in DecoderShape
    int64_t most;  // far beyond any model: what keeps products of sizes in 64 bits
    bool required; // else its place holds a default
} Size;

#define SHAPE(MEMBER) offsetof(DecoderShape, MEMBER)

static const Size SIZES[] = {
    {{"num_hidden_layers", "block_count"}, SHAPE(n_layers), MODEL_MAX_LAYERS, true},
    {{"hidden_size", "embedding_length"}, SHAPE(hidden_size), 1 << 20, true},
    {{"intermediate_size", "feed_forward_length"}, SHAPE(intermediate_size), 1 << 22, true},
    {{"num_attention_heads", "attention.head_count"}, SHAPE(n_heads), 1 << 16, true},
    {{"num_key_value_heads", "attention.head_count_kv"}, SHAPE(n_kv_heads), 1 << 16, false},
    {{"head_dim", "attention.key_length"}, SHAPE(head_dim), 1 << 16, false},
    {{"vocab_size", NULL}, SHAPE(vocab_size), 1 << 24, false},
};

static Status read_size(DecoderShape *shape, const ParamSource *source, const Size *size, Error *error) {
    int64_t value = INT64_MIN;
    int *member = (int *)(void *)((char *)shape + size->offset);
    char text[KEY_SIZE];
    Status status = param_integer(source, size->key, &value, error);
    if (status != STATUS_OK) return status;
    const char *name =
        source->config != NULL || size->key.gguf == NULL ? size->key.hf : full_key(source, size->key, text);
    if (value == INT64_MIN) {
        if (!size->required) return STATUS_OK;
        return error_set(error, STATUS_FILE, "%s: %s is missing", source->path, name);
    }
    if (value < 1 || value > size->most) {
        return error_set(error, STATUS_FILE, "%s: %s is %lld; palaver takes 1 to %lld", source->path, name,
                         (long long)value, (long long)size->most);
    }
    *member = (int)value;
    return STATUS_OK;
}

// GGUF need not say how large its vocabulary is: the embedding's rows do.
static Status read_gguf_vocab_size(DecoderShape *shape, const ParamSource *source, Error *error) {
    const CheckpointTensor *embedding = checkpoint_find(source->checkpoint, "token_embd.weight");
    const MetaValue *tokens = checkpoint_meta(source->checkpoint, "tokenizer.ggml.tokens");
    if (embedding == NULL || embedding->n_dims != 2 || embedding->shape[0] > 1 << 24) {
        return error_set(error, STATUS_FILE, "%s: tensor token_embd.weight is missing or no matrix",
                         source->path);
    }
    if (tokens != NULL && tokens->type == META_ARRAY && tokens->count > embedding->shape[0]) {
        return error_set(error, STATUS_FILE, "%s: %lld tokens, but token_embd.weight has only %lld rows",
                         source->path, (long long)tokens->count, (long long)embedding->shape[0]);
    }
    shape->vocab_size = (int)embedding->shape[0];
    return STATUS_OK;
}

static Status check_heads(DecoderShape *shape, const ParamSource *source, Error *error) {
    if (shape->n_kv_heads == 0) shape->n_kv_heads = shape->n_heads;
    if (shape->head_dim == 0 && source->config != NULL)
        shape->head_dim = (int)source->architecture->default_head_dim;
    if (shape->head_dim == 0) {
        if (shape->hidden_size % shape->n_heads != 0) {
            return error_set(error, STATUS_FILE,
                             "%s: hidden size %d is no multiple of %d heads, and no head size is "
                             "given",
                             source->path, shape->hidden_size, shape->n_heads);
        }
        shape->head_dim = shape->hidden_size / shape->n_heads;
    }
    if (shape->n_heads % shape->n_kv_heads != 0) {
        return error_set(error, STATUS_FILE, "%s: %d attention heads cannot share %d key-value heads evenly",
                         source->path, shape->n_heads, shape->n_kv_heads);
    }
    if ((int64_t)shape->n_heads * shape->head_dim > 1 << 24) {
        return error_set(error, STATUS_FILE, "%s: %d heads of %d elements are beyond every model",
                         source->path, shape->n_heads, shape->head_dim);
    }
    return STATUS_OK;
}

static Status read_activation(DecoderShape *shape, const ParamSource *source, Error *error) {
    static const struct {
        const char *name;
        Activation activation;
    } NAMES[] = {{"silu", ACTIVATION_SILU},
                 {"swish", ACTIVATION_SILU},
                 {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
                 {"gelu_new", ACTIVATION_GELU_TANH}};
    char name[64] = "silu";
    Status status = param_string(source, (Key){"hidden_act", NULL}, name, sizeof name, error);
    if (status != STATUS_OK) return status;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (strcmp(NAMES[i].name, name) != 0) continue;
        shape->activation = NAMES[i].activation;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: hidden_act \"%s\"; palaver knows silu and gelu_pytorch_tanh", source->path, name);
}

// Biases are announced by config.json; in a GGUF file they are simply there.
static Status read_biases(Model *model, const ParamSource *source, Error *error) {
    bool attention = false, mlp = false, tied = false;
    model->qk_norm = source->architecture->qk_norm;
    model->qkv_bias = source->architecture->qkv_bias;
    if (source->config == NULL) {
        model->tied_head = checkpoint_find(source->checkpoint, "output.weight") == NULL;
        model->qkv_bias |= checkpoint_find(source->checkpoint, "blk.0.attn_q.bias") != NULL;
        model->o_bias = checkpoint_find(source->checkpoint, "blk.0.attn_output.bias") != NULL;
        mlp = checkpoint_find(source->checkpoint, "blk.0.ffn_up.bias") != NULL;
    } else {
        Status status = param_bool(source, (Key){"tie_word_embeddings", NULL}, &tied, error);
        if (status == STATUS_OK)
            status = param_bool(source, (Key){"attention_bias", NULL}, &attention, error);
        if (status == STATUS_OK) status = param_bool(source, (Key){"mlp_bias", NULL}, &mlp, error);
        if (status != STATUS_OK) return status;
        model->tied_head = tied;
        if (!source->architecture
                 ->qkv_bias) { // where QKV biases are a matter of course the key means nothing
            model->qkv_bias = attention;
            model->o_bias = attention;
        }
    }
    if (!mlp) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: the feed-forward layers have biases, which palaver cannot add", source->path);
}

Status model_read_shape(Model *model, const ParamSource *source, Error *error) {
    DecoderShape *shape = &model->shape;
    double eps = 1e-6;
    int64_t experts = 0;
    Status status = STATUS_OK;
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES && status == STATUS_OK; i++) {
        status = read_size(shape, source, &SIZES[i], error);
    }
    if (status == STATUS_OK && source->config == NULL) status = read_gguf_vocab_size(shape, source, error);
    if (status == STATUS_OK) status = check_heads(shape, source, error);
    if (status == STATUS_OK) status = read_activation(shape, source, error);
    if (status == STATUS_OK) status = read_biases(model, source, error);
    if (status == STATUS_OK) {
        status = param_number(source, (Key){"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, &eps, error);
    }
    if (status == STATUS_OK)
        status = param_integer(source, (Key){"num_local_experts", "expert_count"}, &experts, error);
    if (status != STATUS_OK) return status;
    if (shape->vocab_size == 0)
        return error_set(error, STATUS_FILE, "%s: vocab_size is missing", source->path);
    if (experts > 0) {
        return error_set(error, STATUS_UNSUPPORTED, "%s: a mixture of %lld experts, which palaver cannot run",
                         source->path, (long long)experts);
    }
    if (!(eps >= 0 && eps < 1)) {
        return error_set(error, STATUS_FILE, "%s: the norm's epsilon is %g; it must be small and positive",
                         source->path, eps);
    }
    shape->norm_eps = (float)eps;
    shape->norm_offset = 0;
    shape->embedding_scale = 1;
    shape->attention_scale = (float)(1 / sqrt(shape->head_dim));
    return STATUS_OK;
}
