// The decoder's shape: sizes, norms, activation, biases, and what an architecture's files must not ask for.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- sizes ---------------------------------------------------------------------------------------------

typedef struct Size {
    Key key;
    size_t offset; // of an int in DecoderShape
    int64_t most;  // far beyond any model: what keeps products of sizes in 64 bits
    bool required; // unless its place holds a default
} Size;

#define SHAPE(MEMBER) offsetof(DecoderShape, MEMBER)

enum { MAX_INTERMEDIATE = 1 << 22 };

static const Size SIZES[] = {
    {{"num_hidden_layers", "block_count"}, SHAPE(n_layers), MODEL_MAX_LAYERS, true},
    {{"hidden_size", "embedding_length"}, SHAPE(hidden_size), 1 << 20, true},
    {{"num_attention_heads", "attention.head_count"}, SHAPE(n_heads), 1 << 16, true},
    {{"num_key_value_heads", "attention.head_count_kv"}, SHAPE(n_kv_heads), 1 << 16, false},
    {{"head_dim", "attention.key_length"}, SHAPE(head_dim), 1 << 16, false},
    {{"vocab_size", NULL}, SHAPE(vocab_size), 1 << 24, false},
    {{"intermediate_size", "feed_forward_length"}, SHAPE(intermediate_size), MAX_INTERMEDIATE, true},
};

// In GGUF a size may be told for each layer: where they may differ the first one's is that of most, but for layers that have
// none of it, and of the others model_layer_heads.c.
static Status read_listed(const ParamSource *source, Key key, int64_t *value, Error *error) {
    char text[KEY_SIZE];
    const MetaValue *list =
        key.gguf ? checkpoint_meta(source->checkpoint, source_gguf_key(source, key.gguf, text)) : NULL;
    const Architecture *a = source->architecture;
    const bool differ = a->heads_by_window || a->convolves || a->state_space;
    MetaCursor cursor = {0};
    MetaValue size;
    if (!list || list->type != META_ARRAY) return param_integer(source, key, value, error);
    unread_take_meta(source, text);
    for (int64_t i = 0; i < list->count; i++) {
        if (!checkpoint_meta_next(list, &cursor, &size) || size.type != META_INTEGER)
            return error_set(error, STATUS_FILE, "%s: %s should be a list of numbers", source->path, text);
        if (!differ && i > 0 && size.integer != *value)
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: %s differs by layer, which a %s model's does not", source->path, text,
                             a->name);
        if (differ && size.integer == 0) continue;
        *value = size.integer;
        if (differ) return STATUS_OK;
    }
    return STATUS_OK;
}

static Status read_size(DecoderShape *shape, const ParamSource *source, const Size *size, Error *error) {
    int64_t value = INT64_MIN;
    int *member = (int *)(void *)((char *)shape + size->offset);
    char text[KEY_SIZE];
    Status status = source->config ? param_integer(source, size->key, &value, error)
                                   : read_listed(source, size->key, &value, error);
    if (status) return status;
    const char *name = source_key(source, size->key, text);
    if (value == INT64_MIN) {
        if (!size->required || *member > 0) return STATUS_OK;
        return error_set(error, STATUS_FILE, "%s: %s is missing", source->path, name);
    }
    if (value < 1 || value > size->most) {
        return error_set(error, STATUS_FILE, "%s: %s is %lld; palaver takes 1 to %lld", source->path, name,
                         (long long)value, (long long)size->most);
    }
    *member = (int)value;
    return STATUS_OK;
}

const char *model_size_key(const ParamSource *source, const char *key) {
    size_t i = 0;
    while (strcmp(SIZES[i].key.hf, key) != 0) i++;
    return source_short_key(source, SIZES[i].key);
}

// GGUF need not say how large its vocabulary is: the embedding's rows do.
static Status read_gguf_vocab_size(DecoderShape *shape, const ParamSource *source, Error *error) {
    const CheckpointTensor *embedding = checkpoint_find(source->checkpoint, "token_embd.weight");
    const MetaValue *tokens = checkpoint_meta(source->checkpoint, "tokenizer.ggml.tokens");
    if (!embedding || embedding->n_dims != 2 || embedding->shape[0] > 1 << 24) {
        return error_set(error, STATUS_FILE, "%s: tensor token_embd.weight is missing or no matrix",
                         source->path);
    }
    if (tokens && tokens->type == META_ARRAY && tokens->count > embedding->shape[0]) {
        return error_set(
            error, STATUS_FILE,
            "%s: tokenizer.ggml.tokens has %lld tokens, but token_embd.weight has only %lld rows",
            source->path, (long long)tokens->count, (long long)embedding->shape[0]);
    }
    shape->vocab_size = (int)embedding->shape[0];
    return STATUS_OK;
}

