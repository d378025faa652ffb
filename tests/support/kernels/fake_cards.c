#include "tests/support/kernels/fake_cards.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cuda/devices.h"
#include "kernels/shards/shard_ops.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Meeting {
    pthread_barrier_t all;
    int n;
    const float *gathered[SHARDS_MOST]; // what each rank has to give
    int rows[SHARDS_MOST];
} Meeting;

// What a card has beside its CPU backend, which is found by that.
typedef struct Card {
    Backend *backend; // NULL: free
    int index;        // "cuda:2": 2
    const DecoderShape *shape;
    int max_tokens, max_logits;
    int rank;
    Meeting *meeting;
    void *copies[1024]; // of matrices
    int n_copies;
    int n_tokens; // of the step in hand
    float *x, *q, *g;
    int32_t *drawn; // [max_logits] of the last draw
} Card;

static FakeCards *fakes;
static Card cards[FAKE_CARDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Ops fake_ops;

static Card *card_of(const Backend *backend) {
    for (int i = 0; i < FAKE_CARDS; i++)
        if (cards[i].backend == backend) return &cards[i];
    abort();
}

// ---- opening ----------------------------------------------------------------------------------------------

static const DeviceFacts FACTS[FAKE_CARDS] = {
    {"Paper Tiger", 90, 1}, {"Paper Tiger", 90, 1}, {"Paper Tiger", 90, 1}, {"Paper Tiger", 90, 1}};

static Status fake_devices(const char *text, ShardDevices *devices, Error *error) {
    int indexes[SHARDS_MOST];
    Status status = devices_choose_several(text, FACTS, FAKE_CARDS, SHARDS_MOST, indexes, &devices->n, error);
    for (int i = 0; i < devices->n && !status; i++)
        snprintf(devices->names[i], sizeof devices->names[i], "cuda:%d", indexes[i]);
    return status;
}

static Status fake_open(const BackendOptions *options, Backend **backend, Error *error) {
    BackendOptions own = *options;
    int index;
    Status status = devices_choose(options->device, FACTS, FAKE_CARDS, &index, error);
    own.device = fakes->plain ? "cpu:reference" : "cpu", own.n_threads = 1;
    if (!status) status = ops_cpu()->open(&own, backend, error);
    if (status) return status;
    const DecoderShape *s = options->shape;
    const size_t n = (size_t)options->max_tokens;
    pthread_mutex_lock(&lock);
    Card *card = cards;
    while (card->backend) card++;
    *card = (Card){.backend = *backend,
                   .index = index,
                   .shape = s,
                   .max_tokens = options->max_tokens,
                   .max_logits = options->max_logits,
                   .x = calloc(n * (size_t)s->hidden_size, sizeof(float)),
                   .q = calloc(n * (size_t)s->n_heads * (size_t)s->head_dim, sizeof(float)),
                   .g = calloc(n * (size_t)decoder_ffn_width(s), sizeof(float)),
                   .drawn = calloc((size_t)options->max_logits, sizeof(int32_t))};
    fakes->n_open++;
    pthread_mutex_unlock(&lock);
    (*backend)->ops = &fake_ops;
    return STATUS_OK;
}

static void fake_close(Backend *backend) {
    Card *card = card_of(backend);
    (*(const Ops **)backend) = ops_cpu();
    ops_cpu()->close(backend);
    while (card->n_copies > 0) free(card->copies[--card->n_copies]);
    free(card->x), free(card->q), free(card->g), free(card->drawn);
    pthread_mutex_lock(&lock);
    card->backend = NULL;
    fakes->n_open--;
    pthread_mutex_unlock(&lock);
}

static void fake_memory(const Backend *backend, int64_t *total, int64_t *available) {
    ops_cpu()->memory(backend, total, available);
    if (fakes->room > 0) *total = *available = fakes->room;
}

static int64_t bytes_of(const void *weights, size_t size) {
    int64_t bytes = 0;
    const Matrix *m = weights;
    for (size_t i = 0; i < size / sizeof *m; i++)
        if (m[i].data) bytes += m[i].rows * dtype_row_bytes(m[i].type, m[i].cols);
    return bytes;
}

static int64_t fake_weight_bytes(const Backend *backend, const LayerWeights *layers,
                                 const HeadWeights *head) {
    int64_t bytes = bytes_of(head, sizeof *head);
    for (int l = 0; l < card_of(backend)->shape->n_layers; l++)
        bytes += bytes_of(&layers[l], offsetof(LayerWeights, index));
    return bytes;
}

// ---- weights: what they were loaded from may be gone afterwards ------------------------------------------------

static void copy_matrices(Card *card, void *weights, size_t size) {
    Matrix *m = weights;
    for (size_t i = 0; i < size / sizeof *m; i++) {
        if (!m[i].data) continue;
        const int n = m[i].pieces ? m[i].n_pieces : 1; // experts
        const size_t bytes = (size_t)(m[i].rows * dtype_row_bytes(m[i].type, m[i].cols)), each = bytes / n;
        char *copy = malloc(bytes);
        for (int e = 0; e < n; e++) memcpy(copy + e * each, matrix_of_expert(&m[i], e, n).data, each);
        m[i].data = card->copies[card->n_copies++] = copy;
        m[i].pieces = NULL, m[i].n_pieces = 0;
        pthread_mutex_lock(&lock);
        fakes->n_bytes += (int64_t)bytes;
        pthread_mutex_unlock(&lock);
    }
}

static Status fake_load_layer(Backend *backend, const LayerWeights *host, Layer **layer, Error *error) {
    Card *card = card_of(backend);
    LayerWeights own = *host;
    if (card->rank == 1 && fakes->fails_load > 0 && --fakes->fails_load == 0)
        return error_set(error, STATUS_MEMORY, "no room for a layer");
    copy_matrices(card, &own, offsetof(LayerWeights, index));
    return ops_cpu()->load_layer(backend, &own, layer, error);
}

static Status fake_load_head(Backend *backend, const HeadWeights *host, Head **head, Error *error) {
    HeadWeights own = *host;
    copy_matrices(card_of(backend), &own, sizeof own);
    return ops_cpu()->load_head(backend, &own, head, error);
}

// ---- steps ------------------------------------------------------------------------------------------------

static Status fake_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error) {
    card_of(backend)->n_tokens = step->n_tokens;
    return ops_cpu()->begin(backend, step, kv, error);
}

