// Layers that recur: op by op against the CPU, and whole models; texts in one step, in pieces, alone and beside others, bit by
// bit where results may not depend on that.
#include "tests/gpu/delta/delta.h"

#include "engine/narrow.h"
#include "kernels/cpu/loops/quant.h"
#include "tests/gpu/model/side.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 3, TEXT = 130, PAGE = 256, STEP_MOST = TEXTS * TEXT };

typedef struct DeltaCase {
    Case c;
    DeltaRule rule;
} DeltaCase;

// One text's place: two states in turns, a page of slots.
typedef struct Place {
    int done; // tokens that were read
    int32_t state;
} Place;

typedef struct Texts {
    const DeltaCase *d;
    Side side;
    Place places[TEXTS];
    int layer; // that recurs, of what is done op by op
} Texts;

// Texts begin again.
static void begin_texts(Texts *t) {
    int32_t none[TEXTS * PAGE];
    Error error;
    for (int i = 0; i < TEXTS; i++) t->places[i] = (Place){0, -1};
    memset(none, 0xff, sizeof none);
    must(t->side.ops->write(t->side.backend, t->side.slot_positions, none, sizeof none, &error), &error);
}

static void open_texts(Texts *t, const Ops *ops, const char *device, const DeltaCase *d,
                       const TestModel *model) {
    *t = (Texts){.d = d};
    side_open(&t->side, ops, device, &d->c, model, TEXTS * PAGE);
    for (t->layer = 0; !(d->c.recurs >> t->layer & 1);) t->layer++;
    begin_texts(t);
}

// A step of the next n[i] tokens of each text, and what it is told by.
typedef struct TextStep {
    Step step;
    int32_t ids[STEP_MOST], positions[STEP_MOST], slots[STEP_MOST], pages[TEXTS];
    StepSequence sequences[TEXTS];
    int text_of[TEXTS];
} TextStep;

static void make_step(Texts *t, const int n[TEXTS], StepKind kind, TextStep *to) {
    int tokens = 0, some = 0;
    for (int i = 0; i < TEXTS; i++) {
        Place *p = &t->places[i];
        if (n[i] == 0) continue;
        const int32_t next = 2 * i + (p->state == 2 * i);
        to->pages[i] = i * PAGE, to->text_of[some] = i;
        to->sequences[some++] = (StepSequence){.first_token = tokens,
                                               .n_tokens = n[i],
                                               .n_slots = p->done + n[i],
                                               .pages = &to->pages[i],
                                               .in_order = true,
                                               .state_from = p->state,
                                               .state_to = next};
        for (int k = 0; k < n[i]; k++, tokens++) {
            const int at = p->done + k;
            to->ids[tokens] = (i * 7919 + at * 104729 + 3) % t->d->c.vocab;
            to->positions[tokens] = at, to->slots[tokens] = i * PAGE + at;
        }
        p->state = next;
    }
    to->step = (Step){
        tokens, some, to->ids, to->positions, to->slots, to->sequences, PAGE, t->side.slot_positions, kind};
}

static void end_step(Texts *t, const int n[TEXTS]) {
    for (int i = 0; i < TEXTS; i++) t->places[i].done += n[i];
}

// Two texts that would write one state are refused.
static void test_taken_state(const Ops *cuda, const DeltaCase *d, const TestModel *model) {
    static const int ONE_EACH[TEXTS] = {1, 1, 0};
    Texts t;
    TextStep step;
    Error error;
    open_texts(&t, cuda, "cuda", d, model);
    make_step(&t, ONE_EACH, STEP_ANY, &step);
    step.sequences[1].state_to = step.sequences[0].state_to;
    const Status status = t.side.ops->begin(t.side.backend, &step.step, &t.side.kv[1 - t.layer], &error);
    const bool refused = status == STATUS_DEVICE && strstr(error.message, "which is taken");
    report(d->c.name, "a state that is taken", refused ? 0 : NAN, 0);
    side_close(&t.side);
}

// ---- op by op ----------------------------------------------------------------------------------------------------

// What comes of texts, x [TEXTS, TEXT, hidden]: y [TEXTS, TEXT, width], zeros where no step was, and the states behind.
typedef struct Outcome {
    float *y, *states;
} Outcome;

static void free_outcome(Outcome *o) {
    free(o->y), free(o->states);
}

