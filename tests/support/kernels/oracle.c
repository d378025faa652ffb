#include "tests/support/kernels/oracle.h"
#include "kernels/alibi.h"
#include "kernels/cpu/loops/quant.h"
#include "kernels/temperature.h"

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
    case ACTIVATION_RELU2:
        return x > 0 ? x * x : 0;
    case ACTIVATION_SILU:
    case ACTIVATION_CLAMPED_SWIGLU:
    case ACTIVATION_XIELU:
        break;
    }
    return x / (1 + exp(-x));
}

static double xielu(const Xielu *by, double x) {
    const double linear = (double)by->beta * x;
    return x > 0 ? (double)by->alpha_p * x * x + linear
                 : (double)by->alpha_n * (expm1(fmin(x, (double)by->eps)) - x) + linear;
}

// How far query i is from key j; -1: it does not see it.
static int distance(const OracleStream *s, int i, int j, int window) {
    int d = j < s->keep ? i - s->gone[i] - j : i - j;
    if (j > i || (j >= s->keep && j < s->keep + s->gone[i]) || (window > 0 && d >= window)) return -1;
    return d;
}

// attention_scale · q·k, the query turned by the distance as layer l does, capped, less ALiBi's share.
static double score(const Oracle *o, int l, int head, const double *q, const double *k, int d) {
    const DecoderShape *s = &o->model->shape;
    const Rope *rope = &s->rope;
    const int table = rope->of_layers ? rope->of_layers[l] : 0;
    int pairs = table < 0 ? 0 : rope->rotary_dim / 2;
    int64_t at = ((int64_t)table * o->stream->n + d) * pairs;
    const double *c = o->cosines + at, *sn = o->sines + at;
    double turned = 0, rest = 0;
    for (int i = 0; i < pairs; i++) {
        int a = rope->kind == ROPE_INTERLEAVED ? 2 * i : i;
        int b = rope->kind == ROPE_INTERLEAVED ? 2 * i + 1 : i + pairs;
        turned += (q[a] * c[i] - q[b] * sn[i]) * k[a] + (q[a] * sn[i] + q[b] * c[i]) * k[b];
    }
    for (int i = 2 * pairs; i < s->head_dim; i++) rest += q[i] * k[i];
    double magnitude = table == 1 ? rope->other_magnitude : rope->magnitude;
    double all = (double)s->attention_scale * (magnitude * magnitude * turned + rest);
    if (s->attention_cap > 0) all = (double)s->attention_cap * tanh(all / (double)s->attention_cap);
    return s->alibi ? all - (double)alibi_slope(head, s->n_heads) * d : all;
}

static void attend(const Oracle *o, int l) {
    const DecoderShape *s = &o->model->shape;
    int n = o->stream->n, dim = s->head_dim, window = o->model->attention_windows[l];
    double *weights = numbers(n), *sharp = numbers(dim);
    for (int i = 0; i < n; i++)
        for (int head = 0; head < s->n_heads; head++) {
            int64_t kv = (int64_t)head * s->n_kv_heads / s->n_heads;
            const double *q = o->q + ((int64_t)i * s->n_heads + head) * dim;
            const double t = (double)query_temperature(s, i - o->stream->gone[i]);
            for (int e = 0; e < dim; e++) sharp[e] = t * q[e];
            double *y = o->y + ((int64_t)i * s->n_heads + head) * dim, most = -INFINITY, sum = 0;
            for (int j = 0; j <= i; j++) {
                int d = distance(o->stream, i, j, window);
                const double *k = o->k + (j * (int64_t)s->n_kv_heads + kv) * dim;
                weights[j] = d < 0 ? -INFINITY : score(o, l, head, sharp, k, d);
                if (weights[j] > most) most = weights[j];
            }
            memset(y, 0, (size_t)dim * sizeof *y);
            for (int j = 0; j <= i; j++) sum += exp(weights[j] - most);
            for (int j = 0; j <= i; j++)
                for (int e = 0; e < dim && weights[j] > -INFINITY; e++)
                    y[e] += exp(weights[j] - most) / sum * o->v[(j * (int64_t)s->n_kv_heads + kv) * dim + e];
        }
    free(sharp);
    free(weights);
}

// h = norm(x), or x where there is no norm.
static void norm_or_copy(const Oracle *o, const Matrix *weight, const Matrix *bias) {
    const DecoderShape *s = &o->model->shape;
    if (weight->data)
        norm_rows(s, s->norm, weight, bias, s->hidden_size, o->stream->n, o->x, o->h);
    else
        memcpy(o->h, o->x, (size_t)o->stream->n * (size_t)s->hidden_size * sizeof *o->h);
}

