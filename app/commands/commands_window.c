// Commands around the context window: context, overflow, forget.
#include "app/commands/commands_internal.h"
#include "app/record/attachment.h"
#include "app/terminal/screen/page.h"
#include "app/terminal/text_shown.h"
#include "app/chat/look/report.h"
#include "app/chat/look/window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    OLDEST_SHOWN = 4, // turns that /context shows one by one, if there are many: so many of the oldest
    YOUNGEST_SHOWN = 16,
    EXCERPT_COLUMNS = 48,
    BAR_COLUMNS = 72,
};

// ---- /context ---------------------------------------------------------------------------------------------

static void print_turn(Chat *chat, const WayTurn *turn, int number, FILE *out) {
    const TranscriptNode *node = transcript_node(chat_transcript(chat), turn->node);
    char name[32];
    snprintf(name, sizeof name, "turn %d", number);
    fprintf(out, "%-9s%8" PRId64 "  ", name, turn->n_tokens);
    const char *said = node->text ? attachment_skip(node->text) : node->reply.text;
    page_excerpt(out, said, node->text ? strlen(said) : node->reply.size, EXCERPT_COLUMNS);
    fputc('\n', out);
}

// The turns in the window; of many, those in the middle only as a sum.
static void print_turns(Chat *chat, const Window *window, FILE *out) {
    int seen = 0, skipped = 0;
    int64_t tokens = 0;
    for (int i = 0; i < window->n; i++) {
        const WayTurn *turn = &window->each[i];
        if (turn->evicted) continue;
        seen++;
        if (seen > OLDEST_SHOWN && seen <= window->n_seen - YOUNGEST_SHOWN) {
            skipped++;
            tokens += turn->n_tokens;
            continue;
        }
        if (skipped) fprintf(out, "…        %8" PRId64 "  in %d more\n", tokens, skipped);
        skipped = 0;
        print_turn(chat, turn, i + 1, out);
    }
}

static void print_next(Chat *chat, const Window *window, const WindowForecast *next, FILE *out) {
    char range[WAY_RANGE_ROOM];
    if (window->system >= window->size)
        fputs("next     the next turn does not fit: the system prompt is too long\n", out);
    else if (next->system || next->turns.first)
        fprintf(out, "next     the next turn may discard %s (%" PRId64 " tokens)\n",
                way_range_text(next->system, next->turns, range), next->n_tokens);
    else if (next->n_of_reply)
        fprintf(out, "next     the next turn may discard %" PRId64 " tokens of the oldest reply\n",
                next->n_of_reply);
    else if (next->fits)
        fputs("next     nothing leaves with the next turn\n", out);
    else if (chat_settings(chat)->talk.overflow.policy == OVERFLOW_STOP)
        fputs("next     the next turn does not fit: /undo, /forget or /clear make room\n", out);
    else
        fputs("next     the next turn may discard a part of this one's reply\n", out);
}

static int64_t room_in(const Window *window) {
    return window->used < window->size ? window->size - window->used : 0;
}

// What of it can be kept free for a reply now.
static int64_t reserve_in(const Window *window) {
    const int64_t room = room_in(window);
    return window->reserve < room ? window->reserve : room;
}

// The window as one bar: what stands at its beginning, turns, what is kept free for a reply, and free room.
static void print_bar(Chat *chat, const Window *window, FILE *out) {
    static const struct {
        const char *cell, *plain, *name;
    } parts[] = {{"█", "#", "kept"}, {"▓", "=", "turns"}, {"▒", "+", "reserve"}, {"░", ".", "free"}};
    const bool utf8 = screen_traits(chat_screen(chat))->utf8;
    const int64_t reserve = reserve_in(window);
    const int64_t sizes[] = {window->used - window->turns, window->turns, reserve, room_in(window) - reserve};
    int width = screen_width(chat_screen(chat)) - 1, drawn = 0;
    if (width > BAR_COLUMNS) width = BAR_COLUMNS;
    int64_t sum = 0;
    for (int part = 0; part < 4; part++) {
        sum += sizes[part];
        int end = (int)((double)sum / (double)window->size * width + 0.5);
        if (sizes[part] && end == drawn) end++; // what there is can be seen
        if (end > width) end = width;           // and what is too much, no further
        for (; drawn < end; drawn++) fputs(utf8 ? parts[part].cell : parts[part].plain, out);
    }
    fputc('\n', out);
    for (int part = 0; part < 4; part++)
        fprintf(out, "%s%s %s", part ? "   " : "", utf8 ? parts[part].cell : parts[part].plain,
                parts[part].name);
    fputs("\n\n", out);
}

