// Two cards as one (kernels/shards): every case that can be cut, op by op against the CPU's plain loops, and golden models,
// through the cards' own memory, and some of both through the host's; and what is talked there: whatever may be done with
// sessions, a greedy text, and a long one through a short context.
#include "engine/engine_internal.h"
#include "engine/model/model.h"
#include "kernels/shards/shard_ops.h"
#include "tests/gpu/cases/cases.h"
#include "tests/gpu/engine/engine_tests.h"
#include "tests/gpu/model/side.h"
#include "tests/support/acts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 200, ACTS = 400, STREAMED = 20000 };

static const char TWO[] = "cuda:0,1";

static void through_the_host(bool so) {
    if (so)
        setenv("PALAVER_NO_PEER", "1", 1);
    else
        unsetenv("PALAVER_NO_PEER");
}

bool cards_are_there(const Ops *cuda) {
    ShardDevices devices;
    Error error = {0};
    if (cuda->shards && !cuda->shards->devices(TWO, &devices, &error)) return true;
    printf("cards: not tested: %s\n", error.message);
    return false;
}

// ---- talks --------------------------------------------------------------------------------------------------

// Two engines over the cards, of which the second waits for each token before it begins the next step.
static Status open_both(const char *path, Engine *engines[2], Error *error) {
    Status status = STATUS_OK;
    engines[0] = engines[1] = NULL;
    for (int i = 0; i < 2 && !status; i++) {
        Model *model;
        EngineOptions options = {.device = TWO,
                                 .context_size = CONTEXT,
                                 .cache = cache_options(DTYPE_F16),
                                 .chunk = 64,
                                 .no_steps_ahead = i == 1};
        options.cache.n_sequences = 3;
        status = model_open(path, &model, error);
        if (!status) status = engine_open_model(model, &options, &engines[i], error);
    }
    return status;
}

// STREAMED tokens, drawn one after the other, through a context that overflows again and again. The last of them: *last
// [CONTEXT], and the logits behind them [vocab_size].
static Status stream(Engine *engine, int32_t *last, float *logits, Error *error) {
    static const OverflowSettings OVERFLOW = {.policy = OVERFLOW_SHIFT, .keep = 4, .low_water = 0.5};
    Session *session = NULL;
    const int32_t first[] = {1, 70, 71, 72};
    Status status = session_open(engine, &session, error);
    if (!status) status = session_sync(session, first, 4, NULL, error);
    for (int i = 0; i < STREAMED && !status; i++) {
        const SampleParams params = {
            .temperature = 1, .top_p = 0.95f, .typical_p = 1, .seed = 3, .position = (uint64_t)i};
        int32_t token;
        status = session_make_room(session, &OVERFLOW, 1, error);
        if (!status) status = session_sample(session, &params, &token, error);
    }
    if (!status) status = session_make_room(session, &OVERFLOW, 1, error);
    if (!status) status = session_logits(session, logits, error);
    const int64_t n = session ? session_length(session) : 0;
    memset(last, 0, CONTEXT * sizeof *last);
    if (n > 0) memcpy(last, session_tokens(session), (size_t)(n < CONTEXT ? n : CONTEXT) * sizeof *last);
    session_close(session);
    return status;
}

static int streams_differ(Engine *const engines[2]) {
    static int32_t last[2][CONTEXT];
    const size_t vocab = (size_t)engine_model(engines[0])->shape.vocab_size;
    float *logits = calloc(2 * vocab, sizeof *logits);
    Error error;
    int wrong = 0;
    for (int i = 0; i < 2 && !wrong; i++) {
        Status status = stream(engines[i], last[i], logits + (size_t)i * vocab, &error);
        if (status) printf("FAILED a stream of %d tokens on %s: %s\n", STREAMED, TWO, error.message);
        wrong = status != STATUS_OK;
    }
    wrong += memcmp(last[0], last[1], sizeof last[0]) != 0;
    for (size_t i = 0; i < vocab; i++) wrong += !isfinite(logits[i]) || logits[i] != logits[vocab + i];
    free(logits);
    return wrong;
}

// In the persistent kernel, with heads that do not divide and one KV head that both cards have.
static void test_talks(void) {
    static const char MODEL[] = "assets/parley-9m"; // as in logits.c
    Engine *engines[2];
    Error error;
    char first[200] = "";
    Status status = open_both(MODEL, engines, &error);
    if (status) printf("FAILED %s: %s\n", MODEL, error.message);
    int wrong = status ? 1 : acts_compare(engines, 57, ACTS, first, sizeof first);
    if (*first) printf("FAILED %s: %s\n", MODEL, first);
    report("cards", "acts", wrong, 0);
    if (!status) report("cards", "a long stream", streams_differ(engines), 0);
    engine_close(engines[0]), engine_close(engines[1]);
    test_text_on_cards(MODEL, "cuda:0", TWO, report);
}

void test_cards(const CardsWish *w) {
    if (w->part == w->parts - 1) test_talks();
    for (int host = 0; host < 2; host++) {
        through_the_host(host);
        for (int i = w->part; i < cases_n(); i += w->parts * (host ? 9 : 1))
            w->test(w->cuda, TWO, cases_at(i));
        if (w->part == 0) test_golden_on(w->golden, TWO, w->parts * (host ? 9 : 1), report);
    }
    through_the_host(false);
}
