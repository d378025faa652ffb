// What stands within a block of Markdown: emphasis, code, links, escapes, as CommonMark 0.31 reads them (6.1 to 6.9)
// and GitHub's strikethrough. Raw HTML and links by reference stay as they are written, and so do mathematics (maths.h),
// paths (path.h) and stars within words (emphasis.h).
#ifndef PALAVER_APP_INLINE_H
#define PALAVER_APP_INLINE_H

#include "app/markdown/cell.h"
#include "kernels/base/text/text.h"

// The addresses of links, each once; link i of a Cell is text [i - 1].
typedef struct Links {
    char **text;
    size_t n, room;
} Links;
uint16_t inline_link(Links *links, const char *address, size_t n); // 0: no memory, or too many
void inline_free_links(Links *links);

typedef struct InlineText {
    const char *text; // [n] UTF-8, without line ends at its end
    size_t n;
    bool open;        // more of it may come: marks that lack their partner count as if it came
    size_t unshown;   // openers at its beginning that count and are never shown
    bool code_marked; // code keeps its backticks
    bool address_too; // an address is shown behind its link: the terminal knows no other way
    CellInk ink;
    uint8_t looks;
} InlineText;

// Adds the cells of a text. Returns how many of its bytes are shown or done with: what is not sure yet waits.
size_t inline_render(const InlineText *source, Links *links, Cells *out);

#endif
