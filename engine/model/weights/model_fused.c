// Weights that files hold otherwise than ops want them: several in one, heads in another order, a head whose rows are
// yet to be divided by their length.
#include "engine/model/config/param.h"
#include "engine/model/model_internal.h"

#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- q, k and v, gate and up -------------------------------------------------------------------------------

// Runs of `run` bytes, for each KV head its `group` of q, k and v, into all of q, all of k, all of v.
static void gather_heads(const char *from, int n_kv_heads, int group, int64_t run, char *to) {
    const int first[] = {0, group, group + 1}, n[] = {group, 1, 1};
    for (int part = 0; part < 3; part++)
        for (int head = 0; head < n_kv_heads; head++, to += n[part] * run)
            memcpy(to, from + ((int64_t)head * (group + 2) + first[part]) * run, (size_t)(n[part] * run));
}

// Heads of four quarters, whose second and third change places: pairs that lie in each half come to lie across both.
static void swap_quarters(char *heads, int64_t n_heads, int64_t quarter) {
    for (char *second = heads + quarter; n_heads-- > 0; second += 4 * quarter)
        for (int64_t i = 0; i < quarter; i++) {
            const char kept = second[i];
            second[i] = second[quarter + i], second[quarter + i] = kept;
        }
}

// Puts the rows of layer->wq and bq, which hold all three head by head, in the usual order in memory of the model's.
static Status order_heads(Model *model, int index, LayerWeights *layer, Error *error) {
    const DecoderShape *s = &model->shape;
    const int group = s->n_heads / s->n_kv_heads;
    int64_t row = dtype_row_bytes(layer->wq.type, layer->wq.cols);
    int64_t element = layer->bq.data ? dtype_block_bytes(layer->bq.type) : 0;
    Status status = checkpoint_make(model->checkpoint, layer->wq.data, NULL, error);
    if (status) return status;
    if (!model->gathered) model->gathered = calloc((size_t)s->n_layers, sizeof *model->gathered);
    char *memory = malloc((size_t)(layer->wq.rows * (row + element)));
    if (!model->gathered || !memory) {
        free(memory);
        return error_set(error, STATUS_MEMORY, "%s: no memory to put a layer's q, k and v in order",
                         checkpoint_path(model->checkpoint));
    }
    model->gathered[index] = memory;
    gather_heads(layer->wq.data, s->n_kv_heads, group, s->head_dim * row, memory);
    if (s->rope.two_dimensional) swap_quarters(memory, s->n_heads + s->n_kv_heads, s->head_dim / 4 * row);
    layer->wq.data = memory;
    checkpoint_drop_made(model->checkpoint);
    if (element == 0) return STATUS_OK;
    char *bias = memory + layer->wq.rows * row;
    gather_heads(layer->bq.data, s->n_kv_heads, group, s->head_dim * element, bias);
    if (s->rope.two_dimensional) swap_quarters(bias, s->n_heads + s->n_kv_heads, s->head_dim / 4 * element);
    layer->bq.data = bias;
    return STATUS_OK;
}

Matrix model_take_first(Matrix *all, int64_t n) {
    Matrix first = *all;
    if (!all->data) return first;
    int64_t *size = all->rows > 1 ? &all->rows : &all->cols;
    int64_t bytes = all->rows > 1 ? n * dtype_row_bytes(all->type, all->cols) : dtype_row_bytes(all->type, n);
    *(all->rows > 1 ? &first.rows : &first.cols) = n;
    *size -= n;
    all->data = (const char *)all->data + bytes;
    return first;
}

Status model_split_qkv(Model *model, const ParamSource *source, int index, int64_t q, int64_t kv,
                       Error *error) {
    LayerWeights *layer = &model->layers[index];
    Status status = STATUS_OK;
    if (source->config && (source->architecture->qkv_by_head || source->architecture->qkv_by_group))
        status = order_heads(model, index, layer, error);
    Matrix weights = layer->wq, biases = layer->bq;
    layer->wq = model_take_first(&weights, q), layer->bq = model_take_first(&biases, q);
    layer->wk = model_take_first(&weights, kv), layer->bk = model_take_first(&biases, kv);
    layer->wv = weights, layer->bv = biases;
    return status;
}

