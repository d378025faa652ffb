#include "kernels/cpu/sample/sample.h"
#include "kernels/cpu/sample/select.h"
#include "kernels/sample_math.h"

#include <stdbool.h>
#include <stdlib.h>

enum {
    BLOCK = 64, // logits that share a maximum
    HEAD = 256, // tokens that usually hold the nucleus: tried before all of them
};

struct SampleScratch {
    int n_vocab;
    int32_t *keys;         // [n_vocab] sample_key() of the adjusted logits
    int32_t *block_max;    // [n_blocks]
    Candidate *candidates; // [n_vocab], also room for the blocks
};

// One row on its way through the chain. What is left is all of the row that is not −∞ (n < 0), or candidates
// [n].
typedef struct Chain {
    SampleScratch *scratch;
    int n_vocab, n_blocks;
    int32_t max_key;
    int n;
} Chain;

static int blocks_of(int n_vocab) {
    return (n_vocab - 1) / BLOCK + 1;
}

int64_t sample_scratch_bytes(int n_vocab) {
    return (int64_t)sizeof(SampleScratch) + n_vocab * (int64_t)(sizeof(int32_t) + sizeof(Candidate)) +
           blocks_of(n_vocab) * (int64_t)sizeof(int32_t);
}

Status sample_scratch_open(int n_vocab, SampleScratch **scratch, Error *error) {
    *scratch = NULL;
    if (n_vocab < 1 || n_vocab > SAMPLE_MAX_VOCAB)
        return error_set(error, STATUS_UNSUPPORTED,
                         "sample: a vocabulary of %d tokens: 1 to %d can be sampled from", n_vocab,
                         SAMPLE_MAX_VOCAB);
    SampleScratch *s = calloc(1, sizeof *s);
    if (s) {
        s->n_vocab = n_vocab;
        s->keys = malloc((size_t)n_vocab * sizeof *s->keys);
        s->block_max = malloc((size_t)blocks_of(n_vocab) * sizeof *s->block_max);
        s->candidates = malloc((size_t)n_vocab * sizeof *s->candidates);
    }
    if (!s || !s->keys || !s->block_max || !s->candidates) {
        sample_scratch_close(s);
        return error_set(error, STATUS_MEMORY, "sample: no memory for a row of %d logits", n_vocab);
    }
    *scratch = s;
    return STATUS_OK;
}

void sample_scratch_close(SampleScratch *scratch) {
    if (!scratch) return;
    free(scratch->keys);
    free(scratch->block_max);
    free(scratch->candidates);
    free(scratch);
}

// ---- the row --------------------------------------------------------------------------------------------

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

static int block_end(const Chain *chain, int block) {
    return block == chain->n_blocks - 1 ? chain->n_vocab : (block + 1) * BLOCK;
}

// Integer keys, so that the compiler may vectorise maximum and minimum: NaNs are keys beyond the infinities.
static Status load_row(Chain *chain, const float *logits, Error *error) {
    int32_t *keys = chain->scratch->keys;
    for (int b = 0; b < chain->n_blocks; b++) {
        int begin = b * BLOCK, end = block_end(chain, b);
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
    for (int i = block * BLOCK; i < block_end(chain, block); i++) max = keys[i] > max ? keys[i] : max;
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
        int32_t *max = &chain->scratch->block_max[a.id / BLOCK];
        chain->scratch->keys[a.id] = key;
        if (key >= *max)
            *max = key;
        else if (old == *max)
            renew_block_max(chain, a.id / BLOCK);
    }
    return STATUS_OK;
}