Status model_refuse_kv_heads(const DecoderShape *shape, const ParamSource *source, Error *error) {
    return error_set(
        error, STATUS_FILE, "%s: %d key-value heads (%s) for %d attention heads (%s): a %s model has as many",
        source->path, shape->n_kv_heads, model_size_key(source, "num_key_value_heads"), shape->n_heads,
        model_size_key(source, "num_attention_heads"), source->architecture->name);
}

static Status check_heads(DecoderShape *shape, const ParamSource *source, Error *error) {
    if (shape->n_kv_heads == 0) shape->n_kv_heads = shape->n_heads;
    const char *dim = model_size_key(source, "head_dim"),
               *heads = model_size_key(source, "num_attention_heads");
    if (shape->head_dim == 0 && source->config && !json_is_null(json_object_get(source->config, dim)))
        shape->head_dim = (int)source->architecture->default_head_dim;
    if (shape->head_dim == 0) {
        if (shape->hidden_size % shape->n_heads != 0) {
            return error_set(
                error, STATUS_FILE,
                "%s: a hidden size of %d (%s) is no multiple of %d heads (%s), and no head size is "
                "given (%s)",
                source->path, shape->hidden_size, model_size_key(source, "hidden_size"), shape->n_heads,
                heads, dim);
        }
        shape->head_dim = shape->hidden_size / shape->n_heads;
    }
    if (source->architecture->qkv_by_head && shape->n_heads != shape->n_kv_heads)
        return model_refuse_kv_heads(shape, source, error);
    if (shape->n_heads % shape->n_kv_heads != 0) {
        return error_set(error, STATUS_FILE,
                         "%s: %d attention heads (%s) cannot share %d key-value heads (%s) evenly",
                         source->path, shape->n_heads, heads, shape->n_kv_heads,
                         model_size_key(source, "num_key_value_heads"));
    }
    if ((int64_t)shape->n_heads * shape->head_dim > 1 << 24) {
        return error_set(error, STATUS_FILE, "%s: %d heads (%s) of %d elements (%s) are beyond every model",
                         source->path, shape->n_heads, heads, shape->head_dim, dim);
    }
    return STATUS_OK;
}

// ---- norms, activation, biases -------------------------------------------------------------------------

