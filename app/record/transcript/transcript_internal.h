// Inside of the transcript: its memory, and the step that reads one record. Only for transcript*.c.
#ifndef PALAVER_APP_TRANSCRIPT_INTERNAL_H
#define PALAVER_APP_TRANSCRIPT_INTERNAL_H

#include "app/record/transcript/transcript.h"

#include <jansson.h>

struct Transcript {
    char *log; // [log_capacity], log_size bytes of whole lines
    size_t log_size, log_capacity;
    bool has_header, script;
    char *name, *path, *fingerprint, *chat_template; // of the model
    uint64_t seed, stream, position;
    char *system; // NULL: none yet
    char *asked;  // NULL: no question waits for its answer
    Tree tree;
    TranscriptNode *nodes; // [n_capacity], tree.n of them; texts and ids are owned
    size_t n_capacity;
    TranscriptSetting *settings; // [n_settings]; keys and texts are owned
    int n_settings;
};

// Checks a record and enters what it says. After a failure the transcript is as it was. The message names the
// field.
Status transcript_take_record(Transcript *transcript, const json_t *record, Error *error);

#endif
