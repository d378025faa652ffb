// A thread that reads the lines of a file ahead of who works on them.
#ifndef PALAVER_APP_LINE_READER_H
#define PALAVER_APP_LINE_READER_H

#include "engine/talk/scheduler/item_queue.h"

#include <stddef.h>

typedef struct LineReader LineReader;

enum { LINE_LIMIT = 1 << 26 }; // bytes

typedef struct Line {
    // [size] without the newline, and the first without a byte order mark; may hold any bytes.
    const char *text;
    size_t size;
    bool too_long;    // it has more than LINE_LIMIT bytes, which were skipped
    long long number; // from 1
} Line;

typedef struct LineReaderOptions {
    int file;
    const char *name; // of the file, for messages
    ItemQueue *queue; // ends with the input, or with the reading
    // Reads only while someone waits for an item: from a terminal, which others may read from between two lines.
    bool on_demand;
    // Called by the thread: makes items of a line (of `context`'s making) and puts them into the queue; and, if it is
    // not NULL, of what is left at the end of the input. Anything but STATUS_OK ends the reading, and is what
    // line_reader_close() says, except for STATUS_INTERRUPTED: nobody takes items any more.
    Status (*line)(void *context, const Line *line, Error *error);
    Status (*end)(void *context, Error *error);
    void *context;
} LineReaderOptions;

// Begins to read.
Status line_reader_open(const LineReaderOptions *options, LineReader **reader, Error *error);

// Ends the thread, wherever it is, and the queue, in which what is there stays. Returns what had ended the reading
// before the end of the input. NULL is fine.
Status line_reader_close(LineReader *reader, Error *error);

#endif
