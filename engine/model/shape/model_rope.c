// How a model tells positions, as its files say it: rotary with its base, the part of a head and the scaling scheme,
// checked against each other; or learned, or by ALiBi.
#include "engine/model/config/rope_spec.h"

#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    RopeScaling scaling;
} SCHEMES[] = {
    {"default", ROPE_SCALING_NONE},      {"none", ROPE_SCALING_NONE},
    {"linear", ROPE_SCALING_LINEAR},     {"llama3", ROPE_SCALING_LLAMA3},
    {"yarn", ROPE_SCALING_YARN},         {"dynamic", ROPE_SCALING_DYNAMIC},
    {"longrope", ROPE_SCALING_LONGROPE}, {"proportional", ROPE_SCALING_PROPORTIONAL},
};

static Status find_scheme(Model *model, const RopeSpec *spec, const ParamSource *source, Error *error) {
    for (size_t i = 0; i < sizeof SCHEMES / sizeof *SCHEMES; i++) {
        if (strcmp(SCHEMES[i].name, spec->type) != 0) continue;
        model->rope_scaling = SCHEMES[i].scaling;
        return STATUS_OK;
    }
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: rope scaling of the type \"%s\" (%s); palaver knows linear, llama3, yarn, dynamic and longrope",
        source->path, spec->type, spec->type_key);
}

// What the files call the numbers that are checked, in GGUF without the architecture before it.
static const Key BASE = {"rope_theta", "rope.freq_base"}, FACTOR = {"factor", "rope.scaling.factor"},
                 FAST = {"beta_fast", "rope.scaling.yarn_beta_fast"},
                 SLOW = {"beta_slow", "rope.scaling.yarn_beta_slow"},
                 ATTENTION = {"attention_factor", "rope.scaling.attn_factor"},
                 ORIGINAL = {"original_max_position_embeddings", "rope.scaling.original_context_length"};

static bool is_positive(double value) {
    return value > 0 && value < 1e9;
}

// Two magnitudes would have to change in the middle of a text.
static Status check_mscales(const RopeSpec *spec, const ParamSource *source, Error *error) {
    const bool positive = is_positive(spec->short_mscale) && is_positive(spec->long_mscale);
    if (!positive || spec->short_mscale != spec->long_mscale)
        return error_set(error, STATUS_FILE, "%s: rope: short_mscale is %g and long_mscale %g, which %s",
                         source->path, spec->short_mscale, spec->long_mscale,
                         positive ? "differ: palaver cannot run them" : "must be there, and positive");
    return isnan(spec->attention_factor)
               ? STATUS_OK
               : error_set(error, STATUS_FILE,
                           "%s: rope: an attention_factor beside short_mscale and long_mscale", source->path);
}

// What a scheme multiplies and divides by: in an order that leaves no division by zero.
static Status check_scheme(const RopeSpec *spec, const Model *model, const ParamSource *source,
                           Error *error) {
    const RopeScaling scaling = model->rope_scaling;
    const bool wants_factor =
        scaling != ROPE_SCALING_NONE && (scaling != ROPE_SCALING_PROPORTIONAL || !isnan(spec->factor));
    if (scaling == ROPE_SCALING_LONGROPE && spec->original_context == 0)
        return error_set(error, STATUS_FILE, "%s: rope: %s is missing", source->path,
                         source_short_key(source, ORIGINAL));
    if (wants_factor && isnan(spec->factor))
        return error_set(error, STATUS_FILE, "%s: rope: %s is missing", source->path,
                         source_short_key(source, FACTOR));
    if (wants_factor && !is_positive(spec->factor))
        return error_set(error, STATUS_FILE, "%s: rope: %s is %g; it must be positive", source->path,
                         source_short_key(source, FACTOR), spec->factor);
    if (scaling == ROPE_SCALING_LLAMA3 &&
        !(spec->low_freq_factor > 0 && spec->low_freq_factor <= spec->high_freq_factor &&
          is_positive(spec->high_freq_factor)))
        return error_set(error, STATUS_FILE,
                         "%s: rope: low_freq_factor is %g and high_freq_factor %g; they must be positive and "
                         "in this order",
                         source->path, spec->low_freq_factor, spec->high_freq_factor);
    if (scaling == ROPE_SCALING_YARN &&
        !(spec->beta_slow > 0 && spec->beta_slow <= spec->beta_fast && is_positive(spec->beta_fast)))
        return error_set(error, STATUS_FILE,
                         "%s: rope: %s is %g and %s %g; they must be positive and in this order",
                         source->path, source_short_key(source, SLOW), spec->beta_slow,
                         source_short_key(source, FAST), spec->beta_fast);
    return scaling == ROPE_SCALING_LONGROPE && source->config && source->architecture->longrope_mscale
               ? check_mscales(spec, source, error)
               : STATUS_OK;
}

