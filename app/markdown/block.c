#include "app/markdown/block_internal.h"

#include "app/markdown/reading.h"
#include "app/markdown/spans/maths.h"
#include "app/markdown/table.h"
#include "kernels/base/array.h"

#include <ctype.h>

enum { CODE_INDENT = 4 };

// ---- closing and opening --------------------------------------------------------------------------------------------

static void close_leaf(Blocks *b, Rows *rows) {
    if (b->leaf == LEAF_NONE) return;
    const size_t n = rows->n;
    (void)block_show_leaf(b, false, rows);
    if (rows->n > n) block_mark_shown(b);
    if (b->begun) b->before = b->leaf;
    if (b->leaf == LEAF_INDENTED && b->blanks) b->gap = true;
    b->leaf = LEAF_NONE;
    b->text.size = b->unshown = b->left = 0;
    b->blanks = 0;
    b->begun = false;
    b->language = NULL;
    b->code = (CodeState){0};
}

static void close_containers(Blocks *b, int depth, Rows *rows) {
    if (depth >= b->depth) return;
    close_leaf(b, rows);
    while (b->depth > depth) {
        const BlockContainer *inner = &b->stack[b->depth - 1];
        if (inner->kind != '>' && !inner->marked) {
            BlockLeaf before = b->before;
            block_begin_rows(b, rows);
            block_show_mark(b, rows);
            block_mark_shown(b);
            b->begun = false;
            b->before = before > LEAF_PARAGRAPH ? LEAF_PARAGRAPH : before;
        }
        b->depth--;
    }
}

static void open_leaf(Blocks *b, BlockLeaf leaf, Rows *rows) {
    close_leaf(b, rows);
    if (b->depth) b->stack[b->depth - 1].empty = false;
    b->leaf = leaf;
}

static void add_text(Blocks *b, const char *text, size_t n, Rows *rows) {
    if (!text_add(&b->text, text, n)) rows->of.failed = true;
}

static void push(Blocks *b, BlockContainer container, Rows *rows) {
    close_leaf(b, rows);
    container.width = 2 + container.digits;
    if (b->depth) b->stack[b->depth - 1].empty = false;
    b->stack[b->depth++] = container;
}

// Takes the item's mark and the blanks behind it; false: none is there, or none that ends a paragraph.
static bool read_item(Reading *r, BlockContainer *item, bool ends_paragraph) {
    int indent = reading_indent(r);
    Reading at = *r;
    reading_skip(&at, indent);
    ReadingItem mark;
    size_t n = reading_item(&at, &mark);
    *item = (BlockContainer){.kind = mark.kind, .number = mark.number, .digits = mark.digits, .empty = true};
    if (!n) return false;
    reading_step(&at, n);
    bool blank = reading_is_blank(&at);
    bool ordered = item->kind == '.' || item->kind == ')';
    if (ends_paragraph && (blank || (ordered && item->number != 1))) return false;
    int after = reading_indent(&at);
    int taken = blank || after > CODE_INDENT ? 1 : after;
    reading_skip(&at, taken);
    item->indent = indent + (int)n + taken;
    *r = at;
    return true;
}

// ---- lines in leaves ------------------------------------------------------------------------------------------------

static void add_line(Blocks *b, const Reading *r, Rows *rows) {
    if (b->text.size) add_text(b, "\n", 1, rows);
    add_text(b, r->text + r->at, r->n - r->at, rows);
}

static void add_paragraph(Blocks *b, Reading *r, Rows *rows) {
    reading_skip(r, reading_indent(r));
    if (b->leaf != LEAF_PARAGRAPH) open_leaf(b, LEAF_PARAGRAPH, rows);
    add_line(b, r, rows);
}

static void add_heading(Blocks *b, Reading *r, int level, bool part, Rows *rows) {
    open_leaf(b, LEAF_HEADING, rows);
    b->hashes = true;
    reading_step(r, (size_t)level);
    reading_skip(r, reading_indent(r));
    add_text(b, r->text + r->at, r->n - r->at, rows);
    if (!part) close_leaf(b, rows);
}

