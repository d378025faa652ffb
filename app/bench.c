#include "app/bench.h"

#include <stdlib.h>
#include <time.h>

typedef struct Times {
    double *seconds; // [n] sorted once all are there
    int n;
} Times;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(Times *t) {
    qsort(t->seconds, (size_t)t->n, sizeof *t->seconds, ascending);
    return t->n % 2 ? t->seconds[t->n / 2] : (t->seconds[t->n / 2 - 1] + t->seconds[t->n / 2]) / 2;
}

// Reproducible ids all over the vocabulary; another `run` shares no prefix with this one.
static void make_ids(int32_t *ids, int n, int vocab_size, int run) {
    uint64_t x = 0x9e3779b97f4a7c15u * (uint64_t)(run + 1);
    for (int i = 0; i < n; i++) {
        x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
        ids[i] = (int32_t)((x * 0x2545f4914f6cdd1du >> 33) % (uint64_t)vocab_size);
    }
    ids[0] = run % vocab_size;
}

static Status time_prefill(Session *session, int32_t *ids, const BenchSettings *b, int vocab, Times *times,
                           Error *error) {
    Status status = STATUS_OK;
    for (int run = 0; run <= b->repeat && !status; run++) { // the first warms up
        SyncReport report;
        make_ids(ids, b->prefill, vocab, run);
        status = session_sync(session, ids, b->prefill, &report, error);
        if (!status && run > 0) times->seconds[times->n++] = report.seconds;
    }
    return status;
}

static Status time_decode(Session *session, int32_t *ids, const BenchSettings *b, int vocab, Times *times,
                          Error *error) {
    Status status = STATUS_OK;
    SamplerSettings s = sampler_default_settings();
    for (int run = 0; run <= b->repeat && !status; run++) {
        make_ids(ids, b->depth, vocab, run);
        status = session_sync(session, ids, b->depth, NULL, error);
        for (int i = 0; i < b->decode && !status; i++) {
            SampleParams params = {.temperature = s.temperature,
                                   .top_p = s.top_p,
                                   .min_p = s.min_p,
                                   .typical_p = s.typical_p,
                                   .top_k = s.top_k,
                                   .seed = 1,
                                   .position = (uint64_t)i};
            int32_t id;
            double start = now();
            status = session_sample(session, &params, &id, error);
            if (!status && run > 0 && i > 0)
                times->seconds[times->n++] = now() - start; // the first has its logits
        }
    }
    return status;
}

static void print_memory(const Engine *engine, FILE *out) {
    EngineMemory m = engine_memory(engine);
    fprintf(out,
            "memory    weights %.1f MB, cache %.1f MB (%d tokens, %s), scratch %.1f MB; %.1f GB were free\n",
            (double)m.weights / 1e6, (double)m.cache / 1e6, engine_context_size(engine),
            dtype_name(engine_cache_type(engine)), (double)m.scratch / 1e6, (double)m.available / 1e9);
}

Status bench_run(Engine *engine, const BenchSettings *settings, FILE *out, Error *error) {
    BenchSettings b = *settings;
    if (b.prefill <= 0) b.prefill = 512;
    if (b.decode <= 1) b.decode = 128;
    if (b.depth <= 0) b.depth = 1;
    if (b.repeat <= 0) b.repeat = 5;
    const Model *model = engine_model(engine);
    int longest = b.prefill > b.depth + b.decode ? b.prefill : b.depth + b.decode;
    if (longest > engine_context_size(engine))
        return error_set(error, STATUS_CONTEXT,
                         "%d tokens are wanted, the context holds %d; use a larger --context", longest,
                         engine_context_size(engine));

    char backend[200];
    engine_describe_backend(engine, backend, sizeof backend);
    Session *session = NULL;
    int32_t *ids = malloc((size_t)longest * sizeof *ids);
    Times prefill = {.seconds = malloc((size_t)b.repeat * sizeof(double))};
    Times decode = {.seconds = malloc((size_t)b.repeat * (size_t)b.decode * sizeof(double))};
    Status status = STATUS_OK;
    if (!ids || !prefill.seconds || !decode.seconds)
        status = error_set(error, STATUS_MEMORY, "no memory for a benchmark");
    if (!status) status = session_open(engine, &session, error);
    if (!status) status = time_prefill(session, ids, &b, model->shape.vocab_size, &prefill, error);
    if (!status) status = time_decode(session, ids, &b, model->shape.vocab_size, &decode, error);
    if (!status) {
        double read = median(&prefill), token = median(&decode);
        const Matrix *rows = &model->head.embedding; // a token reads one, unless they are the head as well
        double unread = model->tied_head ? 0 : (double)(rows->rows * dtype_row_bytes(rows->type, rows->cols));
        double bytes =
            (double)model_weight_bytes(model) - unread +
            (double)model_kv_bytes_per_token(model, engine_cache_type(engine)) * (b.depth + b.decode / 2.0);
        fprintf(out, "model     %s %s, %.1f M parameters, %.1f MB\n",
                *model->name ? model->name : model->architecture, dtype_name(model_main_type(model)),
                (double)model->n_parameters / 1e6, (double)model->weight_bytes / 1e6);
        fprintf(out, "backend   %s\n", backend);
        fprintf(out, "prefill   %d tokens: %.1f tok/s (median of %d)\n", b.prefill, b.prefill / read,
                prefill.n);
        fprintf(out, "decode    at %d tokens: %.2f ms a token, %.1f tok/s, %.1f GB/s (median of %d)\n",
                b.depth, 1e3 * token, 1 / token, bytes / token / 1e9, decode.n);
        print_memory(engine, out);
    }
    session_close(session);
    free(ids);
    free(prefill.seconds);
    free(decode.seconds);
    return status;
}