static void run_step(Texts *t, const float *x, const int n[TEXTS], StepKind kind, float *y) {
    Side *s = &t->side;
    const int64_t hidden = t->d->c.hidden, width = delta_width(&t->d->rule);
    TextStep *own = malloc(sizeof *own);
    float *rows = malloc(STEP_MOST * (size_t)hidden * sizeof *rows);
    Error error;
    make_step(t, n, kind, own);
    for (int i = 0; i < own->step.n_sequences; i++) {
        const StepSequence *q = &own->sequences[i];
        memcpy(rows + q->first_token * hidden,
               x + (own->text_of[i] * TEXT + t->places[own->text_of[i]].done) * hidden,
               (size_t)(q->n_tokens * hidden) * sizeof *rows);
    }
    must(s->ops->write(s->backend, s->x, rows, (size_t)(own->step.n_tokens * hidden) * sizeof *rows, &error),
         &error);
    must(s->ops->begin(s->backend, &own->step, &s->kv[1 - t->layer], &error), &error);
    must(s->ops->qkv(s->backend, s->layers[t->layer], s->x, &s->kv[t->layer], s->q, &error), &error);
    must(s->ops->attend(s->backend, s->q, &s->kv[t->layer], 0, s->q, &error), &error);
    float *q = get(s, s->q, s->operand, own->step.n_tokens * width);
    for (int i = 0; i < own->step.n_sequences; i++)
        memcpy(y + (own->text_of[i] * TEXT + t->places[own->text_of[i]].done) * width,
               q + own->sequences[i].first_token * width,
               (size_t)(own->sequences[i].n_tokens * width) * sizeof *y);
    end_step(t, n);
    free(q), free(rows), free(own);
}

// Texts of a bit in `which`, each in its own pieces of pieces[i % 8] tokens, 0: all that is left, all of them in the same steps.
static Outcome run_texts(Texts *t, const float *x, int which, const int pieces[8], StepKind kind) {
    const DeltaRule *r = &t->d->rule;
    const int64_t n = TEXTS * TEXT * delta_width(r), floats = delta_state_floats(r);
    Outcome o = {calloc((size_t)n, sizeof *o.y), calloc((size_t)(TEXTS * floats), sizeof *o.states)};
    bool left = true;
    begin_texts(t);
    for (int turn = 0; left; turn++) {
        int take[TEXTS];
        left = false;
        for (int i = 0; i < TEXTS; i++) {
            const int rest = which >> i & 1 ? TEXT - t->places[i].done : 0, piece = pieces[(turn + i) % 8];
            take[i] = piece && piece < rest ? piece : rest;
            left = left || take[i] < rest;
        }
        run_step(t, x, take, kind, o.y);
    }
    for (int i = 0; i < TEXTS; i++) {
        if (!(which >> i & 1)) continue;
        float *own =
            get(&t->side, t->side.kv[t->layer].states + t->places[i].state * floats, DTYPE_F32, floats);
        memcpy(o.states + i * floats, own, (size_t)floats * sizeof *own);
        free(own);
    }
    check_sentinel(t->d->c.name, t->side.ops, t->side.backend, t->side.q, t->side.sizes[1]);
    check_sentinel(t->d->c.name, t->side.ops, t->side.backend, t->side.states,
                   TEST_LAYERS * SIDE_STATES * (size_t)floats * sizeof(float));
    return o;
}

// Texts of a bit in `which` are bit by bit what they are in the other outcome.
static void expect_same(const DeltaCase *d, const char *what, const Outcome *o, const Outcome *other,
                        int which) {
    const int64_t n = TEXT * delta_width(&d->rule), floats = delta_state_floats(&d->rule);
    int wrong = 0;
    for (int i = 0; i < TEXTS; i++) {
        if (!(which >> i & 1)) continue;
        wrong += memcmp(o->y + i * n, other->y + i * n, (size_t)n * sizeof *o->y) != 0;
        wrong += memcmp(o->states + i * floats, other->states + i * floats,
                        (size_t)floats * sizeof *o->states) != 0;
    }
    report(d->c.name, what, wrong, 0);
}

static void expect_near(const DeltaCase *d, const char *what, const Outcome *o, const Outcome *right,
                        double bound) {
    char states[60];
    snprintf(states, sizeof states, "%s, states", what);
    report(d->c.name, what, distance(o->y, right->y, TEXTS * TEXT * delta_width(&d->rule)), bound);
    report(d->c.name, states, distance(o->states, right->states, TEXTS * delta_state_floats(&d->rule)),
           bound);
}

// The same of one text.
static void expect_text_near(const DeltaCase *d, const char *what, const Outcome *o, const Outcome *right,
                             int text, double bound) {
    const int64_t n = TEXT * delta_width(&d->rule), floats = delta_state_floats(&d->rule);
    char states[60];
    snprintf(states, sizeof states, "%s, states", what);
    report(d->c.name, what, distance(o->y + text * n, right->y + text * n, n), bound);
    report(d->c.name, states, distance(o->states + text * floats, right->states + text * floats, floats),
           bound);
}

