// Commands that change the conversation: system, model, retry, edit, say, continue. /undo and /redo: commands_undo.c.
#include "app/chat/look/report.h"
#include "app/chat/way.h"
#include "app/commands/commands_internal.h"
#include "app/terminal/editor/compose.h"
#include "app/terminal/text_shown.h"

#include <stdlib.h>
#include <string.h>

Status commands_talk_system(Chat *chat, const char *argument, Error *error) {
    if (!*argument) {
        const char *system = transcript_system(chat_transcript(chat));
        screen_say(chat_screen(chat), "%s", *system ? system : "[no system prompt]");
        return STATUS_OK;
    }
    char *system;
    Status status =
        argument_read_system("/system", argument, chat_settings(chat)->ui.encoding, &system, error);
    if (status) return status;
    MessageList list;
    Way way = {.transcript = chat_transcript(chat), .index = chat_tree(chat)->head, .system = system};
    status = way_prepare(&way, &list, error);
    if (!status) status = transcript_set_system(chat_transcript(chat), system, error);
    if (!status) {
        way_take(chat, &list);
        screen_notice(chat_screen(chat), *system ? "[system prompt set]" : "[system prompt removed]");
        chat_record_sync(chat);
    }
    message_list_free(&list);
    free(system);
    return status;
}

Status commands_talk_model(Chat *chat, const char *argument, Error *error) {
    char name[PATH_ROOM];
    if (*argument && (argument_path("/model", argument, name, error) || chat_model_change(chat, name, error)))
        return error->status;
    report_banner(chat);
    screen_say(chat_screen(chat), "%s", text_path(chat_model_path(chat)).text);
    return STATUS_OK;
}

Status commands_talk_retry(Chat *chat, const char *argument, Error *error) {
    const Tree *tree = chat_tree(chat);
    int64_t number = 0;
    if (tree->head == TREE_START) return commands_no_turn(error);
    if (*argument && argument_number("/retry", argument, "a seed", 0, INT64_MAX, &number, error))
        return error->status;
    uint64_t seed = (uint64_t)number;
    const TranscriptNode *node = transcript_node(chat_transcript(chat), tree->head);
    if (!node->text || node->role != CHAT_USER)
        return error_set(error, STATUS_USAGE, "the last turn asks nothing that could be answered again");
    ChatTurn again = {tree->nodes[tree->head].parent, "retry", node->text, node->size,
                      *argument ? &seed : NULL};
    return chat_turn_ask_at(chat, &again, error);
}

// ---- editing ----------------------------------------------------------------------------------------------

// A reply that a person wrote, as a sibling of the node: only its text counts.
static Status keep_edited_reply(Chat *chat, int index, const char *text, Error *error) {
    TranscriptNode node = *transcript_node(chat_transcript(chat), index);
    node.reply = (TranscriptReply){.text = text,
                                   .size = strlen(text),
                                   .seed = chat_seed(chat),
                                   .next = conversation_settings(chat_conversation(chat))->position};
    int parent = chat_tree(chat)->nodes[index].parent;
    MessageList list;
    Way way = {.transcript = chat_transcript(chat), .index = parent, .more = &node};
    Status status = way_prepare(&way, &list, error);
    if (!status) status = transcript_add_turn(chat_transcript(chat), parent, "edit-reply", &node, error);
    if (status) {
        message_list_free(&list);
        return status;
    }
    way_take(chat, &list);
    screen_notice(chat_screen(chat), "[the reply is replaced; /continue goes on with it]");
    chat_record_sync(chat);
    return STATUS_OK;
}

// What an editor is given of a text: the sign of a zero byte stands for it, for what comes back may hold none.
static bool make_draft(Chat *chat, const char *text, size_t size, Text *draft) {
    char sign[TEXT_SIGN];
    const size_t n = text_harmless(0, screen_traits(chat_screen(chat))->utf8, sign);
    bool ok = text_add(draft, "", 0);
    for (; ok && size; text++, size--) ok = *text ? text_add(draft, text, 1) : text_add(draft, sign, n);
    return ok;
}

// What $EDITOR makes of `before`; *after is NULL if nothing is to be done.
static Status compose(Chat *chat, const char *before, char **after, Error *error) {
    char *composed;
    Status status = compose_text(before, &composed, error);
    if (status) return status;
    if (*error->message) screen_notice(chat_screen(chat), "%s", error->message);
    *after = composed;
    if (**after && strcmp(*after, before)) return STATUS_OK;
    screen_notice(chat_screen(chat), **after ? "[nothing was changed]" : "[left empty: nothing is changed]");
    free(*after);
    *after = NULL;
    return STATUS_OK;
}

Status commands_talk_edit(Chat *chat, const char *argument, Error *error) {
    const Tree *tree = chat_tree(chat);
    int64_t depth = tree_depth(tree), turn = depth;
    bool is_reply = !strcmp(argument, "reply");
    if (!depth) return commands_no_turn(error);
    if (*argument && !is_reply &&
        argument_number("/edit", argument, "reply or the number of a turn", 1, depth, &turn, error))
        return error->status;
    if (!chat_is_interactive(chat) && !getenv("VISUAL") && !getenv("EDITOR"))
        return error_set(error, STATUS_USAGE, "/edit in a script needs EDITOR in the environment");
    int index = tree_at(tree, (int)turn);
    const TranscriptNode *node = transcript_node(chat_transcript(chat), index);
    const char *before = is_reply ? node->reply.text : node->role == CHAT_USER ? node->text : NULL;
    if (!before)
        return error_set(error, STATUS_USAGE, "turn %lld has no %s to edit", (long long)turn,
                         is_reply ? "reply" : "question");
    char *text = NULL;
    Text draft = {0};
    Status status = make_draft(chat, before, is_reply ? node->reply.size : node->size, &draft)
                        ? compose(chat, draft.bytes, &text, error)
                        : error_set(error, STATUS_MEMORY, "out of memory");
    text_free(&draft);
    if (status || !text) return status;
    if (!is_reply) {
        screen_asked(chat_screen(chat), "%s", text);
        screen_space(chat_screen(chat));
    }
    ChatTurn edited = {tree->nodes[index].parent, "edit", text, strlen(text), NULL};
    status = is_reply ? keep_edited_reply(chat, index, text, error) : chat_turn_ask_at(chat, &edited, error);
    free(text);
    return status;
}

Status commands_talk_say(Chat *chat, const char *argument, Error *error) {
    char name[16];
    size_t length = strcspn(argument, " \t\n");
    snprintf(name, sizeof name, "%.*s", (int)(length < 15 ? length : 15), argument);
    int role = chat_role_find(name);
    const char *text = argument + length + strspn(argument + length, " \t\n");
    if (role < 0 || !*text)
        return error_set(error, STATUS_USAGE, "/say needs a role (user, assistant or system) and a text");
    Status status = chat_turn_say(chat, (ChatRole)role, text, error);
    if (!status)
        screen_notice(chat_screen(chat),
                      role == CHAT_USER ? "[said, not answered; /continue answers]" : "[said]");
    return status;
}

Status commands_talk_continue(Chat *chat, const char *argument, Error *error) {
    return argument_none("/continue", argument, error) ? error->status : chat_turn_continue(chat, error);
}
