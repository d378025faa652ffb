#include "tests/support/ahead.h"

#include "engine/engine_internal.h"

#include <string.h>

enum { MOST_ROWS = 64 };

static Ops ops;
static AheadCounts counts;
static int32_t drawn[MOST_ROWS];
static int n_drawn;
static bool drawing;
static int fails = -1; // in this row

static Status begin_draw(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                         Error *error) {
    drawing = true;
    n_drawn = n_rows;
    Status status = ops_cpu()->sample(backend, logits, n_rows, params, drawn, error);
    if (fails >= 0 && fails < n_rows) drawn[fails] = SAMPLE_NAN;
    fails = -1;
    return status;
}

static Status draw(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                   int32_t *ids, Error *error) {
    Status status = ops_cpu()->sample(backend, logits, n_rows, params, ids, error);
    if (fails >= 0 && fails < n_rows) ids[fails] = SAMPLE_NAN;
    fails = -1;
    return status;
}

static Status end_draw(Backend *backend, int32_t *ids, Error *error) {
    (void)backend, (void)error;
    drawing = false;
    memcpy(ids, drawn, (size_t)n_drawn * sizeof *ids);
    return STATUS_OK;
}

static Status decode(Backend *backend, const DecodeStep *t, Error *error) {
    int32_t ids[MOST_ROWS];
    Step step = *t->step;
    bool ahead = false;
    if (step.n_tokens > MOST_ROWS) return STATUS_UNSUPPORTED;
    for (int i = 0; i < step.n_tokens; i++) {
        bool row = t->drawn && t->drawn[i] >= 0;
        ids[i] = !row ? step.ids[i] : drawn[t->drawn[i]] < 0 ? 0 : drawn[t->drawn[i]];
        ahead = ahead || row;
    }
    step.ids = ids;
    counts.steps++;
    counts.ahead += ahead;
    counts.before_end += drawing;
    PassBuffers buffers = ((const Pass *)t->context)->buffers;
    buffers.logits = t->logits;
    Status status = ops_cpu()->begin(backend, &step, t->kv, error);
    return status ? status : t->pass(t->context, &buffers, error);
}

void ahead_install(Engine *engine, bool steps_ahead) {
    ops = *ops_cpu();
    ops.sample = draw;
    ops.sample_begin = begin_draw;
    ops.sample_end = end_draw;
    ops.decode = decode;
    engine->backend->ops = &ops;
    engine->no_steps_ahead = !steps_ahead;
    counts = (AheadCounts){0};
}

AheadCounts ahead_counts(void) {
    return counts;
}

void ahead_fail_once(void) {
    ahead_fail_in_row(0);
}

void ahead_fail_in_row(int row) {
    fails = row;
}
