#include "app/chat/look/report.h"

#include "app/chat/chat_internal.h"
#include "app/chat/way.h"
#include "app/chat/look/window.h"
#include "app/loading/model_name.h"
#include "app/loading/plan_shown.h"
#include "app/terminal/text_shown.h"
#include "app/tools/bench/bench.h"
#include "engine/model/weights/conversion.h"
#include "kernels/base/path.h"
#include "kernels/base/text/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROW_COLUMNS = 80, // of a window as it is opened: what is said in one line fits
    STATISTICS_ROOM = 256,
};

static const double FULL_SHARE = 0.8; // from here on the gauge warns

// Somebody has said what shall lie there. --device cuda does without no GPU.
static bool asks_for_gpu(const Chat *chat) {
    const EngineOptions *options = &chat->settings->engine;
    return options->device_layers != DEVICE_LAYERS_FIT || options->expert_layers != DEVICE_LAYERS_FIT;
}

void report_banner(Chat *chat) {
    const Model *model = engine_model(chat->model.engine);
    EngineMemory memory = engine_memory(chat->model.engine);
    const char *note = engine_backend_note(chat->model.engine);
    char parameters[FORMAT_ROOM], weights[FORMAT_ROOM], cache[FORMAT_ROOM], backend[256], name[PATH_ROOM];
    char active[FORMAT_ROOM] = "";
    model_name(chat->model.path, model->name, name, sizeof name);
    format_count(model->n_parameters, parameters);
    if (model->shape.experts.n) format_count(model->n_active_parameters, active);
    format_bytes((double)model_weight_bytes(model), weights);
    format_bytes((double)memory.cache, cache);
    engine_describe_backend(chat->model.engine, backend, sizeof backend);
    screen_say(chat->screen, "%s: %s, %s parameters%s%s%s, %s, %s", text_name(name).text, model->architecture,
               parameters, *active ? ", " : "", active, *active ? " active" : "",
               conversion_weights_name(model), weights);
    screen_say(chat->screen, "%s", backend);
    if (*note && (asks_for_gpu(chat) || engine_sees_better(chat->model.engine)))
        screen_say(chat->screen, "not on the GPU: %s", note);
    screen_say(chat->screen, "context %d tokens (%s, %s), template %s; /help lists the commands",
               engine_context_size(chat->model.engine), dtype_name(engine_cache_type(chat->model.engine)),
               cache, text_escaped(chat_template_name(chat->model.chat_template)).text);
}

// ---- after a turn -----------------------------------------------------------------------------------------

static double tokens_per_second(const ReplyReport *r) {
    return r->decode_seconds > 0 && r->n_reply > 1 ? (double)(r->n_reply - 1) / r->decode_seconds : 0;
}

// The line of figures, of which so many parts are said in short or left out, into line [STATISTICS_ROOM]. Returns its
// columns.
static int write_statistics(Chat *chat, int shortened, char *line) {
    const ReplyReport *r = &chat->last;
    const double first = r->first_token_seconds, speed = tokens_per_second(r);
    char cached[40] = "", began[48] = "", rate[32] = "", context[24] = "";
    if (r->cached) snprintf(cached, sizeof cached, "%" PRId64 " cached + ", r->cached);
    if (shortened < 2)
        snprintf(began, sizeof began, " | %s%.*f %s", shortened ? "" : "first token ", first < 10 ? 0 : 1,
                 first < 10 ? 1e3 * first : first, first < 10 ? "ms" : "s");
    if (shortened < 3) snprintf(context, sizeof context, " | context %.0f%%", 100 * chat_share(chat));
    if (shortened < 4) snprintf(rate, sizeof rate, " | %.*f tok/s", speed < 100 ? 1 : 0, speed);
    return snprintf(line, STATISTICS_ROOM, "[turn %d: %s%" PRId64 " read, %" PRId64 " said%s%s%s | %s]",
                    tree_depth(chat_tree(chat)), cached, r->read, r->n_reply, began, rate, context,
                    r->finish == FINISH_END ? "eos" : conversation_finish_name(r->finish));
}

