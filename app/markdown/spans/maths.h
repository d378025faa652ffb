// Mathematics as LaTeX writes it, `$…$`, `$$…$$`, `\(…\)` and `\[…\]`: no Markdown, all of it is shown as it is written.
#ifndef PALAVER_APP_MATHS_H
#define PALAVER_APP_MATHS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct MathsEnd {
    size_t used; // bytes, with the signs around it; 0: it is none
    bool unsure; // it is, if its end comes
} MathsEnd;

// Reads a text [n] at a `$` or a backslash. A price is none, nor is what has code or bold in it.
MathsEnd maths_read(const char *text, size_t n, size_t at);
// The text ends within `$$…$$` or `\[…\]` that begins a line: what comes next is no block, whatever it looks like.
bool maths_is_open(const char *text, size_t n);

#endif
