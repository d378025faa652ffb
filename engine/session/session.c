// A session's life and the evaluation of its log.
#include "engine/session/session_internal.h"

#include "kernels/base/clock.h"

#include <stdlib.h>
#include <string.h>

Status session_open(Engine *engine, Session **out, Error *error) {
    *out = NULL;
    Session *s = calloc(1, sizeof *s);
    if (!s) return error_set(error, STATUS_MEMORY, "no memory for a session");
    s->engine = engine;
    s->version = ++engine->n_versions;
    size_t chunk = (size_t)engine->forward.max_tokens;
    s->log = malloc(((size_t)engine->context_size + 1) * sizeof *s->log);
    s->ids = malloc(chunk * sizeof *s->ids);
    s->positions = malloc(chunk * sizeof *s->positions);
    s->slots = malloc(chunk * sizeof *s->slots);
    Status status = STATUS_OK;
    if (!s->log || !s->ids || !s->positions || !s->slots)
        status =
            error_set(error, STATUS_MEMORY, "no memory for a session of %d tokens", engine->context_size);
    if (status)
        session_close(s);
    else
        *out = s;
    return status;
}

void session_close(Session *s) {
    if (!s) return;
    session_drop_logits(s);
    if (s->engine->ahead.of == s) s->engine->ahead.of = NULL;
    kv_sequence_free(&s->engine->cache, &s->sequence);
    free(s->log);
    free(s->ids);
    free(s->positions);
    free(s->slots);
    free(s);
}

void session_set_interrupt(Session *s, const atomic_int *flag) {
    s->interrupt = flag;
}
bool session_interrupted(const Session *s) {
    return s->interrupt && *s->interrupt;
}
void session_set_progress(Session *s, Progress progress) {
    s->progress = progress;
}
const int32_t *session_tokens(const Session *s) {
    return s->log;
}
int64_t session_length(const Session *s) {
    return s->n_log;
}
int64_t session_cached(const Session *s) {
    return s->sequence.length;
}

int64_t session_pending(const Session *s) {
    return s->n_log - s->sequence.length;
}
int64_t session_piece(const Session *s, int64_t n) {
    const int64_t left = s->parting - s->sequence.length;
    return left > 0 && left < n ? left : n;
}
int64_t session_whole(const Session *s) {
    return s->sequence.length == 0 ? s->sequence.n_prefix : 0;
}
void session_set_independent(Session *s) {
    s->independent = true;
}

int64_t session_sinks(const Session *s) {
    return s->sequence.n_evicted > 0 ? s->sequence.n_sinks : -1;
}

Status session_enter(Session *s, int n, SessionPart *part, Error *error) {
    KvCache *cache = &s->engine->cache;
    int64_t first = s->sequence.length;
    s->engine->ahead.of = NULL;
    Status status = kv_sequence_extend(cache, &s->sequence, n, part->slots, part->positions, error);
    if (status) return status;
    session_drop_logits(s);
    memcpy(part->ids, s->log + first, (size_t)n * sizeof *part->ids);
    *part->sequence = kv_sequence_step(cache, &s->sequence, n);
    return STATUS_OK;
}

void session_leave(Session *s, int n) {
    kv_sequence_truncate(&s->engine->cache, &s->sequence, s->sequence.length - n);
}

Status session_evaluate_to(Session *s, int64_t end, const LogitRows *wanted, Error *error) {
    KvCache *cache = &s->engine->cache;
    int n = (int)(end - s->sequence.length);
    StepSequence all;
    SessionPart part = {s->ids, s->positions, s->slots, &all};
    s->sequence.replies = s->catches_up || end > s->n_log;
    Status status = session_enter(s, n, &part, error);
    s->sequence.replies = s->catches_up = false;
    if (status) return status;
    Step step = {
        .n_tokens = n,
        .n_sequences = 1,
        .ids = s->ids,
        .positions = s->positions,
        .slots = s->slots,
        .sequences = &all,
        .page_size = cache->page_size,
        .slot_positions = cache->slot_positions,
        .kind = STEP_ANY,
    };
    s->engine->rows_ahead = NULL;
    status = forward_step(&s->engine->forward, &step, wanted, cache, s->interrupt, error);
    if (status) session_leave(s, n);
    return status;
}

void session_want_logits(Session *s) {
    session_keep_frequencies(s);
    if (s->sequence.length == s->n_log && !session_has_logits(s))
        kv_sequence_truncate(&s->engine->cache, &s->sequence, s->n_log - 1);
}

#define LOOK_EVERY 0.05 // seconds

// How far the tokens from `first` on are read, in the middle of a step too. A backend that runs by itself has only been
// given what the layer loop is done with, so that it is waited for: at a step's end, and before it where the layers are
// slow.
typedef struct Reading {
    const Session *session;
    int64_t first, told; // of which so many are known to be read
    int n;               // that the step in hand reads
    int layers, look;    // since the last look, and with how many the next one comes
    double looked;       // seconds of the clock
} Reading;