static Status fake_narrow(Backend *backend, const Step *step, const NarrowRows *rows, const KvLayer *kv,
                          Error *error) {
    card_of(backend)->n_tokens = step->n_tokens;
    return ops_cpu()->narrow(backend, step, rows, kv, error);
}

static Status stumble(const Backend *backend, Error *error) {
    return card_of(backend)->rank == 1 && fakes->fails_qkv > 0 && --fakes->fails_qkv == 0
               ? error_set(error, STATUS_DEVICE, "the second card stumbles")
               : STATUS_OK;
}

static Status fake_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                       Error *error) {
    Status status = stumble(backend, error);
    if (status) return status;
    if (fakes->slow_ms > 0) {
        const int busy = atomic_fetch_add(&fakes->busy, 1) + 1;
        int most = atomic_load(&fakes->most_busy);
        while (busy > most && !atomic_compare_exchange_weak(&fakes->most_busy, &most, busy)) continue;
        usleep((useconds_t)fakes->slow_ms * 1000);
        atomic_fetch_sub(&fakes->busy, 1);
    }
    return ops_cpu()->qkv(backend, layer, x, kv, q, error);
}

static Status fake_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    Status status = ops_cpu()->out(backend, layer, y, x, error);
    if (card_of(backend)->rank == 1 && fakes->fails_out > 0 && --fakes->fails_out == 0)
        return error_set(error, fakes->fatal ? STATUS_FATAL : STATUS_DEVICE, "the second card stumbles");
    return status;
}

