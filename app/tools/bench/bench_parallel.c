// Many conversations at once, through the steps that a scheduler makes: prompts one after the other, then a token for
// all.
#include "app/tools/bench/bench_internal.h"

#include "engine/batch.h"
#include "engine/forward.h"
#include "engine/session/session_step.h"
#include "kernels/base/clock.h"

#include <stdlib.h>
#include <string.h>

typedef struct Rows {
    Batch *batch;
    Session **sessions; // [n]
    int n;
    SampleParams *params;  // [n]
    int32_t *ids, *tokens; // [n] drawn, [prefill] a prompt
    int64_t cached;        // tokens of prompts that were there
    double reading;        // seconds
    Times steps;           // of decoding
} Rows;

static void rows_close(Rows *r) {
    for (int i = 0; r->sessions && i < r->n; i++) session_close(r->sessions[i]);
    batch_close(r->batch);
    free(r->sessions);
    free(r->params);
    free(r->ids);
    free(r->tokens);
    free(r->steps.seconds);
}

static Status rows_open(Engine *engine, const BenchSettings *b, Rows *r, Error *error) {
    size_t n = (size_t)b->parallel;
    *r = (Rows){.n = b->parallel};
    r->sessions = calloc(n, sizeof(Session *));
    r->params = calloc(n, sizeof *r->params);
    r->ids = calloc(n, sizeof *r->ids);
    r->tokens = malloc((size_t)b->prefill * sizeof *r->tokens);
    r->steps.seconds = malloc((size_t)b->decode * sizeof(double));
    if (!r->sessions || !r->params || !r->ids || !r->tokens || !r->steps.seconds)
        return error_set(error, STATUS_MEMORY, "no memory for a benchmark of %d rows", b->parallel);
    Status status = batch_open(engine, NULL, &r->batch, error);
    for (int i = 0; i < r->n && !status; i++) {
        status = session_open(engine, &r->sessions[i], error);
        if (!status) session_set_independent(r->sessions[i]);
    }
    return status;
}

static Status sampled(const Rows *r, Error *error) {
    Status status = STATUS_OK;
    for (int i = 0; i < r->n && !status; i++) {
        if (r->ids[i] == BATCH_JOINED) continue;
        status = forward_check_sampled(r->ids[i], error);
        if (!status) session_push(r->sessions[i], r->ids[i]);
    }
    return status;
}

// Session i, with a prompt of which the first `shared` tokens are the same as others'.
static Status set_prompt(Rows *r, const BenchSettings *b, int vocab, int run, int i, Error *error) {
    Session *s = r->sessions[i];
    bench_make_ids(r->tokens, b->prefill, vocab, run * r->n + i + 1);
    bench_make_ids(r->tokens, b->shared, vocab, run);
    session_clear(s);
    Status status = session_set(s, r->tokens, b->prefill, error);
    if (!status) r->cached += session_usable(s);
    r->params[i] = bench_sampling(0);
    r->params[i].conversation = (uint64_t)i;
    return status;
}

// Reads the prompts of n sessions from `first` on, as a scheduler does, and draws their first tokens.
static Status read_group(Rows *r, int first, int n, Error *error) {
    Status status = STATUS_OK;
    for (int next = first; next < first + n && !status;) {
        BatchPiece pieces[BATCH_PIECES];
        int n_pieces = 0, n_ended = 0;
        for (int i = next; i < first + n; i++)
            pieces[n_pieces++] = (BatchPiece){.session = r->sessions[i], .n = INT64_MAX};
        status = batch_read_pieces(r->batch, pieces, n_pieces, error);
        for (int i = 0; i < n_pieces; i++) n_ended += pieces[i].ended;
        if (!status && n_ended > 0)
            status = batch_draw_pieces(r->batch, n_ended, &r->params[next], &r->ids[next], error);
        next += n_ended;
    }
    return status;
}

static Status read_prompts(Rows *r, const BenchSettings *b, int vocab, int run, Error *error) {
    Status status = STATUS_OK;
    double start = clock_seconds();
    r->cached = 0;
    for (int first = 0, n; first < r->n && !status; first += n) {
        const int alone = first == 0 && b->shared > 0; // what others find cached
        n = alone ? 1 : r->n - first < BATCH_PIECES ? r->n - first : BATCH_PIECES;
        for (int i = first; i < first + n && !status; i++) status = set_prompt(r, b, vocab, run, i, error);
        if (!status) status = read_group(r, first, n, error);
        for (int i = first; i < first + n && !status; i++) session_share(r->sessions[i], b->prefill);
    }
    r->reading = clock_seconds() - start;
    return status;
}

static Status decode(Rows *r, int n, Error *error) {
    Status status = sampled(r, error);
    r->steps.n = 0;
    for (int step = 1; step < n && !status; step++) {
        double start = clock_seconds();
        for (int i = 0; i < r->n; i++) r->params[i].position = (uint64_t)step;
        status = batch_decode(r->batch, r->sessions, r->n, r->params, r->ids, error);
        if (!status) status = sampled(r, error);
        r->steps.seconds[r->steps.n++] = clock_seconds() - start;
    }
    return status;
}

Status bench_parallel_speed(Engine *engine, const BenchSettings *b, double *speed, Error *error) {
    Rows r;
    const int vocab = engine_model(engine)->shape.vocab_size;
    Status status = rows_open(engine, b, &r, error);
    if (!status) status = read_prompts(&r, b, vocab, 1, error);
    if (!status) status = decode(&r, b->decode, error);
    if (!status) *speed = r.n / bench_median(&r.steps);
    rows_close(&r);
    return status;
}

Status bench_parallel(Engine *engine, const BenchSettings *b, FILE *out, Error *error) {
    if (engine_full_sessions(engine) < b->parallel)
        return error_set(
            error, STATUS_MEMORY,
            "the cache has room for %d conversations of %d tokens, not %d; use a smaller --context",
            engine_full_sessions(engine), engine_context_size(engine), b->parallel);
    Rows r;
    const int vocab = engine_model(engine)->shape.vocab_size, few = b->decode < 4 ? b->decode : 4;
    Status status = rows_open(engine, b, &r, error);
    if (!status) status = read_prompts(&r, b, vocab, 1, error); // warms up
    if (!status) status = decode(&r, few, error);
    if (!status) status = read_prompts(&r, b, vocab, 2, error);
    if (!status) status = decode(&r, b->decode, error);
    if (!status) {
        double all = (double)r.n * b->prefill, decoding = bench_sum(&r.steps), step = bench_median(&r.steps);
        double bytes = bench_token_bytes(engine, 0) +
                       (double)engine_token_bytes(engine) * r.n * (b->prefill + b->decode / 2.0);
        fprintf(out, "parallel  %d conversation%s, %d tokens in, %d out each\n", r.n, r.n == 1 ? "" : "s",
                b->prefill, b->decode);
        fprintf(out, "  prefill %.0f tokens in %.3f s: %.1f tok/s; %lld of them were cached\n", all,
                r.reading, all / r.reading, (long long)r.cached);
        fprintf(out,
                "  decode  %.3f ms a step, %.1f tok/s, %.1f GB/s (median of %d); %.1f tok/s on the whole\n",
                1e3 * step, r.n / step, bytes / step / 1e9, r.steps.n, (double)r.n * r.steps.n / decoding);
        fprintf(out, "  all     %.1f tokens out a second, prompts included\n",
                (double)r.n * b->decode / (r.reading + decoding));
    }
    rows_close(&r);
    return status;
}