static Status read_norm(DecoderShape *shape, const ParamSource *source, Error *error) {
    static const Key KEYS[] = {[NORM_RMS] = {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
                               [NORM_LAYER] = {"layer_norm_eps", "attention.layer_norm_epsilon"}};
    const Key key = KEYS[source->architecture->norm];
    double eps = source->architecture->norm_eps;
    char text[KEY_SIZE];
    Status status = STATUS_OK;
    if (!source->config || !source->architecture->fixed_eps) status = param_number(source, key, &eps, error);
    if (status) return status;
    if (!(eps >= 0 && eps < 1)) {
        return error_set(error, STATUS_FILE,
                         "%s: %s, the norm's epsilon, is %g; it must be small and positive", source->path,
                         source_key(source, key, text), eps);
    }
    shape->norm = source->architecture->norm;
    shape->norm_eps = (float)eps;
    shape->norm_offset = source->config && source->architecture->offset_norms ? 1 : 0;
    return STATUS_OK;
}

static Status read_activation(DecoderShape *shape, const ParamSource *source, Error *error) {
    static const struct {
        const char *name;
        Activation activation;
    } NAMES[] = {{"silu", ACTIVATION_SILU},          {"swish", ACTIVATION_SILU},
                 {"gelu", ACTIVATION_GELU},          {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
                 {"gelu_new", ACTIVATION_GELU_TANH}, {"gelu_fast", ACTIVATION_GELU_TANH},
                 {"relu", ACTIVATION_RELU},          {"relu2", ACTIVATION_RELU2},
                 {"xielu", ACTIVATION_XIELU}};
    char name[64] = "";
    shape->activation = source->architecture->activation;
    if (source->architecture->fixed_act) return STATUS_OK;
    Status status = param_string(source, (Key){"hidden_act", NULL}, name, sizeof name, error);
    if (status) return status;
    if (name[0] == '\0') return STATUS_OK;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const bool has_none = NAMES[i].activation == ACTIVATION_XIELU && !source->architecture->xielu;
        if (strcmp(NAMES[i].name, name) != 0 || has_none) continue;
        shape->activation = NAMES[i].activation;
        if (source->architecture->gelu_is_tanh && shape->activation == ACTIVATION_GELU)
            shape->activation = ACTIVATION_GELU_TANH;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: %s \"%s\"; palaver knows silu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, relu, "
                     "relu2, and Apertus's xielu",
                     source->path, source_config_key(source, "hidden_act"), name);
}

// Of the first layer, or where layers may recur of any, as the first that attends is another.
static unsigned biases_of_gguf(const Checkpoint *checkpoint, int n_layers) {
    static const struct {
        const char *tensor;
        unsigned biases;
    } SIGNS[] = {{"attn_q", BIAS_QKV},
                 {"attn_qkv", BIAS_QKV},
                 {"attn_output", BIAS_O},
                 {"ffn_up", BIAS_FFN},
                 {"attn_norm", BIAS_NORM}};
    unsigned biases = checkpoint_find(checkpoint, "output.bias") ? BIAS_OUTPUT : 0;
    for (int l = 0; l < n_layers; l++)
        for (size_t i = 0; i < sizeof SIGNS / sizeof *SIGNS; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.bias", l, SIGNS[i].tensor);
            if (checkpoint_find(checkpoint, name) != NULL) biases |= SIGNS[i].biases;
        }
    return biases;
}

// Biases that an architecture leaves open are announced by config.json; in a GGUF file they are simply there.
static Status read_biases(Model *model, const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    unsigned biases = a->biases;
    model->qk_norm = a->qk_norm;
    if (!source->config) {
        if (a->qk_norm_key)
            model->qk_norm = checkpoint_find(source->checkpoint, "blk.0.attn_q_norm.weight") != NULL;
        model->tied_head = checkpoint_find(source->checkpoint, "output.weight") == NULL;
        biases |= biases_of_gguf(source->checkpoint, a->recurs ? model->shape.n_layers : 1);
    } else {
        const Key keys[] = {{"attention_bias", NULL}, {"mlp_bias", NULL}, {"lm_head_bias", NULL}};
        const unsigned of_key[] = {a->bias_keys & (BIAS_QKV | BIAS_O), a->bias_keys & BIAS_FFN,
                                   a->bias_keys & BIAS_OUTPUT};
        Status status = STATUS_OK;
        model->tied_head = a->default_tied;
        for (int i = 0; i < 3 && !status; i++) {
            bool there = biases & of_key[i];
            if (of_key[i] != 0) status = param_bool(source, keys[i], &there, error);
            biases = there ? biases | of_key[i] : biases & ~of_key[i];
        }
        if (!status)
            status = param_bool(source, (Key){"tie_word_embeddings", NULL}, &model->tied_head, error);
        if (!status && a->qk_norm_key)
            status = param_bool(source, (Key){"use_qk_norm", NULL}, &model->qk_norm, error);
        if (status) return status;
    }
    model->qkv_bias = biases & BIAS_QKV;
    model->o_bias = biases & BIAS_O;
    model->ffn_bias = biases & BIAS_FFN;
    model->norm_bias = biases & BIAS_NORM;
    model->output_bias = biases & BIAS_OUTPUT;
    return STATUS_OK;
}

// ---- refusals ------------------------------------------------------------------------------------------

// What files of many architectures say of themselves, and what other architectures mean by it.
static const Fixed FIXED[] = {
    {NULL, {"is_causal", "attention.causal"}, 1, "attention to what comes later", NULL},
    {NULL, {"is_encoder_decoder", NULL}, 0, "an encoder beside the decoder", NULL},
    {NULL, {"add_cross_attention", NULL}, 0, "attention to an encoder", NULL},
    {NULL, {"rope_interleaved", NULL}, 0, "rotary pairs that lie otherwise", NULL},
    {NULL, {"rope_traditional", NULL}, 0, "rotary pairs that lie otherwise", NULL},
    {NULL, {"use_mrope", NULL}, 0, "positions of several dimensions", NULL},
    {NULL, {"lm_head_bias", NULL}, 0, "a bias of the head", NULL},
    {NULL, {NULL, "attention.scale"}, 0, "another scale of scores", NULL},
    {NULL, {NULL, "logit_scale"}, 1, "scaled logits", NULL},
    {NULL, {NULL, "embedding_scale"}, 1, "scaled embeddings", NULL},
    {NULL, {NULL, "residual_scale"}, 1, "scaled residuals", NULL},
    {NULL, {"attn_logit_softcapping", "attn_logit_softcapping"}, 0, "capped scores", NULL},
    {NULL, {NULL, "final_logit_softcapping"}, 0, "capped logits", NULL},
    {NULL, {NULL, "nextn_predict_layers"}, 0, "layers that predict further tokens", NULL},
    {NULL, {NULL, "pooling_type"}, 0, "a model of embeddings", NULL},
    {NULL, {NULL, "rope.scaling.yarn_ext_factor"}, 1, "another YaRN", NULL},
    {NULL, {NULL, "rope.scaling.yarn_attn_factor"}, 1, "another YaRN", NULL},
};

static Status refuse_fixed(const ParamSource *source, const Fixed *fixed, const char *name, Error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "%s: %s%s%s asks for %s, which palaver cannot run",
                     source->path, fixed->object ? fixed->object : "", fixed->object ? "." : "", name,
                     fixed->other);
}