// Every number the formulas will meet: positive, finite.
static Status check_spec(const RopeSpec *spec, const Model *model, const ParamSource *source, Error *error) {
    const int least = model->rope_scaling == ROPE_SCALING_LONGROPE ? 2 : 1;
    const bool told = spec->original_context != 0;
    double attention = spec->magnitude;
    if (is_positive(attention) && !isnan(spec->attention_factor)) attention = spec->attention_factor;
    if (!(spec->base > 1 && spec->base < 1e30))
        return error_set(error, STATUS_FILE, "%s: rope: %s is %g; it must be larger than 1", source->path,
                         source_short_key(source, BASE), spec->base);
    if (!is_positive(attention))
        return error_set(error, STATUS_FILE, "%s: rope: %s is %g; it must be positive", source->path,
                         source_short_key(source, ATTENTION), attention);
    if (told && (spec->original_context < least || spec->original_context > INT32_MAX))
        return error_set(error, STATUS_FILE, "%s: rope: %s is %lld; palaver takes %d to %d", source->path,
                         source_short_key(source, ORIGINAL), (long long)spec->original_context, least,
                         INT32_MAX);
    return check_scheme(spec, model, source, error);
}

static Status read_rotary_dim(Model *model, const RopeSpec *spec, const ParamSource *source, Error *error) {
    const bool latent = model->shape.latent.rank > 0; // whose rotary part has keys of its own
    const bool whole = model->rope_scaling == ROPE_SCALING_PROPORTIONAL;
    const int head_dim = latent                       ? model->shape.rope.rotary_dim
                         : model->global_head_dim > 0 ? model->global_head_dim
                                                      : model->shape.head_dim;
    // Mistral 4's part is of the head that a latent is expanded to.
    const int part_of =
        head_dim + (latent && source->architecture->partial_rotary ? model->shape.latent.plain_dim : 0);
    bool part_ok = spec->rotary_part > 0 && spec->rotary_part <= 1;
    int64_t dim = spec->rotary_dim != 0                   ? spec->rotary_dim
                  : part_of > head_dim && !spec->has_part ? head_dim
                  : part_ok ? (int64_t)(whole ? head_dim : part_of * spec->rotary_part)
                            : 0;
    if (spec->rotary_dim != 0 && spec->has_part && dim != (int64_t)(head_dim * spec->rotary_part))
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: rope: rotary_dim is %lld, and partial_rotary_factor %g of %d", source->path,
                         (long long)dim, spec->rotary_part, head_dim);
    if (source->architecture->unscaled_whole && model->rope_scaling == ROPE_SCALING_NONE &&
        spec->rotary_part != 1)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: rope: partial_rotary_factor is %g beside a rope_type of \"default\", by which a %s model "
            "turns whole heads",
            source->path, spec->rotary_part, source->architecture->name);
    if (dim < 2 || dim > head_dim || dim % 2 != 0 || (latent && dim != head_dim)) {
        const bool told = spec->rotary_dim != 0,
                   part = !told && (!whole || !part_ok) && spec->rotary_part != 1;
        const Key key =
            told ? (Key){"rotary_dim", "rope.dimension_count"} : (Key){"partial_rotary_factor", NULL};
        if (!told && !part)
            return error_set(error, STATUS_FILE,
                             "%s: a head has %d elements (%s); it must be an even number of them",
                             source->path, head_dim, model_size_key(source, "head_dim"));
        return error_set(error, STATUS_FILE,
                         "%s: rope turns %lld of a head's %d elements (%s is %g); it must be an even number "
                         "of them",
                         source->path, (long long)dim, head_dim, source_short_key(source, key),
                         told ? (double)dim : spec->rotary_part);
    }
    model->shape.rope.rotary_dim = (int)dim;
    return STATUS_OK;
}

static Status read_context(Model *model, RopeSpec *spec, const ParamSource *source, Error *error) {
    int64_t context = source->architecture->default_context;
    Status status =
        param_integer(source, (Key){"max_position_embeddings", "context_length"}, &context, error);
    if (status) return status;
    if (context < 1 || context > INT32_MAX) {
        return error_set(
            error, STATUS_FILE, "%s: a context of %lld tokens (%s)", source->path, (long long)context,
            source->config ? source_config_key(source, "max_position_embeddings") : "context_length");
    }
    if (model->rope_scaling == ROPE_SCALING_LONGROPE) {
        if (!source->config && source->architecture->gguf_silent && spec->original_context == 0)
            spec->original_context = context;
        if (isnan(spec->factor) && spec->original_context > 0)
            spec->factor = (double)context / (double)spec->original_context;
    } else if (model->rope_scaling == ROPE_SCALING_DYNAMIC) {
        spec->original_context = context; // whatever else is said: it is where growth begins
        double scaled = fmin((double)context * spec->factor, (double)(context + model_dynamic_reach(model)));
        if (spec->factor > 1 && scaled <= INT32_MAX) context = (int64_t)scaled;
    } else if (spec->original_context == 0) {
        spec->original_context = context;
    } else if (model->rope_scaling == ROPE_SCALING_YARN) {
        if (isnan(spec->factor)) spec->factor = (double)context / (double)spec->original_context;
        // Where people add YaRN to a config.json by hand, max_position_embeddings still tells the unscaled
        // length.
        double scaled = (double)spec->original_context * spec->factor;
        if (scaled > (double)context && scaled <= INT32_MAX) context = (int64_t)scaled;
    }
    model->context_length = context;
    model->context_ends = source->architecture->context_ends;
    return STATUS_OK;
}

