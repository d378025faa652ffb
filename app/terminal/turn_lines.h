// What makes one turn out of several lines, at the prompt and in scripts alike:
//  - a line that ends in an odd number of `\` goes on in the next; the last `\` becomes the newline;
//  - a turn that begins with `"""` is a block: it ends at the first line that ends in `"""`. What
//    stands between the marks is the turn, verbatim, without the newlines next to the marks.
// Trailing blanks (and a \r before the newline) do not count in either rule.
#ifndef PALAVER_APP_TURN_LINES_H
#define PALAVER_APP_TURN_LINES_H

#include <stdbool.h>
#include <stddef.h>

// Lines gathered one by one. All zero is an empty one.
typedef struct TurnLines {
    char *text;            // UTF-8, NUL-terminated; NULL while there is none
    size_t size, capacity; // bytes in text, without the NUL; room
    bool block;            // inside `"""`
    bool open;             // the turn goes on in the next line
} TurnLines;

// Adds a line (n bytes, with or without its newline). False: no memory, nothing changed. Afterwards
// lines->open says whether the turn wants another line; if not, lines->text is the whole turn, its
// marks removed.
bool turn_add_line(TurnLines *lines, const char *line, size_t n);

// Frees the text and makes *lines an empty one.
void turn_clear(TurnLines *lines);

// The same rules over a text typed as a whole (the editor's buffer), where only the end can ask for more:
// TURN_MORE_BLOCK: it begins with `"""` and no line ends the block yet; TURN_MORE_LINE: it ends in an
// odd number of `\`; TURN_DONE otherwise.
typedef enum TurnEnd { TURN_DONE, TURN_MORE_LINE, TURN_MORE_BLOCK } TurnEnd;
TurnEnd turn_end(const char *text);

// Takes the marks of a `"""` block off `text`, in place, if it is one from its beginning to its end.
void turn_unblock(char *text);

#endif
