#include "kernels/cpu/sample/sample_internal.h"

#include <stdbool.h>
#include <stdlib.h>

enum { HEAD = 256 }; // tokens that usually hold the nucleus: tried before all of them

int64_t sample_scratch_bytes(int n_vocab) {
    return (int64_t)sizeof(SampleScratch) + n_vocab * (int64_t)(sizeof(int32_t) + sizeof(Candidate)) +
           sample_blocks(n_vocab) * (int64_t)sizeof(int32_t);
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
        s->block_max = malloc((size_t)sample_blocks(n_vocab) * sizeof *s->block_max);
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

static int32_t greedy(const Chain *chain) {
    int i = 0;
    while (chain->scratch->block_max[i / SAMPLE_BLOCK] != chain->max_key) i += SAMPLE_BLOCK;
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
        for (int i = b * SAMPLE_BLOCK; i < sample_block_end(chain, b); i++)
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
        uint32_t distances[SAMPLE_BLOCK];
        int begin = b * SAMPLE_BLOCK, n = sample_block_end(chain, b) - begin;
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
    Status status = sample_row_begin(&chain, &(SampleRow){logits, n_vocab, scratch}, params, id, error);
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
    Status status = sample_row_begin(&chain, row, params, &none, error);
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
