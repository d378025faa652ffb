#include "app/markdown/spans/inline.h"

#include "app/markdown/spans/emphasis.h"
#include "app/markdown/spans/entity.h"
#include "app/markdown/spans/link.h"
#include "app/markdown/spans/maths.h"
#include "app/markdown/spans/path.h"
#include "kernels/base/array.h"
#include "kernels/base/text/utf8.h"

#include <ctype.h>

enum { MOST_LINKS = 60000, DEEPEST_BRACKETS = 64, LONGEST_ENTITY = 10 };

uint16_t inline_link(Links *links, const char *address, size_t n) {
    for (size_t i = links->n; i-- > 0;)
        if (strlen(links->text[i]) == n && !memcmp(links->text[i], address, n)) return (uint16_t)(i + 1);
    char *copy = links->n < MOST_LINKS ? strndup(address, n) : NULL;
    if (!copy || !array_reserve(&links->text, sizeof *links->text, links->n, 1, &links->room)) {
        free(copy);
        return 0;
    }
    links->text[links->n++] = copy;
    return (uint16_t)links->n;
}

void inline_free_links(Links *links) {
    for (size_t i = 0; i < links->n; i++) free(links->text[i]);
    free(links->text);
    *links = (Links){0};
}

// A `[` that a `]` may meet.
typedef struct Bracket {
    size_t cell, emphasis; // where it stands, and how many marks of emphasis stood before it
    bool image, inactive;  // a link holds no other
} Bracket;

typedef struct Inline {
    const InlineText *source;
    Links *links;
    Cells *out;
    size_t first; // cell of the text
    size_t at;    // byte that is read next
    Emphasis marks;
    Bracket brackets[DEEPEST_BRACKETS];
    size_t n_brackets;
} Inline;

static void put(Inline *in, uint32_t code, CellInk ink) {
    cell_add(in->out, (Cell){.code = code,
                             .at = (uint32_t)in->at,
                             .ink = (uint8_t)(ink == INK_TEXT ? in->source->ink : ink),
                             .looks = in->source->looks});
}

static size_t run_of(const Inline *in, char c) {
    size_t n = 0;
    while (in->at + n < in->source->n && in->source->text[in->at + n] == c) n++;
    return n;
}

// ---- code -----------------------------------------------------------------------------------------------------

static size_t find_run(const InlineText *source, size_t from, size_t length) {
    for (size_t i = from; i < source->n; i++) {
        if (source->text[i] != '`') continue;
        size_t n = 0;
        while (i + n < source->n && source->text[i + n] == '`') n++;
        if (n == length) return i;
        i += n - 1;
    }
    return source->n;
}

static void put_character(Inline *in, CellInk ink) {
    uint32_t code;
    int used = utf8_next(in->source->text + in->at, in->source->n - in->at, &code);
    put(in, used > 0 ? code : UTF8_REPLACEMENT, ink);
    in->at += used > 0 ? (size_t)used : used < 0 ? (size_t)-used : in->source->n - in->at;
}

static void put_ticks(Inline *in, size_t n) {
    for (; n; n--, in->at++) put(in, '`', INK_CODE);
}

// False: what is there is not sure yet.
static bool read_code(Inline *in) {
    const InlineText *source = in->source;
    const char *text = source->text;
    size_t length = run_of(in, '`'), from = in->at + length, end = find_run(source, from, length);
    if (end == source->n && (!source->open || length > 1 || from == source->n)) {
        if (source->open && from == source->n) return false;
        for (size_t i = 0; i < length; i++, in->at++) put(in, '`', INK_TEXT);
        return true;
    }
    bool whole = end < source->n, blank = true;
    for (size_t i = from; i < end && blank; i++) blank = text[i] == ' ' || text[i] == '\n';
    size_t last = end;
    while (!whole && last > from && strchr("` \n", text[last - 1])) last--; // may belong to the end
    bool padded = !blank && !source->code_marked && (text[from] == ' ' || text[from] == '\n') &&
                  (!whole || text[end - 1] == ' ' || text[end - 1] == '\n');
    if (padded) from++;
    if (padded && whole) last--;
    if (source->code_marked) put_ticks(in, length);
    for (in->at = from; in->at < last;) {
        if (text[in->at] == '\n')
            put(in, ' ', INK_CODE), in->at++;
        else
            put_character(in, INK_CODE);
    }
    if (whole && source->code_marked) put_ticks(in, length);
    in->at = whole ? end + length : last;
    return whole || last == source->n;
}

