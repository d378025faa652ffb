// Rotary frequencies from what rope_spec.h holds. Schemes that go by the length of the whole text give a set of
// frequencies for each length beyond the trained context (dynamic NTK), or one for all of them (LongRoPE).
#include "engine/model/config/rope_spec.h"

#include "engine/model/model_internal.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_FREQUENCIES = 1 << 24
}; // of a table's sets of dynamic NTK: 262,144 tokens for heads of 128, 128 MB

// ---- memory ---------------------------------------------------------------------------------------------

Status model_make_rows(Model *model, int n_tables, int n_sets, Error *error) {
    Rope *rope = &model->shape.rope;
    const size_t n = (size_t)rope->rotary_dim / 2;
    double *rows = calloc((size_t)n_tables * (size_t)n_sets * n, sizeof *rows);
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

// The makers' code rounds them, in whatever type it computes.
Status model_make_two_dimensional(Model *model, const ParamSource *source, Error *error) {
    Rope *rope = &model->shape.rope;
    const int n = rope->rotary_dim / 4;
    if (rope->rotary_dim % 4 || rope->rotary_dim != model->shape.head_dim ||
        model->rope_scaling != ROPE_SCALING_NONE)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: positions of two dimensions turn %d of a head's %d elements (%s, %s), or are scaled: "
            "palaver turns whole heads of fours",
            source->path, rope->rotary_dim, model->shape.head_dim, model_size_key(source, "hidden_size"),
            model_size_key(source, "num_attention_heads"));
    for (int i = 0; i < n; i++) {
        const uint16_t half = quant_to_half((float)pow(model->rope_base, -(double)i / n));
        float rounded;
        quant_load(DTYPE_F16, &half, 0, 1, &rounded);
        model->inv_freq[i] = model->inv_freq[n + i] = (double)rounded;
    }
    rope->two_dimensional = true;
    return STATUS_OK;
}

int64_t model_dynamic_reach(const Model *model) {
    return MOST_FREQUENCIES / (model->shape.rope.rotary_dim / 2) - 1;
}

Status model_reach_context(Model *model, int64_t context, Error *error) {
    Rope *rope = &model->shape.rope;
    if (model->rope_scaling != ROPE_SCALING_DYNAMIC) return STATUS_OK;
    int64_t beyond = context > model->rope_trained ? context - model->rope_trained : 0;
    if (beyond > model_dynamic_reach(model)) {
        return error_set(error, STATUS_USAGE,
                         "a context of %lld tokens: with dynamic NTK this model goes up to %lld",
                         (long long)context, (long long)(model->rope_trained + model_dynamic_reach(model)));
    }
    Status status = model_make_rows(model, rope_tables(rope), (int)beyond + 1, error);
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

// ---- sets ------------------------------------------------------------------------------------------------

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

Status model_make_sets(Model *model, const RopeSpec *spec, const ParamSource *source, Error *error) {
    Rope *rope = &model->shape.rope;
    const int n = rope->rotary_dim / 2;
    rope->magnitude = spec->magnitude;
    model->rope_trained = spec->original_context;
    if (model->rope_scaling == ROPE_SCALING_LONGROPE) rope->magnitude = longrope_magnitude(spec);
    Status status = model_make_rows(model, 1, model->rope_scaling == ROPE_SCALING_LONGROPE ? 2 : 1, error);
    for (int set = 0; !status && set < rope->n_sets; set++) {
        status = scale_set(model, spec, source, set, error);
        if (!status && spec->divisors.tensor)
            status = rope_spec_divide(&spec->divisors, source, model->inv_freq + set * n, n, error);
    }
    return status;
}
