#include "engine/smoothing.h"

#include "engine/forward.h"
#include "engine/tuning/smoothing_file.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 128 };

// How much of what makes a channel large goes to the weights: measured (engine/model/MEASUREMENTS.md).
static const float STRENGTH = 0.6f;

typedef struct Measuring {
    Model *model;
    const Progress *progress;
    Forward forward;
    KvCache cache;
    float *most; // [intermediate] of the layer in hand
    float *g;    // [TOKENS, intermediate]
} Measuring;

// ---- scales -----------------------------------------------------------------------------------------------------

static int ascending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Of n values, through room for as many.
static float median(const float *values, float *room, int64_t n) {
    memcpy(room, values, (size_t)n * sizeof *room);
    qsort(room, (size_t)n, sizeof *room, ascending);
    return room[n / 2];
}

// Largest magnitudes of a matrix's columns, [cols]; row: room for one.
static void column_maxima(const Matrix *m, float *row, float *most) {
    memset(most, 0, (size_t)m->cols * sizeof *most);
    for (int64_t r = 0; r < m->rows; r++) {
        const char *data = (const char *)m->data + r * dtype_row_bytes(m->type, m->cols);
        quant_load(m->type, data, 0, m->cols, row);
        for (int64_t i = 0; i < m->cols; i++) most[i] = fmaxf(most[i], fabsf(row[i]));
    }
}

// From the largest magnitudes of g's channels; NULL: they are alike, or memory is short (*status).
static float *scales_of(const Matrix *down, const float *most, float *room, Status *status) {
    const int64_t n = down->cols;
    float largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, most[i]);
    const float middle = median(most, room, n);
    if (!(largest > SMOOTHING_LEAST_RATIO * middle) || !isfinite(largest) || middle <= 0) return NULL;
    float *s = malloc((size_t)n * sizeof *s), *of_weights = malloc((size_t)n * sizeof *of_weights);
    if (!s || !of_weights) {
        *status = STATUS_MEMORY;
        free(s), free(of_weights);
        return NULL;
    }
    column_maxima(down, room, of_weights);
    for (int64_t i = 0; i < n; i++)
        s[i] = of_weights[i] > 0 && most[i] > 0 ? powf(most[i], STRENGTH) / powf(of_weights[i], 1 - STRENGTH)
                                                : 0;
    const float usual = median(s, room, n); // scales that all channels share change nothing
    for (int64_t i = 0; i < n; i++) {
        const float by = usual > 0 && s[i] > 0 ? rintf(log2f(s[i] / usual)) : 0;
        s[i] = exp2f(fminf(fmaxf(by, -16), 16));
    }
    free(of_weights);
    return s;
}

// ---- the pass ---------------------------------------------------------------------------------------------------

static Status note_layer(void *context, int layer, const void *g, int n_tokens, Error *error) {
    Measuring *m = context;
    Backend *b = m->forward.backend;
    const Matrix *down = &m->model->file_layers[layer].w_down;
    const int64_t n = down->cols;
    const Progress *p = m->progress;
    if (p->step && !p->step(p->user, "loading", 0, m->model->weight_bytes))
        return error_set(error, STATUS_INTERRUPTED, "interrupted");
    if (m->model->file_layers[layer].router.data) return STATUS_OK;
    Status status = b->ops->read_floats(b, g, n * n_tokens, m->g, error);
    if (status) return status;
    memset(m->most, 0, (size_t)n * sizeof *m->most);
    for (int64_t i = 0; i < n * n_tokens; i++) m->most[i % n] = fmaxf(m->most[i % n], fabsf(m->g[i]));
    m->model->smoothing[layer] = scales_of(down, m->most, m->g, &status);
    return status ? error_set(error, status, "no memory to smooth layer %d",
                              layer_of_files(&m->model->shape, layer))
                  : STATUS_OK;
}

