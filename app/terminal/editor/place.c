// Places in a text: where its lines, words and characters begin and end, as seen from the cursor.
#include "app/terminal/editor/editor_internal.h"

#include <wctype.h>

bool place_text_end(const View *view, size_t *at) {
    *at = view->n;
    return true;
}

bool place_line_start(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at && view->text[*at - 1] != L'\n') --*at;
    return true;
}

bool place_line_end(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at < view->n && view->text[*at] != L'\n') ++*at;
    return true;
}

// The line above or below, the same column.
bool place_line_above(const View *view, size_t *at) {
    size_t start;
    place_line_start(view, &start);
    if (!start) return false;
    View above = {view->text, view->n, start - 1, NULL};
    size_t column = view->cursor - start;
    place_line_start(&above, at);
    *at = column < above.cursor - *at ? *at + column : above.cursor;
    return true;
}

bool place_line_below(const View *view, size_t *at) {
    size_t start, end, last;
    place_line_start(view, &start);
    place_line_end(view, &end);
    if (end == view->n) return false;
    View below = {view->text, view->n, end + 1, NULL};
    place_line_end(&below, &last);
    *at = view->cursor - start < last - below.cursor ? below.cursor + (view->cursor - start) : last;
    return true;
}

// Marks without a width belong to the character before them, and a joiner (ZWJ) ties the next one as well.
static bool is_mark(wchar_t c) {
    return c != L'\n' && c != L'\t' && wcwidth(c) == 0;
}

bool place_character_left(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at) {
        --*at;
        if (!is_mark(view->text[*at]) && (!*at || view->text[*at - 1] != 0x200D)) break;
    }
    return *at != view->cursor;
}

bool place_character_right(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at < view->n) {
        wchar_t last = view->text[(*at)++];
        if (*at == view->n || (!is_mark(view->text[*at]) && last != 0x200D)) break;
    }
    return *at != view->cursor;
}

static bool is_word(wchar_t c) {
    return iswalnum((wint_t)c) || c == L'_' || is_mark(c);
}

bool place_word_left(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at && !is_word(view->text[*at - 1])) --*at;
    while (*at && is_word(view->text[*at - 1])) --*at;
    return *at != view->cursor;
}

bool place_word_right(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at < view->n && !is_word(view->text[*at])) ++*at;
    while (*at < view->n && is_word(view->text[*at])) ++*at;
    return *at != view->cursor;
}