static void open_fence(Blocks *b, Reading *r, int size, int indent, Rows *rows) {
    open_leaf(b, LEAF_FENCE, rows);
    b->fence = r->text[r->at];
    b->fence_size = size;
    b->fence_indent = indent;
    reading_step(r, (size_t)size);
    reading_skip(r, reading_indent(r));
    const char *name = r->text + r->at;
    size_t n = 0;
    b->language = language_find(name, r->n - r->at);
    while (r->at + n < r->n && !strchr(" \t", name[n])) n++;
    if (!n) return;
    block_show_language(b, name, n, rows);
    block_mark_shown(b);
}

// A line of code with its blanks, those of a tab that is taken in part among them.
static void show_code_line(Blocks *b, Reading *r, Rows *rows) {
    Text line = {0};
    bool ok = true;
    if (r->owed) {
        for (int i = 0; i < r->owed && ok; i++) ok = text_add(&line, " ", 1);
        r->at++;
    }
    ok = ok && text_add(&line, r->text + r->at, r->n - r->at);
    if (!ok) rows->of.failed = true;
    block_show_code(b, &b->code, line.bytes ? line.bytes : "", line.size, rows);
    block_mark_shown(b);
    text_free(&line);
}

static void take_fenced(Blocks *b, Reading *r, Rows *rows) {
    int indent = reading_indent(r);
    Reading end = *r;
    reading_skip(&end, indent);
    size_t n = 0;
    while (end.at + n < end.n && end.text[end.at + n] == b->fence) n++;
    reading_step(&end, n);
    if (indent < CODE_INDENT && (int)n >= b->fence_size && reading_is_blank(&end)) {
        close_leaf(b, rows);
        return;
    }
    reading_skip(r, indent < b->fence_indent ? indent : b->fence_indent);
    show_code_line(b, r, rows);
}

static void take_indented(Blocks *b, Reading *r, Rows *rows) {
    if (b->leaf != LEAF_INDENTED) open_leaf(b, LEAF_INDENTED, rows);
    for (; b->blanks; b->blanks--) {
        block_show_code(b, &b->code, "", 0, rows);
        block_mark_shown(b);
    }
    reading_skip(r, CODE_INDENT);
    show_code_line(b, r, rows);
}

// The line under a table's head: the paragraph's last line becomes it.
static bool begin_table(Blocks *b, const Reading *r, Rows *rows) {
    const char *text = b->text.bytes;
    size_t from = b->text.size;
    int columns = table_columns(r->text + r->at, r->n - r->at);
    while (from > b->unshown && text[from - 1] != '\n') from--;
    if (!columns || table_cells(text + from, b->text.size - from) != columns ||
        !memchr(text + from, '|', b->text.size - from))
        return false;
    char *head = strndup(text + from, b->text.size - from);
    if (!head) return rows->of.failed = true;
    if (from > b->unshown) {
        b->text.size = from - 1;
        close_leaf(b, rows);
    }
    b->text.size = b->unshown = b->left = 0;
    b->leaf = LEAF_TABLE;
    add_text(b, head, strlen(head), rows);
    add_text(b, "\n", 1, rows);
    add_text(b, r->text + r->at, r->n - r->at, rows);
    free(head);
    return true;
}

static void take_blank(Blocks *b, int matched, Rows *rows) {
    for (int i = matched; i < b->depth; i++)
        if (b->stack[i].kind == '>' || b->stack[i].empty) {
            close_containers(b, i, rows);
            break;
        }
    if (b->leaf == LEAF_INDENTED) {
        b->blanks++;
        return;
    }
    close_leaf(b, rows);
    b->gap = b->any;
}

// ---- a line ---------------------------------------------------------------------------------------------------------

