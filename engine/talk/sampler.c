#include "engine/talk/sampler.h"
#include "kernels/ops.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct Sampler {
    int vocab_size;
    SamplerSettings settings;
    uint64_t seed, conversation;
    uint8_t *marks; // [vocab_size] of SamplerMark
    int32_t *ends;  // [vocab_size] the first n_ends: tokens marked SAMPLER_END
    int n_ends;
    int32_t *slots;               // [vocab_size] 1 + the token's place among the adjustments; 0: none
    LogitAdjustment *adjustments; // [vocab_size]
    int32_t *counts;              // [vocab_size] of the tokens with an adjustment, in the same places
    int32_t *lengths;             // [vocab_size] likewise: their longest repetition
    int n_adjustments;
};

SamplerSettings sampler_default_settings(void) {
    return (SamplerSettings){
        .temperature = 0.8f,
        .top_p = 0.95f,
        .top_k = 40,
        .min_p = 0.05f,
        .typical_p = 1,
        .repeat_penalty = 1,
        .repeat_last = 64,
        .dry_base = 1.75f,
        .dry_allowed = 2,
    };
}

Status sampler_open(int vocab_size, Sampler **sampler, Error *error) {
    *sampler = NULL;
    if (vocab_size < 1)
        return error_set(error, STATUS_USAGE, "sampler: a vocabulary of %d tokens", vocab_size);
    Sampler *s = calloc(1, sizeof *s);
    if (s) {
        size_t n = (size_t)vocab_size;
        s->vocab_size = vocab_size;
        s->settings = sampler_default_settings();
        s->marks = calloc(n, sizeof *s->marks);
        s->ends = calloc(n, sizeof *s->ends);
        s->slots = calloc(n, sizeof *s->slots);
        s->adjustments = calloc(n, sizeof *s->adjustments);
        s->counts = calloc(n, sizeof *s->counts);
        s->lengths = calloc(n, sizeof *s->lengths);
    }
    if (!s || !s->marks || !s->ends || !s->slots || !s->adjustments || !s->counts || !s->lengths) {
        sampler_close(s);
        return error_set(error, STATUS_MEMORY, "sampler: no memory for a vocabulary of %d tokens",
                         vocab_size);
    }
    *sampler = s;
    return STATUS_OK;
}

void sampler_close(Sampler *sampler) {
    if (!sampler) return;
    free(sampler->marks);
    free(sampler->ends);
    free(sampler->slots);
    free(sampler->adjustments);
    free(sampler->counts);
    free(sampler->lengths);
    free(sampler);
}

static bool in_vocabulary(const Sampler *sampler, int32_t id) {
    return id >= 0 && id < sampler->vocab_size;
}

void sampler_mark(Sampler *sampler, int32_t id, SamplerMark mark) {
    if (!in_vocabulary(sampler, id)) return;
    if (mark == SAMPLER_END && !(sampler->marks[id] & SAMPLER_END)) sampler->ends[sampler->n_ends++] = id;
    sampler->marks[id] |= (uint8_t)mark;
}

const int32_t *sampler_ends(const Sampler *sampler, int *n) {
    *n = sampler->n_ends;
    return sampler->ends;
}

static Status check_range(const char *name, float value, float min, float max, Error *error) {
    if (value >= min && value <= max) return STATUS_OK;
    return error_set(error, STATUS_USAGE, "sampling.%s: %g is not in %g to %g", name, value, min, max);
}

static Status check_biases(const Sampler *sampler, const SamplerSettings *settings, Error *error) {
    for (int i = 0; i < settings->n_logit_bias; i++) {
        SamplerBias b = settings->logit_bias[i];
        if (!in_vocabulary(sampler, b.id))
            return error_set(error, STATUS_USAGE,
                             "sampling.logit_bias: the model has no token %d, they are 0 to %d", b.id,
                             sampler->vocab_size - 1);
        if (!(fabsf(b.bias) <= 1e6f) && b.bias != -INFINITY)
            return error_set(error, STATUS_USAGE,
                             "sampling.logit_bias: %g for token %d is not in -1e6 to 1e6", b.bias, b.id);
    }
    return STATUS_OK;
}

Status sampler_configure(Sampler *sampler, const SamplerSettings *settings, uint64_t seed,
                         uint64_t conversation, Error *error) {
    const SamplerSettings *s = settings;
    const struct {
        const char *name;
        float value, min, max;
    } ranges[] = {
        {"temperature", s->temperature, 0, FLT_MAX},
        {"top_p", s->top_p, 0, 1},
        {"top_k", (float)s->top_k, 0, (float)INT32_MAX},
        {"min_p", s->min_p, 0, 1},
        {"typical_p", s->typical_p, 0, 1},
        {"repeat_penalty", s->repeat_penalty, 1e-3f, 1e3f},
        {"repeat_last", (float)s->repeat_last, -1, FLT_MAX},
        {"frequency_penalty", s->frequency_penalty, -1e3f, 1e3f},
        {"presence_penalty", s->presence_penalty, -1e3f, 1e3f},
        {"dry_multiplier", s->dry_multiplier, 0, 1e3f},
        {"dry_base", s->dry_base, 1, 1e3f},
        {"dry_allowed", (float)s->dry_allowed, 1, SAMPLER_LONGEST_REPETITION},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        Status status = check_range(ranges[i].name, ranges[i].value, ranges[i].min, ranges[i].max, error);
        if (status) return status;
    }
    Status status = check_biases(sampler, s, error);
    if (status) return status;
    sampler->settings = *s;
    sampler->seed = seed;
    sampler->conversation = conversation;
    return STATUS_OK;
}

// ---- adjustments ----------------------------------------------------------------------------------------

