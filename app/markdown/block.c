#include "app/markdown/block_internal.h"

#include "app/markdown/table.h"
#include "kernels/base/array.h"

#include <ctype.h>

enum { CODE_INDENT = 4, TAB = 4, LONGEST_NUMBER = 9 };

// ---- a line, from left to right -----------------------------------------------------------------------------------

typedef struct Reading {
    const char *text; // [n]
    size_t n, at;
    int column;
    int owed; // columns of a tab at `at` that are still to be taken; 0: all of it
} Reading;

static int tab_columns(int column) {
    return TAB - column % TAB;
}

// Columns of blanks before the next character.
static int indent_of(const Reading *r) {
    int column = r->column;
    for (size_t i = r->at; i < r->n && (r->text[i] == ' ' || r->text[i] == '\t'); i++) {
        int width = r->text[i] == ' ' ? 1 : i == r->at && r->owed ? r->owed : tab_columns(column);
        column += width;
    }
    return column - r->column;
}

static void skip(Reading *r, int columns) {
    while (columns > 0 && r->at < r->n && (r->text[r->at] == ' ' || r->text[r->at] == '\t')) {
        int width = r->text[r->at] == ' ' ? 1 : r->owed ? r->owed : tab_columns(r->column);
        int taken = width < columns ? width : columns;
        r->column += taken;
        columns -= taken;
        r->owed = width - taken;
        if (!r->owed) r->at++;
    }
}

static char next_of(const Reading *r) {
    size_t at = r->at;
    while (at < r->n && (r->text[at] == ' ' || r->text[at] == '\t')) at++;
    return at < r->n ? r->text[at] : 0;
}

static bool is_blank(const Reading *r) {
    return next_of(r) == 0;
}

static void step(Reading *r, size_t n) {
    r->at += n;
    r->column += (int)n;
}

// ---- closing and opening --------------------------------------------------------------------------------------------

static void mark_shown(Blocks *b) {
    for (int i = 0; i < b->depth; i++) b->stack[i].marked = true;
    b->begun = b->any = true;
    b->gap = false;
}

static void close_leaf(Blocks *b, Rows *rows) {
    if (b->leaf == LEAF_NONE) return;
    (void)block_show_leaf(b, false, rows);
    if (b->leaf != LEAF_FENCE && b->leaf != LEAF_INDENTED) mark_shown(b);
    if (b->begun) b->before = b->leaf;
    if (b->leaf == LEAF_INDENTED && b->blanks) b->gap = true;
    b->leaf = LEAF_NONE;
    b->text.size = b->unshown = 0;
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
            mark_shown(b);
            b->begun = false;
            b->before = before > LEAF_PARAGRAPH ? LEAF_PARAGRAPH : before;
        }
        b->depth--;
    }
}

static void open_leaf(Blocks *b, BlockLeaf leaf, Rows *rows) {
    close_leaf(b, rows);
    b->lists[b->depth].kind = 0;
    if (b->depth) b->stack[b->depth - 1].empty = false;
    b->leaf = leaf;
}

static void add_text(Blocks *b, const char *text, size_t n, Rows *rows) {
    if (!text_add(&b->text, text, n)) rows->of.failed = true;
}

static void push(Blocks *b, BlockContainer container, Rows *rows) {
    close_leaf(b, rows);
    BlockContainer *list = &b->lists[b->depth];
    if (container.kind != '>' && list->kind == container.kind) container.number = list->number + 1;
    if (container.kind == '>') container.width = 2;
    if (strchr("-+*", container.kind)) container.width = 2;
    if (strchr(".)", container.kind)) {
        container.width = 3;
        for (long long n = container.number; n > 9; n /= 10) container.width++;
    }
    *list = container;
    if (container.kind == '>') list->kind = 0;
    if (b->depth) b->stack[b->depth - 1].empty = false;
    b->stack[b->depth++] = container;
    b->lists[b->depth].kind = 0;
}

// ---- what begins a block --------------------------------------------------------------------------------------------

// A line of `-`, `*` or `_` and blanks, at least three.
static bool is_rule(const Reading *r) {
    char c = next_of(r);
    int n = 0;
    if (!c || !strchr("-*_", c)) return false;
    for (size_t i = r->at; i < r->n; i++) {
        if (r->text[i] == c)
            n++;
        else if (r->text[i] != ' ' && r->text[i] != '\t')
            return false;
    }
    return n >= 3;
}