// The frequencies of layers behind a window, in a second table behind the first, the same for texts of every length. In
// GGUF they have another base where the architecture has, and no scaling.
static Status add_window_table(Model *model, const RopeSpec *first, const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    Rope *rope = &model->shape.rope;
    const int n = rope->rotary_dim / 2, own = model->global_head_dim > 0 ? model->shape.head_dim / 2 : n;
    RopeSpec spec = {.layers = source->config ? "sliding_attention" : NULL,
                     .type = "default",
                     .base = a->default_window_base > 0 ? a->default_window_base
                             : source->config           ? a->default_base
                                                        : first->base,
                     .rotary_part = first->rotary_part,
                     .factor = NAN,
                     .attention_factor = NAN};
    Status status = source->config
                        ? rope_spec_read(&spec, source, error)
                        : param_number(source, (Key){NULL, "rope.freq_base_swa"}, &spec.base, error);
    if (status) return status;
    if (strcmp(spec.type, "default") != 0 || !(spec.base > 1 && spec.base < 1e30))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: rope: layers behind a window have a base and no scaling: %s says \"%s\" and a base of %g",
            source->path, !source->config ? "rope.freq_base_swa" : "rope_parameters.sliding_attention",
            spec.type, spec.base);
    if (source->config) rope_spec_take_keys(&spec, source, ROPE_SCALING_NONE, spec.original_context);
    status = model_make_rows(model, 2, rope->n_sets, error);
    if (status) return status;
    for (int row = rope->n_sets; row < 2 * rope->n_sets; row++)
        for (int i = 0; i < n; i++)
            model->inv_freq[row * n + i] = i < own ? pow(spec.base, -(double)i / own) : 0;
    if (own > n)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: rope: layers behind a window have larger heads (head_dim, %d) than others "
                         "(global_head_dim, %d)",
                         source->path, 2 * own, 2 * n);
    rope->other_rotary_dim = own == n ? 0 : 2 * own;
    rope->other_magnitude = 1;
    model->window_base = spec.base;
    return STATUS_OK;
}

// Hunyuan's files call it dynamic and have numbers of other schemes beside it, but it is fixed by alpha alone.
static Status read_alpha(const Model *model, RopeSpec *spec, const ParamSource *source, Error *error) {
    static const char *const BESIDE[] = {"alpha",     "factor", "beta_fast",
                                         "beta_slow", "mscale", "mscale_all_dim"};
    const double dim = model->shape.head_dim;
    if (!source->config || strcmp(spec->type, "dynamic") != 0 || isnan(spec->alpha)) return STATUS_OK;
    if (!(spec->alpha >= 1 && spec->alpha < 1e9) || dim < 4)
        return error_set(error, STATUS_FILE, "%s: rope: alpha is %g", source->path, spec->alpha);
    spec->base *= pow(spec->alpha, dim / (dim - 2));
    snprintf(spec->type, sizeof spec->type, "default");
    for (size_t i = 0; i < sizeof BESIDE / sizeof *BESIDE; i++) {
        unread_take_key(source, "rope_scaling", BESIDE[i]);
        unread_take_key(source, "rope_parameters", BESIDE[i]);
    }
    return STATUS_OK;
}

// ChatGLM2-6B-32K alone has 16, and divides positions by it.
static Status read_ratio(RopeSpec *spec, const ParamSource *source, Error *error) {
    double ratio = 1;
    Status status = param_number(source, (Key){"rope_ratio", NULL}, &ratio, error);
    if (status) return status;
    if (!(ratio >= 1 && ratio < 1e9) || ratio == 16)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: rope_ratio is %g, of which palaver does not know the meaning", source->path,
                         ratio);
    spec->base *= ratio;
    return STATUS_OK;
}

