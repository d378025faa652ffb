// What a person hears of a full context: notices before and after room was made. What is evicted is decided in
// engine/cache/overflow.c and carried out by engine/talk/conversation_room.c.
#include "app/chat/chat_internal.h"
#include "app/chat/look/report.h"
#include "app/chat/way.h"
#include "kernels/base/array.h"

enum { SMALL_SHARE = 8 }; // of the context: less is small

void chat_overflow_begin(Chat *chat) {
    chat->reply.n_overflow = 0;
    chat->reply.overflow_lost = false;
    chat->reply.run = (TranscriptOverflow){0};
}

static void tell(Chat *chat, const TranscriptOverflow *overflow) {
    ChatReply *reply = &chat->reply;
    if (chat->interactive && reply->speaking && !reply->parted) screen_space(chat->screen);
    reply->parted = reply->speaking;
    report_overflow(chat, overflow);
    if (array_reserve(&reply->overflow, sizeof *reply->overflow, (size_t)reply->n_overflow, 1,
                      &reply->overflow_room))
        reply->overflow[reply->n_overflow++] = *overflow;
    else
        reply->overflow_lost = true;
}

static void tell_run(Chat *chat) {
    if (chat->reply.run.times) tell(chat, &chat->reply.run);
    chat->reply.run = (TranscriptOverflow){0};
}

// A turn that is evicted in part: further than before, if it was; one that is evicted whole since is told as that.
static void add_part(TranscriptOverflow *run, const TreeEviction *part) {
    int n = 0;
    for (int i = 0; i < run->n_partly; i++) {
        int turn = run->partly[i].turns.first;
        bool whole = turn >= run->event.first_turn && turn <= run->event.last_turn;
        if (!whole && (!part || turn != part->turns.first)) run->partly[n++] = run->partly[i];
    }
    if (part && n < (int)(sizeof run->partly / sizeof *run->partly)) run->partly[n++] = *part;
    run->n_partly = n;
}

static void add(TranscriptOverflow *run, const TranscriptOverflow *more) {
    OverflowEvent *sum = &run->event;
    const OverflowEvent *event = &more->event;
    run->system = run->system || more->system;
    if (!sum->first_turn) sum->first_turn = event->first_turn;
    if (event->last_turn) sum->last_turn = event->last_turn;
    sum->n_evicted += event->n_evicted;
    sum->n_cached = event->n_cached;
    sum->n_evaluated += event->n_evaluated;
    sum->n_inside += event->n_inside;
    sum->n_of_reply += event->n_of_reply;
    sum->n_prompt += event->n_prompt;
    sum->seconds += event->seconds;
    add_part(run, NULL);
    for (int i = 0; i < more->n_partly; i++) add_part(run, &more->partly[i]);
    run->times++;
}

void chat_overflow_note(Chat *chat, const OverflowEvent *event) {
    TranscriptOverflow own = {.event = *event};
    way_name_turns(chat, &own);
    if (chat->reply.n_overflow > 0 &&
        event->n_evicted < engine_context_size(chat->model.engine) / SMALL_SHARE) {
        add(&chat->reply.run, &own);
        return;
    }
    tell_run(chat);
    tell(chat, &own);
}

Status chat_overflow_end(Chat *chat, Error *error) {
    tell_run(chat);
    if (!chat->reply.overflow_lost) return STATUS_OK;
    return error_set(error, STATUS_MEMORY, "no memory to note what left the window");
}
