// Mixtures of experts: what files say of them in numbers.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"

#include <stdio.h>
#include <string.h>

static const Key ALL = {"num_local_experts", "expert_count"},
                 ACTIVE = {"num_experts_per_tok", "expert_used_count"},
                 GROUPS = {"n_group", "expert_group_count"},
                 ACTIVE_GROUPS = {"topk_group", "expert_group_used_count"};

static Status refuse_number(const ParamSource *source, Key key, int64_t value, int64_t most, Error *error) {
    char text[KEY_SIZE];
    return error_set(error, STATUS_FILE, "%s: %s is %lld; palaver takes 1 to %lld", source->path,
                     source_key(source, key, text), (long long)value, (long long)most);
}

static Status refuse_absence(const ParamSource *source, Key key, Error *error) {
    char text[KEY_SIZE];
    return error_set(error, STATUS_FILE, "%s: %s is missing", source->path, source_key(source, key, text));
}

// Config.json must have it; a GGUF file that does not says that the feed-forward part's own size is meant.
static Status read_size(const ParamSource *source, Key key, int64_t usual, int *size, Error *error) {
    int64_t value = usual > 0 ? usual : INT64_MIN;
    Status status = param_integer(source, key, &value, error);
    if (status) return status;
    if (value == INT64_MIN) return refuse_absence(source, key, error);
    if (value < 1 || value > 1 << 22) return refuse_number(source, key, value, 1 << 22, error);
    *size = (int)value;
    return STATUS_OK;
}

// A number, or in config.json one for each layer, all the same.
static Status read_of_all(const ParamSource *source, Key key, int64_t *value, Error *error) {
    const char *name = source->config ? source_config_key(source, key.hf) : NULL;
    const json_t *list = name ? json_object_get(source->config, name) : NULL;
    if (!json_is_array(list)) return param_integer(source, key, value, error);
    unread_take_key(source, NULL, name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *own = json_array_get(list, i);
        if (!json_is_integer(own) || json_integer_value(own) != json_integer_value(json_array_get(list, 0)))
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: %s[%zu] is another one than the first; palaver runs layers of one number",
                             source->path, name, i);
        *value = json_integer_value(own);
    }
    return STATUS_OK;
}

// How many there are and how many a token takes: where config.json is silent, as many as the class has.
static Status read_counts(const ParamSource *source, Experts *e, Error *error) {
    const ExpertRules *rules = &source->architecture->experts;
    const char *name = source->config ? source_config_key(source, ALL.hf) : NULL;
    int64_t n = source->config ? rules->n : INT64_MIN, active = source->config ? rules->n_active : INT64_MIN;
    if (name && json_is_null(json_object_get(source->config, name)))
        return param_refuse_null(source, NULL, name, error);
    Status status = read_of_all(source, ALL, &n, error);
    if (!status) status = read_of_all(source, ACTIVE, &active, error);
    if (status) return status;
    if (n == INT64_MIN || active == INT64_MIN)
        return refuse_absence(source, n == INT64_MIN ? ALL : ACTIVE, error);
    if (n < 1 || n > EXPERTS_MOST) return refuse_number(source, ALL, n, EXPERTS_MOST, error);
    int64_t most = n < EXPERTS_MOST_ACTIVE ? n : EXPERTS_MOST_ACTIVE;
    if (active < 1 || active > most) return refuse_number(source, ACTIVE, active, most, error);
    e->n = (int)n, e->n_active = (int)active;
    return STATUS_OK;
}

// Whether the two numbers of groups mean something. By topk_method only one of its ways has groups.
static Status has_groups(const ParamSource *source, bool *there, Error *error) {
    char method[64] = "greedy";
    *there = source->architecture->experts.groups;
    if (!source->config || !source->architecture->experts.groups_named) return STATUS_OK;
    Status status = param_string(source, (Key){"topk_method", NULL}, method, sizeof method, error);
    *there = strcmp(method, "group_limited_greedy") == 0;
    if (status || *there) return status;
    unread_take_key(source, NULL, "n_group");
    unread_take_key(source, NULL, "topk_group");
    if (strcmp(method, "greedy") == 0) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: topk_method \"%s\"; palaver knows greedy and group_limited_greedy", source->path,
                     method);
}

