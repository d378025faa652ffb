// Rotary frequencies: base, part of the head, and scaling schemes. Those that go by the length of the whole text give a
// set of frequencies for each length beyond the trained context (dynamic NTK), or one for all of them (LongRoPE).
#include "engine/model/rope_spec.h"

#include "engine/model/model_internal.h"
#include "engine/model/param.h"
#include "engine/model/unread.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_FREQUENCIES = 1 << 24
}; // of a table's sets of dynamic NTK: 262,144 tokens for heads of 128, 128 MB

static const struct {
    const char *name;
    RopeScaling scaling;
} SCHEMES[] = {
    {"default", ROPE_SCALING_NONE},      {"none", ROPE_SCALING_NONE},
    {"linear", ROPE_SCALING_LINEAR},     {"llama3", ROPE_SCALING_LLAMA3},
    {"yarn", ROPE_SCALING_YARN},         {"dynamic", ROPE_SCALING_DYNAMIC},
    {"longrope", ROPE_SCALING_LONGROPE}, {"proportional", ROPE_SCALING_PROPORTIONAL},
};

// ---- memory ---------------------------------------------------------------------------------------------

// Gives the rope so many tables of so many sets, the only way to change either number: a row that was there comes
// to its new place; one that was not begins as a copy of its table's first, or of the last table's: each is written.
static Status make_rows(Model *model, int n_tables, int n_sets, Error *error) {
    Rope *rope = &model->shape.rope;
    const size_t n = (size_t)rope->rotary_dim / 2;
    double *rows = malloc((size_t)n_tables * (size_t)n_sets * n * sizeof *rows);
    if (!rows) return error_set(error, STATUS_MEMORY, "no memory for rotary frequencies");
    for (int table = 0; table < n_tables; table++) {
        const int from = table < rope_tables(rope) ? table : rope_tables(rope) - 1;
        for (int set = 0; set < n_sets; set++) {
            const int old = rope_row(rope, from, set < rope_sets(rope) ? set : 0);
            double *row = rows + ((size_t)table * (size_t)n_sets + (size_t)set) * n;
            if (model->inv_freq)
                memcpy(row, model->inv_freq + (size_t)old * n, n * sizeof *row);
            else
                for (size_t i = 0; i < n; i++) row[i] = pow(model->rope_base, -(double)i / (double)n);
        }
    }
    free(model->inv_freq);
    rope->inv_freq = model->inv_freq = rows;
    rope->n_tables = n_tables, rope->n_sets = n_sets;
    return STATUS_OK;
}

// ---- schemes -------------------------------------------------------------------------------------------

// A part of the pairs turns, as in a whole head; the others do not.
static void scale_proportional(double *inv_freq, int n, const RopeSpec *spec) {
    const int turning = (int)(spec->rotary_part * (2 * n)) / 2;
    for (int i = 0; i < n; i++)
        inv_freq[i] = i < turning ? inv_freq[i] / (isnan(spec->factor) ? 1 : spec->factor) : 0;
}

static void scale_linear(double *inv_freq, int n, double factor) {
    for (int i = 0; i < n; i++) inv_freq[i] /= factor;
}

