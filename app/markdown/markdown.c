#include "app/markdown/markdown.h"

#include "app/markdown/block.h"
#include "kernels/base/array.h"

enum {
    LONGEST = 16384, // bytes of a block, or of a line, that may still change
    LONGEST_TABLE = 65536,
    NARROWEST = 8, // columns
};

struct Markdown {
    Blocks blocks, tried; // after the last whole line; with the part of a line that there is
    Text line;            // that part
    bool middle;          // its beginning is taken already
    bool sure;            // `tried` has it
    bool held;            // it is not sure, and what is shown does without it
    Rows rows;            // finished with, then those of what is open
    size_t settled;       // rows that are finished with
    size_t tried_rows;    // and with the part of a line
    Links links;
    Live live;
    LiveTheme theme;
};

Markdown *markdown_open(const MarkdownOptions *options) {
    Markdown *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->theme = options->theme;
    m->blocks = (Blocks){.raw = options->raw,
                         .address_too = !options->theme.links,
                         .code_marked = !*options->theme.inks[INK_CODE],
                         .links = &m->links};
    m->blocks.width = m->live.width = options->width < NARROWEST ? NARROWEST : options->width;
    m->live.height = options->height;
    return m;
}

void markdown_close(Markdown *m) {
    if (!m) return;
    text_free(&m->blocks.text);
    text_free(&m->tried.text);
    text_free(&m->line);
    row_free(&m->rows);
    row_free(&m->live.shown);
    inline_free_links(&m->links);
    free(m);
}

bool markdown_line_is_open(const Markdown *m) {
    size_t n = m->live.shown.n;
    return n && m->live.shown.rows[n - 1].end > m->live.shown.rows[n - 1].begin;
}

int markdown_column(const Markdown *m) {
    const Rows *shown = &m->live.shown;
    const Row *last = shown->n ? &shown->rows[shown->n - 1] : NULL;
    return last ? cell_widths(shown->of.cells + last->begin, last->end - last->begin) : 0;
}

// ---- drawing ------------------------------------------------------------------------------------------------------

// What the part of a line makes of the blocks, and then of the rows behind those that are settled.
static bool compose(Markdown *m) {
    row_cut(&m->rows, m->settled);
    if (!block_copy(&m->tried, &m->blocks)) return false;
    const BlockLine part = {m->line.bytes ? m->line.bytes : "", m->line.size, true, m->middle};
    if (m->blocks.raw) {
        // A line that is empty yet is a row, too: the cursor waits in it.
        if (m->line.size || m->settled) (void)block_take(&m->tried, &part, &m->rows);
        m->sure = true;
    } else {
        m->sure = m->line.size && block_take(&m->tried, &part, &m->rows);
        // What is not sure may have closed what was open: this is undone.
        if (!m->sure && m->line.size) {
            row_cut(&m->rows, m->settled);
            if (!block_copy(&m->tried, &m->blocks)) return false;
        }
        m->tried_rows = m->rows.n;
        (void)block_show(&m->tried, &m->rows);
    }
    return !m->rows.of.failed;
}

// Rows that can change no more are forgotten, but for the last one, behind which the cursor stands.
static void forget_settled(Markdown *m) {
    if (m->settled < 2 || m->live.shown.n < m->settled) return;
    size_t n = m->settled - 1;
    row_drop(&m->rows, n);
    row_drop(&m->live.shown, n);
    m->settled -= n;
}

// Whether what waits goes on waiting: then nothing else is to be seen, and a table is not laid out anew for each
// letter.
static bool holds_on(Markdown *m) {
    if (!m->held || !block_copy(&m->tried, &m->blocks)) return false;
    const BlockLine part = {m->line.bytes ? m->line.bytes : "", m->line.size, true, m->middle};
    const size_t n = m->rows.n;
    bool sure = block_take(&m->tried, &part, &m->rows);
    row_cut(&m->rows, n);
    return !sure;
}

static bool show(Markdown *m, Text *out) {
    if (holds_on(m)) return true;
    bool ok = compose(m);
    m->held = !m->blocks.raw && !m->sure && m->line.size;
    live_paint(&m->live, &m->rows, &m->theme, &m->links, out);
    m->rows.of.failed = false;
    return ok;
}

// ---- what may change no more --------------------------------------------------------------------------------------

// The part of a line that there is counts as it looks.
static void adopt(Markdown *m) {
    if (!m->sure || !m->line.size) return;
    Blocks before = m->blocks;
    m->blocks = m->tried;
    m->tried = before;
    m->line.size = 0;
    m->middle = true;
    m->settled = m->tried_rows;
}

static const char *opener_of(uint8_t looks, BlockLeaf leaf) {
    bool bold = (looks & LOOK_BOLD) && leaf != LEAF_HEADING, italic = looks & LOOK_ITALIC;
    return bold && italic ? "***" : bold ? "**" : italic ? "*" : looks & LOOK_STRUCK ? "~~" : "";
}

// The open block begins anew at byte `at` of its text, with the marks that are open there.
static bool begin_at(Blocks *b, size_t at, const char *opener) {
    while (at < b->text.size && b->text.bytes[at] == ' ') at++;
    size_t n = strlen(opener), left = b->text.size - at;
    char *rest = strndup(b->text.bytes + at, left);
    b->text.size = 0;
    bool ok = rest && text_add(&b->text, opener, n) && text_add(&b->text, rest, left);
    free(rest);
    block_leave(b, 0);
    b->unshown = n;
    return ok;
}

