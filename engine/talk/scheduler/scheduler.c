#include "engine/talk/scheduler/scheduler_internal.h"

#include "engine/talk/conversation_internal.h"
#include "engine/engine_internal.h"
#include "engine/session/session_step.h"
#include "kernels/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { WORTH_WAITING_FOR = 32 }; // bytes that two prompts begin with

void scheduler_item_clear(SchedulerItem *item) {
    message_list_free(&item->replies);
}

Status scheduler_open(Engine *engine, const ChatTemplate *chat_template, const SchedulerOptions *options,
                      Scheduler **out, Error *error) {
    *out = NULL;
    if (!engine->cache.paged)
        return error_set(error, STATUS_USAGE, "a scheduler needs a cache in pages (cache.paged)");
    Scheduler *s = calloc(1, sizeof *s);
    size_t n = (size_t)engine->n_rows;
    if (s) {
        *s = (Scheduler){.engine = engine,
                         .chat_template = chat_template,
                         .interrupt = options->interrupt,
                         .budget = options->budget > 0 ? options->budget : engine_chunk(engine),
                         .n_rows = engine->n_rows};
        s->last = &s->finished;
        s->rows = calloc(n, sizeof *s->rows);
        s->decoding = calloc(n, sizeof *s->decoding);
        s->sessions = calloc(n, sizeof *s->sessions);
        s->params = calloc(n, sizeof *s->params);
        s->ids = calloc(n, sizeof *s->ids);
    }
    Status status = STATUS_OK;
    if (!s || !s->rows || !s->decoding || !s->sessions || !s->params || !s->ids)
        status = error_set(error, STATUS_MEMORY, "no memory for %d rows", engine->n_rows);
    if (!status) status = batch_open(engine, options->interrupt, &s->batch, error);
    if (status)
        scheduler_close(s);
    else
        *out = s;
    return status;
}

void scheduler_close(Scheduler *s) {
    if (!s) return;
    for (int i = 0; s->rows && i < s->n_rows; i++) {
        Error ignored;
        if (s->rows[i].reply) (void)reply_end(s->rows[i].reply, STATUS_INTERRUPTED, &ignored);
        conversation_close(s->rows[i].conversation);
    }
    batch_close(s->batch);
    free(s->rows);
    free(s->decoding);
    free(s->sessions);
    free(s->params);
    free(s->ids);
    free(s);
}

int scheduler_running(const Scheduler *s) {
    int n = 0;
    for (int i = 0; i < s->n_rows; i++) n += s->rows[i].state != ROW_EMPTY;
    return n;
}

int scheduler_waiting(const Scheduler *s) {
    int n = 0;
    for (int i = 0; i < s->n_rows; i++) n += s->rows[i].state == ROW_WAITING;
    return n;
}

int64_t scheduler_drawn(const Scheduler *s) {
    return s->n_drawn;
}

// ---- rows: out ---------------------------------------------------------------------------------------------------

SchedulerItem *scheduler_finished(Scheduler *s) {
    SchedulerItem *item = s->finished;
    if (!item) return NULL;
    s->finished = item->next;
    if (!s->finished) s->last = &s->finished;
    item->next = NULL;
    return item;
}

// The item is finished; the row is free for another.
static void leave(Scheduler *s, Row *row, Status status, const Error *error) {
    SchedulerItem *item = row->item;
    item->status = status;
    if (status) item->error = *error;
    item->seconds = clock_seconds() - row->start;
    *s->last = item;
    s->last = &item->next;
    scheduler_pages_give_back(s, row);
    row->item = NULL;
    row->state = ROW_EMPTY;
}

Status scheduler_ask(Conversation *c, const char *text, Error *error) {
    Message user = {.role = CHAT_USER, .text = text, .size = strlen(text)};
    return conversation_append(c, &user, error);
}

// ---- rows: replies ------------------------------------------------------------------------------------------------

