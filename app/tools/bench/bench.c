#include "app/tools/bench/bench_internal.h"
#include "app/tools/shape.h"
#include "app/tools/tune.h"

#include "app/loading/plan_shown.h"
#include "app/settings/settings_tell.h"
#include "engine/model/model.h"
#include "engine/model/weights/conversion.h"
#include "engine/session/session_step.h"
#include "engine/talk/sampler.h"
#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/ops.h"

#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(Times *t) {
    qsort(t->seconds, (size_t)t->n, sizeof *t->seconds, ascending);
    return t->n % 2 ? t->seconds[t->n / 2] : (t->seconds[t->n / 2 - 1] + t->seconds[t->n / 2]) / 2;
}

double bench_sum(const Times *t) {
    double sum = 0;
    for (int i = 0; i < t->n; i++) sum += t->seconds[i];
    return sum;
}

void bench_make_ids(int32_t *ids, int n, int vocab_size, int run) {
    uint64_t x = 0x9e3779b97f4a7c15u * (uint64_t)(run + 1);
    for (int i = 0; i < n; i++) {
        x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
        ids[i] = (int32_t)((x * 0x2545f4914f6cdd1du >> 33) % (uint64_t)vocab_size);
    }
    if (n > 0) ids[0] = run % vocab_size;
}

SampleParams bench_sampling(int position) {
    SamplerSettings s = sampler_default_settings();
    return (SampleParams){.temperature = s.temperature,
                          .top_p = s.top_p,
                          .min_p = s.min_p,
                          .typical_p = s.typical_p,
                          .top_k = s.top_k,
                          .seed = 1,
                          .position = (uint64_t)position};
}

// Puts tokens [n] into the session, and waits until the device is idle: a step begun ahead of a token that nobody asks
// for would count as part of what is timed next.
static Status put_and_wait(Session *session, const int32_t *ids, int n, int vocab, Error *error) {
    float *logits = malloc((size_t)vocab * sizeof *logits);
    if (!logits) return error_set(error, STATUS_MEMORY, "no memory for %d logits", vocab);
    Status status = session_sync(session, ids, n, NULL, error);
    if (!status) status = session_logits(session, logits, error);
    free(logits);
    return status;
}

// Until the first token is on the host: a device works on when session_sync() has returned.
static Status time_prefill(Session *session, int32_t *ids, const BenchSettings *b, int vocab, Times *times,
                           Error *error) {
    Status status = STATUS_OK;
    for (int run = 0; run <= b->repeat && !status; run++) { // the first warms up
        SampleParams params = bench_sampling(0);
        int32_t id;
        bench_make_ids(ids, b->prefill, vocab, run);
        const int32_t other = (ids[0] + 1) % vocab; // nothing of the prompt is cached
        status = put_and_wait(session, &other, 1, vocab, error);
        double start = clock_seconds();
        if (!status) status = session_sync(session, ids, b->prefill, NULL, error);
        if (!status) status = session_sample(session, &params, &id, error);
        if (!status && run > 0) times->seconds[times->n++] = clock_seconds() - start;
    }
    return status;
}

// The same behind `depth` tokens that are cached: what somebody says in a talk.
static Status time_behind(Session *session, int32_t *ids, const BenchSettings *b, int vocab, Times *times,
                          Error *error) {
    Status status = STATUS_OK;
    bench_make_ids(ids, b->depth, vocab, 0);
    for (int run = 0; run <= b->repeat && !status; run++) {
        SampleParams params = bench_sampling(0);
        int32_t id;
        bench_make_ids(ids + b->depth, b->prefill, vocab, run + 1);
        status = put_and_wait(session, ids, b->depth, vocab, error);
        double start = clock_seconds();
        if (!status) status = session_sync(session, ids, b->depth + b->prefill, NULL, error);
        if (!status) status = session_sample(session, &params, &id, error);
        if (!status && run > 0) times->seconds[times->n++] = clock_seconds() - start;
    }
    return status;
}

static Status time_decode(Session *session, int32_t *ids, const BenchSettings *b, int vocab, Times *times,
                          Error *error) {
    Status status = STATUS_OK;
    for (int run = 0; run <= b->repeat && !status; run++) {
        bench_make_ids(ids, b->depth, vocab, run);
        status = session_sync(session, ids, b->depth, NULL, error);
        for (int i = 0; i < b->decode && !status; i++) {
            SampleParams params = bench_sampling(i);
            int32_t id;
            double start = clock_seconds();
            status = session_sample(session, &params, &id, error);
            if (!status && run > 0 && i > 0)
                times->seconds[times->n++] = clock_seconds() - start; // the first has its logits
        }
    }
    return status;
}

Status bench_decode_time(Session *session, int32_t *ids, const BenchSettings *b, int vocab, double *seconds,
                         Error *error) {
    Times times = {.seconds = malloc((size_t)b->repeat * (size_t)b->decode * sizeof(double))};
    Status status = times.seconds ? time_decode(session, ids, b, vocab, &times, error)
                                  : error_set(error, STATUS_MEMORY, "no memory for times");
    if (!status) *seconds = bench_median(&times);
    free(times.seconds);
    return status;
}