// What stands before the turns. With them, the reserve and what is free it is the window.
static void print_kept(Chat *chat, const Window *window, FILE *out) {
    const int64_t kept = window->used - window->turns, own = kept - window->system;
    fprintf(out, "kept     %8" PRId64, kept);
    if (window->system) fprintf(out, "  the system prompt");
    if (window->system && own) fprintf(out, " (%" PRId64 ") and", window->system);
    if (own) fprintf(out, "%s the template's own", window->system ? "" : " ");
    if (*transcript_system(chat_transcript(chat)) && !way_sees_system(chat))
        fprintf(out, "%s the system prompt has left", own ? ";" : " ");
    fputc('\n', out);
}

static void print_context(Chat *chat, const Window *window, const WindowForecast *next, FILE *out) {
    print_bar(chat, window, out);
    int gone = window->n - window->n_seen;
    fprintf(out, "window   %8" PRId64 "  tokens, %.0f%% used\n", window->size,
            100.0 * (double)window->used / (double)window->size);
    print_kept(chat, window, out);
    print_turns(chat, window, out);
    fprintf(out, "turns    %8" PRId64 "  in %d turn%s", window->turns, window->n_seen,
            text_plural(window->n_seen));
    if (gone) fprintf(out, "; %d older one%s left", gone, gone == 1 ? " has" : "s have");
    const int64_t reserve = reserve_in(window);
    fprintf(out, "\nreserve  %8" PRId64 "  for the reply", reserve);
    if (reserve < window->reserve) fprintf(out, ", of %" PRId64, window->reserve);
    fprintf(out, "\nfree     %8" PRId64 "\n", room_in(window) - reserve);
    int64_t turns_left = window_turns_left(window, next);
    if (turns_left >= 0)
        fprintf(out, "left     about %" PRId64 " turn%s of the size so far\n", turns_left,
                text_plural(turns_left));
    print_next(chat, window, next, out);
}

Status commands_window_context(Chat *chat, const char *argument, Error *error) {
    Window window;
    WindowForecast next;
    Page page;
    if (argument_none("/context", argument, error) || window_open(chat, &window, error)) return error->status;
    Status status = window_forecast(chat, WINDOW_NEXT_TURN, &next, error);
    if (!status) status = page_open(&page, error);
    if (!status) {
        print_context(chat, &window, &next, page.stream);
        page_show(&page, chat_screen(chat));
    }
    window_close(&window);
    return status;
}

// ---- /overflow --------------------------------------------------------------------------------------------

static void print_policy(Chat *chat) {
    const OverflowSettings *overflow = &chat_settings(chat)->talk.overflow;
    char policy[64], discard[64] = "";
    config_print_value(&chat_settings(chat)->config, settings_key("overflow"), policy, sizeof policy);
    const char *why = engine_cannot_shift(chat_engine(chat));
    const bool shifts = overflow->policy == OVERFLOW_SHIFT || overflow->policy == OVERFLOW_SHIFT_INPLACE;
    if (why && shifts)
        screen_say(
            chat_screen(chat),
            "policy   \"reevaluate\", not %s: this model cannot be shifted, %s; what stays is read again",
            policy, why);
    else
        screen_say(chat_screen(chat), "policy   %s", policy);
    if (overflow->policy == OVERFLOW_STOP) {
        screen_say(chat_screen(chat),
                   "         what does not fit is refused; replies end where the context does");
        return;
    }
    if (overflow->discard >= 1)
        snprintf(discard, sizeof discard, "at least %.0f", overflow->discard);
    else if (overflow->discard > 0)
        snprintf(discard, sizeof discard, "at least %.0f%% of what may leave", 100 * overflow->discard);
    if (overflow->by_token)
        screen_say(chat_screen(chat), "leaves   the oldest tokens, %s",
                   *discard ? discard : "half of what may leave");
    else
        screen_say(chat_screen(chat),
                   "leaves   the oldest turns, until %.0f tokens are used (low_water %g)%s%s",
                   overflow->low_water * engine_context_size(chat_engine(chat)), overflow->low_water,
                   *discard ? ", and " : "", discard);
    screen_say(chat_screen(chat), "reserve  %" PRId64 " tokens are kept free for a reply",
               conversation_reserve(chat_conversation(chat)));
}

