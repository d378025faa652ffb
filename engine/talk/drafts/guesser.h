// A smaller model of the same vocabulary that says what it would go on with, which the conversation's own model then checks
// (Leviathan et al., arXiv:2211.17192). It draws with the conversation's settings and with the same numbers, so that where
// both models think alike they mostly draw alike; what is drawn in the end is the model's own draw.
#ifndef PALAVER_ENGINE_GUESSER_H
#define PALAVER_ENGINE_GUESSER_H

#include "engine/engine.h"
#include "engine/talk/drafts/drafts.h"

typedef struct Guesser Guesser;

// Takes nothing over. STATUS_UNSUPPORTED: the two have not the same vocabulary, or the engine cannot take tokens back.
Status guesser_open(Engine *engine, const Engine *of, Guesser **guesser, Error *error);
void guesser_close(Guesser *guesser); // NULL is fine
const Engine *guesser_engine(const Guesser *guesser);

// A reply begins: it is asked at first, whatever came of it before. Arguments as drafts_begin()'s.
void guesser_begin(Guesser *guesser, const DraftCosts *costs, int most);
// Whether it is worth asking at a reply's beginning, without which it never will be; arguments as of guesser_begin().
bool guesser_may_pay(const Guesser *guesser, const DraftCosts *costs, int most);
// How many tokens it is worth to guess behind a session's log, at most `room`; 0: none.
int guesser_worth(const Guesser *guesser, const Session *session, int room);
// Its session's log becomes that of the session.
Status guesser_follow(Guesser *guesser, const Session *session, Error *error);
// The next token behind that; `last`: no other is asked for before guesser_follow().
Status guesser_guess(Guesser *guesser, const struct SampleParams *params, bool last, int32_t *id,
                     Error *error);
// Of n_guessed tokens so many were right, one after the other.
void guesser_learn(Guesser *guesser, int n_guessed, int n_right);

// It has failed, and is not asked any more in this reply: nothing that it does is worth one.
void guesser_give_up(Guesser *guesser, const Error *error);
const Error *guesser_failure(const Guesser *guesser); // NULL: it has not

#endif
