#include "tests/support/kernels/oracle.h"
#include "kernels/alibi.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Oracle {
    const Model *model;
    const OracleStream *stream;
    double *x, *h, *q, *k, *v, *y, *g, *u; // [n, …] of the layer in hand
    double *cosines, *sines;               // [n, rotary_dim/2] of each distance
} Oracle;

static double *numbers(int64_t n) {
    double *all = calloc((size_t)n, sizeof *all);
    if (!all) abort();
    return all;
}

// Row r of a matrix, or a vector, as numbers.
static void row_of(const Matrix *m, int64_t r, double *values) {
    float *row = malloc((size_t)m->cols * sizeof *row);
    if (!row) abort();
    quant_load(m->type, (const char *)m->data + r * dtype_row_bytes(m->type, m->cols), 0, m->cols, row);
    for (int64_t i = 0; i < m->cols; i++) values[i] = (double)row[i];
    free(row);
}

// y [n, rows] = W·x + b; adds to what is there if `add`.
static void linear(const Matrix *w, const Matrix *b, const double *x, int n, double *y, bool add) {
    double *row = numbers(w->cols), *bias = numbers(w->rows);
    if (b && b->data) row_of(b, 0, bias);
    for (int64_t r = 0; r < w->rows; r++) {
        row_of(w, r, row);
        for (int t = 0; t < n; t++) {
            double sum = bias[r];
            for (int64_t i = 0; i < w->cols; i++) sum += row[i] * x[t * w->cols + i];
            y[t * w->rows + r] = (add ? y[t * w->rows + r] : 0) + sum;
        }
    }
    free(row);
    free(bias);
}

static void norm_rows(const DecoderShape *s, NormKind kind, const Matrix *w, const Matrix *b, int64_t size,
                      int64_t n, const double *x, double *y) {
    double *weight = numbers(size), *bias = numbers(size);
    row_of(w, 0, weight);
    if (b && b->data) row_of(b, 0, bias);
    for (int64_t t = 0; t < n; t++, x += size, y += size) {
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < size && kind == NORM_LAYER; i++) mean += x[i] / (double)size;
        for (int64_t i = 0; i < size; i++) squares += (x[i] - mean) * (x[i] - mean) / (double)size;
        double scale = 1 / sqrt(squares + (double)s->norm_eps);
        for (int64_t i = 0; i < size; i++)
            y[i] = (x[i] - mean) * scale * (weight[i] + (double)s->norm_offset) + bias[i];
    }
    free(weight);
    free(bias);
}

static double activated(Activation kind, double x) {
    switch (kind) {
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case ACTIVATION_GELU:
        return 0.5 * x * (1 + erf(x * 0.7071067811865476));
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_SILU:
        break;
    }
    return x / (1 + exp(-x));
}

// How far query i is from key j; -1: it does not see it.
static int distance(const OracleStream *s, int i, int j, int window) {
    int d = j < s->keep ? i - s->gone[i] - j : i - j;
    if (j > i || (j >= s->keep && j < s->keep + s->gone[i]) || (window > 0 && d >= window)) return -1;
    return d;
}

// attention_scale · q·k, the query turned by the distance, less ALiBi's share.
static double score(const Oracle *o, int head, const double *q, const double *k, int d) {
    const DecoderShape *s = &o->model->shape;
    const Rope *rope = &s->rope;
    int pairs = rope->rotary_dim / 2;
    const double *c = o->cosines + (int64_t)d * pairs, *sn = o->sines + (int64_t)d * pairs;
    double turned = 0, rest = 0;
    for (int i = 0; i < pairs; i++) {
        int a = rope->kind == ROPE_INTERLEAVED ? 2 * i : i;
        int b = rope->kind == ROPE_INTERLEAVED ? 2 * i + 1 : i + pairs;
        turned += (q[a] * c[i] - q[b] * sn[i]) * k[a] + (q[a] * sn[i] + q[b] * c[i]) * k[b];
    }
    for (int i = rope->rotary_dim; i < s->head_dim; i++) rest += q[i] * k[i];
    double magnitude = pairs ? rope->magnitude * rope->magnitude : 1;
    double all = (double)s->attention_scale * (magnitude * turned + rest);
    return s->alibi ? all - (double)alibi_slope(head, s->n_heads) * d : all;
}

static void attend(const Oracle *o, int window) {
    const DecoderShape *s = &o->model->shape;
    int n = o->stream->n, dim = s->head_dim;
    double *weights = numbers(n);
    for (int i = 0; i < n; i++)
        for (int head = 0; head < s->n_heads; head++) {
            int64_t kv = (int64_t)head * s->n_kv_heads / s->n_heads;
            const double *q = o->q + ((int64_t)i * s->n_heads + head) * dim;
            double *y = o->y + ((int64_t)i * s->n_heads + head) * dim, most = -INFINITY, sum = 0;
            for (int j = 0; j <= i; j++) {
                int d = distance(o->stream, i, j, window);
                weights[j] =
                    d < 0 ? -INFINITY : score(o, head, q, o->k + (j * (int64_t)s->n_kv_heads + kv) * dim, d);
                if (weights[j] > most) most = weights[j];
            }
            memset(y, 0, (size_t)dim * sizeof *y);
            for (int j = 0; j <= i; j++) sum += exp(weights[j] - most);
            for (int j = 0; j <= i; j++)
                for (int e = 0; e < dim && weights[j] > -INFINITY; e++)
                    y[e] += exp(weights[j] - most) / sum * o->v[(j * (int64_t)s->n_kv_heads + kv) * dim + e];
        }
    free(weights);
}