// ---- the whole -------------------------------------------------------------------------------------------

static void print_memory(const Engine *engine, FILE *out) {
    EngineMemory m = engine_memory(engine);
    fprintf(out,
            "memory    weights %.1f MB, cache %.1f MB (%d tokens, %s), scratch %.1f MB; %.1f GB were free\n",
            (double)m.weights / 1e6, (double)m.cache / 1e6, engine_context_size(engine),
            dtype_name(engine_cache_type(engine)), (double)m.scratch / 1e6, (double)m.available / 1e9);
    char plan[PLAN_ROOM];
    plan_shown(engine, plan);
    if (m.host_layers || m.n_cards) fprintf(out, "%s\n", plan);
}

static Status print_softmax(const Engine *engine, FILE *out, Error *error) {
    char softmax[256];
    Status status = engine_describe_softmax(engine, softmax, sizeof softmax, error);
    if (!status) fprintf(out, "softmax   %s\n", softmax);
    return status;
}

double bench_token_bytes(const Engine *engine, double depth) {
    const Model *model = engine_model(engine);
    const Matrix *rows = &model->head.embedding; // a token reads one, unless they are the head as well
    double unread = model->head.output.data == rows->data ? 0 : bench_matrix_bytes(rows);
    return (double)(model_weight_bytes(model) - model_idle_bytes(model)) - unread +
           (double)engine_token_bytes(engine) * depth;
}

const char *bench_share(const Engine *engine, double bytes_a_second, char text[BENCH_SHARE_ROOM]) {
    double read_speed = engine_dispatch(engine)->read_speed;
    *text = 0;
    if (read_speed > 0)
        snprintf(text, BENCH_SHARE_ROOM, ", %.0f%% of the card's", 100 * bytes_a_second / read_speed);
    return text;
}

// What is timed of whole steps, as a chat has them: token ids in, sampled id out (default sampling), where a device begins
// the next step before the id is on the host, and what the host does with it costs no time.
typedef struct StepTimes {
    Times prefill, decode;
    Times
        behind; // a prompt behind others that are cached: none, where nobody asked or the context has no room for both
    bool wants_behind;
} StepTimes;

// Settings without zeros.
static BenchSettings complete(const BenchSettings *settings) {
    BenchSettings b = *settings;
    if (b.decode <= 0) b.decode = 128;
    if (b.depth <= 0) b.depth = b.parallel > 0 ? b.prefill : 1; // beside rows: as one of them
    if (b.repeat <= 0) b.repeat = 5;
    return b;
}

static bool has_room_behind(const Engine *engine, const BenchSettings *b) {
    return b->depth > 1 && b->parallel == 0 && b->depth + b->prefill <= engine_context_size(engine);
}

// Tokens of the longest of all that is to be timed, which has to fit the context.
static Status find_longest(const Engine *engine, const BenchSettings *b, int *longest, Error *error) {
    int most = b->prefill > b->depth + b->decode ? b->prefill : b->depth + b->decode;
    if (b->parallel > 0 && most < b->prefill + b->decode) most = b->prefill + b->decode;
    if (has_room_behind(engine, b) && most < b->depth + b->prefill) most = b->depth + b->prefill;
    *longest = most;
    if (most > engine_context_size(engine))
        return error_set(error, STATUS_CONTEXT,
                         "%d tokens are wanted, the context holds %d; use a larger --context", most,
                         engine_context_size(engine));
    return STATUS_OK;
}

static Status time_steps(const Engine *engine, Session *session, int32_t *ids, const BenchSettings *b,
                         StepTimes *times, Error *error) {
    const int vocab = engine_model(engine)->shape.vocab_size;
    *times = (StepTimes){.prefill.seconds = malloc((size_t)b->repeat * sizeof(double)),
                         .behind.seconds = malloc((size_t)b->repeat * sizeof(double)),
                         .decode.seconds = malloc((size_t)b->repeat * (size_t)b->decode * sizeof(double)),
                         .wants_behind = b->depth > 1 && b->parallel == 0};
    if (!times->prefill.seconds || !times->behind.seconds || !times->decode.seconds)
        return error_set(error, STATUS_MEMORY, "no memory for a benchmark");
    Status status = time_prefill(session, ids, b, vocab, &times->prefill, error);
    if (!status && has_room_behind(engine, b)) // before decoding, as after a pause
        status = time_behind(session, ids, b, vocab, &times->behind, error);
    return status ? status : time_decode(session, ids, b, vocab, &times->decode, error);
}

static void free_steps(StepTimes *times) {
    free(times->prefill.seconds);
    free(times->behind.seconds);
    free(times->decode.seconds);
}

