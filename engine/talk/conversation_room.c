// How room is made in the window: what leaves, and how what stays comes to its new places in the cache.
#include "engine/talk/conversation_internal.h"
#include "engine/cache/kv_cache.h"

#include <stdlib.h>

int64_t conversation_reserve(const Conversation *c) {
    int64_t reserve = overflow_reserve(&c->settings.overflow, engine_context_size(c->engine));
    if (c->settings.max_tokens > 0 && reserve > c->settings.max_tokens) reserve = c->settings.max_tokens;
    return reserve > 1 ? reserve : 1;
}

// Marks what a plan says as evicted; tells the turns it belongs to.
static void leave(Conversation *c, const OverflowPlan *plan, OverflowEvent *event) {
    for (int i = 0, turn = 0, span = 0; i < c->n; i++) {
        Message *m = &c->messages[i];
        turn += m->role == CHAT_USER;
        if (m->evicted) continue;
        if (plan->n_of_reply && span == plan->reply) m->n_evicted += plan->n_of_reply;
        if (span >= plan->first && span < plan->first + plan->n_messages) {
            m->evicted = true;
            if (event->first_turn == 0) event->first_turn = turn;
            event->last_turn = turn;
        }
        span++;
    }
    event->n_of_reply += plan->n_of_reply;
}

// The oldest of the reply in hand are evicted, `excess` of them at least. Returns how many.
static int64_t leave_inside(Conversation *c, int64_t excess) {
    Message *reply = &c->messages[c->n - 1];
    int64_t there = reply->n_ids - reply->n_evicted;
    if (there == 0) return 0;
    int64_t n = overflow_n_evicted(&c->settings.overflow, there);
    if (n < excess) n = excess < there ? excess : there;
    reply->n_evicted += n;
    return n;
}

// One go: turns, or tokens of old replies; where only the turn in hand is left, tokens of its reply. *from is where
// in the view the first of it stood, *left whether anything left.
static Status leave_once(Conversation *c, const ConversationView *view, int64_t needed, OverflowEvent *event,
                         int64_t *from, bool *left, Error *error) {
    const OverflowSettings *settings = &c->settings.overflow;
    int64_t size = engine_context_size(c->engine);
    OverflowSpan *spans;
    Status status = conversation_overflow_spans(c, view, &spans, error);
    if (status) return status;
    OverflowPlan plan = overflow_plan(settings, spans, view->n_spans, size, needed);
    free(spans);
    leave(c, &plan, event);
    *left = plan.n_messages > 0 || plan.n_of_reply > 0;
    *from = plan.n_messages ? view->spans[plan.first].begin : view->spans[plan.reply].text_begin;
    if (*left || settings->policy == OVERFLOW_STOP) return STATUS_OK;
    int64_t n = leave_inside(c, view->tokens.n + needed - size);
    event->n_inside += n;
    *left = n > 0;
    *from = view->spans[view->n_spans - 1].text_begin;
    return STATUS_OK;
}

// Tokens at the front of `view` that stay in the cache whatever leaves, because attention rests on them: BOS and all
// that the template puts before the first message's text, as far as the beginning of what is left has them as well,
// which is `common` tokens. All of it, for a model rests on one of them, and it need not be the first: a role's name
// that is spelled out in six tokens cost half of what the model knew when only four of them stayed. They are the same
// the next time something leaves. None only where the settings keep none.
static int64_t sinks(const Conversation *c, const ConversationView *view, int64_t common) {
    if (c->settings.overflow.keep == 0) return 0;
    int64_t n = view->n_spans > 0 ? view->spans[0].text_begin : 0;
    if (n < 1) n = 1;
    return n < common ? n : common;
}

// The log becomes that of the view before, as far as it is cached. If what stays is that without a single range behind
// the first tokens, this range leaves the log, and the rest is shifted; else the next session_sync() reads it again:
// also where the old beginning and the new one have no token in common, for without one a shift costs half of what a
// model knows, and with another one the log would not be the template over what is left.
static Status shift(Conversation *c, const ConversationView *view, const Tokens *after, int64_t from,
                    int64_t cached, Error *error) {
    const Tokens *before = &view->tokens;
    int64_t n = before->n - after->n, suffix = 0;
    if (n < 1) return STATUS_OK;
    const int64_t prefix = kv_common_prefix(before->ids, before->n, after->ids, after->n);
    while (suffix < after->n && before->ids[before->n - 1 - suffix] == after->ids[after->n - 1 - suffix])
        suffix++;
    int64_t first = after->n - suffix, last = prefix; // the range may begin anywhere between
    const int64_t stays = sinks(c, view, prefix), kept = session_sinks(c->session);
    if (first < stays) first = stays;
    if (kept >= first && kept <= last) from = kept;
    if (from < first) from = first;
    if (from > last) from = last;
    const bool rests = stays > 0 || c->settings.overflow.keep == 0;
    if (first > last || !rests || from + n > cached) return STATUS_OK;
    return session_evict(c->session, from, n, c->settings.overflow.policy, error);
}