// x += norm(W·y + b), without a norm W·y + b.
static void add(const Oracle *o, const Matrix *weight, const Matrix *bias, const Matrix *norm,
                const double *y) {
    const DecoderShape *s = &o->model->shape;
    const int n = o->stream->n;
    linear(weight, bias, y, n, norm->data ? o->h : o->x, !norm->data);
    if (!norm->data) return;
    norm_rows(s, s->norm, norm, NULL, s->hidden_size, n, o->h, o->h);
    for (int64_t i = 0; i < (int64_t)n * s->hidden_size; i++) o->x[i] += o->h[i];
}

static void feed_forward(const Oracle *o, const LayerWeights *w) {
    const DecoderShape *s = &o->model->shape;
    int n = o->stream->n;
    bool gated = w->w_gate.data != NULL;
    norm_or_copy(o, &w->ffn_norm, &w->ffn_norm_bias);
    linear(&w->w_up, &w->b_up, o->h, n, o->u, false);
    if (gated) linear(&w->w_gate, &w->b_gate, o->h, n, o->g, false);
    for (int64_t i = 0; i < (int64_t)n * s->intermediate_size; i++)
        o->g[i] = gated                               ? activated(s->activation, o->g[i]) * o->u[i]
                  : s->activation == ACTIVATION_XIELU ? xielu(&w->xielu, o->u[i])
                                                      : activated(s->activation, o->u[i]);
}

static void layer(const Oracle *o, int l) {
    const DecoderShape *s = &o->model->shape;
    const LayerWeights *w = &o->model->layers[l];
    const int64_t q_width = (int64_t)s->n_heads * s->head_dim, k_width = (int64_t)s->n_kv_heads * s->head_dim;
    int n = o->stream->n;
    norm_or_copy(o, &w->attn_norm, &w->attn_norm_bias);
    linear(&w->wq, &w->bq, o->h, n, o->q, false);
    linear(&w->wk, &w->bk, o->h, n, o->k, false);
    linear(&w->wv, &w->bv, o->h, n, o->v, false);
    if (w->q_norm.data)
        norm_rows(s, NORM_RMS, &w->q_norm, NULL, w->q_norm.cols, n * q_width / w->q_norm.cols, o->q, o->q);
    if (w->k_norm.data)
        norm_rows(s, NORM_RMS, &w->k_norm, NULL, w->k_norm.cols, n * k_width / w->k_norm.cols, o->k, o->k);
    attend(o, l);
    if (s->parallel_residual) feed_forward(o, w);
    add(o, &w->wo, &w->bo, &w->attn_post_norm, o->y);
    if (!s->parallel_residual) feed_forward(o, w);
    add(o, &w->w_down, &w->b_down, &w->ffn_post_norm, o->g);
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
    int64_t n = stream->n, pairs = s->rope.rotary_dim / 2, kv = n * s->n_kv_heads * s->head_dim,
            tables = rope_tables(&s->rope);
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
                .cosines = numbers(tables * n * pairs + 1),
                .sines = numbers(tables * n * pairs + 1)};
    for (int64_t at = 0; at < tables * n; at++)
        for (int64_t i = 0; i < pairs; i++) {
            double angle = (double)(at % n) * s->rope.inv_freq[at / n * rope_sets(&s->rope) * pairs + i];
            o.cosines[at * pairs + i] = cos(angle);
            o.sines[at * pairs + i] = sin(angle);
        }
    embed(&o);
    for (int l = 0; l < s->n_layers; l++) layer(&o, l);
    int64_t rows = n - from;
    double *all = numbers(rows * s->vocab_size), *last = o.x + from * (int64_t)s->hidden_size;
    norm_rows(s, s->norm, &model->head.norm, &model->head.norm_bias, s->hidden_size, rows, last, last);
    linear(&model->head.output, &model->head.output_bias, last, (int)rows, all, false);
    const double scale = s->logit_scale != 0 ? (double)s->logit_scale : 1, cap = (double)s->logit_cap;
    for (int64_t i = 0; i < rows * s->vocab_size; i++)
        logits[i] =
            (float)(cap > 0 ? cap * tanh(all[i] * scale / cap) : all[i] * scale); // no bias beside a scale
    double *memory[] = {o.x, o.h, o.q, o.k, o.v, o.y, o.g, o.u, o.cosines, o.sines, all};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
}
