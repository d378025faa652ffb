// The thread that reads the lines of `palaver --jsonl` while others are answered.
#ifndef PALAVER_APP_JSONL_READER_H
#define PALAVER_APP_JSONL_READER_H

#include "app/modes/jsonl/jsonl_line.h"
#include "engine/talk/scheduler/item_queue.h"

typedef struct JsonlReader JsonlReader;

// Begins to read `file`; JsonlLines go to the queue, which ends with the input. A line of more than LINE_LIMIT bytes is
// a wrong one. `settings` and `system` are kept by reference, and nobody changes them meanwhile.
Status jsonl_reader_open(int file, ItemQueue *queue, const Settings *settings, const char *system,
                         JsonlReader **reader, Error *error);

// Ends the thread, wherever it is, and the queue. What ended its reading before: STATUS_FILE, STATUS_MEMORY, or
// STATUS_OK. What is in the queue stays there. NULL is fine.
Status jsonl_reader_close(JsonlReader *reader, Error *error);

#endif