// Where steps pass several stages nobody waits: the last piece is with the last of them when the first one is done with
// as many others.
static void on_step(const Reading *r, int stages) {
    const Session *s = r->session;
    const int64_t told = s->sequence.length - r->first - (int64_t)(stages - 1) * r->n;
    if (told > 0) (void)s->progress.step(s->progress.user, "reading", told, s->n_log - r->first);
}

static void on_layer(void *user, int done, int n_layers) {
    Reading *r = user;
    const Session *s = r->session;
    const Forward *forward = &s->engine->forward;
    float arrived;
    if (forward->stages > 1 && done < n_layers) return;
    if (forward->stages > 1) {
        on_step(r, forward->stages);
        return;
    }
    Error ignored; // what follows fails of it as well
    if (++r->layers < r->look && done < n_layers) return;
    if (forward->backend->ops->read(forward->backend, &arrived, forward->x, sizeof arrived, &ignored)) return;
    double now = clock_seconds(), due = r->layers * LOOK_EVERY / (now - r->looked + 1e-9);
    r->look = due < 1 ? 1 : due < 1e6 ? (int)due : 1000000;
    r->layers = 0;
    r->looked = now;
    r->told = s->sequence.length - r->n - r->first + (int64_t)r->n * done / n_layers;
    (void)s->progress.step(s->progress.user, "reading", r->told, s->n_log - r->first);
}

// What was asked for has failed: where steps pass several stages, any step since the cache was known to be well may be the
// one. Only an interruption leaves the steps before it as they are, if they are well.
static Status unsettle(Session *s, Status status) {
    Forward *forward = &s->engine->forward;
    Error late;
    if (!status || forward->stages <= 1) return status;
    if (status == STATUS_INTERRUPTED && !forward_settle(forward, &late)) return status;
    if (s->sequence.length > s->settled) kv_sequence_truncate(&s->engine->cache, &s->sequence, s->settled);
    session_drop_logits(s);
    return status;
}

// What is pending, a piece at a time.
static Status evaluate_pieces(Session *s, Error *error) {
    if (session_ahead_take(s)) return STATUS_OK;
    Forward *forward = &s->engine->forward;
    Reading reading = {.session = s, .first = s->sequence.length, .look = 1, .looked = clock_seconds()};
    const LayerWatch watch = {on_layer, &reading};
    const bool of_prompt = session_pending(s) > 1 && !s->catches_up;
    bool told = s->progress.step && of_prompt;
    int32_t last = -1; // of the step in hand
    while (s->sequence.length < s->n_log) {
        int64_t n = session_pending(s);
        reading.n = (int)session_piece(s, forward_piece(forward, n));
        if (told && n > reading.n &&
            !s->progress.step(s->progress.user, "reading", reading.told, s->n_log - reading.first))
            return error_set(error, STATUS_INTERRUPTED, "interrupted");
        last = reading.n - 1;
        forward->watch = told ? &watch : NULL;
        Status status = session_evaluate_to(s, s->sequence.length + reading.n,
                                            &(LogitRows){&last, n == reading.n}, error);
        forward->watch = NULL;
        if (status) return status;
    }
    s->engine->logits_of = NULL;
    Status status = forward_logits(forward, &last, 1, error);
    if (!status) s->engine->logits_of = s;
    if (!status && of_prompt) session_keep_logits(s);
    return status;
}

// Evaluates whatever of the log is not in the cache and leaves the logits of its last token in forward.current.
static Status evaluate_pending(Session *s, Error *error) {
    s->settled = s->sequence.length;
    if (session_has_logits(s)) return STATUS_OK;
    session_keep_frequencies(s);
    if (s->sequence.length == s->n_log && session_restore_logits(s)) return STATUS_OK;
    session_want_logits(s);
    s->settled = s->sequence.length;
    return unsettle(s, evaluate_pieces(s, error));
}

// After a failure the log ends where the cache does, so that it never promises what is not there.
static Status give_up(Session *s, Status status) {
    s->n_log = s->sequence.length;
    session_drop_logits(s);
    return status;
}

Status session_sync(Session *s, const int32_t *tokens, int64_t n, SyncReport *report, Error *error) {
    double start = clock_seconds();
    Status status = session_set(s, tokens, n, error);
    if (status) return status;
    int64_t cached = session_usable(s);
    status = session_evaluate(s, error);
    if (status) return status;
    if (report)
        *report = (SyncReport){.cached = cached, .evaluated = n - cached, .seconds = clock_seconds() - start};
    return STATUS_OK;
}

int64_t session_usable(const Session *s) {
    if (s->sequence.length < s->n_log || session_has_logits(s)) return s->sequence.length;
    return kv_sequence_cut(&s->engine->cache, &s->sequence, s->n_log - 1);
}

Status session_evaluate(Session *s, Error *error) {
    Status status = evaluate_pending(s, error);
    float arrived; // a logit on the host: only then has a backend that runs by itself done the work
    if (!status)
        status =
            unsettle(s, s->engine->backend->ops->read(s->engine->backend, &arrived,
                                                      s->engine->forward.current, sizeof arrived, error));
    return status ? give_up(s, status) : STATUS_OK;
}

