// How an answer is made: render, make room, read, sample token by token, stream.
#include "engine/talk/reply_internal.h"

#include "engine/talk/conversation_internal.h"
#include "engine/engine_internal.h"
#include "engine/grammar/vocabulary.h"
#include "engine/session/session_step.h"
#include "kernels/base/array.h"
#include "kernels/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STOPS = 64 };

static Message *reply_message(const Reply *r) {
    return &r->conversation->messages[r->conversation->n - 1];
}

// Renders the conversation with the reply open at its end and makes room if `needed` tokens do not fit behind it. The
// session's log becomes that.
static Status set_prompt(Reply *r, int64_t needed, Error *error) {
    Conversation *c = r->conversation;
    ConversationView view = c->ahead;
    c->ahead = (ConversationView){0};
    r->event_start = clock_seconds();
    Status status = view.spans ? STATUS_OK : conversation_render(c, true, &view, error);
    if (status) return status;
    r->event = (OverflowEvent){0};
    bool full = view.tokens.n + needed > engine_context_size(c->engine);
    if (full) status = conversation_make_room(c, needed, &view, &r->event, error);
    if (!status) status = session_set(c->session, view.tokens.ids, view.tokens.n, error);
    conversation_view_free(&view);
    if (status) return status;
    int64_t cached = session_usable(c->session), read = session_length(c->session) - cached;
    if (!r->was_read) r->report->cached = cached, r->report->read = read;
    r->report->n_prompt_cut += r->event.n_prompt;
    r->report->n_evicted += r->event.n_evicted;
    r->made_room = full;
    r->event.n_cached = cached;
    r->event.n_evaluated += read;
    if (r->event.n_evaluated < 0) r->event.n_evaluated = 0; // what is new left at once
    r->event_read = read;
    r->event_seconds = clock_seconds() - r->event_start;
    return STATUS_OK;
}

// ---- the reply's text and ids ------------------------------------------------------------------------------

static Status keep_id(Reply *r, int32_t id, Error *error) {
    Message *m = reply_message(r);
    if (!array_reserve(&m->ids, sizeof *m->ids, (size_t)m->n_ids, 1, &r->ids_capacity))
        return error_set(error, STATUS_MEMORY, "no memory for a reply of %lld tokens",
                         (long long)m->n_ids + 1);
    ((int32_t *)m->ids)[m->n_ids++] = id; // the reply's own
    return STATUS_OK;
}

static Status keep_text(Reply *r, const char *text, size_t size, Error *error) {
    Message *m = reply_message(r);
    if (size == 0) return STATUS_OK;
    if (!array_reserve(&m->text, 1, m->size, size + 1, &r->text_capacity))
        return error_set(error, STATUS_MEMORY, "no memory for a reply of %zu bytes", m->size + size + 1);
    char *end = (char *)m->text + m->size; // the reply's own
    memcpy(end, text, size);
    end[size] = 0;
    m->size += size;
    if (r->events && r->events->text) r->events->text(r->events->user, text, size);
    return STATUS_OK;
}

// Bytes that no stop string can begin in any more become whole characters, text, and what the user sees.
static Status show(Reply *r, const char *bytes, size_t size, Error *error) {
    Status status = STATUS_OK;
    while (size > 0 && !status) {
        char text[UTF8_STREAM_ROOM(256)];
        size_t n = size < 256 ? size : 256;
        status = keep_text(r, text, utf8_stream_push(&r->utf8, bytes, n, text), error);
        bytes += n;
        size -= n;
    }
    return status;
}

static Status show_both(Reply *r, StopText sure, Error *error) {
    Status status = show(r, sure.held, sure.n_held, error);
    return status ? status : show(r, sure.fresh, sure.n_fresh, error);
}

// Shows what was held back and ends a dangling character.
static Status finish_text(Reply *r, Error *error) {
    Status status = show_both(r, stop_flush(r->stops), error);
    char text[UTF8_STREAM_ROOM(0)];
    if (!status) status = keep_text(r, text, utf8_stream_flush(&r->utf8, text), error);
    return status;
}

// ---- sampling ---------------------------------------------------------------------------------------------------

bool reply_finished(const Reply *r) {
    return r->finished;
}

bool reply_was_read(const Reply *r) {
    return r->was_read;
}

void reply_params_behind(Reply *r, int i, SampleParams *params) {
    const Conversation *c = r->conversation;
    sampler_params(c->sampler, session_tokens(c->session), session_length(c->session) + i,
                   c->settings.position + (uint64_t)i, params);
}

void reply_params(Reply *r, SampleParams *params) {
    if (r->made_room) {
        double reading = clock_seconds() - r->event_start - r->event_seconds;
        double share = r->event_read > 0 ? (double)r->event.n_evaluated / (double)r->event_read : 0;
        r->event.seconds = r->event_seconds + share * reading; // new tokens cost what they do without it
        if (r->events && r->events->overflow) r->events->overflow(r->events->user, &r->event);
        r->made_room = false;
    }
    r->was_read = true;
    reply_params_behind(r, 0, params);
    params->allowed = r->allowed;
}

