// How an answer is made: render, make room, read, sample token by token, stream.
#include "engine/conversation_internal.h"
#include "engine/stop.h"
#include "kernels/clock.h"
#include "tokenizer/utf8_stream.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STOPS = 64 };

// The reply in hand. Its message is the last of the conversation from the beginning on.
typedef struct Reply {
    Conversation *conversation;
    const ConversationEvents *events;
    ReplyReport *report;
    StopMatcher *stops;
    Utf8Stream utf8;
    int64_t ids_capacity;
    size_t text_capacity;
    int32_t previous; // the token before, -1 at the reply's beginning
    Message *before;  // [n_before] the messages as they were; texts and ids are not theirs
    int n_before;
} Reply;

static Message *reply_message(const Reply *r) {
    return &r->conversation->messages[r->conversation->n - 1];
}

// Renders the conversation with the reply open at its end, makes room if `needed` tokens do not fit behind it, and
// reads in what is not in the cache.
static Status read_in(Reply *r, int64_t needed, SyncReport *sync, Error *error) {
    Conversation *c = r->conversation;
    double start = clock_seconds();
    ConversationView view;
    Status status = conversation_render(c, true, &view, error);
    if (status) return status;
    OverflowEvent event = {0};
    bool full = view.tokens.n + needed > engine_context_size(c->engine);
    if (full) status = conversation_make_room(c, needed, &view, &event, error);
    if (!status) status = session_sync(c->session, view.tokens.ids, view.tokens.n, sync, error);
    conversation_view_free(&view);
    if (status || !full) return status;
    event.n_kept = sync->cached;
    event.n_evaluated += sync->evaluated;
    if (event.n_evaluated < 0) event.n_evaluated = 0; // what is new left at once
    event.seconds = clock_seconds() - start;
    if (r->events && r->events->overflow) r->events->overflow(r->events->user, &event);
    return STATUS_OK;
}

// ---- the reply's text and ids ------------------------------------------------------------------------------

static Status keep_id(Reply *r, int32_t id, Error *error) {
    Message *m = reply_message(r);
    if (m->n_ids == r->ids_capacity) {
        int64_t capacity = 2 * r->ids_capacity + 64;
        int32_t *ids = realloc(m->ids, (size_t)capacity * sizeof *ids);
        if (!ids)
            return error_set(error, STATUS_MEMORY, "no memory for a reply of %lld tokens",
                             (long long)capacity);
        m->ids = ids;
        r->ids_capacity = capacity;
    }
    m->ids[m->n_ids++] = id;
    return STATUS_OK;
}