// Long waves are stretched by the factor, short ones kept, those between blended.
static void scale_llama3(double *inv_freq, int n, const RopeSpec *spec) {
    double original = (double)spec->original_context;
    for (int i = 0; i < n; i++) {
        double turns = original * inv_freq[i] / (2 * M_PI); // in the original context
        const double ramp = spec->high_freq_factor - spec->low_freq_factor;
        double kept = turns >= spec->high_freq_factor ? 1 : 0; // Llama 4 has no ramp
        if (ramp > 0) kept = fmin(fmax((turns - spec->low_freq_factor) / ramp, 0), 1);
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

// Set `set` of dynamic NTK from the first, for a text of exactly so many tokens beyond the trained context, as
// transformers has it: its base grows with every token.
static void scale_dynamic(Model *model, int set) {
    const int n = model->shape.rope.rotary_dim / 2;
    double trained = (double)model->rope_trained, factor = model->rope_factor;
    double growth = pow(factor * ((trained + set) / trained) - (factor - 1), n / (n - 1.0));
    for (int i = 0; i < n; i++)
        model->inv_freq[(int64_t)set * n + i] =
            model->inv_freq[i] * (i == 0 ? 1 : pow(growth, -(double)i / n));
}

// How far beyond the trained context there may be sets.
static int64_t dynamic_reach(const Model *model) {
    return MOST_FREQUENCIES / (model->shape.rope.rotary_dim / 2) - 1;
}

Status model_reach_context(Model *model, int64_t context, Error *error) {
    Rope *rope = &model->shape.rope;
    if (model->rope_scaling != ROPE_SCALING_DYNAMIC) return STATUS_OK;
    int64_t beyond = context > model->rope_trained ? context - model->rope_trained : 0;
    if (beyond > dynamic_reach(model)) {
        return error_set(error, STATUS_USAGE,
                         "a context of %lld tokens: with dynamic NTK this model goes up to %lld",
                         (long long)context, (long long)(model->rope_trained + dynamic_reach(model)));
    }
    Status status = make_rows(model, rope_tables(rope), (int)beyond + 1, error);
    for (int set = 1; !status && set < rope->n_sets; set++) scale_dynamic(model, set);
    return status;
}

int model_rope_set(const Model *model, int64_t n_tokens) {
    const int last = model->shape.rope.n_sets - 1;
    if (last < 1 || n_tokens <= model->rope_trained) return 0;
    int64_t beyond = n_tokens - model->rope_trained;
    return beyond < last ? (int)beyond : last;
}

bool model_rope_holds(const Model *model, int set, int64_t n_tokens) {
    const int64_t read = model->rope_trained + set,
                  factor = model->rope_factor > 2 ? (int64_t)model->rope_factor : 2;
    if (set == model_rope_set(model, n_tokens)) return true;
    if (model->rope_scaling != ROPE_SCALING_DYNAMIC || set == 0) return false;
    return n_tokens >= read && n_tokens <= read + read / 8 && n_tokens - model->rope_trained <= set * factor;
}

static double longrope_magnitude(const RopeSpec *spec) {
    if (!isnan(spec->short_mscale)) return spec->short_mscale;
    if (!isnan(spec->attention_factor)) return spec->attention_factor;
    return spec->factor <= 1 ? 1 : sqrt(1 + log(spec->factor) / log((double)spec->original_context));
}

// ---- together ------------------------------------------------------------------------------------------

static Status find_scheme(Model *model, const RopeSpec *spec, const ParamSource *source, Error *error) {
    for (size_t i = 0; i < sizeof SCHEMES / sizeof *SCHEMES; i++) {
        if (strcmp(SCHEMES[i].name, spec->type) != 0) continue;
        model->rope_scaling = SCHEMES[i].scaling;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: rope scaling \"%s\"; palaver knows linear, llama3, yarn, dynamic and longrope",
                     source->path, spec->type);
}

// Two magnitudes would have to change in the middle of a text. NULL: they are one.
static const char *check_mscales(const RopeSpec *spec) {
    if (!(spec->short_mscale > 0 && spec->short_mscale < 1e9))
        return "short_mscale and long_mscale must be positive";
    if (spec->short_mscale != spec->long_mscale)
        return "short_mscale and long_mscale differ, which palaver cannot run";
    return isnan(spec->attention_factor) ? NULL : "an attention_factor beside short_mscale and long_mscale";
}

// Every number the formulas will meet: positive, finite, in an order that leaves no division by zero.
static Status check_spec(RopeSpec *spec, const Model *model, const ParamSource *source, Error *error) {
    const char *wrong = NULL;
    if (!(spec->base > 1 && spec->base < 1e30)) wrong = "the base must be larger than 1";
    const bool wants_factor = model->rope_scaling != ROPE_SCALING_NONE &&
                              (model->rope_scaling != ROPE_SCALING_PROPORTIONAL || !isnan(spec->factor));
    if (wants_factor && !(spec->factor > 0 && spec->factor < 1e9)) {
        wrong = "the factor is missing or not positive";
    }
    if (model->rope_scaling == ROPE_SCALING_LLAMA3 &&
        !(spec->low_freq_factor > 0 && spec->low_freq_factor <= spec->high_freq_factor &&
          spec->high_freq_factor < 1e9)) {
        wrong = "low_freq_factor and high_freq_factor are missing or out of order";
    }
    if (model->rope_scaling == ROPE_SCALING_YARN &&
        !(spec->beta_slow > 0 && spec->beta_slow <= spec->beta_fast && spec->beta_fast < 1e9)) {
        wrong = "beta_slow and beta_fast must be positive and in this order";
    }
    if (model->rope_scaling == ROPE_SCALING_LONGROPE && spec->original_context < 2)
        wrong = "the original context is missing or no length";
    if (model->rope_scaling == ROPE_SCALING_LONGROPE && source->config &&
        source->architecture->longrope_mscale)
        wrong = wrong ? wrong : check_mscales(spec);
    if (!(spec->magnitude > 0 && spec->magnitude < 1e9)) wrong = "the attention factor must be positive";
    if (!isnan(spec->attention_factor) && !(spec->attention_factor > 0 && spec->attention_factor < 1e9)) {
        wrong = "the attention factor must be positive";
    }
    if (spec->original_context < 0 || spec->original_context > INT32_MAX)
        wrong = "the original context is no length";
    if (!wrong) return STATUS_OK;
    return error_set(error, STATUS_FILE, "%s: rope: %s", source->path, wrong);
}

static Status read_rotary_dim(Model *model, const RopeSpec *spec, const ParamSource *source, Error *error) {
    const bool latent = model->shape.latent.rank > 0; // whose rotary part has keys of its own
    const bool whole = model->rope_scaling == ROPE_SCALING_PROPORTIONAL;
    const int head_dim = latent                       ? model->shape.rope.rotary_dim
                         : model->global_head_dim > 0 ? model->global_head_dim
                                                      : model->shape.head_dim;
    bool part_ok = spec->rotary_part > 0 && spec->rotary_part <= 1;
    int64_t dim = spec->rotary_dim != 0 ? spec->rotary_dim
                  : part_ok             ? (int64_t)(whole ? head_dim : head_dim * spec->rotary_part)
                                        : 0;
    if (dim < 2 || dim > head_dim || dim % 2 != 0 || (latent && dim != head_dim)) {
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
    if (status) return status;
    if (context < 1 || context > INT32_MAX) {
        return error_set(error, STATUS_FILE, "%s: a context of %lld tokens", source->path,
                         (long long)context);
    }
    if (model->rope_scaling == ROPE_SCALING_LONGROPE) {
        if (isnan(spec->factor) && spec->original_context > 0)
            spec->factor = (double)context / (double)spec->original_context;
    } else if (model->rope_scaling == ROPE_SCALING_DYNAMIC) {
        spec->original_context = context; // whatever else is said: it is where growth begins
        double scaled = fmin((double)context * spec->factor, (double)(context + dynamic_reach(model)));
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

// The frequencies of one set, from those without scaling.
static Status scale_set(Model *model, const RopeSpec *spec, const ParamSource *source, int set,
                        Error *error) {
    Rope *rope = &model->shape.rope;
    const int n = rope->rotary_dim / 2;
    double *inv_freq = model->inv_freq + set * n;
    switch (model->rope_scaling) {
    case ROPE_SCALING_LINEAR:
        scale_linear(inv_freq, n, spec->factor);
        break;
    case ROPE_SCALING_PROPORTIONAL:
        scale_proportional(inv_freq, n, spec);
        break;
    case ROPE_SCALING_LLAMA3:
        scale_llama3(inv_freq, n, spec);
        break;
    case ROPE_SCALING_YARN:
        scale_yarn(inv_freq, n, spec, &rope->magnitude);
        break;
    case ROPE_SCALING_LONGROPE:
        return rope_spec_divide(set == 0 ? &spec->short_factors : &spec->long_factors, source, inv_freq, n,
                                error);
    case ROPE_SCALING_NONE:
    case ROPE_SCALING_FACTORS:
    case ROPE_SCALING_DYNAMIC: // the first set; model_reach_context() makes the others
        break;
    }
    return STATUS_OK;
}

static Status make_sets(Model *model, const RopeSpec *spec, const ParamSource *source, Error *error) {
    Rope *rope = &model->shape.rope;
    const int n = rope->rotary_dim / 2;
    rope->magnitude = spec->magnitude;
    model->rope_trained = spec->original_context;
    if (model->rope_scaling == ROPE_SCALING_LONGROPE) rope->magnitude = longrope_magnitude(spec);
    Status status = make_rows(model, 1, model->rope_scaling == ROPE_SCALING_LONGROPE ? 2 : 1, error);
    for (int set = 0; !status && set < rope->n_sets; set++) {
        status = scale_set(model, spec, source, set, error);
        if (!status && spec->divisors.tensor)
            status = rope_spec_divide(&spec->divisors, source, model->inv_freq + set * n, n, error);
    }
    return status;
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
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: rope: layers behind a window have a base and no scaling", source->path);
    if (source->config) rope_spec_take_keys(&spec, source, ROPE_SCALING_NONE, spec.original_context);
    status = make_rows(model, 2, rope->n_sets, error);
    if (status) return status;
    for (int row = rope->n_sets; row < 2 * rope->n_sets; row++)
        for (int i = 0; i < n; i++)
            model->inv_freq[row * n + i] = i < own ? pow(spec.base, -(double)i / own) : 0;
    if (own > n)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: rope: layers behind a window have larger heads than others", source->path);
    rope->other_rotary_dim = own == n ? 0 : 2 * own;
    rope->other_magnitude = 1;
    model->window_base = spec.base;
    return STATUS_OK;
}

// A switch that older files have as a number.
static Status read_tuning(const ParamSource *source, bool *tuned, Error *error) {
    const json_t *value = source->config ? json_object_get(source->config, "attn_temperature_tuning") : NULL;
    *tuned = true;
    if (!json_is_integer(value))
        return param_bool(source, (Key){"attn_temperature_tuning", NULL}, tuned, error);
    unread_take_key(source, NULL, "attn_temperature_tuning");
    *tuned = json_integer_value(value) != 0;
    return STATUS_OK;
}

// Of layers that turn nothing: 1 + attn_scale·ln(1 + floor((position + 1) / floor_scale)).
static Status read_unturned_temperature(Model *model, const ParamSource *source, Error *error) {
    bool tuned;
    double scale = 0.1;
    int64_t length = 8192;
    Status status = read_tuning(source, &tuned, error);
    if (!status) status = param_number(source, (Key){"attn_scale", NULL}, &scale, error);
    if (!status) status = param_integer(source, (Key){"floor_scale", NULL}, &length, error);
    if (status || !tuned || scale == 0) return status;
    if (!(scale > 0 && scale < 1e3) || length < 1 || length > INT32_MAX)
        return error_set(error, STATUS_FILE, "%s: attn_scale is %g, floor_scale %lld", source->path, scale,
                         (long long)length);
    model->shape.temperature_beta = (float)scale;
    model->shape.temperature_length = (int)length;
    model->shape.temperature_ahead = 1;
    model->shape.temperature_unturned = true;
    return STATUS_OK;
}

// It grows with the trained contexts that a position is away from the beginning.
static Status read_temperature(Model *model, const RopeSpec *spec, const ParamSource *source, Error *error) {
    double beta = spec->temperature_beta;
    if (source->architecture->temperature_unturned) return read_unturned_temperature(model, source, error);
    if (!source->architecture->temperature) return STATUS_OK;
    if (isnan(beta))
        return error_set(error, STATUS_FILE, "%s: llama_4_scaling_beta is missing in rope_parameters",
                         source->path);
    if (beta == 0) return STATUS_OK;
    if (!(beta > 0 && beta < 1e3) || spec->original_context < 1)
        return error_set(error, STATUS_FILE, "%s: llama_4_scaling_beta is %g, of a trained context of %lld",
                         source->path, beta, (long long)spec->original_context);
    model->shape.temperature_beta = (float)beta;
    model->shape.temperature_length = (int)spec->original_context;
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

static Status read_rope(Model *model, RopeSpec *spec, const ParamSource *source, Error *error) {
    const bool is_gguf = !source->config, by_window = source->architecture->rope_rule == ROPE_BY_WINDOW;
    spec->layers = by_window && !is_gguf ? "full_attention" : NULL;
    Status status = rope_spec_read(spec, source, error);
    if (!status && source->architecture->rope_ratio) status = read_ratio(spec, source, error);
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
    status = read_temperature(model, spec, source, error);
    if (!status) status = make_sets(model, spec, source, error);
    if (spec->divisors.tensor && model->rope_scaling == ROPE_SCALING_NONE)
        model->rope_scaling = ROPE_SCALING_FACTORS;
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
    if (a->positions == POSITIONS_ROPE) return read_rope(model, &spec, source, error);
    model->shape.alibi = a->positions == POSITIONS_ALIBI;
    model->shape.alibi_scaled = model->shape.alibi && a->scaled_alibi;
    Status status = read_context(model, &spec, source, error);
    if (!status && a->positions == POSITIONS_LEARNED) model->shape.n_positions = (int)model->context_length;
    return status;
}
