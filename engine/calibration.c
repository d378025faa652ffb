#include "engine/calibration.h"

#include "engine/cache/key_rounding.h"
#include "engine/cache/score_bases.h"

#include <math.h>
#include <stdlib.h>

enum { QUERY_STEP = 4 }; // every so-manieth query has its scores noted

typedef struct Calibration {
    Forward *forward;
    KvCache cache;
    double *keys, *queries; // [n_layers, n_kv_heads, head_dim] sums of squares; NULL: not wanted
    ScoreRange *ranges;     // [n_layers, n_heads]; NULL: not wanted
    float *floats;          // [CALIBRATION_TOKENS, n_heads*head_dim] queries of the step in hand
    float *head_keys;       // [CALIBRATION_TOKENS, head_dim]
    int first;              // token of that step
} Calibration;

// ---- what is noted ----------------------------------------------------------------------------------------------

// The first token is left out: its key is like no other, for attention rests there that wants nothing.
static void note_queries(const Calibration *calibration, int layer, int n_tokens) {
    const DecoderShape *s = &calibration->forward->model->shape;
    const int width = s->n_heads * s->head_dim, group = s->n_heads / s->n_kv_heads;
    for (int t = calibration->first ? 0 : 1; t < n_tokens; t++)
        for (int i = 0; i < width; i++) {
            double x = (double)calibration->floats[(int64_t)t * width + i];
            int head = i / s->head_dim / group;
            calibration->queries[((int64_t)layer * s->n_kv_heads + head) * s->head_dim + i % s->head_dim] +=
                x * x;
        }
}

// Keys of a head in float32, where layout 3 has them: [n_kv_heads, n_slots, head_dim].
static Status read_keys(const Calibration *calibration, int layer, int kv_head, int n_tokens, Error *error) {
    const KvLayer *kv = &calibration->cache.layers[layer];
    Backend *b = calibration->forward->backend;
    return b->ops->read(b, calibration->head_keys, (const float *)kv->k + kv_head * kv->head_stride,
                        (size_t)n_tokens * (size_t)kv->slot_stride * sizeof(float), error);
}

static void note_scores(const Calibration *calibration, int layer, int kv_head, int n_tokens) {
    const DecoderShape *s = &calibration->forward->model->shape;
    const int group = s->n_heads / s->n_kv_heads, dim = s->head_dim,
              window = calibration->forward->model->attention_windows[layer];
    const double scale = (double)s->attention_scale * M_LOG2E;
    double scores[CALIBRATION_TOKENS];
    for (int t = (QUERY_STEP - calibration->first % QUERY_STEP) % QUERY_STEP; t < n_tokens; t += QUERY_STEP)
        for (int h = kv_head * group; h < (kv_head + 1) * group; h++) {
            const float *q = calibration->floats + ((int64_t)t * s->n_heads + h) * dim;
            int last = calibration->first + t, from = window > 0 && last >= window ? last - window + 1
                                                      : window < 0                 ? last - last % -window
                                                                                   : 0;
            for (int i = from; i <= last; i++) {
                const float *key = calibration->head_keys + (int64_t)i * dim;
                float dot = 0;
                for (int d = 0; d < dim; d++) dot += q[d] * key[d];
                scores[i] = (double)dot * scale;
            }
            score_range_note(&calibration->ranges[(int64_t)layer * s->n_heads + h], scores + from,
                             last - from + 1);
        }
}

static Status note_layer(void *context, int layer, const void *q, int n_tokens, Error *error) {
    const Calibration *calibration = context;
    const DecoderShape *s = &calibration->forward->model->shape;
    Backend *b = calibration->forward->backend;
    Status status =
        b->ops->read_floats(b, q, (int64_t)n_tokens * s->n_heads * s->head_dim, calibration->floats, error);
    if (!status && calibration->keys) note_queries(calibration, layer, n_tokens);
    for (int h = 0; calibration->ranges && h < s->n_kv_heads && !status; h++) {
        status = read_keys(calibration, layer, h, calibration->first + n_tokens, error);
        if (!status) note_scores(calibration, layer, h, n_tokens);
    }
    return status;
}

