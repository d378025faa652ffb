// qkv() of a layer that recurs (DeltaRule): its products, the convolution over them, and the states from which its sequences
// go on. A part of the work is one head of keys, then one of values, of all tokens.
#include "kernels/cpu/cpu.h"

#include <string.h>

typedef struct Delta {
    CpuBackend *cpu;
    const DeltaRule *rule;
    const Layer *layer;
    const KvLayer *kv;
    float *q, *k, *v;    // of the step's tokens, each [n_tokens, its heads, its dim]
    float *beta, *decay; // [n_tokens, n_value_heads]
    float *y;
} Delta;

// Some of the channels: those of one head.
typedef struct Channels {
    float *rows;       // the first token's
    const float *bias; // [n] of the product; NULL: none
    int64_t stride;
    int64_t first; // of all channels
    int n;
} Channels;

// bias: of all heads.
static Channels head_of(float *rows, const float *bias, int64_t n_heads, int head, int dim, int64_t before) {
    const int64_t own = (int64_t)head * dim;
    return (Channels){rows + own, bias ? bias + own : NULL, n_heads * dim, before + own, dim};
}

static float *state_at(const Delta *d, int32_t state) {
    return d->kv->states + state * delta_state_floats(d->rule);
}

// The one before the step; NULL: the text begins with it.
static const float *state_before(const Delta *d, const StepSequence *s) {
    return s->state_from < 0 ? NULL : state_at(d, s->state_from);
}

// What the sequence's next tokens will find of those before them.
static void leave_tail(const Delta *d, const StepSequence *s, const Channels *c) {
    const int64_t channels = delta_channels(d->rule);
    const int n = d->rule->taps - 1;
    for (int i = 0; i < n; i++) {
        const int t = s->n_tokens - n + i; // of the sequence's in this step
        float *kept = state_at(d, s->state_to) + i * channels + c->first;
        if (t < 0 && s->state_from < 0) { // before the text
            for (int k = 0; k < c->n; k++) kept[k] = 0;
            continue;
        }
        const float *row = t >= 0 ? c->rows + (s->first_token + t) * c->stride
                                  : state_at(d, s->state_from) + (n + t) * channels + c->first;
        for (int k = 0; k < c->n; k++) kept[k] = row[k];
    }
}

// In place, from the last token on: those before it are still what they were.
static void convolve(const Delta *d, const StepSequence *s, const Channels *c, const float *from) {
    const int64_t channels = delta_channels(d->rule);
    const int taps = d->rule->taps;
    const float *conv = d->layer->conv + c->first * taps,
                *bias = d->layer->conv_bias ? d->layer->conv_bias + c->first : NULL;
    for (int t = s->n_tokens - 1; t >= 0; t--) {
        float *row = c->rows + (s->first_token + t) * c->stride;
        for (int i = 0; i < c->n; i++) {
            float sum = conv[i * taps + taps - 1] * row[i] + (bias ? bias[i] : 0);
            for (int back = 1; back < taps; back++) {
                float before = 0;
                if (t >= back)
                    before = row[i - back * c->stride];
                else if (from)
                    before = from[(taps - 1 + t - back) * channels + c->first + i];
                sum += conv[i * taps + taps - 1 - back] * before;
            }
            row[i] = sum / (1 + expf(-sum));
        }
    }
}

static void add_bias(const StepSequence *s, const Channels *c) {
    for (int t = s->first_token; t < s->first_token + s->n_tokens && c->bias; t++)
        for (int i = 0; i < c->n; i++) c->rows[t * c->stride + i] += c->bias[i];
}

static void take_channels(const Delta *d, const StepSequence *s, const Channels *c) {
    add_bias(s, c);
    leave_tail(d, s, c);
    convolve(d, s, c, state_before(d, s));
}

// Each token's row of them to a length of `length`.
static void to_length(const StepSequence *s, const Channels *c, float length) {
    for (int t = s->first_token; t < s->first_token + s->n_tokens; t++) {
        float *row = c->rows + t * c->stride, sum = 0;
        for (int i = 0; i < c->n; i++) sum += row[i] * row[i];
        const float scale = length / sqrtf(sum + DELTA_LENGTH_EPS);
        for (int i = 0; i < c->n; i++) row[i] *= scale;
    }
}

// y [n] times silu(gate + bias), of NULL without it.
static void apply_gate(float *y, const float *gate, const float *bias, int n) {
    for (int i = 0; i < n; i++) {
        const float at = gate[i] + (bias ? bias[i] : 0);
        y[i] *= at / (1 + expf(-at));
    }
}

// y = norm(y)·silu(gate), of one head; where it adds, (y + skip·v)·silu(gate), which is normed with others'.
static void finish(const Delta *d, int head, const float *v, float *y, const float *gate) {
    const int n = d->rule->value_dim;
    for (int i = 0; i < n && d->rule->adds; i++) y[i] += d->layer->skip[head] * v[i];
    if (!d->rule->adds) d->cpu->loops->rms_norm(y, d->layer->state_norm, n, d->rule->norm_eps, y);
    const float *bias = d->layer->attn_gate_bias;
    apply_gate(y, gate, bias ? bias + (int64_t)head * n : NULL, n);
}

