// Lines of code in colours.
#ifndef PALAVER_APP_CODE_H
#define PALAVER_APP_CODE_H

#include "app/markdown/cell.h"
#include "app/markdown/language.h"

// What the line before left open. All zero: nothing.
typedef struct CodeState {
    const char *end; // of a comment or a string; NULL: none
    CellInk ink;     // its colour
} CodeState;

// Adds the cells of a line of n bytes, without its newline. `language` may be NULL.
void code_render(const Language *language, CodeState *state, const char *line, size_t n, Cells *out);

#endif
