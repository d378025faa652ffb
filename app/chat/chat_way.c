#include "app/chat/chat_way.h"

#include <stdio.h>
#include <stdlib.h>

static Status append_node(Chat *chat, const TranscriptNode *node, const TreeLeft *left, Error *error) {
    Message said = {
        .role = node->role, .text = (char *)node->text, .size = node->size, .discarded = left->whole};
    Message reply = {.role = CHAT_ASSISTANT,
                     .text = (char *)node->reply.text,
                     .size = node->reply.size,
                     .ids = (int32_t *)node->reply.ids,
                     .n_ids = node->reply.n_ids,
                     .n_gone = node->reply.n_gone,
                     .interrupted = node->reply.interrupted,
                     .discarded = left->whole || left->reply};
    if (reply.n_gone < left->gone) reply.n_gone = left->gone < reply.n_ids ? left->gone : reply.n_ids;
    Status status = said.text ? conversation_append(chat->conversation, &said, error) : STATUS_OK;
    if (status == STATUS_OK && reply.text) status = conversation_append(chat->conversation, &reply, error);
    return status;
}

Status way_project(Chat *chat, int index, Error *error) {
    const Tree *tree = chat_tree(chat);
    int depth = tree_turn(tree, index);
    int *path = malloc(((size_t)depth + 1) * sizeof *path);
    TreeLeft *left = malloc(((size_t)depth + 1) * sizeof *left);
    Status status = path && left ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
    if (status == STATUS_OK) {
        tree_path(tree, index, path);
        tree_find_left(tree, index, left);
        conversation_truncate(chat->conversation, 0);
        chat->used = -1;
        status = conversation_set_system(chat->conversation, transcript_system(chat->transcript), error);
    }
    for (int i = 0; i < depth && status == STATUS_OK; i++)
        status = append_node(chat, transcript_node(chat->transcript, path[i]), &left[i], error);
    free(path);
    free(left);
    return status;
}

const Tree *chat_tree(const Chat *chat) {
    return transcript_tree(chat->transcript);
}

Status chat_go(Chat *chat, int index, const char *why, Error *error) {
    Status status = transcript_set_head(chat->transcript, index, why, error);
    if (status == STATUS_OK) status = chat_project(chat, error);
    if (status) return status;
    chat->has_last = false;
    chat_save(chat);
    return STATUS_OK;
}

Status chat_project(Chat *chat, Error *error) {
    return way_project(chat, chat_tree(chat)->head, error);
}

Status way_begin(Chat *chat, int parent, int from, Error *error) {
    const Tree *tree = chat_tree(chat);
    size_t n = (size_t)tree_turn(tree, parent) + 1;
    TreeLeft *left = calloc(n, sizeof *left);
    if (!left) return error_set(error, STATUS_MEMORY, "out of memory");
    tree_find_left(tree, from, left);
    free(chat->left);
    chat->left = left;
    chat->parent = parent;
    return STATUS_OK;
}

// ---- from messages to turns -------------------------------------------------------------------------------

// Adds up the spans of the messages that are in the window.
static void count_tokens(Chat *chat, const ConversationView *view, WayTurn *turns, int n) {
    for (int message = 0, span = 0, i = 0; message < conversation_length(chat->conversation); message++) {
        while (i < n && message >= turns[i].end) i++;
        if (conversation_message(chat->conversation, message)->discarded || span >= view->n_spans) continue;
        if (i < n && message >= turns[i].begin)
            turns[i].n_tokens += view->spans[span].end - view->spans[span].begin;
        span++;
    }
}

Status way_turns(Chat *chat, int index, const ConversationView *view, WayTurn **turns, Error *error) {
    const Tree *tree = chat_tree(chat);
    int depth = tree_turn(tree, index), message = *transcript_system(chat->transcript) ? 1 : 0;
    int *path = malloc(((size_t)depth + 1) * sizeof *path);
    *turns = calloc((size_t)depth + 1, sizeof **turns);
    if (!path || !*turns) {
        free(path);
        free(*turns);
        return error_set(error, STATUS_MEMORY, "out of memory");
    }
    tree_path(tree, index, path);
    for (int i = 0; i < depth; i++) {
        const TranscriptNode *node = transcript_node(chat->transcript, path[i]);
        int end = message + (node->text != NULL) + (node->reply.text != NULL);
        (*turns)[i] = (WayTurn){.node = path[i],
                                .begin = message,
                                .end = end,
                                .left = conversation_message(chat->conversation, message)->discarded};
        for (; message < end; message++)
            (*turns)[i].n_seen += !conversation_message(chat->conversation, message)->discarded;
    }
    if (view) count_tokens(chat, view, *turns, depth);
    free(path);
    return STATUS_OK;
}

TreeRange way_oldest(const WayTurn *turns, int n, int skip, int n_messages) {
    TreeRange range = {0, 0};
    for (int i = 0; i < n && n_messages > 0; i++) {
        int here = turns[i].n_seen;
        if (here > skip) {
            if (!range.first) range.first = i + 1;
            range.last = i + 1;
            n_messages -= here - skip;
        }
        skip = skip > here ? skip - here : 0;
    }
    return range;
}

const char *way_range_text(TreeRange range, char *text) {
    if (range.first == range.last)
        snprintf(text, WAY_RANGE_ROOM, "turn %d", range.first);
    else
        snprintf(text, WAY_RANGE_ROOM, "turns %d-%d", range.first, range.last);
    return text;
}

// What of a turn is out of the window, by its messages.
static TreeLeft left_of(const Chat *chat, const WayTurn *turn) {
    const TranscriptNode *node = transcript_node(chat->transcript, turn->node);
    const Message *last = conversation_message(chat->conversation, turn->end - 1);
    TreeLeft left = {.whole = turn->left && last->discarded};
    if (!node->reply.text || left.whole) return left;
    left.reply = last->discarded;
    left.gone = last->n_gone > node->reply.n_gone ? last->n_gone : 0;
    return left;
}

void way_name_turns(Chat *chat, TranscriptOverflow *overflow) {
    WayTurn *turns;
    Error ignored;
    OverflowEvent *event = &overflow->event;
    // Without memory the engine's own count stays: it is right unless /say was used.
    if (way_turns(chat, chat->parent, NULL, &turns, &ignored)) return;
    event->first_turn = event->last_turn = 0;
    for (int i = 0; i < tree_turn(chat_tree(chat), chat->parent); i++) {
        TreeLeft now = left_of(chat, &turns[i]), before = chat->left[i];
        chat->left[i] = now;
        if (now.whole && !before.whole) {
            if (!event->first_turn) event->first_turn = i + 1;
            event->last_turn = i + 1;
        } else if (!now.whole && overflow->n_partly < 2 &&
                   ((now.reply && !before.reply) || now.gone > before.gone)) {
            overflow->partly[overflow->n_partly++] =
                (TreeLoss){{i + 1, i + 1}, now.reply ? TREE_REPLY : now.gone};
        }
    }
    free(turns);
}