// The one base of those layers that turn. Layers of several have no code.
static Status read_bases(const Model *model, RopeSpec *spec, const ParamSource *source, Error *error) {
    static const char KEY[] = "layer_rope_theta";
    const json_t *list = json_object_get(source->config, KEY);
    double only = 0;
    unread_take_key(source, NULL, KEY);
    if (!list || json_is_null(list)) return STATUS_OK;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *base = json_array_get(list, i);
        const double value = json_number_value(base);
        if (!json_is_number(base))
            return error_set(error, STATUS_FILE, "%s: %s[%zu] is no number", source->path, KEY, i);
        if (only != 0 && value != 0 && value != only)
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: %s has %g and %g; palaver runs layers of one base, and of none (0)",
                             source->path, KEY, only, value);
        if (value != 0) only = value;
    }
    if (json_array_size(list) != (size_t)model->shape.n_layers)
        return error_set(error, STATUS_FILE, "%s: %s should be a list of %d numbers", source->path, KEY,
                         model->shape.n_layers);
    if (only != 0 && source->architecture->periods_from_last &&
        only != spec->base) // which transformers takes
        return error_set(error, STATUS_UNSUPPORTED, "%s: %s has %g, but rope_theta is %g", source->path, KEY,
                         only, spec->base);
    if (only != 0) spec->base = only;
    return STATUS_OK;
}

static Status read_rope(Model *model, RopeSpec *spec, const ParamSource *source, Error *error) {
    const bool is_gguf = !source->config, by_window = source->architecture->rope_rule == ROPE_BY_WINDOW;
    spec->layers = by_window && !is_gguf ? "full_attention" : NULL;
    Status status = rope_spec_read(spec, source, error);
    if (!status && source->architecture->rope_ratio) status = read_ratio(spec, source, error);
    if (!status && source->architecture->rope_rule == ROPE_BY_BASES && source->config)
        status = read_bases(model, spec, source, error);
    if (!status && source->architecture->rope_alpha) status = read_alpha(model, spec, source, error);
    if (!status) status = find_scheme(model, spec, source, error);
    if (!status) status = read_rotary_dim(model, spec, source, error);
    if (!status) status = read_context(model, spec, source, error);
    if (!status) status = check_spec(spec, model, source, error);
    rope_spec_take_keys(spec, source, model->rope_scaling, spec->original_context);
    if (status) return status;

    bool interleaved =
        (is_gguf ? source->architecture->gguf_rope : source->architecture->hf_rope) == ROPE_INTERLEAVED;
    if (!is_gguf && source->architecture->interleave_key)
        status = param_bool(source, (Key){"rope_interleave", NULL}, &interleaved, error);
    if (!status) status = model_scale_latent(model, source, spec, error);
    if (status) return status;
    model->shape.rope.kind = interleaved ? ROPE_INTERLEAVED : ROPE_HALF_SPLIT;
    model->rope_base = spec->base;
    model->rope_factor = model->rope_scaling == ROPE_SCALING_NONE ? 1 : spec->factor;
    status = model_read_temperature(model, spec, source, error);
    if (!status) status = model_make_sets(model, spec, source, error);
    if (spec->divisors.tensor && model->rope_scaling == ROPE_SCALING_NONE)
        model->rope_scaling = ROPE_SCALING_FACTORS;
    const int64_t n = (int64_t)rope_tables(&model->shape.rope) * rope_sets(&model->shape.rope) *
                      (model->shape.rope.rotary_dim / 2);
    for (int64_t i = 0; i < n && !status && source->architecture->turns_back; i++) model->inv_freq[i] *= -1;
    if (!status && source->architecture->seen_both_ways)
        status = model_make_two_dimensional(model, source, error);
    return status || !by_window ? status : add_window_table(model, spec, source, error);
}

Status model_read_positions(Model *model, const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    RopeSpec spec = {.type = "default",
                     .base = a->default_base > 0 ? a->default_base : 10000,
                     .factor = NAN,
                     .rotary_part = a->default_rotary_part > 0 ? a->default_rotary_part : 1,
                     .rotary_dim = a->default_rotary_dim,
                     .beta_fast = 32,
                     .beta_slow = 1,
                     .attention_factor = NAN,
                     .alpha = NAN,
                     .short_mscale = NAN,
                     .long_mscale = NAN,
                     .temperature_beta = NAN,
                     .magnitude = 1,
                     .truncate = source->config || !a->gguf_yarn_whole};
    model->shape.rope.magnitude = 1;
    model->rope_factor = 1;
    if (a->positions == POSITIONS_ROPE) {
        Status status = read_rope(model, &spec, source, error);
        return status ? status : model_check_sections(model, source, error);
    }
    model->shape.alibi = a->positions == POSITIONS_ALIBI;
    model->shape.alibi_scaled = model->shape.alibi && a->scaled_alibi;
    Status status = read_context(model, &spec, source, error);
    if (!status && a->positions == POSITIONS_LEARNED) model->shape.n_positions = (int)model->context_length;
    return status;
}