// A reply has come to its end, or failed with `status`: the next turn, or the end of the item.
static void end_reply(Scheduler *s, Row *row, Status status, Error *error) {
    SchedulerItem *item = row->item;
    Conversation *c = row->conversation;
    status = reply_end(row->reply, status, error);
    row->reply = NULL;
    session_release(c->session);
    item->n_prompt += row->report.cached + row->report.read;
    item->n_cached += row->report.cached;
    item->n_prompt_cut += row->report.n_prompt_cut;
    item->n_evicted += row->report.n_evicted;
    item->n_reply += row->report.n_reply;
    item->finish = row->report.finish;
    if (!status) status = message_list_add(&item->replies, &c->messages[c->n - 1], error);
    row->turn++;
    bool more = !status && row->turn < item->n_turns;
    if (more) status = scheduler_ask(c, item->turns[row->turn], error);
    if (more && !status) status = scheduler_pages_renew(s, row, error);
    if (!more || status) return leave(s, row, status, error);
}

// A token that was drawn for the row.
static void take_token(Scheduler *s, Row *row, int32_t id) {
    Error error;
    bool moved = false;
    s->n_drawn++;
    Status status = forward_check_sampled(id, &error);
    if (!status) status = reply_token(row->reply, id, &moved, &error);
    if (status || reply_finished(row->reply)) return end_reply(s, row, status, &error);
    // More than the token may be pending, after room was made, or with other frequencies for a longer text.
    row->state = moved || session_pending(row->conversation->session) > 1 ? ROW_READING : ROW_DECODING;
}

// ---- rows: in -----------------------------------------------------------------------------------------------------

Row *scheduler_row_after(const Scheduler *s, RowState state, int64_t entered) {
    Row *first = NULL;
    for (int i = 0; i < s->n_rows; i++) {
        Row *row = &s->rows[i];
        if (row->state == state && row->entered > entered && (!first || row->entered < first->entered))
            first = row;
    }
    return first;
}

static Row *row_in(const Scheduler *s, RowState state) {
    return scheduler_row_after(s, state, -1);
}

bool scheduler_wants(const Scheduler *s) {
    return row_in(s, ROW_EMPTY) && !row_in(s, ROW_WAITING);
}

// The row's conversation becomes the item's, with its first turn.
static Status load(Scheduler *s, Row *row, Error *error) {
    const SchedulerItem *item = row->item;
    Status status = STATUS_OK;
    if (!row->conversation) {
        status = conversation_open(s->engine, s->chat_template, &item->settings, &row->conversation, error);
        if (status) return status;
        session_set_independent(row->conversation->session);
    }
    conversation_truncate(row->conversation, 0);
    row->conversation->settings = item->settings;
    for (int i = 0; i < item->n_messages && !status; i++)
        status = conversation_append(row->conversation, &item->messages[i], error);
    if (!status && item->n_turns > 0) status = scheduler_ask(row->conversation, item->turns[0], error);
    return status;
}

void scheduler_give(Scheduler *s, SchedulerItem *item) {
    Error error;
    Row *row = row_in(s, ROW_EMPTY);
    row->item = item;
    row->turn = 0;
    row->entered = s->n_entered++;
    row->start = clock_seconds();
    row->pages = 0;
    Status status = load(s, row, &error);
    int pages;
    if (!status) status = scheduler_pages_count(s, row, &pages, &error);
    if (status) return leave(s, row, status, &error);
    row->pages = pages;
    row->state = ROW_WAITING;
    scheduler_pages_admit(s);
}

// ---- a step ---------------------------------------------------------------------------------------------------------

// Rows whose prompts one step reads.
typedef struct Reading {
    Row *rows[BATCH_PIECES];
    BatchPiece pieces[BATCH_PIECES];
    int64_t cached[BATCH_PIECES]; // tokens of each that were, before
    int n;
} Reading;