static Status read_groups(const ParamSource *source, Experts *e, Error *error) {
    bool there;
    int64_t groups = 1, active = 1;
    Status status = has_groups(source, &there, error);
    if (!status) status = param_integer(source, (Key){there ? GROUPS.hf : NULL, GROUPS.gguf}, &groups, error);
    if (!status)
        status =
            param_integer(source, (Key){there ? ACTIVE_GROUPS.hf : NULL, ACTIVE_GROUPS.gguf}, &active, error);
    if (status) return status;
    if (groups < 1 || groups > e->n || e->n % groups != 0 || active < 1 || active > groups ||
        active * (e->n / groups) < e->n_active)
        return error_set(
            error, STATUS_FILE, "%s: %d (%s) of %d experts (%s) in %lld (%s) of %lld groups (%s) for a token",
            source->path, e->n_active, source_short_key(source, ACTIVE), e->n, source_short_key(source, ALL),
            (long long)active, source_short_key(source, ACTIVE_GROUPS), (long long)groups,
            source_short_key(source, GROUPS));
    e->groups_by_best = e->score == ROUTER_SOFTMAX; // as DeepSeek-V2, which alone has groups of such
    e->n_groups = (int)groups, e->n_active_groups = (int)active;
    return STATUS_OK;
}

// Of SparseMixer, which takes two and has no other numbers.
static Status read_jitter(const ParamSource *source, Experts *e, Error *error) {
    static const Key KEY = {"router_jitter_noise", NULL};
    double jitter = source->architecture->experts.jitter;
    Status status = param_number(source, KEY, &jitter, error);
    if (status) return status;
    if (!(jitter >= 0 && jitter < 1) || e->n_active != 2)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: a router of jitter %g (%s) that takes %d experts (%s); it takes two",
                         source->path, jitter, source_short_key(source, KEY), e->n_active,
                         source_short_key(source, ACTIVE));
    e->score = ROUTER_SPARSEMIXER, e->scale = 1, e->jitter = (float)jitter;
    return STATUS_OK;
}

static Status read_router(const ParamSource *source, Experts *e, Error *error) {
    static const Key SCORE = {NULL, "expert_gating_func"};
    const ExpertRules *rules = &source->architecture->experts;
    double scale = source->config && rules->scale > 0 ? rules->scale : 1;
    char text[KEY_SIZE];
    if (rules->score == ROUTER_SPARSEMIXER) return read_jitter(source, e, error);
    int64_t score = rules->score == ROUTER_SIGMOID ? 2 : 1;
    e->renormalise = source->config ? rules->renormalise : rules->gguf_renormalise;
    e->scales_input = rules->scales_input, e->guarded = rules->guarded;
    Status status = STATUS_OK;
    if (!source->config || rules->renormalise_key)
        status = param_bool(source, (Key){"norm_topk_prob", "expert_weights_norm"}, &e->renormalise, error);
    if (source->config && rules->renormalise_many && e->n_active == 1) e->renormalise = false;
    if (!status)
        status = param_number(
            source, (Key){rules->scale_key ? "routed_scaling_factor" : NULL, "expert_weights_scale"}, &scale,
            error);
    if (!status) status = param_integer(source, SCORE, &score, error);
    if (status) return status;
    if (!isfinite(scale))
        return error_set(error, STATUS_FILE, "%s: %s is %g", source->path,
                         source->config ? "routed_scaling_factor" : "expert_weights_scale", scale);
    if (score < 0 || score > 3)
        return error_set(error, STATUS_UNSUPPORTED, "%s: %s is %lld, a function that palaver cannot run",
                         source->path, source_key(source, SCORE, text), (long long)score);
    // 0 says nothing; the softmax of what was chosen (3) is that of all, renormalised.
    e->score = score == 2 ? ROUTER_SIGMOID : score == 0 ? rules->score : ROUTER_SOFTMAX;
    e->renormalise = e->renormalise || score == 3;
    e->scale = scale != 0 || source->config ? (float)scale : 1;
    return read_groups(source, e, error);
}

