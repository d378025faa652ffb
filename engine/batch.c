#include "engine/batch.h"

#include "engine/engine_internal.h"
#include "engine/session_step.h"

#include <stdlib.h>

struct Batch {
    Engine *engine;
    const atomic_int *interrupt;
    int32_t *ids, *positions, *slots; // [max_tokens] of the step in hand
    StepSequence *sequences;          // [n_rows]
    int32_t *rows;                    // [n_rows] 0, 1, …: whose logits are wanted in a step of decoding
};

Status batch_open(Engine *engine, const atomic_int *interrupt, Batch **out, Error *error) {
    *out = NULL;
    Batch *b = calloc(1, sizeof *b);
    size_t tokens = (size_t)engine->forward.max_tokens, rows = (size_t)engine->n_rows;
    if (b) {
        b->engine = engine;
        b->interrupt = interrupt;
        b->ids = malloc(tokens * sizeof *b->ids);
        b->positions = malloc(tokens * sizeof *b->positions);
        b->slots = malloc(tokens * sizeof *b->slots);
        b->sequences = malloc(rows * sizeof *b->sequences);
        b->rows = malloc(rows * sizeof *b->rows);
    }
    if (!b || !b->ids || !b->positions || !b->slots || !b->sequences || !b->rows) {
        batch_close(b);
        return error_set(error, STATUS_MEMORY, "no memory for steps of %d rows", engine->n_rows);
    }
    for (int i = 0; i < engine->n_rows; i++) b->rows[i] = i;
    while (kv_branch_drop(&engine->cache)) continue; // of what others left nobody knows what was decoded
    *out = b;
    return STATUS_OK;
}

void batch_close(Batch *b) {
    if (!b) return;
    free(b->ids);
    free(b->positions);
    free(b->slots);
    free(b->sequences);
    free(b->rows);
    free(b);
}

static Status run_step(Batch *b, StepKind kind, int n_tokens, int n_sequences, Error *error) {
    const KvCache *cache = &b->engine->cache;
    Step step = {
        .n_tokens = n_tokens,
        .n_sequences = n_sequences,
        .ids = b->ids,
        .positions = b->positions,
        .slots = b->slots,
        .sequences = b->sequences,
        .page_size = cache->page_size,
        .slot_positions = cache->slot_positions,
        .kind = kind,
    };
    b->engine->logits_of = NULL;
    return forward_step(&b->engine->forward, &step, cache, b->interrupt, error);
}

Status batch_read(Batch *b, Session *session, int64_t most, int64_t *n, Error *error) {
    session_want_logits(session);
    int64_t pending = session_pending(session), step = b->engine->forward.max_tokens;
    if (most > step) most = step;
    *n = pending < most ? pending : most;
    SessionPart part = {b->ids, b->positions, b->slots, b->sequences};
    Status status = session_enter(session, (int)*n, &part, error);
    if (status) return status;
    status = run_step(b, STEP_READING, (int)*n, 1, error);
    int32_t last = (int32_t)*n - 1;
    if (!status && *n == pending) status = forward_logits(&b->engine->forward, &last, 1, error);
    if (status) session_leave(session, (int)*n);
    return status;
}

Status batch_draw(Batch *b, const SampleParams *params, int32_t *id, Error *error) {
    return forward_sample(&b->engine->forward, 1, params, id, error);
}

Status batch_decode(Batch *b, Session *const *sessions, int n, const SampleParams *params, int32_t *ids,
                    Error *error) {
    Status status = STATUS_OK;
    int entered = 0;
    for (; entered < n && !status; entered += !status) {
        SessionPart part = {b->ids + entered, b->positions + entered, b->slots + entered,
                            b->sequences + entered};
        status = session_enter(sessions[entered], 1, &part, error);
        b->sequences[entered].first_token = entered;
    }
    if (!status) status = run_step(b, STEP_DECODING, n, n, error);
    if (!status) status = forward_logits(&b->engine->forward, b->rows, n, error);
    if (!status) status = forward_sample(&b->engine->forward, n, params, ids, error);
    for (int i = 0; i < entered && status; i++) session_leave(sessions[i], 1);
    return status;
}