Status conversation_follow(Conversation *c, const ConversationView *before, Error *error) {
    ConversationView now;
    Status status = conversation_render(c, false, &now, error);
    if (status) return status;
    int64_t from = 0;
    for (int i = 0, k = 0; i < c->n && k < now.n_spans && c->messages[i].role == CHAT_SYSTEM; i++)
        if (!c->messages[i].evicted) from = now.spans[k++].end;
    int64_t cached = session_recall(c->session, before->tokens.ids, before->tokens.n);
    status = shift(c, before, &now.tokens, from, cached, error);
    conversation_view_free(&now);
    return status;
}

Status conversation_no_room(const Conversation *c, const LackOfRoom *lack, Error *error) {
    const OverflowSettings *settings = &c->settings.overflow;
    const long long size = engine_context_size(c->engine), tokens = lack->n_tokens, reply = lack->needed;
    const char *more = lack->at_least ? "more than " : "";
    if (lack->of_system)
        return error_set(error, STATUS_CONTEXT,
                         "the system prompt of %s%lld tokens leaves no room for a reply of %lld in the "
                         "context of %lld; shorten it (/system), or use a larger --context",
                         more, tokens, reply, size);
    return error_set(error, STATUS_CONTEXT,
                     "the prompt of %s%lld tokens leaves no room for a reply of %lld in the context of %lld; "
                     "shorten it, %suse a larger --context%s",
                     more, tokens, reply, size,
                     settings->policy == OVERFLOW_STOP ? "make room (/undo, /forget), " : "",
                     settings->cut_prompt ? "" : ", or have it cut (long_prompt)");
}

// Why the view and a reply of `needed` do not fit.
static Status no_room(const Conversation *c, const ConversationView *view, int64_t needed, Error *error) {
    LackOfRoom lack = {.n_tokens = view->tokens.n, .needed = needed};
    int64_t system = 0;
    for (int i = 0, k = 0; i < c->n && k < view->n_spans && c->messages[i].role == CHAT_SYSTEM; i++)
        if (!c->messages[i].evicted) system = view->spans[k++].end;
    lack.of_system = system + needed > engine_context_size(c->engine);
    if (lack.of_system) lack.n_tokens = system;
    return conversation_no_room(c, &lack, error);
}

Status conversation_make_room(Conversation *c, int64_t needed, ConversationView *view, OverflowEvent *event,
                              Error *error) {
    int64_t size = engine_context_size(c->engine), from = 0, where = 0;
    Status status = STATUS_OK;
    ConversationView before = *view;
    *view = (ConversationView){0};
    const ConversationView *now = &before;
    for (bool left = true; !status && left && now->tokens.n + needed > size;) {
        status = leave_once(c, now, needed, event, &where, &left, error);
        if (now == &before) from = where;
        if (status || !left) break;
        conversation_view_free(view);
        status = conversation_render(c, true, view, error);
        now = view;
    }
    if (!status && now->tokens.n + needed > size)
        status = long_prompt_cut(c, needed, now, &event->n_prompt, error);
    if (!status && event->n_prompt) {
        conversation_view_free(view);
        status = conversation_render(c, true, view, error);
        now = view;
    }
    if (!status && now->tokens.n + needed > size) status = no_room(c, now, needed, error);
    if (!status) {
        const int64_t read = kv_common_prefix(before.tokens.ids, before.tokens.n, session_tokens(c->session),
                                              session_cached(c->session)),
                      cached = session_recall(c->session, before.tokens.ids, before.tokens.n);
        event->n_evicted = before.tokens.n - view->tokens.n;
        // What was never read is not read again; what was, and cannot be gone on from, is.
        event->n_evaluated = (cached > read ? cached : read) - before.tokens.n;
        status = shift(c, &before, &view->tokens, from, cached, error);
    }
    conversation_view_free(&before);
    return status;
}
