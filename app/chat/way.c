#include "app/chat/way.h"

#include "app/chat/chat_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Status add_node(MessageList *list, const TranscriptNode *node, const TreeEvicted *evicted,
                       Error *error) {
    Message said = {.role = node->role,
                    .text = node->text,
                    .size = node->size,
                    .cut_from = node->reply.cut_from,
                    .cut_to = node->reply.cut_to,
                    .evicted = evicted->whole};
    Message reply = {.role = CHAT_ASSISTANT,
                     .text = node->reply.text,
                     .size = node->reply.size,
                     .ids = node->reply.ids,
                     .n_ids = node->reply.n_ids,
                     .n_evicted = node->reply.n_evicted,
                     .interrupted = node->reply.interrupted,
                     .evicted = evicted->whole || evicted->reply};
    if (reply.n_evicted < evicted->n_evicted)
        reply.n_evicted = evicted->n_evicted < reply.n_ids ? evicted->n_evicted : reply.n_ids;
    Status status = said.text ? message_list_add(list, &said, error) : STATUS_OK;
    if (!status && reply.text) status = message_list_add(list, &reply, error);
    return status;
}

static Status add_all(const Way *way, const int *path, const TreeEvicted *evicted, MessageList *list,
                      Error *error) {
    const char *text = way->system ? way->system : transcript_system(way->transcript);
    const Tree *tree = transcript_tree(way->transcript);
    Message system = {.role = CHAT_SYSTEM,
                      .text = text,
                      .size = strlen(text),
                      .evicted = !way->system && tree_is_system_evicted(tree, way->index)};
    Status status = system.size ? message_list_add(list, &system, error) : STATUS_OK;
    int depth = tree_turn(tree, way->index);
    for (int i = 0; i < depth && !status; i++)
        status = add_node(list, transcript_node(way->transcript, path[i]), &evicted[i], error);
    if (!status && way->more) status = add_node(list, way->more, &(TreeEvicted){0}, error);
    return status;
}

Status way_prepare(const Way *way, MessageList *list, Error *error) {
    const Tree *tree = transcript_tree(way->transcript);
    size_t depth = (size_t)tree_turn(tree, way->index);
    int *path = malloc((depth + 1) * sizeof *path);
    TreeEvicted *evicted = malloc((depth + 1) * sizeof *evicted);
    Status status = path && evicted ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
    *list = (MessageList){0};
    if (!status) {
        tree_path(tree, way->index, path);
        (way->go ? tree_find_evicted_after : tree_find_evicted)(tree, way->index, evicted);
        status = add_all(way, path, evicted, list, error);
    }
    if (status) message_list_free(list);
    free(path);
    free(evicted);
    return status;
}

void way_take(Chat *chat, MessageList *list) {
    conversation_take(chat->conversation, list);
    chat->used = -1;
}

Status way_project(Chat *chat, int index, Error *error) {
    MessageList list;
    Status status = way_prepare(&(Way){.transcript = chat->transcript, .index = index}, &list, error);
    if (!status) way_take(chat, &list);
    return status;
}

Status way_prepare_here(const Chat *chat, MessageList *list, Error *error) {
    return way_prepare(&(Way){.transcript = chat->transcript, .index = chat_tree(chat)->head}, list, error);
}

Status way_go(Chat *chat, int index, const char *why, Error *error) {
    MessageList there;
    Way way = {.transcript = chat->transcript, .index = index, .go = true};
    const bool remembers = tree_is_forgotten(chat_tree(chat), index);
    Status status = way_prepare(&way, &there, error);
    if (!status) status = transcript_set_head(chat->transcript, index, why, error);
    if (status) {
        message_list_free(&there);
        return status;
    }
    way_take(chat, &there);
    chat->has_last = false;
    if (remembers) screen_notice(chat->screen, "[this turn was forgotten: all that was is seen again]");
    chat_record_sync(chat);
    return STATUS_OK;
}

