// Drawing the line. libedit draws by changes and loses count where wide characters, marks without a width or texts
// of many rows are among them; so it is told of no prompt and never draws. Each change is one write of the
// whole line; a character typed at the end is written alone.
#include "app/terminal/editor/editor_internal.h"

#include <stdlib.h>
#include <string.h>

#include "app/terminal/tty.h"

static const char CONTINUATION[] = "\xE2\x80\xA6 "; // "… "
enum { CONTINUATION_WIDTH = 2, MIN_WIDTH_TO_INDENT = 20 };

TextLayout paint_layout(const Editor *editor) {
    return (TextLayout){editor->width, editor->width >= MIN_WIDTH_TO_INDENT ? CONTINUATION_WIDTH : 0};
}

static const char *current_prompt(const Editor *editor) {
    if (editor->search.on) return editor->search.prompt;
    return viewport_is_partial(editor) ? editor->viewport_prompt : editor->prompt;
}

// The length of the SGR sequence that begins here; 0: none does.
static size_t sgr_size(const char *text) {
    if (text[0] != 0x1B || text[1] != '[') return 0;
    size_t n = 2 + strspn(text + 2, "0123456789;:");
    return text[n] == 'm' ? n + 1 : 0;
}

// Adds what may be shown of the prompt to `out` (may be NULL) and returns the place behind it.
static TextPlace put_prompt(const Editor *editor, Text *out, TextLayout layout) {
    const char *prompt = current_prompt(editor);
    size_t n = strlen(prompt);
    TextPlace place = {0, 0};
    for (size_t i = 0, used; i < n; i += used) {
        uint32_t code;
        used = sgr_size(prompt + i);
        if (used) {
            if (out) text_add(out, prompt + i, used);
            continue;
        }
        used = text_decode(prompt + i, n - i, &code);
        if (!used) break;
        wchar_t c = (wchar_t)code;
        if (text_is_control(code) || c == L'\n' || c == L'\t') continue;
        place = text_place(&c, 1, place, layout);
        if (out) text_add_code(out, code);
    }
    return place;
}

TextPlace paint_place(Editor *editor, size_t n) {
    int width = editor->width;
    const LineInfoW *line = el_wline(editor->el);
    TextLayout layout = paint_layout(editor);
    TextPlace place = text_place(line->buffer, n, put_prompt(editor, NULL, layout), layout);
    size_t size = (size_t)(line->lastchar - line->buffer);
    bool line_ends = n < size && line->buffer[n] == L'\n';
    if (line_ends) {
        if (place.column == width) place.column--; // on the last character: there is no room behind it
        return place;
    }
    int next = n < size ? text_width(line->buffer[n], place.column, layout) : 1;
    if (place.column + next > width) place = (TextPlace){place.row + 1, 0};
    return place;
}

