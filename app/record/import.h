// What /export writes as JSON, and --jsonl as its answers, as a conversation again.
#ifndef PALAVER_APP_IMPORT_H
#define PALAVER_APP_IMPORT_H

#include "app/record/transcript/transcript.h"

// Whether a file [size] holds a conversation in that form, rather than a log of records.
bool import_is_export(const char *text, size_t size);

// Reads one; `name` stands for the file in messages. Its texts count, there are no ids; the transcript's header says
// which model the file names, and `header` the rest. STATUS_FILE: it is damaged, or there are several; STATUS_USAGE:
// something in it is not understood.
Status import_parse(const char *name, const char *text, size_t size, const TranscriptHeader *header,
                    Transcript **transcript, Error *error);

#endif
