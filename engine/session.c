#include "engine/engine_internal.h"
#include "engine/session_step.h"

#include "kernels/clock.h"

#include <stdlib.h>
#include <string.h>

enum { WORTH_KEEPING = 16 }; // tokens that would have to be read again: fewer are no branch

struct Session {
    Engine *engine;
    KvSequence sequence; // of the log's first tokens
    int32_t *log;        // [window + 1]: the last token may wait for its evaluation
    int64_t n_log;       // tokens in the log
    bool independent;    // see session_set_independent()
    const volatile sig_atomic_t *interrupt;
    Progress progress;
    int32_t *ids, *positions, *slots; // [max_tokens] of the step in hand
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
    drop_logits(s);
    kv_sequence_free(&s->engine->cache, &s->sequence);
    free(s->log);
    free(s->ids);
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
    return s->sequence.length;
}

int64_t session_pending(const Session *s) {
    return s->n_log - s->sequence.length;
}
void session_set_independent(Session *s) {
    s->independent = true;
}

int64_t session_kept(const Session *s) {
    return s->sequence.n_gone > 0 ? s->sequence.n_keep : -1;
}

// Where frequencies go by the length of the text, what was read with those of another length is read again.
static void match_frequencies(Session *s) {
    int64_t n = s->n_log < s->engine->cache.window ? s->n_log : s->engine->cache.window;
    int set = model_rope_set(s->engine->model, n);
    if (s->sequence.rope_set == set) return;
    kv_sequence_truncate(&s->engine->cache, &s->sequence, 0);
    drop_logits(s);
    s->sequence.rope_set = set;
}

Status session_enter(Session *s, int n, SessionPart *part, Error *error) {
    KvCache *cache = &s->engine->cache;
    int64_t first = s->sequence.length;
    Status status = kv_sequence_extend(cache, &s->sequence, n, part->slots, part->positions, error);
    if (status) return status;
    drop_logits(s);
    memcpy(part->ids, s->log + first, (size_t)n * sizeof *part->ids);
    *part->sequence = kv_sequence_step(cache, &s->sequence, n);
    return STATUS_OK;
}

void session_leave(Session *s, int n) {
    kv_sequence_truncate(&s->engine->cache, &s->sequence, s->sequence.length - n);
}

// Evaluates the log's tokens [cached, end), at most a chunk of them. If it fails, the cache is as it was.
static Status evaluate(Session *s, int64_t end, Error *error) {
    KvCache *cache = &s->engine->cache;
    int n = (int)(end - s->sequence.length);
    StepSequence all;
    SessionPart part = {s->ids, s->positions, s->slots, &all};
    Status status = session_enter(s, n, &part, error);
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
    };
    status = forward_step(&s->engine->forward, &step, cache, s->interrupt, error);
    if (status) session_leave(s, n);
    return status;
}

void session_want_logits(Session *s) {
    match_frequencies(s);
    if (s->sequence.length == s->n_log && !has_logits(s))
        kv_sequence_truncate(&s->engine->cache, &s->sequence, s->n_log - 1);
}

