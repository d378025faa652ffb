#include "engine/batch.h"

#include "engine/engine_internal.h"
#include "engine/session/session_step.h"

#include <stdlib.h>

// A row of a step ahead: the one whose token was being drawn, or was pending.
typedef struct RowAhead {
    const Session *session;
    SessionSlot slot;
} RowAhead;

struct Batch {
    Engine *engine;
    const atomic_int *interrupt;
    int32_t *ids, *positions, *slots; // [max_tokens] of the step in hand
    StepSequence *sequences;          // [max(n_rows, BATCH_PIECES)]
    int32_t *rows;                    // [n_rows] 0, 1, …: whose logits are wanted in a step of decoding
    // Where steps begin before their tokens are known. [n_rows] each.
    RowAhead *ahead, *next; // rows of the last step ahead, n_ahead of them, and of the one that is being made
    int n_ahead;
    int32_t *row_of; // of each session in hand: the row of logits that is its, or -1
    int32_t *drawn, *ids_drawn;
    SampleParams *params;
};

Status batch_open(Engine *engine, const atomic_int *interrupt, Batch **out, Error *error) {
    *out = NULL;
    Batch *b = calloc(1, sizeof *b);
    size_t tokens = (size_t)engine->forward.max_tokens, rows = (size_t)engine->n_rows,
           sequences = rows > BATCH_PIECES ? rows : BATCH_PIECES;
    if (b) {
        b->engine = engine;
        b->interrupt = interrupt;
        b->ids = malloc(tokens * sizeof *b->ids);
        b->positions = malloc(tokens * sizeof *b->positions);
        b->slots = malloc(tokens * sizeof *b->slots);
        b->sequences = malloc(sequences * sizeof *b->sequences);
        b->rows = malloc(rows * sizeof *b->rows);
        b->ahead = calloc(rows, sizeof *b->ahead);
        b->next = calloc(rows, sizeof *b->next);
        b->row_of = malloc(rows * sizeof *b->row_of);
        b->drawn = malloc(rows * sizeof *b->drawn);
        b->ids_drawn = malloc(rows * sizeof *b->ids_drawn);
        b->params = calloc(rows, sizeof *b->params);
    }
    if (!b || !b->ids || !b->positions || !b->slots || !b->sequences || !b->rows || !b->ahead || !b->next ||
        !b->row_of || !b->drawn || !b->ids_drawn || !b->params) {
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
    if (b->engine && b->engine->rows_ahead == b) b->engine->rows_ahead = NULL;
    free(b->ids);
    free(b->positions);
    free(b->slots);
    free(b->sequences);
    free(b->rows);
    free(b->ahead);
    free(b->next);
    free(b->row_of);
    free(b->drawn);
    free(b->ids_drawn);
    free(b->params);
    free(b);
}

static Step step_of(const Batch *b, StepKind kind, int n_tokens, int n_sequences) {
    const KvCache *cache = &b->engine->cache;
    return (Step){
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
}

// wanted: as forward_step() takes it.
static Status run_step(Batch *b, const Step *step, const LogitRows *wanted, Error *error) {
    b->engine->logits_of = NULL;
    return forward_step(&b->engine->forward, step, wanted, &b->engine->cache, b->interrupt, error);
}

// Whether the i-th sequence of the step in hand may stand beside others: kernels of prompts are chosen for a whole step,
// and differ where a cache was evicted from or turned, is very long, or seen both ways.
static bool may_be_beside(const Batch *b, int i) {
    const StepSequence *q = &b->sequences[i];
    return q->in_order && q->n_prefix == 0 && q->n_slots <= b->engine->forward.max_tokens;
}

// Puts the pieces' tokens into the step one behind the other; *n says how many. What fails leaves all sessions as they
// were.
static Status enter_pieces(Batch *b, BatchPiece *pieces, int n_pieces, int *n, int *n_sequences,
                           Error *error) {
    Status status = STATUS_OK;
    int64_t room = b->engine->forward.max_tokens;
    int i = 0;
    *n = *n_sequences = 0;
    for (; i < n_pieces && !status; i++) {
        BatchPiece *p = &pieces[i];
        session_want_logits(p->session);
        const int64_t pending = session_pending(p->session);
        const int64_t whole = session_whole(p->session);
        if (p->n < whole) p->n = whole;
        if (p->n > pending) p->n = pending;
        if (p->n > room) p->n = whole > room ? 0 : room;
        p->n = session_piece(p->session, p->n);
        p->ended = p->n == pending;
        if (p->n == 0) continue;
        SessionPart part = {b->ids + *n, b->positions + *n, b->slots + *n, b->sequences + *n_sequences};
        status = session_enter(p->session, (int)p->n, &part, error);
        if (status) break;
        part.sequence->first_token = *n;
        const bool beside = may_be_beside(b, *n_sequences);
        if (!beside && *n_sequences > 0) {
            session_leave(p->session, (int)p->n);
            p->n = room = 0, p->ended = false; // nor do those behind it: sessions are read in their order
            continue;
        }
        *n += (int)p->n, room = beside ? room - p->n : 0, ++*n_sequences;
    }
    for (int k = 0; k < i && status; k++) session_leave(pieces[k].session, (int)pieces[k].n);
    return status;
}

Status batch_read_pieces(Batch *b, BatchPiece *pieces, int n_pieces, Error *error) {
    Forward *f = &b->engine->forward;
    int n, n_sequences, n_ended = 0;
    Status status = enter_pieces(b, pieces, n_pieces, &n, &n_sequences, error);
    if (status) return status;
    int32_t last[BATCH_PIECES], end = -1;
    for (int i = 0; i < n_pieces; i++) {
        end += (int32_t)pieces[i].n;
        if (pieces[i].ended) last[n_ended++] = end;
    }
    const Step step = step_of(b, STEP_READING, n, n_sequences);
    status = run_step(b, &step, &(LogitRows){last, n_ended}, error);
    // The first rows of logits are those of a step ahead.
    f->current = forward_row(f, b->engine->n_rows);
    if (!status && n_ended > 0) status = forward_logits(f, last, n_ended, error);
    if (!status && n_ended < n_pieces)
        status = forward_settle(f, error); // nobody draws from those, and is told
    for (int i = 0; i < n_pieces && status; i++) session_leave(pieces[i].session, (int)pieces[i].n);
    return status;
}

Status batch_draw_pieces(Batch *b, int n, const SampleParams *params, int32_t *ids, Error *error) {
    return forward_sample(&b->engine->forward, n, params, ids, error);
}

Status batch_read(Batch *b, Session *session, int64_t most, int64_t *n, Error *error) {
    BatchPiece piece = {.session = session, .n = most};
    Status status = batch_read_pieces(b, &piece, 1, error);
    *n = piece.n;
    return status;
}

Status batch_draw(Batch *b, const SampleParams *params, int32_t *id, Error *error) {
    return batch_draw_pieces(b, 1, params, id, error);
}

// Sessions that decode, what their tokens are drawn with, and the tokens: [n] each.
typedef struct BatchRows {
    Session *const *sessions;
    const SampleParams *params;
    int32_t *ids;
    int n;
} BatchRows;

// ---- decoding -----------------------------------------------------------------------------------------------------

// The part of the step in hand that is its i-th row's.
static SessionPart part_of(const Batch *b, int i) {
    return (SessionPart){b->ids + i, b->positions + i, b->slots + i, b->sequences + i};
}

// A step of all sessions' pending tokens; the logits of the i-th are row i.
static Status evaluate_rows(Batch *b, Session *const *sessions, int n, Error *error) {
    Status status = STATUS_OK;
    int entered = 0;
    b->engine->rows_ahead = NULL;
    for (; entered < n && !status; entered += !status) {
        SessionPart part = part_of(b, entered);
        status = session_enter(sessions[entered], 1, &part, error);
        b->sequences[entered].first_token = entered;
        b->row_of[entered] = entered;
    }
    const Step step = step_of(b, STEP_DECODING, n, n);
    if (!status) status = run_step(b, &step, NULL, error);
    if (!status) status = forward_logits(&b->engine->forward, b->rows, n, error);
    for (int i = 0; i < entered && status; i++) session_leave(sessions[i], 1);
    return status;
}

// Finds the sessions whose pending token was in the last step ahead. Returns how many.
static int claim_rows(Batch *b, Session *const *sessions, int n) {
    int claimed = 0;
    for (int i = 0; i < n; i++) {
        b->row_of[i] = -1;
        for (int r = 0; r < b->n_ahead && b->engine->rows_ahead == b && b->row_of[i] < 0; r++)
            if (b->ahead[r].session == sessions[i] && session_claim(sessions[i], &b->ahead[r].slot))
                b->row_of[i] = r;
        claimed += b->row_of[i] >= 0;
    }
    return claimed;
}

// The step of what is being drawn for those that have a row of logits, and of the pending tokens of the others, which
// join. It has rows of logits in the order of `next`. What cannot be in it is evaluated in another one.
static Status step_ahead(Batch *b, Session *const *sessions, int n, Error *error) {
    int n_next = 0;
    Status status = STATUS_OK;
    for (int i = 0; i < n && !status; i++) {
        SessionPart part = part_of(b, n_next);
        SessionSlot *slot = &b->next[n_next].slot;
        const bool joins = b->row_of[i] < 0;
        if (joins) status = session_reserve_pending(sessions[i], &part, slot, error);
        if (status || (!joins && !session_reserve(sessions[i], &part, slot))) continue;
        b->sequences[n_next].first_token = n_next;
        b->next[n_next].session = sessions[i];
        b->drawn[n_next++] = b->row_of[i];
    }
    b->engine->rows_ahead = NULL;
    b->n_ahead = 0;
    if (status || n_next == 0) return status;
    const Step step = step_of(b, STEP_DECODING, n_next, n_next);
    Forward *f = &b->engine->forward;
    Error ignored; // what fails here is said by the step itself, once it is wanted
    if (forward_step_ahead(f, &step, b->drawn, &b->engine->cache, f->logits, &ignored)) return STATUS_OK;
    b->engine->rows_ahead = b;
    b->n_ahead = n_next;
    return STATUS_OK;
}

// Draws from `rows` rows of logits, begins the step behind it, and gives each session what is its.
static Status draw_ahead(Batch *b, const BatchRows *of, int rows, Error *error) {
    Forward *f = &b->engine->forward;
    const SampleParams nobody = {.top_p = 1, .typical_p = 1}; // for rows whose session has left
    for (int r = 0; r < rows; r++) b->params[r] = nobody;
    for (int i = 0; i < of->n; i++)
        if (b->row_of[i] >= 0) b->params[b->row_of[i]] = of->params[i];
    Status status = forward_sample_begin(f, rows, b->params, error);
    if (status) return status;
    Error of_step;
    Status joining = step_ahead(b, of->sessions, of->n, &of_step);
    status = forward_sample_end(f, b->ids_drawn, error);
    if (status) return status;
    for (int i = 0; i < of->n; i++) of->ids[i] = b->row_of[i] < 0 ? BATCH_JOINED : b->ids_drawn[b->row_of[i]];
    for (int r = 0; r < b->n_ahead; r++)
        if (b->drawn[r] >= 0) b->next[r].slot.id = b->ids_drawn[b->drawn[r]];
    RowAhead *last = b->ahead;
    b->ahead = b->next;
    b->next = last;
    if (joining) *error = of_step;
    return joining;
}

Status batch_decode(Batch *b, Session *const *sessions, int n, const SampleParams *params, int32_t *ids,
                    Error *error) {
    Forward *f = &b->engine->forward;
    const BatchRows rows = {sessions, params, ids, n};
    const bool claimed = claim_rows(b, sessions, n) > 0;
    Status status = claimed ? STATUS_OK : evaluate_rows(b, sessions, n, error);
    if (status) return status;
    f->current = f->logits;
    if (forward_draws_ahead(f) && !b->engine->no_steps_ahead)
        status = draw_ahead(b, &rows, claimed ? b->n_ahead : n, error);
    else
        status = forward_sample(f, n, params, ids, error);
    if (status) b->engine->rows_ahead = NULL;
    for (int i = 0; i < n && status; i++)
        if (b->row_of[i] >= 0) session_leave(sessions[i], 1);
    return status;
}