static const int WHOLE[8] = {0}, ONES[8] = {1, 1, 1, 1, 1, 1, 1, 1};

// Of y and of states, read and decoded, by what inputs are rounded to: of one of 16 bits y is by 4e-4 another, in bf16 by 4e-3, and
// by 1.3e-2 where a row of it becomes integers of 8 bits (of normal numbers, heads of 8 to 128, 75 tokens).
typedef struct Bounds {
    double reading, decoding, logits;
} Bounds;

static Bounds bounds_of(const Case *c) {
    const bool integers = quant_is_type(c->type) || c->type == DTYPE_NF4;
    if (c->type == DTYPE_W8) return (Bounds){2e-2, 2e-2, 6e-2};
    if (c->type == DTYPE_F32) return (Bounds){2e-4, 2e-4, 4e-4};
    if (c->type == DTYPE_BF16) return (Bounds){1.2e-2, 1.2e-2, 2e-2};
    return integers ? (Bounds){3e-3, 3e-2, 6e-2} : (Bounds){3e-3, 3e-3, 6e-3};
}

static void test_op(const Ops *cuda, const DeltaCase *d, const TestModel *model) {
    static const int PIECES[][8] = {{1, 2, 3, 5, 0}, {70, 0}, {2, 1, 1, 30, 7, 0}, {9, 17, 8, 16, 0}};
    const Bounds bounds = bounds_of(&d->c);
    const int64_t n = (int64_t)STEP_MOST * d->c.hidden;
    const int all = (1 << TEXTS) - 1;
    uint64_t seed = 4321;
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = random_normal(&seed);
    Texts cpu, gpu;
    open_texts(&cpu, ops_cpu(), "cpu:reference", d, model);
    open_texts(&gpu, cuda, "cuda", d, model);
    Outcome right = run_texts(&cpu, x, all, WHOLE, STEP_READING),
            whole = run_texts(&gpu, x, all, WHOLE, STEP_READING);
    expect_near(d, "read", &whole, &right, bounds.reading);
    for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++) {
        Outcome cut = run_texts(&gpu, x, all, PIECES[i], STEP_READING);
        expect_same(d, "read in pieces", &cut, &whole, all);
        free_outcome(&cut);
    }
    for (int i = 0; i < TEXTS; i++) {
        Outcome alone = run_texts(&gpu, x, 1 << i, i ? WHOLE : ONES, STEP_READING);
        expect_same(d, "read alone", &alone, &whole, 1 << i);
        free_outcome(&alone);
    }
    Outcome any = run_texts(&gpu, x, all, PIECES[0], STEP_ANY),
            ones = run_texts(&gpu, x, all, ONES, STEP_DECODING);
    expect_near(d, "any kind", &any, &right, bounds.decoding);
    expect_near(d, "decoded", &ones, &right, bounds.decoding);
    for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++) { // long pieces of one text go in chunks
        Outcome chunks = run_texts(&gpu, x, 1 << i % TEXTS, i == 0 ? WHOLE : PIECES[i], STEP_ANY);
        expect_text_near(d, "any kind, alone", &chunks, &right, (int)i % TEXTS, bounds.decoding);
        free_outcome(&chunks);
    }
    Outcome alone = run_texts(&gpu, x, 2, ONES, STEP_DECODING);
    expect_same(d, "decoded alone", &alone, &ones, 2);
    Outcome *outcomes[] = {&right, &whole, &any, &ones, &alone};
    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++) free_outcome(outcomes[i]);
    side_close(&cpu.side), side_close(&gpu.side);
    free(x);
}

