#include "tests/gpu/rows/narrow.h"

#include "engine/narrow.h"

#include <stdlib.h>

enum { MOST = 3 };

// Of the last sequence two, of one before it another.
static int choose(const Step *step, int32_t tokens[MOST]) {
    const StepSequence *last = &step->sequences[step->n_sequences - 1];
    int n = 0;
    if (step->n_sequences > 1) tokens[n++] = step->sequences[0].n_tokens - 1;
    for (int i = last->n_tokens > 2 ? 2 : 1; i > 0; i--) tokens[n++] = step->n_tokens - i;
    return n;
}

// The logits of the rows, [rows->n, vocab].
static float *logits_of(const NarrowCase *c, const Narrowed *narrowed, const LogitRows *rows) {
    Side *s = c->side;
    Error error;
    Pass pass = side_pass(s, c->step, c->windows);
    pass.narrowed = narrowed;
    must(s->ops->begin(s->backend, c->step, s->kv, &error), &error);
    must(forward_pass(&pass, &error), &error);
    must(s->ops->logits(s->backend, s->head, s->x, rows, s->logits, &error), &error);
    return get(s, s->logits, DTYPE_F32, (int64_t)rows->n * c->vocab);
}

void test_narrow(const NarrowCase *c) {
    int32_t tokens[MOST];
    const int n = choose(c->step, tokens);
    Narrowed narrowed;
    if (!c->side->ops->narrow || !narrow_step(c->step, &(LogitRows){tokens, n}, &narrowed)) return;
    float *whole = logits_of(c, NULL, &(LogitRows){tokens, n}),
          *ours = logits_of(c, &narrowed, &(LogitRows){NULL, n});
    report(c->name, "narrowed", distance(ours, whole, (int64_t)n * c->vocab), c->bound);
    check_sentinel(c->name, c->side->ops, c->side->backend, c->side->x, c->side->sizes[0]);
    check_sentinel(c->name, c->side->ops, c->side->backend, c->side->q, c->side->sizes[1]);
    free(whole);
    free(ours);
}
