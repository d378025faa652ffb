// A session's log: what it becomes, and what of it stays cached.
#include "engine/session/session_internal.h"

#include <stdlib.h>
#include <string.h>

enum { WORTH_KEEPING = 16 }; // tokens that would have to be read again: fewer are no branch

static int64_t text_length(const Session *s) {
    int64_t n = s->n_log > s->n_expected ? s->n_log : s->n_expected;
    return n < s->engine->cache.context_size ? n : s->engine->cache.context_size;
}

void session_expect(Session *s, int64_t n_tokens) {
    s->n_expected = n_tokens;
    session_match_frequencies(s);
}

// Nothing of what is cached stays.
static void forget(Session *s) {
    kv_sequence_truncate(&s->engine->cache, &s->sequence, 0);
    session_drop_logits(s);
}

void session_match_prefix(Session *s) {
    const int64_t n = model_prefix(s->engine->model, s->log, s->n_log);
    if (s->sequence.n_prefix == n && (s->sequence.length >= n || s->sequence.length == 0)) return;
    forget(s);
    s->sequence.n_prefix = (int32_t)n;
}

void session_match_frequencies(Session *s) {
    int set = model_rope_set(s->engine->model, text_length(s));
    session_match_prefix(s);
    if (s->sequence.rope_set == set) return;
    forget(s);
    s->sequence.rope_set = set;
}

void session_keep_frequencies(Session *s) {
    session_match_prefix(s);
    if (s->sequence.length == 0 || !model_rope_holds(s->engine->model, s->sequence.rope_set, text_length(s)))
        session_match_frequencies(s);
}

void session_push(Session *s, int32_t token) {
    s->log[s->n_log++] = token;
    if (session_has_logits(s)) s->engine->logits_of = NULL;
    session_keep_frequencies(s);
}

void session_share(Session *s, int64_t n) {
    KvCache *cache = &s->engine->cache;
    KvSequence prompt;
    if (n > s->sequence.length) n = s->sequence.length;
    if (!cache->paged || n < WORTH_KEEPING || s->sequence.n_evicted > 0 || s->engine->model->seen_both_ways)
        return;
    if (!kv_sequence_fork(cache, &s->sequence, n, &prompt, NULL)) kv_branch_keep(cache, s->log, &prompt);
}

void session_clear(Session *s) {
    kv_sequence_free(&s->engine->cache, &s->sequence);
    s->n_log = 0;
    session_drop_logits(s);
}

// The log becomes its own first `length` tokens. What that cuts off stays as a branch, if that is worth it.
static void keep_tail_as_branch(Session *s, int64_t length) {
    KvCache *cache = &s->engine->cache;
    KvSequence shorter;
    if (cache->paged && !s->independent && !s->engine->model->seen_both_ways &&
        length + WORTH_KEEPING <= s->sequence.length &&
        !kv_sequence_fork(cache, &s->sequence, length, &shorter, NULL)) {
        kv_branch_keep(cache, s->log, &s->sequence);
        s->sequence = shorter;
    }
    kv_sequence_truncate(cache, &s->sequence, length);
    s->n_log = s->sequence.length;
}

void session_put_aside(Session *s) {
    keep_tail_as_branch(s, 0);
    session_drop_logits(s);
}

void session_take_over(Session *s, const int32_t *log, KvSequence *sequence) {
    kv_sequence_free(&s->engine->cache, &s->sequence);
    s->sequence = *sequence;
    *sequence = (KvSequence){0};
    s->n_log = s->sequence.length;
    memcpy(s->log, log, (size_t)s->n_log * sizeof *log);
    session_drop_logits(s);
}

// How much of `tokens` [n] is cached for just that: a prefix that is seen both ways as a whole or not at all.
static int64_t own_usable(const Session *s, const int32_t *tokens, int64_t n) {
    const int64_t prefix = model_prefix(s->engine->model, tokens, n),
                  own = kv_common_prefix(tokens, n, s->log, s->sequence.length);
    return s->sequence.n_prefix == prefix && own >= prefix
               ? kv_sequence_cut(&s->engine->cache, &s->sequence, own)
               : 0;
}

// Where `tokens` [n], of which the first `common` are cached, part from a text that is, if that is worth a mark; else 0.
static int64_t parting_of(const Session *s, const int32_t *tokens, int64_t n, int64_t own, int64_t common) {
    const KvCache *cache = &s->engine->cache;
    if (!cache->states) return 0; // any token of the cache can be gone on from
    const int64_t other = kv_branch_common(cache, tokens, n, model_rope_set(s->engine->model, n)),
                  most = own > other ? own : other;
    return most < n && most >= common + WORTH_KEEPING ? most : 0;
}