// ---- whole models --------------------------------------------------------------------------------------------------

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
        make_step(t, n, STEP_READING, own);
        const int32_t last = piece - 1, first = 0;
        Pass pass = side_pass(s, &own->step, windows);
        Narrowed narrowed;
        const bool narrows =
            way->narrowed && s->ops->narrow && narrow_step(&own->step, &(LogitRows){&last, 1}, &narrowed);
        if (narrows) pass.narrowed = &narrowed;
        must(s->ops->begin(s->backend, &own->step, kv_layer_attending(s->kv, TEST_LAYERS), &error), &error);
        must(forward_pass(&pass, &error), &error);
        take_logits(t, &(LogitRows){narrows ? &first : &last, 1}, logits);
        end_step(t, n);
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
    begin_texts(t);
    for (int i = 0; i < TEXTS; i++) read_prompt(t, i, way, logits + i * vocab);
    for (int i = 0; i < DECODED; i++) {
        float *to = logits + (1 + i) * TEXTS * vocab;
        make_step(t, ones, STEP_DECODING, own);
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
        end_step(t, ones);
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
    begin_texts(t);
    read_prompt(t, text, &WHOLE_PROMPT, logits);
    for (int i = 1; i <= DECODED; i++) {
        make_step(t, one, STEP_ANY, own);
        const Pass pass = side_pass(s, &own->step, windows);
        const DecodeStep decode = side_decode(s, &own->step, &pass);
        must(s->ops->decode(s->backend, &decode, &error), &error);
        float *all = get(s, s->logits, DTYPE_F32, vocab);
        memcpy(logits + i * vocab, all, (size_t)vocab * sizeof *logits);
        free(all);
        end_step(t, one);
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
        report(d->c.name, "alone", distance(own, of_text, n), bounds_of(&d->c).logits);
        report(d->c.name, "alone, again", memcmp(own, again, (size_t)n * sizeof *own) != 0, 0);
        free(of_text), free(again), free(own);
    }
}

static void test_model(const Ops *cuda, const DeltaCase *d, const TestModel *model) {
    static const Way WAYS[] = {
        {0, false, false}, {0, false, true}, {7, false, true}, {0, true, true}, {1, true, false}};
    const int64_t n = (1 + DECODED) * TEXTS * (int64_t)d->c.vocab;
    Texts cpu, gpu;
    open_texts(&cpu, ops_cpu(), "cpu:reference", d, model);
    open_texts(&gpu, cuda, "cuda", d, model);
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
            report(d->c.name, "logits", distance(ours[i], right, n), bounds_of(&d->c).logits);
    }
    expect_alone(&gpu, right);
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) free(ours[i]);
    free(right);
    side_close(&cpu.side), side_close(&gpu.side);
}

// ---- the cases -----------------------------------------------------------------------------------------------------

