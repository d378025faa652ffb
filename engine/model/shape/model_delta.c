// Layers that recur instead of attending, by the delta rule (Qwen3-Next, Qwen 3.5) or as state spaces (Granite 4, Mamba 2): which
// they are, and their sizes.
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"
#include "engine/model/model_internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// ---- which they are ----------------------------------------------------------------------------------------

static const Key INTERVAL = {"full_attention_interval", "full_attention_interval"};
static const char RECURRENT[] = "attention.recurrent_layers"; // of GGUF

// All but every so manieth.
static Status kinds_by_interval(const Model *model, const ParamSource *source, LayerHeads *heads,
                                Error *error) {
    int64_t interval = 4;
    char text[KEY_SIZE];
    Status status = param_integer(source, INTERVAL, &interval, error);
    if (status) return status;
    if (interval < 1)
        return error_set(error, STATUS_FILE, "%s: %s is %lld", source->path,
                         source_key(source, INTERVAL, text), (long long)interval);
    for (int l = 0; l < model->shape.n_layers; l++) heads[l].recurs = (l + 1) % interval != 0;
    return STATUS_OK;
}

// Of keys by which a class cannot go if they are null.
static Status refuse_null(const ParamSource *source, const char *const names[2], Error *error) {
    for (int i = 0; i < 2 && source->config; i++)
        if (json_is_null(json_object_get(source->config, names[i])))
            return param_refuse_null(source, NULL, names[i], error);
    return STATUS_OK;
}

// The first of two recurs, the second attends beside it.
static Status kinds_of_pairs(const Model *model, const ParamSource *source, LayerHeads *heads, Error *error) {
    static const char *const NEVER_NULL[] = {"layer_types", "head_dim"};
    for (int l = 0; l < model->shape.n_layers; l++)
        heads[l].recurs = heads[l].no_ffn = l % 2 == 0, heads[l].beside = l % 2 == 1;
    return refuse_null(source, NEVER_NULL, error);
}

// All are state spaces alone.
static Status kinds_alone(const Model *model, const ParamSource *source, LayerHeads *heads, Error *error) {
    static const char *const NEVER_NULL[] = {"layer_types", "hidden_act"};
    for (int l = 0; l < model->shape.n_layers; l++) heads[l].recurs = heads[l].no_ffn = true;
    return refuse_null(source, NEVER_NULL, error);
}

// What layer_types calls a layer that recurs, and one that attends: as transformers 5 has them, then as files of state spaces
// do. NULL: none of these.
static const char *const KINDS[][2] = {{"linear_attention", "mamba"}, {"full_attention", "attention"}};

static bool is_kind(const char *type, bool attends, bool state_space) {
    return strcmp(type, KINDS[attends][0]) == 0 || (state_space && strcmp(type, KINDS[attends][1]) == 0);
}

// config.json: by name in layer_types; what full_attention_interval says beside it means nothing. Without it all of a state
// space recur.
static Status kinds_from_config(const Model *model, const ParamSource *source, LayerHeads *heads,
                                Error *error) {
    const char *name = source_config_key(source, "layer_types");
    const json_t *types = json_object_get(source->config, name);
    const bool state_space = source->architecture->state_space;
    const int n = model->shape.n_layers;
    unread_take_key(source, NULL, name);
    if (json_same(types, json_object_get(source->config, "layer_types")))
        unread_take_key(source, NULL, "layer_types");
    const bool silent = !types || json_is_null(types);
    if (silent && !state_space) return kinds_by_interval(model, source, heads, error);
    if (!state_space) unread_take_key(source, NULL, INTERVAL.hf);
    for (int l = 0; l < n; l++) {
        const char *type = silent ? KINDS[0][0] : json_string_value(json_array_get(types, (size_t)l));
        heads[l].recurs = type && is_kind(type, false, state_space);
        if ((!silent && json_array_size(types) != (size_t)n) || !type ||
            (!heads[l].recurs && !is_kind(type, true, state_space)))
            return error_set(error, STATUS_FILE, "%s: %s should name %d layers, \"%s\" or \"%s\"",
                             source->path, name, n, KINDS[0][state_space], KINDS[1][state_space]);
    }
    return STATUS_OK;
}

