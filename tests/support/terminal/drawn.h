// Markdown drawn on the tests' small terminal.
#ifndef PALAVER_TESTS_DRAWN_H
#define PALAVER_TESTS_DRAWN_H

#include "app/markdown/markdown.h"
#include "tests/support/terminal/vt.h"

enum { DRAWN_ROWS = 200, DRAWN_SEEN = 16384 };

// In colours, with links, in a window of that width.
MarkdownOptions drawn_options(int width, bool raw);
// What a program writes, through the line discipline: a newline is \r\n.
void drawn_feed(Vt *vt, const Text *out);
// A random number below n; *numbers is the state that they are drawn from.
uint32_t drawn_below(uint32_t *numbers, uint32_t n);
// Shows a text that comes in pieces of 1 to `most` characters; most 0: at once.
void drawn_show(Vt *vt, const char *text, const MarkdownOptions *options, uint32_t most, uint32_t *numbers);
// Likewise what comes behind `cut` bytes that were shown before.
void drawn_rest(Vt *vt, const char *text, size_t cut, const MarkdownOptions *options, uint32_t most,
                uint32_t *numbers);
// The screen's words, one blank between two (or none: `packed`), without what only frames them.
void drawn_seen(const Vt *vt, bool packed, char out[DRAWN_SEEN]);

#endif