// Marks that join the character before them everywhere. Joiners and selectors change widths in some terminals only,
// and directional controls turn the line round: they stay in the text and are not shown.
static bool is_shown(wchar_t c) {
    bool format = (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
                  (c >= 0x2060 && c <= 0x206F) || (c >= 0xFE00 && c <= 0xFE0F) || c == 0xFEFF || c == 0xAD ||
                  c == 0x061C || c >= 0xE0000;
    return !format;
}

static void put_spaces(Text *out, int n) {
    for (; n > 0; n--) text_add(out, " ", 1);
}

// `from.column` -1: not known.
static void put_move(Text *out, TextPlace from, TextPlace to) {
    char move[48];
    int up = from.row - to.row;
    if (!up && from.column == to.column) return;
    if (up) {
        snprintf(move, sizeof move, "\033[%d%c", up > 0 ? up : -up, up > 0 ? 'A' : 'B');
        text_add(out, move, strlen(move));
    }
    text_add(out, "\r", 1);
    if (!to.column) return;
    snprintf(move, sizeof move, "\033[%dC", to.column);
    text_add(out, move, strlen(move));
}

// The cursor goes back to where it is in either kind of terminal: in one that draws the colour by itself, what follows is
// drawn over it.
static void put_skin_tone(Text *out, wchar_t c, TextPlace place, TextLayout layout) {
    if (place.column + wcwidth(c) > layout.width) return; // it might begin another row
    text_add_code(out, (uint32_t)c);
    put_move(out, (TextPlace){place.row, -1}, place);
}

static void put_character(Text *out, wchar_t c, TextPlace *place, TextLayout layout) {
    if (c == L'\n') {
        if (place->column < layout.width) text_add(out, "\033[K", 3);
        text_add(out, "\r\n", 2);
        if (layout.indent) text_add(out, CONTINUATION, sizeof CONTINUATION - 1);
        *place = (TextPlace){place->row + 1, layout.indent};
        return;
    }
    int width = text_width(c, place->column, layout);
    if (!width) {
        if (text_is_skin_tone((uint32_t)c))
            put_skin_tone(out, c, *place, layout);
        else if (is_shown(c))
            text_add_code(out, (uint32_t)c);
        return;
    }
    if (place->column + width > layout.width) { // the terminal wraps by itself once the row is full
        put_spaces(out, layout.width - place->column);
        *place = (TextPlace){place->row + 1, 0};
        width = text_width(c, 0, layout);
    }
    if (c == L'\t')
        put_spaces(out, width);
    else
        text_add_code(out, wcwidth(c) < 0 ? TEXT_REPLACEMENT : (uint32_t)c);
    place->column += width;
}

static void show(Editor *editor, TextPlace cursor) {
    tty_write(editor->painted.bytes);
    editor->painted.size = 0;
    editor->drawn_row = cursor.row, editor->drawn_column = cursor.column;
    editor->resized = false; // an answer that is still to come is of no use
}

void paint_line(Editor *editor) {
    viewport_adjust(editor);
    const LineInfoW *line = el_wline(editor->el);
    TextLayout layout = paint_layout(editor);
    Text *out = &editor->painted;
    out->size = 0;
    put_move(out, (TextPlace){editor->drawn_row, -1}, (TextPlace){0, 0});
    TextPlace place = put_prompt(editor, out, layout);
    for (const wchar_t *c = line->buffer; c < line->lastchar; c++) put_character(out, *c, &place, layout);
    if (place.column == layout.width) { // a full row: the cursor waits in the next one
        text_add(out, " \r", 2);
        place = (TextPlace){place.row + 1, 0};
    }
    text_add(out, "\033[J", 3);
    TextPlace cursor = paint_place(editor, (size_t)(line->cursor - line->buffer));
    put_move(out, place, cursor);
    show(editor, cursor);
}

void paint_cursor(Editor *editor) {
    if (viewport_adjust(editor)) {
        paint_line(editor);
        return;
    }
    const LineInfoW *line = el_wline(editor->el);
    TextPlace cursor = paint_place(editor, (size_t)(line->cursor - line->buffer));
    editor->painted.size = 0;
    put_move(&editor->painted, (TextPlace){editor->drawn_row, -1}, cursor);
    show(editor, cursor);
}

void paint_typed(Editor *editor, wchar_t c) {
    const LineInfoW *line = el_wline(editor->el);
    TextPlace cursor = paint_place(editor, (size_t)(line->cursor - line->buffer));
    bool alone = line->cursor == line->lastchar && !editor->search.on && !viewport_is_partial(editor) &&
                 c != L'\t' && wcwidth(c) > 0 && !text_is_skin_tone((uint32_t)c) &&
                 cursor.row == editor->drawn_row && cursor.column > wcwidth(c);
    if (!alone) {
        paint_line(editor);
        return;
    }
    editor->painted.size = 0;
    text_add_code(&editor->painted, (uint32_t)c);
    show(editor, cursor);
}

void paint_redraw(Editor *editor) {
    editor->drawn_row = 0;
    paint_line(editor);
}

void paint_leave(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    const TextLayout layout = paint_layout(editor);
    TextPlace end = text_place(line->buffer, (size_t)(line->lastchar - line->buffer),
                               put_prompt(editor, NULL, layout), layout);
    // Below a full row the cursor waits in an empty one: that is where the output goes on.
    for (int row = editor->drawn_row; row <= end.row; row++) tty_write("\n");
    tty_write("\r");
    editor->drawn_row = 0, editor->resized = false;
}

void paint_clear_screen(Editor *editor) {
    tty_write("\033[H\033[2J");
    paint_redraw(editor);
}

bool paint_whole(Editor *editor) {
    View view;
    if (!viewport_view(editor, &view)) return false;
    TextLayout layout = paint_layout(editor);
    Text *out = &editor->painted;
    out->size = 0;
    put_move(out, (TextPlace){editor->drawn_row, -1}, (TextPlace){0, 0});
    text_add(out, "\033[J", 3);
    Part above = editor->above, below = editor->below;
    editor->above = editor->below = (Part){0}; // the prompt is that of the whole
    TextPlace place = put_prompt(editor, out, layout);
    editor->above = above, editor->below = below;
    for (size_t i = 0; i < view.n; i++) put_character(out, view.text[i], &place, layout);
    text_add(out, "\n\r", 2);
    free(view.owned);
    show(editor, (TextPlace){0, 0});
    return true;
}

// Terminals that wrap anew have moved the prompt's row, others not. Where the cursor's column is now tells which, and what one
// has done once it does always. Until it is known the cursor is up by the smaller of both counts, so that nothing that was there
// before the prompt is ever wiped.
void paint_resize(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    editor->width = tty_width();
    int now = paint_place(editor, (size_t)(line->cursor - line->buffer)).row;
    if (!editor->resized) editor->row_before = editor->drawn_row, editor->narrowest = editor->width;
    if (editor->width < editor->narrowest) editor->narrowest = editor->width;
    editor->drawn_row = now < editor->row_before ? now : editor->row_before;
    editor->resized = now != editor->row_before;
    if (editor->resized)
        tty_write("\033[6n"), editor->asked++;
    else
        paint_line(editor);
}

void paint_resized(Editor *editor, int column) {
    if (column >= 0 && editor->asked > 0 && --editor->asked > 0) return; // of a size before
    if (!editor->resized) return;
    const LineInfoW *line = el_wline(editor->el);
    TextPlace anew = paint_place(editor, (size_t)(line->cursor - line->buffer));
    int last = editor->width - 1, as_before = editor->drawn_column;
    if (as_before >= editor->narrowest) as_before = editor->narrowest - 1;
    // Behind a full row a terminal's cursor waits at its end, or one further on; the editor's is in the next row.
    if (anew.column == 0 && anew.row > 0 && column >= last)
        anew = (TextPlace){anew.row - 1, column};
    else if (column > last)
        column = last;
    if ((column == anew.column) != (column == as_before)) editor->wraps_anew = column == anew.column ? 1 : -1;
    if (column >= 0 && (column == anew.column || column == as_before) && editor->wraps_anew)
        editor->drawn_row = editor->wraps_anew > 0 ? anew.row : editor->row_before;
    paint_line(editor);
}