// Evaluates whatever of the log is not in the cache and leaves the logits of its last token in forward.logits.
static Status evaluate_pending(Session *s, Error *error) {
    if (has_logits(s)) return STATUS_OK;
    int last = 0;
    session_want_logits(s);
    int64_t first = s->sequence.length;
    while (s->sequence.length < s->n_log) {
        int64_t n = s->n_log - s->sequence.length;
        if (n > s->engine->forward.max_tokens) n = s->engine->forward.max_tokens;
        if (s->progress.step && s->n_log - first > n &&
            !s->progress.step(s->progress.user, "reading", s->sequence.length - first, s->n_log - first))
            return error_set(error, STATUS_INTERRUPTED, "interrupted");
        Status status = evaluate(s, s->sequence.length + n, error);
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

void session_share(Session *s, int64_t n) {
    KvCache *cache = &s->engine->cache;
    KvSequence prompt;
    if (n > s->sequence.length) n = s->sequence.length;
    if (!cache->paged || n < WORTH_KEEPING || s->sequence.n_gone > 0) return;
    if (!kv_sequence_fork(cache, &s->sequence, n, &prompt, NULL)) kv_branch_keep(cache, s->log, &prompt);
}

void session_clear(Session *s) {
    kv_sequence_free(&s->engine->cache, &s->sequence);
    s->n_log = 0;
    drop_logits(s);
}

// The log becomes its own first `length` tokens. What that cuts off stays as a branch, if that is worth it.
static void cut(Session *s, int64_t length) {
    KvCache *cache = &s->engine->cache;
    KvSequence shorter;
    if (cache->paged && !s->independent && length + WORTH_KEEPING <= s->sequence.length &&
        !kv_sequence_fork(cache, &s->sequence, length, &shorter, NULL)) {
        kv_branch_keep(cache, s->log, &s->sequence);
        s->sequence = shorter;
    }
    kv_sequence_truncate(cache, &s->sequence, length);
    s->n_log = length;
}

// An independent session looks at branches only where nothing of its own is cached: what others read in stands for what
// would be read in, not for what was decoded here.
static int64_t recall(Session *s, const int32_t *tokens, int64_t n, bool branches) {
    KvCache *cache = &s->engine->cache;
    KvSequence other;
    const int set = model_rope_set(s->engine->model, n);
    int64_t own = 0;
    while (own < n && own < s->sequence.length && tokens[own] == s->log[own]) own++;
    if (own == n && own == s->n_log) return n; // nothing changes, and the logits stay
    const int64_t usable = s->sequence.rope_set == set ? own : 0;
    if (s->independent && own > 0) branches = false;
    const int64_t common = branches ? kv_branch_recall(cache, tokens, n, set, usable, &other) : usable;
    const bool found = common > usable;
    cut(s, found ? 0 : own);
    if (found) {
        kv_sequence_free(cache, &s->sequence);
        s->sequence = other;
        memcpy(s->log, tokens, (size_t)common * sizeof *s->log);
        s->n_log = common;
    }
    drop_logits(s);
    return s->n_log;
}

int64_t session_known(const Session *s, const int32_t *tokens, int64_t n) {
    const int set = model_rope_set(s->engine->model, n);
    int64_t own = 0;
    int ignored;
    while (own < n && own < s->sequence.length && tokens[own] == s->log[own]) own++;
    return kv_branch_find(&s->engine->cache, tokens, n, set, s->sequence.rope_set == set ? own : 0, &ignored);
}

// An independent one takes branches only for what it is going to read in: what leaves by a shift has to be its own.
int64_t session_recall(Session *s, const int32_t *tokens, int64_t n) {
    return recall(s, tokens, n, !s->independent);
}

Status session_set(Session *s, const int32_t *tokens, int64_t n, Error *error) {
    if (n < 1) return error_set(error, STATUS_USAGE, "a sequence has at least one token");
    if (n > s->engine->cache.window)
        return error_set(error, STATUS_CONTEXT, "%lld tokens do not fit in the context of %d", (long long)n,
                         s->engine->cache.window);
    int64_t common = recall(s, tokens, n, true);
    memcpy(s->log + common, tokens + common, (size_t)(n - common) * sizeof *s->log);
    s->n_log = n;
    match_frequencies(s);
    return STATUS_OK;
}

// After a failure the log ends where the cache does, so that it never promises what is not there.
static Status give_up(Session *s, Status status) {
    s->n_log = s->sequence.length;
    drop_logits(s);
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
    return s->sequence.length - (s->sequence.length == s->n_log && !has_logits(s));
}

Status session_evaluate(Session *s, Error *error) {
    Status status = evaluate_pending(s, error);
    float arrived; // a logit on the host: only then has a backend that runs by itself done the work
    if (!status)
        status = s->engine->backend->ops->read(s->engine->backend, &arrived, s->engine->forward.logits,
                                               sizeof arrived, error);
    return status ? give_up(s, status) : STATUS_OK;
}

Status session_draw(Session *s, const SampleParams *params, int32_t *token, Error *error) {
    if (s->n_log < 1) return error_set(error, STATUS_USAGE, "nothing to go on from: the session is empty");
    if (s->n_log > s->engine->cache.window)
        return error_set(error, STATUS_CONTEXT, "the context of %d tokens is full", s->engine->cache.window);
    Status status = evaluate_pending(s, error);
    if (!status) status = forward_sample(&s->engine->forward, 1, params, token, error);
    return status ? status : forward_check_sampled(*token, error);
}

Status session_sample(Session *s, const SampleParams *params, int32_t *token, Error *error) {
    Status status = session_draw(s, params, token, error);
    if (!status) session_push(s, *token);
    return status;
}

void session_push(Session *s, int32_t token) {
    s->log[s->n_log++] = token;
    drop_logits(s);
    match_frequencies(s);
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

// Evaluates what is pending, a chunk at a time; the logits of log positions from `from` on go to `logits`.
static Status evaluate_all(Session *s, int64_t from, float *logits, Error *error) {
    int64_t vocab = s->engine->model->shape.vocab_size;
    Status status = STATUS_OK;
    while (s->sequence.length < s->n_log && !status) {
        int64_t first = s->sequence.length, end = first + s->engine->forward.max_tokens;
        if (end > s->n_log) end = s->n_log;
        status = evaluate(s, end, error);
        int64_t begin = first > from ? first : from;
        if (!status && begin < end)
            status = read_logits(s, first, begin, end, logits + (begin - from) * vocab, error);
    }
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
    drop_logits(s);
    return evaluate_all(s, from, logits, error);
}

// ---- discarding ------------------------------------------------------------------------------------------------

Status session_discard(Session *s, int64_t from, int64_t n, OverflowPolicy policy, Error *error) {
    if (from < 0 || n < 1 || from + n > s->n_log)
        return error_set(error, STATUS_USAGE, "tokens %lld to %lld cannot leave a log of %lld",
                         (long long)from, (long long)(from + n - 1), (long long)s->n_log);
    KvCache *cache = &s->engine->cache;
    bool in_place = policy == OVERFLOW_SHIFT_INPLACE;
    bool shift = (in_place || policy == OVERFLOW_SHIFT) && !engine_cannot_shift(s->engine) &&
                 kv_sequence_can_discard(cache, &s->sequence, from, n, in_place);
    Status status = STATUS_OK;
    if (shift) status = kv_sequence_discard(cache, &s->sequence, from, n, in_place, error);
    if (status && status != STATUS_CONTEXT)
        return status; // no page for what it shares with others: read it again
    // After a shift the logits still speak of the last token: it is what it was.
    if (!shift || status || from + n == s->n_log) drop_logits(s);
    if (!shift || status) // from the kept prefix on, so that the next time another one may be kept
        kv_sequence_truncate(cache, &s->sequence,
                             s->sequence.n_gone > 0 && from > s->sequence.n_keep ? s->sequence.n_keep : from);
    memmove(s->log + from, s->log + from + n, (size_t)(s->n_log - from - n) * sizeof *s->log);
    s->n_log -= n;
    return STATUS_OK;
}

void session_forget_gone(Session *s) {
    kv_branch_forget_gone(&s->engine->cache);
    if (s->sequence.n_gone == 0) return;
    kv_sequence_truncate(&s->engine->cache, &s->sequence, s->sequence.n_keep);
    s->n_log = s->sequence.length;
    drop_logits(s);
}

Status session_make_room(Session *s, const OverflowSettings *settings, int64_t n, Error *error) {
    int64_t excess = s->n_log + n - s->engine->cache.window;
    if (excess <= 0) return STATUS_OK;
    int64_t keep = settings->keep < 0 ? OVERFLOW_SINKS : settings->keep;
    int64_t leaving = s->n_log > keep ? overflow_discard(settings, s->n_log - keep) : 0;
    if (leaving < excess) leaving = excess;
    if (settings->policy == OVERFLOW_STOP || keep + leaving > s->n_log)
        return error_set(error, STATUS_CONTEXT, "%lld tokens do not fit: %lld of the context of %d are used",
                         (long long)n, (long long)s->n_log, s->engine->cache.window);
    return session_discard(s, keep, leaving, settings->policy, error);
}

Status session_stream(Session *s, const int32_t *tokens, int64_t n, const OverflowSettings *settings,
                      float *logits, Error *error) {
    int64_t vocab = s->engine->model->shape.vocab_size;
    Status status = STATUS_OK;
    while (n > 0 && !status) {
        int64_t room = s->engine->cache.window - s->n_log;
        if (room <= 0) {
            status = session_make_room(s, settings, 1, error);
            continue;
        }
        int64_t piece = n < room ? n : room, begin = s->n_log;
        memcpy(s->log + begin, tokens, (size_t)piece * sizeof *tokens);
        s->n_log += piece;
        drop_logits(s);
        match_frequencies(s);
        status = evaluate_all(s, logits ? begin : s->n_log, logits, error);
        tokens += piece;
        n -= piece;
        if (logits) logits += piece * vocab;
    }
    return status;
}