static Status note_keys(const Calibration *calibration, int n_tokens, Error *error) {
    const DecoderShape *s = &calibration->forward->model->shape;
    Status status = STATUS_OK;
    for (int64_t i = 0; i < (int64_t)s->n_layers * s->n_kv_heads && !status; i++) {
        status = read_keys(calibration, (int)(i / s->n_kv_heads), (int)(i % s->n_kv_heads), n_tokens, error);
        for (int64_t j = s->head_dim; j < (int64_t)n_tokens * s->head_dim && !status; j++)
            calibration->keys[i * s->head_dim + j % s->head_dim] +=
                (double)calibration->head_keys[j] * (double)calibration->head_keys[j];
    }
    return status;
}

// ---- the pass ---------------------------------------------------------------------------------------------------

// Evaluates n made-up tokens.
static Status read_tokens(Calibration *calibration, int n, Error *error) {
    Forward *f = calibration->forward;
    const KvCache *cache = &calibration->cache;
    const int32_t vocab = f->model->shape.vocab_size, page = 0;
    int32_t ids[CALIBRATION_TOKENS], places[CALIBRATION_TOKENS], state = 0;
    Status status = STATUS_OK;
    for (int i = 0; i < n; i++) ids[i] = (int32_t)((17 + INT64_C(7919) * i) % vocab), places[i] = i;
    for (int i = 0; i < n && !status; i += f->max_tokens) {
        int part = n - i < f->max_tokens ? n - i : f->max_tokens;
        StepSequence sequence = {.n_tokens = part,
                                 .n_slots = i + part,
                                 .pages = &page,
                                 .state_from = i > 0 ? state : -1,
                                 .state_to = 1 - state};
        state = 1 - state;
        Step step = {.n_tokens = part,
                     .n_sequences = 1,
                     .ids = ids + i,
                     .positions = places + i,
                     .slots = places + i,
                     .sequences = &sequence,
                     .page_size = cache->page_size,
                     .slot_positions = cache->slot_positions};
        calibration->first = i;
        status = forward_step(f, &step, NULL, cache, NULL, error);
    }
    return status;
}

int64_t calibration_bytes(const DecoderShape *shape) {
    const CacheOptions options = cache_options(DTYPE_F32);
    KvLayout layout;
    return kv_cache_layout(&options, shape, CALIBRATION_TOKENS, &layout, NULL) ? 0 : kv_cache_bytes(&layout);
}

static Status calibration_model(Calibration *calibration, Error *error) {
    Forward *f = calibration->forward;
    const DecoderShape *s = &f->model->shape;
    const CacheOptions options = cache_options(DTYPE_F32);
    const int n =
        s->n_positions > 0 && s->n_positions < CALIBRATION_TOKENS ? s->n_positions : CALIBRATION_TOKENS;
    const QueryTap tap = {.take = note_layer, .context = calibration};
    Status status = kv_cache_open(f->backend, &options, s, CALIBRATION_TOKENS, &calibration->cache, error);
    if (status) return status;
    f->tap = &tap;
    status = read_tokens(calibration, n, error);
    f->tap = NULL;
    if (!status && calibration->keys) status = note_keys(calibration, n, error);
    kv_cache_close(&calibration->cache);
    return status;
}

// ---- results ----------------------------------------------------------------------------------------------------

static bool rounds_keys(const DecoderShape *shape, DType cache) {
    return cache == DTYPE_INT4 && !shape->heads_of_layers && key_rounding_suits(shape->head_dim);
}

bool calibration_is_wanted(const DecoderShape *shape, DType cache, const CalibrationWish *wish) {
    return (wish->bases && !shape->heads_of_layers) || rounds_keys(shape, cache);
}

int64_t calibration_result_bytes(const DecoderShape *shape, DType cache, const CalibrationWish *wish) {
    return (rounds_keys(shape, cache) ? key_rounding_bytes(shape) : 0) +
           (wish->bases ? score_bases_bytes(shape) : 0);
}

// Copies a result to memory of the cache's backend.
static Status keep(KvCache *cache, const float *host, int64_t bytes, void **memory, Error *error) {
    Backend *b = cache->backend;
    Status status = b->ops->alloc(b, (size_t)bytes, memory, error);
    return status ? status : b->ops->write(b, *memory, host, (size_t)bytes, error);
}

