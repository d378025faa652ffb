// How much memory a row is promised: what its item may come to need is reserved before it is read.
#include "engine/talk/scheduler/scheduler_internal.h"

#include "engine/engine_internal.h"
#include "engine/session/session_step.h"
#include "engine/talk/conversation_internal.h"
#include "kernels/base/clock.h"

#include <string.h>

void scheduler_pages_give_back(Scheduler *s, Row *row) {
    if (row->conversation) session_clear(row->conversation->session);
    s->promised -= row->pages;
    row->pages = 0;
}

// A reply of no tokens to the turn in hand, and to each of those behind it.
static Status append_turns(const Row *row, Error *error) {
    const SchedulerItem *item = row->item;
    Message reply = {.role = CHAT_ASSISTANT, .text = "", .ids = (int32_t[]){0}};
    Status status = conversation_append(row->conversation, &reply, error);
    for (int turn = row->turn + 1; turn < item->n_turns && !status; turn++) {
        status = scheduler_ask(row->conversation, item->turns[turn], error);
        if (!status) status = conversation_append(row->conversation, &reply, error);
    }
    return status;
}

// Whether one of the turns to come is too long for any context.
static Status turns_are_beyond(const Row *row, bool *beyond, Error *error) {
    const SchedulerItem *item = row->item;
    Status status = STATUS_OK;
    *beyond = false;
    for (int turn = row->turn; turn < item->n_turns && !status && !*beyond; turn++)
        status = long_prompt_is_beyond(row->conversation, item->turns[turn], strlen(item->turns[turn]),
                                       beyond, error);
    return status;
}

static int pages_of(const Scheduler *s, int64_t n_tokens) {
    return (int)((n_tokens + s->engine->cache.page_size - 1) / s->engine->cache.page_size);
}

Status scheduler_pages_count(const Scheduler *s, const Row *row, int *pages, Error *error) {
    Conversation *c = row->conversation;
    const int64_t limit = row->item->settings.max_tokens;
    const int n = c->n, n_replies = row->item->n_turns > 1 ? row->item->n_turns - row->turn : 1;
    int64_t most = s->engine->cache.context_size;
    bool beyond;                       // the context, by a turn that is refused when it comes
    conversation_view_free(&c->ahead); // of an item before, whose reply did not begin
    Status status = turns_are_beyond(row, &beyond, error);
    if (status) return status;
    if (!beyond && limit > 0 && limit < most / n_replies) {
        status = append_turns(row, error);
        if (!status) status = conversation_render(c, true, &c->ahead, error);
        conversation_truncate(c, n);
        if (status) return status;
        if (c->ahead.tokens.n + n_replies * limit < most) most = c->ahead.tokens.n + n_replies * limit;
        if (n_replies > 1) conversation_view_free(&c->ahead);
    }
    *pages = pages_of(s, most);
    return status;
}

Status scheduler_pages_renew(Scheduler *s, Row *row, Error *error) {
    row->state = ROW_READING;
    if (row->pages == pages_of(s, s->engine->cache.context_size)) return STATUS_OK;
    int pages,
        held = pages_of(s, session_cached(row->conversation->session)); // until the next prompt is read
    Status status = scheduler_pages_count(s, row, &pages, error);
    if (status) return status;
    if (pages > row->pages) {
        scheduler_pages_give_back(s, row);
        row->state = ROW_WAITING;
    } else {
        if (pages < held) pages = held;
        s->promised -= row->pages - pages;
    }
    row->pages = pages;
    return STATUS_OK;
}

void scheduler_pages_admit(Scheduler *s) {
    for (Row *row; (row = scheduler_row_after(s, ROW_WAITING, -1)) &&
                   s->promised + row->pages <= s->engine->cache.n_pages;) {
        s->promised += row->pages;
        row->state = ROW_READING;
        if (row->turn == 0) row->start = clock_seconds();
    }
}
