// What was typed before anybody asked for it: bytes of the process's one terminal that wait for the editor, as keys that
// come next, or as a draft to be looked at first.
#ifndef PALAVER_APP_TYPED_AHEAD_H
#define PALAVER_APP_TYPED_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Whether what waits in the terminal was typed while it edited lines, until that is taken.
void typed_ahead_in_lines(bool in_lines);
// After the terminal was made raw: takes what was typed before that. A newline that a terminal which edited lines made
// of Enter becomes Enter again: each line that was ended is a turn. Unless it is `all`, what follows a Ctrl-D stays in the
// terminal: if that leaves, the rest was typed for the shell.
void typed_ahead_take(bool all);
// Takes what comes, for which it waits, as read() does and with its result. ENOMEM: there is no room for it.
ssize_t typed_ahead_read(void);
// Puts bytes behind those that wait.
void typed_ahead_keep(const char *bytes, size_t n);

bool typed_ahead_any(void); // whether something waits
// The next byte that was read already: without waiting, and without looking for signals. False: there is none.
bool typed_ahead_byte(unsigned char *byte);
// What was taken is no longer to be sent, but to be looked at: its Enters become newlines, but for the last, and a
// Ctrl-D beside other text ends nothing. False: there is nothing.
bool typed_ahead_make_draft(void);
// Takes it away, as a text to free(); NULL: no memory.
char *typed_ahead_drop_draft(void);

#endif
