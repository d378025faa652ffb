// A row of logits before anything is drawn from it: as keys that order as logits do, with penalties and bans.
#include "kernels/cpu/sample/sample_internal.h"

static Status check(const SampleParams *p, int n_vocab, const SampleScratch *scratch, Error *error) {
    if (n_vocab < 1 || n_vocab > scratch->n_vocab)
        return error_set(error, STATUS_USAGE, "sample: a row of %d logits: 1 to %d fit the scratch", n_vocab,
                         scratch->n_vocab);
    if (!(p->temperature >= 0 && p->temperature < INFINITY))
        return error_set(error, STATUS_USAGE, "sample: temperature %g must be 0 or more", p->temperature);
    if (!(p->top_p >= 0 && p->top_p <= 1) || !(p->typical_p >= 0 && p->typical_p <= 1) ||
        !(p->min_p >= 0 && p->min_p <= 1))
        return error_set(error, STATUS_USAGE, "sample: top_p %g, typical_p %g and min_p %g must be 0 to 1",
                         p->top_p, p->typical_p, p->min_p);
    if (p->top_k < 0 || p->n_adjustments < 0)
        return error_set(error, STATUS_USAGE, "sample: top_k %d and n_adjustments %d must be 0 or more",
                         p->top_k, p->n_adjustments);
    return STATUS_OK;
}

// Integer keys, so that the compiler may vectorise maximum and minimum: NaNs are keys beyond the infinities.
static Status load_row(Chain *chain, const float *logits, Error *error) {
    int32_t *keys = chain->scratch->keys;
    for (int b = 0; b < chain->n_blocks; b++) {
        int begin = b * SAMPLE_BLOCK, end = sample_block_end(chain, b);
        int32_t max = INT32_MIN, min = INT32_MAX;
        for (int i = begin; i < end; i++) {
            int32_t key = sample_key(logits[i]);
            keys[i] = key;
            max = key > max ? key : max;
            min = key < min ? key : min;
        }
        chain->scratch->block_max[b] = max;
        if (max > SAMPLE_KEY_PLUS_INFINITY || min < SAMPLE_KEY_MINUS_INFINITY) {
            int i = begin;
            while (keys[i] <= SAMPLE_KEY_PLUS_INFINITY && keys[i] >= SAMPLE_KEY_MINUS_INFINITY) i++;
            return error_set(
                error, STATUS_DEVICE,
                "sample: the logit of token %d is not a number: the model or its file is damaged", i);
        }
    }
    return STATUS_OK;
}

static void renew_block_max(Chain *chain, int block) {
    const int32_t *keys = chain->scratch->keys;
    int32_t max = INT32_MIN;
    for (int i = block * SAMPLE_BLOCK; i < sample_block_end(chain, block); i++)
        max = keys[i] > max ? keys[i] : max;
    chain->scratch->block_max[block] = max;
}

static Status adjust(Chain *chain, const float *logits, const SampleParams *params, Error *error) {
    for (int i = 0; i < params->n_adjustments; i++) {
        LogitAdjustment a = params->adjustments[i];
        if (a.id < 0 || a.id >= chain->n_vocab)
            return error_set(error, STATUS_USAGE, "sample: an adjustment of token %d in a vocabulary of %d",
                             a.id, chain->n_vocab);
        if (!(a.divide > 0 && a.divide < INFINITY) || isnan(a.subtract))
            return error_set(error, STATUS_USAGE, "sample: token %d is adjusted by / %g - %g", a.id, a.divide,
                             a.subtract);
        float l = logits[a.id];
        float adjusted =
            a.subtract == INFINITY ? -INFINITY : (l > 0 ? l / a.divide : l * a.divide) - a.subtract;
        if (isnan(adjusted))
            return error_set(error, STATUS_USAGE, "sample: token %d with logit %g is adjusted by / %g - %g",
                             a.id, l, a.divide, a.subtract);
        int32_t old = chain->scratch->keys[a.id], key = sample_key(adjusted);
        int32_t *max = &chain->scratch->block_max[a.id / SAMPLE_BLOCK];
        chain->scratch->keys[a.id] = key;
        if (key >= *max)
            *max = key;
        else if (old == *max)
            renew_block_max(chain, a.id / SAMPLE_BLOCK);
    }
    return STATUS_OK;
}

// What is not allowed becomes impossible, whatever its logit.
static void forbid(Chain *chain, const uint32_t *allowed) {
    int32_t *keys = chain->scratch->keys;
    for (int b = 0; b < chain->n_blocks; b++) {
        const int end = sample_block_end(chain, b);
        bool changed = false;
        for (int i = b * SAMPLE_BLOCK; i < end; i += 32) {
            const uint32_t bits = allowed[i / 32];
            if (bits == UINT32_MAX) continue;
            for (int k = i; k < end && k < i + 32; k++)
                if (!(bits >> (k - i) & 1)) keys[k] = SAMPLE_KEY_MINUS_INFINITY;
            changed = true;
        }
        if (changed) renew_block_max(chain, b);
    }
}

// Where logits are +∞, they share all probability: they become equal finite ones, the rest −∞.
static void resolve_infinite(Chain *chain) {
    int32_t *keys = chain->scratch->keys;
    for (int i = 0; i < chain->n_vocab; i++)
        keys[i] = keys[i] == SAMPLE_KEY_PLUS_INFINITY ? sample_key(0) : SAMPLE_KEY_MINUS_INFINITY;
    for (int b = 0; b < chain->n_blocks; b++) renew_block_max(chain, b);
    chain->max_key = sample_key(0);
}

Status sample_row_begin(Chain *chain, const SampleRow *row, const SampleParams *params, int32_t *id,
                        Error *error) {
    SampleScratch *scratch = row->scratch;
    const int n_vocab = row->n_vocab;
    Status status = check(params, n_vocab, scratch, error);
    if (status) return status;
    *chain = (Chain){.scratch = scratch, .n_vocab = n_vocab, .n_blocks = sample_blocks(n_vocab), .n = -1};
    status = load_row(chain, row->logits, error);
    if (status) {
        *id = SAMPLE_NAN;
        return status;
    }
    status = adjust(chain, row->logits, params, error);
    if (status) return status;
    if (params->allowed) forbid(chain, params->allowed);
    chain->max_key = INT32_MIN;
    for (int b = 0; b < chain->n_blocks; b++)
        if (scratch->block_max[b] > chain->max_key) chain->max_key = scratch->block_max[b];
    if (chain->max_key == SAMPLE_KEY_MINUS_INFINITY) {
        *id = SAMPLE_NOTHING;
        return error_set(error, STATUS_DEVICE,
                         "sample: none of %d tokens is left to choose from: all are banned or impossible",
                         n_vocab);
    }
    if (chain->max_key == SAMPLE_KEY_PLUS_INFINITY) resolve_infinite(chain);
    return STATUS_OK;
}
