// Commands that look and change nothing: stats, view, tokens, copy, time.
#include "app/commands_internal.h"
#include "app/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

Status command_stats(Chat *chat, const char *argument, Error *error) {
    if (argument_none(argument, error)) return error->status;
    report_stats(chat);
    return STATUS_OK;
}

Status command_view(Chat *chat, const char *argument, Error *error) {
    static const char *const kinds[] = {"text", "tokens", "diff"};
    for (int kind = VIEW_TEXT; kind <= VIEW_DIFF; kind++)
        if (!strcmp(argument, kinds[kind]) || (!*argument && kind == VIEW_TEXT))
            return view_print(chat, (ViewKind)kind, error);
    return error_set(error, STATUS_USAGE, "/view %s: expected text, tokens or diff", argument);
}

Status command_tokens(Chat *chat, const char *argument, Error *error) {
    if (!*argument) return error_set(error, STATUS_USAGE, "/tokens needs a text");
    return view_print_tokens(chat->screen, engine_tokenizer(chat->engine), argument, strlen(argument), error);
}

// The reply of the head, or NULL.
static const TranscriptReply *last_reply(const Chat *chat) {
    const Tree *tree = chat_tree(chat);
    if (tree->head == TREE_START) return NULL;
    const TranscriptReply *reply = &transcript_node(chat->transcript, tree->head)->reply;
    return reply->text ? reply : NULL;
}

Status command_copy(Chat *chat, const char *argument, Error *error) {
    const TranscriptReply *reply = last_reply(chat);
    if (argument_none(argument, error)) return error->status;
    if (!reply) return error_set(error, STATUS_USAGE, "there is no reply yet");
    Status status = screen_clipboard(chat->screen, reply->text, reply->size, error);
    if (status == STATUS_OK)
        screen_notice(chat->screen, "[%zu bytes handed to the terminal's clipboard]", reply->size);
    return status;
}

Status command_time(Chat *chat, const char *argument, Error *error) {
    if (argument_none(argument, error)) return error->status;
    char now[64] = "";
    time_t seconds = time(NULL);
    struct tm local;
    if (localtime_r(&seconds, &local)) strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S", &local);
    const Tree *tree = chat_tree(chat);
    double reading = 0, answering = 0;
    for (int i = 0; i < tree->n; i++) {
        const ReplyReport *report = &transcript_node(chat->transcript, i)->reply.report;
        reading += report->first_token_seconds;
        answering += report->decode_seconds;
    }
    screen_say(chat->screen, "%s; this conversation took %.1f s of reading and %.1f s of answering", now,
               reading, answering);
    return STATUS_OK;
}