static Status check_fixed_meta(const ParamSource *source, const Fixed *fixed, Error *error) {
    char text[KEY_SIZE];
    const char *name = source_gguf_key(source, fixed->key.gguf, text);
    const MetaValue *value = checkpoint_meta(source->checkpoint, name);
    unread_take_meta(source, name);
    if (!value || (value->type == META_BOOL && value->flag == (fixed->value != 0)) ||
        ((value->type == META_INTEGER || value->type == META_NUMBER) && value->number == fixed->value))
        return STATUS_OK;
    return refuse_fixed(source, fixed, name, error);
}

static Status check_fixed(const ParamSource *source, const Fixed *fixed, Error *error) {
    if ((source->config ? fixed->key.hf : fixed->key.gguf) == NULL) return STATUS_OK;
    if (!source->config) return check_fixed_meta(source, fixed, error);
    const json_t *object = source->config, *found;
    if (fixed->object) object = json_object_get(object, fixed->object);
    found = json_object_get(object, fixed->key.hf);
    unread_take_key(source, fixed->object, fixed->key.hf);
    if (!found || json_is_null(found)) return STATUS_OK;
    if (fixed->word && json_is_string(found) && strcmp(json_string_value(found), fixed->word) == 0)
        return STATUS_OK;
    double value = json_is_boolean(found) ? json_is_true(found) : json_number_value(found);
    if (!fixed->word && (json_is_number(found) || json_is_boolean(found)) && value == fixed->value)
        return STATUS_OK;
    return refuse_fixed(source, fixed, fixed->key.hf, error);
}

// What a field of the architecture's gives a meaning of its own.
static bool is_asked_otherwise(const Architecture *a, const Fixed *fixed) {
    if (fixed->key.gguf && strcmp(fixed->key.gguf, "nextn_predict_layers") == 0) return a->predicts_further;
    if (fixed->key.gguf) return model_scales_have(a, fixed->key.gguf);
    return (a->bias_keys & BIAS_OUTPUT) && strcmp(fixed->key.hf, "lm_head_bias") == 0;
}

static Status check_all_fixed(const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    Status status = STATUS_OK;
    for (size_t i = 0; i < sizeof a->fixed / sizeof *a->fixed && !status; i++)
        status = check_fixed(source, &a->fixed[i], error);
    for (size_t i = 0; i < sizeof FIXED / sizeof *FIXED && !status; i++)
        if (!is_asked_otherwise(a, &FIXED[i])) status = check_fixed(source, &FIXED[i], error);
    return status;
}

static Status check_refusals(const DecoderShape *shape, const ParamSource *source, Error *error) {
    int64_t embedded = shape->hidden_size;
    Status status = check_all_fixed(source, error);
    if (!status) status = param_integer(source, (Key){"word_embed_proj_dim", NULL}, &embedded, error);
    if (status) return status;
    if (embedded != shape->hidden_size) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: embeddings of %lld elements (word_embed_proj_dim), projected to a hidden size "
                         "of %d (%s), which palaver "
                         "cannot run",
                         source->path, (long long)embedded, shape->hidden_size,
                         model_size_key(source, "hidden_size"));
    }
    return STATUS_OK;
}

