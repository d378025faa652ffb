// A terminal's screen, small: what a person would see of the bytes that a program writes. Knows what xterm's
// terminfo entry names for moving, erasing, inserting and deleting, wide characters, wrapping and scrolling.
#ifndef PALAVER_TESTS_VT_H
#define PALAVER_TESTS_VT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VT_MAX_ROWS = 200, VT_MAX_COLS = 300 };

typedef struct Vt {
    int rows, cols;
    int row, col;
    bool wrap;         // the last column is written; the next character wraps first
    bool insert;       // insert mode
    bool paste;        // bracketed paste is on
    bool joins;        // skin tones are drawn onto the emoji before them
    int bells;         // BEL seen
    int state;         // of the escape sequence under way
    char sequence[64]; // its parameters
    int n;
    char held[4]; // a character under way
    int n_held;
    uint32_t look; // of what is written next, as in cells
    // 0: blank; else a character, or 1 for the right half of a wide one, in 21 bits, and above them how it looks
    uint32_t cells[VT_MAX_ROWS][VT_MAX_COLS];
} Vt;

void vt_init(Vt *vt, int rows, int cols);
void vt_feed(Vt *vt, const char *bytes, size_t n);
void vt_resize(Vt *vt, int rows, int cols); // what fits stays where it is, as xterm does it
// One row as UTF-8 without trailing blanks; at most size-1 bytes.
void vt_row(const Vt *vt, int row, char *out, size_t size);
// The same with how it looks: {1;35} stands before what is bold and magenta, {} before what is as usual again.
void vt_row_looks(const Vt *vt, int row, char *out, size_t size);

#endif
