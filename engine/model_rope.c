// Rotary frequencies: base, part of the head, and the scaling schemes that are fixed at load time. Those that
// change with the length of the text (dynamic NTK, LongRoPE) are refused.
#include "engine/model_internal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct RopeSpec {
    char type[32];
    double base, factor;                      // NaN: not said
    double rotary_part;                       // of the head, 0 to 1 (Hugging Face)
    int64_t rotary_dim;                       // 0: not said, the part decides
    int64_t original_context;                 // before scaling; 0: not said
    double low_freq_factor, high_freq_factor; // llama3
    double beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim; // YaRN
    bool truncate;
    const CheckpointTensor *divisors; // GGUF's rope_freqs.weight
} RopeSpec;

static const struct {
    const char *name;
    RopeScaling scaling;
} SCHEMES[] = {
    {"default", ROPE_SCALING_NONE},  {"none", ROPE_SCALING_NONE}, {"linear", ROPE_SCALING_LINEAR},
    {"llama3", ROPE_SCALING_LLAMA3}, {"yarn", ROPE_SCALING_YARN},
};

// ---- what the files say ------------------------------------------------------------------------------

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

// As llama.cpp reads them: a factor without a type is linear, and YaRN's attn_factor multiplies the usual
// magnitude.
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
    spec->divisors = checkpoint_find(source->checkpoint, "rope_freqs.weight");
    return status;
}

// ---- schemes -------------------------------------------------------------------------------------------

static void scale_linear(double *inv_freq, int n, double factor) {
    for (int i = 0; i < n; i++) inv_freq[i] /= factor;
}

// Long waves are stretched by the factor, short ones kept, those between blended.
static void scale_llama3(double *inv_freq, int n, const RopeSpec *spec) {
    double original = (double)spec->original_context;
    for (int i = 0; i < n; i++) {
        double turns = original * inv_freq[i] / (2 * M_PI); // in the original context
        double kept = (turns - spec->low_freq_factor) / (spec->high_freq_factor - spec->low_freq_factor);
        kept = fmin(fmax(kept, 0), 1);
        inv_freq[i] = kept * inv_freq[i] + (1 - kept) * inv_freq[i] / spec->factor;
    }
}

// The pair (as a real number) that turns `turns` times in the original context.
static double yarn_pair(double turns, int rotary_dim, const RopeSpec *spec) {
    return rotary_dim * log((double)spec->original_context / (turns * 2 * M_PI)) / (2 * log(spec->base));
}