// What leaves with the next turn, else when something will, and what.
static Status preview(Chat *chat, Error *error) {
    Window window;
    WindowForecast next, later;
    char range[WAY_RANGE_ROOM];
    if (window_open(chat, &window, error)) return error->status;
    Status status = window_forecast(chat, WINDOW_NEXT_TURN, &next, error);
    const int64_t n_more = status ? 0 : window_turns_left(&window, &next);
    if (!status) status = window_foresee(chat, &window, n_more, &later, error);
    if (!status && (next.system || next.turns.first))
        screen_say(chat_screen(chat),
                   "with the next turn, %s may leave (%" PRId64 " tokens) and %" PRId64 " tokens stay",
                   way_range_text(next.system, next.turns, range), next.n_tokens,
                   window.used - next.n_tokens);
    else if (!status && next.n_of_reply)
        screen_say(chat_screen(chat), "with the next turn, %" PRId64 " tokens of the oldest reply may leave",
                   next.n_of_reply);
    else if (!status && !next.fits)
        screen_say(chat_screen(chat), "the next turn does not fit: it will be refused");
    else if (!status && (later.system || later.turns.first))
        screen_say(chat_screen(chat),
                   "nothing leaves with the next turn; after about %" PRId64
                   " turn%s of the size so far, %s will leave "
                   "(%" PRId64 " tokens)",
                   n_more, text_plural(n_more), way_range_text(later.system, later.turns, range),
                   later.n_tokens);
    else if (!status && chat_settings(chat)->talk.overflow.policy == OVERFLOW_STOP)
        screen_say(chat_screen(chat),
                   "nothing leaves; after about %" PRId64 " turn%s of the size so far, turns are refused",
                   n_more, text_plural(n_more));
    else if (!status)
        screen_say(chat_screen(chat), "nothing leaves before a part of the last turn's reply");
    window_close(&window);
    return status;
}

Status commands_window_overflow(Chat *chat, const char *argument, Error *error) {
    char setting[128];
    if (!*argument) {
        print_policy(chat);
        return STATUS_OK;
    }
    if (!strcmp(argument, "preview")) return preview(chat, error);
    snprintf(setting, sizeof setting, "overflow %.100s", argument);
    return commands_settings_set(chat, setting, error);
}

// ---- /forget ----------------------------------------------------------------------------------------------

Status commands_window_forget(Chat *chat, const char *argument, Error *error) {
    Window window;
    ConversationView before = {0};
    char range[WAY_RANGE_ROOM];
    int64_t n = 1, tokens = 0;
    if (window_open(chat, &window, error)) return error->status;
    Status status = STATUS_OK;
    if (window.n_seen < 2)
        status = error_set(error, STATUS_USAGE, "there is no older turn in the window; /clear begins anew");
    else if (*argument)
        status = argument_number("/forget", argument, "a number of turns", 1, window.n_seen - 1, &n, error);
    TreeRange turns = {0, 0};
    for (int i = 0; i < window.n && n > 0; i++) {
        if (window.each[i].evicted) continue;
        if (!turns.first) turns.first = i + 1;
        turns.last = i + 1;
        tokens += window.each[i].n_tokens;
        n--;
    }
    if (!status) status = chat_settings_apply(chat, error); // the policy may be a new one
    if (!status) status = chat_settings_record(chat, error);
    if (!status) status = conversation_view(chat_conversation(chat), false, &before, error);
    MessageList list = {0};
    if (!status) status = way_prepare_here(chat, &list, error);
    for (int i = turns.first - 1; i < turns.last && !status; i++)
        for (int k = window.each[i].begin; k < window.each[i].end; k++) list.messages[k].evicted = true;
    if (!status) status = transcript_forget(chat_transcript(chat), turns, tokens, error);
    if (!status) way_take(chat, &list);
    message_list_free(&list);
    if (!status) status = conversation_follow(chat_conversation(chat), &before, error);
    conversation_view_free(&before);
    if (!status) {
        report_again(chat);
        screen_notice(chat_screen(chat), "[%s left (%" PRId64 " tokens), %" PRId64 " stay]",
                      way_range_text(false, turns, range), tokens, window.used - tokens);
        chat_record_sync(chat);
    }
    window_close(&window);
    return status;
}
