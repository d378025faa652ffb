// What a file has transposed: experts, gates and ups side by side (gpt-oss as transformers saves it), or a layer's matrices
// (GPT-2).
#include "engine/model/model_internal.h"
#include "engine/model/config/unread.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, TILE = 32 }; // rows and columns that are turned at a time

// `to` [rows, cols] is every `step`-th element of each of the cols rows of `from`, [cols, width], from the first-th on.
typedef struct Turn {
    const char *from;
    int64_t first, step, width;
    char *to;
    int64_t rows, cols;
    size_t element;
} Turn;

static void turn_tile(const Turn *t, int64_t row, int64_t col) {
    const int64_t end = row + TILE < t->rows ? row + TILE : t->rows,
                  last = col + TILE < t->cols ? col + TILE : t->cols;
    for (int64_t r = row; r < end; r++)
        for (int64_t c = col; c < last; c++)
            memcpy(t->to + (size_t)(r * t->cols + c) * t->element,
                   t->from + (size_t)(c * t->width + t->first + r * t->step) * t->element, t->element);
}

static void turn(const Turn *t) {
    for (int64_t row = 0; row < t->rows; row += TILE)
        for (int64_t col = 0; col < t->cols; col += TILE) turn_tile(t, row, col);
}

// Its elements as [rows, cols] of a plain type, or with cols 0 a vector of `rows`.
static Status take_flat(Model *model, const ParamSource *source, const CheckpointTensor *tensor, int64_t rows,
                        int64_t cols, Matrix *matrix, Error *error) {
    CheckpointTensor flat = *tensor;
    for (int d = 1; d < tensor->n_dims - (cols ? 1 : 0); d++) flat.shape[0] *= tensor->shape[d];
    if (cols) flat.shape[1] = tensor->shape[tensor->n_dims - 1];
    flat.n_dims = cols ? 2 : 1;
    if (tensor->supported && dtype_block_size(tensor->type) != 1)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: %s has type %s; transposed experts must be f32, f16 or bf16",
                         checkpoint_path(model->checkpoint), tensor->name, tensor->type_name);
    return model_take_tensor(model, source, &flat, cols ? rows : 0, cols ? cols : rows, matrix, error);
}

// The places of a layer's experts in one allocation.
typedef struct Places {
    char *gates, *ups, *downs, *gate_bias, *up_bias;
    size_t bytes;
} Places;

