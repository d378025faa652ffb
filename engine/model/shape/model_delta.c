// Layers that recur instead of attending (Qwen3-Next, Qwen 3.5): which they are, and their sizes.
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"
#include "engine/model/model_internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// ---- which they are ----------------------------------------------------------------------------------------

static const Key INTERVAL = {"full_attention_interval", "full_attention_interval"};

// All but every so manieth.
static Status kinds_by_interval(const Model *model, const ParamSource *source, LayerHeads *heads,
                                Error *error) {
    int64_t interval = 4;
    Status status = param_integer(source, INTERVAL, &interval, error);
    if (status) return status;
    if (interval < 1)
        return error_set(error, STATUS_FILE, "%s: %s is %lld", source->path, INTERVAL.hf,
                         (long long)interval);
    for (int l = 0; l < model->shape.n_layers; l++) heads[l].recurs = (l + 1) % interval != 0;
    return STATUS_OK;
}

// config.json: by name in layer_types; what full_attention_interval says beside it means nothing.
static Status kinds_from_config(const Model *model, const ParamSource *source, LayerHeads *heads,
                                Error *error) {
    const json_t *types = json_object_get(source->config, "layer_types");
    const int n = model->shape.n_layers;
    unread_take_key(source, NULL, "layer_types");
    if (!types || json_is_null(types)) return kinds_by_interval(model, source, heads, error);
    unread_take_key(source, NULL, INTERVAL.hf);
    for (int l = 0; l < n; l++) {
        const char *type = json_string_value(json_array_get(types, (size_t)l));
        heads[l].recurs = type && strcmp(type, "linear_attention") == 0;
        if (json_array_size(types) != (size_t)n || !type ||
            (!heads[l].recurs && strcmp(type, "full_attention") != 0))
            return error_set(
                error, STATUS_FILE,
                "%s: layer_types should name %d layers, \"linear_attention\" or \"full_attention\"",
                source->path, n);
    }
    return STATUS_OK;
}

// GGUF: by a list of switches, where there is one; layers that predict further tokens may be in it.
static Status kinds_from_gguf(const Model *model, const ParamSource *source, LayerHeads *heads,
                              Error *error) {
    char text[KEY_SIZE];
    const char *key = source_gguf_key(source, "attention.recurrent_layers", text);
    const MetaValue *list = checkpoint_meta(source->checkpoint, key);
    MetaCursor cursor = {0};
    if (!list) return kinds_by_interval(model, source, heads, error);
    unread_take_meta(source, key);
    for (int l = 0; l < model->shape.n_layers; l++) {
        MetaValue value;
        const bool there = list->type == META_ARRAY && checkpoint_meta_next(list, &cursor, &value) &&
                           (value.type == META_BOOL || value.type == META_INTEGER);
        if (!there)
            return error_set(error, STATUS_FILE, "%s: %s should have a switch for each of %d layers",
                             source->path, key, model->shape.n_layers);
        heads[l].recurs = value.type == META_BOOL ? value.flag : value.integer != 0;
    }
    unread_take_meta(source, source_gguf_key(source, INTERVAL.gguf, text));
    return STATUS_OK;
}

// ---- sizes -------------------------------------------------------------------------------------------------

enum { MOST_HEADS = 1 << 12, MOST_DIM = 256 };

static const struct {
    Key key;
    size_t offset; // of an int in DeltaRule
    int most, usual;
} SIZES[] = {
    {{"linear_num_key_heads", "ssm.group_count"}, offsetof(DeltaRule, n_key_heads), MOST_HEADS, 16},
    {{"linear_num_value_heads", "ssm.time_step_rank"}, offsetof(DeltaRule, n_value_heads), MOST_HEADS, 32},
    {{"linear_key_head_dim", "ssm.state_size"}, offsetof(DeltaRule, key_dim), MOST_DIM, 128},
    {{"linear_value_head_dim", NULL}, offsetof(DeltaRule, value_dim), MOST_DIM, 128},
    {{"linear_conv_kernel_dim", "ssm.conv_kernel"}, offsetof(DeltaRule, taps), CONVOLUTION_MOST_TAPS, 4},
};

static Status refuse_size(const ParamSource *source, const char *key, int64_t value, int most, Error *error) {
    const char *own = source->config ? "" : source->architecture->gguf, *dot = source->config ? "" : ".";
    if (value == INT64_MIN)
        return error_set(error, STATUS_FILE, "%s: %s%s%s is missing", source->path, own, dot, key);
    return error_set(error, STATUS_UNSUPPORTED, "%s: %s%s%s is %lld; palaver runs 1 to %d", source->path, own,
                     dot, key, (long long)value, most);
}