static Status fake_decode(Backend *backend, const DecodeStep *t, Error *error) {
    Card *card = card_of(backend);
    Step step = *t->step;
    int32_t ids[64];
    if (step.n_tokens > 64) return STATUS_UNSUPPORTED;
    for (int i = 0; i < step.n_tokens; i++)
        ids[i] = t->drawn && t->drawn[i] >= 0 ? card->drawn[t->drawn[i]] : step.ids[i];
    step.ids = ids;
    const PassBuffers buffers = {card->x, card->q, card->g, t->logits};
    Status status = fake_begin(backend, &step, t->kv, error);
    return status ? status : t->pass(t->context, &buffers, error);
}

static Status fake_sample_begin(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                                Error *error) {
    return ops_cpu()->sample(backend, logits, n_rows, params, card_of(backend)->drawn, error);
}

static Status fake_sample_end(Backend *backend, int32_t *ids, Error *error) {
    const Card *card = card_of(backend);
    (void)error;
    memcpy(ids, card->drawn, (size_t)card->max_logits * sizeof *ids);
    return STATUS_OK;
}

// ---- what cards exchange ----------------------------------------------------------------------------------

static Status fake_join(Backend *const *ranks, int n, Error *error) {
    (void)error;
    Meeting *meeting = calloc(1, sizeof *meeting);
    pthread_barrier_init(&meeting->all, NULL, (unsigned)n);
    meeting->n = n;
    for (int i = 0; i < n; i++) card_of(ranks[i])->rank = i, card_of(ranks[i])->meeting = meeting;
    return STATUS_OK;
}

static void fake_part(Backend *const *ranks, int n) {
    Meeting *meeting = card_of(ranks[0])->meeting;
    (void)n;
    pthread_barrier_destroy(&meeting->all);
    free(meeting);
}

static Status fake_sum(Backend *backend, const ShardSum *sum, Error *error) {
    Card *card = card_of(backend);
    Meeting *m = card->meeting;
    const int64_t n = (int64_t)card->n_tokens * sum->width;
    float *x = sum->x[card->rank];
    (void)error;
    pthread_barrier_wait(&m->all); // all parts are there
    for (int64_t i = 0; i < n; i++) {
        float all = 0;
        for (int r = 0; r < m->n; r++) all += ((const float *)sum->parts[r])[i];
        x[i] += all;
    }
    pthread_barrier_wait(&m->all); // all have read them
    memset(sum->parts[card->rank], 0, (size_t)n * sizeof(float));
    pthread_mutex_lock(&lock);
    fakes->n_sums++;
    pthread_mutex_unlock(&lock);
    return STATUS_OK;
}

static Status fake_add_normed(Backend *backend, const Layer *layer, bool of_down, float *sums, float *x,
                              Error *error) {
    const int64_t n = card_of(backend)->n_tokens, width = card_of(backend)->shape->hidden_size;
    const Norm norm = of_down ? layer->ffn_post_norm : layer->attn_post_norm;
    (void)error;
    for (int64_t t = 0; t < n; t++) {
        cpu_norm_row(cpu_backend(backend), norm, sums + t * width, sums + t * width);
        for (int64_t i = 0; i < width; i++) x[t * width + i] += sums[t * width + i];
    }
    memset(sums, 0, (size_t)(n * width) * sizeof *sums);
    return STATUS_OK;
}

static Status fake_row_products(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv,
                                const ShardRows *rows, void *q, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const DecoderShape *s = cpu->shape;
    const int n_q = s->n_heads * s->head_dim, n_k = s->n_kv_heads * s->head_dim,
              from = rows->counted_kv_heads * s->head_dim;
    Status status = stumble(backend, error);
    if (status) return status;
    cpu_qkv_products(cpu, layer, x, kv, q);
    for (int t = 0; t < cpu->n_tokens; t++) {
        const float *of_q = (const float *)q + (int64_t)t * n_q, *of_k = cpu->k + (int64_t)t * n_k;
        double squares[2] = {0};
        for (int i = 0; i < n_q; i++) squares[0] += (double)of_q[i] * of_q[i];
        for (int i = from; i < n_k; i++) squares[1] += (double)of_k[i] * of_k[i];
        for (int i = 0; i < 2; i++) rows->squares[t * SHARD_SQUARES + i] = (float)squares[i];
    }
    return STATUS_OK;
}