static void print_model(const Engine *engine, FILE *out) {
    const Model *model = engine_model(engine);
    char backend[200];
    engine_describe_backend(engine, backend, sizeof backend);
    fprintf(out, "model     %s %s, %.1f M parameters, %.1f MB\n",
            *model->name ? model->name : model->architecture, conversion_weights_name(model),
            (double)model->n_parameters / 1e6, (double)model_weight_bytes(model) / 1e6);
    fprintf(out, "backend   %s\n", backend);
    if (model->checkpoint)
        fprintf(out, "loading   %.2f s, %.1f GB/s\n", engine_load_seconds(engine),
                (double)model->weight_bytes / engine_load_seconds(engine) / 1e9);
}

static void print_steps(const Engine *engine, const BenchSettings *b, StepTimes *times, FILE *out) {
    const double read = bench_median(&times->prefill), token = bench_median(&times->decode);
    const double bytes = bench_token_bytes(engine, b->depth + b->decode / 2.0);
    fprintf(out, "prefill   %d tokens: %.1f tok/s (median of %d)\n", b->prefill, b->prefill / read,
            times->prefill.n);
    if (times->behind.n)
        fprintf(out, "prompt    %d tokens behind %d: %.2f ms (median of %d)\n", b->prefill, b->depth,
                1e3 * bench_median(&times->behind), times->behind.n);
    else if (times->wants_behind)
        fprintf(out, "prompt    %d tokens behind %d: the context of %d has no room for both\n", b->prefill,
                b->depth, engine_context_size(engine));
    char share[BENCH_SHARE_ROOM];
    fprintf(out, "decode    at %d tokens: %.2f ms a token, %.1f tok/s, %.1f GB/s%s (median of %d)\n",
            b->depth, 1e3 * token, 1 / token, bytes / token / 1e9, bench_share(engine, bytes / token, share),
            times->decode.n);
}

// Prints a table of what whole steps take; with `profile` another of the ops, whose times are the device's own. A stream
// tells the time of a token in the full context, and what evicting costs.
static Status measure(Engine *engine, const BenchSettings *settings, FILE *out, Error *error) {
    const BenchSettings b = complete(settings);
    const char *dispatch = engine_dispatch(engine)->origin;
    int longest;
    Status status = find_longest(engine, &b, &longest, error);
    if (status) return status;
    Session *session = NULL;
    StepTimes times = {0};
    int32_t *ids = malloc((size_t)longest * sizeof *ids);
    status = ids ? session_open(engine, &session, error)
                 : error_set(error, STATUS_MEMORY, "no memory for a benchmark");
    if (!status) status = time_steps(engine, session, ids, &b, &times, error);
    if (!status) {
        print_model(engine, out);
        print_steps(engine, &b, &times, out);
        print_memory(engine, out);
        if (*dispatch) fprintf(out, "dispatch  %s\n", dispatch);
        status = print_softmax(engine, out, error);
    }
    if (!status && b.parallel > 0) {
        session_clear(session); // its pages are theirs
        status = bench_parallel(engine, &b, out, error);
    }
    if (!status && b.stream > 0) status = bench_stream(engine, session, &b, out, error);
    if (!status && b.profile) status = bench_profile(engine, session, ids, &b, out, error);
    session_close(session);
    free(ids);
    free_steps(&times);
    return status;
}

// ---- the command --------------------------------------------------------------------------------------------

int bench_main(Program *program) {
    Error error;
    const Options *o = &program->options;
    const int prompt = o->shape ? 1024 : 512; // where nobody says
    BenchSettings settings = {.prefill = o->prefill ? o->prefill : prompt,
                              .decode = o->decode,
                              .depth = o->depth,
                              .profile = o->profile_ops,
                              .stream = o->stream,
                              .parallel = o->parallel,
                              .shared = o->shared,
                              .overflow = program->settings.talk.overflow};
    if (settings.shared > settings.prefill) {
        error_set(&error, STATUS_USAGE, "--shared %d: the prompts have %d tokens (--prefill)",
                  settings.shared, settings.prefill);
        return program_fail(program, &error, EXIT_USAGE);
    }
    // Said before the minutes that it takes to have something to write.
    if (o->plot && file_check_writable(o->plot, &error)) return program_fail(program, &error, EXIT_RUNTIME);
    if (!o->shape && program_find_model(program, NULL, &error))
        return program_fail(program, &error, EXIT_MODEL);
    if (o->dispatch) tuning_set_room(&program->settings.engine);
    Status status = o->shape ? shape_open(program, &error) : program_load_model(program, &error);
    if (status) return program_fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    if (o->dispatch) return program_finish(program, tune_show(program, stdout, &error), &error);
    if (o->stream)
        settings_tell_of_window(&program->settings, program->engine, program->screen, &(SettingsTold){0});
    status = measure(program->engine, &settings, stdout, &error);
    if (!status && o->plot && bench_plot(program->engine, &settings, o->plot, &error))
        return program_fail(program, &error, EXIT_RUNTIME);
    return program_finish(program, status, &error);
}
