// The decoder's sizes: layers, widths, heads and the vocabulary.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"

#include <stddef.h>
#include <string.h>

typedef struct Size {
    Key key;
    size_t offset; // of an int in DecoderShape
    int64_t most;  // far beyond any model: what keeps products of sizes in 64 bits
    bool required; // unless its place holds a default
    bool listed;   // GGUF may tell it for each layer
} Size;

#define SHAPE(MEMBER) offsetof(DecoderShape, MEMBER)

enum { MAX_INTERMEDIATE = 1 << 22 };

static const Size SIZES[] = {
    {{"num_hidden_layers", "block_count"}, SHAPE(n_layers), MODEL_MAX_LAYERS, true, false},
    {{"hidden_size", "embedding_length"}, SHAPE(hidden_size), 1 << 20, true, false},
    {{"num_attention_heads", "attention.head_count"}, SHAPE(n_heads), 1 << 16, true, true},
    {{"num_key_value_heads", "attention.head_count_kv"}, SHAPE(n_kv_heads), 1 << 16, false, true},
    {{"head_dim", "attention.key_length"}, SHAPE(head_dim), 1 << 16, false, false},
    {{"vocab_size", NULL}, SHAPE(vocab_size), 1 << 24, false, false},
    {{"intermediate_size", "feed_forward_length"}, SHAPE(intermediate_size), MAX_INTERMEDIATE, true, true},
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
    Status status = !source->config && size->listed ? read_listed(source, size->key, &value, error)
                                                    : param_integer(source, size->key, &value, error);
    if (status) return status;
    const char *name = source_key(source, size->key, text);
    if (value == INT64_MIN) {
        if (!size->required || *member > 0) return STATUS_OK;
        const bool there = !source->config && checkpoint_meta(source->checkpoint, name);
        return error_set(error, STATUS_FILE, "%s: %s %s", source->path, name,
                         there ? "is a list of zeros" : "is missing");
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

Status model_read_sizes(Model *model, const ParamSource *source, Error *error) {
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
    if (status) return status;
    return a->latent.rank > 0 ? model_read_latent(model, source, error) : check_heads(shape, source, error);
}