#define MODEL .n_tokens = STEP_MOST, .qk_norm = true, .gate = true
static const DeltaCase CASES[] = {
    {{"delta: f32, heads of 8", DTYPE_F32, 64, 4, 2, 16, 96, 257, MODEL, .recurs = 1, .kv = DTYPE_F32},
     {2, 2, 8, 8, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: f32, in turns, last", DTYPE_F32, 64, 4, 2, 16, 96, 257, MODEL, .recurs = 2, .kv = DTYPE_F32},
     {2, 4, 16, 24, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: f32, four for a key", DTYPE_F32, 64, 4, 2, 16, 96, 257, MODEL, .recurs = 3, .kv = DTYPE_F32},
     {1, 4, 32, 16, 3, false, false, 3e-3f, 0, 0}},
    {{"delta: f32, one tap", DTYPE_F32, 64, 4, 2, 16, 96, 257, MODEL, .recurs = 1, .kv = DTYPE_F32},
     {2, 4, 24, 32, 1, true, false, 3e-3f, 0, 0}},
    {{"delta: f32, eight taps", DTYPE_F32, 72, 4, 2, 16, 96, 257, MODEL, .recurs = 1, .kv = DTYPE_F32},
     {3, 6, 40, 40, 8, false, false, 3e-3f, 0, 0}},
    {{"delta: f32, heads of 128", DTYPE_F32, 128, 4, 2, 32, 96, 257, MODEL, .recurs = 1, .kv = DTYPE_F32},
     {2, 4, 128, 128, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: f32, heads of 64", DTYPE_F32, 128, 4, 2, 32, 96, 257, MODEL, .recurs = 3, .kv = DTYPE_F32},
     {2, 8, 64, 64, 2, false, false, 3e-3f, 0, 0}},
    {{"delta: f32, heads of 256", DTYPE_F32, 128, 4, 2, 32, 96, 257, MODEL, .recurs = 2, .kv = DTYPE_F32},
     {1, 2, 256, 136, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: f32, adds", DTYPE_F32, 64, 4, 2, 16, 96, 257, MODEL, .recurs = 1, .kv = DTYPE_F32},
     {2, 6, 32, 24, 4, false, true, 3e-3f, 0, 0}},
    {{"delta: f32, adds, last", DTYPE_F32, 128, 4, 2, 32, 96, 257, MODEL, .recurs = 2, .kv = DTYPE_F32},
     {1, 12, 128, 64, 4, false, true, 3e-3f, 0.6f, 0.7f}},
    {{"delta: bf16, adds, rates in f32", DTYPE_BF16, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 3,
      .kv = DTYPE_F16, .float_rates = true},
     {2, 8, 128, 64, 4, false, true, 3e-3f, 0, 0}},
    {{"delta: q8_0, adds", DTYPE_Q8_0, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16},
     {1, 8, 64, 64, 4, false, true, 3e-3f, 0, 0}},
    {{"delta: f16", DTYPE_F16, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16},
     {4, 8, 64, 64, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: bf16, last", DTYPE_BF16, 256, 4, 1, 64, 320, 301, MODEL, .recurs = 2, .kv = DTYPE_F16},
     {4, 8, 128, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: bf16, rates in f32", DTYPE_BF16, 256, 4, 1, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16,
      .float_rates = true},
     {2, 4, 32, 32, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: f16, experts", DTYPE_F16, 256, 4, 1, 64, 96, 301, MODEL, .recurs = 3, .kv = DTYPE_F16,
      .n_experts = 8, .n_active = 2, .router = 1, .shared = 96, .routed = true},
     {2, 4, 64, 64, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: q4_0", DTYPE_Q4_0, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16},
     {2, 4, 64, 64, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: q8_0, rates in f16, last", DTYPE_Q8_0, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 2,
      .kv = DTYPE_F16, .rate_type = DTYPE_F16},
     {2, 6, 64, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: q4_k and q6_k, rates in f32", DTYPE_Q4_K, 512, 4, 2, 64, 512, 301, MODEL, .recurs = 1,
      .kv = DTYPE_F16, .v_type = DTYPE_Q6_K, .float_rates = true},
     {4, 8, 128, 128, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: e4m3, rates in bf16", DTYPE_E4M3, 512, 4, 2, 64, 512, 301, MODEL, .recurs = 1, .kv = DTYPE_F16,
      .rate_type = DTYPE_BF16},
     {2, 4, 128, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: bf16, attending heads of 256", DTYPE_BF16, 512, 4, 1, 256, 640, 301, MODEL, .recurs = 1,
      .kv = DTYPE_F16},
     {2, 4, 128, 128, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: q4_0, attending heads of 256, last", DTYPE_Q4_0, 512, 4, 2, 256, 640, 301, MODEL, .recurs = 2,
      .kv = DTYPE_F16},
     {2, 8, 64, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: f16, adds, one head of keys", DTYPE_F16, 256, 4, 1, 64, 320, 301, MODEL, .recurs = 1,
      .kv = DTYPE_F16},
     {1, 16, 128, 32, 4, false, true, 3e-3f, 0, 0}},
    {{"delta: w8, adds", DTYPE_W8, 256, 4, 1, 64, 320, 301, MODEL, .recurs = 2, .kv = DTYPE_F16},
     {1, 8, 128, 64, 4, false, true, 3e-3f, 0, 0}},
    {{"delta: bf16, more heads than blocks", DTYPE_BF16, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 1,
      .kv = DTYPE_F16},
     {2, 148, 16, 16, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: w8", DTYPE_W8, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16},
     {2, 4, 64, 64, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: w8, rates in f16, last", DTYPE_W8, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 2, .kv = DTYPE_F16,
      .rate_type = DTYPE_F16},
     {3, 6, 64, 64, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: bf16, experts, attending heads of 256", DTYPE_BF16, 512, 4, 1, 256, 96, 301, MODEL, .recurs = 1,
      .kv = DTYPE_F16, .n_experts = 12, .n_active = 3, .router = 1, .shared = 96, .routed = true},
     {2, 4, 128, 128, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: q4_0, experts, attending heads of 256, last", DTYPE_Q4_0, 512, 4, 2, 256, 160, 301, MODEL,
      .recurs = 2, .kv = DTYPE_F16, .n_experts = 40, .n_active = 8, .router = 1, .rate_type = DTYPE_F16},
     {2, 8, 64, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: q4_k and q6_k, 256 experts, attending heads of 256", DTYPE_Q4_K, 512, 16, 2, 256, 256, 301,
      MODEL, .recurs = 1, .kv = DTYPE_F16, .v_type = DTYPE_Q6_K, .down_type = DTYPE_Q6_K, .n_experts = 256,
      .n_active = 8, .router = 1, .shared = 256, .routed = true, .float_rates = true},
     {4, 8, 128, 128, 4, false, false, 3e-3f, 0, 0}},
};

void test_delta(const Ops *cuda, const char *only) {
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        if (only && strcmp(only, "delta") != 0 && !strstr(CASES[i].c.name, only)) continue;
        DeltaCase d = CASES[i];
        TestModel model;
        d.c.delta = &d.rule;
        model_fill(&model, &d.c, 1234);
        test_taken_state(cuda, &d, &model);
        test_op(cuda, &d, &model);
        test_model(cuda, &d, &model);
        model_free(&model);
        fflush(stdout);
    }
}