static Status keep_text(Reply *r, const char *text, size_t size, Error *error) {
    Message *m = reply_message(r);
    if (size == 0) return STATUS_OK;
    if (m->size + size + 1 > r->text_capacity) {
        size_t capacity = 2 * (m->size + size + 1);
        char *longer = realloc(m->text, capacity);
        if (!longer) return error_set(error, STATUS_MEMORY, "no memory for a reply of %zu bytes", capacity);
        m->text = longer;
        r->text_capacity = capacity;
    }
    memcpy(m->text + m->size, text, size);
    m->size += size;
    m->text[m->size] = 0;
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

// One token: drawn, kept, shown. *finished is set when the reply ends with it.
static Status next_token(Reply *r, bool *finished, Error *error) {
    Conversation *c = r->conversation;
    SampleParams params;
    int32_t id;
    sampler_params(c->sampler, session_tokens(c->session), session_length(c->session), c->settings.position,
                   &params);
    Status status = session_sample(c->session, &params, &id, error);
    if (status) return status;
    c->settings.position++;
    r->report->n_reply++;
    if (r->events && r->events->token) r->events->token(r->events->user, id);
    if (!c->settings.sampler.ignore_eos &&
        chat_template_is_end(c->chat_template, engine_tokenizer(c->engine), id)) {
        r->report->finish = FINISH_END;
        *finished = true;
        return STATUS_OK;
    }
    status = keep_id(r, id, error);
    if (status) return status;
    size_t size;
    const char *bytes = tokenizer_bytes(engine_tokenizer(c->engine), r->previous, id, false, &size);
    r->previous = id;
    StopText sure = stop_feed(r->stops, bytes, size);
    status = show_both(r, sure, error);
    if (sure.stopped) {
        // The ids hold a stop string that the text does not: from now on the text counts.
        Message *m = reply_message(r);
        free(m->ids);
        m->ids = NULL;
        m->n_ids = m->n_gone = r->ids_capacity = 0;
        r->report->finish = FINISH_STOP;
        *finished = true;
    } else if (c->settings.max_tokens > 0 && r->report->n_reply >= c->settings.max_tokens) {
        r->report->finish = FINISH_LENGTH;
        *finished = true;
    }
    return status;
}

static Status sample_all(Reply *r, double start, Error *error) {
    Conversation *c = r->conversation;
    bool finished = false;
    Status status = STATUS_OK;
    double first = 0;
    while (!finished && !status) {
        if (session_interrupted(c->session))
            status = STATUS_INTERRUPTED;
        else if (session_length(c->session) >= engine_context_size(c->engine)) {
            if (c->settings.overflow.policy == OVERFLOW_STOP) {
                r->report->finish = FINISH_CONTEXT;
                break;
            }
            status = read_in(r, 1, &(SyncReport){0}, error);
        }
        if (!status) status = next_token(r, &finished, error);
        if (first == 0) first = clock_seconds();
    }
    if (status == STATUS_INTERRUPTED) {
        r->report->finish = FINISH_INTERRUPTED;
        status = STATUS_OK;
    }
    reply_message(r)->interrupted = r->report->finish > FINISH_STOP;
    if (!status && r->report->finish != FINISH_STOP) status = finish_text(r, error);
    r->report->first_token_seconds = first - start;
    r->report->decode_seconds = clock_seconds() - first;
    return status;
}

// ---- the whole ---------------------------------------------------------------------------------------------------

// The last message becomes one that can be lengthened: an empty one, or the assistant's with ids.
static Status open_message(Conversation *c, bool resume, Error *error) {
    if (!resume) {
        Message empty = {.role = CHAT_ASSISTANT, .text = (char *)"", .ids = (int32_t[]){0}};
        return conversation_append(c, &empty, error);
    }
    if (c->n == 0 || c->messages[c->n - 1].role != CHAT_ASSISTANT)
        return error_set(error, STATUS_USAGE, "there is no reply to go on with");
    Message *m = &c->messages[c->n - 1];
    if (m->ids) return STATUS_OK;
    Tokens ids = {0};
    Status status = tokenizer_encode(engine_tokenizer(c->engine), m->text, m->size, false, &ids, error);
    if (!status && !ids.ids) status = tokens_push(&ids, 0, error), ids.n = 0;
    if (status) {
        tokens_free(&ids);
        return status;
    }
    m->ids = ids.ids;
    m->n_ids = ids.n;
    return STATUS_OK;
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

// Puts the messages back as they were before the call, the last with the text and ids it had.
static void roll_back(Reply *r) {
    Conversation *c = r->conversation;
    conversation_truncate(c, r->n_before);
    for (int i = 0; i < r->n_before; i++) {
        Message *m = &c->messages[i];
        const Message *before = &r->before[i];
        m->discarded = before->discarded;
        m->n_ids = m->ids ? before->n_ids : 0;
        m->n_gone = m->ids ? before->n_gone : 0;
        m->size = before->size;
        m->text[m->size] = 0;
        m->interrupted = before->interrupted;
    }
}

Status conversation_reply(Conversation *c, bool resume, const ConversationEvents *events, ReplyReport *report,
                          Error *error) {
    ReplyReport unused = {0};
    Reply r = {.conversation = c, .events = events, .report = report ? report : &unused, .previous = -1};
    *r.report = (ReplyReport){.context_size = engine_context_size(c->engine)};
    double start = clock_seconds();
    Status status = open_message(c, resume, error);
    if (status) return status;
    const Message *m = reply_message(&r);
    r.ids_capacity = m->n_ids;
    r.text_capacity = m->size + 1;
    if (m->n_ids > 0) r.previous = m->ids[m->n_ids - 1];
    r.n_before = resume ? c->n : c->n - 1;
    r.before = malloc((size_t)c->n * sizeof *r.before);
    if (!r.before) {
        conversation_truncate(c, r.n_before);
        return error_set(error, STATUS_MEMORY, "no memory for a reply");
    }
    memcpy(r.before, c->messages, (size_t)r.n_before * sizeof *r.before);

    status = sampler_configure(c->sampler, &c->settings.sampler, c->settings.seed, c->settings.stream, error);
    if (!status) status = open_stops(c, &r.stops, error);
    SyncReport sync = {0};
    if (!status) status = read_in(&r, conversation_reserve(c), &sync, error);
    r.report->cached = sync.cached;
    r.report->read = sync.evaluated;
    if (!status) status = sample_all(&r, start, error);
    stop_close(r.stops);
    r.report->used = session_length(c->session);
    if (status) roll_back(&r);
    free(r.before);
    return status;
}
