#include "app/markdown/spans/emphasis.h"

#include "kernels/base/array.h"
#include "kernels/base/text/utf8.h"

#include <ctype.h>
#include <wctype.h>

enum { KINDS = 18 }; // of closers that look for the same openers

// ---- which runs open and close ----------------------------------------------------------------------------------

typedef struct Side {
    bool blank, punctuation;
} Side;

static bool is_digit(uint32_t code) {
    return code >= '0' && code <= '9';
}

// A digit, or a letter of a script that has blanks between its words: Latin, Greek, Cyrillic.
static bool is_word(uint32_t code) {
    return code < 0x530 && iswalnum((wint_t)code);
}

static Side side_of(uint32_t code) {
    bool blank = code == '\n' || code == 0xA0 || iswspace((wint_t)code);
    bool mark = code < 0x80 ? ispunct((int)code) != 0 : iswpunct((wint_t)code) != 0;
    return (Side){blank, mark && !blank};
}

static uint32_t code_before(const char *text, size_t at) {
    uint32_t code = '\n';
    size_t from = at;
    while (from > 0 && utf8_continues(text[--from])) continue;
    if (at) (void)utf8_next(text + from, at - from, &code);
    return code;
}

static uint32_t code_after(const char *text, size_t size, size_t at) {
    uint32_t code = '\n';
    if (at < size) (void)utf8_next(text + at, size - at, &code);
    return code;
}

void emphasis_add(Emphasis *emphasis, const EmphasisRun *run) {
    char c = run->text[run->at];
    const uint32_t left_code = code_before(run->text, run->at),
                   right_code = code_after(run->text, run->size, run->at + run->n);
    Side before = side_of(left_code), after = side_of(right_code);
    bool left = !after.blank && (!after.punctuation || before.blank || before.punctuation);
    bool right = !before.blank && (!before.punctuation || after.blank || after.punctuation);
    if (c == '~' && run->n != 2) return;
    // 2*3*4 and x**2 are no emphasis; **N**orth is.
    const bool within = c == '*' && !run->unshown && is_word(left_code) && is_word(right_code);
    const bool power = within && run->n == 2 && (is_digit(left_code) || is_digit(right_code));
    if (within && run->n == 1) return;
    if (!array_reserve(&emphasis->marks, sizeof *emphasis->marks, emphasis->n, 1, &emphasis->room)) return;
    EmphasisMark mark = {.c = c, .cell = run->cell, .n = run->n, .length = run->n, .unshown = run->unshown};
    mark.opens = run->unshown || (left && !power && (c != '_' || !right || before.punctuation));
    mark.closes = !run->unshown && right && (c != '_' || !left || after.punctuation);
    emphasis->marks[emphasis->n++] = mark;
}

// ---- who belongs to whom ----------------------------------------------------------------------------------------

static bool fit(const EmphasisMark *opener, const EmphasisMark *closer) {
    if (opener->c != closer->c || !opener->opens || !opener->n) return false;
    bool both = (opener->opens && opener->closes) || (closer->opens && closer->closes);
    bool odd = both && (opener->length + closer->length) % 3 == 0 &&
               (opener->length % 3 != 0 || closer->length % 3 != 0);
    return closer->c == '~' || !odd;
}

static int kind_of(const EmphasisMark *closer) {
    int c = closer->c == '*' ? 0 : closer->c == '_' ? 1 : 2;
    return c * 6 + (closer->opens ? 3 : 0) + (int)(closer->length % 3);
}

static void give_look(Cells *cells, size_t from, size_t to, uint8_t look) {
    for (size_t i = from; i < to && i < cells->n; i++) cells->cells[i].looks |= look;
}

static void join(EmphasisMark *opener, EmphasisMark *closer, Cells *cells) {
    size_t n = closer->c == '~' || (opener->n >= 2 && closer->n >= 2) ? 2 : 1;
    uint8_t look = closer->c == '~' ? LOOK_STRUCK : n == 2 ? LOOK_BOLD : LOOK_ITALIC;
    give_look(cells, opener->cell + opener->n, closer->cell, look);
    give_look(cells, opener->cell + opener->n - n, opener->cell + opener->n, LOOK_REMOVED);
    give_look(cells, closer->cell, closer->cell + n, LOOK_REMOVED);
    opener->n -= n;
    closer->cell += n;
    closer->n -= n;
}

// The nearest mark before `at`, at or above `bottom`, that fits; `bottom` where there is none: *found is false.
static size_t find_opener(const Emphasis *e, size_t at, size_t bottom, bool *found) {
    for (size_t i = at; i-- > bottom;)
        if (fit(&e->marks[i], &e->marks[at])) {
            *found = true;
            return i;
        }
    *found = false;
    return bottom;
}

static void match_all(Emphasis *e, Cells *cells, size_t from) {
    size_t bottoms[KINDS];
    for (int i = 0; i < KINDS; i++) bottoms[i] = from;
    for (size_t at = from; at < e->n; at++) {
        EmphasisMark *closer = &e->marks[at];
        while (closer->closes && closer->n) {
            bool found;
            int kind = kind_of(closer);
            size_t opener = find_opener(e, at, bottoms[kind], &found);
            if (!found) {
                bottoms[kind] = at;
                break;
            }
            join(&e->marks[opener], closer, cells);
            for (size_t i = opener + 1; i < at; i++)
                e->marks[i].n = 0; // what they enclose has no partner any more
        }
    }
}

void emphasis_settle(Emphasis *emphasis, Cells *cells, size_t from) {
    match_all(emphasis, cells, from);
    if (from < emphasis->n) emphasis->n = from;
}

void emphasis_suppose(Emphasis *emphasis, Cells *cells, bool all) {
    match_all(emphasis, cells, 0);
    for (size_t i = 0; i < emphasis->n; i++) {
        EmphasisMark *mark = &emphasis->marks[i];
        if (!mark->opens || !mark->n || mark->n > 3 || (!all && !mark->unshown)) continue;
        uint8_t look = mark->c == '~'
                           ? LOOK_STRUCK
                           : (uint8_t)((mark->n & 1 ? LOOK_ITALIC : 0) | (mark->n & 2 ? LOOK_BOLD : 0));
        give_look(cells, mark->cell, mark->cell + mark->n, LOOK_REMOVED);
        give_look(cells, mark->cell + mark->n, cells->n, look);
    }
    emphasis->n = 0;
}

void emphasis_free(Emphasis *emphasis) {
    free(emphasis->marks);
    *emphasis = (Emphasis){0};
}