static void drop_adjustments(Sampler *sampler) {
    for (int i = 0; i < sampler->n_adjustments; i++) sampler->slots[sampler->adjustments[i].id] = 0;
    sampler->n_adjustments = 0;
}

// The place of a token's adjustment, which is added if there is none.
static int adjustment_of(Sampler *sampler, int32_t id) {
    if (!sampler->slots[id]) {
        int i = sampler->n_adjustments++;
        sampler->adjustments[i] = (LogitAdjustment){.id = id, .divide = 1, .subtract = 0};
        sampler->counts[i] = sampler->lengths[i] = 0;
        sampler->slots[id] = i + 1;
    }
    return sampler->slots[id] - 1;
}

static void add_penalties(Sampler *sampler, const int32_t *history, int64_t n) {
    const SamplerSettings *s = &sampler->settings;
    if (s->repeat_penalty == 1 && s->frequency_penalty == 0 && s->presence_penalty == 0) return;
    int64_t begin = s->repeat_last < 0 || s->repeat_last > n ? 0 : n - s->repeat_last;
    for (int64_t i = begin; i < n; i++)
        if (in_vocabulary(sampler, history[i])) sampler->counts[adjustment_of(sampler, history[i])]++;
    for (int i = 0; i < sampler->n_adjustments; i++) {
        LogitAdjustment *a = &sampler->adjustments[i];
        a->divide = s->repeat_penalty;
        a->subtract += (float)sampler->counts[i] * s->frequency_penalty + s->presence_penalty;
    }
}

// ---- DRY -----------------------------------------------------------------------------------------------
// If a token would prolong a repetition of `length` tokens that the history ends with, and length is at least
// dry_allowed, it loses dry_multiplier · dry_base^(length − dry_allowed). From p-e-w,
// github.com/oobabooga/text-generation-webui/pull/5677.

// matches[k]: how many tokens pattern[-k], pattern[-k-1], … have in common with pattern[0], pattern[-1], …
// (the Z function of the reversed pattern [n], n <= SAMPLER_LONGEST_REPETITION; matches[0] is n).
static void match_pattern(const int32_t *last, int n, int *matches) {
    matches[0] = n;
    for (int k = 1, left = 0, right = 0; k < n; k++) {
        int m = k < right ? (matches[k - left] < right - k ? matches[k - left] : right - k) : 0;
        while (k + m < n && last[-m] == last[-k - m]) m++;
        if (k + m > right) left = k, right = k + m;
        matches[k] = m;
    }
}

// The tokens at the end of the history that a repetition may reach back to: up to a breaker.
static int pattern_length(const Sampler *sampler, const int32_t *history, int64_t n) {
    int length = 0;
    while (length < SAMPLER_LONGEST_REPETITION && length < n) {
        int32_t id = history[n - 1 - length];
        if (!in_vocabulary(sampler, id) || sampler->marks[id] & SAMPLER_BREAKER) break;
        length++;
    }
    return length;
}

// For each place of the history: how much of what precedes it is what precedes the next token. One pass
// backwards, as the Z algorithm goes, so that no history takes more than O(n).
static void add_dry(Sampler *sampler, const int32_t *history, int64_t n) {
    const SamplerSettings *s = &sampler->settings;
    if (s->dry_multiplier == 0) return;
    int pattern = pattern_length(sampler, history, n);
    if (pattern < s->dry_allowed) return;
    int matches[SAMPLER_LONGEST_REPETITION];
    const int32_t *last = &history[n - 1];
    match_pattern(last, pattern, matches);
    int64_t left = 0, right = 0; // the match that reaches furthest back: last[-left … -(right - 1)]
    for (int64_t k = 1; k < n; k++) {
        int m = 0;
        if (k < right) m = matches[k - left] < right - k ? matches[k - left] : (int)(right - k);
        if (k + m >= right)
            while (m < pattern && k + m < n && last[-m] == last[-k - m]) m++;
        if (k + m > right) left = k, right = k + m;
        int32_t next = last[-k + 1];
        if (m < s->dry_allowed || !in_vocabulary(sampler, next) || sampler->marks[next] & SAMPLER_BREAKER)
            continue;
        int i = adjustment_of(sampler, next);
        if (m > sampler->lengths[i]) sampler->lengths[i] = m;
    }
    for (int i = 0; i < sampler->n_adjustments; i++) {
        if (!sampler->lengths[i]) continue;
        double dry = s->dry_multiplier * pow(s->dry_base, sampler->lengths[i] - s->dry_allowed);
        sampler->adjustments[i].subtract += dry < FLT_MAX ? (float)dry : FLT_MAX;
    }
}

void sampler_params(Sampler *sampler, const int32_t *history, int64_t n, uint64_t position,
                    SampleParams *params) {
    const SamplerSettings *s = &sampler->settings;
    drop_adjustments(sampler);
    add_penalties(sampler, history, n);
    add_dry(sampler, history, n);
    for (int i = 0; i < s->n_logit_bias; i++)
        sampler->adjustments[adjustment_of(sampler, s->logit_bias[i].id)].subtract -= s->logit_bias[i].bias;
    if (s->ignore_eos)
        for (int i = 0; i < sampler->n_ends; i++)
            sampler->adjustments[adjustment_of(sampler, sampler->ends[i])].subtract = INFINITY;
    *params = (SampleParams){
        .temperature = s->temperature,
        .top_p = s->top_p,
        .min_p = s->min_p,
        .typical_p = s->typical_p,
        .top_k = s->top_k,
        .seed = sampler->seed,
        .conversation = sampler->conversation,
        .position = position,
        .n_adjustments = sampler->n_adjustments,
        .adjustments = sampler->adjustments,
    };
}
