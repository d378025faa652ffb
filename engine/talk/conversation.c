#include "engine/talk/conversation_internal.h"
#include "engine/model/model.h"
#include "engine/talk/drafts/drafts.h"
#include "engine/talk/drafts/guesser.h"

#include <stdlib.h>
#include <string.h>

// ---- the list ----------------------------------------------------------------------------------------------

// End tokens, and what DRY takes for the end of a phrase: line ends, quotes, colons, asterisks, control tokens.
static void mark_tokens(Conversation *c) {
    const Tokenizer *tokenizer = engine_tokenizer(c->engine);
    for (int64_t id = 0; id < tokenizer_size(tokenizer); id++) {
        size_t size;
        const char *bytes = tokenizer_bytes(tokenizer, -1, (int32_t)id, false, &size);
        bool control = tokenizer_kind(tokenizer, (int32_t)id) == TOKEN_CONTROL, breaks = control;
        for (size_t i = 0; i < size; i++) breaks = breaks || (bytes[i] && strchr("\n:\"*", bytes[i]));
        if (breaks) sampler_mark(c->sampler, (int32_t)id, SAMPLER_BREAKER);
        if (chat_template_is_end(c->chat_template, tokenizer, (int32_t)id))
            sampler_mark(c->sampler, (int32_t)id, SAMPLER_END);
    }
}

Status conversation_open(Engine *engine, const ChatTemplate *chat_template,
                         const ConversationSettings *settings, Conversation **out, Error *error) {
    *out = NULL;
    Conversation *c = calloc(1, sizeof *c);
    if (!c) return error_set(error, STATUS_MEMORY, "no memory for a conversation");
    c->engine = engine;
    c->chat_template = chat_template;
    c->settings = *settings;
    Status status = session_open(engine, &c->session, error);
    if (!status) status = sampler_open(engine_model(engine)->shape.vocab_size, &c->sampler, error);
    if (!status) mark_tokens(c);
    if (status)
        conversation_close(c);
    else
        *out = c;
    return status;
}

void conversation_close(Conversation *c) {
    if (!c) return;
    message_list_free(&c->list);
    conversation_view_free(&c->ahead);
    sampler_close(c->sampler);
    drafts_close(c->drafts);
    guesser_close(c->guesser);
    session_close(c->session);
    free(c);
}

Status conversation_set_guesser(Conversation *c, Engine *engine, Error *error) {
    Guesser *guesser = NULL;
    Status status = engine ? guesser_open(engine, c->engine, &guesser, error) : STATUS_OK;
    if (status) return status;
    guesser_close(c->guesser);
    c->guesser = guesser;
    return STATUS_OK;
}

bool conversation_guesser_may_pay(const Conversation *c) {
    const DraftCosts costs = drafts_costs(c->engine);
    return c->guesser && guesser_may_pay(c->guesser, &costs, DRAFTS_MOST);
}

const Engine *conversation_guesser(const Conversation *c) {
    return c->guesser ? guesser_engine(c->guesser) : NULL;
}

const Error *conversation_guesser_failure(const Conversation *c) {
    return c->guesser ? guesser_failure(c->guesser) : NULL;
}

Session *conversation_session(Conversation *c) {
    return c->session;
}
ConversationSettings *conversation_settings(Conversation *c) {
    return &c->settings;
}
int conversation_length(const Conversation *c) {
    return c->n;
}
const Message *conversation_message(const Conversation *c, int index) {
    return &c->messages[index];
}

void conversation_take(Conversation *c, MessageList *list) {
    message_list_free(&c->list);
    c->list = *list;
    *list = (MessageList){0};
}

Status conversation_append(Conversation *c, const Message *message, Error *error) {
    return message_list_insert(&c->list, c->n, message, error);
}

Status conversation_set_system(Conversation *c, const char *text, Error *error) {
    bool has = c->n > 0 && c->messages[0].role == CHAT_SYSTEM;
    if (text && *text) {
        const Message system = {.role = CHAT_SYSTEM, .text = text, .size = strlen(text)};
        Message copy;
        if (!has) return message_list_insert(&c->list, 0, &system, error);
        if (message_copy(&system, &copy, error)) return error->status;
        message_free(&c->messages[0]);
        c->messages[0] = copy;
        return STATUS_OK;
    }
    if (!has) return STATUS_OK;
    message_free(&c->messages[0]);
    memmove(c->messages, c->messages + 1, (size_t)(--c->n) * sizeof *c->messages);
    return STATUS_OK;
}