// What is not allowed becomes impossible, whatever its logit.
static void forbid(Chain *chain, const uint32_t *allowed) {
    int32_t *keys = chain->scratch->keys;
    for (int b = 0; b < chain->n_blocks; b++) {
        const int end = block_end(chain, b);
        bool changed = false;
        for (int i = b * BLOCK; i < end; i += 32) {
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

// *id becomes what sample_logits() says of a row from which nothing can be drawn.
static Status begin(Chain *chain, const SampleRow *row, const SampleParams *params, int32_t *id,
                    Error *error) {
    SampleScratch *scratch = row->scratch;
    const int n_vocab = row->n_vocab;
    Status status = check(params, n_vocab, scratch, error);
    if (status) return status;
    *chain = (Chain){.scratch = scratch, .n_vocab = n_vocab, .n_blocks = blocks_of(n_vocab), .n = -1};
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

static int32_t greedy(const Chain *chain) {
    int i = 0;
    while (chain->scratch->block_max[i / BLOCK] != chain->max_key) i += BLOCK;
    while (chain->scratch->keys[i] != chain->max_key) i++;
    return i;
}

// ---- what is left --------------------------------------------------------------------------------------

// Candidates become all whose key is at least `least`, which is above −∞.
static void gather(Chain *chain, int32_t least) {
    const int32_t *keys = chain->scratch->keys;
    Candidate *c = chain->scratch->candidates;
    int n = 0;
    for (int b = 0; b < chain->n_blocks; b++) {
        if (chain->scratch->block_max[b] < least) continue;
        for (int i = b * BLOCK; i < block_end(chain, b); i++)
            if (keys[i] >= least) c[n++] = (Candidate){.order = sample_order(keys[i], i), .weight = 1};
    }
    chain->n = n;
}

static void gather_all(Chain *chain) {
    gather(chain, SAMPLE_KEY_MINUS_INFINITY + 1);
}

// Candidates become the k largest of the row. The k-th largest of the blocks' maxima is a lower bound for
// them.
static void gather_top(Chain *chain, int k) {
    int32_t least = SAMPLE_KEY_MINUS_INFINITY + 1;
    if (k <= chain->n_blocks) {
        Candidate *c = chain->scratch->candidates;
        for (int b = 0; b < chain->n_blocks; b++)
            c[b] = (Candidate){.order = sample_order(chain->scratch->block_max[b], b), .weight = 1};
        int32_t kth = sample_order_key(c[select_mass(c, chain->n_blocks, (uint64_t)k) - 1].order);
        if (kth > least) least = kth;
    }
    gather(chain, least);
    if (chain->n > k) chain->n = select_mass(chain->scratch->candidates, chain->n, (uint64_t)k);
}

// ---- weights -------------------------------------------------------------------------------------------

// The largest logit of the candidates.
static float max_logit(const Chain *chain) {
    const Candidate *c = chain->scratch->candidates;
    uint64_t best = 0;
    for (int i = 0; i < chain->n; i++) best = c[i].order > best ? c[i].order : best;
    return sample_logit(sample_order_key(best));
}

// Weights of the candidates, relative to the most probable one; returns their sum.
static uint64_t weigh(Chain *chain, double scale) {
    Candidate *c = chain->scratch->candidates;
    float max = max_logit(chain);
    uint64_t total = 0;
    for (int i = 0; i < chain->n; i++) {
        c[i].weight = sample_weight(sample_distance(max, sample_logit(sample_order_key(c[i].order)), scale));
        total += c[i].weight;
    }
    return total;
}

// The sum of the weights of the whole row. Distances first, so that the compiler may vectorise them.
static uint64_t weigh_row(const Chain *chain, double scale) {
    const int32_t *keys = chain->scratch->keys;
    float max = sample_logit(chain->max_key);
    uint64_t total = 0;
    for (int b = 0; b < chain->n_blocks; b++) {
        uint32_t distances[BLOCK];
        int begin = b * BLOCK, n = block_end(chain, b) - begin;
        for (int i = 0; i < n; i++) distances[i] = sample_distance(max, sample_logit(keys[begin + i]), scale);
        for (int i = 0; i < n; i++) total += sample_weight(distances[i]);
    }
    return total;
}

// How many of what is left, from the most probable on, reach `fraction` of its mass. They become the first
// candidates, the last of them at their end.
static int find_mass(Chain *chain, double scale, double fraction) {
    uint64_t total, mass;
    if (chain->n < 0) {
        total = weigh_row(chain, scale);
        gather_top(chain, HEAD);
        mass = weigh(chain, scale);
        if (mass < sample_target(total, fraction)) {
            gather_all(chain);
            weigh(chain, scale);
        }
    } else {
        total = weigh(chain, scale);
    }
    return select_mass(chain->scratch->candidates, chain->n, sample_target(total, fraction));
}

// ---- the chain -----------------------------------------------------------------------------------------

// −ln p − H, the surprise beyond the expected one, is the distance from the maximum less its mean: ln Z is in
// both.
static void keep_typical(Chain *chain, double fraction) {
    __extension__ typedef unsigned __int128 Wide; // weights of 42 bits times distances of 31, summed
    double scale = sample_scale(1);
    if (chain->n < 0) gather_all(chain);
    Candidate *c = chain->scratch->candidates;
    uint64_t total = weigh(chain, scale);
    float max = max_logit(chain);
    Wide sum = 0;
    for (int i = 0; i < chain->n; i++) {
        c[i].rank = sample_distance(max, sample_logit(sample_order_key(c[i].order)), scale);
        sum += (Wide)c[i].weight * c[i].rank;
    }
    uint32_t mean = (uint32_t)(sum / total); // NOLINT(clang-analyzer-core.DivideZero): the first weighs 2^42
    for (int i = 0; i < chain->n; i++) {
        if (c[i].weight == 0)
            c[i].rank = UINT32_MAX; // nothing is gained by keeping it
        else
            c[i].rank = c[i].rank > mean ? c[i].rank - mean : mean - c[i].rank;
    }
    chain->n = select_mass(c, chain->n, sample_target(total, fraction));
    for (int i = 0; i < chain->n; i++) c[i].rank = 0;
}

// p >= min_p · max p, as logits: max − l <= −ln(min_p).
static void keep_min_p(Chain *chain, double gap) {
    if (chain->n < 0) {
        float least = nextafterf((float)((double)sample_logit(chain->max_key) - gap), -INFINITY);
        int32_t key = sample_key(least); // a little low: the exact comparison follows
        gather(chain, key > SAMPLE_KEY_MINUS_INFINITY ? key : SAMPLE_KEY_MINUS_INFINITY + 1);
    }
    Candidate *c = chain->scratch->candidates;
    double max = (double)max_logit(chain);
    int kept = 0;
    for (int i = 0; i < chain->n; i++)
        if (max - (double)sample_logit(sample_order_key(c[i].order)) <= gap) c[kept++] = c[i];
    chain->n = kept;
}

static void filter(Chain *chain, const SampleParams *params) {
    if (params->top_k > 0 && params->top_k < chain->n_vocab) gather_top(chain, params->top_k);
    if (params->typical_p < 1) keep_typical(chain, params->typical_p);
    if (params->top_p < 1) chain->n = find_mass(chain, sample_scale(1), params->top_p);
    if (params->min_p > 0) keep_min_p(chain, -log((double)params->min_p));
}

Status sample_logits(const float *logits, int n_vocab, SampleScratch *scratch, const SampleParams *params,
                     int32_t *id, Error *error) {
    Chain chain;
    Status status = begin(&chain, &(SampleRow){logits, n_vocab, scratch}, params, id, error);
    if (status) return status;
    if (params->temperature == 0) {
        *id = greedy(&chain);
        return STATUS_OK;
    }
    filter(&chain, params);
    float u = sample_uniform(params->seed, params->conversation, params->position);
    int drawn = find_mass(&chain, sample_scale(params->temperature), u) - 1;
    *id = sample_order_id(scratch->candidates[drawn].order);
    return STATUS_OK;
}

// ---- what could have been drawn ------------------------------------------------------------------------

static int by_order(const void *a, const void *b) {
    uint64_t x = ((const Candidate *)a)->order, y = ((const Candidate *)b)->order;
    return x < y ? 1 : x > y ? -1 : 0;
}

// Leaves the candidates with their weights at the draw, sorted by order; returns the sum of the weights.
static uint64_t weigh_final(Chain *chain, const SampleParams *params) {
    Candidate *c = chain->scratch->candidates;
    if (params->temperature == 0) {
        c[0] = (Candidate){.order = sample_order(chain->max_key, greedy(chain)), .weight = 1};
        chain->n = 1;
        return 1;
    }
    filter(chain, params);
    if (chain->n < 0) gather_all(chain);
    uint64_t total = weigh(chain, sample_scale(params->temperature));
    qsort(c, (size_t)chain->n, sizeof *c, by_order);
    return total;
}

// softmax(logits)[id] of `count` candidates.
static void fill_raw(const float *logits, int n_vocab, SampleCandidate *candidates, int count) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n_vocab; i++) max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < n_vocab; i++) sum += logits[i] == max ? 1 : exp(logits[i] - max);
    for (int i = 0; i < count; i++) {
        double l = logits[candidates[i].id];
        candidates[i].raw = (l == max ? 1 : exp(l - max)) / sum;
    }
}

Status sample_candidates(const SampleRow *row, const SampleParams *params, int n, SampleCandidate *candidates,
                         int *count, Error *error) {
    Chain chain;
    int32_t none;
    *count = 0;
    if (n < 1) return error_set(error, STATUS_USAGE, "sample: %d candidates asked for: must be 1 or more", n);
    Status status = begin(&chain, row, params, &none, error);
    if (status) return status;

    Candidate *c = row->scratch->candidates;
    gather_top(&chain, n);
    qsort(c, (size_t)chain.n, sizeof *c, by_order);
    for (int i = 0; i < chain.n; i++) candidates[i].id = sample_order_id(c[i].order);
    *count = chain.n;
    fill_raw(row->logits, row->n_vocab, candidates, *count);

    chain.n = -1;
    uint64_t total = weigh_final(&chain, params);
    for (int i = 0, k = 0; i < *count; i++) { // both lists are in the same order
        uint64_t order = sample_order(row->scratch->keys[candidates[i].id], candidates[i].id);
        while (k < chain.n && c[k].order > order) k++;
        bool left = k < chain.n && c[k].order == order;
        candidates[i].final = left ? (double)c[k].weight / (double)total : 0;
    }
    return STATUS_OK;
}
