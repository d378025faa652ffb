// How blocks look.
#include "app/markdown/block_internal.h"

#include "app/markdown/table.h"

#include <stdio.h>

#define CODE_INDENT "  "

static const Cells NO_CELLS = {0};

// ---- what stands before a row -----------------------------------------------------------------------------------

static void put_mark(const Blocks *blocks, int index, Cells *cells) {
    static const char *const bullets[] = {"• ", "◦ ", "▪ "};
    const BlockContainer *item = &blocks->stack[index];
    char text[32];
    int level = 0;
    for (int i = 0; i < index; i++) level += strchr("-+*", blocks->stack[i].kind) != NULL;
    if (strchr(".)", item->kind))
        snprintf(text, sizeof text, "%0*d%c ", item->digits, item->number, item->kind);
    else
        snprintf(text, sizeof text, "%s", bullets[level < 3 ? level : 2]);
    cell_add_text(cells, text, INK_FRAME);
}

// Half of the width is the text's: blocks that lie so deep that they would take of it are not indented further, but
// stand where the deepest one does that leaves it. So of those between only the innermost is seen.
static int outer_shown(const Blocks *blocks) {
    const int inner = blocks->depth ? blocks->stack[blocks->depth - 1].width : 0;
    int n = 0, columns = inner;
    while (n + 1 < blocks->depth && columns + blocks->stack[n].width <= blocks->width / 2)
        columns += blocks->stack[n++].width;
    return n;
}

static void put_prefix(const Blocks *blocks, bool first, Cells *cells) {
    const int outer = outer_shown(blocks);
    for (int i = 0; i < blocks->depth; i++) {
        const BlockContainer *c = &blocks->stack[i];
        if (i >= outer && i + 1 < blocks->depth) continue;
        if (c->kind == '>')
            cell_add_text(cells, "│ ", INK_FRAME);
        else if (first && !c->marked)
            put_mark(blocks, i, cells);
        else
            for (int k = 0; k < c->width; k++) cell_add(cells, (Cell){.code = ' '});
    }
}

void block_prefix(const Blocks *blocks, BlockPrefix *prefix) {
    *prefix = (BlockPrefix){0};
    put_prefix(blocks, !blocks->begun, &prefix->first);
    put_prefix(blocks, false, &prefix->rest);
}

void block_prefix_free(BlockPrefix *prefix) {
    cell_free(&prefix->first);
    cell_free(&prefix->rest);
}

// An empty row between two blocks, with the lines of the quotes that both stand in.
static void put_gap(const Blocks *blocks, Rows *rows) {
    Blocks around = *blocks;
    size_t from = rows->of.n;
    around.depth = 0;
    while (around.depth < blocks->depth && blocks->stack[around.depth].marked) around.depth++;
    put_prefix(&around, false, &rows->of);
    while (rows->of.n > from && rows->of.cells[rows->of.n - 1].code == ' ') rows->of.n--;
    row_end(rows, false);
}

static bool stands_apart(BlockLeaf leaf) {
    return leaf > LEAF_PARAGRAPH;
}

void block_begin_rows(const Blocks *blocks, Rows *rows) {
    bool apart = stands_apart(blocks->leaf);
    for (int i = 0; i < blocks->depth; i++) apart = apart && blocks->stack[i].marked;
    apart = apart || stands_apart(blocks->before);
    if (blocks->any && !blocks->begun && (blocks->gap || apart)) put_gap(blocks, rows);
}

void block_mark_shown(Blocks *blocks) {
    for (int i = 0; i < blocks->depth; i++) blocks->stack[i].marked = true;
    blocks->begun = blocks->any = true;
    blocks->gap = false;
}

// ---- leaves -----------------------------------------------------------------------------------------------------

static void wrap(const Blocks *blocks, const Cells *cells, bool whole, Rows *rows) {
    BlockPrefix prefix;
    block_prefix(blocks, &prefix);
    row_wrap(rows, cells->cells, cells->n, &(const Wrap){&prefix.first, &prefix.rest, blocks->width, whole});
    block_prefix_free(&prefix);
}

static void trim_end(const char *text, size_t *n, const char *what) {
    while (*n && text[*n - 1] && strchr(what, text[*n - 1])) --*n;
}

// A heading without the hashes at its end.
static size_t heading_size(const Blocks *blocks) {
    const char *text = blocks->text.bytes;
    size_t n = blocks->text.size;
    trim_end(text, &n, " \t");
    size_t end = n;
    if (blocks->hashes) trim_end(text, &end, "#");
    if (!end || strchr(" \t", text[end - 1])) n = end;
    trim_end(text, &n, " \t");
    return n;
}

