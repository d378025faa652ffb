// `bench --stream`: a token in the full context, and what it costs to make room there.
#include "app/tools/bench/bench_internal.h"

#include "engine/model/model.h"
#include "engine/session/session_step.h"
#include "kernels/base/clock.h"

#include <stdlib.h>

// Fills the context, then decodes with room made as the settings say. Steps that make room count by themselves.
static Status time_stream(Session *session, const BenchSettings *b, const Engine *engine, Times *steps,
                          Times *rooms, Error *error) {
    int vocab = engine_model(engine)->shape.vocab_size, size = engine_context_size(engine);
    int32_t *ids = malloc((size_t)size * sizeof *ids), id;
    if (!ids) return error_set(error, STATUS_MEMORY, "no memory for %d tokens", size);
    bench_make_ids(ids, size, vocab, 0);
    Status status = session_sync(session, ids, size, NULL, error);
    free(ids);
    for (int i = 0; i < b->stream && !status; i++) {
        SampleParams params = bench_sampling(i);
        double start = clock_seconds();
        bool full = session_length(session) >= size;
        if (full) status = session_make_room(session, &b->overflow, 1, error);
        if (!status) status = session_sample(session, &params, &id, error);
        Times *times = full ? rooms : steps;
        times->seconds[times->n++] = clock_seconds() - start;
    }
    return status;
}

Status bench_stream(Engine *engine, Session *session, const BenchSettings *b, FILE *out, Error *error) {
    Times steps = {.seconds = malloc((size_t)b->stream * sizeof(double))};
    Times rooms = {.seconds = malloc((size_t)b->stream * sizeof(double))};
    Status status = steps.seconds && rooms.seconds ? time_stream(session, b, engine, &steps, &rooms, error)
                                                   : error_set(error, STATUS_MEMORY, "no memory for times");
    if (!status) {
        double mean = (bench_sum(&steps) + bench_sum(&rooms)) / b->stream;
        fprintf(out, "stream    %d tokens past %d by %s: %.3f ms a token with all", b->stream,
                engine_context_size(engine), overflow_policy_name(b->overflow.policy), 1e3 * mean);
        if (steps.n) fprintf(out, "; %.3f ms where nothing leaves (median)", 1e3 * bench_median(&steps));
        if (rooms.n)
            fprintf(out, "; %.3f ms where something does (median of %d)", 1e3 * bench_median(&rooms),
                    rooms.n);
        fputc('\n', out);
    }
    free(steps.seconds);
    free(rooms.seconds);
    return status;
}