Status reply_open_matcher(const Conversation *c, Matcher **matcher, Error *error) {
    Vocabulary *vocabulary;
    int n_ends;
    const int32_t *ends = sampler_ends(c->sampler, &n_ends);
    Status status = engine_vocabulary(c->engine, &vocabulary, error);
    return status ? status : matcher_open(c->settings.grammar, vocabulary, ends, n_ends, matcher, error);
}

static void finish(Reply *r, FinishReason reason) {
    r->report->finish = reason;
    r->finished = true;
}

// The token is kept and shown.
static Status keep_token(Reply *r, int32_t id, Error *error) {
    const Conversation *c = r->conversation;
    Status status = keep_id(r, id, error);
    if (status) return status;
    size_t size;
    const char *bytes = tokenizer_bytes(engine_tokenizer(c->engine), r->previous, id, false, &size);
    r->previous = id;
    if (r->matcher) status = matcher_accept(r->matcher, bytes, size, error);
    if (status) return status;
    channels_token(&r->channels, id, &bytes, &size);
    StopText sure = stop_feed(r->stops, bytes, size);
    status = show_both(r, sure, error);
    if (sure.stopped) {
        // The ids hold a stop string that the text does not: from now on the text counts.
        message_drop_ids(reply_message(r));
        r->ids_capacity = 0;
        finish(r, FINISH_STOP);
    } else if (c->settings.max_tokens > 0 && r->report->n_reply >= c->settings.max_tokens) {
        finish(r, FINISH_LENGTH);
    }
    return status;
}

// Room for the next token.
static Status go_on(Reply *r, bool *moved, Error *error) {
    const Conversation *c = r->conversation;
    if (session_length(c->session) < engine_context_size(c->engine)) return STATUS_OK;
    if (c->settings.overflow.policy == OVERFLOW_STOP) {
        finish(r, FINISH_CONTEXT);
        return STATUS_OK;
    }
    if (moved) *moved = true;
    return set_prompt(r, 1, error);
}

Status reply_token(Reply *r, int32_t id, bool *moved, Error *error) {
    Conversation *c = r->conversation;
    if (moved) *moved = false;
    if (r->first == 0) r->first = clock_seconds();
    if (r->n_logged > 0)
        r->n_logged--;
    else
        session_push(c->session, id);
    c->settings.position++;
    r->report->n_reply++;
    if (r->events && r->events->token) r->events->token(r->events->user, id);
    if (!c->settings.sampler.ignore_eos &&
        chat_template_is_end(c->chat_template, engine_tokenizer(c->engine), id)) {
        finish(r, FINISH_END);
        return STATUS_OK;
    }
    Status status = keep_token(r, id, error);
    if (!status && !r->finished && r->matcher) status = matcher_mask(r->matcher, id, &r->allowed, error);
    return status || r->finished ? status : go_on(r, moved, error);
}

// ---- the whole ---------------------------------------------------------------------------------------------------

// The last message becomes one that can be lengthened: an empty one, or the assistant's with ids.
static Status open_message(Conversation *c, bool resume, Error *error) {
    if (!resume) {
        Message empty = {.role = CHAT_ASSISTANT, .text = "", .ids = (int32_t[]){0}};
        return conversation_append(c, &empty, error);
    }
    if (c->n == 0 || c->messages[c->n - 1].role != CHAT_ASSISTANT)
        return error_set(error, STATUS_USAGE, "there is no reply to go on with");
    Message *m = &c->messages[c->n - 1];
    if (m->ids) return STATUS_OK;
    Tokens ids = {0};
    Status status = channels_encode(engine_tokenizer(c->engine), (TokenText){m->text, m->size}, &ids, error);
    if (!status && !ids.ids) status = tokens_push(&ids, 0, error), ids.n = 0;
    if (status) {
        tokens_free(&ids);
        return status;
    }
    m->ids = ids.ids;
    m->n_ids = ids.n;
    return STATUS_OK;
}

// A reply that goes on stands where its ids end.
static void begin_channels(Reply *r, const Message *m) {
    const Tokenizer *tokenizer = engine_tokenizer(r->conversation->engine);
    channels_find(&r->channels, tokenizer);
    channels_begin(&r->channels);
    for (int64_t i = 0; i < m->n_ids; i++) {
        size_t size;
        const char *bytes = tokenizer_bytes(tokenizer, -1, m->ids[i], false, &size);
        channels_token(&r->channels, m->ids[i], &bytes, &size);
    }
}

