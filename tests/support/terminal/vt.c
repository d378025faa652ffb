#include "tests/support/terminal/vt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "app/terminal/text_shown.h"

enum { GROUND, ESCAPE, CSI, OSC, OSC_ESCAPE };
enum { RIGHT_HALF = 1, CODE = 0x1FFFFF, LOOK = 21 }; // the bits of a character, and where its look begins
// Of a look: the colour plus 1 in five bits, then a bit for each of these.
static const int ATTRIBUTES[] = {1, 2, 3, 4, 7, 9};
enum { N_ATTRIBUTES = sizeof ATTRIBUTES / sizeof *ATTRIBUTES, COLOUR = 31 };

void vt_init(Vt *vt, int rows, int cols) {
    memset(vt, 0, sizeof *vt);
    vt->rows = rows;
    vt->cols = cols;
}

static void clear(Vt *vt, int row, int from, int to) {
    for (int col = from; col < to; col++) vt->cells[row][col] = 0;
}

static void line_feed(Vt *vt) {
    vt->wrap = false;
    if (vt->row + 1 < vt->rows) {
        vt->row++;
        return;
    }
    memmove(vt->cells[0], vt->cells[1], sizeof vt->cells[0] * (size_t)(vt->rows - 1));
    clear(vt, vt->rows - 1, 0, vt->cols);
}

static void shift(Vt *vt, int n) { // cells from the cursor on move n to the right (n < 0: to the left)
    uint32_t *cells = vt->cells[vt->row];
    int room = vt->cols - vt->col, size = n < 0 ? -n : n;
    if (size > room) size = room;
    size_t kept = (size_t)(room - size) * sizeof *cells;
    if (n > 0) {
        memmove(cells + vt->col + size, cells + vt->col, kept);
        clear(vt, vt->row, vt->col, vt->col + size);
    } else {
        memmove(cells + vt->col, cells + vt->col + size, kept);
        clear(vt, vt->row, vt->cols - size, vt->cols);
    }
}

static void put(Vt *vt, uint32_t code) {
    int width = wcwidth((wchar_t)code);
    if (width < 1 || (vt->joins && code >= 0x1F3FB && code <= 0x1F3FF)) return; // they join what is there
    if (vt->wrap || vt->col + width > vt->cols) {
        line_feed(vt);
        vt->col = 0;
    }
    if (vt->insert) shift(vt, width);
    vt->cells[vt->row][vt->col] = code | vt->look << LOOK;
    if (width == 2) vt->cells[vt->row][vt->col + 1] = RIGHT_HALF | vt->look << LOOK;
    vt->col += width;
    vt->wrap = vt->col >= vt->cols;
    if (vt->wrap) vt->col = vt->cols - 1;
}

static void move(Vt *vt, int row, int col) {
    vt->wrap = false;
    vt->row = row < 0 ? 0 : row >= vt->rows ? vt->rows - 1 : row;
    vt->col = col < 0 ? 0 : col >= vt->cols ? vt->cols - 1 : col;
}

static void erase_display(Vt *vt, int what) {
    if (what == 0) clear(vt, vt->row, vt->col, vt->cols);
    for (int row = what == 0 ? vt->row + 1 : 0; row < vt->rows; row++) clear(vt, row, 0, vt->cols);
}

static void select_look(Vt *vt) {
    for (char *at = vt->sequence;; at++) {
        int n = (int)strtol(at, &at, 10), attribute = 0;
        while (attribute < N_ATTRIBUTES && ATTRIBUTES[attribute] != n) attribute++;
        bool bright = n >= 90 && n <= 97;
        if (n == 0)
            vt->look = 0;
        else if (attribute < N_ATTRIBUTES)
            vt->look |= 32u << attribute;
        else if ((n >= 30 && n <= 37) || bright)
            vt->look = (vt->look & ~(uint32_t)COLOUR) | (uint32_t)(bright ? n - 90 + 9 : n - 30 + 1);
        else
            fprintf(stderr, "vt: unknown look %d\n", n);
        if (*at != ';') return;
    }
}

