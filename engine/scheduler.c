#include "engine/scheduler.h"

#include "engine/batch.h"
#include "engine/conversation_internal.h"
#include "engine/engine_internal.h"
#include "engine/reply.h"
#include "engine/session_step.h"
#include "kernels/clock.h"

#include <stdlib.h>
#include <string.h>

typedef enum RowState {
    ROW_EMPTY,
    ROW_WAITING,  // for pages
    ROW_READING,  // its session has pending tokens of a prompt, or its reply has not begun
    ROW_DECODING, // the last token of its reply is pending
} RowState;

typedef struct Row {
    RowState state;
    Conversation *conversation; // opened when the row is first used
    SchedulerItem *item;
    Reply *reply; // NULL: it begins with the next piece that is read
    ReplyReport report;
    int turn;        // replies made of the item
    int64_t entered; // which item it is, counted as they came
    int pages;       // promised to it
    double start;
} Row;

struct Scheduler {
    Engine *engine;
    const ChatTemplate *chat_template;
    Batch *batch;
    const volatile sig_atomic_t *interrupt;
    int budget;
    Row *rows; // [n_rows]
    int n_rows;
    int promised; // pages
    int64_t n_entered, n_drawn;
    SchedulerItem *finished, **last; // in the order in which they were
    // A step of decoding: [n_rows] each.
    Row **decoding;
    Session **sessions;
    SampleParams *params;
    int32_t *ids;
};

void scheduler_item_clear(SchedulerItem *item) {
    for (int i = 0; i < item->n_replies; i++) message_free(&item->replies[i]);
    free(item->replies);
    item->replies = NULL;
    item->n_replies = 0;
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
    if (row->conversation) session_clear(row->conversation->session);
    s->promised -= row->pages;
    row->pages = 0;
    row->item = NULL;
    row->state = ROW_EMPTY;
}

static Status keep_reply(SchedulerItem *item, const Message *reply, Error *error) {
    Message *longer = realloc(item->replies, (size_t)(item->n_replies + 1) * sizeof *longer);
    if (!longer) return error_set(error, STATUS_MEMORY, "no memory for a reply");
    item->replies = longer;
    Status status = message_copy(reply, &longer[item->n_replies], error);
    if (!status) item->n_replies++;
    return status;
}

static Status ask(const Row *row, Error *error) {
    const char *text = row->item->turns[row->turn];
    Message user = {.role = CHAT_USER, .text = (char *)text, .size = strlen(text)};
    return conversation_append(row->conversation, &user, error);
}

// A reply has come to its end, or failed with `status`: the next turn, or the end of the item.
static void end_reply(Scheduler *s, Row *row, Status status, Error *error) {
    SchedulerItem *item = row->item;
    Conversation *c = row->conversation;
    status = reply_end(row->reply, status, error);
    row->reply = NULL;
    item->n_prompt += row->report.cached + row->report.read;
    item->n_cached += row->report.cached;
    item->n_reply += row->report.n_reply;
    item->finish = row->report.finish;
    if (!status) status = keep_reply(item, &c->messages[c->n - 1], error);
    row->turn++;
    bool more = !status && row->turn < item->n_turns;
    if (more) status = ask(row, error);
    if (!more || status) return leave(s, row, status, error);
    row->state = ROW_READING;
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

static Row *row_in(const Scheduler *s, RowState state) {
    Row *first = NULL;
    for (int i = 0; i < s->n_rows; i++)
        if (s->rows[i].state == state && (!first || s->rows[i].entered < first->entered)) first = &s->rows[i];
    return first;
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
    if (!status && item->n_turns > 0) status = ask(row, error);
    return status;
}

// Most pages that the item will ever hold: of its prompt and its reply, where these are known, else of the window.
static Status count_pages(const Scheduler *s, Row *row, Error *error) {
    const KvCache *cache = &s->engine->cache;
    const SchedulerItem *item = row->item;
    int64_t most = cache->window;
    if (item->n_turns <= 1 && item->settings.max_tokens > 0) {
        ConversationView view;
        Status status = conversation_view(row->conversation, true, &view, error);
        if (status) return status;
        if (view.tokens.n + item->settings.max_tokens < most)
            most = view.tokens.n + item->settings.max_tokens;
        conversation_view_free(&view);
    }
    row->pages = (int)((most + cache->page_size - 1) / cache->page_size);
    return STATUS_OK;
}

void scheduler_give(Scheduler *s, SchedulerItem *item) {
    Error error;
    Row *row = row_in(s, ROW_EMPTY);
    row->item = item;
    row->turn = 0;
    row->entered = s->n_entered++;
    row->start = clock_seconds();
    Status status = load(s, row, &error);
    if (!status) status = count_pages(s, row, &error);
    s->promised += row->pages;
    if (status) return leave(s, row, status, &error);
    row->state = s->promised <= s->engine->cache.n_pages ? ROW_READING : ROW_WAITING;
}

static void admit(Scheduler *s) {
    Row *row = row_in(s, ROW_WAITING);
    if (row && s->promised <= s->engine->cache.n_pages) {
        row->state = ROW_READING;
        row->start = clock_seconds();
    }
}

// ---- a step ------------------------------------------------------------------------------------------------------------

// Reads a piece of a row's prompt; after the last one draws its first token.
static Status read_piece(Scheduler *s, Row *row, int64_t *budget, Error *error) {
    Session *session = row->conversation->session;
    if (!row->reply) {
        Error of_item;
        Status status = reply_begin(row->conversation, false, NULL, &row->report, &row->reply, &of_item);
        if (status) {
            leave(s, row, status, &of_item);
            return STATUS_OK;
        }
    }
    int64_t n;
    Status status = batch_read(s->batch, session, *budget, &n, error);
    if (status) return status;
    *budget -= n;
    if (session_pending(session) > 0) return STATUS_OK;
    if (row->turn == 0 && row->report.n_reply == 0) session_share(session, session_length(session));
    int32_t id;
    SampleParams params;
    reply_params(row->reply, &params);
    status = batch_draw(s->batch, &params, &id, error);
    if (!status) take_token(s, row, id);
    return status;
}

static Status read_prompts(Scheduler *s, Error *error) {
    int64_t budget = s->budget;
    Status status = STATUS_OK;
    for (Row *row; budget > 0 && !status && (row = row_in(s, ROW_READING));)
        status = read_piece(s, row, &budget, error);
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
    for (int i = 0; i < n && !status; i++) take_token(s, s->decoding[i], s->ids[i]);
    return status;
}

Status scheduler_step(Scheduler *s, Error *error) {
    if (s->interrupt && *s->interrupt) return error_set(error, STATUS_INTERRUPTED, "interrupted");
    admit(s);
    Status status = read_prompts(s, error);
    return status ? status : decode(s, error);
}
