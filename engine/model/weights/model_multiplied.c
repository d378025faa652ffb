// Weights of a layer times what its makers multiply beside them (Multipliers), as float32 in memory of the model's.
#include "engine/model/model_internal.h"
#include "kernels/cpu/loops/quant.h"

#include <stdlib.h>

// Elements of a matrix or a vector, times one number after the other.
typedef struct Multiplied {
    Matrix *m;
    int n_parts;
    int64_t sizes[3]; // of which each has so many
    double by[3];
} Multiplied;

static int64_t elements(const Matrix *m) {
    return m->data ? m->rows * m->cols : 0;
}

// To `to`, which the matrix then is.
static Status multiply(const Model *model, const Multiplied *what, float *to, Error *error) {
    Matrix *m = what->m;
    if (!m->data) return STATUS_OK;
    Status status = checkpoint_make(model->checkpoint, m->data, NULL, error);
    if (status) return status;
    for (int64_t r = 0; r < m->rows; r++)
        quant_load(m->type, (const char *)m->data + r * dtype_row_bytes(m->type, m->cols), 0, m->cols,
                   to + r * m->cols);
    float *at = to;
    for (int part = 0; part < what->n_parts; part++)
        for (int64_t i = 0; i < what->sizes[part]; i++, at++) *at = (float)((double)*at * what->by[part]);
    *m = (Matrix){.type = DTYPE_F32, .rows = m->rows, .cols = m->cols, .data = to};
    checkpoint_drop_made(model->checkpoint);
    return STATUS_OK;
}

Status model_multiply_layer(Model *model, int layer, Error *error) {
    const DecoderShape *s = &model->shape;
    const Multipliers *by = &model->multipliers;
    LayerWeights *w = &model->layers[layer];
    const DeltaRule *d = &s->delta;
    const int64_t keys = (int64_t)d->n_key_heads * d->key_dim * d->taps, values = delta_width(d) * d->taps;
    const bool recurs = layer_heads(s, layer).recurs;
    const Multiplied behind[] = {{&w->attn_post_norm, 1, {s->hidden_size}, {by->post_norms}},
                                 {&w->ffn_post_norm, 1, {s->hidden_size}, {by->post_norms}}};
    const Multiplied before[] = {
        {&w->attn_norm, 1, {s->hidden_size}, {recurs ? by->state_norm : by->attention_norm}},
        {&w->ffn_norm, 1, {s->hidden_size}, {by->ffn_norm}},
        {&w->w_decay, 1, {d->n_value_heads * (int64_t)s->hidden_size}, {by->decay}},
        {recurs ? &w->conv : NULL, 3, {keys, keys, values}, {by->queries, by->keys, by->values}},
    };
    const Multiplied *all = by->post_norms != 0 ? behind : before;
    const int n_all = by->post_norms != 0 ? 2 : sizeof before / sizeof *before;
    int64_t n = 0;
    if (by->ffn_norm == 0 && by->post_norms == 0) return STATUS_OK; // nothing is multiplied
    for (int i = 0; i < n_all; i++) n += all[i].m ? elements(all[i].m) : 0;
    if (!model->multiplied) model->multiplied = calloc((size_t)s->n_layers, sizeof *model->multiplied);
    float *memory = malloc((size_t)n * sizeof *memory);
    if (!model->multiplied || !memory) {
        free(memory);
        return error_set(error, STATUS_MEMORY, "%s: no memory to multiply weights of layer %d",
                         checkpoint_path(model->checkpoint), layer_of_files(s, layer));
    }
    model->multiplied[layer] = memory;
    Status status = STATUS_OK;
    for (int i = 0; i < n_all && !status; i++) {
        const int64_t own = all[i].m ? elements(all[i].m) : 0;
        if (own > 0) status = multiply(model, &all[i], memory, error);
        memory += own;
    }
    return status;
}
