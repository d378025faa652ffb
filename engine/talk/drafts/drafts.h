// Drafts: the next tokens of a reply, guessed, so that a step evaluates several and the model says which of them it would
// have drawn. Where they come from is lookup.h: answers repeat what was asked and said, code and lists above all.
//
// How many are guessed goes by what a step of so many tokens costs, and by how often guesses behind as long a match were
// right in this reply, those included that nobody acted on: so that where nothing is to be had nothing is tried. Both are
// the same in every run.
//
// What is drawn is drawn as it would be without: from the model's logits, with the same numbers (Leviathan et al.,
// arXiv:2211.17192, with drafts that are sure of themselves).
#ifndef PALAVER_ENGINE_DRAFTS_H
#define PALAVER_ENGINE_DRAFTS_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { DRAFTS_MOST = 15 };

typedef struct Drafts Drafts;

// For texts of at most `most_tokens`. Nothing is allocated later.
Status drafts_open(int64_t most_tokens, Drafts **drafts, Error *error);
void drafts_close(Drafts *drafts); // NULL is fine

// What steps cost, in steps of one token, which takes about so many seconds.
typedef struct DraftCosts {
    double one;
    double of[DRAFTS_MOST + 1]; // of 1, 2, … tokens
    bool again; // what was right of a step that was wrong is evaluated again with the next token
} DraftCosts;

// An engine's, which can check some.
struct Engine;
DraftCosts drafts_costs(const struct Engine *engine);

// A reply begins. most <= DRAFTS_MOST.
void drafts_begin(Drafts *drafts, const DraftCosts *costs, int most);
// The text is another one than what it was so far and what was drawn.
void drafts_forget(Drafts *drafts);

typedef struct DraftPlan {
    int n;              // tokens worth checking; 0: none
    const int32_t *ids; // [n], the drafts'
    bool soon;          // there are none yet, but there will be if the next token is what is guessed
} DraftPlan;

// How many guesses of a kind were right, of those seen; the older ones count less.
typedef struct DraftRate {
    double right, seen;
} DraftRate;
void draft_rate_learn(DraftRate *rate, int right, int seen);

// Of guesses of which the i-th is right with this probability once those before it are, how many of n bring the most tokens in
// the time, behind `pending` >= 1 tokens that are evaluated anyway, pending + n <= DRAFTS_MOST + 1; 0: none are worth it.
int drafts_worth(const DraftCosts *costs, int pending, const double *probable, int n);

// For what follows text [n], of which the last tokens are pending; at most `room` tokens of it.
DraftPlan drafts_plan(Drafts *drafts, const int32_t *text, int64_t n, int pending, int room);
// What was drawn behind it, [n] >= 1, whatever came of the plan.
void drafts_drawn(Drafts *drafts, const int32_t *ids, int n);

#endif