// In GGUF block_count counts those that predict further tokens as well.
static Status leave_further_layers(DecoderShape *shape, const ParamSource *source, Error *error) {
    int64_t further = 0;
    if (source->config || !source->architecture->predicts_further) return STATUS_OK;
    Status status = param_integer(source, (Key){NULL, "nextn_predict_layers"}, &further, error);
    if (!status && (further < 0 || further >= shape->n_layers))
        return error_set(error, STATUS_FILE,
                         "%s: %lld (nextn_predict_layers) of %d layers (block_count) predict further tokens",
                         source->path, (long long)further, shape->n_layers);
    shape->n_layers -= (int)further;
    return status;
}

// Each layer of the files is two.
static Status pair_layers(DecoderShape *shape, const ParamSource *source, Error *error) {
    shape->n_layers *= 2;
    if (shape->n_layers <= MODEL_MAX_LAYERS) return STATUS_OK;
    return error_set(error, STATUS_FILE, "%s: %d layers of two parts each (%s); palaver takes %d",
                     source->path, shape->n_layers / 2, model_size_key(source, "num_hidden_layers"),
                     MODEL_MAX_LAYERS / 2);
}

// A GGUF file whose layers all have experts need not have the size of another feed-forward part.
static void default_to_experts(DecoderShape *shape, const ParamSource *source) {
    char text[KEY_SIZE];
    const MetaValue *size =
        checkpoint_meta(source->checkpoint, source_gguf_key(source, "expert_feed_forward_length", text));
    if (size && size->type == META_INTEGER && size->integer > 0 && size->integer <= MAX_INTERMEDIATE)
        shape->intermediate_size = (int)size->integer;
}

// Whether files of a model of which no layer attends or has a feed-forward part say it.
static bool is_of_spaces(const Size *size) {
    return size->offset == SHAPE(n_layers) || size->offset == SHAPE(hidden_size) ||
           size->offset == SHAPE(vocab_size);
}

// What then means nothing: sizes for which every backend has kernels.
static void fill_unused(DecoderShape *shape) {
    enum { USUAL_HEAD = 64 };
    shape->n_heads = shape->n_kv_heads = 1;
    shape->head_dim = USUAL_HEAD;
    shape->intermediate_size = shape->hidden_size;
}

Status model_read_shape(Model *model, const ParamSource *source, Error *error) {
    DecoderShape *shape = &model->shape;
    const Architecture *a = source->architecture;
    Status status = STATUS_OK;
    if (a->one_part && source->config && model_count_parts(source) <= MODEL_MAX_LAYERS)
        shape->n_layers = (int)model_count_parts(source); // which is said once
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES && !status; i++) {
        bool is_intermediate = SIZES[i].offset == SHAPE(intermediate_size); // the last: hidden_size is known
        if (a->spaces_alone && !is_of_spaces(&SIZES[i])) continue;
        if (is_intermediate && a->ffn_ratio * (int64_t)shape->hidden_size <= MAX_INTERMEDIATE)
            shape->intermediate_size = a->ffn_ratio * shape->hidden_size;
        if (is_intermediate && !source->config && a->experts.there && a->experts.layers == EXPERTS_IN_ALL)
            default_to_experts(shape, source);
        status = read_size(shape, source, &SIZES[i], error);
    }
    if (a->spaces_alone) fill_unused(shape);
    if (!status) status = leave_further_layers(shape, source, error);
    if (!status && a->paired) status = pair_layers(shape, source, error);
    if (a->ffn_halved) shape->intermediate_size /= 2;
    if (!status) status = model_adjust_ffn(model, source, error);
    if (a->one_kv_head && source->config) shape->n_kv_heads = 1;
    if (!status && !source->config) status = read_gguf_vocab_size(shape, source, error);
    if (!status)
        status =
            a->latent.rank > 0 ? model_read_latent(model, source, error) : check_heads(shape, source, error);
    if (!status) status = read_activation(shape, source, error);
    if (!status) status = read_biases(model, source, error);
    if (!status) status = read_norm(shape, source, error);
    if (!status) status = check_refusals(shape, source, error);
    shape->parallel_residual = a->parallel_residual;
    if (a->deep_norm) shape->normed_residual = sqrtf(2.0f * (float)shape->n_layers);
    shape->norms_turned = a->norms_turned;
    shape->head_layer_norms = a->head_layer_norms && model->qk_norm;
    if (!status && a->parallel_key) {
        status = param_bool(source, (Key){"use_parallel_residual", "use_parallel_residual"},
                            &shape->parallel_residual, error);
    }
    if (status) return status;
    if (shape->vocab_size == 0)
        return error_set(error, STATUS_FILE, "%s: vocab_size is missing", source->path);
    return model_read_scales(model, source, error);
}