static bool has_text(const Blocks *b) {
    return (b->leaf == LEAF_PARAGRAPH || b->leaf == LEAF_HEADING) && b->text.size > b->unshown;
}

// A paragraph that is taller than half of the window: its upper rows are settled.
static bool settle_tall(Markdown *m) {
    size_t most = m->live.height > 8 ? (size_t)m->live.height / 2 : 4;
    if (m->blocks.raw || !has_text(&m->tried) || m->rows.n < m->settled + 2 * most) return true;
    adopt(m);
    Rows rows = {0};
    BlockPrefix prefix;
    (void)block_show(&m->blocks, &rows);
    block_prefix(&m->blocks, &prefix);
    bool ok = true;
    for (size_t row = rows.n > most ? rows.n - most : 0; row > 1; row--) {
        size_t first = rows.rows[row].begin + prefix.rest.n;
        const Cell *cell = &rows.of.cells[first];
        if (first >= rows.rows[row].end || cell->ink == INK_CODE || cell->link) continue;
        row_cut(&m->rows, m->rows.n - rows.n + row);
        m->settled = m->rows.n;
        m->held = false;
        ok = begin_at(&m->blocks, cell->at, opener_of(cell->looks, m->blocks.leaf));
        break;
    }
    block_prefix_free(&prefix);
    row_free(&rows);
    return ok;
}

// What is shown of the open block is settled, however it would have gone on.
static void settle_all(Markdown *m) {
    m->held = false;
    Blocks *b = &m->blocks;
    if (b->raw) {
        m->settled = m->rows.n;
        m->line.size = 0;
        return;
    }
    adopt(m);
    row_cut(&m->rows, m->settled);
    size_t used = block_show(b, &m->rows);
    if (m->rows.n > m->settled) block_leave(b, used);
    m->settled = m->rows.n;
}

static bool limit(Markdown *m) {
    size_t most = m->blocks.leaf == LEAF_TABLE ? LONGEST_TABLE : LONGEST;
    if (m->line.size < LONGEST && m->blocks.text.size < most) return settle_tall(m);
    if (!m->sure && m->line.size >= LONGEST) m->middle = true; // too long to be anything else than text
    if (!m->sure) return true;
    settle_all(m);
    const bool more = has_text(&m->blocks) && m->blocks.left;
    return !more || begin_at(&m->blocks, m->blocks.left, "");
}

// ---- the text -----------------------------------------------------------------------------------------------------

static bool take_line(Markdown *m) {
    row_cut(&m->rows, m->settled);
    const BlockLine line = {m->line.bytes ? m->line.bytes : "", m->line.size, false, m->middle};
    bool ends_middle = m->middle && !m->line.size; // all of it was taken before
    if (!ends_middle) (void)block_take(&m->blocks, &line, &m->rows);
    m->middle = m->held = false;
    m->line.size = 0;
    m->settled = m->rows.n;
    return !m->rows.of.failed;
}

bool markdown_push(Markdown *m, const char *text, size_t n, Text *out) {
    bool ok = true;
    while (n && ok) {
        const char *end = memchr(text, '\n', n);
        size_t size = end ? (size_t)(end - text) : n;
        ok = text_add(&m->line, text, size);
        if (ok && end) {
            ok = take_line(m);
            // Many lines at once are drawn one by one, so that none leaves the screen undrawn.
            ok = show(m, out) && ok;
            forget_settled(m);
            size++;
        }
        text += size;
        n -= size;
    }
    ok = show(m, out) && ok;
    ok = limit(m) && ok;
    forget_settled(m);
    return ok;
}

bool markdown_part(Markdown *m, Text *out) {
    settle_all(m);
    bool ok = show(m, out);
    if (markdown_line_is_open(m)) ok = text_add(out, "\n", 1) && ok;
    row_cut(&m->rows, 0);
    m->settled = 0;
    live_forget(&m->live);
    return ok;
}

bool markdown_go_on(Markdown *m, const char *text, size_t n) {
    Text shown = {0};
    bool ok = markdown_push(m, text, n, &shown);
    ok = markdown_part(m, &shown) && ok;
    m->blocks.any = false; // no row stands before what comes first
    text_free(&shown);
    return ok;
}

bool markdown_end(Markdown *m, Text *out) {
    bool ok = true;
    if (m->line.size && !m->blocks.raw) ok = take_line(m);
    row_cut(&m->rows, m->settled);
    if (m->blocks.raw) {
        ok = compose(m) && ok;
    } else {
        block_finish(&m->blocks, &m->rows);
        m->settled = m->rows.n;
        ok = !m->rows.of.failed && ok;
    }
    live_paint(&m->live, &m->rows, &m->theme, &m->links, out);
    if (markdown_line_is_open(m)) ok = text_add(out, "\n", 1) && ok;
    live_forget(&m->live);
    row_cut(&m->rows, 0);
    m->settled = 0;
    return ok;
}

void markdown_resize(Markdown *m, int width, int height, Text *out) {
    if (width < NARROWEST) width = NARROWEST;
    bool narrower = false;
    for (size_t i = 0; i < m->live.shown.n; i++) {
        const Row *row = &m->live.shown.rows[i];
        bool joined = row->joined && i + 1 < m->live.shown.n;
        narrower = narrower || joined ||
                   cell_widths(m->live.shown.of.cells + row->begin, row->end - row->begin) > width;
    }
    // Rows that the terminal may have broken anew are left as they are.
    if (narrower && width != m->live.width) (void)markdown_part(m, out);
    m->held = m->held && width == m->live.width;
    m->live.height = height;
    m->live.width = m->blocks.width = width;
}