static void print_statistics(Chat *chat) {
    char line[STATISTICS_ROOM];
    for (int i = 0; write_statistics(chat, i, line) > ROW_COLUMNS && i < 4;) i++;
    screen_notice(chat->screen, "%s", line);
}

// Says once what the next turn would cost.
static void warn_of_next(Chat *chat) {
    WindowForecast next;
    Error ignored;
    if (chat->told.next || window_forecast(chat, WINDOW_NEXT_TURN, &next, &ignored)) return;
    if (window_forecast_is_nothing(&next)) return;
    chat->told.next = true;
    char range[WAY_RANGE_ROOM];
    if (chat->settings->talk.overflow.policy == OVERFLOW_STOP)
        screen_warn(chat->screen,
                    "[the context is nearly full: the next turn may be refused; /undo or /clear make room]");
    else if (next.system || next.turns.first)
        screen_warn(chat->screen, "[the next turn may discard %s (%" PRId64 " tokens); /context tells more]",
                    way_range_text(next.system, next.turns, range), next.n_tokens);
    else if (next.n_of_reply)
        screen_warn(chat->screen, "[the next turn may discard %" PRId64 " tokens of the oldest reply]",
                    next.n_of_reply);
}

void report_old_turn(Chat *chat, const TranscriptNode *node) {
    Error error;
    if (chat->interactive) screen_space(chat->screen);
    if (node->text) screen_asked(chat->screen, "%s", node->text);
    if (!node->reply.text) return;
    if (!chat->interactive) {
        screen_say_text(chat->screen, node->reply.text, node->reply.size);
        return;
    }
    screen_space(chat->screen);
    chat_note_output(
        chat, screen_reply(chat->screen, SCREEN_NORMAL, node->reply.text, node->reply.size, &error), &error);
    chat_note_output(chat, screen_reply_end(chat->screen, &error), &error);
    screen_space(chat->screen);
}

// What there is to say of how a reply ended, to a person.
static void tell_end(Chat *chat, FinishReason finish) {
    if (finish == FINISH_INTERRUPTED) screen_notice(chat->screen, "[interrupted; /continue goes on]");
    if (finish == FINISH_LENGTH) screen_notice(chat->screen, "[max_tokens reached; /continue goes on]");
}

void report_last_turn(Chat *chat) {
    const Tree *tree = chat_tree(chat);
    if (!chat->interactive || tree->head == TREE_START) return;
    const TranscriptNode *node = transcript_node(chat->transcript, tree->head);
    report_old_turn(chat, node);
    if (node->reply.text) tell_end(chat, node->reply.report.finish);
}

void report_again(Chat *chat) {
    chat->told.full = chat->told.next = false;
}

void report_turn(Chat *chat) {
    if (chat->settings->ui.stats) print_statistics(chat);
    if (chat->reply.looped)
        screen_notice(chat->screen, "[stopped: the same over and over; /continue goes on]");
    else if (chat->interactive)
        tell_end(chat, chat->last.finish);
    if (chat->last.finish == FINISH_LENGTH && chat->last.unfit && !chat->interactive)
        screen_warn(chat->screen, "[max_tokens reached: the reply is not yet what the grammar asks for]");
    if (chat->last.finish == FINISH_CONTEXT)
        screen_warn(chat->screen, "[the context is full: the reply ends here; /undo or /clear make room]");
    if (chat_share(chat) >= FULL_SHARE && !chat->told.full) {
        chat->told.full = true;
        screen_warn(chat->screen, "[%.0f%% of the context is used]", 100 * chat_share(chat));
    }
    if (chat_share(chat) >= 0.5) warn_of_next(chat);
}

// What is not read of a question that is too long.
static void report_cut(Chat *chat, int64_t n_prompt) {
    int n = conversation_length(chat->conversation);
    if (n < 2) return;
    const Message *asked = conversation_message(chat->conversation, n - 2);
    screen_warn(chat->screen,
                "[the question is too long for the context: bytes %" PRId64 " to %" PRId64
                " of its %zu are left out, %" PRId64 " token%s]",
                asked->cut_from + 1, asked->cut_to, asked->size, n_prompt, text_plural(n_prompt));
}