static char *take(Places *p, char *base, size_t bytes) {
    char *at = base ? base + p->bytes : NULL;
    p->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static Places lay_out(const Experts *e, int64_t hidden, size_t wide, size_t down, size_t bias, char *base) {
    const size_t matrix = (size_t)e->n * (size_t)e->size * (size_t)hidden, n = (size_t)e->n * (size_t)e->size;
    Places p = {0};
    p.gates = take(&p, base, matrix * wide);
    p.ups = take(&p, base, matrix * wide);
    p.downs = take(&p, base, matrix * down);
    p.gate_bias = take(&p, base, n * bias);
    p.up_bias = take(&p, base, n * bias);
    return p;
}

static size_t element_of(const Matrix *m) {
    return m->data ? (size_t)dtype_block_bytes(m->type) : 0;
}

static void turn_all(const Experts *e, int64_t hidden, bool halves, const Matrix *wide, const Matrix *down,
                     const Places *to) {
    const int64_t size = e->size, step = halves ? 1 : 2, up = halves ? size : 1;
    const size_t a = (size_t)dtype_block_bytes(wide->type), b = (size_t)dtype_block_bytes(down->type);
    for (int64_t i = 0; i < e->n; i++) {
        const char *from = (const char *)wide->data + (size_t)(i * hidden * 2 * size) * a;
        const size_t at = (size_t)(i * size * hidden);
        turn(&(Turn){from, 0, step, 2 * size, to->gates + at * a, size, hidden, a});
        turn(&(Turn){from, up, step, 2 * size, to->ups + at * a, size, hidden, a});
        turn(&(Turn){(const char *)down->data + at * b, 0, 1, hidden, to->downs + at * b, hidden, size, b});
    }
}

static Matrix held(DType type, int64_t rows, int64_t cols, const void *data) {
    return (Matrix){.type = type, .rows = rows, .cols = cols, .data = data};
}

// Memory of the model's for a layer, of which nothing is taken yet but what a first call of lay_out() counted.
static Status hold(Model *model, int layer, size_t bytes, char **memory, Error *error) {
    *memory = aligned_alloc(ALIGNMENT, bytes);
    if (!model->gathered) model->gathered = calloc((size_t)model->shape.n_layers, sizeof *model->gathered);
    if (!*memory || !model->gathered) {
        free(*memory);
        return error_set(error, STATUS_MEMORY, "no memory to put a layer's weights in order");
    }
    model->gathered[layer] = *memory;
    return STATUS_OK;
}

static Status take_biases(Model *model, const ParamSource *source, int layer, const TransposedExperts *from,
                          Matrix *bias, Error *error) {
    const Experts *e = &model->shape.experts;
    Status status = STATUS_OK;
    if (from->gate_up_bias)
        status = take_flat(model, source, from->gate_up_bias, e->n * 2 * e->size, 0, bias, error);
    if (!status && from->down_bias)
        status = take_flat(model, source, from->down_bias, (int64_t)e->n * model->shape.hidden_size, 0,
                           &model->layers[layer].b_down, error);
    return status;
}

// Those of gates and ups stand in turn.
static void split_biases(const Experts *e, const Matrix *bias, const Places *places, LayerWeights *to) {
    const int64_t n = e->n * e->size;
    const size_t element = element_of(bias);
    if (!bias->data) return;
    for (int64_t i = 0; i < n; i++) {
        const char *pair = (const char *)bias->data + (size_t)(2 * i) * element;
        memcpy(places->gate_bias + (size_t)i * element, pair, element);
        memcpy(places->up_bias + (size_t)i * element, pair + element, element);
    }
    to->b_gate = held(bias->type, 1, n, places->gate_bias);
    to->b_up = held(bias->type, 1, n, places->up_bias);
}

Status model_turn_experts(Model *model, const ParamSource *source, int layer, const TransposedExperts *from,
                          Error *error) {
    const Experts *e = &model->shape.experts;
    const int64_t n = e->n, size = e->size, hidden = model->shape.hidden_size;
    LayerWeights *to = &model->layers[layer];
    Matrix wide = {0}, down = {0}, bias = {0};
    char *memory;
    Status status = take_flat(model, source, from->gate_up, n * hidden, 2 * size, &wide, error);
    if (!status) status = take_flat(model, source, from->down, n * size, hidden, &down, error);
    if (!status) status = take_biases(model, source, layer, from, &bias, error);
    if (status) return status;
    const size_t a = (size_t)dtype_block_bytes(wide.type), b = (size_t)dtype_block_bytes(down.type);
    Places places = lay_out(e, hidden, a, b, element_of(&bias), NULL);
    status = hold(model, layer, places.bytes, &memory, error);
    if (status) return status;
    places = lay_out(e, hidden, a, b, element_of(&bias), memory);
    turn_all(e, hidden, from->halves, &wide, &down, &places);
    to->w_gate = held(wide.type, n * size, hidden, places.gates);
    to->w_up = held(wide.type, n * size, hidden, places.ups);
    to->w_down = held(down.type, n * hidden, size, places.downs);
    split_biases(e, &bias, &places, to);
    return STATUS_OK;
}

Status model_turn_biases(Model *model, const ParamSource *source, int layer, const TransposedExperts *from,
                         Error *error) {
    const Experts *e = &model->shape.experts;
    Matrix bias = {0};
    char *memory;
    Status status = take_biases(model, source, layer, from, &bias, error);
    if (status || !bias.data) return status;
    Places places = lay_out(e, 0, 0, 0, element_of(&bias), NULL);
    status = hold(model, layer, places.bytes, &memory, error);
    if (status) return status;
    places = lay_out(e, 0, 0, 0, element_of(&bias), memory);
    split_biases(e, &bias, &places, &model->layers[layer]);
    return STATUS_OK;
}

// ---- a layer -------------------------------------------------------------------------------------------------

static bool is_plain(DType type) {
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16;
}

Status model_turn_layer(Model *model, int index, Error *error) {
    LayerWeights *layer = &model->layers[index];
    Matrix *const all[] = {&layer->wq, &layer->wo, &layer->w_up, &layer->w_down};
    Places places = {0};
    char *memory;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!is_plain(all[i]->type))
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: layer %d has transposed matrices of type %s; they must be f32, f16 or bf16",
                             checkpoint_path(model->checkpoint), index, dtype_name(all[i]->type));
        take(&places, NULL, (size_t)(all[i]->rows * all[i]->cols) * element_of(all[i]));
    }
    Status status = hold(model, index, places.bytes, &memory, error);
    places.bytes = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++) {
        const Matrix from = *all[i];
        char *to = take(&places, memory, (size_t)(from.rows * from.cols) * element_of(&from));
        status = checkpoint_make(model->checkpoint, from.data, NULL, error);
        if (status) return status;
        turn(&(Turn){from.data, 0, 1, from.cols, to, from.cols, from.rows, element_of(&from)});
        *all[i] = held(from.type, from.cols, from.rows, to);
        checkpoint_drop_made(model->checkpoint);
    }
    return status;
}