// As the files have the weights, by reference.
static Status load(Measuring *m, int n_threads, Error *error) {
    Model *model = m->model;
    Forward *f = &m->forward;
    HeadWeights head = model->head;
    const BackendOptions options = {.device = "cpu",
                                    .n_threads = n_threads,
                                    .shape = &model->shape,
                                    .max_tokens = TOKENS,
                                    .max_logits = 1,
                                    .layers = model->file_layers};
    Status status = ops_cpu()->open(&options, &f->backend, error);
    if (status) {
        f->backend = NULL;
        return status;
    }
    *f = (Forward){.backend = f->backend, .model = model, .max_tokens = TOKENS, .max_logits = 1};
    head.output = model->file_output;
    f->layers = calloc((size_t)model->shape.n_layers, sizeof(Layer *));
    if (!f->layers) return error_set(error, STATUS_MEMORY, "no memory to measure layers");
    status = f->backend->ops->load_head(f->backend, &head, &f->head, error);
    for (int l = 0; l < model->shape.n_layers && !status; l++)
        status = f->backend->ops->load_layer(f->backend, &model->file_layers[l], &f->layers[l], error);
    return status ? status : forward_open(f, error);
}

static Status evaluate(Measuring *m, Error *error) {
    Forward *f = &m->forward;
    const DecoderShape *s = &m->model->shape;
    const CacheOptions options = cache_options(DTYPE_F32);
    const QueryTap tap = {.take_ffn = note_layer, .context = m};
    const int n = s->n_positions > 0 && s->n_positions < TOKENS ? s->n_positions : TOKENS;
    const int32_t page = 0;
    int32_t ids[TOKENS], places[TOKENS];
    Status status = kv_cache_open(f->backend, &options, s, TOKENS, &m->cache, error);
    if (status) return status;
    for (int i = 0; i < n; i++) ids[i] = (int32_t)((17 + INT64_C(7919) * i) % s->vocab_size), places[i] = i;
    const StepSequence sequence = {.n_tokens = n, .n_slots = n, .pages = &page, .state_from = -1};
    const Step step = {.n_tokens = n,
                       .n_sequences = 1,
                       .ids = ids,
                       .positions = places,
                       .slots = places,
                       .sequences = &sequence,
                       .page_size = m->cache.page_size,
                       .slot_positions = m->cache.slot_positions};
    f->tap = &tap;
    status = forward_step(f, &step, NULL, &m->cache, NULL, error);
    kv_cache_close(&m->cache);
    return status;
}

// Everything that the pass reads has to be there, and all that it is for.
bool smoothing_suits(const Model *model) {
    bool some = false;
    if (model->weights != WEIGHTS_INT8 || !model->file_layers || !model->checkpoint ||
        checkpoint_is_quantized(model->checkpoint))
        return false;
    for (int l = 0; l < model->shape.n_layers; l++) {
        const LayerWeights *w = &model->file_layers[l];
        if (w->router.data) continue;
        if (!w->w_gate.data || w->b_up.data || w->w_down.order) return false;
        some = some || (w->w_up.type != DTYPE_W8 && w->w_down.type != DTYPE_W8);
    }
    return some;
}

static Status measure(Model *model, int n_threads, const Progress *progress, Error *error) {
    Measuring m = {.model = model, .progress = progress};
    const size_t wide = (size_t)decoder_ffn_width(&model->shape);
    m.most = malloc(wide * sizeof *m.most);
    m.g = malloc(TOKENS * wide * sizeof *m.g);
    Status status = m.most && m.g ? load(&m, n_threads, error)
                                  : error_set(error, STATUS_MEMORY, "no memory to measure layers");
    if (!status) status = evaluate(&m, error);
    if (m.forward.backend) {
        forward_close(&m.forward);
        m.forward.backend->ops->close(m.forward.backend);
    }
    free(m.forward.layers);
    free(m.most);
    free(m.g);
    if (status == STATUS_INTERRUPTED) return error_set(error, status, "loading was interrupted");
    return status ? error_prefix(error, "int8: ") : STATUS_OK;
}

Status smoothing_measure(Model *model, const SmoothingOptions *options, Error *error) {
    SmoothingFile file;
    Error ignored; // who has no cache folder measures every time
    if (model->smoothing || !smoothing_suits(model)) return STATUS_OK;
    model->smoothing = calloc((size_t)model->shape.n_layers, sizeof *model->smoothing);
    if (!model->smoothing) return error_set(error, STATUS_MEMORY, "no memory to measure layers");
    const bool keeps = options->keeps && !smoothing_file_of(model, &file, &ignored);
    if (keeps && smoothing_file_read(&file, model->smoothing)) return STATUS_OK;
    Status status = measure(model, options->n_threads, options->progress, error);
    if (!status && keeps) (void)smoothing_file_write(&file, model->smoothing, &ignored);
    return status;
}
