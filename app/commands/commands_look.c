// Commands that look: stats, think, view, tokens, top, replay, copy, time.
#include "app/commands/commands_internal.h"
#include "app/chat/look/replay.h"
#include "app/chat/look/report.h"
#include "app/chat/look/view.h"
#include "app/terminal/screen/page.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/token_shown.h"
#include "engine/talk/alternatives.h"
#include "kernels/base/text/quote.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TOP_TOKENS = 5, TOP_SHOWN = 5 }; // /top: places if nobody says, and alternatives of each

Status commands_look_stats(Chat *chat, const char *argument, Error *error) {
    if (argument_none("/stats", argument, error)) return error->status;
    report_stats(chat);
    return STATUS_OK;
}

Status commands_look_think(Chat *chat, const char *argument, Error *error) {
    Thoughts *thoughts = chat_thoughts(chat);
    int mode = *argument ? thoughts_mode_find(argument) : (int)thoughts->mode;
    if (mode < 0)
        return error_set(error, STATUS_USAGE, "/think %s: expected show, dim or hide", quote(argument).text);
    thoughts->mode = (ThinkMode)mode;
    screen_say(chat_screen(chat), "think %s%s", thoughts_mode_name(thoughts->mode),
               thoughts_known(thoughts) ? "" : "; this model has no think tokens");
    return STATUS_OK;
}

Status commands_look_view(Chat *chat, const char *argument, Error *error) {
    static const char *const kinds[] = {"text", "tokens", "diff"};
    for (int kind = VIEW_TEXT; kind <= VIEW_DIFF; kind++)
        if (!strcmp(argument, kinds[kind]) || (!*argument && kind == VIEW_TEXT))
            return view_print(chat, (ViewKind)kind, error);
    return error_set(error, STATUS_USAGE, "/view %s: expected text, tokens or diff", quote(argument).text);
}

Status commands_look_tokens(Chat *chat, const char *argument, Error *error) {
    if (!*argument) return error_set(error, STATUS_USAGE, "/tokens needs a text");
    return view_print_tokens(chat_screen(chat), engine_tokenizer(chat_engine(chat)), argument,
                             strlen(argument), error);
}

// The reply of the head, or NULL.
static const TranscriptReply *last_reply(const Chat *chat) {
    const Tree *tree = chat_tree(chat);
    if (tree->head == TREE_START) return NULL;
    const TranscriptReply *reply = &transcript_node(chat_transcript(chat), tree->head)->reply;
    return reply->text ? reply : NULL;
}

// ---- /top -------------------------------------------------------------------------------------------------

enum { PIECE_ROOM = 200 };

// A token's text; a token stands behind another one here.
static const char *piece(const Chat *chat, int32_t id, char text[PIECE_ROOM]) {
    return id < 0 ? "the end" : token_text(engine_tokenizer(chat_engine(chat)), id, id, text, PIECE_ROOM);
}

static void print_alternative(const Chat *chat, const Alternative *a, int32_t taken, FILE *out) {
    char text[PIECE_ROOM];
    fprintf(out, "  %c %6.2f%% %6.2f%%  %s\n", a->id == taken ? '>' : ' ', 100 * a->raw, 100 * a->final,
            piece(chat, a->id, text));
}

static void print_place(const Chat *chat, const Alternatives *place, FILE *out) {
    char text[PIECE_ROOM];
    fprintf(out, "%s (%d)\n", piece(chat, place->id, text), place->id);
    bool found = false;
    for (int i = 0; i < place->n && (i < TOP_SHOWN || !found); i++) {
        bool taken = place->each[i].id == place->id;
        if (i < TOP_SHOWN || taken) print_alternative(chat, &place->each[i], place->id, out);
        found = found || taken;
    }
    if (!found) fprintf(out, "  > not among the %d most probable now\n", place->n);
}

Status commands_look_top(Chat *chat, const char *argument, Error *error) {
    int64_t n = TOP_TOKENS;
    int count;
    Page page = {0};
    if (*argument &&
        argument_number("/top", argument, "a number of tokens", 1, ALTERNATIVES_TOKENS, &n, error))
        return error->status;
    Alternatives *places = malloc((size_t)n * sizeof *places);
    if (!places) return error_set(error, STATUS_MEMORY, "out of memory");
    Status status = chat_settings_apply(chat, error);
    if (!status) status = alternatives_find(chat_conversation(chat), (int)n, places, &count, error);
    if (!status) status = page_open(&page, error);
    if (!status) {
        fputs("       raw   final\n", page.stream);
        for (int i = 0; i < count; i++) print_place(chat, &places[i], page.stream);
        page_show(&page, chat_screen(chat));
    }
    free(places);
    return status;
}

// ---- /replay ----------------------------------------------------------------------------------------------

static Status verify(Chat *chat, Error *error) {
    ReplayReport report;
    char was[PIECE_ROOM], is[PIECE_ROOM];
    Status status = replay_verify(chat, &report, error);
    if (status) return status;
    if (report.differs)
        return error_set(
            error, STATUS_FILE,
            "%s diverges at token %" PRId64 " of its reply: it was %.60s (%d), now it is %.60s (%d)%s%s%s",
            report.node, report.place, piece(chat, report.was, was), report.was, piece(chat, report.is, is),
            report.is, *report.apart ? "; from " : "", report.apart,
            *report.apart ? " on the shifted cache held what a replay does not make again (turns "
                            "that were left)"
                          : "");
    screen_notice(chat_screen(chat), "[%d %s sampled again, %" PRId64 " tokens: all as they were]",
                  report.n_replies, report.n_replies == 1 ? "reply" : "replies", report.n_tokens);
    return STATUS_OK;
}

Status commands_look_replay(Chat *chat, const char *argument, Error *error) {
    const Tree *tree = chat_tree(chat);
    if (!tree_depth(tree)) return commands_no_turn(error);
    if (!strcmp(argument, "verify")) return verify(chat, error);
    if (*argument)
        return error_set(error, STATUS_USAGE, "/replay %s: expected verify, or nothing",
                         quote(argument).text);
    for (int turn = 1; turn <= tree_depth(tree); turn++)
        report_old_turn(chat, transcript_node(chat_transcript(chat), tree_at(tree, turn)));
    return STATUS_OK;
}

// ---- small ones -------------------------------------------------------------------------------------------

Status commands_look_copy(Chat *chat, const char *argument, Error *error) {
    const TranscriptReply *reply = last_reply(chat);
    if (argument_none("/copy", argument, error)) return error->status;
    if (!reply) return error_set(error, STATUS_USAGE, "there is no reply yet");
    Status status = screen_clipboard(chat_screen(chat), reply->text, reply->size, error);
    if (!status)
        screen_notice(chat_screen(chat), "[%zu bytes handed to the terminal's clipboard]", reply->size);
    return status;
}

Status commands_look_time(Chat *chat, const char *argument, Error *error) {
    if (argument_none("/time", argument, error)) return error->status;
    char now[64] = "";
    time_t seconds = time(NULL);
    struct tm local;
    if (localtime_r(&seconds, &local)) strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S", &local);
    const Tree *tree = chat_tree(chat);
    double reading = 0, answering = 0;
    for (int i = 0; i < tree->n; i++) {
        const ReplyReport *report = &transcript_node(chat_transcript(chat), i)->reply.report;
        reading += report->first_token_seconds;
        answering += report->decode_seconds;
    }
    screen_say(chat_screen(chat), "%s; this conversation took %.1f s of reading and %.1f s of answering", now,
               reading, answering);
    return STATUS_OK;
}
