// A reply at a terminal, as it streams: its words wrapped at the window's edge, its Markdown drawn. What is shown
// without styles and breaks of rows is the text; what turns out to be something else than it looked like is drawn anew,
// within the last block and what of it the screen still holds.
//
// Nothing is written here: each call adds to a Text what the terminal is to be sent. The text comes as UTF-8 in whole
// characters that a terminal shows and does not obey.
#ifndef PALAVER_APP_MARKDOWN_H
#define PALAVER_APP_MARKDOWN_H

#include "app/markdown/live.h"

typedef struct Markdown Markdown;

typedef struct MarkdownOptions {
    int width, height; // of the window
    bool raw;          // no Markdown: only words are wrapped
    LiveTheme theme;   // what it points to outlives the Markdown
} MarkdownOptions;

Markdown *markdown_open(const MarkdownOptions *options); // NULL: no memory
void markdown_close(Markdown *markdown);                 // NULL is fine

// A piece of the text. False: no memory; what could not be drawn is lost to the screen.
bool markdown_push(Markdown *markdown, const char *text, size_t n, Text *out);
// The text goes on behind what was shown before, in another drawing: nothing of that is shown again but what its last
// line, or a table's head, needs to be read.
bool markdown_go_on(Markdown *markdown, const char *text, size_t n);
// Something else is about to be shown: what there is of the reply stays as it is, and the rest begins on a new line.
bool markdown_part(Markdown *markdown, Text *out);
bool markdown_end(Markdown *markdown, Text *out); // with a newline, unless nothing is shown
// The window has another size.
void markdown_resize(Markdown *markdown, int width, int height, Text *out);
int markdown_column(const Markdown *markdown);        // of the cursor
bool markdown_line_is_open(const Markdown *markdown); // the cursor stands behind a text

#endif
