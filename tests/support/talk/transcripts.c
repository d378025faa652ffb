#include "tests/support/talk/transcripts.h"

#include "tests/support/test.h"

#include <string.h>

const TranscriptHeader TRANSCRIPT_HEADER = {.model = {.name = "a model",
                                                      .path = "/models/a.gguf",
                                                      .fingerprint = "llama-1-2-abc",
                                                      .chat_template = "chatml"},
                                            .seed = 42,
                                            .stream = 3};

Transcript *transcript_fresh(void) {
    Transcript *transcript;
    ok(transcript_new(&TRANSCRIPT_HEADER, &transcript, error));
    return transcript;
}

void transcript_say(Transcript *transcript, int parent, const char *why, const char *user, const char *text) {
    TranscriptNode turn = {.role = CHAT_USER,
                           .text = user,
                           .size = strlen(user),
                           .reply = {.text = text, .size = strlen(text), .seed = 7}};
    ok(transcript_add_turn(transcript, parent, why, &turn, error));
}
