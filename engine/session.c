#include "engine/engine_internal.h"

#include "kernels/clock.h"

#include <stdlib.h>
#include <string.h>

struct Session {
    Engine *engine;
    KvCache cache;
    int32_t *log;  // [n_slots + 1]: the last token may wait for its evaluation
    int64_t n_log; // tokens in the log
    const volatile sig_atomic_t *interrupt;
    Progress progress;
    int32_t *positions, *slots; // [max_tokens] of the step in hand
};

// Whether row 0 of forward.logits, which all sessions of an engine share, speaks of this log's last token.
static bool has_logits(const Session *s) {
    return s->engine->logits_of == s;
}
static void drop_logits(Session *s) {
    if (has_logits(s)) s->engine->logits_of = NULL;
}

Status session_open(Engine *engine, Session **out, Error *error) {
    *out = NULL;
    Session *s = calloc(1, sizeof *s);
    if (!s) return error_set(error, STATUS_MEMORY, "no memory for a session");
    s->engine = engine;
    size_t chunk = (size_t)engine->forward.max_tokens;
    s->log = malloc(((size_t)engine->context_size + 1) * sizeof *s->log);
    s->positions = malloc(chunk * sizeof *s->positions);
    s->slots = malloc(chunk * sizeof *s->slots);
    Status status = STATUS_OK;
    if (!s->log || !s->positions || !s->slots)
        status =
            error_set(error, STATUS_MEMORY, "no memory for a session of %d tokens", engine->context_size);
    if (!status)
        status = kv_cache_open(engine->backend, &engine->model->shape, engine->cache_type,
                               engine->context_size, &s->cache, error);
    if (status)
        session_close(s);
    else
        *out = s;
    return status;
}

void session_close(Session *s) {
    if (!s) return;
    drop_logits(s);
    kv_cache_close(s->engine->backend, &s->cache);
    free(s->log);
    free(s->positions);
    free(s->slots);
    free(s);
}

void session_set_interrupt(Session *s, const volatile sig_atomic_t *flag) {
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
    return s->cache.n_used;
}

// Evaluates the log's tokens [cached, end), at most a chunk of them. Slot i holds position i: nothing ever leaves
// from the middle. If it fails, the cache is as it was.
static Status evaluate(Session *s, int64_t end, Error *error) {
    int first = s->cache.n_used, n = (int)(end - first);
    Status status = kv_cache_take(&s->cache, n, s->slots, error);
    if (status) return status;
    drop_logits(s);
    for (int i = 0; i < n; i++) s->positions[i] = first + i;
    const int32_t page = 0;
    StepSequence all = {.n_tokens = n, .n_slots = s->cache.n_used, .pages = &page};
    Step step = {
        .n_tokens = n,
        .n_sequences = 1,
        .ids = s->log + first,
        .positions = s->positions,
        .slots = s->slots,
        .sequences = &all,
        .page_size = s->cache.n_slots,
        .slot_positions = s->cache.slot_positions,
    };
    status = forward_step(&s->engine->forward, &step, &s->cache, s->interrupt, error);
    // The first error is the one to tell; emptying slots of a backend that failed can only fail likewise.
    if (status) kv_cache_truncate(s->engine->backend, &s->cache, first, NULL);
    return status;
}

// Evaluates whatever of the log is not in the cache and leaves the logits of its last token in forward.logits.
static Status evaluate_pending(Session *s, Error *error) {
    if (has_logits(s)) return STATUS_OK;
    int last = 0;
    int64_t begin = s->cache.n_used;
    if (begin == s->n_log) { // all cached, but the logits are gone: evaluate the last token once more
        Status status = kv_cache_truncate(s->engine->backend, &s->cache, (int)s->n_log - 1, error);
        if (status) return status;
        begin--;
    }
    int64_t first = begin;
    while (s->cache.n_used < s->n_log) {
        int64_t n = s->n_log - s->cache.n_used;
        if (n > s->engine->forward.max_tokens) n = s->engine->forward.max_tokens;
        if (s->progress.step && s->n_log - first > n &&
            !s->progress.step(s->progress.user, "reading", s->cache.n_used - first, s->n_log - first))
            return error_set(error, STATUS_INTERRUPTED, "interrupted");
        Status status = evaluate(s, s->cache.n_used + n, error);
        if (status) return status;
        last = (int)n - 1;
    }
    if (s->progress.step && s->n_log - first > s->engine->forward.max_tokens)
        s->progress.step(s->progress.user, "reading", s->n_log - first, s->n_log - first);
    s->engine->logits_of = NULL;
    Status status = forward_logits(&s->engine->forward, &last, 1, error);
    if (!status) s->engine->logits_of = s;
    return status;
}