// The shared expert's size, or how many of the others' it is worth.
static Status read_shared(const ParamSource *source, const DecoderShape *shape, Experts *e, Error *error) {
    const ExpertRules *rules = &source->architecture->experts;
    const Key count = {rules->shared_count, "expert_shared_count"};
    int64_t n = INT64_MIN;
    char text[KEY_SIZE];
    const Key size = {NULL, "expert_shared_feed_forward_length"};
    e->shared_size = rules->shared_alike ? e->size : 0;
    if (rules->shared_size)
        return read_size(source, (Key){rules->shared_size, "expert_shared_feed_forward_length"},
                         !source->config && e->beside ? shape->intermediate_size : 0, &e->shared_size, error);
    if (!rules->shared_count)
        return rules->shared_alike ? read_size(source, size, e->size, &e->shared_size, error) : STATUS_OK;
    Status status = param_integer(source, count, &n, error);
    if (status) return status;
    if (n == INT64_MIN && !source->config) return read_size(source, size, 0, &e->shared_size, error);
    if (n == INT64_MIN) return refuse_absence(source, count, error);
    if (n < 0 || n > 64)
        return error_set(error, STATUS_FILE, "%s: %s is %lld; palaver takes 0 to 64", source->path,
                         source_key(source, count, text), (long long)n);
    e->shared_size = (int)n * e->size;
    // GGUF may say the size beside the count, or alone: the weights' shapes prove it.
    return n == 0 ? STATUS_OK : read_size(source, size, e->shared_size, &e->shared_size, error);
}

// ---- which layers ------------------------------------------------------------------------------------------

static bool is_listed(const json_t *list, int layer) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == layer) return true;
    return false;
}

// A whole number of config.json, or what is meant without it.
static int64_t number_of(const ParamSource *source, const char *key, int64_t usual) {
    const json_t *value = json_object_get(source->config, source_config_key(source, key));
    return json_is_integer(value) ? json_integer_value(value) : usual;
}

// A file need not say which of its layers are dense: then its tensors do.
static bool gguf_expects_experts(const ParamSource *source, int layer) {
    char text[KEY_SIZE];
    const MetaValue *dense =
        checkpoint_meta(source->checkpoint, source_gguf_key(source, "leading_dense_block_count", text));
    if (!dense || dense->type != META_INTEGER) {
        snprintf(text, sizeof text, "blk.%d.ffn_gate_inp.weight", layer);
        return checkpoint_find(source->checkpoint, text) != NULL;
    }
    return layer >= dense->integer;
}

bool model_expects_experts(const ParamSource *source, int layer) {
    int64_t every, last;
    if (!source->config) return gguf_expects_experts(source, layer);
    const json_t *types = json_object_get(source->config, "mlp_layer_types");
    const char *type = json_string_value(json_array_get(types, (size_t)layer));
    switch (source->architecture->experts.layers) {
    case EXPERTS_SPARSE:
        every = number_of(source, "decoder_sparse_step", 1);
        return !is_listed(json_object_get(source->config, "mlp_only_layers"), layer) && every > 0 &&
               (layer + 1) % every == 0;
    case EXPERTS_BY_TYPES:
        if (json_is_array(types)) return type && strcmp(type, "sparse") == 0;
        // fall through
    case EXPERTS_BEHIND_DENSE:
        return layer >= number_of(source, "first_k_dense_replace", source->architecture->experts.dense);
    case EXPERTS_WITHIN:
        every = number_of(source, "moe_layer_interval", 1),
        last = number_of(source, "moe_layer_end_index", -1);
        return every > 0 && (layer + 1) % every == 0 &&
               layer >= number_of(source, "moe_layer_start_index", 1) && (last == -1 || layer <= last);
    case EXPERTS_LISTED:
        every = number_of(source, "interleave_moe_layer_step", 1);
        return json_is_array(json_object_get(source->config, "moe_layers"))
                   ? is_listed(json_object_get(source->config, "moe_layers"), layer)
                   : every > 0 && (layer + 1) % every == 0;
    case EXPERTS_ALONE:
        return model_part_of(source, layer) == PART_EXPERTS;
    case EXPERTS_IN_ALL:
        break;
    }
    return true;
}