// Whether the row's prompt begins as one does that is about to be read from its beginning: then it waits, for it will
// find that cached.
static bool begins_alike(const Reading *of, const Row *row) {
    const Conversation *c = row->conversation;
    const Message *own = c->messages;
    for (int i = 0; i < of->n && c->n > 0 && row->turn == 0 && !row->reply; i++) {
        const Message *other = of->rows[i]->conversation->messages;
        if (of->cached[i] > 0) continue; // what is common was found there, or is not worth it
        size_t n = own->size < other->size ? own->size : other->size, same = 0;
        while (same < n && own->text[same] == other->text[same]) same++;
        if (same >= WORTH_WAITING_FOR) return true;
    }
    return false;
}

// The rows that came first and have something to read, a step's worth of tokens. One whose reply cannot begin leaves.
static void gather(Scheduler *s, int64_t budget, Reading *reading) {
    int64_t entered = -1;
    Error error;
    *reading = (Reading){.n = 0};
    for (Row *row;
         budget > 0 && reading->n < BATCH_PIECES && (row = scheduler_row_after(s, ROW_READING, entered));) {
        if (begins_alike(reading, row)) return;
        entered = row->entered;
        Status status = STATUS_OK;
        if (!row->reply)
            status = reply_begin(row->conversation, false, NULL, &row->report, &row->reply, &error);
        if (status) {
            leave(s, row, status, &error);
            continue;
        }
        Session *session = row->conversation->session;
        reading->rows[reading->n] = row, reading->cached[reading->n] = session_cached(session);
        reading->pieces[reading->n++] = (BatchPiece){.session = session, .n = budget};
        session_want_logits(session);
        budget -= session_pending(session);
    }
}

// The first token of each row whose prompt was read to its end.
static Status draw_first(Scheduler *s, const Reading *reading, Error *error) {
    Row *rows[BATCH_PIECES];
    SampleParams params[BATCH_PIECES];
    int32_t ids[BATCH_PIECES];
    int n = 0;
    for (int i = 0; i < reading->n; i++) {
        Row *row = reading->rows[i];
        Session *session = row->conversation->session;
        if (!reading->pieces[i].ended) continue;
        if (row->turn == 0 && row->report.n_reply == 0) session_share(session, session_length(session));
        reply_params(row->reply, &params[n]);
        rows[n++] = row;
    }
    Status status = n > 0 ? batch_draw_pieces(s->batch, n, params, ids, error) : STATUS_OK;
    for (int i = 0; i < n && !status; i++) take_token(s, rows[i], ids[i]);
    return status;
}

static Status read_prompts(Scheduler *s, Error *error) {
    int64_t budget = s->budget;
    Status status = STATUS_OK;
    while (budget > 0 && !status) {
        Reading reading;
        gather(s, budget, &reading);
        if (reading.n == 0) return STATUS_OK;
        status = batch_read_pieces(s->batch, reading.pieces, reading.n, error);
        for (int i = 0; i < reading.n && !status; i++) budget -= reading.pieces[i].n;
        if (!status) status = draw_first(s, &reading, error);
    }
    return status;
}

static Status decode(Scheduler *s, Error *error) {
    int n = 0;
    for (int i = 0; i < s->n_rows; i++) {
        Row *row = &s->rows[i];
        if (row->state != ROW_DECODING) continue;
        s->decoding[n] = row;
        s->sessions[n] = row->conversation->session;
        reply_params(row->reply, &s->params[n++]);
    }
    if (n == 0) return STATUS_OK;
    Status status = batch_decode(s->batch, s->sessions, n, s->params, s->ids, error);
    for (int i = 0; i < n && !status; i++)
        if (s->ids[i] != BATCH_JOINED) take_token(s, s->decoding[i], s->ids[i]);
    return status;
}

Status scheduler_step(Scheduler *s, Error *error) {
    if (s->interrupt && *s->interrupt) return error_set(error, STATUS_INTERRUPTED, "interrupted");
    scheduler_pages_admit(s);
    Status status = read_prompts(s, error);
    return status ? status : decode(s, error);
}
