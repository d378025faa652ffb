// Lines for people: banner, statistics, the context and what leaves it. All of it goes to stderr.
#include "app/chat.h"
#include "app/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEXT_TURN_TOKENS = 64 }; // a turn of ordinary length, for the warning that the next one discards

static const double FULL_SHARE = 0.8; // from here on the gauge warns

void format_bytes(int64_t bytes, char *text, size_t size) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1000 && unit < 4) value /= 1000, unit++;
    snprintf(text, size, value < 10 && unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static void format_count(int64_t count, char *text, size_t size) {
    if (count >= 1000000000)
        snprintf(text, size, "%.1fB", (double)count / 1e9);
    else
        snprintf(text, size, "%.*fM", count < 10000000 ? 1 : 0, (double)count / 1e6);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void report_banner(Chat *chat) {
    const Model *model = engine_model(chat->engine);
    EngineMemory memory = engine_memory(chat->engine);
    const char *note = engine_backend_note(chat->engine);
    char parameters[32], weights[32], cache[32], backend[256];
    format_count(model->n_parameters, parameters, sizeof parameters);
    format_bytes(model->weight_bytes, weights, sizeof weights);
    format_bytes(memory.cache, cache, sizeof cache);
    engine_describe_backend(chat->engine, backend, sizeof backend);
    screen_say(chat->screen, "%s: %s, %s parameters, %s, %s",
               *model->name ? model->name : base_name(chat->model_path), model->architecture, parameters,
               dtype_name(model_main_type(model)), weights);
    screen_say(chat->screen, "%s%s%s%s", backend, *note ? " (" : "", note, *note ? ")" : "");
    screen_say(chat->screen, "context %d tokens (%s cache, %s), template %s; /help lists the commands",
               engine_context_size(chat->engine), dtype_name(engine_cache_type(chat->engine)), cache,
               chat_template_name(chat->chat_template));
}

// ---- after a turn -----------------------------------------------------------------------------------------

static double tokens_per_second(const ReplyReport *r) {
    return r->decode_seconds > 0 && r->n_reply > 1 ? (double)(r->n_reply - 1) / r->decode_seconds : 0;
}

static void print_statistics(Chat *chat) {
    const ReplyReport *r = &chat->last;
    screen_notice(chat->screen,
                  "[turn %d: %" PRId64 " cached + %" PRId64 " read -> %" PRId64
                  " reply | first token %.0f ms | %.1f tok/s | context %.0f%% | %s]",
                  tree_depth(chat_tree(chat)), r->cached, r->read, r->n_reply, 1e3 * r->first_token_seconds,
                  tokens_per_second(r), 100 * chat_share(chat),
                  r->finish == FINISH_END ? "eos" : finish_reason_name(r->finish));
}

// Says once what the next turn would cost.
static void warn_of_next(Chat *chat) {
    OverflowPlan plan;
    Error ignored;
    if (chat->warned_next || conversation_forecast(chat->conversation, NEXT_TURN_TOKENS, &plan, &ignored))
        return;
    if (plan.fits && !plan.n_messages) return;
    chat->warned_next = true;
    if (chat->config->context.overflow == CONFIG_OVERFLOW_STOP)
        screen_warn(chat->screen,
                    "[the context is nearly full: the next turn may be refused; /undo or /clear make room]");
    else if (plan.n_turns)
        screen_warn(chat->screen,
                    "[the next turn will discard the oldest %d turn%s (%" PRId64
                    " tokens); /context tells more]",
                    plan.n_turns, text_plural(plan.n_turns), plan.n_tokens);
}

void report_turn(Chat *chat) {
    if (chat->config->ui.stats) print_statistics(chat);
    if (chat->last.finish == FINISH_INTERRUPTED && chat->interactive)
        screen_notice(chat->screen, "[interrupted; /continue goes on]");
    if (chat->last.finish == FINISH_LENGTH && chat->interactive)
        screen_notice(chat->screen, "[max_tokens reached; /continue goes on]");
    if (chat->last.finish == FINISH_CONTEXT)
        screen_warn(chat->screen, "[the context is full: the reply ends here; /undo or /clear make room]");
    if (chat_share(chat) >= FULL_SHARE && !chat->warned_full) {
        chat->warned_full = true;
        screen_warn(chat->screen, "[%.0f%% of the context is used]", 100 * chat_share(chat));
    }
    if (chat_share(chat) >= 0.5) warn_of_next(chat);
}

void report_overflow(Chat *chat, const OverflowEvent *event) {
    char what[160] = "";
    if (event->first_turn && event->first_turn == event->last_turn)
        snprintf(what, sizeof what, "turn %d left", event->first_turn);
    else if (event->first_turn)
        snprintf(what, sizeof what, "turns %d-%d left", event->first_turn, event->last_turn);
    if (event->n_inside)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s%" PRId64 " tokens of this reply left",
                 *what ? ", " : "", event->n_inside);
    screen_notice(chat->screen,
                  "[context full: %s (%" PRId64 " tokens), %" PRId64 " kept, %" PRId64
                  " re-evaluated, %.0f ms]",
                  *what ? what : "nothing left", event->n_discarded, event->n_kept, event->n_evaluated,
                  1e3 * event->seconds);
}

// ---- /stats and /context ----------------------------------------------------------------------------------

void report_stats(Chat *chat) {
    EngineMemory memory = engine_memory(chat->engine);
    char weights[32], cache[32], scratch[32], backend[256];
    format_bytes(memory.weights, weights, sizeof weights);
    format_bytes(memory.cache, cache, sizeof cache);
    format_bytes(memory.scratch, scratch, sizeof scratch);
    engine_describe_backend(chat->engine, backend, sizeof backend);
    int depth = tree_depth(chat_tree(chat));
    int64_t replies = 0, tokens = 0;
    for (int i = 0; i < chat_tree(chat)->n; i++, replies++)
        tokens += transcript_node(chat->transcript, i)->reply.report.n_reply;
    const Session *session = conversation_session(chat->conversation);
    screen_say(chat->screen,
               "conversation  %d turn%s; %" PRId64 " %s in all, %" PRId64 " token%s; seed %" PRIu64 "\n"
               "cache         %" PRId64 " of %d tokens\n"
               "memory        weights %s, cache %s, working space %s\n"
               "backend       %s",
               depth, text_plural(depth), replies, replies == 1 ? "reply" : "replies", tokens,
               text_plural(tokens), chat->seed, session_cached(session), engine_context_size(chat->engine),
               weights, cache, scratch, backend);
    if (chat->has_last) {
        const ReplyReport *r = &chat->last;
        double reading = r->first_token_seconds > 0 ? (double)r->read / r->first_token_seconds : 0;
        screen_say(chat->screen,
                   "last reply    %" PRId64 " cached + %" PRId64 " read (%.1f tok/s) -> %" PRId64
                   " tokens (%.1f tok/s), "
                   "first after %.0f ms, %s",
                   r->cached, r->read, reading, r->n_reply, tokens_per_second(r),
                   1e3 * r->first_token_seconds,
                   r->finish == FINISH_END ? "eos" : finish_reason_name(r->finish));
    }
    if (chat->journal && *journal_name(chat->journal))
        screen_say(chat->screen, "journal       %s (palaver --resume=%s)", journal_name(chat->journal),
                   journal_name(chat->journal));
    else
        screen_say(chat->screen, "journal       %s", chat->journal ? "begins with the first turn" : "off");
}

// Tokens of the system prompt, of the turns that are seen, and how many turns left.
typedef struct Filling {
    int64_t system, turns;
    int n_seen, n_left;
} Filling;

static Filling filling_of(Chat *chat, const ConversationView *view) {
    Filling filling = {0};
    for (int i = 0, k = 0; i < conversation_length(chat->conversation); i++) {
        const Message *message = conversation_message(chat->conversation, i);
        if (message->role == CHAT_USER) *(message->discarded ? &filling.n_left : &filling.n_seen) += 1;
        if (message->discarded || k >= view->n_spans) continue;
        int64_t n = view->spans[k].end - view->spans[k].begin;
        *(message->role == CHAT_SYSTEM ? &filling.system : &filling.turns) += n;
        k++;
    }
    return filling;
}

Status report_context(Chat *chat, Error *error) {
    ConversationView view;
    OverflowPlan plan;
    Status status = conversation_view(chat->conversation, false, &view, error);
    if (status == STATUS_OK) {
        status = conversation_forecast(chat->conversation, NEXT_TURN_TOKENS, &plan, error);
        if (status) conversation_view_free(&view);
    }
    if (status) return status;
    Filling filling = filling_of(chat, &view);
    int64_t size = engine_context_size(chat->engine), used = view.tokens.n,
            reserve = chat->config->context.reserve;
    int64_t free_tokens = size - used, for_turns = free_tokens > reserve ? free_tokens - reserve : 0;
    screen_say(chat->screen,
               "window   %" PRId64 " tokens, %.0f%% used\n"
               "system   %" PRId64 "\n"
               "turns    %" PRId64 " in %d turn%s%s\n"
               "reserve  %" PRId64 " for the reply (context.reserve)\n"
               "free     %" PRId64,
               size, 100.0 * (double)used / (double)size, filling.system, filling.turns, filling.n_seen,
               text_plural(filling.n_seen), filling.n_left ? " (older ones have left)" : "", reserve,
               free_tokens);
    if (filling.n_seen && filling.turns > 0)
        screen_say(chat->screen, "left     about %" PRId64 " turns of the size so far",
                   for_turns * filling.n_seen / filling.turns);
    if (!plan.fits && !plan.n_messages)
        screen_say(chat->screen, "next     the next turn does not fit: /undo or /clear make room");
    else if (plan.n_turns)
        screen_say(chat->screen, "next     the next turn discards the oldest %d turn%s (%" PRId64 " tokens)",
                   plan.n_turns, text_plural(plan.n_turns), plan.n_tokens);
    else
        screen_say(chat->screen, "next     nothing leaves with the next turn");
    conversation_view_free(&view);
    return STATUS_OK;
}
