// The blocks of a text in Markdown, line by line: paragraphs, headings, lists, quotes, code, tables, rules, as
// CommonMark 0.31 and GitHub's tables have them. HTML and definitions of links stay text.
#ifndef PALAVER_APP_BLOCK_H
#define PALAVER_APP_BLOCK_H

#include "app/markdown/code.h"
#include "app/markdown/spans/inline.h"

enum { BLOCK_DEEPEST = 24 }; // blocks within blocks; what lies deeper is text

typedef enum BlockLeaf {
    LEAF_NONE,
    LEAF_PARAGRAPH,
    LEAF_HEADING,
    LEAF_RULE,
    LEAF_FENCE,
    LEAF_INDENTED,
    LEAF_TABLE,
} BlockLeaf;

// A quote ('>') or an item of a list ('-', '+', '*', or '.' and ')' behind a number).
typedef struct BlockContainer {
    char kind;
    int indent;         // columns in which its lines begin, from where its own line does
    int width;          // of what is shown before them
    int number, digits; // as it is written, also out of order
    bool marked;        // something of it is shown, and with that its mark
    bool empty;         // nothing is in it yet
} BlockContainer;

typedef struct Blocks {
    // How it is shown; set by the owner.
    int width;
    bool raw; // no Markdown: lines as they are
    bool address_too;
    bool code_marked; // code has no look of its own: it keeps its backticks, and its blocks stand further in
    Links *links;

    BlockContainer stack[BLOCK_DEEPEST];
    int depth;
    BlockLeaf leaf, before; // open; shown last
    Text text;              // of the open leaf: its lines
    size_t left;            // bytes of it that stand above something else, and are not shown again
    size_t unshown;         // openers at its beginning (InlineText)
    bool hashes;            // of a heading: it begins with them, and those at its end are not shown
    char fence;
    int fence_size, fence_indent;
    int blanks; // empty lines of indented code that count if more comes
    const Language *language;
    CodeState code;
    bool begun; // rows of the open leaf are shown: no others stand before it
    bool gap;   // an empty line has come
    bool any;   // something is shown
} Blocks;

typedef struct BlockLine {
    const char *text;
    size_t n;
    bool part;   // more of it may come
    bool middle; // its beginning has been taken already
} BlockLine;

// Takes a line; what is finished with it becomes rows. False, with a part: what it is is not sure, nothing is changed.
bool block_take(Blocks *blocks, const BlockLine *line, Rows *rows);
// Adds the rows of what is open, as it stands. Returns how many bytes of its text they show.
size_t block_show(const Blocks *blocks, Rows *rows);
void block_finish(Blocks *blocks, Rows *rows); // the text ends
// Something else stands below what block_show() has shown, `used` bytes: only what follows is shown from now on. A table
// that goes on is a new one, under its head.
void block_leave(Blocks *blocks, size_t used);

// What stands before the first row of the open leaf, and before the others.
typedef struct BlockPrefix {
    Cells first, rest;
} BlockPrefix;
void block_prefix(const Blocks *blocks, BlockPrefix *prefix);
void block_prefix_free(BlockPrefix *prefix);

// A copy with a text of its own: `to` has an old one or zeros.
bool block_copy(Blocks *to, const Blocks *from);

#endif
