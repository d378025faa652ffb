#include "engine/talk/drafts/guesser.h"

#include "engine/engine_internal.h"
#include "engine/session/session_step.h"

#include <stdlib.h>
#include <string.h>

// What is taken to be right before anything was seen, and for how many guesses that counts.
static const double SHARE = 0.8, BEFOREHAND = 4;

struct Guesser {
    Engine *engine;
    Session *session;
    DraftCosts costs; // of steps of the model
    double cost;      // of a guess, likewise
    int most;
    DraftRate rate;
    bool failed;
    Error failure;
};

static Status check_vocabulary(const Engine *engine, const Engine *of, Error *error) {
    const Tokenizer *a = engine_tokenizer(engine), *b = engine_tokenizer(of);
    bool same = tokenizer_size(a) == tokenizer_size(b);
    for (int64_t id = 0; same && id < tokenizer_size(a); id++) {
        size_t size[2];
        const char *piece[2] = {tokenizer_piece(a, (int32_t)id, &size[0]),
                                tokenizer_piece(b, (int32_t)id, &size[1])};
        same = size[0] == size[1] && memcmp(piece[0], piece[1], size[0]) == 0;
        if (!same)
            return error_set(error, STATUS_UNSUPPORTED,
                             "it cannot guess: its token %lld is not that of the model", (long long)id);
    }
    if (same) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "it cannot guess: it has %lld tokens, the model %lld",
                     (long long)tokenizer_size(a), (long long)tokenizer_size(b));
}

Status guesser_open(Engine *engine, const Engine *of, Guesser **out, Error *error) {
    const char *why = engine_cannot_draft(engine);
    if (!why && !engine_takes_back(engine)) why = "its states cannot be taken back token by token";
    *out = NULL;
    Status status = check_vocabulary(engine, of, error);
    if (!status && why) status = error_set(error, STATUS_UNSUPPORTED, "it cannot guess: %s", why);
    if (status) return status;
    Guesser *g = calloc(1, sizeof *g);
    if (!g) return error_set(error, STATUS_MEMORY, "no memory for drafts");
    *g = (Guesser){.engine = engine};
    status = session_open(engine, &g->session, error);
    if (status)
        guesser_close(g);
    else
        *out = g;
    return status;
}

void guesser_close(Guesser *g) {
    if (!g) return;
    session_close(g->session);
    free(g);
}

const Engine *guesser_engine(const Guesser *g) {
    return g->engine;
}

void guesser_begin(Guesser *g, const DraftCosts *costs, int most) {
    Error error;
    g->costs = *costs;
    g->most = most;
    g->cost = engine_step_seconds(g->engine, 1) / costs->one;
    g->rate = (DraftRate){BEFOREHAND * SHARE, BEFOREHAND};
    if (g->failure.status != STATUS_FATAL) g->failed = false; // another text, perhaps
    if (!g->failed && engine_check_files(g->engine, &error)) guesser_give_up(g, &error);
}

static int worth(const Guesser *g, double share, int pending, int most) {
    double probable[DRAFTS_MOST];
    DraftCosts costs = g->costs;
    for (int i = 0; i < most; i++) {
        probable[i] = share;
        costs.of[pending + i] += (i + 1) * g->cost;
    }
    return drafts_worth(&costs, pending, probable, most);
}

bool guesser_may_pay(const Guesser *g, const DraftCosts *costs, int most) {
    Guesser asked = *g;
    asked.costs = *costs;
    asked.cost = engine_step_seconds(g->engine, 1) / costs->one;
    return worth(&asked, SHARE, 1, most) > 0;
}

int guesser_worth(const Guesser *g, const Session *session, int room) {
    const int64_t left = engine_context_size(g->engine) - session_length(session) - 1;
    const int most = room < g->most ? room : g->most;
    if (g->failed || left < 1) return 0;
    return worth(g, g->rate.right / g->rate.seen, (int)session_pending(session),
                 left < most ? (int)left : most);
}

Status guesser_follow(Guesser *g, const Session *session, Error *error) {
    session_interrupt_with(g->session, session);
    return session_set(g->session, session_tokens(session), session_length(session), error);
}

Status guesser_guess(Guesser *g, const SampleParams *params, bool last, int32_t *id, Error *error) {
    session_hold_ahead(g->session, last);
    return session_sample(g->session, params, id, error);
}

void guesser_learn(Guesser *g, int n_guessed, int n_right) {
    draft_rate_learn(&g->rate, n_right, n_right < n_guessed ? n_right + 1 : n_right);
}

void guesser_give_up(Guesser *g, const Error *error) {
    g->failed = true;
    g->failure = *error;
}

const Error *guesser_failure(const Guesser *g) {
    return g->failed ? &g->failure : NULL;
}
