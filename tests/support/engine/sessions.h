// Sessions whose every step has to work: a failure ends the test that asked, with the error's words.
#ifndef PALAVER_TESTS_SESSIONS_H
#define PALAVER_TESTS_SESSIONS_H

#include "engine/engine.h"

// The model at `path`, also one that only tests have, with options whose model is not looked at.
Engine *sessions_engine(const char *path, const EngineOptions *options);
// On one thread, in float32, in pages of eight tokens, read in pieces of seven; `sequences` at once.
Engine *sessions_engine_of_pages(const char *path, int context, int sequences);

Session *sessions_open(Engine *engine);
// How many of ids [n] were cached; the others were evaluated.
int64_t sessions_sync(Session *session, const int32_t *ids, int64_t n);
void sessions_logits(Session *session, float *logits); // [vocab_size]

// What is drawn behind a prompt with tokens that are guessed, most of them rightly, and the logits behind the last of it: to the
// bit what they are one by one. The engine has a context of SESSIONS_GUESSED tokens at least, and room for two sessions.
enum { SESSIONS_GUESSED = 90 };
void sessions_guess(Engine *engine, const char *what);

// Of ids [n], what one engine has cached of the first n_kept comes back to another from a file at `path`: what follows
// it has the same logits there, bit by bit.
void sessions_come_back(Engine *const engines[2], const int32_t *ids, int64_t n_kept, int64_t n,
                        const char *path);
// The file of sessions_come_back() is not for this one, and the error has `part` in it.
void sessions_refuse(Engine *engine, const char *path, const char *part);

#endif
