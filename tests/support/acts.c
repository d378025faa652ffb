#include "tests/support/acts.h"

#include "engine/engine_internal.h"
#include "engine/session/session_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SESSIONS = 2, KEPT = 4 };

typedef enum Deed {
    DEED_SYNC,
    DEED_SET,   // a text whose logits nobody wants yet
    DEED_DRAW,  // a token that is not gone on with
    DEED_OTHER, // another token than the one drawn
    DEED_MAKE_ROOM,
    DEED_DROP_SHIFTED,
    DEED_RECALL,
    DEED_CLEAR,
    DEED_SAMPLE, // this and all that follow
    DEEDS = 24,
} Deed;

typedef struct Act {
    Deed deed;
    int k, n; // which session; tokens of `ids`
    int32_t *ids;
    bool wants_logits;
    SampleParams params;
    OverflowSettings overflow;
} Act;

static uint64_t bits(uint64_t *state) {
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du >> 11;
}
static int below(uint64_t *state, int64_t n) {
    return (int)(bits(state) % (uint64_t)n);
}

// A text that has a part in common with the session's, or all of it, or is its beginning.
static void choose_text(const Session *session, int context, int vocab, uint64_t *state, Act *act) {
    int64_t length = session_length(session);
    act->n = 1 + below(state, length + 6);
    if (act->n > context - 8) act->n = context - 8;
    int common = bits(state) % 2 ? act->n : below(state, act->n);
    for (int i = 0; i < act->n; i++)
        act->ids[i] = i < common && i < length ? session_tokens(session)[i] : below(state, vocab);
}

static void choose(const Session *const sessions[SESSIONS], int context, int vocab, uint64_t *state,
                   Act *act) {
    int deed = below(state, DEEDS);
    act->deed = deed < DEED_SAMPLE ? (Deed)deed : DEED_SAMPLE;
    act->k = below(state, 5) == 0;
    act->params = (SampleParams){.temperature = 1.2f, .top_p = 0.98f, .typical_p = 1, .seed = 5};
    act->params.position = bits(state) % 1000;
    act->overflow =
        (OverflowSettings){.policy = (OverflowPolicy)below(state, 4), .keep = KEPT, .low_water = 0.5};
    act->wants_logits = below(state, 8) == 0;
    choose_text(sessions[act->k], context, vocab, state, act);
}

static Status draw(Session *s, const Act *act, int64_t context, int32_t *token, Error *error) {
    if (act->deed == DEED_SAMPLE && session_length(s) >= context)
        return session_make_room(s, &act->overflow, 1, error);
    if (act->deed == DEED_SAMPLE) return session_sample(s, &act->params, token, error);
    Status status = session_draw(s, &act->params, token, error);
    if (!status && act->deed == DEED_OTHER && session_length(s) < context)
        session_push(s, *token > 0 ? *token - 1 : 1);
    return status;
}

static Status perform(Session *s, const Act *act, int64_t context, int32_t *token, Error *error) {
    *token = -1;
    switch (act->deed) {
    case DEED_SYNC:
        return session_sync(s, act->ids, act->n, NULL, error);
    case DEED_SET:
        return session_set(s, act->ids, act->n, error);
    case DEED_MAKE_ROOM:
        return session_make_room(s, &act->overflow, context / 4, error);
    case DEED_DROP_SHIFTED:
        session_drop_shifted(s);
        return STATUS_OK;
    case DEED_RECALL:
        (void)session_recall(s, act->ids, act->n);
        return STATUS_OK;
    case DEED_CLEAR:
        session_clear(s);
        return STATUS_OK;
    default:
        return draw(s, act, context, token, error);
    }
}

static const char *difference(Engine *const engines[2], Session *const s[2], const Status statuses[2],
                              const int32_t tokens[2]) {
    int64_t n = session_length(s[0]);
    if (statuses[0] != statuses[1]) return "status";
    if (tokens[0] != tokens[1]) return "token";
    if (n != session_length(s[1]) ||
        memcmp(session_tokens(s[0]), session_tokens(s[1]), (size_t)n * sizeof(int32_t)) != 0)
        return "log";
    if (session_cached(s[0]) != session_cached(s[1]) || session_sinks(s[0]) != session_sinks(s[1]))
        return "what is cached";
    if (engines[0]->cache.n_free != engines[1]->cache.n_free ||
        engines[0]->cache.n_branches != engines[1]->cache.n_branches)
        return "pages";
    return NULL;
}

static const char *different_logits(Session *const s[2], int64_t context, float *const logits[2], int vocab) {
    Error error;
    if (session_length(s[0]) < 1 || session_length(s[0]) > context) return NULL;
    if (session_logits(s[0], logits[0], &error) || session_logits(s[1], logits[1], &error))
        return "logits' status";
    return memcmp(logits[0], logits[1], (size_t)vocab * sizeof(float)) != 0 ? "logits" : NULL;
}

int acts_compare(Engine *const engines[2], uint64_t seed, int n, char *first, size_t size) {
    Session *sessions[2][SESSIONS] = {{NULL}};
    Error error = {0};
    const int context = engine_context_size(engines[0]), vocab = engine_model(engines[0])->shape.vocab_size;
    Act act = {.ids = malloc((size_t)context * sizeof(int32_t))};
    float *logits[2] = {malloc((size_t)vocab * sizeof(float)), malloc((size_t)vocab * sizeof(float))};
    Status status = act.ids && logits[0] && logits[1] ? STATUS_OK : STATUS_MEMORY;
    for (int i = 0; i < 2 * SESSIONS && !status; i++)
        status = session_open(engines[i / SESSIONS], &sessions[i / SESSIONS][i % SESSIONS], &error);
    const char *what = status ? "opening" : NULL;
    int i = 0;
    for (; i < n && !what; i++) {
        choose((const Session *const *)sessions[0], context, vocab, &seed, &act);
        Session *const both[2] = {sessions[0][act.k], sessions[1][act.k]};
        Status statuses[2];
        int32_t tokens[2];
        for (int e = 0; e < 2; e++) statuses[e] = perform(both[e], &act, context, &tokens[e], &error);
        what = difference(engines, both, statuses, tokens);
        if (!what && act.wants_logits) what = different_logits(both, context, logits, vocab);
    }
    if (what) snprintf(first, size, "act %d, deed %d of session %d: %s", i, act.deed, act.k, what);
    for (int e = 0; e < 2 * SESSIONS; e++) session_close(sessions[e / SESSIONS][e % SESSIONS]);
    free(act.ids);
    free(logits[0]);
    free(logits[1]);
    return what != NULL;
}
