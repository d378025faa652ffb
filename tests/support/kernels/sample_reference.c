#include "tests/support/kernels/sample_reference.h"
#include "tests/support/test.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

// ---- the reference -------------------------------------------------------------------------------------

static int by_logit(const void *a, const void *b) {
    const Token *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static int by_rank(const void *a, const void *b) {
    const Token *x = a, *y = b;
    return x->rank != y->rank ? (x->rank > y->rank ? 1 : -1) : by_logit(a, b);
}

static void softmax(Token *t, int n, double temperature) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, t[i].logit);
    for (int i = 0; i < n; i++) sum += t[i].p = t[i].logit == max ? 1 : exp((t[i].logit - max) / temperature);
    for (int i = 0; i < n; i++) t[i].p /= sum;
}

// The first tokens that have mass >= p. *doubtful if rounding could have it otherwise.
static int prefix(const Token *t, int n, double p, bool *doubtful) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += t[i].p;
        if (fabs(sum - p) < 1e-6) *doubtful = true;
        if (sum >= p) return i + 1;
    }
    return n;
}

static int reference_typical(Token *t, int n, double fraction, bool *doubtful) {
    double entropy = 0;
    softmax(t, n, 1);
    for (int i = 0; i < n; i++) entropy -= t[i].p > 0 ? t[i].p * log(t[i].p) : 0;
    for (int i = 0; i < n; i++) t[i].rank = t[i].p > 1e-12 ? fabs(-log(t[i].p) - entropy) : INFINITY;
    qsort(t, (size_t)n, sizeof *t, by_rank);
    int kept = prefix(t, n, fraction, doubtful);
    for (int i = 1; i < n && i <= kept; i++) // nearly equal ranks on both sides of the mean
        if (t[i].logit != t[i - 1].logit && fabs(t[i].rank - t[i - 1].rank) < 1e-5) *doubtful = true;
    qsort(t, (size_t)kept, sizeof *t, by_logit);
    return kept;
}

int reference(const float *logits, int n_vocab, const SampleParams *params, Token *t) {
    bool doubtful = false;
    int n = 0;
    for (int i = 0; i < n_vocab; i++) {
        float l = logits[i];
        for (int a = 0; a < params->n_adjustments; a++) {
            LogitAdjustment x = params->adjustments[a];
            if (x.id == i) l = (l > 0 ? l / x.divide : l * x.divide) - x.subtract;
        }
        if (l > -INFINITY) t[n++] = (Token){.id = i, .logit = (double)l};
    }
    qsort(t, (size_t)n, sizeof *t, by_logit);
    if (params->temperature == 0) {
        t[0].p = 1;
        return 1;
    }
    if (params->top_k > 0 && params->top_k < n) n = params->top_k;
    if (params->typical_p < 1) n = reference_typical(t, n, (double)params->typical_p, &doubtful);
    softmax(t, n, 1);
    if (params->top_p < 1) n = prefix(t, n, (double)params->top_p, &doubtful);
    softmax(t, n, 1);
    int kept = 0;
    while (kept < n && t[kept].p >= (double)params->min_p * t[0].p) kept++;
    for (int i = 0; i < n; i++)
        if (fabs(t[i].p / t[0].p - (double)params->min_p) < 1e-6 * (double)params->min_p) doubtful = true;
    softmax(t, kept, (double)params->temperature);
    return doubtful ? -1 : kept;
}

// ---- random rows ---------------------------------------------------------------------------------------

uint32_t random_bits(Fixture *f) {
    return philox_bits(20260731, 7, f->random++);
}
double random_unit(Fixture *f) {
    return (random_bits(f) + 0.5) * 0x1p-32;
}
int random_below(Fixture *f, int n) {
    return (int)(random_unit(f) * n);
}

double random_normal(Fixture *f) {
    double u = random_unit(f), v = random_unit(f);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void random_row(Fixture *f, int n) {
    int kind = random_below(f, 5);
    double spread = kind == 3 ? 0.01 : 0.5 + 4 * random_unit(f);
    for (int i = 0; i < n; i++) {
        double l = spread * random_normal(f);
        if (kind == 1) l = rint(l * 2) / 2;
        f->logits[i] = kind == 4 && random_below(f, 3) ? -INFINITY : (float)l;
    }
    if (kind == 2)
        for (int i = 0; i < 5; i++) f->logits[random_below(f, n)] += (float)(4 + 4 * random_unit(f));
    f->logits[random_below(f, n)] = 1; // one is finite
}

SampleParams plain_params(void) {
    return (SampleParams){.temperature = 1, .top_p = 1, .typical_p = 1};
}

int32_t draw(Fixture *f, int n, const SampleParams *params) {
    Error error = {0};
    int32_t id = -1;
    Status status = sample_logits(f->logits, n, f->scratch, params, &id, &error);
    if (status != STATUS_OK) fail_msg("%s", error.message);
    return id;
}

void random_params(Fixture *f, SampleParams *params, int n) {
    params->temperature = (float)(4 * random_unit(f));
    if (random_below(f, 3)) params->top_k = 1 + random_below(f, n < 100 ? n : 100);
    if (random_below(f, 3)) params->top_p = (float)(0.5 + 0.5 * random_unit(f));
    if (random_below(f, 3)) params->typical_p = (float)(0.5 + 0.5 * random_unit(f));
    if (random_below(f, 3)) params->min_p = (float)(0.2 * random_unit(f));
    if (!random_below(f, 8)) params->temperature = 0;
}

// ---- the fixture ---------------------------------------------------------------------------------------

int fixture_set_up(void **state) {
    Fixture *f = calloc(1, sizeof *f);
    Error error;
    *state = f;
    if (!f || sample_scratch_open(MAX_VOCAB, &f->scratch, &error) != STATUS_OK) return -1;
    f->logits = malloc(MAX_VOCAB * sizeof *f->logits);
    f->candidates = malloc(MAX_VOCAB * sizeof *f->candidates);
    f->tokens = malloc(MAX_VOCAB * sizeof *f->tokens);
    return f->logits && f->candidates && f->tokens ? 0 : -1;
}

int fixture_tear_down(void **state) {
    Fixture *f = *state;
    sample_scratch_close(f->scratch);
    free(f->logits);
    free(f->candidates);
    free(f->tokens);
    free(f);
    return 0;
}