void report_overflow(Chat *chat, const TranscriptOverflow *overflow) {
    const OverflowEvent *event = &overflow->event;
    char what[160] = "", range[WAY_RANGE_ROOM];
    if (event->n_prompt) report_cut(chat, event->n_prompt);
    if (overflow->system || event->first_turn)
        snprintf(what, sizeof what, "%s left",
                 way_range_text(overflow->system, (TreeRange){event->first_turn, event->last_turn}, range));
    for (int i = 0; i < overflow->n_partly; i++)
        if (overflow->partly[i].n_evicted == TREE_REPLY)
            snprintf(what + strlen(what), sizeof what - strlen(what), "%sthe reply of turn %d left",
                     *what ? ", " : "", overflow->partly[i].turns.first);
    if (event->n_inside)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s%" PRId64 " token%s of this reply left",
                 *what ? ", " : "", event->n_inside, text_plural(event->n_inside));
    if (event->n_of_reply)
        snprintf(what + strlen(what), sizeof what - strlen(what),
                 "%s%" PRId64 " token%s of an older reply left", *what ? ", " : "", event->n_of_reply,
                 text_plural(event->n_of_reply));
    char again[48] = "";
    if (overflow->times > 1) snprintf(again, sizeof again, ", %" PRId64 " times more", overflow->times);
    if (event->n_prompt && !*what) return; // nothing else left
    screen_notice(chat->screen,
                  "[context full%s: %s (%" PRId64 " token%s), %" PRId64 " kept, %" PRId64
                  " re-evaluated, %.0f ms]",
                  again, *what ? what : "nothing left", event->n_evicted, text_plural(event->n_evicted),
                  event->n_cached, event->n_evaluated, 1e3 * event->seconds);
}

// ---- /stats ----------------------------------------------------------------------------------

// What the weights are held in, and what they would take in each other type.
static void print_weights(Chat *chat) {
    const Model *model = engine_model(chat->model.engine);
    char line[256], bytes[FORMAT_ROOM];
    size_t n = (size_t)snprintf(line, sizeof line, "weights       %s%s", conversion_weights_name(model),
                                model->head_weights == WEIGHTS_OWN ? "" : ", head int8");
    for (WeightType type = WEIGHTS_OWN; type <= WEIGHTS_INT4 && n < sizeof line; type++) {
        int64_t size = engine_weight_bytes(chat->model.engine, type);
        if (size < 0) continue;
        format_bytes((double)size, bytes);
        n += (size_t)snprintf(line + n, sizeof line - n, "%s %s %s", type ? "," : "; --weights",
                              conversion_name(type), bytes);
    }
    screen_say(chat->screen, "%s", line);
}

// What is guessed of a reply (engine/talk/drafts/drafts.h), by whom, and how much of the last one was right.
static void print_drafts(Chat *chat) {
    const char *why = engine_cannot_draft(chat->model.engine);
    const int most = conversation_settings(chat->conversation)->drafts;
    const Engine *guesser = conversation_guesser(chat->conversation);
    char last[80] = "";
    if (most == 0 || why) {
        screen_say(chat->screen, "drafts        %s%s", most == 0 ? "off" : "none: ", most == 0 ? "" : why);
        return;
    }
    if (chat->has_last && chat->last.n_guessed == 0)
        snprintf(last, sizeof last, "; of the last reply nothing could be guessed");
    else if (chat->has_last)
        snprintf(last, sizeof last,
                 "; of the last reply %" PRId64 " of %" PRId64 " guessed tokens were right",
                 chat->last.n_right, chat->last.n_guessed);
    screen_say(chat->screen, "drafts        up to %d at once%s", most, last);
    if (!guesser) return;
    const EngineMemory memory = engine_memory(guesser);
    const Error *failure = conversation_guesser_failure(chat->conversation);
    char weights[FORMAT_ROOM], cache[FORMAT_ROOM];
    format_bytes((double)(memory.weights + memory.host_weights), weights);
    format_bytes((double)memory.cache, cache);
    screen_say(chat->screen, "              also by %s: weights %s, cache %s (%d tokens)%s%s",
               text_name(chat->settings->model.draft).text, weights, cache, engine_context_size(guesser),
               failure                                             ? "; it has failed: "
               : !conversation_guesser_may_pay(chat->conversation) ? "; too slow to be asked"
                                                                   : "",
               failure ? text_escaped(failure->message).text : "");
}

