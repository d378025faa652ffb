#include "tests/support/card.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LATE = 4096 };

// A row on its way to the host.
typedef struct Late {
    void *to, *bytes;
    size_t n;
} Late;

static Ops card;
static CardCounts counts;
static Late late[MOST_LATE];
static int n_late;
static const DecoderShape *shape;

static void arrive(void) {
    for (int i = 0; i < n_late; i++) {
        memcpy(late[i].to, late[i].bytes, late[i].n);
        free(late[i].bytes);
    }
    n_late = 0;
}

static Status card_open(const BackendOptions *options, Backend **backend, Error *error) {
    Status status = ops_cpu()->open(options, backend, error);
    if (!status) (*backend)->ops = &card;
    shape = options->shape;
    return status;
}

static void card_close(Backend *backend) {
    arrive();
    ops_cpu()->close(backend);
}

static Status card_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error) {
    arrive();
    return ops_cpu()->read(backend, host, memory, bytes, error);
}

static Status card_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                          int32_t *ids, Error *error) {
    arrive();
    return ops_cpu()->sample(backend, logits, n_rows, params, ids, error);
}

// In memory of its own, as a captured graph has it.
static Status card_decode(Backend *backend, const DecodeStep *t, Error *error) {
    const size_t n = (size_t)t->step->n_tokens;
    if (++counts.decoded % 3 == 0) return STATUS_UNSUPPORTED;
    float *x = malloc(n * (size_t)shape->hidden_size * sizeof *x),
          *q = malloc(n * (size_t)decoder_pass_width(shape) * sizeof *q),
          *g = malloc(n * (size_t)decoder_ffn_width(shape) * sizeof *g);
    const PassBuffers own = {x, q, g, t->logits};
    Status status = x && q && g ? ops_cpu()->begin(backend, t->step, t->kv, error) : STATUS_MEMORY;
    if (!status) status = t->pass(t->context, &own, error);
    free(x), free(q), free(g);
    return status;
}

// ---- layers that visit ------------------------------------------------------------------------------------------

static int64_t visit_room(const Backend *backend, const LayerWeights *layers, int n) {
    (void)backend, (void)layers;
    return n;
}

static Status visit_open(Backend *backend, const LayerWeights *layers, int n, Error *error) {
    (void)backend, (void)layers, (void)n, (void)error;
    return STATUS_OK;
}

static Status visit_load(Backend *backend, const LayerWeights *host, Layer **layer, Error *error) {
    return ops_cpu()->load_layer(backend, host, layer, error);
}

static Status visit_copy(Backend *backend, const HostRows *rows, Error *error) {
    (void)backend;
    counts.copies++;
    if (rows->pitch < rows->width) // as CUDA has it, of one row as well
        return error_set(error, STATUS_DEVICE, "rows of %zu bytes, %zu apart", rows->width, rows->pitch);
    for (size_t i = 0; i < rows->n; i++) {
        char *host = (char *)rows->host + i * rows->pitch, *memory = (char *)rows->memory + i * rows->pitch;
        if (!rows->to_host) {
            memcpy(memory, host, rows->width);
            continue;
        }
        void *bytes = n_late < MOST_LATE ? malloc(rows->width) : NULL;
        if (!bytes) return error_set(error, STATUS_MEMORY, "too many rows are late");
        memcpy(bytes, memory, rows->width);
        late[n_late++] = (Late){host, bytes, rows->width};
    }
    return STATUS_OK;
}

static Status visit_alloc_host(Backend *backend, size_t bytes, void **memory, Error *error) {
    return ops_cpu()->alloc(backend, bytes, memory, error);
}

static void visit_free_host(Backend *backend, void *memory) {
    ops_cpu()->free(backend, memory);
}

const Ops *card_ops(void) {
    static const VisitOps VISITS = {visit_room, visit_open,       visit_load,
                                    visit_copy, visit_alloc_host, visit_free_host};
    card = *ops_cpu();
    card.name = "card";
    card.open = card_open;
    card.close = card_close;
    card.read = card_read;
    card.sample = card_sample;
    card.decode = card_decode;
    card.layer_weights = NULL;
    card.visits = &VISITS;
    return &card;
}

CardCounts card_counts(void) {
    return counts;
}
