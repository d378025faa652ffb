// Transcripts that a test writes by itself.
#ifndef PALAVER_TESTS_TRANSCRIPTS_H
#define PALAVER_TESTS_TRANSCRIPTS_H

#include "app/record/transcript/transcript.h"

extern const TranscriptHeader TRANSCRIPT_HEADER;

// Fails the test unless `call`, which fills `error`, goes well.
#define ok(call)                                                                                             \
    do {                                                                                                     \
        Error error_ = {0}, *error = &error_;                                                                \
        if (call) fail_msg("%s", error_.message);                                                            \
    } while (0)

Transcript *transcript_fresh(void);
// A turn after `parent`: what the user said, and the reply's text.
void transcript_say(Transcript *transcript, int parent, const char *why, const char *user, const char *text);

#endif
