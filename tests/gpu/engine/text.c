// Greedy text, GPU against CPU. The plain loops' own greedy continuation is what all are given, token by token, so that
// a first difference does not hide what comes after it. Decoding quantised weights rounds activations to 8 bits, on the
// GPU as in the CPU's fast loops: how far that moves the logits of the latter is the measure of a tie.
#include "tests/gpu/engine/engine_tests.h"
#include "engine/engine.h"
#include "engine/model/model.h"
#include "tokenizer/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TOKENS = 256, CONTEXT = 512 };
static const char PROMPT[] = "The lighthouse keeper opened his diary and wrote:";

typedef struct Text {
    int32_t ids[CONTEXT];
    int n_prompt, vocab;
} Text;

static int largest(const float *row, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

static double difference(const float *a, const float *b, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most)) most = d; // NaN stays
    }
    return most;
}

static double mean_difference(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(sum / (double)n);
}

static Status open_session(const char *path, const char *device, Engine **engine, Session **session,
                           Error *error) {
    EngineOptions options = {
        .model = path, .device = device, .context_size = CONTEXT, .cache = cache_options(DTYPE_F16)};
    Status status = engine_open(&options, engine, error);
    return status ? status : session_open(*engine, session, error);
}

static Status begin_text(const Engine *engine, Text *text, Error *error) {
    Tokens tokens = {0};
    Status status =
        tokenizer_encode(engine_tokenizer(engine), PROMPT, sizeof PROMPT - 1, false, &tokens, error);
    if (!status && tokens.n > CONTEXT - N_TOKENS)
        status = error_set(error, STATUS_CONTEXT, "%lld tokens", (long long)tokens.n);
    if (status) return status;
    memcpy(text->ids, tokens.ids, (size_t)tokens.n * sizeof *tokens.ids);
    text->n_prompt = (int)tokens.n;
    text->vocab = engine_model(engine)->shape.vocab_size;
    tokens_free(&tokens);
    return STATUS_OK;
}

// Logits [N_TOKENS, vocab] before each of the text's tokens, one step a token. With `choose` the tokens are the
// greedy ones of these logits, else those that stand there.
static Status follow(const char *path, const char *device, Text *text, bool choose, float **logits,
                     Error *error) {
    Engine *engine = NULL;
    Session *session = NULL;
    *logits = NULL;
    Status status = open_session(path, device, &engine, &session, error);
    if (!status && choose) status = begin_text(engine, text, error);
    if (!status) *logits = malloc((size_t)N_TOKENS * (size_t)text->vocab * sizeof **logits);
    for (int i = 0; i < N_TOKENS && !status; i++) {
        float *row = *logits + (int64_t)i * text->vocab;
        status = session_sync(session, text->ids, text->n_prompt + i, NULL, error);
        if (!status) status = session_logits(session, row, error);
        if (!status && choose) text->ids[text->n_prompt + i] = largest(row, text->vocab);
    }
    session_close(session);
    engine_close(engine);
    return status;
}

static double largest_magnitude(const float *values, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabs((double)values[i]) > most) most = fabs((double)values[i]);
    return most;
}

// The same logits out of one reading of the whole text.
static Status read_at_once(const char *path, Text *text, float **logits, Error *error) {
    Engine *engine = NULL;
    Session *session = NULL;
    *logits = malloc((size_t)N_TOKENS * (size_t)text->vocab * sizeof **logits);
    Status status = open_session(path, "cuda", &engine, &session, error);
    if (!status)
        status = session_logits_of(session, text->ids, text->n_prompt + N_TOKENS - 1, text->n_prompt - 1,
                                   *logits, error);
    session_close(session);
    engine_close(engine);
    return status;
}

// Counts the tokens that differ; those whose gap in `right` rounding cannot explain are failures.
static void compare(const char *what, const Text *text, const float *right, const float *ours,
                    double rounding, Report *report) {
    int equal = 0, wrong = 0;
    for (int i = 0; i < N_TOKENS; i++) {
        const float *r = right + (int64_t)i * text->vocab, *o = ours + (int64_t)i * text->vocab;
        int a = text->ids[text->n_prompt + i], b = largest(o, text->vocab);
        if (a == b) {
            equal++;
            continue;
        }
        bool tie = (double)r[a] - (double)r[b] <= 2 * rounding;
        if (!tie) wrong++;
        printf("%s, token %d: %d (logits %.4f, here %.4f), here %d (%.4f, here %.4f): %s within 2 x %.4f\n",
               what, i, a, r[a], o[a], b, r[b], o[b], tie ? "a tie" : "NO tie", rounding);
    }
    printf("%s: %d of %d greedy ids equal; logits differ by at most %.4f, rounding by %.4f\n", what, equal,
           N_TOKENS, difference(right, ours, (int64_t)N_TOKENS * text->vocab), rounding);
    report("greedy text", what, wrong, 0);
}

void test_greedy_text(const char *path, Report *report) {
    Text text;
    Error error;
    float *right = NULL, *fast = NULL, *ours = NULL, *read = NULL;
    Status status = follow(path, "cpu:reference", &text, true, &right, &error);
    if (!status) status = follow(path, "cpu", &text, false, &fast, &error);
    if (!status) status = follow(path, "cuda", &text, false, &ours, &error);
    if (!status) status = read_at_once(path, &text, &read, &error);
    if (status) {
        printf("FAILED %s\n", error.message);
        report("greedy text", "run", NAN, 0);
    } else {
        int64_t n = (int64_t)N_TOKENS * text.vocab;
        const double eight = difference(right, fast, n), scale = largest_magnitude(right, n);
        compare("decode", &text, right, ours, eight, report);
        printf("rounding moves a logit by %.4f in the mean on the CPU, by %.4f on the GPU\n",
               mean_difference(right, fast, n), mean_difference(right, ours, n));
        report("greedy text", "decode logits", mean_difference(right, ours, n),
               1.5 * mean_difference(right, fast, n));
        // Reading multiplies in 16 bits: 11 of mantissa, sums in float32, some thirty layers.
        compare("read", &text, right, read, 4e-3 * scale, report);
        report("greedy text", "read logits", difference(right, read, n), 4e-3 * scale);
    }
    free(right);
    free(fast);
    free(ours);
    free(read);
}

void test_text_on_cards(const char *path, const char *one, const char *several, Report *report) {
    Text text;
    Error error;
    float *right = NULL, *ours = NULL;
    Status status = follow(path, one, &text, true, &right, &error);
    if (!status) status = follow(path, several, &text, false, &ours, &error);
    if (status) {
        printf("FAILED %s on %s: %s\n", path, several, error.message);
        report("greedy text", several, NAN, 0);
    } else {
        const int64_t n = (int64_t)N_TOKENS * text.vocab;
        const double rounding = 4e-3 * largest_magnitude(right, n); // of 16 bits, as above
        compare(several, &text, right, ours, rounding, report);
        report("greedy text", "cards' logits", difference(right, ours, n), rounding);
    }
    free(right);
    free(ours);
}