Status way_project_here(Chat *chat, Error *error) {
    return way_project(chat, chat_tree(chat)->head, error);
}

Status way_begin(Chat *chat, int parent, int from, Error *error) {
    const Tree *tree = chat_tree(chat);
    size_t n = (size_t)tree_turn(tree, parent) + 1;
    TreeEvicted *evicted = calloc(n, sizeof *evicted);
    if (!evicted) return error_set(error, STATUS_MEMORY, "out of memory");
    tree_find_evicted(tree, from, evicted);
    free(chat->reply.evicted);
    chat->reply.evicted = evicted;
    chat->reply.system_evicted = tree_is_system_evicted(tree, from);
    chat->reply.parent = parent;
    return STATUS_OK;
}

// ---- from messages to turns -------------------------------------------------------------------------------

bool way_sees_system(const Chat *chat) {
    return *transcript_system(chat->transcript) && !conversation_message(chat->conversation, 0)->evicted;
}

// Adds up the spans of the messages that are in the window.
static void count_tokens(Chat *chat, const ConversationView *view, WayTurn *turns, int n) {
    for (int message = 0, span = 0, i = 0; message < conversation_length(chat->conversation); message++) {
        while (i < n && message >= turns[i].end) i++;
        if (conversation_message(chat->conversation, message)->evicted || span >= view->n_spans) continue;
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
                                .evicted = conversation_message(chat->conversation, message)->evicted};
        for (; message < end; message++)
            (*turns)[i].n_seen += !conversation_message(chat->conversation, message)->evicted;
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

const char *way_range_text(bool system, TreeRange range, char *text) {
    const char *before = !system ? "" : range.first ? "the system prompt and " : "the system prompt";
    if (!range.first)
        snprintf(text, WAY_RANGE_ROOM, "%s", before);
    else if (range.first == range.last)
        snprintf(text, WAY_RANGE_ROOM, "%sturn %d", before, range.first);
    else
        snprintf(text, WAY_RANGE_ROOM, "%sturns %d-%d", before, range.first, range.last);
    return text;
}

// What of a turn is out of the window, by its messages.
static TreeEvicted evicted_of(const Chat *chat, const WayTurn *turn) {
    const TranscriptNode *node = transcript_node(chat->transcript, turn->node);
    const Message *last = conversation_message(chat->conversation, turn->end - 1);
    TreeEvicted evicted = {.whole = turn->evicted && last->evicted};
    if (!node->reply.text || evicted.whole) return evicted;
    evicted.reply = last->evicted;
    evicted.n_evicted = last->n_evicted > node->reply.n_evicted ? last->n_evicted : 0;
    return evicted;
}

void way_name_turns(Chat *chat, TranscriptOverflow *overflow) {
    WayTurn *turns;
    Error ignored;
    OverflowEvent *event = &overflow->event;
    // Without memory the engine's own count stays: it is right unless /say was used.
    if (way_turns(chat, chat->reply.parent, NULL, &turns, &ignored)) return;
    event->first_turn = event->last_turn = 0;
    const bool system_evicted = *transcript_system(chat->transcript) && !way_sees_system(chat);
    overflow->system = system_evicted && !chat->reply.system_evicted;
    chat->reply.system_evicted = system_evicted;
    for (int i = 0; i < tree_turn(chat_tree(chat), chat->reply.parent); i++) {
        TreeEvicted now = evicted_of(chat, &turns[i]), before = chat->reply.evicted[i];
        chat->reply.evicted[i] = now;
        if (now.whole && !before.whole) {
            if (!event->first_turn) event->first_turn = i + 1;
            event->last_turn = i + 1;
        } else if (!now.whole && overflow->n_partly < 2 &&
                   ((now.reply && !before.reply) || now.n_evicted > before.n_evicted)) {
            overflow->partly[overflow->n_partly++] =
                (TreeEviction){{i + 1, i + 1}, now.reply ? TREE_REPLY : now.n_evicted};
        }
    }
    free(turns);
}