// An independent session looks at branches only where nothing of its own is cached: what others read in stands for what
// would be read in, not for what was decoded here.
static int64_t recall(Session *s, const int32_t *tokens, int64_t n, bool branches) {
    KvCache *cache = &s->engine->cache;
    KvSequence other;
    const int set = model_rope_set(s->engine->model, n);
    const int64_t own = own_usable(s, tokens, n);
    if (own == n && own == s->n_log) return n; // nothing changes, and the logits stay
    const int64_t usable = s->sequence.rope_set == set ? own : 0;
    if ((s->independent && own > 0) || s->engine->model->seen_both_ways) branches = false;
    // Every prompt of a template begins with the same few tokens: these are not worth the copy of a page.
    const int64_t least = s->independent && usable < WORTH_KEEPING ? WORTH_KEEPING - 1 : usable;
    const int64_t common = branches ? kv_branch_recall(cache, tokens, n, set, least, &other) : least;
    const bool found = common > least;
    keep_tail_as_branch(s, found ? 0 : own);
    if (found) {
        kv_sequence_free(cache, &s->sequence);
        s->sequence = other;
        memcpy(s->log, tokens, (size_t)common * sizeof *s->log);
        s->n_log = common;
    }
    session_drop_logits(s);
    return s->n_log;
}

int64_t session_known(const Session *s, const int32_t *tokens, int64_t n) {
    const int set = model_rope_set(s->engine->model, n);
    const int64_t own = own_usable(s, tokens, n);
    int ignored;
    return kv_branch_find(&s->engine->cache, tokens, n, set, s->sequence.rope_set == set ? own : 0, &ignored);
}

// An independent one takes branches only for what it is going to read in: what leaves by a shift has to be its own.
int64_t session_recall(Session *s, const int32_t *tokens, int64_t n) {
    return recall(s, tokens, n, !s->independent);
}

Status session_set(Session *s, const int32_t *tokens, int64_t n, Error *error) {
    if (n < 1) return error_set(error, STATUS_USAGE, "a sequence has at least one token");
    if (n > s->engine->cache.context_size)
        return error_set(error, STATUS_CONTEXT, "%lld tokens do not fit in the context of %d", (long long)n,
                         s->engine->cache.context_size);
    const int64_t own = kv_common_prefix(tokens, n, s->log, s->sequence.length);
    int64_t common = recall(s, tokens, n, true);
    s->parting = parting_of(s, tokens, n, own, common);
    s->catches_up = false;
    memcpy(s->log + common, tokens + common, (size_t)(n - common) * sizeof *s->log);
    s->n_log = n;
    session_match_frequencies(s);
    return STATUS_OK;
}

// ---- evicting ------------------------------------------------------------------------------------------------

Status session_evict(Session *s, int64_t from, int64_t n, OverflowPolicy policy, Error *error) {
    if (from < 0 || n < 1 || from + n > s->n_log)
        return error_set(error, STATUS_USAGE, "tokens %lld to %lld cannot leave a log of %lld",
                         (long long)from, (long long)(from + n - 1), (long long)s->n_log);
    KvCache *cache = &s->engine->cache;
    s->engine->ahead.of = NULL; // pages may be copied, and keys turned
    s->catches_up = false;
    s->version = ++s->engine->n_versions;
    bool in_place = policy == OVERFLOW_SHIFT_INPLACE;
    bool shift = (in_place || policy == OVERFLOW_SHIFT) && !engine_cannot_shift(s->engine) &&
                 kv_sequence_can_evict(cache, &s->sequence, from, n, in_place);
    Status status = STATUS_OK;
    if (shift) status = kv_sequence_evict(cache, &s->sequence, from, n, in_place, error);
    if (status && status != STATUS_CONTEXT)
        return status; // no page for what it shares with others: read it again
    // After a shift the logits still speak of the last token: it is what it was.
    if (!shift || status || from + n == s->n_log) session_drop_logits(s);
    if (!shift || status) // from the sinks on, so that the next time there may be others
        kv_sequence_truncate(cache, &s->sequence,
                             s->sequence.n_evicted > 0 && from > s->sequence.n_sinks ? s->sequence.n_sinks
                                                                                     : from);
    memmove(s->log + from, s->log + from + n, (size_t)(s->n_log - from - n) * sizeof *s->log);
    s->n_log -= n;
    return STATUS_OK;
}

void session_drop_shifted(Session *s) {
    kv_branch_drop_shifted(&s->engine->cache);
    if (s->sequence.n_evicted == 0) return;
    kv_sequence_truncate(&s->engine->cache, &s->sequence, s->sequence.n_sinks);
    s->n_log = s->sequence.length;
    session_drop_logits(s);
}

Status session_make_room(Session *s, const OverflowSettings *settings, int64_t n, Error *error) {
    int64_t excess = s->n_log + n - s->engine->cache.context_size;
    if (excess <= 0) return STATUS_OK;
    int64_t keep = settings->keep < 0 ? OVERFLOW_SINKS : settings->keep;
    int64_t leaving = s->n_log > keep ? overflow_n_evicted(settings, s->n_log - keep) : 0;
    if (leaving < excess) leaving = excess;
    if (settings->policy == OVERFLOW_STOP || keep + leaving > s->n_log)
        return error_set(error, STATUS_CONTEXT, "%lld tokens do not fit: %lld of the context of %d are used",
                         (long long)n, (long long)s->n_log, s->engine->cache.context_size);
    return session_evict(s, keep, leaving, settings->policy, error);
}