static Status open_stops(Conversation *c, StopMatcher **stops, Error *error) {
    const char *all[MAX_STOPS];
    int n = 0, n_template;
    const char *const *own = chat_template_stop_strings(c->chat_template, &n_template);
    if (c->settings.n_stop + n_template > MAX_STOPS)
        return error_set(error, STATUS_USAGE, "%d stop strings; at most %d", c->settings.n_stop + n_template,
                         MAX_STOPS);
    for (int i = 0; i < n_template; i++) all[n++] = own[i];
    for (int i = 0; i < c->settings.n_stop; i++) all[n++] = c->settings.stop[i];
    return stop_open(all, n, stops, error);
}

// The grammar's matcher, behind what a reply that goes on has said already.
static Status open_matcher(Reply *r, Error *error) {
    Conversation *c = r->conversation;
    const Message *m = reply_message(r);
    if (!c->settings.grammar) return STATUS_OK;
    if (c->settings.sampler.ignore_eos)
        return error_set(error, STATUS_USAGE,
                         "a grammar's reply ends with an end token, which ignore_eos bans");
    Status status = reply_open_matcher(c, &r->matcher, error);
    if (!status && matcher_accept(r->matcher, m->text, m->size, error))
        return error_prefix(error, "the reply so far does not fit the grammar: ");
    return status ? status : matcher_mask(r->matcher, r->previous, &r->allowed, error);
}

// Puts the messages back as they were before the call, the last with the text and ids it had.
static void roll_back(Reply *r) {
    Conversation *c = r->conversation;
    conversation_truncate(c, r->n_before);
    for (int i = 0; i < r->n_before; i++) {
        Message *m = &c->messages[i];
        const Message *before = &r->before[i];
        m->evicted = before->evicted;
        m->cut_from = before->cut_from;
        m->cut_to = before->cut_to;
        m->n_ids = m->ids ? before->n_ids : 0;
        m->n_evicted = m->ids ? before->n_evicted : 0;
        m->size = before->size;
        ((char *)m->text)[m->size] = 0; // the conversation's own
        m->interrupted = before->interrupted;
    }
}

static void reply_free(Reply *r) {
    matcher_close(r->matcher);
    matcher_close(r->scout);
    free(r->scouted);
    stop_close(r->stops);
    free(r->before);
    free(r->adjustments);
    free(r);
}

Status reply_end(Reply *r, Status status, Error *error) {
    ReplyReport *report = r->report;
    const bool lost = status == STATUS_FATAL;
    Error beside = {0}; // what else fails, where it is the loss that is told
    Error *told = lost ? &beside : error;
    if ((status == STATUS_INTERRUPTED && r->was_read) || (lost && report->n_reply > 0)) {
        report->finish = FINISH_INTERRUPTED;
        status = STATUS_OK;
    }
    if (!status) status = engine_check_files(r->conversation->engine, told); // while it was written, too
    reply_message(r)->interrupted = report->finish > FINISH_STOP;
    report->unfit = r->matcher && report->finish > FINISH_STOP && !matcher_may_end(r->matcher);
    if (!status && report->finish != FINISH_STOP) status = finish_text(r, told);
    report->first_token_seconds = r->first > 0 ? r->first - r->start : 0;
    report->decode_seconds = r->first > 0 ? clock_seconds() - r->first : 0;
    report->used = session_length(r->conversation->session);
    report->kept = !status;
    if (status) roll_back(r);
    reply_free(r);
    return lost ? STATUS_FATAL : status;
}

Status reply_begin(Conversation *c, bool resume, const ConversationEvents *events, ReplyReport *report,
                   Reply **out, Error *error) {
    Reply *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r) return error_set(error, STATUS_MEMORY, "no memory for a reply");
    *r = (Reply){.conversation = c, .events = events, .report = report ? report : &r->unread, .previous = -1};
    *r->report = (ReplyReport){.context_size = engine_context_size(c->engine)};
    r->start = clock_seconds();
    Status status = open_message(c, resume, error);
    if (status) {
        reply_free(r);
        return status;
    }
    const Message *m = reply_message(r);
    r->ids_capacity = (size_t)m->n_ids;
    r->text_capacity = m->size + 1;
    begin_channels(r, m);
    if (m->n_ids > 0) r->previous = m->ids[m->n_ids - 1];
    r->n_before = resume ? c->n : c->n - 1;
    r->before = malloc((size_t)c->n * sizeof *r->before);
    if (!r->before) {
        conversation_truncate(c, r->n_before);
        reply_free(r);
        return error_set(error, STATUS_MEMORY, "no memory for a reply");
    }
    memcpy(r->before, c->messages, (size_t)r->n_before * sizeof *r->before);

    status = engine_check_files(c->engine, error);
    if (!status)
        status =
            sampler_configure(c->sampler, &c->settings.sampler, c->settings.seed, c->settings.stream, error);
    if (!status) status = open_stops(c, &r->stops, error);
    if (!status) status = open_matcher(r, error);
    if (!status) status = set_prompt(r, conversation_reserve(c), error);
    if (status) {
        r->report->used = session_length(c->session);
        roll_back(r);
        reply_free(r);
        return status;
    }
    *out = r;
    return STATUS_OK;
}