void model_split_gate_up(LayerWeights *layer, int64_t n) {
    layer->w_up = layer->w_gate, layer->b_up = layer->b_gate;
    layer->w_gate = model_take_first(&layer->w_up, n), layer->b_gate = model_take_first(&layer->b_up, n);
}

// ---- a head of rows, or columns, of length 1 -----------------------------------------------------------

Status model_norm_head(Model *model, Error *error) {
    Matrix *output = &model->head.output;
    if (dtype_block_size(output->type) != 1)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: the head's rows are divided by their length, for which they must be f32, f16 or bf16; they "
            "are %s",
            checkpoint_path(model->checkpoint), dtype_name(output->type));
    const int64_t row = dtype_row_bytes(output->type, output->cols);
    float *values = malloc((size_t)output->cols * sizeof *values);
    model->normed_head = malloc((size_t)(output->rows * row));
    if (!values || !model->normed_head) {
        free(values);
        return error_set(error, STATUS_MEMORY, "%s: no memory for the head",
                         checkpoint_path(model->checkpoint));
    }
    for (int64_t r = 0; r < output->rows; r++) {
        char *to = (char *)model->normed_head + r * row;
        quant_load(output->type, (const char *)output->data + r * row, 0, output->cols, values);
        double squares = 0;
        for (int64_t i = 0; i < output->cols; i++) squares += (double)values[i] * (double)values[i];
        const float length = (float)fmax(sqrt(squares), 1e-12);
        for (int64_t i = 0; i < output->cols; i++) {
            const float value = values[i] / length;
            if (output->type == DTYPE_F32)
                ((float *)(void *)to)[i] = value;
            else
                ((uint16_t *)(void *)to)[i] =
                    output->type == DTYPE_F16 ? quant_to_half(value) : quant_to_bfloat(value);
        }
    }
    output->data = model->normed_head;
    free(values);
    return STATUS_OK;
}

Status model_norm_columns(Model *model, const ParamSource *source, Error *error) {
    const Matrix *output = &model->head.output;
    Matrix *norm = &model->head.norm;
    const int64_t n = output->cols, row = dtype_row_bytes(output->type, n);
    bool asked = false;
    Status status = param_bool(source, (Key){"norm_head", NULL}, &asked, error);
    if (status || !asked) return status;
    if (model->tied_head)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: norm_head divides the columns of the head by their length, and tie_word_embeddings "
            "says that it is the embedding, which that would change; take one of them out of the file",
            source->path);
    if (dtype_block_size(output->type) != 1)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: the head's columns are divided by their length (norm_head), for which they must be f32, f16 "
            "or bf16; they are %s",
            checkpoint_path(model->checkpoint), dtype_name(output->type));
    double *squares = calloc((size_t)n, sizeof *squares);
    float *values = malloc((size_t)n * sizeof *values), *weights = malloc((size_t)n * sizeof *weights);
    model->normed_head = weights;
    for (int64_t r = 0; r < output->rows && squares && values && weights; r++) {
        quant_load(output->type, (const char *)output->data + r * row, 0, n, values);
        for (int64_t i = 0; i < n; i++) squares[i] += (double)values[i] * (double)values[i];
    }
    if (squares && values && weights) {
        quant_load(norm->type, norm->data, 0, n, weights);
        for (int64_t i = 0; i < n; i++) weights[i] = (float)((double)weights[i] / (sqrt(squares[i]) + 1e-7));
        *norm = (Matrix){.type = DTYPE_F32, .rows = 1, .cols = n, .data = weights};
    } else
        status =
            error_set(error, STATUS_MEMORY, "%s: no memory for the head", checkpoint_path(model->checkpoint));
    free(squares);
    free(values);
    return status;
}
