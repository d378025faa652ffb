// /undo and /redo: the way up in the tree of turns, and down again where one came from. What is taken back leaves the
// cache with the next reply: engine/session/session_prefix.c, engine/cache/kv_sequence.c.
#include "app/chat/look/report.h"
#include "app/chat/way.h"
#include "app/commands/commands_internal.h"
#include "app/terminal/text_shown.h"

Status commands_undo(Chat *chat, const char *argument, Error *error) {
    const Tree *tree = chat_tree(chat);
    int64_t n = 1, depth = tree_depth(tree);
    if (!depth) return commands_no_turn(error);
    if (*argument && argument_number("/undo", argument, "a number of turns", 1, depth, &n, error))
        return error->status;
    Status status = way_go(chat, tree_ancestor(tree, tree->head, (int)n), "undo", error);
    if (status) return status;
    screen_notice(chat_screen(chat), "[%lld turn%s taken back, %lld left]", (long long)n, text_plural(n),
                  (long long)(depth - n));
    report_last_turn(chat);
    return STATUS_OK;
}

Status commands_undo_redo(Chat *chat, const char *argument, Error *error) {
    const Tree *tree = chat_tree(chat);
    int64_t n = 1;
    int there;
    (void)tree_redo(tree, tree->n, &there);
    if (!there) return error_set(error, STATUS_USAGE, "nothing was taken back that could come again; /tree");
    if (*argument && argument_number("/redo", argument, "a number of turns", 1, there, &n, error))
        return error->status;
    Status status = way_go(chat, tree_redo(tree, (int)n, &there), "redo", error);
    if (status) return status;
    screen_notice(chat_screen(chat), "[%lld turn%s back again, %d in all]", (long long)n, text_plural(n),
                  tree_depth(tree));
    report_last_turn(chat);
    return STATUS_OK;
}