// A line of `=` or `-` under a paragraph: its level, or 0.
static int underline_of(const Reading *r) {
    char c = next_of(r);
    size_t at = r->at + strspn(r->text + r->at, " \t");
    if (c != '=' && c != '-') return 0;
    while (at < r->n && r->text[at] == c) at++;
    while (at < r->n && strchr(" \t", r->text[at])) at++;
    return at < r->n ? 0 : c == '=' ? 1 : 2;
}

// `# ` to `###### `: how many, or 0.
static int heading_of(const Reading *r) {
    size_t n = 0;
    while (r->at + n < r->n && r->text[r->at + n] == '#') n++;
    bool ends = r->at + n == r->n || strchr(" \t", r->text[r->at + n]);
    return n <= 6 && ends ? (int)n : 0;
}

// Three and more of ` or ~: how many, or 0.
static int fence_of(const Reading *r) {
    char c = r->at < r->n ? r->text[r->at] : 0;
    size_t n = 0;
    if (c != '`' && c != '~') return 0;
    while (r->at + n < r->n && r->text[r->at + n] == c) n++;
    bool code_span = c == '`' && memchr(r->text + r->at + n, '`', r->n - r->at - n);
    return n >= 3 && !code_span ? (int)n : 0;
}

// The mark of a list's item behind the blanks: its length, or 0.
static size_t item_of(const Reading *r, BlockContainer *item) {
    const char *text = r->text + r->at;
    size_t left = r->n - r->at, n = 0;
    long long number = 0;
    *item = (BlockContainer){.empty = true};
    if (left && strchr("-+*", text[0])) {
        n = 1;
    } else {
        while (n < left && n < LONGEST_NUMBER && isdigit((unsigned char)text[n]))
            number = number * 10 + text[n++] - '0';
        if (!n || n == left || (text[n] != '.' && text[n] != ')')) return 0;
        n++;
    }
    if (n < left && text[n] != ' ' && text[n] != '\t') return 0;
    item->kind = text[n - 1];
    item->number = number;
    return n;
}

// Takes the item's mark and the blanks behind it; false: none is there, or none that ends a paragraph.
static bool read_item(const Blocks *b, Reading *r, BlockContainer *item, bool ends_paragraph) {
    int indent = indent_of(r);
    Reading at = *r;
    skip(&at, indent);
    size_t n = item_of(&at, item);
    if (!n || b->depth == BLOCK_DEEPEST) return false;
    step(&at, n);
    bool blank = is_blank(&at);
    bool ordered = item->kind == '.' || item->kind == ')';
    if (ends_paragraph && (blank || (ordered && item->number != 1))) return false;
    int after = indent_of(&at);
    int taken = blank || after > CODE_INDENT ? 1 : after;
    skip(&at, taken);
    item->indent = indent + (int)n + taken;
    *r = at;
    return true;
}

// ---- lines in leaves --------------------------------------------------------------------------------------------------

static void trim_end(const char *text, size_t *n, const char *what) {
    while (*n && text[*n - 1] && strchr(what, text[*n - 1])) --*n;
}

static void add_paragraph(Blocks *b, Reading *r, Rows *rows) {
    skip(r, indent_of(r));
    if (b->leaf != LEAF_PARAGRAPH) {
        open_leaf(b, LEAF_PARAGRAPH, rows);
    } else if (b->text.size) {
        add_text(b, "\n", 1, rows);
    }
    add_text(b, r->text + r->at, r->n - r->at, rows);
}

static void add_heading(Blocks *b, Reading *r, int level, bool part, Rows *rows) {
    open_leaf(b, LEAF_HEADING, rows);
    b->level = level;
    step(r, (size_t)level);
    skip(r, indent_of(r));
    const char *text = r->text + r->at;
    size_t n = r->n - r->at, end;
    trim_end(text, &n, " \t");
    end = n;
    trim_end(text, &end, "#");
    if (!end || strchr(" \t", text[end - 1])) n = end;
    trim_end(text, &n, " \t");
    add_text(b, text, n, rows);
    if (!part) close_leaf(b, rows);
}

static void open_fence(Blocks *b, Reading *r, int size, int indent, Rows *rows) {
    open_leaf(b, LEAF_FENCE, rows);
    b->fence = r->text[r->at];
    b->fence_size = size;
    b->fence_indent = indent;
    step(r, (size_t)size);
    skip(r, indent_of(r));
    b->language = language_find(r->text + r->at, r->n - r->at);
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
    mark_shown(b);
    text_free(&line);
}

