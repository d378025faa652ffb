// Tokens that are guessed: they go through the step of the pending one, behind it, and from the logits of each what
// follows is drawn, as far as it is what was guessed. What was guessed wrong leaves the cache as undone tokens do.
#include "engine/session/session_internal.h"

#include <math.h>

const char *engine_cannot_draft(const Engine *engine) {
    const Model *model = engine->model;
    if (engine->forward.stages > 1) return "its layers are divided between hosts";
    if (!engine->backend->ops->step_seconds) return "nothing is known here of what several tokens cost";
    if (model->seen_both_ways) return "its prompt is seen both ways";
    if (model_rope_set(model, engine->context_size) > 0)
        return "its rotary frequencies go by the length of the text";
    return NULL;
}

bool engine_takes_back(const Engine *engine) {
    return decoder_recurring(&engine->model->shape) == 0;
}

// Of a mixture of experts more of them take part in a step the more tokens it has, as if each chose for itself.
static double share_read(const Model *model, int n) {
    const double all = (double)model->n_parameters, one = (double)model->n_active_parameters;
    const double chosen =
        model->shape.experts.n > 0 ? (double)model->shape.experts.n_active / model->shape.experts.n : 1;
    if (all <= 0 || chosen >= 1) return 1;
    const double experts = (all - one) / (1 - chosen);
    return (all - experts * pow(1 - chosen, n)) / all;
}

double engine_step_seconds(const Engine *engine, int n) {
    const EngineMemory *m = &engine->memory;
    const double bytes = (double)(m->weights + m->host_weights) * share_read(engine->model, n);
    return engine->backend->ops->step_seconds(engine->backend, bytes, n);
}

bool session_decodes(const Session *s) {
    const int64_t pending = session_pending(s);
    return pending == 1 || (s->catches_up && pending <= SESSION_MOST_DRAFTS);
}

int session_most_drafts(const Session *s) {
    const Forward *f = &s->engine->forward;
    const KvCache *cache = &s->engine->cache;
    const int64_t pending = session_pending(s);
    int64_t most = kv_sequence_room(cache, &s->sequence) - pending;
    // Behind the token that fills the context what is seen may be another text.
    if (most > cache->context_size - s->n_log - 1) most = cache->context_size - s->n_log - 1;
    if (!session_decodes(s) || f->profile || f->tap || most < 0) return 0;
    if (most > f->max_logits - 1) most = f->max_logits - 1;
    if (most > f->max_tokens - pending) most = f->max_tokens - pending;
    return most + pending <= SESSION_MOST_DRAFTS + 1 ? (int)most : SESSION_MOST_DRAFTS + 1 - (int)pending;
}

void session_interrupt_with(Session *s, const Session *other) {
    s->interrupt = other->interrupt;
}

void session_hold_ahead(Session *s, bool holds) {
    s->holds_ahead = holds;
}

bool session_is_ahead(const Session *s) {
    return s->engine->ahead.of == s && s->sequence.length + 1 == s->n_log &&
           s->engine->ahead.slot.id == s->log[s->n_log - 1];
}

void session_guess(Session *s, int i, int32_t id) {
    s->log[s->n_log + i] = id;
}

// What is not cached of the log is pending.
static void keep_cached(Session *s, int64_t length) {
    kv_sequence_truncate(&s->engine->cache, &s->sequence, length);
    s->catches_up = s->sequence.length < length;
}

Status session_draw_guessed(Session *s, int n, const SampleParams *params, int32_t *tokens, int *n_drawn,
                            Error *error) {
    const int64_t length = s->n_log;
    const int32_t first = (int32_t)session_pending(s) - 1;
    int32_t rows[SESSION_MOST_DRAFTS + 1];
    *n_drawn = 0;
    for (int i = 0; i <= n; i++) rows[i] = first + i;
    s->settled = s->sequence.length;
    Status status = session_evaluate_to(s, length + n, &(LogitRows){rows, n + 1}, error);
    if (status) return status;
    Forward *f = &s->engine->forward;
    status = forward_logits(f, rows, n + 1, error);
    if (!status) status = forward_sample(f, n + 1, params, tokens, error);
    int right = 0;
    while (!status && right < n && tokens[right] == s->log[length + right]) right++;
    const Status drawn = status ? status : forward_check_sampled(tokens[right], error);
    // What was drawn before a failure is as good as drawn one by one; then it comes again, alone.
    if (drawn && right-- == 0) status = drawn;
    keep_cached(s, status ? length : length + right);
    if (status) return status;
    s->n_log = length + right;
    s->engine->logits_of = s;
    f->current = forward_row(f, right);
    *n_drawn = right + 1;
    return STATUS_OK;
}

void session_cut(Session *s, int64_t length) {
    if (length > s->n_log || length < 1) return;
    s->n_log = length;
    if (s->sequence.length >= length) keep_cached(s, length - 1);
    session_drop_logits(s);
}