// GGUF: by a list of switches, where there is one; layers that predict further tokens may be in it. State spaces have no heads.
static Status kinds_from_gguf(const Model *model, const ParamSource *source, LayerHeads *heads,
                              Error *error) {
    char text[KEY_SIZE];
    if (source->architecture->state_space) {
        const Status status = model_find_headless(model, source, heads, error);
        for (int l = 0; l < model->shape.n_layers && !status; l++) heads[l].recurs = heads[l].n_kv_heads == 0;
        return status;
    }
    const char *key = source_gguf_key(source, RECURRENT, text);
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

// An empty list beside the other name says nothing of any layer, as one of another length says too little.
static Status refuse_empty(const Model *model, const ParamSource *source, Error *error) {
    const json_t *types = json_object_get(source->config, "layer_types");
    if (!json_is_array(types) || json_array_size(types) > 0) return STATUS_OK;
    return error_set(error, STATUS_FILE, "%s: layer_types should name %d layers, and names 0", source->path,
                     model->shape.n_layers);
}

static Status read_kinds(const Model *model, const ParamSource *source, LayerHeads *heads, Error *error) {
    if (source->architecture->paired) return kinds_of_pairs(model, source, heads, error);
    const Status status = refuse_empty(model, source, error);
    if (status) return status;
    if (source->architecture->spaces_alone) return kinds_alone(model, source, heads, error);
    if (source->architecture->one_part) return model_read_parts(model, source, heads, error);
    return source->config ? kinds_from_config(model, source, heads, error)
                          : kinds_from_gguf(model, source, heads, error);
}

// ---- sizes -------------------------------------------------------------------------------------------------

enum { MOST_HEADS = 1 << 12, MOST_DIM = 256 };

typedef struct DeltaSize {
    Key key;
    size_t offset;   // of an int in DeltaRule
    int most, usual; // usual 0: as Architecture.usual_space has it
} DeltaSize;

// Of the delta rule, and of state spaces.
static const DeltaSize SIZES[][5] = {
    {{{"linear_num_key_heads", "ssm.group_count"}, offsetof(DeltaRule, n_key_heads), MOST_HEADS, 16},
     {{"linear_num_value_heads", "ssm.time_step_rank"}, offsetof(DeltaRule, n_value_heads), MOST_HEADS, 32},
     {{"linear_key_head_dim", "ssm.state_size"}, offsetof(DeltaRule, key_dim), MOST_DIM, 128},
     {{"linear_value_head_dim", NULL}, offsetof(DeltaRule, value_dim), MOST_DIM, 128},
     {{"linear_conv_kernel_dim", "ssm.conv_kernel"}, offsetof(DeltaRule, taps), CONVOLUTION_MOST_TAPS, 4}},
    {{{"mamba_n_groups", "ssm.group_count"}, offsetof(DeltaRule, n_key_heads), MOST_HEADS, 0},
     {{"mamba_n_heads", "ssm.time_step_rank"}, offsetof(DeltaRule, n_value_heads), MOST_HEADS, 0},
     {{"mamba_d_state", "ssm.state_size"}, offsetof(DeltaRule, key_dim), MOST_DIM, 0},
     {{NULL, NULL}, offsetof(DeltaRule, value_dim), MOST_DIM, 0},
     {{"mamba_d_conv", "ssm.conv_kernel"}, offsetof(DeltaRule, taps), CONVOLUTION_MOST_TAPS, 0}},
};

static Status refuse_size(const ParamSource *source, const char *key, int64_t value, int most, Error *error) {
    if (source->config) key = source_config_key(source, key);
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
                         source->architecture->gguf, INNER, (long long)inner, n, SIZES[0][1].key.gguf);
    d->value_dim = (int)(inner / n);
    return STATUS_OK;
}

// How many elements heads of values have together: of pairs what mamba_d_ssm says, or null.
static Status read_whole(const ParamSource *source, int64_t expanded, int64_t *all, Error *error) {
    static const char WHOLE[] = "mamba_d_ssm";
    const bool follows =
        !source->architecture->paired || json_is_null(json_object_get(source->config, WHOLE));
    *all = follows ? expanded : 1024;
    if (follows) return STATUS_OK;
    Status status = param_integer(source, (Key){WHOLE, NULL}, all, error);
    return status || (*all > 0 && *all < 1 << 22) ? status : refuse_size(source, WHOLE, *all, 1 << 22, error);
}