// ---- links ----------------------------------------------------------------------------------------------------

static void put_address(Inline *in, const char *address, size_t n) {
    put(in, ' ', INK_TEXT);
    put(in, '(', INK_FRAME);
    for (size_t i = 0; i < n;) {
        uint32_t code;
        int used = utf8_next(address + i, n - i, &code);
        put(in, utf8_is_obeyed(code) ? UTF8_REPLACEMENT : code, INK_LINK);
        i += used > 0 ? (size_t)used : used < 0 ? (size_t)-used : n - i;
    }
    put(in, ')', INK_FRAME);
}

static void make_link(Inline *in, const Bracket *bracket, const Text *address) {
    uint16_t link = inline_link(in->links, address->bytes ? address->bytes : "", address->size);
    emphasis_settle(&in->marks, in->out, bracket->emphasis);
    size_t shown = 0;
    for (size_t i = bracket->cell + 1; i < in->out->n; i++) {
        Cell *cell = &in->out->cells[i];
        shown += !(cell->looks & LOOK_REMOVED);
        cell->link = link;
        if (cell->ink != INK_CODE) cell->ink = INK_LINK;
    }
    in->out->cells[bracket->cell].looks |= LOOK_REMOVED;
    if (bracket->image) in->out->cells[bracket->cell - 1].looks |= LOOK_REMOVED;
    if (in->source->address_too && address->size) put_address(in, address->bytes, address->size);
}

// A `]`: the end of a link, or itself. False: what follows decides.
static bool close_bracket(Inline *in) {
    const InlineText *source = in->source;
    Bracket *bracket = in->n_brackets ? &in->brackets[in->n_brackets - 1] : NULL;
    Text address = {0};
    LinkEnd end = {.used = 0};
    if (bracket && !bracket->inactive) {
        if (source->open && in->at + 1 == source->n) return false;
        end = link_read(source->text + in->at + 1, source->n - in->at - 1, &address);
        if (source->open && end.unsure) {
            text_free(&address);
            return false;
        }
    }
    if (end.used) {
        const Bracket it = *bracket;
        make_link(in, &it, &address);
        in->at += 1 + end.used;
        in->n_brackets--;
        for (size_t i = 0; i < in->n_brackets && !it.image; i++)
            in->brackets[i].inactive = in->brackets[i].inactive || !in->brackets[i].image;
    } else {
        if (bracket) in->n_brackets--;
        put(in, ']', INK_TEXT);
        in->at++;
    }
    text_free(&address);
    return true;
}

static void open_bracket(Inline *in, bool image) {
    if (in->n_brackets < DEEPEST_BRACKETS)
        in->brackets[in->n_brackets++] =
            (Bracket){.cell = in->out->n, .emphasis = in->marks.n, .image = image};
    put(in, '[', INK_TEXT);
    in->at++;
}

static void read_autolink(Inline *in) {
    size_t n = link_read_auto(in->source->text + in->at, in->source->n - in->at);
    if (!n) {
        put(in, '<', INK_TEXT);
        in->at++;
        return;
    }
    const char *address = in->source->text + in->at + 1;
    uint16_t link = inline_link(in->links, address, n - 2);
    size_t from = in->out->n, end = in->at + n;
    in->at++;
    while (in->at + 1 < end) put_character(in, INK_LINK);
    for (size_t i = from; i < in->out->n; i++) in->out->cells[i].link = link;
    in->at = end;
}

// ---- the rest -------------------------------------------------------------------------------------------------

// A reference to a character, or a `&`. False: what follows decides.
static bool read_entity(Inline *in) {
    uint32_t code = '&';
    size_t end = in->at + 1;
    while (end < in->source->n &&
           (isalnum((unsigned char)in->source->text[end]) || in->source->text[end] == '#'))
        end++;
    if (in->source->open && end == in->source->n && end - in->at < LONGEST_ENTITY) return false;
    size_t used = entity_read(in->source->text + in->at, in->source->n - in->at, &code);
    if (used && (code == '\n' || code == '\t')) code = ' ';
    put(in, utf8_is_obeyed(code) ? UTF8_REPLACEMENT : code, INK_TEXT);
    in->at += used ? used : 1;
    return true;
}

