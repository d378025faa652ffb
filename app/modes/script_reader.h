// The turns of a script, read while others are answered: lines joined as turn.h says, without blank ones and those that
// begin with #.
#ifndef PALAVER_APP_SCRIPT_READER_H
#define PALAVER_APP_SCRIPT_READER_H

#include "app/terminal/encoding.h"
#include "engine/talk/scheduler/item_queue.h"

typedef struct ScriptTurn {
    long long line; // its first one, from 1
    char *text;     // UTF-8: a turn or a command; NULL: the script cannot go on, and `error` says why
    Error error;
} ScriptTurn;

typedef struct ScriptReader ScriptReader;

// Begins to read `file`, which is called `name` in messages. Of a terminal a line is read only when one is waited for.
Status script_reader_open(int file, const char *name, TextEncoding encoding, ScriptReader **reader,
                          Error *error);

// The next turn, which is the caller's, if it comes within so many milliseconds.
QueueState script_reader_take(ScriptReader *reader, int milliseconds, ScriptTurn **turn);
void script_turn_free(ScriptTurn *turn); // NULL is fine

// Ends the reading. What had ended it before the end of the input: STATUS_FILE, STATUS_MEMORY, or STATUS_OK. NULL is
// fine.
Status script_reader_close(ScriptReader *reader, Error *error);

#endif