// Where it adds: a token's heads of values that share one of keys are normed together, if they are.
static void end_added(void *context, int64_t token, int thread) {
    const Delta *d = context;
    const int n_groups = d->rule->n_key_heads;
    const int64_t values = delta_width(d->rule), n = values / n_groups;
    float *y = d->y + token * values;
    (void)thread;
    for (int group = 0; group < n_groups && d->layer->state_norm; group++)
        d->cpu->loops->rms_norm(y + group * n, d->layer->state_norm + group * n, n, d->rule->norm_eps,
                                y + group * n);
    for (int64_t i = 0; i < values && d->rule->scale != 0; i++) y[i] *= d->rule->scale;
}

static void recur(const Delta *d, const StepSequence *s, int key_head, int head, int thread) {
    const DeltaRule *r = d->rule;
    const int64_t tails = (r->taps - 1) * delta_channels(r), size = (int64_t)r->key_dim * r->value_dim,
                  keys = (int64_t)r->n_key_heads * r->key_dim, values = delta_width(r);
    float *state = state_at(d, s->state_to) + tails + head * size;
    if (s->state_from >= 0)
        memcpy(state, state_at(d, s->state_from) + tails + head * size, (size_t)size * sizeof *state);
    else
        memset(state, 0, (size_t)size * sizeof *state);
    for (int64_t t = s->first_token; t < s->first_token + s->n_tokens; t++) {
        const int64_t key = t * keys + (int64_t)key_head * r->key_dim,
                      value = t * values + (int64_t)head * r->value_dim, rate = t * r->n_value_heads + head;
        const float decay = d->decay[rate] + d->layer->decay_bias[head];
        float softplus = decay > 20 ? decay : log1pf(expf(decay));
        if (r->adds && softplus < r->least_step) softplus = r->least_step;
        const RecurToken token = {.q = d->q + key,
                                  .k = d->k + key,
                                  .v = d->v + value,
                                  .decay = expf(-d->layer->decay_rate[head] * softplus),
                                  .beta = r->adds ? softplus : 1 / (1 + expf(-d->beta[rate])),
                                  .adds = r->adds,
                                  .key_dim = r->key_dim,
                                  .value_dim = r->value_dim,
                                  .state = state,
                                  .delta = d->cpu->deltas + (int64_t)thread * r->value_dim,
                                  .y = d->y + value};
        d->cpu->loops->recur(&token);
        finish(d, head, d->v + value, d->y + value, d->cpu->gates + value);
    }
}

// A head of keys and its queries.
static void take_keys(void *context, int64_t head, int thread) {
    const Delta *d = context;
    const DeltaRule *r = d->rule;
    const int64_t keys = (int64_t)r->n_key_heads * r->key_dim;
    const Channels q = head_of(d->q, d->layer->bq, r->n_key_heads, (int)head, r->key_dim, 0),
                   k = head_of(d->k, d->layer->bk, r->n_key_heads, (int)head, r->key_dim, keys);
    (void)thread;
    for (int i = 0; i < d->cpu->n_sequences; i++) {
        const StepSequence *s = &d->cpu->sequences[i];
        take_channels(d, s, &q), take_channels(d, s, &k);
        if (!r->adds) to_length(s, &q, 1 / sqrtf((float)r->key_dim)), to_length(s, &k, 1);
    }
}

// Then a head of values.
static void go_on(void *context, int64_t head, int thread) {
    const Delta *d = context;
    const DeltaRule *r = d->rule;
    const int64_t keys = (int64_t)r->n_key_heads * r->key_dim;
    const int key_head =
        r->keys_alternate ? (int)head % r->n_key_heads : (int)head / (r->n_value_heads / r->n_key_heads);
    const Channels v = head_of(d->v, d->layer->bv, r->n_value_heads, (int)head, r->value_dim, 2 * keys);
    for (int i = 0; i < d->cpu->n_sequences; i++) {
        take_channels(d, &d->cpu->sequences[i], &v);
        recur(d, &d->cpu->sequences[i], key_head, (int)head, thread);
    }
}

Status cpu_delta(CpuBackend *cpu, const Layer *layer, const float *x, const KvLayer *kv, float *y,
                 Error *error) {
    const LayerWeights *w = &layer->weights;
    const DeltaRule *r = &cpu->shape->delta;
    const Matrix *matrices[] = {&w->wq, &w->wk, &w->wv, &w->attn_gate, &w->w_decay, &w->w_beta};
    const int n_matrices = r->adds ? 5 : 6;
    const int64_t n = cpu->n_tokens, keys = n * r->n_key_heads * r->key_dim;
    if (!layer->decay_rate || !kv->states)
        return error_set(error, STATUS_DEVICE, "qkv: a layer that recurs, without %s",
                         kv->states ? "its weights" : "states");
    Delta d = {.cpu = cpu, .rule = r, .layer = layer, .kv = kv, .y = y};
    d.q = cpu->mixed, d.k = d.q + keys, d.v = d.k + keys;
    d.beta = cpu->rates, d.decay = d.beta + n * r->n_value_heads;
    const Activations h =
        cpu_normed(cpu, &(NormedRows){x, NULL, n, layer->attn_norm, false}, matrices, n_matrices);
    float *const products[] = {d.q, d.k, d.v, cpu->gates, d.decay, d.beta};
    for (int i = 0; i < n_matrices; i++) cpu_multiply(cpu, matrices[i], &h, products[i]);
    threads_run(cpu->threads, r->n_key_heads, take_keys, &d);
    threads_run(cpu->threads, r->n_value_heads, go_on, &d);
    if (r->adds) threads_run(cpu->threads, n, end_added, &d);
    return STATUS_OK;
}
