// Tokens that are guessed, on the GPU: whatever was guessed, right or wrong, what is cached then is what reading the same
// text leaves, within the rounding of 16 bits.
#include "engine/engine_internal.h"
#include "engine/model/model.h"
#include "engine/session/session_step.h"
#include "tests/gpu/engine/engine_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONTEXT = 160, PROMPT = 9, DRAWS = 100, LOOKS = 8, GUESSES = 8 };

static const double BOUND = 0.03; // of the largest logit

static SampleParams params_at(int position) {
    return (SampleParams){
        .temperature = 0.7f, .top_p = 0.9f, .typical_p = 1, .seed = 8, .position = (uint64_t)position};
}

static Status open_model(const char *path, bool paged, Engine **engine, Error *error) {
    Model *model;
    EngineOptions options = {
        .device = "cuda", .context_size = CONTEXT, .cache = cache_options(DTYPE_F16), .chunk = 64};
    options.cache.paged = paged;
    if (paged) options.cache.page_size = 16;
    options.cache.n_sequences = 2;
    Status status = model_open(path, &model, error);
    return status ? status : engine_open_model(model, &options, engine, error);
}

// How far the logits behind the session's log are from those of a session that reads it, of the largest.
static Status compare(Engine *engine, Session *s, double *apart, Error *error) {
    const int vocab = engine_model(engine)->shape.vocab_size;
    float *own = malloc((size_t)vocab * sizeof *own), *read = malloc((size_t)vocab * sizeof *read);
    double worst = 0, largest = 1e-9;
    Session *fresh = NULL;
    Status status =
        own && read ? session_logits(s, own, error) : error_set(error, STATUS_MEMORY, "no memory");
    if (!status) status = session_open(engine, &fresh, error);
    if (!status) session_set_independent(fresh);
    if (!status) status = session_sync(fresh, session_tokens(s), session_length(s), NULL, error);
    if (!status) status = session_logits(fresh, read, error);
    for (int i = 0; i < vocab && !status; i++) {
        worst = fmax(worst, isnan(own[i]) ? INFINITY : fabs((double)own[i] - read[i]));
        largest = fmax(largest, fabs((double)read[i]));
    }
    session_close(fresh);
    free(own);
    free(read);
    *apart = worst / largest;
    return status;
}

static Status draw_alone(Engine *engine, const int32_t *prompt, int32_t *ids, Error *error) {
    Session *s;
    Status status = session_open(engine, &s, error);
    if (!status) status = session_sync(s, prompt, PROMPT, NULL, error);
    for (int i = 0; i < DRAWS && !status; i++) {
        const SampleParams params = params_at(i);
        status = session_sample(s, &params, &ids[i], error);
    }
    session_close(s);
    return status;
}

// Draws behind a prompt with guesses of which most are what was drawn one by one; counts those that are right.
static Status draw_guessed(Engine *engine, double *apart, int *right, Error *error) {
    int32_t prompt[PROMPT], alone[DRAWS + GUESSES], ids[GUESSES + 1];
    const int vocab = engine_model(engine)->shape.vocab_size;
    unsigned random = 17;
    Session *s = NULL;
    for (int i = 0; i < PROMPT; i++) prompt[i] = (i * 41 + 7) % vocab;
    for (int i = 0; i < DRAWS + GUESSES; i++) alone[i] = i % vocab;
    *apart = 0, *right = 0;
    Status status = draw_alone(engine, prompt, alone, error);
    if (!status) status = session_open(engine, &s, error);
    if (!status) status = session_sync(s, prompt, PROMPT, NULL, error);
    for (int at = 0, look = 1; at < DRAWS && !status;) {
        SampleParams params[GUESSES + 1];
        int n_drawn = 1, n = at > 0 ? (int)((random = random * 1664525u + 1013904223u) >> 24) % GUESSES : 0;
        if (n > session_most_drafts(s)) n = session_most_drafts(s);
        for (int i = 0; i <= n; i++) params[i] = params_at(at + i);
        for (int i = 0; i < n; i++)
            session_guess(s, i, (random >> i) % 5 ? alone[at + i] : (alone[at + i] + 1) % vocab);
        status = n > 0 ? session_draw_guessed(s, n, params, ids, &n_drawn, error)
                       : session_draw(s, params, ids, error);
        if (status) break;
        session_push(s, ids[n_drawn - 1]);
        at += n_drawn, *right += n_drawn - 1;
        if (at < look * (DRAWS / LOOKS)) continue;
        double now;
        look++;
        status = compare(engine, s, &now, error);
        *apart = fmax(*apart, now);
    }
    session_close(s);
    return status;
}

void test_drafts(const char *root, Report *report) {
    static const char *const MODELS[] = {
        "models/llama-f16",     "models/qwen2-bf16", "architectures/gpt_neox", "dense/gemma3",
        "experts/qwen3_moe",    "experts/gpt_oss",   "latent/deepseek_v2",     "convolution/lfm2",
        "delta/qwen3_5",        "delta/qwen3_5_moe", "state_space/mamba2",     "state_space/granite4-h",
        "state_space/falcon_h1"};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++)
        for (int paged = 0; paged < 2; paged++) {
            Engine *engine = NULL;
            Error error;
            char path[400];
            double apart = 0;
            int right = 0;
            snprintf(path, sizeof path, "%s/%s", root, MODELS[m]);
            Status status = open_model(path, paged, &engine, &error);
            if (!status) status = draw_guessed(engine, &apart, &right, &error);
            if (status) printf("FAILED %s: %s\n", path, error.message);
            if (!status && right < DRAWS / 10) printf("FAILED %s: %d guesses were right\n", path, right);
            report(MODELS[m], paged ? "drafts, paged" : "drafts",
                   status || right < DRAWS / 10 ? INFINITY : apart, BOUND);
            engine_close(engine);
        }
}
