// The prompt's line editor: one call, one turn of the conversation.
//
// On a terminal it edits with libedit: several lines in one buffer (a line that ends in `\`, an open
// `"""` block, Ctrl-J, Alt-Enter or a bracketed paste make a new line), history, Ctrl-R, Tab, Ctrl-G
// for $EDITOR, UTF-8. Where cursor movement is unwanted (--plain, TERM=dumb) or impossible (no
// terminal) it reads line by line and writes no escape sequence. All its output goes to stderr;
// stdout stays with the reply. The caller has chosen the locale first (screen_open does).
#ifndef PALAVER_APP_EDITOR_H
#define PALAVER_APP_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/status.h"

typedef struct Editor Editor;
typedef struct Completion Completion; // see completion.h

typedef struct EditorOptions {
    void *context; // given to the callbacks

    // The prompt, UTF-8, for instance "[62%] > ". Asked once a turn and kept by the callback until the
    // next call. SGR colour sequences are allowed (they take no width); NULL means "> ".
    const char *(*prompt)(void *context);

    // Tab: `text` (UTF-8, NUL-terminated) up to byte `cursor` is before the cursor. NULL: no completion.
    void (*complete)(void *context, const char *text, size_t cursor, Completion *completion);

    // Asked after every signal; true ends editor_read with EDITOR_STOPPED (SIGTERM, SIGHUP: save and
    // leave). The handlers of these signals are the caller's: they set a flag and return. NULL: never.
    bool (*stop)(void *context);

    const char *history; // file of earlier turns, created with mode 600 and its folders with 700; NULL: none
    bool plain;          // no cursor movement, no escape sequences
    // Shows a line of the editor's own, a hint or what could not be taken, where the output goes on. NULL: it is
    // written to stderr as it is.
    void (*tell)(void *context, const char *text);
    // Between a turn and the next editor_read() keys are not echoed and wait as what they are; editor_close() ends
    // that.
    bool hush;
    // Seconds after editor_answered() in which a Ctrl-C is one that was meant for the reply.
    double late;
} EditorOptions;

typedef enum EditorResult {
    EDITOR_TURN,    // *turn is a turn
    EDITOR_END,     // Ctrl-D on an empty line, or end of input: leave, 0
    EDITOR_QUIT,    // Ctrl-C twice within a second on an empty line: leave, 130
    EDITOR_STOPPED, // options.stop said so
    EDITOR_FAILED,  // *error is filled (no memory, terminal lost); the terminal is restored
} EditorResult;

// Opens the editor on stdin and stderr. A history file that cannot be read or made is no failure: the
// editor works without, and *error (its status not STATUS_OK) says why; *error is STATUS_OK otherwise.
// Fails with STATUS_MEMORY only, *editor then NULL.
Status editor_open(const EditorOptions *options, Editor **editor, Error *error);
void editor_close(Editor *editor); // NULL is fine

// Reads one turn. *turn (EDITOR_TURN only, else NULL) is UTF-8 without control characters other than
// \n and \t, without a final newline, never empty or blank, and the caller's to free(). Block marks and
// continuation marks are gone. While it runs it handles SIGINT (as the key Ctrl-C), SIGTSTP, SIGCONT
// and SIGWINCH; before it returns, the terminal and the handlers are as they were (after a turn,
// unless options.hush). What is no UTF-8 is refused, and control characters are left out of a paste: both are told.
EditorResult editor_read(Editor *editor, char **turn, Error *error);

// A reply has ended: a Ctrl-C on the empty line that comes a moment later wanted to stop it, and does not count as the
// first of two that leave.
void editor_answered(Editor *editor);

// What was typed since the last turn is not sent by the next editor_read, whatever Enters are in it: it comes as one
// draft, behind what editor_prefill() said. (Without libedit, where nothing can be edited, its lines are shown.)
void editor_hold(Editor *editor);

// Text that the next editor_read starts with, to be edited (for instance a turn that was refused).
// NULL takes it back.
void editor_prefill(Editor *editor, const char *text);

#endif