// In config.json of a state space they have together the hidden size, expanded, unless it says how many.
static Status read_expanded(DeltaRule *d, int hidden_size, const ParamSource *source, Error *error) {
    static const char HEAD[] = "mamba_d_head";
    const int usual = source->architecture->usual_space.value_dim;
    const char *own = source_config_key(source, HEAD), *n_key = source_config_key(source, "mamba_n_heads"),
               *expand_key = source_config_key(source, "mamba_expand");
    const json_t *head = json_object_get(source->config, own);
    const bool follows =
        usual == 0 && (!head || (json_is_string(head) && strcmp(json_string_value(head), "auto") == 0));
    int64_t expand = 2, all, dim;
    Status status = param_integer(source, (Key){"mamba_expand", NULL}, &expand, error);
    if (status) return status;
    if (expand < 1 || expand > 64) return refuse_size(source, "mamba_expand", expand, 64, error);
    status = read_whole(source, expand * hidden_size, &all, error);
    if (status) return status;
    dim = usual > 0 ? usual : all / d->n_value_heads;
    unread_take_key(source, NULL, own);
    if (!follows) status = param_integer(source, (Key){HEAD, NULL}, &dim, error);
    if (status) return status;
    if (dim < 1 || dim > MOST_DIM) return refuse_size(source, HEAD, dim, MOST_DIM, error);
    if (dim * d->n_value_heads != all && source->architecture->paired)
        return error_set(error, STATUS_FILE,
                         "%s: %d heads of %lld (mamba_n_heads, %s) are not %lld (mamba_d_ssm)", source->path,
                         d->n_value_heads, (long long)dim, HEAD, (long long)all);
    if (dim * d->n_value_heads != all)
        return error_set(error, STATUS_FILE,
                         "%s: %d heads of %lld (%s, %s) are not %lld times the hidden size of %d (%s)",
                         source->path, d->n_value_heads, (long long)dim, n_key, own, (long long)expand,
                         hidden_size, expand_key);
    d->value_dim = (int)dim;
    return STATUS_OK;
}

// Or a size of their own.
static Status read_space_values(DeltaRule *d, int hidden_size, const ParamSource *source, Error *error) {
    static const Key HEAD = {"mamba_d_head", NULL};
    int64_t dim = source->architecture->usual_space.value_dim;
    if (dim == 0 || source->architecture->spaces_alone) return read_expanded(d, hidden_size, source, error);
    Status status = param_integer(source, HEAD, &dim, error);
    if (!status && (dim < 1 || dim > MOST_DIM)) status = refuse_size(source, HEAD.hf, dim, MOST_DIM, error);
    d->value_dim = (int)dim;
    return status;
}

// GGUF files do not say it, and llama.cpp has none.
static Status read_least_step(DeltaRule *d, const ParamSource *source, Error *error) {
    static const Key KEY = {"time_step_min", NULL};
    double least = source->architecture->least_step;
    if (!source->config || least == 0) return STATUS_OK;
    Status status = param_number(source, KEY, &least, error);
    if (!status && !(least >= 0 && least < 1e6))
        status = error_set(error, STATUS_FILE, "%s: %s is %g; it must not be negative", source->path, KEY.hf,
                           least);
    d->least_step = (float)least;
    return status;
}

// The class cuts steps of time off beyond its limits, of which the usual ones leave all.
static Status check_limits(const ParamSource *source, Error *error) {
    static const char KEY[] = "time_step_limit";
    const json_t *limits = json_object_get(source->config, KEY), *least = json_array_get(limits, 0),
                 *most = json_object_get(json_array_get(limits, 1), "__float__");
    char told[VALUE_SIZE];
    unread_take_key(source, NULL, KEY);
    if (!limits) return STATUS_OK;
    if (json_is_null(limits)) return param_refuse_null(source, NULL, KEY, error);
    if (json_array_size(limits) == 2 && json_is_number(least) && json_number_value(least) == 0 &&
        json_is_string(most) && strcmp(json_string_value(most), "Infinity") == 0)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: %s asks for other limits than 0 and infinity, which palaver cannot run: it is %s",
                     source->path, KEY, param_json_text(limits, told));
}