// The device goes on with the step of what it draws, where it can.
static Status draw_ahead(Session *s, const SampleParams *params, int32_t *token, Error *error) {
    Status status = forward_sample_begin(&s->engine->forward, 1, params, error);
    if (status) return status;
    session_ahead_begin(s);
    status = forward_sample_end(&s->engine->forward, token, error);
    session_ahead_drawn(s, status ? -1 : *token);
    return status;
}

Status session_draw(Session *s, const SampleParams *params, int32_t *token, Error *error) {
    if (s->n_log < 1) return error_set(error, STATUS_USAGE, "nothing to go on from: the session is empty");
    if (s->n_log > s->engine->cache.context_size)
        return error_set(error, STATUS_CONTEXT, "the context of %d tokens is full",
                         s->engine->cache.context_size);
    Status status = evaluate_pending(s, error);
    if (!status)
        status = forward_draws_ahead(&s->engine->forward) && !s->engine->no_steps_ahead && !s->holds_ahead
                     ? draw_ahead(s, params, token, error)
                     : unsettle(s, forward_sample(&s->engine->forward, 1, params, token, error));
    return status ? status : forward_check_sampled(*token, error);
}

Status session_sample(Session *s, const SampleParams *params, int32_t *token, Error *error) {
    Status status = session_draw(s, params, token, error);
    if (!status) session_push(s, *token);
    return status;
}

Status session_logits(Session *s, float *logits, Error *error) {
    if (s->n_log < 1) return error_set(error, STATUS_USAGE, "nothing to speak of: the session is empty");
    Status status = evaluate_pending(s, error);
    if (status) return status;
    size_t bytes = (size_t)s->engine->model->shape.vocab_size * sizeof(float);
    return unsettle(s, s->engine->backend->ops->read(s->engine->backend, logits, s->engine->forward.current,
                                                     bytes, error));
}

// The logits of log positions [from, to) of the step just evaluated, which began at position `first`.
static Status read_logits(Session *s, int64_t first, int64_t from, int64_t to, float *logits, Error *error) {
    Forward *f = &s->engine->forward;
    s->engine->logits_of = NULL;
    int64_t vocab = s->engine->model->shape.vocab_size;
    int32_t rows[64];
    int most = f->max_logits < 64 ? f->max_logits : 64;
    Status status = STATUS_OK;
    while (from < to && !status) {
        int n = to - from < most ? (int)(to - from) : most;
        for (int i = 0; i < n; i++) rows[i] = (int32_t)(from + i - first);
        status = forward_logits(f, rows, n, error);
        if (!status)
            status = f->backend->ops->read(f->backend, logits, f->logits, (size_t)(n * vocab) * sizeof(float),
                                           error);
        from += n;
        logits += n * vocab;
    }
    return status;
}

// Evaluates what is pending, a chunk at a time; the logits of log positions from `from` on go to `logits`.
static Status evaluate_all(Session *s, int64_t from, float *logits, Error *error) {
    int64_t vocab = s->engine->model->shape.vocab_size;
    const LogitRows none = {NULL, 0};
    Status status = STATUS_OK;
    s->settled = s->sequence.length;
    while (s->sequence.length < s->n_log && !status) {
        int64_t first = s->sequence.length, end = first + s->engine->forward.max_tokens;
        if (end > s->n_log) end = s->n_log;
        status = session_evaluate_to(s, end, end > from ? NULL : &none, error);
        int64_t begin = first > from ? first : from;
        if (!status && begin < end)
            status = read_logits(s, first, begin, end, logits + (begin - from) * vocab, error);
    }
    if (!status) status = forward_settle(&s->engine->forward, error);
    status = unsettle(s, status);
    return status ? give_up(s, status) : STATUS_OK;
}

Status session_logits_of(Session *s, const int32_t *tokens, int64_t n, int64_t from, float *logits,
                         Error *error) {
    if (from < 0 || from >= n)
        return error_set(error, STATUS_USAGE, "logits from position %lld of %lld", (long long)from,
                         (long long)n);
    Status status = session_set(s, tokens, n, error);
    if (status) return status;
    if (s->sequence.length > from) kv_sequence_truncate(&s->engine->cache, &s->sequence, from);
    session_match_prefix(s);
    session_drop_logits(s);
    return evaluate_all(s, from, logits, error);
}

Status session_stream(Session *s, const int32_t *tokens, int64_t n, const OverflowSettings *settings,
                      float *logits, Error *error) {
    int64_t vocab = s->engine->model->shape.vocab_size;
    Status status = STATUS_OK;
    while (n > 0 && !status) {
        int64_t room = s->engine->cache.context_size - s->n_log;
        if (room <= 0) {
            status = session_make_room(s, settings, 1, error);
            continue;
        }
        int64_t piece = n < room ? n : room, begin = s->n_log;
        memcpy(s->log + begin, tokens, (size_t)piece * sizeof *tokens);
        s->n_log += piece;
        session_drop_logits(s);
        session_match_frequencies(s);
        status = evaluate_all(s, logits ? begin : s->n_log, logits, error);
        tokens += piece;
        n -= piece;
        if (logits) logits += piece * vocab;
    }
    return status;
}
