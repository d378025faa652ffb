// Layers that recur, op by op against the CPU: texts in one step, in pieces, alone and beside others, bit by bit where results
// may not depend on that.
#include "tests/gpu/delta/delta_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Two texts that would write one state are refused.
static void test_taken_state(const Ops *cuda, const DeltaCase *d, const TestModel *model) {
    static const int ONE_EACH[TEXTS] = {1, 1, 0};
    Texts t;
    TextStep step;
    Error error;
    texts_open(&t, cuda, "cuda", d, model);
    texts_make_step(&t, ONE_EACH, STEP_ANY, &step);
    step.sequences[1].state_to = step.sequences[0].state_to;
    const Status status = t.side.ops->begin(t.side.backend, &step.step, &t.side.kv[1 - t.layer], &error);
    const bool refused = status == STATUS_DEVICE && strstr(error.message, "which is taken");
    report(d->c.name, "a state that is taken", refused ? 0 : NAN, 0);
    side_close(&t.side);
}

// ---- texts in any pieces ------------------------------------------------------------------------------------------

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
    texts_make_step(t, n, kind, own);
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
    texts_end_step(t, n);
    free(q), free(rows), free(own);
}

// Texts of a bit in `which`, each in its own pieces of pieces[i % 8] tokens, 0: all that is left, all of them in the same steps.
static Outcome run_texts(Texts *t, const float *x, int which, const int pieces[8], StepKind kind) {
    const DeltaRule *r = &t->d->rule;
    const int64_t n = TEXTS * TEXT * delta_width(r), floats = delta_state_floats(r);
    Outcome o = {calloc((size_t)n, sizeof *o.y), calloc((size_t)(TEXTS * floats), sizeof *o.states)};
    bool left = true;
    texts_begin(t);
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

static void test_op(const Ops *cuda, const DeltaCase *d, const TestModel *model) {
    static const int PIECES[][8] = {{1, 2, 3, 5, 0}, {70, 0}, {2, 1, 1, 30, 7, 0}, {9, 17, 8, 16, 0}};
    const Bounds bounds = delta_bounds(&d->c);
    const int64_t n = (int64_t)STEP_MOST * d->c.hidden;
    const int all = (1 << TEXTS) - 1;
    uint64_t seed = 4321;
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = random_normal(&seed);
    Texts cpu, gpu;
    texts_open(&cpu, ops_cpu(), "cpu:reference", d, model);
    texts_open(&gpu, cuda, "cuda", d, model);
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

void delta_test_ops(const Ops *cuda, const DeltaCase *d, const TestModel *model) {
    test_taken_state(cuda, d, model);
    test_op(cuda, d, model);
}
