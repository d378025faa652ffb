// Commands that show the tree of turns, and go to a place in it: goto, tree.
#include "app/chat/way.h"
#include "app/commands/commands_internal.h"
#include "app/record/attachment.h"
#include "app/terminal/page.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/text/quote.h"

#include <stdlib.h>
#include <string.h>

enum {
    EXCERPT_COLUMNS = 36, // of what was said, and of the reply, in /tree
    DEEPEST = 24,         // side branches of side branches that /tree indents
};

Status commands_tree_goto(Chat *chat, const char *argument, Error *error) {
    const Tree *tree = chat_tree(chat);
    if (!*argument) return error_set(error, STATUS_USAGE, "/goto needs a node such as 3.1; /tree shows them");
    int index = tree_find(tree, argument);
    if (index == TREE_NONE)
        return error_set(error, STATUS_USAGE, "there is no node %s; /tree shows them", quote(argument).text);
    Status status = way_go(chat, index, "goto", error);
    if (!status)
        screen_notice(chat_screen(chat), "[at %s: %d turn%s before the next]", argument, tree_depth(tree),
                      text_plural(tree_depth(tree)));
    return status;
}

// ---- /tree ------------------------------------------------------------------------------------------------

// The children of every node as linked lists; TREE_START's stand behind the others.
typedef struct Drawing {
    Chat *chat;
    const Tree *tree;
    FILE *out;
    int *child;           // [n + 1] the oldest child, TREE_NONE: none
    int *sibling;         // [n] the next younger one, likewise
    bool *on_way;         // [n] on the way to the head
    TreeEvicted *evicted; // [depth] what of that way is out of the window
    struct Side {
        int at, next; // a node, and the child that is drawn next
    } * sides;        // [n + 1] where the picture turned aside, the latest last
} Drawing;

static Status drawing_open(Drawing *d, Error *error) {
    const Tree *tree = d->tree;
    size_t n = (size_t)tree->n + 1;
    d->child = calloc(n, sizeof *d->child);
    d->sibling = calloc(n, sizeof *d->sibling);
    d->on_way = calloc(n, sizeof *d->on_way);
    d->evicted = calloc(n, sizeof *d->evicted);
    d->sides = calloc(n, sizeof *d->sides);
    if (!d->child || !d->sibling || !d->on_way || !d->evicted || !d->sides)
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
    free(d->sides);
}

static void draw_node(const Drawing *d, int index, int depth, const char *joint) {
    const TranscriptNode *node = transcript_node(chat_transcript(d->chat), index);
    const TreeNode *place = &d->tree->nodes[index];
    char name[TREE_NAME_ROOM];
    tree_name(d->tree, index, name);
    bool evicted = d->on_way[index] && d->evicted[place->turn - 1].whole;
    fprintf(d->out, "%c ", index == d->tree->head ? '*' : evicted ? '-' : ' ');
    for (int i = 0; i < depth && i < DEEPEST; i++) fputs("│ ", d->out);
    if (depth > DEEPEST) fprintf(d->out, "(%d more) ", depth - DEEPEST);
    fprintf(d->out, "%s%s  ", joint, name);
    if (node->role == CHAT_SYSTEM) fputs("(system) ", d->out);
    if (node->text) {
        const char *asked = attachment_skip(node->text);
        page_excerpt(d->out, asked, strlen(asked), EXCERPT_COLUMNS);
        fputc(' ', d->out);
    }
    if (node->reply.text) fputs("-> ", d->out);
    if (node->reply.text) page_excerpt(d->out, node->reply.text, node->reply.size, EXCERPT_COLUMNS);
    if (node->reply.report.finish == FINISH_INTERRUPTED) fputs(" (interrupted)", d->out);
    if (index == d->tree->head) fputs(" <- here", d->out);
    fputc('\n', d->out);
}

// The child by which the picture goes straight on: the way to the head, else the way that was gone last.
static int straight_on(const Drawing *d, int index) {
    int slot = index == TREE_START ? d->tree->n : index;
    for (int i = d->child[slot]; i != TREE_NONE; i = d->sibling[i])
        if (d->on_way[i]) return i;
    return index == TREE_START ? d->tree->first : d->tree->nodes[index].next;
}

static int first_child(const Drawing *d, int index) {
    return d->child[index == TREE_START ? d->tree->n : index];
}

// What follows a node: its other children as side branches, each with what follows it, then the one that goes straight
// on, and so forth.
static void draw_all(const Drawing *d) {
    int depth = 0;
    d->sides[0] = (struct Side){TREE_START, first_child(d, TREE_START)};
    while (depth >= 0) {
        struct Side *here = &d->sides[depth];
        int on = straight_on(d, here->at), side = here->next;
        if (side != TREE_NONE) {
            here->next = d->sibling[side];
            if (side == on) continue;
            draw_node(d, side, depth, "├ ");
            d->sides[++depth] = (struct Side){side, first_child(d, side)};
        } else if (on != TREE_NONE) {
            draw_node(d, on, depth, "");
            *here = (struct Side){on, first_child(d, on)};
        } else {
            depth--;
        }
    }
}

Status commands_tree_tree(Chat *chat, const char *argument, Error *error) {
    Drawing d = {.chat = chat, .tree = chat_tree(chat)};
    Page page = {0};
    if (argument_none(argument, error)) return error->status;
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