static Status enter_rounding(const Calibration *calibration, KvCache *cache, Error *error) {
    const DecoderShape *s = &calibration->forward->model->shape;
    const int64_t n_heads = (int64_t)s->n_layers * s->n_kv_heads, dim = s->head_dim,
                  each = key_rounding_floats(s->head_dim) - dim, bytes = key_rounding_bytes(s);
    float *host = calloc(1, (size_t)bytes + 1); // never of no bytes
    if (!host) return error_set(error, STATUS_MEMORY, "no memory to round keys");
    float *feedback = host + n_heads * dim;
    for (int64_t i = 0; i < n_heads; i++)
        key_rounding_of_head(s, calibration->keys + i * dim, calibration->queries + i * dim, host + i * dim,
                             feedback + i * each);
    Status status = keep(cache, host, bytes, &cache->key_rounding, error);
    free(host);
    for (int l = 0; l < s->n_layers && !status; l++) {
        const float *memory = cache->key_rounding;
        cache->layers[l].key_balance = memory + (int64_t)l * s->n_kv_heads * dim;
        cache->layers[l].key_feedback = memory + n_heads * dim + (int64_t)l * s->n_kv_heads * each;
        cache->layers[l].key_pairs = s->rope.kind;
    }
    return status;
}

static Status enter_bases(const Calibration *calibration, KvCache *cache, Error *error) {
    const DecoderShape *s = &calibration->forward->model->shape;
    const int64_t n = (int64_t)s->n_layers * s->n_heads;
    float *host = calloc((size_t)n, sizeof *host);
    if (!host) return error_set(error, STATUS_MEMORY, "no memory for the bases of scores");
    for (int64_t i = 0; i < n; i++) host[i] = score_range_base(&calibration->ranges[i]);
    Status status = keep(cache, host, score_bases_bytes(s), &cache->score_bases, error);
    free(host);
    for (int l = 0; l < s->n_layers && !status; l++) {
        const int64_t first = (int64_t)l * s->n_heads;
        bool safe = true;
        for (int h = 0; h < s->n_heads; h++)
            safe = safe && score_range_is_safe(&calibration->ranges[first + h]);
        if (safe) cache->layers[l].score_bases = (const float *)cache->score_bases + first;
    }
    return status;
}

static void calibration_free(Calibration *calibration) {
    free(calibration->keys);
    free(calibration->ranges);
    free(calibration->floats);
}

static Status calibration_alloc(Calibration *calibration, bool keys, bool bases, Error *error) {
    const DecoderShape *s = &calibration->forward->model->shape;
    const size_t n = (size_t)s->n_layers * (size_t)s->n_kv_heads * (size_t)s->head_dim,
                 n_ranges = (size_t)s->n_layers * (size_t)s->n_heads;
    if (keys) calibration->keys = calloc(2 * n, sizeof *calibration->keys);
    if (calibration->keys) calibration->queries = calibration->keys + n;
    if (bases) calibration->ranges = malloc(n_ranges * sizeof *calibration->ranges);
    for (size_t i = 0; calibration->ranges && i < n_ranges; i++) calibration->ranges[i] = SCORE_RANGE_EMPTY;
    calibration->floats = malloc((size_t)CALIBRATION_TOKENS * (size_t)((s->n_heads + 1) * s->head_dim) *
                                 sizeof *calibration->floats);
    if (calibration->floats)
        calibration->head_keys =
            calibration->floats + (ptrdiff_t)CALIBRATION_TOKENS * s->n_heads * s->head_dim;
    return (keys && !calibration->keys) || (bases && !calibration->ranges) || !calibration->floats
               ? error_set(error, STATUS_MEMORY, "no memory to calibrate the model")
               : STATUS_OK;
}

Status calibration_open(Forward *forward, const CalibrationWish *wish, KvCache *cache, Error *error) {
    const DecoderShape *s = &forward->model->shape;
    const bool keys = rounds_keys(s, cache->layout.type);
    if (!calibration_is_wanted(s, cache->layout.type, wish)) return STATUS_OK;
    Calibration calibration = {.forward = forward};
    Status status = calibration_alloc(&calibration, keys, wish->bases, error);
    if (!status && (wish->bases || !wish->made_up)) status = calibration_model(&calibration, error);
    if (!status && keys) status = enter_rounding(&calibration, cache, error);
    if (!status && wish->bases) status = enter_bases(&calibration, cache, error);
    calibration_free(&calibration);
    return status ? error_prefix(error, "the calibration of keys and scores: ") : STATUS_OK;
}