// In GGUF the values of all heads have one size.
static Status read_gguf_values(DeltaRule *d, const ParamSource *source, Error *error) {
    static const char INNER[] = "ssm.inner_size";
    const int n = d->n_value_heads;
    int64_t inner = INT64_MIN;
    Status status = param_integer(source, (Key){NULL, INNER}, &inner, error);
    if (status) return status;
    if (inner < 1 || inner > (int64_t)n * MOST_DIM)
        return refuse_size(source, INNER, inner, n * MOST_DIM, error);
    if (inner % n != 0)
        return error_set(error, STATUS_FILE, "%s: %s.%s is %lld, for %d heads of values (%s)", source->path,
                         source->architecture->gguf, INNER, (long long)inner, n, SIZES[1].key.gguf);
    d->value_dim = (int)(inner / n);
    return STATUS_OK;
}

static Status read_sizes(DeltaRule *d, const ParamSource *source, Error *error) {
    Status status = STATUS_OK;
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES && !status; i++) {
        const char *key = source->config ? SIZES[i].key.hf : SIZES[i].key.gguf;
        int64_t value = source->config ? SIZES[i].usual : INT64_MIN;
        if (!key) continue;
        status = param_integer(source, SIZES[i].key, &value, error);
        if (!status && (value < 1 || value > SIZES[i].most))
            status = refuse_size(source, key, value, SIZES[i].most, error);
        if (!status) *(int *)(void *)((char *)d + SIZES[i].offset) = (int)value;
    }
    if (!status && !source->config) status = read_gguf_values(d, source, error);
    if (status) return status;
    if (d->n_value_heads % d->n_key_heads != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: %d heads of values (%s) cannot share %d of keys (%s) evenly", source->path,
                         d->n_value_heads, source->config ? SIZES[1].key.hf : SIZES[1].key.gguf,
                         d->n_key_heads, source->config ? SIZES[0].key.hf : SIZES[0].key.gguf);
    d->keys_alternate = !source->config && source->architecture->gguf_keys_alternate;
    return STATUS_OK;
}

// GGUF's lists of sections say which of a token's positions in time, height and width a pair turns by, again and again; in a
// text these are all the same. A pair beyond its section has none (ggml's rope), which no file means.
static Status check_sections(const Model *model, const ParamSource *source, Error *error) {
    char text[KEY_SIZE];
    const char *key = source_gguf_key(source, "rope.dimension_sections", text);
    const MetaValue *list = source->config ? NULL : checkpoint_meta(source->checkpoint, key);
    MetaCursor cursor = {0};
    int64_t sections[3] = {0}, sum = 0;
    bool fits = list && list->type == META_ARRAY && list->count <= 4;
    if (!list) return STATUS_OK;
    unread_take_meta(source, key);
    for (int i = 0; i < 4 && fits; i++) {
        MetaValue value = {.type = META_INTEGER};
        if (i < list->count) fits = checkpoint_meta_next(list, &cursor, &value);
        fits = fits && value.type == META_INTEGER && value.integer >= 0 && value.integer < 1 << 16;
        if (i < 3) sections[i] = value.integer;
        sum += fits ? value.integer : 0;
    }
    for (int pair = 0; pair < model->shape.rope.rotary_dim / 2 && fits; pair++)
        fits = sum > 0 && pair % sum < 3 * sections[pair % sum % 3];
    return fits ? STATUS_OK
                : error_set(error, STATUS_UNSUPPORTED,
                            "%s: %s leaves some of %d pairs of a head without a position, which palaver "
                            "cannot run",
                            source->path, key, model->shape.rope.rotary_dim / 2);
}

Status model_read_delta(Model *model, const ParamSource *source, Error *error) {
    DecoderShape *s = &model->shape;
    bool some = false, all = true;
    if (!source->architecture->recurs) return STATUS_OK;
    DeltaRule delta = {0};
    LayerHeads *heads = calloc((size_t)s->n_layers, sizeof *heads);
    int *ropes = calloc((size_t)s->n_layers, sizeof *ropes);
    Status status = STATUS_OK;
    if (!heads || !ropes) status = error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    if (!status)
        status = source->config ? kinds_from_config(model, source, heads, error)
                                : kinds_from_gguf(model, source, heads, error);
    if (!status) status = read_sizes(&delta, source, error);
    if (!status) status = check_sections(model, source, error);
    for (int l = 0; l < s->n_layers && !status; l++) some |= heads[l].recurs, all &= heads[l].recurs;
    if (!status && all)
        status = error_set(error, STATUS_UNSUPPORTED,
                           "%s: none of %d layers attends; palaver runs models of which one does",
                           source->path, s->n_layers);
    if (status || !some) { // where all attend they are alike
        free(heads), free(ropes);
        return status;
    }
    for (int l = 0; l < s->n_layers; l++) {
        heads[l].n_kv_heads = s->n_kv_heads, heads[l].head_dim = s->head_dim, heads[l].lender = l;
        ropes[l] = heads[l].recurs ? -1 : 0;
    }
    s->delta = delta;
    s->heads_of_layers = model->layer_heads = heads, s->rope.of_layers = model->layer_ropes = ropes;
    model->usual_intermediate = s->intermediate_size;
    return STATUS_OK;
}