// Takes what belongs to the containers that go on; returns how many do.
static int match_containers(const Blocks *b, Reading *r) {
    int matched = 0;
    for (; matched < b->depth; matched++) {
        const BlockContainer *c = &b->stack[matched];
        int indent = reading_indent(r);
        if (c->kind == '>') {
            if (indent >= CODE_INDENT || reading_next(r) != '>') break;
            reading_skip(r, indent);
            reading_step(r, 1);
            reading_skip(r, 1);
        } else if (reading_is_blank(r)) {
            if (c->empty) break; // an item that begins with two empty lines is empty
        } else {
            if (indent < c->indent) break;
            reading_skip(r, c->indent);
        }
    }
    return matched;
}

// Opens the containers that begin here. Returns whether one does.
static bool open_containers(Blocks *b, Reading *r, int matched, Rows *rows) {
    bool opened = false;
    for (;;) {
        BlockContainer item;
        bool paragraph = b->leaf == LEAF_PARAGRAPH && !opened && matched == b->depth;
        if (reading_indent(r) >= CODE_INDENT || matched == BLOCK_DEEPEST) return opened;
        if (reading_next(r) == '>') {
            if (!opened) close_containers(b, matched, rows);
            reading_skip(r, reading_indent(r));
            reading_step(r, 1);
            reading_skip(r, 1);
            push(b, (BlockContainer){.kind = '>', .empty = true}, rows);
        } else if (!reading_rule(r) && !(paragraph && reading_underline(r)) &&
                   read_item(r, &item, paragraph)) {
            if (!opened) close_containers(b, matched, rows);
            push(b, item, rows);
        } else {
            return opened;
        }
        opened = true;
        matched = b->depth;
    }
}

// Whether what there is of a line may still become something else than it looks like.
static bool is_unsure(const Blocks *b, const Reading *r) {
    const char *text = r->text + r->at;
    size_t n = r->n - r->at, blanks = 0;
    while (blanks < n && strchr(" \t", text[blanks])) blanks++;
    text += blanks;
    n -= blanks;
    if (!n || b->leaf == LEAF_TABLE || *text == '|') return true;
    if (strchr("`~", *text) && n >= 3 && text[1] == *text && text[2] == *text) return true;
    if (strchr("#`~=>-*_+:|", *text)) {
        size_t same = 0;
        while (same < n && (text[same] == *text || strchr(" \t|:-", text[same]))) same++;
        if (same == n) return true;
    }
    size_t digits = 0;
    while (digits < n && isdigit((unsigned char)text[digits])) digits++;
    return digits && digits <= READING_LONGEST_NUMBER &&
           (digits == n || (strchr(".)", text[digits]) && (digits + 1 == n || digits + 2 >= n)));
}

// The rest of a line that is no container's.
static void take_leaf(Blocks *b, Reading *r, bool part, Rows *rows) {
    int indent = reading_indent(r), level;
    bool paragraph = b->leaf == LEAF_PARAGRAPH;
    if (indent >= CODE_INDENT && !paragraph) {
        take_indented(b, r, rows);
        return;
    }
    if (indent >= CODE_INDENT) {
        add_paragraph(b, r, rows);
        return;
    }
    if (paragraph && reading_underline(r)) {
        b->leaf = LEAF_HEADING;
        b->hashes = false;
        close_leaf(b, rows);
        return;
    }
    reading_skip(r, indent);
    if ((level = reading_heading(r)) != 0) {
        add_heading(b, r, level, part, rows);
    } else if ((level = reading_fence(r)) != 0) {
        open_fence(b, r, level, indent, rows);
    } else if (reading_rule(r)) {
        open_leaf(b, LEAF_RULE, rows);
        close_leaf(b, rows);
    } else if (b->leaf == LEAF_TABLE) {
        add_text(b, "\n", 1, rows);
        add_text(b, r->text + r->at, r->n - r->at, rows);
    } else if (!paragraph || !begin_table(b, r, rows)) {
        add_paragraph(b, r, rows);
    }
}

