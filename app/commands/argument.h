// What is said behind a command's name, and behind flags that mean the same.
#ifndef PALAVER_APP_ARGUMENT_H
#define PALAVER_APP_ARGUMENT_H

#include "app/terminal/encoding.h"

#include <stddef.h>
#include <stdint.h>

// In all of these `command` is what is blamed in messages: "/undo".

// A whole number from min to max; `what` names it in the message.
Status argument_number(const char *command, const char *argument, const char *what, int64_t min, int64_t max,
                       int64_t *number, Error *error);
// The path that `argument` means, ~ and ~/ expanded, quotation marks around it and a \ before a blank or a mark taken away, into
// path [PATH_ROOM]. STATUS_USAGE also where the mark that it begins with is not its end.
Status argument_path(const char *command, const char *argument, char *path, Error *error);
// Takes the quotation marks off a name that has them on both sides, as one types it in a shell, or a \ before a blank or
// a mark, into room [PATH_ROOM]; what does not fit stays as it is.
const char *argument_unquote(const char *argument, char *room);
// STATUS_USAGE: there is one, behind a command that takes none.
Status argument_none(const char *command, const char *argument, Error *error);

// A file of at most `limit` bytes whose text is to be taken (encoding_take); *text [*size] is malloc'ed.
Status argument_read_text(const char *path, size_t limit, TextEncoding encoding, char **text, size_t *size,
                          Error *error);

// The system prompt that TEXT or @FILE, of that encoding, means; *system is malloc'ed. STATUS_USAGE: TEXT, which `name`
// is called in messages, is no UTF-8.
Status argument_read_system(const char *name, const char *argument, TextEncoding encoding, char **system,
                            Error *error);

#endif
