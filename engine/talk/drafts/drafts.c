#include "engine/talk/drafts/drafts.h"

#include "engine/engine.h"
#include "engine/talk/drafts/lookup.h"

#include <stdlib.h>

enum { LENGTHS = 7 };

// Matches of so many tokens and more, and what share of guesses behind them is taken to be right before any was seen.
static const struct {
    int match;
    double share;
} KINDS[LENGTHS] = {{3, 0.35}, {4, 0.5}, {5, 0.6}, {6, 0.7}, {8, 0.8}, {12, 0.87}, {20, 0.92}};
static const double BEFOREHAND = 3; // guesses that this counts for
static const double MOST_SEEN = 64; // then older ones count half
static const double WORTH = 1.05;   // as many tokens in the same time

struct Drafts {
    Lookup *lookup;
    DraftCosts costs;
    int most;
    DraftRate rates[LENGTHS];
    int match;                    // of the guess in hand
    int n;                        // its tokens, checked or not; 0: there is none
    int32_t ids[DRAFTS_MOST + 1]; // [n]
};

Status drafts_open(int64_t most_tokens, Drafts **out, Error *error) {
    Drafts *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d) return error_set(error, STATUS_MEMORY, "no memory for drafts");
    Status status = lookup_open(most_tokens, &d->lookup, error);
    if (status)
        drafts_close(d);
    else
        *out = d;
    return status;
}

void drafts_close(Drafts *d) {
    if (!d) return;
    lookup_close(d->lookup);
    free(d);
}

DraftCosts drafts_costs(const Engine *engine) {
    DraftCosts costs = {.one = engine_step_seconds(engine, 1), .again = !engine_takes_back(engine)};
    for (int i = 0; i <= DRAFTS_MOST; i++) costs.of[i] = engine_step_seconds(engine, i + 1) / costs.one;
    return costs;
}

void drafts_begin(Drafts *d, const DraftCosts *costs, int most) {
    d->costs = *costs;
    d->most = most;
    for (int i = 0; i < LENGTHS; i++) d->rates[i] = (DraftRate){BEFOREHAND * KINDS[i].share, BEFOREHAND};
    drafts_forget(d);
}

void drafts_forget(Drafts *d) {
    lookup_clear(d->lookup);
    d->n = 0;
}

void draft_rate_learn(DraftRate *rate, int right, int seen) {
    rate->right += right;
    rate->seen += seen;
    if (rate->seen > MOST_SEEN) rate->seen /= 2, rate->right /= 2;
}

static int kind_of(int match) {
    int kind = LENGTHS - 1;
    while (kind > 0 && match < KINDS[kind].match) kind--;
    return kind;
}

static double share_of(const Drafts *d, int match) {
    const DraftRate *rate = &d->rates[kind_of(match)];
    return rate->right / rate->seen;
}

int drafts_worth(const DraftCosts *costs, int pending, const double *probable, int n) {
    double tokens = 1, all_right = 1, best = WORTH / costs->of[pending - 1];
    int worth = 0;
    for (int i = 1; i <= n; i++) {
        all_right *= probable[i - 1];
        tokens += all_right;
        // Half of them were right, as a rule, where not all are.
        const double more = costs->again ? costs->of[(i + 1) / 2] - costs->of[0] : 0;
        const double gain = tokens / (costs->of[pending - 1 + i] + (1 - all_right) * more);
        if (gain > best) best = gain, worth = i;
    }
    return worth;
}

static int worth_checking(const Drafts *d, int match, int pending, int n) {
    double probable[DRAFTS_MOST];
    for (int i = 0; i < n; i++) probable[i] = share_of(d, match + i);
    return drafts_worth(&d->costs, pending, probable, n);
}

DraftPlan drafts_plan(Drafts *d, const int32_t *text, int64_t n, int pending, int room) {
    const int64_t place = lookup_find(d->lookup, text, n, &d->match);
    d->n = 0;
    if (place == 0) return (DraftPlan){0};
    // What follows may be the end itself, again and again.
    for (int i = 0; i < d->most + 1; i++)
        d->ids[d->n++] = place + i < n ? text[place + i] : d->ids[place + i - n];
    const int most = room < d->most ? room : d->most, worth = worth_checking(d, d->match, pending, most);
    const bool soon = worth == 0 && most > 1 && worth_checking(d, d->match + 1, 1, most - 1) > 0;
    return (DraftPlan){worth, d->ids, soon};
}

void drafts_drawn(Drafts *d, const int32_t *ids, int n) {
    for (int i = 0; i < n && i < d->n; i++) {
        const bool right = ids[i] == d->ids[i];
        draft_rate_learn(&d->rates[kind_of(d->match + i)], right, 1);
        if (!right) break;
    }
    d->n = 0;
}
