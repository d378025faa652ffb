// Commands that show the tree of turns, and go to a place in it: goto, tree.
#include "app/chat/look/report.h"
#include "app/chat/way.h"
#include "app/commands/commands_internal.h"
#include "app/record/attachment.h"
#include "app/terminal/screen/page.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/text/quote.h"

#include <stdlib.h>
#include <string.h>

enum {
    FORK_COLUMNS = 2, // of a fork's line in /tree
};

Status commands_tree_goto(Chat *chat, const char *argument, Error *error) {
    const Tree *tree = chat_tree(chat);
    if (!*argument) return error_set(error, STATUS_USAGE, "/goto needs a node such as 3.1; /tree shows them");
    int index = tree_find(tree, argument);
    if (index == TREE_NONE)
        return error_set(error, STATUS_USAGE, "there is no node %s; /tree shows them", quote(argument).text);
    const bool already = index == tree->head;
    Status status = way_go(chat, index, "goto", error);
    if (status) return status;
    screen_notice(chat_screen(chat), "[at %s: %d turn%s before the next]", argument, tree_depth(tree),
                  text_plural(tree_depth(tree)));
    if (!already) report_last_turn(chat);
    return STATUS_OK;
}

// ---- /tree ------------------------------------------------------------------------------------------------

// The children of every node as linked lists; TREE_START's stand behind the others.
typedef struct Drawing {
    Chat *chat;
    const Tree *tree;
    FILE *out;
    int width;            // columns of a row
    int *child;           // [n + 1] the oldest child, TREE_NONE: none
    int *sibling;         // [n] the next younger one, likewise
    bool *on_way;         // [n] on the way to the head
    TreeEvicted *evicted; // [depth] what of that way is out of the window
    int *
        later; // [n + 1] of each fork that the picture stands behind: the sibling that comes next, or TREE_NONE
} Drawing;

static Status drawing_open(Drawing *d, Error *error) {
    const Tree *tree = d->tree;
    size_t n = (size_t)tree->n + 1;
    d->child = calloc(n, sizeof *d->child);
    d->sibling = calloc(n, sizeof *d->sibling);
    d->on_way = calloc(n, sizeof *d->on_way);
    d->evicted = calloc(n, sizeof *d->evicted);
    d->later = calloc(n, sizeof *d->later);
    if (!d->child || !d->sibling || !d->on_way || !d->evicted || !d->later)
        return error_set(error, STATUS_MEMORY, "out of memory");
    for (int i = 0; i <= tree->n; i++) d->child[i] = TREE_NONE;
    for (int i = tree->n - 1; i >= 0; i--) {
        int *first = &d->child[tree->nodes[i].parent == TREE_START ? tree->n : tree->nodes[i].parent];
        d->sibling[i] = *first;
        *first = i;
    }
    for (int i = tree->head; i != TREE_START; i = tree->nodes[i].parent) d->on_way[i] = true;
    tree_find_evicted(tree, tree->head, d->evicted);
    return STATUS_OK;
}

static void drawing_close(Drawing *d) {
    free(d->child);
    free(d->sibling);
    free(d->on_way);
    free(d->evicted);
    free(d->later);
}

// What was said there and answered, in one row of at most so many columns: what either leaves, the other may take.
static void draw_words(const Drawing *d, const TranscriptNode *node, int columns) {
    const char *asked = node->text ? attachment_skip(node->text) : "", *reply = node->reply.text;
    const size_t n_asked = strlen(asked), n_reply = reply ? node->reply.size : 0;
    const char *arrow = !reply ? "" : *asked ? " -> " : "-> ";
    columns -= (int)strlen(arrow);
    const int all_asked = page_excerpt(NULL, asked, n_asked, columns),
              all_reply = page_excerpt(NULL, reply ? reply : "", n_reply, columns);
    int of_asked = columns - all_reply;
    if (of_asked < columns / 2) of_asked = all_asked < columns / 2 ? all_asked : columns / 2;
    const int taken = page_excerpt(d->out, asked, n_asked, of_asked);
    fputs(arrow, d->out);
    if (reply) page_excerpt(d->out, reply, n_reply, columns - taken);
}

// The lines of the forks that the picture stands behind, the innermost last, and where it is one of a fork's own nodes,
// what joins it: half a row of them at most. Returns the columns that this takes.
static int draw_joints(const Drawing *d, int depth, bool joined) {
    static const char *const drawn[] = {"│ ", "├ ", "└ "}, *const plain[] = {"| ", "+ ", "` "};
    const char *const *lines = screen_traits(chat_screen(d->chat))->utf8 ? drawn : plain;
    const int most = d->width / 2 / FORK_COLUMNS, shown = depth < most ? depth : most;
    int columns = FORK_COLUMNS * shown;
    for (int i = 0; i < shown; i++) {
        const bool more = d->later[i] != TREE_NONE;
        fputs(joined && i == depth - 1 ? lines[more ? 1 : 2] : more ? lines[0] : "  ", d->out);
    }
    if (depth > most) columns += fprintf(d->out, "(%d more) ", depth - most);
    return columns;
}

static void draw_node(const Drawing *d, int index, int depth, bool joined) {
    const TranscriptNode *node = transcript_node(chat_transcript(d->chat), index);
    const TreeNode *place = &d->tree->nodes[index];
    const char *role = node->role == CHAT_SYSTEM ? "(system) " : "";
    char name[TREE_NAME_ROOM], end[48];
    tree_name(d->tree, index, name);
    snprintf(end, sizeof end, "%s%s", node->reply.report.finish == FINISH_INTERRUPTED ? " (interrupted)" : "",
             index == d->tree->head ? " <- here" : "");
    bool evicted = d->on_way[index] && d->evicted[place->turn - 1].whole;
    fprintf(d->out, "%c ", index == d->tree->head ? '*' : evicted ? '-' : ' ');
    int columns = 2 + draw_joints(d, depth, joined);
    columns += fprintf(d->out, "%s  %s", name, role);
    draw_words(d, node, d->width - columns - (int)strlen(end));
    fprintf(d->out, "%s\n", end);
}

static int first_child(const Drawing *d, int index) {
    return d->child[index == TREE_START ? d->tree->n : index];
}

// What follows a node stands below it: in its column where it is alone, else joined to it one by one, each with what
// follows it.
static void draw_all(const Drawing *d) {
    int depth = 0, index = TREE_START;
    for (;;) {
        const int child = first_child(d, index);
        if (child != TREE_NONE && d->sibling[child] == TREE_NONE) {
            draw_node(d, index = child, depth, false);
            continue;
        }
        if (child != TREE_NONE) d->later[depth++] = child;
        while (depth && d->later[depth - 1] == TREE_NONE) depth--;
        if (!depth) return;
        index = d->later[depth - 1];
        d->later[depth - 1] = d->sibling[index];
        draw_node(d, index, depth, true);
    }
}

Status commands_tree_tree(Chat *chat, const char *argument, Error *error) {
    Drawing d = {.chat = chat, .tree = chat_tree(chat), .width = screen_width(chat_screen(chat))};
    Page page = {0};
    if (argument_none("/tree", argument, error)) return error->status;
    if (!d.tree->n) return commands_no_turn(error);
    Status status = drawing_open(&d, error);
    if (!status) status = page_open(&page, error);
    if (!status) {
        d.out = page.stream;
        if (d.tree->head == TREE_START) fputs("* 0  <- here\n", d.out);
        draw_all(&d);
        page_show(&page, chat_screen(chat));
    }
    drawing_close(&d);
    return status;
}
