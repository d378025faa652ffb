// Backslashes that are no escapes: those of paths and commands, `C:\temp\*.txt`, `\\server\share`, `src\.git`.
#ifndef PALAVER_APP_PATH_H
#define PALAVER_APP_PATH_H

#include <stddef.h>

enum { PATH_LOOKAHEAD = 3 }; // bytes behind the backslash that decide

// Reads a text [n] at a backslash: how many bytes are shown as they are written, it and those behind it and the sign that
// they would have escaped. 0: it is an escape, or none. A word is a path if Markdown itself leaves a backslash in it.
size_t path_read(const char *text, size_t n, size_t at);

#endif