static void put_as_written(Inline *in, size_t n) {
    for (const size_t end = in->at + n; in->at < end;) put_character(in, INK_TEXT);
}

// Mathematics, as if it ended where more may come.
static bool read_maths(Inline *in) {
    const InlineText *source = in->source;
    const MathsEnd end = maths_read(source->text, source->n, in->at);
    if (!end.used && !(end.unsure && source->open)) return false;
    put_as_written(in, end.used ? end.used : source->n - in->at);
    return true;
}

// A backslash: an escape, a line's end, a path's, or itself. False: what follows decides.
static bool read_escape(Inline *in) {
    const InlineText *source = in->source;
    bool last = in->at + 1 == source->n;
    char next = last ? 0 : source->text[in->at + 1];
    if (source->open && in->at + PATH_LOOKAHEAD >= source->n) return false;
    const size_t path = path_read(source->text, source->n, in->at);
    if (path) {
        put_as_written(in, path);
        return true;
    }
    if (next == '\n') {
        in->at++;
        return true;
    }
    if (next && ispunct((unsigned char)next)) in->at++;
    put(in, next && ispunct((unsigned char)next) ? (unsigned char)next : '\\', INK_TEXT);
    in->at++;
    return true;
}

static void read_line_end(Inline *in) {
    while (in->out->n > in->first && in->out->cells[in->out->n - 1].code == ' ' &&
           in->out->cells[in->out->n - 1].ink != INK_CODE)
        in->out->n--;
    put(in, '\n', INK_TEXT);
    in->at++;
    while (in->at < in->source->n && strchr(" \t", in->source->text[in->at])) in->at++;
}

// Spaces that may be the text's last.
static bool read_spaces(Inline *in) {
    size_t n = run_of(in, ' ');
    if (in->at + n == in->source->n) {
        if (!in->source->open) in->at += n;
        return !in->source->open;
    }
    bool first = in->out->n == in->first; // what went before is shown already
    for (; n; n--, in->at++)
        if (!first) put(in, ' ', INK_TEXT);
    return true;
}

// Marks of emphasis. False: what follows decides what they are.
static bool read_marks(Inline *in, char c) {
    const InlineText *source = in->source;
    size_t n = run_of(in, c);
    if (source->open && in->at + n == source->n) return false;
    emphasis_add(&in->marks, &(const EmphasisRun){.text = source->text,
                                                  .size = source->n,
                                                  .at = in->at,
                                                  .n = n,
                                                  .cell = in->out->n,
                                                  .unshown = in->at < source->unshown});
    for (; n; n--, in->at++) put(in, (unsigned char)c, INK_TEXT);
    return true;
}

static bool read_one(Inline *in) {
    const InlineText *source = in->source;
    char c = source->text[in->at];
    switch (c) {
    case '\\':
        return read_maths(in) || read_escape(in);
    case '$':
        if (!read_maths(in)) put_as_written(in, run_of(in, '$'));
        return true;
    case '`':
        return read_code(in);
    case '*':
    case '_':
    case '~':
        return read_marks(in, c);
    case '!':
        put(in, '!', INK_TEXT);
        in->at++;
        if (in->at < source->n && source->text[in->at] == '[') open_bracket(in, true);
        return true;
    case '[':
        open_bracket(in, false);
        return true;
    case ']':
        return close_bracket(in);
    case '<':
        read_autolink(in);
        return true;
    case '&':
        return read_entity(in);
    case '\n':
        read_line_end(in);
        return true;
    case ' ':
        return read_spaces(in);
    default:
        put_character(in, INK_TEXT);
        return true;
    }
}

size_t inline_render(const InlineText *source, Links *links, Cells *out) {
    Inline in = {.source = source, .links = links, .out = out, .first = out->n};
    while (in.at < source->n && !out->failed && read_one(&in)) continue;
    if (source->open || source->unshown) emphasis_suppose(&in.marks, out, source->open);
    emphasis_settle(&in.marks, out, 0);
    emphasis_free(&in.marks);
    cell_drop_removed(out, in.first);
    return in.at;
}