// Cuts log and cache down to what they share with `tokens`, and appends the rest to the log.
static Status replace_log(Session *s, const int32_t *tokens, int64_t n, Error *error) {
    if (n < 1) return error_set(error, STATUS_USAGE, "a sequence has at least one token");
    if (n > s->cache.n_slots)
        return error_set(error, STATUS_CONTEXT, "%lld tokens do not fit in the context of %d", (long long)n,
                         s->cache.n_slots);
    int64_t common = 0;
    while (common < n && common < s->n_log && tokens[common] == s->log[common]) common++;
    if (common < n || common < s->n_log) drop_logits(s);
    Status status = kv_cache_truncate(s->engine->backend, &s->cache, (int)common, error);
    if (status) return status;
    memcpy(s->log + common, tokens + common, (size_t)(n - common) * sizeof *s->log);
    s->n_log = n;
    return STATUS_OK;
}

// After a failure the log ends where the cache does, so that it never promises what is not there.
static Status give_up(Session *s, Status status) {
    s->n_log = s->cache.n_used;
    drop_logits(s);
    return status;
}

Status session_sync(Session *s, const int32_t *tokens, int64_t n, SyncReport *report, Error *error) {
    double start = clock_seconds();
    Status status = replace_log(s, tokens, n, error);
    if (status) return status;
    int64_t cached = s->cache.n_used;
    if (cached == n && !has_logits(s)) cached--;
    status = evaluate_pending(s, error);
    if (status) return give_up(s, status);
    if (report)
        *report = (SyncReport){.cached = cached, .evaluated = n - cached, .seconds = clock_seconds() - start};
    return STATUS_OK;
}

Status session_sample(Session *s, const SampleParams *params, int32_t *token, Error *error) {
    if (s->n_log < 1) return error_set(error, STATUS_USAGE, "nothing to go on from: the session is empty");
    if (s->n_log > s->cache.n_slots)
        return error_set(error, STATUS_CONTEXT, "the context of %d tokens is full", s->cache.n_slots);
    Status status = evaluate_pending(s, error);
    if (!status) status = forward_sample(&s->engine->forward, params, token, error);
    if (status) return status;
    s->log[s->n_log++] = *token;
    drop_logits(s);
    return STATUS_OK;
}

Status session_logits(Session *s, float *logits, Error *error) {
    if (s->n_log < 1) return error_set(error, STATUS_USAGE, "nothing to speak of: the session is empty");
    Status status = evaluate_pending(s, error);
    if (status) return status;
    size_t bytes = (size_t)s->engine->model->shape.vocab_size * sizeof(float);
    return s->engine->backend->ops->read(s->engine->backend, logits, s->engine->forward.logits, bytes, error);
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

Status session_logits_of(Session *s, const int32_t *tokens, int64_t n, int64_t from, float *logits,
                         Error *error) {
    if (from < 0 || from >= n)
        return error_set(error, STATUS_USAGE, "logits from position %lld of %lld", (long long)from,
                         (long long)n);
    Status status = replace_log(s, tokens, n, error);
    if (!status && s->cache.n_used > from)
        status = kv_cache_truncate(s->engine->backend, &s->cache, (int)from, error);
    if (status) return status;
    drop_logits(s);
    int64_t vocab = s->engine->model->shape.vocab_size;
    while (s->cache.n_used < n && !status) {
        int64_t first = s->cache.n_used, end = first + s->engine->forward.max_tokens;
        if (end > n) end = n;
        status = evaluate(s, end, error);
        int64_t begin = first > from ? first : from;
        if (!status && begin < end)
            status = read_logits(s, first, begin, end, logits + (begin - from) * vocab, error);
    }
    return status ? give_up(s, status) : STATUS_OK;
}
