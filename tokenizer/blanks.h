// How ChatGLM 1 writes white space: its vocabulary (ice_text.model) has pieces for line feeds, tabs and runs of two to
// eighty spaces, whose names stand in a text before the sentencepiece library sees it.
#ifndef PALAVER_TOKENIZER_BLANKS_H
#define PALAVER_TOKENIZER_BLANKS_H

#include "kernels/base/text/text.h"

enum { BLANKS_MOST = 80 }; // spaces of a run

// Appends the text with names in place of white space.
Status blanks_write(const char *text, size_t size, Text *out, Error *error);

// What a name stands for: how many bytes, into `out`; 0: it is none. Some look like names of control pieces.
size_t blanks_read(const char *name, size_t size, char out[BLANKS_MOST]);

#endif