static void csi(Vt *vt, char final) {
    vt->sequence[vt->n] = 0;
    char *rest = vt->sequence;
    bool private = *rest == '?';
    if (private) rest++;
    int value = (int)strtol(rest, &rest, 10), second = *rest == ';' ? (int)strtol(rest + 1, NULL, 10) : 0;
    int count = value ? value : 1;
    vt->state = GROUND;
    switch (final) {
    case 'A':
        move(vt, vt->row - count, vt->col);
        break;
    case 'B':
        move(vt, vt->row + count, vt->col);
        break;
    case 'C':
        move(vt, vt->row, vt->col + count);
        break;
    case 'D':
        move(vt, vt->row, vt->col - count);
        break;
    case 'G':
        move(vt, vt->row, count - 1);
        break;
    case 'H':
        move(vt, count - 1, (second ? second : 1) - 1);
        break;
    case 'J':
        erase_display(vt, value);
        break;
    case 'K':
        clear(vt, vt->row, value == 0 ? vt->col : 0, value == 1 ? vt->col + 1 : vt->cols);
        break;
    case '@':
        shift(vt, count);
        break;
    case 'P':
        shift(vt, -count);
        break;
    case 'h':
    case 'l':
        if (!private && value == 4) vt->insert = final == 'h';
        if (private && value == 2004) vt->paste = final == 'h';
        break;
    case 'm':
        select_look(vt);
        break;
    case 'n': // who asks is answered by the test, or not
        break;
    default:
        fprintf(stderr, "vt: unknown sequence CSI %s %c\n", vt->sequence, final);
    }
}

static void ground(Vt *vt, char byte) {
    if (!vt->n_held) {
        switch (byte) {
        case '\033':
            vt->state = ESCAPE;
            return;
        case '\a':
            vt->bells++;
            return;
        case '\b':
            move(vt, vt->row, vt->col - 1);
            return;
        case '\t':
            move(vt, vt->row, (vt->col / 8 + 1) * 8);
            return;
        case '\r':
            move(vt, vt->row, 0);
            return;
        case '\n':
            line_feed(vt);
            return;
        default:
            break;
        }
    }
    uint32_t code;
    vt->held[vt->n_held++] = byte;
    if (text_decode(vt->held, (size_t)vt->n_held, &code) == 0) return;
    vt->n_held = 0;
    put(vt, code);
}

void vt_feed(Vt *vt, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (vt->state == GROUND) {
            ground(vt, bytes[i]);
        } else if (vt->state == ESCAPE) {
            vt->state = bytes[i] == '[' ? CSI : bytes[i] == ']' ? OSC : GROUND;
            vt->n = 0;
        } else if (vt->state == OSC ||
                   vt->state == OSC_ESCAPE) { // a title, a link: up to BEL or ESC backslash
            bool ends = bytes[i] == '\a' || (vt->state == OSC_ESCAPE && bytes[i] == '\\');
            vt->state = ends ? GROUND : bytes[i] == '\033' ? OSC_ESCAPE : OSC;
        } else if (bytes[i] >= 0x40) {
            csi(vt, bytes[i]);
        } else if (vt->n < (int)sizeof vt->sequence - 1) {
            vt->sequence[vt->n++] = bytes[i];
        }
    }
}

void vt_resize(Vt *vt, int rows, int cols) {
    for (int row = 0; row < vt->rows; row++)
        if (cols < vt->cols) clear(vt, row, cols, vt->cols);
    while (vt->row >= rows) { // what stands above leaves at the top
        memmove(vt->cells[0], vt->cells[1], sizeof vt->cells[0] * (size_t)(vt->rows - 1));
        clear(vt, vt->rows - 1, 0, vt->cols);
        vt->row--;
    }
    vt->rows = rows;
    vt->cols = cols;
    move(vt, vt->row, vt->col);
}

// {1;35}, into text; returns its bytes.
static size_t put_look(uint32_t look, char *text) {
    size_t n = 0;
    text[n++] = '{';
    for (int i = 0; i < N_ATTRIBUTES; i++)
        if (look & 32u << i) n += (size_t)sprintf(text + n, n > 1 ? ";%d" : "%d", ATTRIBUTES[i]);
    int colour = (int)(look & COLOUR);
    if (colour) n += (size_t)sprintf(text + n, n > 1 ? ";%d" : "%d", colour > 8 ? colour + 81 : colour + 29);
    text[n++] = '}';
    return n;
}

static void show_row(const Vt *vt, int row, bool looks, char *out, size_t size) {
    size_t n = 0, end = 0;
    uint32_t look = 0;
    for (int col = 0; col < vt->cols; col++) {
        uint32_t code = vt->cells[row][col] & CODE;
        if (code == RIGHT_HALF) continue;
        char bytes[40];
        size_t used = 0;
        if (looks && vt->cells[row][col] >> LOOK != look)
            used = put_look(look = vt->cells[row][col] >> LOOK, bytes);
        used += text_encode(code ? code : ' ', bytes + used);
        if (n + used >= size) break;
        memcpy(out + n, bytes, used);
        n += used;
        if (code && code != ' ') end = n;
    }
    out[end] = 0;
}

void vt_row(const Vt *vt, int row, char *out, size_t size) {
    show_row(vt, row, false, out, size);
}

void vt_row_looks(const Vt *vt, int row, char *out, size_t size) {
    show_row(vt, row, true, out, size);
}
