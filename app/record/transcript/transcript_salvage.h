// Damaged logs: what is whole is read, and the loss is told.
#ifndef PALAVER_APP_TRANSCRIPT_SALVAGE_H
#define PALAVER_APP_TRANSCRIPT_SALVAGE_H

#include "app/record/transcript/transcript.h"

#include <jansson.h>

enum { TRANSCRIPT_NOTE_ROOM = sizeof((Error *)0)->message + 200 };

typedef struct TranscriptLoss {
    int n_lost;     // records that could not be read, or whose turn is lost
    int n_mended;   // records with bad bytes, which are U+FFFD now
    int n_reduced;  // turns and replies of which only the texts are whole: token ids or figures are not
    long long line; // the first of them, from 1; 0: none
} TranscriptLoss;

// What can be read of one line [size] of a log, mended unless it is `whole`; NULL: nothing, or no memory. To
// json_decref().
json_t *transcript_salvage_record(const char *line, size_t size, bool *whole);

// transcript_parse(), and where that finds damage, what is whole: then `note` [TRANSCRIPT_NOTE_ROOM] says what is lost,
// else it is empty.
Status transcript_recover(const char *name, const char *text, size_t size, Transcript **transcript,
                          char *note, Error *error);

#endif