static void scale_row(float *row, const float *weight, int n, float squares, int width, float eps) {
    const float scale = 1 / sqrtf(squares / (float)width + eps);
    for (int i = 0; weight && i < n; i++) row[i] *= scale * weight[i];
}

static Status fake_norm_rows(Backend *backend, const Layer *layer, const KvLayer *kv, const ShardRows *rows,
                             void *q, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const DecoderShape *s = cpu->shape;
    const int n_q = s->n_heads * s->head_dim, n_k = s->n_kv_heads * s->head_dim;
    (void)error;
    for (int t = 0; t < cpu->n_tokens; t++) {
        float *squares = rows->squares + t * SHARD_SQUARES;
        scale_row((float *)q + (int64_t)t * n_q, layer->q_norm, n_q, squares[0], rows->q_width, s->norm_eps);
        scale_row(cpu->k + (int64_t)t * n_k, layer->k_norm, n_k, squares[1], rows->k_width, s->norm_eps);
        squares[0] = squares[1] = 0;
    }
    cpu_qkv_finish(cpu, layer, kv, q);
    return STATUS_OK;
}

static Status fake_gather(Backend *backend, const ShardGather *g, Error *error) {
    Card *card = card_of(backend);
    Meeting *m = card->meeting;
    const int vocab = g->first[m->n];
    (void)error;
    m->gathered[card->rank] = g->part;
    pthread_barrier_wait(&m->all);
    for (int r = 0; r < m->n; r++)
        for (int row = 0; row < g->n_rows; row++) {
            const int n = g->first[r + 1] - g->first[r];
            memcpy(g->whole + (int64_t)row * vocab + g->first[r], m->gathered[r] + (int64_t)row * n,
                   (size_t)n * sizeof(float));
        }
    pthread_barrier_wait(&m->all);
    return STATUS_OK;
}

static void fake_identify(const Backend *backend, char id[SHARD_ID]) {
    *id = 0;
    if (fakes->locked) snprintf(id, SHARD_ID, "test-%ld-%d", (long)getpid(), card_of(backend)->index);
}

static void fake_finish(Backend *backend) {
    fakes->n_finished += card_of(backend) != NULL;
}

static void fake_use(Backend *backend) {
    fakes->n_used += card_of(backend)->rank == 0;
}

static void fake_way(const Backend *backend, char *text, size_t size) {
    (void)backend;
    snprintf(text, size, "by word of mouth");
}

static const ShardOps FAKE_SHARDS = {.columns = 1,
                                     .devices = fake_devices,
                                     .join = fake_join,
                                     .part = fake_part,
                                     .sum = fake_sum,
                                     .add_normed = fake_add_normed,
                                     .row_products = fake_row_products,
                                     .norm_rows = fake_norm_rows,
                                     .gather = fake_gather,
                                     .identify = fake_identify,
                                     .finish = fake_finish,
                                     .use = fake_use,
                                     .way = fake_way};

const Ops *fake_cards(FakeCards *what) {
    fakes = what;
    fake_ops = *ops_cpu();
    fake_ops.name = "cuda";
    fake_ops.open = fake_open, fake_ops.close = fake_close;
    fake_ops.memory = fake_memory, fake_ops.weight_bytes = fake_weight_bytes;
    fake_ops.load_layer = fake_load_layer, fake_ops.load_head = fake_load_head;
    fake_ops.begin = fake_begin, fake_ops.narrow = fake_narrow, fake_ops.qkv = fake_qkv,
    fake_ops.out = fake_out;
    if (!what->no_decode) {
        fake_ops.decode = fake_decode;
        fake_ops.sample_begin = fake_sample_begin, fake_ops.sample_end = fake_sample_end;
    }
    fake_ops.shards = &FAKE_SHARDS;
    return &fake_ops;
}