static size_t show_text(const Blocks *blocks, bool open, Rows *rows) {
    const bool heading = blocks->leaf == LEAF_HEADING;
    const InlineText source = {.text = blocks->text.bytes,
                               .n = heading ? heading_size(blocks) : blocks->text.size,
                               .open = open,
                               .unshown = blocks->unshown,
                               .address_too = blocks->address_too,
                               .code_marked = blocks->code_marked,
                               .ink = heading ? INK_HEADING : INK_TEXT,
                               .looks = heading ? LOOK_BOLD : 0};
    Cells cells = {0};
    size_t used = inline_render(&source, blocks->links, &cells);
    cell_drop_left(&cells, blocks->left);
    if (cells.n || (!open && !blocks->left)) wrap(blocks, &cells, true, rows);
    rows->of.failed = rows->of.failed || cells.failed;
    cell_free(&cells);
    return used;
}

static void show_table(const Blocks *blocks, Rows *rows) {
    if (blocks->left && blocks->text.size <= blocks->left) return; // no line has come to its head
    BlockPrefix prefix;
    block_prefix(blocks, &prefix);
    table_render(blocks->text.bytes, blocks->text.size,
                 &(const TableLayout){blocks->width, &prefix.first, &prefix.rest, blocks->address_too,
                                      blocks->code_marked},
                 blocks->links, rows);
    block_prefix_free(&prefix);
}

static void show_rule(const Blocks *blocks, Rows *rows) {
    BlockPrefix prefix;
    block_prefix(blocks, &prefix);
    cell_add_all(&rows->of, prefix.first.cells, prefix.first.n);
    for (int i = cell_widths(prefix.first.cells, prefix.first.n); i < blocks->width; i++)
        cell_add_text(&rows->of, "─", INK_FRAME);
    row_end(rows, false);
    block_prefix_free(&prefix);
}

size_t block_show_leaf(const Blocks *blocks, bool open, Rows *rows) {
    size_t used = blocks->text.size;
    if (blocks->leaf == LEAF_NONE || blocks->leaf == LEAF_FENCE || blocks->leaf == LEAF_INDENTED) return 0;
    size_t before = rows->n;
    block_begin_rows(blocks, rows);
    size_t gap = rows->n;
    if (blocks->leaf == LEAF_TABLE)
        show_table(blocks, rows);
    else if (blocks->leaf == LEAF_RULE)
        show_rule(blocks, rows);
    else
        used = show_text(blocks, open, rows);
    if (rows->n == gap) row_cut(rows, before); // nothing is sure yet
    return used;
}

// The table's head and the line under it.
static size_t head_size(const Text *text) {
    const char *end = memchr(text->bytes, '\n', text->size);
    const char *under = end ? memchr(end + 1, '\n', text->size - (size_t)(end + 1 - text->bytes)) : NULL;
    return under ? (size_t)(under - text->bytes) : text->size;
}

void block_leave(Blocks *blocks, size_t used) {
    if (blocks->leaf == LEAF_TABLE) blocks->text.size = used = head_size(&blocks->text);
    blocks->left = used;
    block_mark_shown(blocks);
}

size_t block_show(const Blocks *blocks, Rows *rows) {
    return block_show_leaf(blocks, true, rows);
}

void block_show_code(const Blocks *blocks, CodeState *state, const char *line, size_t n, Rows *rows) {
    Cells cells = {0};
    block_begin_rows(blocks, rows);
    // Only before the line, not before each of its rows: these are copied as the one that they are.
    if (blocks->code_marked && n) cell_add_text(&cells, CODE_INDENT, INK_TEXT);
    code_render(blocks->language, state, line, n, &cells);
    wrap(blocks, &cells, false, rows);
    rows->of.failed = rows->of.failed || cells.failed;
    cell_free(&cells);
}

void block_show_language(const Blocks *blocks, const char *name, size_t n, Rows *rows) {
    char *copy = strndup(name, n);
    Cells cells = {0};
    block_begin_rows(blocks, rows);
    if (copy) cell_add_text(&cells, copy, INK_FRAME);
    wrap(blocks, &cells, true, rows);
    rows->of.failed = rows->of.failed || cells.failed || !copy;
    cell_free(&cells);
    free(copy);
}

void block_show_mark(const Blocks *blocks, Rows *rows) {
    wrap(blocks, &NO_CELLS, true, rows);
}

void block_show_raw(const Blocks *blocks, const char *line, size_t n, Rows *rows) {
    Cells cells = {0};
    char *copy = strndup(line, n);
    if (copy) cell_add_text(&cells, copy, INK_TEXT);
    free(copy);
    wrap(blocks, &cells, true, rows);
    rows->of.failed = rows->of.failed || cells.failed || !copy;
    cell_free(&cells);
}
