// Models some of whose layers recur: logits of prompts read at once, in pieces and narrowed, and of tokens behind them, op by op
// and at once, alone and beside others.
#include "tests/gpu/delta/delta_internal.h"

#include "engine/narrow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DECODED = 5 };
static const int PROMPTS[TEXTS] = {124, 33, 2};

// Logits of the prompts' last tokens, and behind each of some more, as they are read in pieces and decoded, by decode() or op
// by op: [1 + DECODED, TEXTS, vocab].
typedef struct Way {
    int piece; // tokens of a prompt in a step; 0: all
    bool narrowed, at_once;
} Way;

static void take_logits(Texts *t, const LogitRows *rows, float *to) {
    Side *s = &t->side;
    Error error;
    must(s->ops->logits(s->backend, s->head, s->x, rows, s->logits, &error), &error);
    float *own = get(s, s->logits, DTYPE_F32, (int64_t)rows->n * t->d->c.vocab);
    memcpy(to, own, (size_t)rows->n * (size_t)t->d->c.vocab * sizeof *to);
    free(own);
}

// One text's prompt at a time.
static void read_prompt(Texts *t, int text, const Way *way, float *logits) {
    Side *s = &t->side;
    static const int windows[TEST_LAYERS] = {0};
    TextStep *own = malloc(sizeof *own);
    Error error;
    for (int left = PROMPTS[text]; left > 0;) {
        const int piece = way->piece && way->piece < left ? way->piece : left;
        int n[TEXTS] = {0};
        n[text] = piece, left -= piece;
        texts_make_step(t, n, STEP_READING, own);
        const int32_t last = piece - 1, first = 0;
        Pass pass = side_pass(s, &own->step, windows);
        Narrowed narrowed;
        const bool narrows =
            way->narrowed && s->ops->narrow && narrow_step(&own->step, &(LogitRows){&last, 1}, &narrowed);
        if (narrows) pass.narrowed = &narrowed;
        must(s->ops->begin(s->backend, &own->step, kv_layer_attending(s->kv, TEST_LAYERS), &error), &error);
        must(forward_pass(&pass, &error), &error);
        take_logits(t, &(LogitRows){narrows ? &first : &last, 1}, logits);
        texts_end_step(t, n);
    }
    free(own);
}

static float *run_model(Texts *t, const Way *way) {
    Side *s = &t->side;
    const int64_t vocab = t->d->c.vocab;
    static const int windows[TEST_LAYERS] = {0}, ones[TEXTS] = {1, 1, 1};
    static const int32_t rows[TEXTS] = {0, 1, 2};
    float *logits = calloc((size_t)((1 + DECODED) * TEXTS * vocab), sizeof *logits);
    TextStep *own = malloc(sizeof *own);
    Error error;
    texts_begin(t);
    for (int i = 0; i < TEXTS; i++) read_prompt(t, i, way, logits + i * vocab);
    for (int i = 0; i < DECODED; i++) {
        float *to = logits + (1 + i) * TEXTS * vocab;
        texts_make_step(t, ones, STEP_DECODING, own);
        const Pass pass = side_pass(s, &own->step, windows);
        if (way->at_once) {
            const DecodeStep decode = side_decode(s, &own->step, &pass);
            must(s->ops->decode(s->backend, &decode, &error), &error);
            float *all = get(s, s->logits, DTYPE_F32, TEXTS * vocab);
            memcpy(to, all, (size_t)(TEXTS * vocab) * sizeof *to);
            free(all);
        } else {
            must(s->ops->begin(s->backend, &own->step, kv_layer_attending(s->kv, TEST_LAYERS), &error),
                 &error);
            must(forward_pass(&pass, &error), &error);
            take_logits(t, &(LogitRows){rows, TEXTS}, to);
        }
        texts_end_step(t, ones);
    }
    free(own);
    return logits;
}

// The same of one text by itself, each token at once, as a conversation has them: in the persistent kernel where that has code
// for the model. [1 + DECODED, vocab].
static float *run_alone(Texts *t, int text) {
    static const Way WHOLE_PROMPT = {0};
    static const int windows[TEST_LAYERS] = {0};
    Side *s = &t->side;
    const int64_t vocab = t->d->c.vocab;
    float *logits = calloc((size_t)((1 + DECODED) * vocab), sizeof *logits);
    TextStep *own = malloc(sizeof *own);
    int one[TEXTS] = {0};
    Error error;
    one[text] = 1;
    texts_begin(t);
    read_prompt(t, text, &WHOLE_PROMPT, logits);
    for (int i = 1; i <= DECODED; i++) {
        texts_make_step(t, one, STEP_ANY, own);
        const Pass pass = side_pass(s, &own->step, windows);
        const DecodeStep decode = side_decode(s, &own->step, &pass);
        must(s->ops->decode(s->backend, &decode, &error), &error);
        float *all = get(s, s->logits, DTYPE_F32, vocab);
        memcpy(logits + i * vocab, all, (size_t)vocab * sizeof *logits);
        free(all);
        texts_end_step(t, one);
    }
    free(own);
    return logits;
}

// right: run_model()'s. Twice, to the same bits: nothing of a run is left in the next.
static void expect_alone(Texts *gpu, const float *right) {
    const DeltaCase *d = gpu->d;
    const int64_t vocab = d->c.vocab, n = (1 + DECODED) * vocab;
    for (int text = 0; text < TEXTS; text++) {
        float *own = run_alone(gpu, text), *again = run_alone(gpu, text);
        float *of_text = malloc((size_t)n * sizeof *of_text);
        for (int i = 0; i <= DECODED; i++)
            memcpy(of_text + i * vocab, right + (i * TEXTS + text) * vocab, (size_t)vocab * sizeof *right);
        report(d->c.name, "alone", distance(own, of_text, n), delta_bounds(&d->c).logits);
        report(d->c.name, "alone, again", memcmp(own, again, (size_t)n * sizeof *own) != 0, 0);
        free(of_text), free(again), free(own);
    }
}

void delta_test_model(const Ops *cuda, const DeltaCase *d, const TestModel *model) {
    static const Way WAYS[] = {
        {0, false, false}, {0, false, true}, {7, false, true}, {0, true, true}, {1, true, false}};
    const int64_t n = (1 + DECODED) * TEXTS * (int64_t)d->c.vocab;
    Texts cpu, gpu;
    texts_open(&cpu, ops_cpu(), "cpu:reference", d, model);
    texts_open(&gpu, cuda, "cuda", d, model);
    float *right = run_model(&cpu, &WAYS[0]), *ours[sizeof WAYS / sizeof *WAYS];
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        ours[i] = run_model(&gpu, &WAYS[i]);
        if (i > 0 && memcmp(ours[i], ours[0], (size_t)n * sizeof **ours) != 0)
            report(d->c.name,
                   WAYS[i].narrowed ? "narrowed"
                   : WAYS[i].piece  ? "in pieces"
                                    : "at once",
                   NAN, 0);
        else
            report(d->c.name, "logits", distance(ours[i], right, n), delta_bounds(&d->c).logits);
    }
    expect_alone(&gpu, right);
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) free(ours[i]);
    free(right);
    side_close(&cpu.side), side_close(&gpu.side);
}