static double yarn_magnitude(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static void scale_yarn(double *inv_freq, int n, const RopeSpec *spec, double *magnitude) {
    double low = yarn_pair(spec->beta_fast, 2 * n, spec), high = yarn_pair(spec->beta_slow, 2 * n, spec);
    if (spec->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, 2 * n - 1);
    if (low == high) high += 0.001;
    for (int i = 0; i < n; i++) {
        double stretched = fmin(fmax((i - low) / (high - low), 0), 1);
        inv_freq[i] = (1 - stretched) * inv_freq[i] + stretched * inv_freq[i] / spec->factor;
    }
    if (!isnan(spec->attention_factor)) {
        *magnitude = spec->attention_factor;
    } else if (spec->mscale > 0 && spec->mscale_all_dim > 0) {
        *magnitude =
            yarn_magnitude(spec->factor, spec->mscale) / yarn_magnitude(spec->factor, spec->mscale_all_dim);
    } else {
        *magnitude = yarn_magnitude(spec->factor, 1);
    }
}

static Status scale_by_divisors(Model *model, const ParamSource *source, const CheckpointTensor *tensor,
                                Error *error) {
    int n = model->shape.rope.rotary_dim / 2;
    if (!tensor->supported || tensor->type != DTYPE_F32 || tensor->n_dims != 1 || tensor->shape[0] != n) {
        return error_set(error, STATUS_FILE,
                         "%s: rope_freqs.weight: expected [%d] f32, file has %d dimensions, "
                         "[%lld] %s",
                         source->path, n, tensor->n_dims, (long long)tensor->shape[0], tensor->type_name);
    }
    for (int i = 0; i < n; i++) {
        float divisor = ((const float *)tensor->data)[i];
        if (!(divisor > 0 && divisor < INFINITY)) {
            return error_set(error, STATUS_FILE, "%s: rope_freqs.weight[%d] is %g; it must be positive",
                             source->path, i, (double)divisor);
        }
        model->inv_freq[i] /= (double)divisor;
    }
    if (model->rope_scaling == ROPE_SCALING_NONE) model->rope_scaling = ROPE_SCALING_FACTORS;
    return STATUS_OK;
}

// ---- together ------------------------------------------------------------------------------------------

static Status find_scheme(Model *model, const RopeSpec *spec, const ParamSource *source, Error *error) {
    for (size_t i = 0; i < sizeof SCHEMES / sizeof *SCHEMES; i++) {
        if (strcmp(SCHEMES[i].name, spec->type) != 0) continue;
        model->rope_scaling = SCHEMES[i].scaling;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: rope scaling \"%s\"; palaver knows linear, llama3 and yarn (others "
                     "change with the length of the text)",
                     source->path, spec->type);
}

// Every number the formulas will meet: positive, finite, in an order that leaves no division by zero.
static Status check_spec(RopeSpec *spec, const Model *model, const ParamSource *source, Error *error) {
    const char *wrong = NULL;
    if (!(spec->base > 1 && spec->base < 1e30)) wrong = "the base must be larger than 1";
    if (model->rope_scaling != ROPE_SCALING_NONE && !(spec->factor > 0 && spec->factor < 1e9)) {
        wrong = "the factor is missing or not positive";
    }
    if (model->rope_scaling == ROPE_SCALING_LLAMA3 &&
        !(spec->low_freq_factor > 0 && spec->low_freq_factor < spec->high_freq_factor &&
          spec->high_freq_factor < 1e9)) {
        wrong = "low_freq_factor and high_freq_factor are missing or out of order";
    }
    if (model->rope_scaling == ROPE_SCALING_YARN &&
        !(spec->beta_slow > 0 && spec->beta_slow <= spec->beta_fast && spec->beta_fast < 1e9)) {
        wrong = "beta_slow and beta_fast must be positive and in this order";
    }
    if (!isnan(spec->attention_factor) && !(spec->attention_factor > 0 && spec->attention_factor < 1e9)) {
        wrong = "the attention factor must be positive";
    }
    if (spec->original_context < 0 || spec->original_context > INT32_MAX)
        wrong = "the original context is no length";
    if (wrong == NULL) return STATUS_OK;
    return error_set(error, STATUS_FILE, "%s: rope: %s", source->path, wrong);
}

static Status read_rotary_dim(Model *model, const RopeSpec *spec, const ParamSource *source, Error *error) {
    int head_dim = model->shape.head_dim;
    bool part_ok = spec->rotary_part > 0 && spec->rotary_part <= 1;
    int64_t dim = spec->rotary_dim != 0 ? spec->rotary_dim
                  : part_ok             ? (int64_t)(head_dim * spec->rotary_part)
                                        : 0;
    if (dim < 2 || dim > head_dim || dim % 2 != 0) {
        return error_set(error, STATUS_FILE,
                         "%s: rope turns %lld of a head's %d elements; it must be an even number "
                         "of them",
                         source->path, (long long)dim, head_dim);
    }
    model->shape.rope.rotary_dim = (int)dim;
    return STATUS_OK;
}

static Status read_context(Model *model, RopeSpec *spec, const ParamSource *source, Error *error) {
    int64_t context = source->architecture->default_context;
    Status status =
        param_integer(source, (Key){"max_position_embeddings", "context_length"}, &context, error);
    if (status != STATUS_OK) return status;
    if (context < 1 || context > INT32_MAX) {
        return error_set(error, STATUS_FILE, "%s: a context of %lld tokens", source->path,
                         (long long)context);
    }
    if (spec->original_context == 0) {
        spec->original_context = context;
    } else if (model->rope_scaling == ROPE_SCALING_YARN) {
        if (isnan(spec->factor)) spec->factor = (double)context / (double)spec->original_context;
        // Where people add YaRN to a config.json by hand, max_position_embeddings still tells the unscaled
        // length.
        double scaled = (double)spec->original_context * spec->factor;
        if (scaled > (double)context && scaled <= INT32_MAX) context = (int64_t)scaled;
    }
    model->context_length = context;
    return STATUS_OK;
}

static Status read_rope(Model *model, RopeSpec *spec, const ParamSource *source, Error *error) {
    bool is_gguf = source->config == NULL;
    Status status = is_gguf ? spec_from_gguf(spec, source, error) : spec_from_config(spec, source, error);
    if (status == STATUS_OK) status = find_scheme(model, spec, source, error);
    if (status == STATUS_OK) status = read_context(model, spec, source, error);
    if (status == STATUS_OK) status = check_spec(spec, model, source, error);
    if (status == STATUS_OK) status = read_rotary_dim(model, spec, source, error);
    if (status != STATUS_OK) return status;

    int n = model->shape.rope.rotary_dim / 2;
    model->inv_freq = malloc((size_t)n * sizeof *model->inv_freq);
    if (model->inv_freq == NULL) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    for (int i = 0; i < n; i++) model->inv_freq[i] = pow(spec->base, -(double)i / n);

    Rope *rope = &model->shape.rope;
    rope->kind = is_gguf ? source->architecture->gguf_rope : source->architecture->hf_rope;
    rope->inv_freq = model->inv_freq;
    model->rope_base = spec->base;
    model->rope_factor = model->rope_scaling == ROPE_SCALING_NONE ? 1 : spec->factor;
    if (model->rope_scaling == ROPE_SCALING_LINEAR) scale_linear(model->inv_freq, n, spec->factor);
    if (model->rope_scaling == ROPE_SCALING_LLAMA3) scale_llama3(model->inv_freq, n, spec);
    if (model->rope_scaling == ROPE_SCALING_YARN) scale_yarn(model->inv_freq, n, spec, &rope->magnitude);
    return spec->divisors == NULL ? STATUS_OK : scale_by_divisors(model, source, spec->divisors, error);
}

Status model_read_positions(Model *model, const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    RopeSpec spec = {.type = "default",
                     .base = 10000,
                     .factor = NAN,
                     .rotary_part = a->default_rotary_part > 0 ? a->default_rotary_part : 1,
                     .rotary_dim = a->default_rotary_dim,
                     .beta_fast = 32,
                     .beta_slow = 1,
                     .attention_factor = NAN,
                     .truncate = true};
    model->shape.rope.magnitude = 1;
    model->rope_factor = 1;
    if (a->positions == POSITIONS_ROPE) return read_rope(model, &spec, source, error);
    model->shape.alibi = a->positions == POSITIONS_ALIBI;
    Status status = read_context(model, &spec, source, error);
    if (status == STATUS_OK && a->positions == POSITIONS_LEARNED)
        model->shape.n_positions = (int)model->context_length;
    return status;
}