void conversation_truncate(Conversation *c, int length) {
    while (c->n > length) message_free(&c->messages[--c->n]);
}

// ---- what the model sees ---------------------------------------------------------------------------------

Status conversation_render(Conversation *c, bool open_reply, ConversationView *view, Error *error) {
    *view = (ConversationView){0};
    Message *seen = malloc((size_t)(c->n + 1) * sizeof *seen);
    char **joined = calloc((size_t)c->n + 1, sizeof *joined); // texts without what was cut out of them
    view->spans = malloc((size_t)(c->n + 1) * sizeof *view->spans);
    Status status = STATUS_OK;
    if (!seen || !joined || !view->spans)
        status = error_set(error, STATUS_MEMORY, "no memory to render %d messages", c->n);
    const Message *reply = open_reply ? &c->messages[c->n - 1] : NULL;
    for (int i = 0; i < c->n - (reply ? 1 : 0) && !status; i++) {
        if (c->messages[i].evicted) continue;
        status = message_seen(&c->messages[i], &seen[view->n_spans], &joined[view->n_spans], error);
        if (!status && reply) status = long_prompt_check(c, i, &seen[view->n_spans], error);
        view->n_spans++;
    }
    if (!status)
        status = chat_template_render(c->chat_template, engine_tokenizer(c->engine),
                                      &(ChatTalk){seen, view->n_spans, open_reply}, &view->tokens,
                                      view->spans, error);
    if (!status && reply) {
        int64_t begin = view->n_spans ? view->spans[view->n_spans - 1].end : 0, text_begin = view->tokens.n;
        status = tokens_append(&view->tokens, reply->ids + reply->n_evicted, reply->n_ids - reply->n_evicted,
                               error);
        view->spans[view->n_spans++] = (ChatSpan){begin, text_begin, view->tokens.n, view->tokens.n};
    }
    for (int i = 0; joined && i < c->n; i++) free(joined[i]);
    free(joined);
    free(seen);
    if (status) conversation_view_free(view);
    return status;
}

Status conversation_view(Conversation *c, bool with_generation_prompt, ConversationView *view, Error *error) {
    if (!with_generation_prompt) return conversation_render(c, false, view, error);
    Message nothing = {.role = CHAT_ASSISTANT, .text = "", .ids = (int32_t[]){0}};
    Status status = conversation_append(c, &nothing, error);
    if (status) return status;
    status = conversation_render(c, true, view, error);
    conversation_truncate(c, c->n - 1);
    if (!status) view->n_spans--;
    return status;
}

void conversation_view_free(ConversationView *view) {
    tokens_free(&view->tokens);
    free(view->spans);
    *view = (ConversationView){0};
}

Status conversation_overflow_spans(const Conversation *c, const ConversationView *view, OverflowSpan **spans,
                                   Error *error) {
    *spans = malloc((size_t)(view->n_spans + 1) * sizeof **spans);
    if (!*spans) return error_set(error, STATUS_MEMORY, "no memory for %d spans", view->n_spans);
    for (int i = 0, k = 0; i < c->n && k < view->n_spans; i++) {
        const Message *m = &c->messages[i];
        if (m->evicted) continue;
        (*spans)[k] =
            (OverflowSpan){.n_tokens = view->spans[k].end - view->spans[k].begin,
                           .n_text = m->ids ? view->spans[k].text_end - view->spans[k].text_begin : 0,
                           .is_system = m->role == CHAT_SYSTEM,
                           .is_user = m->role == CHAT_USER};
        k++;
    }
    return STATUS_OK;
}

Status conversation_forecast(Conversation *c, int64_t n_tokens, OverflowPlan *plan, Error *error) {
    *plan = (OverflowPlan){.fits = true};
    ConversationView view;
    OverflowSpan *spans = NULL;
    Status status = conversation_render(c, false, &view, error);
    if (!status) status = conversation_overflow_spans(c, &view, &spans, error);
    if (!status) {
        spans[view.n_spans] = (OverflowSpan){.n_tokens = n_tokens, .is_user = true}; // the turn to come
        *plan = overflow_plan(&c->settings.overflow, spans, view.n_spans + 1, engine_context_size(c->engine),
                              conversation_reserve(c));
    }
    free(spans);
    conversation_view_free(&view);
    return status;
}

const char *conversation_finish_name(FinishReason reason) {
    static const char *const names[] = {"end", "stop", "length", "context", "interrupted"};
    return names[reason];
}
