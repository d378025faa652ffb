// Rotary frequencies as config.json and GGUF metadata tell them.
#include "engine/model/model_rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// rope_parameters (transformers 5) holds the base as well; rope_scaling (before) does not, and may be null.
static Status spec_from_config(RopeSpec *spec, const ParamSource *source, Error *error) {
    const json_t *config = source->config, *object = json_object_get(config, "rope_scaling");
    const char *name = "rope_scaling";
    if (json_object_size(object) == 0) {
        object = json_object_get(config, "rope_parameters");
        name = "rope_parameters";
    }
    char what[512];
    snprintf(what, sizeof what, "%.400s: %s", source->path, name);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (!json_is_object(value)) continue;
        return error_set(error, STATUS_UNSUPPORTED, "%s differ by kind of layer, which palaver cannot do",
                         what);
    }
    const struct {
        const json_t *object;
        const char *what, *key;
        double *value;
    } numbers[] = {
        {config, source->path, config_param_key(source, "rope_theta"), &spec->base},
        {config, source->path, config_param_key(source, "partial_rotary_factor"), &spec->rotary_part},
        {object, what, "rope_theta", &spec->base},
        {object, what, "partial_rotary_factor", &spec->rotary_part},
        {object, what, "factor", &spec->factor},
        {object, what, "low_freq_factor", &spec->low_freq_factor},
        {object, what, "high_freq_factor", &spec->high_freq_factor},
        {object, what, "beta_fast", &spec->beta_fast},
        {object, what, "beta_slow", &spec->beta_slow},
        {object, what, "attention_factor", &spec->attention_factor},
        {object, what, "mscale", &spec->mscale},
        {object, what, "mscale_all_dim", &spec->mscale_all_dim},
    };
    spec->short_factors =
        (RopeFactors){.name = "short_factor", .list = json_object_get(object, "short_factor")};
    spec->long_factors = (RopeFactors){.name = "long_factor", .list = json_object_get(object, "long_factor")};
    Status status = json_string_at(object, what, "type", spec->type, sizeof spec->type, error);
    if (status == STATUS_OK)
        status = json_string_at(object, what, "rope_type", spec->type, sizeof spec->type, error);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == STATUS_OK; i++) {
        status = json_number_at(numbers[i].object, numbers[i].what, numbers[i].key, numbers[i].value, error);
    }
    static const char ORIGINAL[] = "original_max_position_embeddings";
    if (status == STATUS_OK) status = json_bool_at(object, what, "truncate", &spec->truncate, error);
    if (status == STATUS_OK) status = json_integer_at(object, what, ORIGINAL, &spec->original_context, error);
    if (status == STATUS_OK && spec->rotary_dim > 0)
        status = json_integer_at(config, source->path, "rotary_dim", &spec->rotary_dim, error);
    if (status != STATUS_OK) return status;
    return json_integer_at(config, source->path, ORIGINAL, &spec->original_context, error);
}

static RopeFactors factors_from_gguf(const ParamSource *source, const char *name) {
    return (RopeFactors){.name = name, .tensor = checkpoint_find(source->checkpoint, name)};
}

// As llama.cpp reads them: a factor without a type is linear, YaRN's attn_factor multiplies the usual magnitude, and
// LongRoPE's, which its tensors announce, is the magnitude.
static Status spec_from_gguf(RopeSpec *spec, const ParamSource *source, Error *error) {
    double attention = 1;
    Status status = param_number(source, (Key){NULL, "rope.freq_base"}, &spec->base, error);
    if (status == STATUS_OK)
        status = param_number(source, (Key){NULL, "rope.scale_linear"}, &spec->factor, error);
    if (status == STATUS_OK)
        status = param_number(source, (Key){NULL, "rope.scaling.factor"}, &spec->factor, error);
    if (spec->factor == 0) spec->factor = NAN; // how older files say "none"
    if (!isnan(spec->factor)) snprintf(spec->type, sizeof spec->type, "linear");
    if (status == STATUS_OK) {
        status = param_string(source, (Key){NULL, "rope.scaling.type"}, spec->type, sizeof spec->type, error);
    }
    if (status == STATUS_OK) {
        status = param_integer(source, (Key){NULL, "rope.dimension_count"}, &spec->rotary_dim, error);
    }
    if (status == STATUS_OK) {
        status = param_integer(source, (Key){NULL, "rope.scaling.original_context_length"},
                               &spec->original_context, error);
    }
    if (status == STATUS_OK)
        status = param_number(source, (Key){NULL, "rope.scaling.attn_factor"}, &attention, error);
    if (status == STATUS_OK) {
        status = param_number(source, (Key){NULL, "rope.scaling.yarn_beta_fast"}, &spec->beta_fast, error);
    }
    if (status == STATUS_OK) {
        status = param_number(source, (Key){NULL, "rope.scaling.yarn_beta_slow"}, &spec->beta_slow, error);
    }
    if (spec->factor > 1) spec->attention_factor = attention * (0.1 * log(spec->factor) + 1);
    spec->divisors = factors_from_gguf(source, "rope_freqs.weight");
    spec->short_factors = factors_from_gguf(source, "rope_factors_short.weight");
    spec->long_factors = factors_from_gguf(source, "rope_factors_long.weight");
    if (spec->long_factors.tensor != NULL) snprintf(spec->type, sizeof spec->type, "longrope");
    if (strcmp(spec->type, "longrope") == 0) spec->attention_factor = attention;
    return status;
}

Status rope_spec_read(RopeSpec *spec, const ParamSource *source, Error *error) {
    return source->config == NULL ? spec_from_gguf(spec, source, error)
                                  : spec_from_config(spec, source, error);
}

// ---- factors -------------------------------------------------------------------------------------------

static bool is_list_of(const RopeFactors *factors, int n) {
    const CheckpointTensor *t = factors->tensor;
    if (t != NULL) return t->supported && t->type == DTYPE_F32 && t->n_dims == 1 && t->shape[0] == n;
    return json_is_array(factors->list) && json_array_size(factors->list) == (size_t)n;
}

Status rope_factors_apply(const RopeFactors *factors, const ParamSource *source, double *inv_freq, int n,
                          Error *error) {
    const CheckpointTensor *t = factors->tensor;
    if (t == NULL && factors->list == NULL)
        return error_set(error, STATUS_FILE, "%s: rope: %s is missing", source->path, factors->name);
    if (!is_list_of(factors, n)) {
        return t == NULL
                   ? error_set(error, STATUS_FILE, "%s: rope: %s should be a list of %d numbers",
                               source->path, factors->name, n)
                   : error_set(error, STATUS_FILE,
                               "%s: %s: expected [%d] f32, file has %d dimensions, [%lld] %s", source->path,
                               factors->name, n, t->n_dims, (long long)t->shape[0], t->type_name);
    }
    for (int i = 0; i < n; i++) {
        double divisor = t != NULL ? (double)((const float *)t->data)[i]
                                   : json_number_value(json_array_get(factors->list, (size_t)i));
        if (!(divisor > 1e-9 && divisor < 1e9)) {
            return error_set(error, STATUS_FILE, "%s: %s[%d] is %g; it must be between 1e-9 and 1e9",
                             source->path, factors->name, i, divisor);
        }
        inv_freq[i] /= divisor;
    }
    return STATUS_OK;
}