static void take_fenced(Blocks *b, Reading *r, Rows *rows) {
    int indent = indent_of(r);
    Reading end = *r;
    skip(&end, indent);
    size_t n = 0;
    while (end.at + n < end.n && end.text[end.at + n] == b->fence) n++;
    step(&end, n);
    if (indent < CODE_INDENT && (int)n >= b->fence_size && is_blank(&end)) {
        close_leaf(b, rows);
        return;
    }
    skip(r, indent < b->fence_indent ? indent : b->fence_indent);
    show_code_line(b, r, rows);
}

static void take_indented(Blocks *b, Reading *r, Rows *rows) {
    if (b->leaf != LEAF_INDENTED) open_leaf(b, LEAF_INDENTED, rows);
    for (; b->blanks; b->blanks--) {
        block_show_code(b, &b->code, "", 0, rows);
        mark_shown(b);
    }
    skip(r, CODE_INDENT);
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
    b->text.size = b->unshown = 0;
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
        int indent = indent_of(r);
        if (c->kind == '>') {
            if (indent >= CODE_INDENT || next_of(r) != '>') break;
            skip(r, indent);
            step(r, 1);
            skip(r, 1);
        } else if (is_blank(r)) {
            if (c->empty) break; // an item that begins with two empty lines is empty
        } else {
            if (indent < c->indent) break;
            skip(r, c->indent);
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
        if (indent_of(r) >= CODE_INDENT || b->depth == BLOCK_DEEPEST) return opened;
        if (next_of(r) == '>') {
            if (!opened) close_containers(b, matched, rows);
            skip(r, indent_of(r));
            step(r, 1);
            skip(r, 1);
            push(b, (BlockContainer){.kind = '>', .empty = true}, rows);
        } else if (!is_rule(r) && !(paragraph && underline_of(r)) && read_item(b, r, &item, paragraph)) {
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
    return digits && digits <= LONGEST_NUMBER &&
           (digits == n || (strchr(".)", text[digits]) && (digits + 1 == n || digits + 2 >= n)));
}

// The rest of a line that is no container's.
static void take_leaf(Blocks *b, Reading *r, bool part, Rows *rows) {
    int indent = indent_of(r), level;
    bool paragraph = b->leaf == LEAF_PARAGRAPH;
    if (indent >= CODE_INDENT && !paragraph) {
        take_indented(b, r, rows);
        return;
    }
    if (indent >= CODE_INDENT) {
        add_paragraph(b, r, rows);
        return;
    }
    if (paragraph && (level = underline_of(r)) != 0) {
        b->leaf = LEAF_HEADING;
        b->level = level;
        size_t n = b->text.size;
        trim_end(b->text.bytes, &n, " \t");
        b->text.size = n;
        close_leaf(b, rows);
        return;
    }
    skip(r, indent);
    if ((level = heading_of(r)) != 0) {
        add_heading(b, r, level, part, rows);
    } else if ((level = fence_of(r)) != 0) {
        open_fence(b, r, level, indent, rows);
    } else if (is_rule(r)) {
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
    int indent = indent_of(r);
    skip(&at, indent);
    return indent < CODE_INDENT && (heading_of(&at) || is_rule(&at) || fence_of(&at));
}

// A line whose beginning has been taken goes on where that went.
static void take_middle(Blocks *b, Reading *r, Rows *rows) {
    if (b->leaf == LEAF_FENCE || b->leaf == LEAF_INDENTED) {
        show_code_line(b, r, rows);
        return;
    }
    if (b->leaf == LEAF_NONE) open_leaf(b, LEAF_PARAGRAPH, rows);
    add_text(b, r->text, r->n, rows);
    if (b->leaf == LEAF_HEADING) close_leaf(b, rows);
}

static bool take_part_of_code(Blocks *b, Reading *r, Rows *rows) {
    Reading rest = *r;
    skip(&rest, indent_of(&rest));
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
    if (line->part && is_blank(&r)) return false;
    if (is_blank(&r)) {
        take_blank(b, matched, rows);
        return true;
    }
    if (all && b->leaf == LEAF_INDENTED && indent_of(&r) >= CODE_INDENT) {
        take_indented(b, &r, rows);
        return true;
    }
    bool opened = open_containers(b, &r, matched, rows);
    if (is_blank(&r)) return !line->part; // an item with nothing in it yet
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
    take_middle(blocks, &r, rows);
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
