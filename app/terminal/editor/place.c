// Places in a text: where its lines, words and characters begin and end, as seen from the cursor.
#include "app/terminal/editor/editor_internal.h"

#include <wctype.h>

static bool is_mark(wchar_t c) {
    return c != L'\n' && c != L'\t' && wcwidth(c) == 0;
}

static bool is_flag_letter(wchar_t c) {
    return c >= 0x1F1E6 && c <= 0x1F1FF;
}

// Whether the second letter of a flag is at `at`: letters are pairs, from the first of their run on.
static bool ends_flag(const View *view, size_t at) {
    size_t before = 0;
    if (!is_flag_letter(view->text[at])) return false;
    while (before < at && is_flag_letter(view->text[at - 1 - before])) before++;
    return before % 2 == 1;
}

// Marks without a width and skin tones belong to the character before them, a joiner (ZWJ) ties the next one as well, and
// two letters make a flag.
static bool is_tied(const View *view, size_t at) {
    if (!at || at >= view->n) return false;
    return is_mark(view->text[at]) || text_is_skin_tone((uint32_t)view->text[at]) ||
           view->text[at - 1] == 0x200D || ends_flag(view, at);
}

static size_t begin_of_character(const View *view, size_t at) {
    while (is_tied(view, at)) at--;
    return at;
}

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
    *at = column < above.cursor - *at ? begin_of_character(view, *at + column) : above.cursor;
    return true;
}

bool place_line_below(const View *view, size_t *at) {
    size_t start, end, last;
    place_line_start(view, &start);
    place_line_end(view, &end);
    if (end == view->n) return false;
    View below = {view->text, view->n, end + 1, NULL};
    place_line_end(&below, &last);
    const size_t column = view->cursor - start;
    *at = column < last - below.cursor ? begin_of_character(view, below.cursor + column) : last;
    return true;
}

bool place_character_left(const View *view, size_t *at) {
    *at = view->cursor ? begin_of_character(view, view->cursor - 1) : 0;
    return *at != view->cursor;
}

bool place_character_right(const View *view, size_t *at) {
    *at = view->cursor;
    if (*at < view->n) ++*at;
    while (is_tied(view, *at)) ++*at;
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
