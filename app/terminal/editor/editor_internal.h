// What the files of the editor share: editor.c (opening, whole turns, plain lines), line.c (libedit), binding.c (what
// each key does), place.c, move.c and edit.c (in the text), paint.c (drawing), viewport.c (texts taller than the
// terminal), recall.c (earlier turns), search.c (Ctrl-R), completion.c (Tab).
#ifndef PALAVER_APP_EDITOR_INTERNAL_H
#define PALAVER_APP_EDITOR_INTERNAL_H

#include <histedit.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "app/terminal/editor/editor.h"
#include "app/terminal/editor/history.h"
#include "app/terminal/editor/keys.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/turn_lines.h"

// What a key has done, for the drawing.
typedef enum KeyEffect {
    KEY_DONE = 0,    // nothing to draw
    KEY_MOVED = 1,   // the cursor only
    KEY_CHANGED = 2, // the text
    KEY_BELL = 4,    // it could not be done, or not wholly
    KEY_FINISHED = 8 // the line has ended
} KeyEffect;

// How a line that libedit read came to its end.
typedef enum LineEnd { LINE_ENTER, LINE_INTERRUPT, LINE_EOF, LINE_LOST, LINE_STOPPED } LineEnd;

#define SEARCH_MAX 100
#define TYPED_MOST 4096

// Ctrl-R: while it is on, keys change the pattern and the line shows what was found.
typedef struct Search {
    bool on;
    char pattern[SEARCH_MAX * 4 + 1]; // UTF-8
    size_t at;                        // the entry shown; history_count(): none yet
    bool failed;                      // nothing holds the pattern; the last find stays
    char *original;                   // the line before the search
    char prompt[SEARCH_MAX * 4 + 32];
} Search;

typedef struct Part {
    wchar_t *text; // [n], no NUL
    size_t n;
} Part;

struct Editor {
    EditorOptions options;
    TurnHistory *history;
    struct timespec interrupted; // the last Ctrl-C on an empty line; 0: none
    struct timespec answered;    // when a reply ended, until something is typed after it; 0: none has
    char *prefill;               // the next line starts with it
    bool hold;                   // what was typed ahead is a draft
    bool came_back;              // the line began as a prefill
    bool told_bad;               // that the terminal sends what is no UTF-8: said once

    // On a terminal; NULL where lines are read plainly.
    EditLine *el;
    FILE *out;    // libedit's, on a copy of stderr
    FILE *mute;   // and for its messages, which nobody sees
    char *prompt; // of this turn
    Keys keys;
    LineEnd end;
    char *typed;                              // the text when the line ended
    wchar_t typed_characters[TYPED_MOST + 1]; // that came together: they are put in, and drawn, at once
    char *place;                              // a text that KEY_PLACE puts in
    Key next_key;                             // delivered before the next one is read
    wchar_t next_char;
    size_t recalled; // the entry of the history in the line; history_count(): the line's own text
    char *draft;     // the line's own text while an entry is shown
    Search search;
    int tabs;                 // in a row
    int width;                // of the terminal when the line was drawn last
    int drawn_row;            // the cursor's row then, from the prompt's
    int drawn_column;         // and its column
    bool resized;             // since then, and the terminal is asked where its cursor is now
    int asked;                // answers that are still to come
    int narrowest;            // width since then
    int row_before;           // drawn_row before that
    int wraps_anew;           // whether it wraps rows anew then: 1, -1: not; 0: not known
    Text painted;             // what the next drawing writes
    char *killed;             // for Ctrl-Y
    Part above, below;        // what libedit's buffer leaves out of a tall text
    char viewport_prompt[64]; // in the prompt's place while a part is left out
};

void editor_tell(const Editor *editor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));    // a line of its own
bool editor_wants_stop(const Editor *editor); // the caller's answer: a signal asks to leave