static bool begins_leaf(const Reading *r) {
    Reading at = *r;
    int indent = reading_indent(r);
    reading_skip(&at, indent);
    return indent < CODE_INDENT && (reading_heading(&at) || reading_rule(&at) || reading_fence(&at));
}

// A line whose beginning has been taken goes on where that went.
static void take_middle(Blocks *b, Reading *r, bool part, Rows *rows) {
    if (b->leaf == LEAF_FENCE || b->leaf == LEAF_INDENTED) {
        show_code_line(b, r, rows);
        return;
    }
    if (b->leaf == LEAF_NONE) open_leaf(b, LEAF_PARAGRAPH, rows);
    add_text(b, r->text, r->n, rows);
    if (b->leaf == LEAF_HEADING && !part) close_leaf(b, rows);
}

static bool take_part_of_code(Blocks *b, Reading *r, Rows *rows) {
    Reading rest = *r;
    reading_skip(&rest, reading_indent(&rest));
    size_t same = 0;
    while (rest.at + same < rest.n && rest.text[rest.at + same] == b->fence) same++;
    bool may_end = b->leaf == LEAF_FENCE && rest.at + same == rest.n;
    if (may_end) return false;
    take_fenced(b, r, rows);
    return true;
}

static bool take_marked(Blocks *b, const BlockLine *line, Rows *rows) {
    Reading r = {.text = line->text, .n = line->n};
    int matched = match_containers(b, &r);
    bool all = matched == b->depth;
    if (all && b->leaf == LEAF_FENCE) {
        if (line->part) return take_part_of_code(b, &r, rows);
        take_fenced(b, &r, rows);
        return true;
    }
    if (line->part && reading_is_blank(&r)) return false;
    if (reading_is_blank(&r)) {
        take_blank(b, matched, rows);
        return true;
    }
    if (all && b->leaf == LEAF_INDENTED && reading_indent(&r) >= CODE_INDENT) {
        take_indented(b, &r, rows);
        return true;
    }
    if (all && b->leaf == LEAF_PARAGRAPH && maths_is_open(b->text.bytes, b->text.size)) {
        add_line(b, &r, rows); // with its indentation
        return true;
    }
    bool opened = open_containers(b, &r, matched, rows);
    if (reading_is_blank(&r)) return !line->part; // an item with nothing in it yet
    if (line->part && is_unsure(b, &r)) return false;
    // A paragraph goes on also where its line does not say that it is in a quote or a list (CommonMark 5.1).
    bool lazy = !all && !opened && b->leaf == LEAF_PARAGRAPH && !begins_leaf(&r);
    if (lazy) {
        add_paragraph(b, &r, rows);
        return true;
    }
    if (!all && !opened) close_containers(b, matched, rows);
    if (b->leaf == LEAF_INDENTED || (b->leaf == LEAF_TABLE && (opened || !all))) close_leaf(b, rows);
    take_leaf(b, &r, line->part, rows);
    return true;
}

static bool take_raw(Blocks *b, const BlockLine *line, Rows *rows) {
    block_show_raw(b, line->text, line->n, rows);
    b->any = true;
    return true;
}

bool block_take(Blocks *blocks, const BlockLine *line, Rows *rows) {
    if (blocks->raw) return take_raw(blocks, line, rows);
    if (!line->middle) return take_marked(blocks, line, rows);
    Reading r = {.text = line->text, .n = line->n};
    take_middle(blocks, &r, line->part, rows);
    return true;
}

void block_finish(Blocks *blocks, Rows *rows) {
    close_leaf(blocks, rows);
    close_containers(blocks, 0, rows);
}

bool block_copy(Blocks *to, const Blocks *from) {
    Text own = to->text;
    own.size = 0;
    *to = *from;
    to->text = own;
    return text_add(&to->text, from->text.bytes ? from->text.bytes : "", from->text.size);
}