static void feed_forward(const Oracle *o, const LayerWeights *w) {
    const DecoderShape *s = &o->model->shape;
    int n = o->stream->n;
    bool gated = w->w_gate.data != NULL;
    norm_rows(s, s->norm, &w->ffn_norm, &w->ffn_norm_bias, s->hidden_size, n, o->x, o->h);
    linear(&w->w_up, &w->b_up, o->h, n, o->u, false);
    if (gated) linear(&w->w_gate, &w->b_gate, o->h, n, o->g, false);
    for (int64_t i = 0; i < (int64_t)n * s->intermediate_size; i++)
        o->g[i] = gated ? activated(s->activation, o->g[i]) * o->u[i] : activated(s->activation, o->u[i]);
}

static void layer(const Oracle *o, int l) {
    const DecoderShape *s = &o->model->shape;
    const LayerWeights *w = &o->model->layers[l];
    int n = o->stream->n;
    norm_rows(s, s->norm, &w->attn_norm, &w->attn_norm_bias, s->hidden_size, n, o->x, o->h);
    linear(&w->wq, &w->bq, o->h, n, o->q, false);
    linear(&w->wk, &w->bk, o->h, n, o->k, false);
    linear(&w->wv, &w->bv, o->h, n, o->v, false);
    if (w->q_norm.data)
        norm_rows(s, NORM_RMS, &w->q_norm, NULL, s->head_dim, (int64_t)n * s->n_heads, o->q, o->q);
    if (w->k_norm.data)
        norm_rows(s, NORM_RMS, &w->k_norm, NULL, s->head_dim, (int64_t)n * s->n_kv_heads, o->k, o->k);
    attend(o, o->model->attention_windows[l]);
    if (s->parallel_residual) feed_forward(o, w);
    linear(&w->wo, &w->bo, o->y, n, o->x, true);
    if (!s->parallel_residual) feed_forward(o, w);
    linear(&w->w_down, &w->b_down, o->g, n, o->x, true);
}

static void embed(const Oracle *o) {
    const DecoderShape *s = &o->model->shape;
    const HeadWeights *head = &o->model->head;
    double *position = numbers(s->hidden_size);
    for (int t = 0; t < o->stream->n; t++) {
        double *x = o->x + (int64_t)t * s->hidden_size;
        row_of(&head->embedding, o->stream->ids[t], x);
        if (head->positions.data) row_of(&head->positions, t - o->stream->gone[t], position);
        for (int i = 0; i < s->hidden_size; i++) x[i] = x[i] * (double)s->embedding_scale + position[i];
    }
    if (head->embedding_norm.data)
        norm_rows(s, s->norm, &head->embedding_norm, &head->embedding_norm_bias, s->hidden_size, o->stream->n,
                  o->x, o->x);
    free(position);
}

void oracle_logits(const Model *model, const OracleStream *stream, int from, float *logits) {
    const DecoderShape *s = &model->shape;
    int64_t n = stream->n, pairs = s->rope.rotary_dim / 2, kv = n * s->n_kv_heads * s->head_dim;
    Oracle o = {.model = model,
                .stream = stream,
                .x = numbers(n * s->hidden_size),
                .h = numbers(n * s->hidden_size),
                .q = numbers(n * s->n_heads * s->head_dim),
                .k = numbers(kv),
                .v = numbers(kv),
                .y = numbers(n * s->n_heads * s->head_dim),
                .g = numbers(n * s->intermediate_size),
                .u = numbers(n * s->intermediate_size),
                .cosines = numbers(n * pairs + 1),
                .sines = numbers(n * pairs + 1)};
    for (int64_t d = 0; d < n; d++)
        for (int64_t i = 0; i < pairs; i++) {
            o.cosines[d * pairs + i] = cos((double)d * s->rope.inv_freq[i]);
            o.sines[d * pairs + i] = sin((double)d * s->rope.inv_freq[i]);
        }
    embed(&o);
    for (int l = 0; l < s->n_layers; l++) layer(&o, l);
    int64_t rows = n - from;
    double *all = numbers(rows * s->vocab_size), *last = o.x + from * (int64_t)s->hidden_size;
    norm_rows(s, s->norm, &model->head.norm, &model->head.norm_bias, s->hidden_size, rows, last, last);
    linear(&model->head.output, &model->head.output_bias, last, (int)rows, all, false);
    for (int64_t i = 0; i < rows * s->vocab_size; i++) logits[i] = (float)all[i];
    double *memory[] = {o.x, o.h, o.q, o.k, o.v, o.y, o.g, o.u, o.cosines, o.sines, all};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
}