static void take_layer_keys(const ParamSource *source) {
    static const char *const KEYS[][3] = {
        [EXPERTS_IN_ALL] = {NULL},
        [EXPERTS_SPARSE] = {"mlp_only_layers", "decoder_sparse_step"},
        [EXPERTS_BEHIND_DENSE] = {"first_k_dense_replace"},
        [EXPERTS_BY_TYPES] = {"mlp_layer_types", "first_k_dense_replace"},
        [EXPERTS_ALONE] = {NULL},
        [EXPERTS_LISTED] = {"moe_layers", "interleave_moe_layer_step"},
        [EXPERTS_WITHIN] = {"moe_layer_interval", "moe_layer_start_index", "moe_layer_end_index"}};
    const char *const *keys = KEYS[source->architecture->experts.layers];
    char text[KEY_SIZE];
    if (!source->config) unread_take_meta(source, source_gguf_key(source, "leading_dense_block_count", text));
    for (int i = 0; i < 3 && source->config; i++)
        if (keys[i]) unread_take_key(source, NULL, source_config_key(source, keys[i]));
}

// Keys that mean nothing where there are none.
static void leave_none(const ParamSource *source) {
    static const char *const KEYS[] = {"expert_used_count", "expert_shared_feed_forward_length"};
    char text[KEY_SIZE];
    for (int i = 0; i < 2 && !source->config; i++)
        unread_take_meta(source, source_gguf_key(source, KEYS[i], text));
}

// The same where a class has them and no layer is of experts.
static void leave_unused(const ParamSource *source) {
    const ExpertRules *rules = &source->architecture->experts;
    const char *const keys[] = {
        "num_local_experts", "num_experts_per_tok", "norm_topk_prob", "routed_scaling_factor",
        "n_group",           "topk_group",          rules->size,      rules->shared_size};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i]) unread_take_key(source, NULL, source_config_key(source, keys[i]));
}

Status model_read_experts(Model *model, const ParamSource *source, Error *error) {
    const ExpertRules *rules = &source->architecture->experts;
    DecoderShape *shape = &model->shape;
    Experts *e = &shape->experts;
    int64_t n = 0, other = 0;
    if (!rules->there) {
        Status status = param_integer(source, ALL, &n, error);
        if (!status) status = param_integer(source, (Key){"num_experts", NULL}, &other, error);
        if (status) return status;
        if (n <= 0 && other <= 0) {
            leave_none(source);
            return STATUS_OK;
        }
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: a mixture of %lld experts (%s), which a %s model does not have", source->path,
                         (long long)(n > 0 ? n : other),
                         n > 0 ? source_short_key(source, ALL) : "num_experts", source->architecture->name);
    }
    take_layer_keys(source);
    if (rules->layers == EXPERTS_ALONE && source->config &&
        !model_has_part(source, shape->n_layers, PART_EXPERTS)) {
        leave_unused(source);
        return STATUS_OK;
    }
    Status status = read_counts(source, e, error);
    if (!status) status = read_router(source, e, error);
    e->size = shape->intermediate_size;
    e->beside = rules->beside[0] != NULL;
    if (!status && (!source->config || rules->size))
        status = read_size(source, (Key){rules->size, "expert_feed_forward_length"},
                           source->config ? 0 : shape->intermediate_size, &e->size, error);
    return status ? status : read_shared(source, shape, e, error);
}