static Status read_sizes(DeltaRule *d, const DecoderShape *s, const ParamSource *source, Error *error) {
    const bool config = source->config, space = source->architecture->state_space;
    const DeltaSize *sizes = SIZES[space];
    const DeltaRule *usual = &source->architecture->usual_space;
    Status status = config && space ? check_limits(source, error) : STATUS_OK;
    for (size_t i = 0; i < sizeof *SIZES / sizeof **SIZES && !status; i++) {
        const char *key = config ? sizes[i].key.hf : sizes[i].key.gguf;
        int *to = (int *)(void *)((char *)d + sizes[i].offset);
        int64_t value = config ? sizes[i].usual : INT64_MIN;
        if (config && space) value = *(const int *)(const void *)((const char *)usual + sizes[i].offset);
        if (!key) continue;
        status = param_integer(source, sizes[i].key, &value, error);
        if (!status && (value < 1 || value > sizes[i].most))
            status = refuse_size(source, key, value, sizes[i].most, error);
        if (!status) *to = (int)value;
    }
    if (!status && !config) status = read_gguf_values(d, source, error);
    if (!status && config && space) status = read_space_values(d, s->hidden_size, source, error);
    if (!status) status = read_least_step(d, source, error);
    if (status) return status;
    if (d->n_value_heads % d->n_key_heads != 0)
        return error_set(
            error, STATUS_UNSUPPORTED, "%s: %d heads of values (%s) cannot share %d of keys (%s) evenly",
            source->path, d->n_value_heads,
            config ? source_config_key(source, sizes[1].key.hf) : sizes[1].key.gguf, d->n_key_heads,
            config ? source_config_key(source, sizes[0].key.hf) : sizes[0].key.gguf);
    d->keys_alternate = !config && source->architecture->gguf_keys_alternate;
    d->adds = space;
    return STATUS_OK;
}

// In GGUF the tensors say so, of all layers that recur or of none; norms are simply there.
static bool has_conv_bias(const Model *model, const ParamSource *source) {
    for (int l = 0; l < model->shape.n_layers; l++)
        if (model_find_tensor(source, MODULE_DELTA_CONV, l, "bias")) return true;
    return false;
}

static Status read_conv_bias(Model *model, const ParamSource *source, Error *error) {
    static const char BEFORE[] = "mamba_norm_before_gate";
    bool before = true;
    model->conv_bias = source->config || has_conv_bias(model, source);
    model->state_norm = !source->architecture->paired;
    Status status = param_bool(source, (Key){"mamba_conv_bias", NULL}, &model->conv_bias, error);
    if (!status && source->architecture->spaces_alone)
        status = param_bool(source, (Key){"mamba_proj_bias", NULL}, &model->state_bias, error);
    if (status || !source->config || !source->architecture->paired) return status;
    status = param_bool(source, (Key){"mamba_rms_norm", NULL}, &model->state_norm, error);
    if (!status) status = param_bool(source, (Key){BEFORE, NULL}, &before, error);
    if (status || !before || !model->state_norm) return status;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: %s asks for norms of the state before its gates, which palaver cannot run",
                     source->path, BEFORE);
}

Status model_read_delta(Model *model, const ParamSource *source, Error *error) {
    DecoderShape *s = &model->shape;
    bool differ = false, attends = false, recurs = false;
    if (!source->architecture->recurs) return STATUS_OK;
    DeltaRule delta = {0};
    LayerHeads *heads = calloc((size_t)s->n_layers, sizeof *heads);
    const bool turns = !model->layer_ropes; // else none does
    int *ropes = turns ? calloc((size_t)s->n_layers, sizeof *ropes) : model->layer_ropes;
    Status status = STATUS_OK;
    if (!heads || !ropes) status = error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    if (!status) status = read_kinds(model, source, heads, error);
    if (!status) status = read_sizes(&delta, s, source, error);
    if (!status && source->architecture->state_space) status = read_conv_bias(model, source, error);
    for (int l = 0; l < s->n_layers && !status; l++) {
        differ |= heads[l].recurs || heads[l].no_mixer || heads[l].no_ffn;
        attends |= !heads[l].recurs && !heads[l].no_mixer;
        recurs |= heads[l].recurs;
    }
    if (!status && !attends && !recurs) // so only layers of one part can be
        status = error_set(
            error, STATUS_UNSUPPORTED,
            "%s: none of %d layers attends or recurs (%s); palaver runs models of which one does",
            source->path, s->n_layers, source->config ? model_parts_key(source) : "attention.head_count_kv");
    if (status || !differ) { // where all attend they are alike
        free(heads);
        if (turns) free(ropes);
        return status;
    }
    for (int l = 0; l < s->n_layers; l++) {
        heads[l].n_kv_heads = s->n_kv_heads, heads[l].head_dim = s->head_dim, heads[l].lender = l;
        ropes[l] = heads[l].recurs || heads[l].no_mixer || !turns ? -1 : 0;
    }
    delta.norm_eps = (float)((double)s->norm_eps * model->residual_scale * model->residual_scale);
    delta.scale = (float)model->multipliers.state;
    if (recurs) s->delta = delta;
    s->heads_of_layers = model->layer_heads = heads, s->rope.of_layers = model->layer_ropes = ropes;
    model->usual_intermediate = s->intermediate_size;
    return STATUS_OK;
}
