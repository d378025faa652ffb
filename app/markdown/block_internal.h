// What block.c, which reads, and block_show.c, which draws, share.
#ifndef PALAVER_APP_BLOCK_INTERNAL_H
#define PALAVER_APP_BLOCK_INTERNAL_H

#include "app/markdown/block.h"

#include <stdlib.h>
#include <string.h>

// The empty row that stands before the open leaf, if one does.
void block_begin_rows(const Blocks *blocks, Rows *rows);
void block_mark_shown(Blocks *blocks); // rows of the open leaf are
// The open leaf; `open`: more of it may come. Returns the bytes of its text that are shown.
size_t block_show_leaf(const Blocks *blocks, bool open, Rows *rows);
void block_show_code(const Blocks *blocks, CodeState *state, const char *line, size_t n, Rows *rows);
void block_show_language(const Blocks *blocks, const char *name, size_t n, Rows *rows); // above its code
void block_show_mark(const Blocks *blocks, Rows *rows); // of an item in which nothing is
void block_show_raw(const Blocks *blocks, const char *line, size_t n, Rows *rows);

#endif