void report_stats(Chat *chat) {
    EngineMemory memory = engine_memory(chat->model.engine);
    const char *note = engine_backend_note(chat->model.engine);
    char weights[FORMAT_ROOM], cache[FORMAT_ROOM], scratch[FORMAT_ROOM], held[FORMAT_ROOM], backend[256],
        softmax[256], plan[PLAN_ROOM];
    Error error;
    if (engine_describe_softmax(chat->model.engine, softmax, sizeof softmax, &error))
        snprintf(softmax, sizeof softmax, "unknown: %.200s", error.message);
    format_bytes((double)(memory.weights + memory.host_weights), weights);
    format_bytes((double)memory.cache, cache);
    format_bytes((double)(memory.scratch + memory.host_scratch), scratch);
    engine_describe_backend(chat->model.engine, backend, sizeof backend);
    int depth = tree_depth(chat_tree(chat));
    int64_t replies = 0, tokens = 0;
    for (int i = 0; i < chat_tree(chat)->n; i++, replies++)
        tokens += transcript_node(chat->transcript, i)->reply.report.n_reply;
    int64_t cached = session_cached(conversation_session(chat->conversation));
    int size = engine_context_size(chat->model.engine);
    format_bytes((double)(engine_token_bytes(chat->model.engine) * cached), held);
    screen_say(chat->screen,
               "conversation  %d turn%s; %" PRId64 " %s in all, %" PRId64 " token%s; seed %" PRIu64 "\n"
               "cache         %" PRId64 " of %d tokens, %s of %s (%s)\n"
               "memory        weights %s, cache %s, working space %s\n"
               "backend       %s%s%s%s\n"
               "softmax       %s",
               depth, text_plural(depth), replies, replies == 1 ? "reply" : "replies", tokens,
               text_plural(tokens), chat->numbers.seed, cached, size, held, cache,
               dtype_name(engine_cache_type(chat->model.engine)), weights, cache, scratch, backend,
               *note ? " (" : "", note, *note ? ")" : "", softmax);
    plan_shown(chat->model.engine, plan);
    if (memory.host_layers || memory.n_cards) screen_say(chat->screen, "%s", plan);
    print_weights(chat);
    const EngineDispatch *dispatch = engine_dispatch(chat->model.engine);
    if (*dispatch->origin) screen_say(chat->screen, "dispatch      %s", dispatch->origin);
    print_drafts(chat);
    if (chat->has_last) {
        const ReplyReport *r = &chat->last;
        double depth_read = (double)r->used - (double)r->n_reply / 2;
        // Several tokens of a step that were guessed read the weights once.
        double steps = r->n_reply > 0 ? 1 - (double)r->n_right / (double)r->n_reply : 1;
        double speed = steps * tokens_per_second(r) * bench_token_bytes(chat->model.engine, depth_read);
        char share[BENCH_SHARE_ROOM];
        double reading = r->first_token_seconds > 0 ? (double)r->read / r->first_token_seconds : 0;
        screen_say(chat->screen,
                   "last reply    %" PRId64 " cached + %" PRId64 " read (%.1f tok/s) -> %" PRId64
                   " tokens (%.1f tok/s, %.1f GB/s%s), first after %.0f ms, %s",
                   r->cached, r->read, reading, r->n_reply, tokens_per_second(r), speed / 1e9,
                   bench_share(chat->model.engine, speed, share), 1e3 * r->first_token_seconds,
                   r->finish == FINISH_END ? "eos" : conversation_finish_name(r->finish));
    }
    if (chat->record.journal && chat->record.failed)
        screen_say(chat->screen, "journal       cannot be written; /save FILE keeps the conversation");
    else if (chat->record.journal && *journal_name(chat->record.journal)) {
        const char *name = journal_name(chat->record.journal);
        screen_say(chat->screen, "journal       %s (palaver --resume=%s)", text_name(name).text,
                   text_shell_word(text_name(name).text).text);
    } else
        screen_say(chat->screen, "journal       %s",
                   !chat->record.journal ? "off"
                   : chat_tree(chat)->n  ? "begins with the next turn"
                                         : "begins with the first turn");
}