// ---- line.c
// Sets libedit up on stdin and stderr; false: not possible here (editor->el stays NULL).
bool line_open(Editor *editor);
void line_close(Editor *editor);
// Reads one buffer's worth, a turn or less, between tty_begin and tty_end. *text is the caller's; NULL unless
// LINE_ENTER.
LineEnd line_read(Editor *editor, char **text);
char *line_text(Editor *editor);                     // the whole line as UTF-8, to free(); NULL: no memory
size_t line_cursor(Editor *editor);                  // bytes of line_text before the cursor
bool line_replace(Editor *editor, const char *text); // cursor at the end
bool line_insert(Editor *editor, const char *text);  // at the cursor
Editor *line_editor(EditLine *el);
wchar_t line_key_code(Key key);                   // the C1 code that stands for a key in libedit's map
void line_tell(Editor *editor, const char *text); // a line above the prompt
void line_suspend(Editor *editor, bool job);      // as tty_suspend, with the line drawn anew afterwards

// ---- paint.c
void paint_line(Editor *editor);             // the whole line, where it was drawn last
void paint_cursor(Editor *editor);           // only the cursor has moved
void paint_typed(Editor *editor, wchar_t c); // `c` was put in before the cursor
void paint_redraw(Editor *editor);           // where the terminal's cursor is now, in column 0
void paint_leave(Editor *editor);            // the output goes on below all rows of the line
void paint_clear_screen(Editor *editor);
bool paint_whole(Editor *editor);  // also what is above and below the rows that libedit has; false: no memory
void paint_resize(Editor *editor); // the terminal has another size
void paint_resized(Editor *editor, int column); // and its cursor is there; -1: it does not say
TextLayout paint_layout(const Editor *editor);
TextPlace paint_place(Editor *editor, size_t n); // of the cursor behind n characters; row 0 is the prompt's

// ---- viewport.c
// The whole text and the cursor in it, whatever of it libedit has.
typedef struct View {
    const wchar_t *text; // [n]; valid until the line changes
    size_t n, cursor;
    wchar_t *owned; // to free(); may be NULL
} View;
bool viewport_view(Editor *editor, View *view); // false: no memory, owned is NULL
bool viewport_move(Editor *editor, View *view, size_t cursor);
bool viewport_adjust(Editor *editor); // true: the buffer has changed and is to be drawn
bool viewport_is_partial(const Editor *editor);
void viewport_reset(Editor *editor);

// ---- binding.c
// Every key's code calls what the key does.
bool binding_install(EditLine *el);

// ---- place.c
// A place in the text, seen from the view's cursor; false: there is none.
typedef bool PlaceFunction(const View *view, size_t *at);
PlaceFunction place_text_end, place_line_start, place_line_end, place_line_above, place_line_below,
    place_character_left, place_character_right, place_word_left, place_word_right;

// ---- move.c
bool move_to_end(Editor *editor);
KeyEffect move_left(Editor *editor);
KeyEffect move_right(Editor *editor);
KeyEffect move_home(Editor *editor); // of the line, not of the text; so the end
KeyEffect move_line_end(Editor *editor);
KeyEffect move_word_left(Editor *editor);
KeyEffect move_word_right(Editor *editor);
KeyEffect move_up(Editor *editor); // to the line above, else to an older turn
KeyEffect move_down(Editor *editor);

// ---- edit.c: what is killed comes back with Ctrl-Y
KeyEffect edit_delete_left(Editor *editor);
KeyEffect edit_delete_right(Editor *editor);
KeyEffect edit_kill_word_left(Editor *editor);
KeyEffect edit_kill_word_right(Editor *editor);
KeyEffect edit_kill_line_end(Editor *editor);
KeyEffect edit_kill_all(Editor *editor);
KeyEffect edit_yank(Editor *editor);
KeyEffect edit_transpose(Editor *editor);

// ---- recall.c
KeyEffect recall_older(Editor *editor);
KeyEffect recall_newer(Editor *editor);
void recall_reset(Editor *editor);

// ---- search.c
KeyEffect search_step(Editor *editor); // Ctrl-R, and again
// A key while the search is on. Returns the key that is left to do: KEY_REDRAW, or the key that ended it.
Key search_key(Editor *editor, Key key, wchar_t character);

// ---- completion.c
KeyEffect completion_tab(Editor *editor); // lists what there is at the second Tab in a row

#endif
