#include "engine/key_study.h"

#include "engine/cache/key_rounding.h"

#include <stdlib.h>

typedef struct Study {
    Forward *forward;
    double *keys, *queries; // [n_layers, n_kv_heads, head_dim] sums of squares
    float *floats;          // [KEY_STUDY_TOKENS, n_heads*head_dim]
    int first;              // token of the step in hand
} Study;

// The first token is left out: its key is like no other, for attention rests there that wants nothing.
static Status note_queries(void *context, int layer, const void *q, int n_tokens, Error *error) {
    const Study *study = context;
    const DecoderShape *s = &study->forward->model->shape;
    const int width = s->n_heads * s->head_dim, group = s->n_heads / s->n_kv_heads;
    Backend *b = study->forward->backend;
    Status status = b->ops->read_floats(b, q, (int64_t)n_tokens * width, study->floats, error);
    for (int t = study->first ? 0 : 1; t < n_tokens && !status; t++)
        for (int i = 0; i < width; i++) {
            double x = (double)study->floats[(int64_t)t * width + i];
            int head = i / s->head_dim / group;
            study->queries[((int64_t)layer * s->n_kv_heads + head) * s->head_dim + i % s->head_dim] += x * x;
        }
    return status;
}

// Of keys in float32, where layout 3 has them: [n_kv_heads, n_slots, head_dim].
static Status note_keys(const Study *study, const KvCache *cache, int n_tokens, Error *error) {
    const DecoderShape *s = &study->forward->model->shape;
    Backend *b = cache->backend;
    Status status = STATUS_OK;
    for (int64_t i = 0; i < (int64_t)s->n_layers * s->n_kv_heads && !status; i++) {
        const KvLayer *kv = &cache->layers[i / s->n_kv_heads];
        status = b->ops->read(b, study->floats, (const float *)kv->k + i % s->n_kv_heads * kv->head_stride,
                              (size_t)n_tokens * (size_t)s->head_dim * sizeof(float), error);
        for (int64_t j = s->head_dim; j < (int64_t)n_tokens * s->head_dim && !status; j++)
            study->keys[i * s->head_dim + j % s->head_dim] +=
                (double)study->floats[j] * (double)study->floats[j];
    }
    return status;
}

// Evaluates n made-up tokens.
static Status read_tokens(Study *study, const KvCache *cache, int n, Error *error) {
    Forward *f = study->forward;
    const int32_t vocab = f->model->shape.vocab_size, page = 0;
    int32_t ids[KEY_STUDY_TOKENS], places[KEY_STUDY_TOKENS];
    Status status = STATUS_OK;
    for (int i = 0; i < n; i++) ids[i] = (int32_t)((17 + INT64_C(7919) * i) % vocab), places[i] = i;
    for (int i = 0; i < n && !status; i += f->max_tokens) {
        int part = n - i < f->max_tokens ? n - i : f->max_tokens;
        StepSequence sequence = {.n_tokens = part, .n_slots = i + part, .pages = &page};
        Step step = {.n_tokens = part,
                     .n_sequences = 1,
                     .ids = ids + i,
                     .positions = places + i,
                     .slots = places + i,
                     .sequences = &sequence,
                     .page_size = cache->page_size,
                     .slot_positions = cache->slot_positions};
        study->first = i;
        status = forward_step(f, &step, cache, NULL, error);
    }
    return status;
}

int64_t key_study_bytes(const DecoderShape *shape) {
    const CacheOptions options = cache_options(DTYPE_F32);
    KvLayout layout;
    return kv_cache_layout(&options, shape, KEY_STUDY_TOKENS, &layout, NULL) ? 0 : kv_cache_bytes(&layout);
}

static Status study_model(Study *study, Error *error) {
    Forward *f = study->forward;
    const DecoderShape *s = &f->model->shape;
    const CacheOptions options = cache_options(DTYPE_F32);
    const int n = s->n_positions > 0 && s->n_positions < KEY_STUDY_TOKENS ? s->n_positions : KEY_STUDY_TOKENS;
    const QueryTap tap = {note_queries, study};
    KvCache cache;
    Status status = kv_cache_open(f->backend, &options, s, KEY_STUDY_TOKENS, &cache, error);
    if (status) return status;
    f->tap = &tap;
    status = read_tokens(study, &cache, n, error);
    f->tap = NULL;
    if (!status) status = note_keys(study, &cache, n, error);
    kv_cache_close(&cache);
    return status;
}

// ---- all layers ---------------------------------------------------------------------------------------------------

static Status enter(const Study *study, KvCache *cache, Error *error) {
    const DecoderShape *s = &study->forward->model->shape;
    const int64_t n_heads = (int64_t)s->n_layers * s->n_kv_heads, dim = s->head_dim,
                  each = key_rounding_floats(s->head_dim) - dim;
    const size_t bytes = (size_t)key_rounding_bytes(s);
    float *host = calloc(1, bytes + 1); // never of no bytes
    if (!host) return error_set(error, STATUS_MEMORY, "no memory to round keys");
    float *feedback = host + n_heads * dim;
    for (int64_t i = 0; i < n_heads; i++)
        key_rounding_of_head(s, study->keys + i * dim, study->queries + i * dim, host + i * dim,
                             feedback + i * each);
    Status status = cache->backend->ops->alloc(cache->backend, bytes, &cache->key_rounding, error);
    if (!status) status = cache->backend->ops->write(cache->backend, cache->key_rounding, host, bytes, error);
    free(host);
    for (int l = 0; l < s->n_layers && !status; l++) {
        const float *memory = cache->key_rounding;
        cache->layers[l].key_balance = memory + (int64_t)l * s->n_kv_heads * dim;
        cache->layers[l].key_feedback = memory + n_heads * dim + (int64_t)l * s->n_kv_heads * each;
        cache->layers[l].key_pairs = s->rope.kind;
    }
    return status;
}

Status key_study_open(Forward *forward, bool made_up, KvCache *cache, Error *error) {
    const DecoderShape *s = &forward->model->shape;
    if (cache->layout.type != DTYPE_INT4 || !key_rounding_suits(s->head_dim)) return STATUS_OK;
    const size_t n = (size_t)s->n_layers * (size_t)s->n_kv_heads * (size_t)s->head_dim;
    Study study = {.forward = forward,
                   .keys = calloc(2 * n, sizeof(double)),
                   .floats =
                       malloc((size_t)KEY_STUDY_TOKENS * (size_t)(s->n_heads * s->head_dim) * sizeof(float))};
    if (study.keys) study.queries = study.keys + n;
    Status status =
        study.keys && study.floats ? STATUS_OK : error_set(error, STATUS_MEMORY, "no memory to study keys");
    if (!status && !made_up) status = study_model(&study, error);
    if (!status) status = enter(&study, cache, error);
    free(study.keys);
    free(study.floats);
    return status ? error_prefix(error, "the rounding of keys: ") : STATUS_OK;
}
