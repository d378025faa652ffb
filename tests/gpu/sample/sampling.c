#include "tests/gpu/sample/sampling.h"

#include "kernels/cpu/sample/sample.h"
#include "tests/gpu/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 8, ADJUSTED = 40, ALL = -1, ALL_BUT_ONE = -2 }; // the last two: of top_k

static const SampleParams PARAMS[] = {
    {.temperature = 0, .top_p = 1, .typical_p = 1},
    {.temperature = 0.8f, .top_p = 0.95f, .min_p = 0.05f, .typical_p = 1, .top_k = 40},
    {.temperature = 1, .top_p = 1, .typical_p = 1, .top_k = 1},
    {.temperature = 1, .top_p = 1, .typical_p = 1, .top_k = 256},
    {.temperature = 1, .top_p = 0.9f, .typical_p = 1},
    {.temperature = 1.5f, .top_p = 1, .typical_p = 1},
    {.temperature = 0.7f, .top_p = 1, .min_p = 0.1f, .typical_p = 1},
    {.temperature = 1, .top_p = 0.8f, .min_p = 0.02f, .typical_p = 0.7f, .top_k = 100},
    {.temperature = 2, .top_p = 0.99f, .typical_p = 0.9f},
    {.temperature = 1, .top_p = 1, .typical_p = 1, .top_k = 1000},
    // What takes the whole row.
    {.temperature = 1, .top_p = 1, .typical_p = 1, .top_k = 257},
    {.temperature = 3, .top_p = 0.9f, .min_p = 0.01f, .typical_p = 1, .top_k = 20000},
    {.temperature = 1, .top_p = 1, .typical_p = 1, .top_k = ALL},
    {.temperature = 1, .top_p = 1, .typical_p = 1, .top_k = ALL_BUT_ONE},
    {.temperature = 0.5f, .top_p = 0.7f, .typical_p = 0.95f, .top_k = ALL_BUT_ONE},
    {.temperature = 1, .top_p = 1, .typical_p = 1, .top_k = INT32_MAX},
    {.temperature = 1, .top_p = 1, .typical_p = 0},
    {.temperature = 1, .top_p = 1, .typical_p = 0.2f},
    {.temperature = 1, .top_p = 1, .typical_p = 0.5f},
    {.temperature = 1.3f, .top_p = 0.9f, .min_p = 0.1f, .typical_p = 0.8f},
    {.temperature = 1, .top_p = 1, .typical_p = 0.9999f},
    {.temperature = 100, .top_p = 0.9999f, .typical_p = 1},
    {.temperature = 0.01f, .top_p = 1, .typical_p = 1},
    {.temperature = 1, .top_p = 0, .typical_p = 1},
    {.temperature = 1, .top_p = 1, .min_p = 1, .typical_p = 1},
    {.temperature = 1, .top_p = 1, .min_p = 1e-6f, .typical_p = 1},
    {.temperature = 1, .top_p = 0, .min_p = 1, .typical_p = 0, .top_k = 1},
};

static SampleParams params_of(size_t i, int n_vocab) {
    SampleParams params = PARAMS[i];
    if (params.top_k == ALL) params.top_k = n_vocab;
    if (params.top_k == ALL_BUT_ONE) params.top_k = n_vocab - 1;
    return params;
}

// Kinds of rows: a few likely tokens, flat, many ties, with infinities; all equal, all but one impossible, every
// other one the largest, far apart.
static void fill_row(float *row, int n, int kind, uint64_t *state) {
    for (int i = 0; i < n; i++) {
        float v = random_normal(state);
        row[i] = kind == 0 ? 4 * v : kind == 1 ? 0.1f * v : kind == 2 ? floorf(2 * v) : v;
        if (kind == 3 && i % 7 == 0) row[i] = -INFINITY;
        if (kind == 4 || (kind == 6 && i % 2)) row[i] = 5;
        if (kind == 5) row[i] = -INFINITY;
        if (kind == 7) row[i] = 1e30f * v;
    }
    if (kind == 5) row[n - 1 - n / 3] = -2;
    if (kind == 0) row[n / 2] += 12;
    if (kind == 3) row[n / 3] = INFINITY;
}

// Where rows of logits are sampled: `memory` on the backend, and beside it on the CPU.
typedef struct Sampled {
    const Ops *cuda;
    Backend *backend;
    float *memory;
    SampleScratch *scratch;
    int n_vocab;
    const char *name;
    Report *report;
} Sampled;

static void compare_row(const Sampled *on, const float *row) {
    const int n = on->n_vocab;
    Error error;
    LogitAdjustment adjustments[ADJUSTED];
    const int adjusted = n < ADJUSTED ? n : ADJUSTED;
    for (int i = 0; i < adjusted; i++)
        adjustments[i] = (LogitAdjustment){i * (n / adjusted), 1.1f, i % 3 ? 0.5f : -0.25f};
    if (adjusted > 7) adjustments[7].subtract = INFINITY;
    on->cuda->write(on->backend, on->memory, row, (size_t)n * sizeof *row, &error);
    uint32_t *allowed = calloc((size_t)n / 32 + 1, sizeof *allowed); // every third token, and the last
    for (int i = 0; i < n; i++) allowed[i / 32] |= (uint32_t)(i % 3 == 1 || i == n - 1) << (i % 32);
    for (size_t p = 0; p < sizeof PARAMS / sizeof *PARAMS; p++)
        for (int draw = 0; draw < 6; draw++) {
            SampleParams params = params_of(p, n);
            params.seed = 7, params.conversation = p, params.position = (uint64_t)draw;
            params.adjustments = adjustments;
            params.n_adjustments = draw % 2 ? adjusted : 0;
            params.allowed = draw > 3 ? allowed : NULL;
            int32_t right = -1, ours = -2;
            Status a = sample_logits(row, n, on->scratch, &params, &right, &error);
            Status b = on->cuda->sample(on->backend, on->memory, 1, &params, &ours, &error);
            char what[32];
            snprintf(what, sizeof what, "sample %zu", p);
            if (a == STATUS_DEVICE) a = STATUS_OK; // `right` says that there is nothing
            on->report(on->name, what, a != b || (!a && right != ours), 0);
        }
    free(allowed);
}

enum { MOST_ROWS = 65 }; // one more than a launch brings along

// Rows in one call give what each gives by itself, whatever their settings: the first `settings` of them. Of rows of the
// first three, few candidates each, the kernel gives each fewer blocks.
static void compare_rows(const Sampled *on, size_t settings) {
    const Ops *cuda = on->cuda;
    Backend *backend = on->backend;
    float *memory = on->memory;
    const int n_vocab = on->n_vocab;
    SampleParams params[MOST_ROWS];
    int32_t together[MOST_ROWS], alone;
    LogitAdjustment adjustments[2] = {{0, 1.3f, 0.5f}, {n_vocab - 1, 1, INFINITY}};
    Error error;
    uint32_t *allowed = calloc((size_t)n_vocab / 32 + 1, sizeof *allowed);
    for (int i = 0; i < n_vocab; i += 2) allowed[i / 32] |= 1u << (i % 32);
    float *rows = malloc((size_t)n_vocab * MOST_ROWS * sizeof *rows);
    uint64_t state = 78;
    for (int i = 0; i < MOST_ROWS; i++) {
        fill_row(rows + (int64_t)i * n_vocab, n_vocab, i % KINDS, &state);
        params[i] = params_of((size_t)i / 3 % settings, n_vocab);
        params[i].seed = 7, params[i].conversation = (uint64_t)i, params[i].position = 3;
        params[i].n_adjustments = i % 5 == 2 && n_vocab > 1 ? 2 : 0, params[i].adjustments = adjustments;
        params[i].allowed = i % 4 == 3 ? allowed : NULL;
    }
    for (int i = 0; i < n_vocab; i++) rows[(int64_t)9 * n_vocab + i] = -INFINITY;
    rows[(int64_t)20 * n_vocab + n_vocab / 2] = NAN;
    cuda->write(backend, memory, rows, (size_t)n_vocab * MOST_ROWS * sizeof *rows, &error);
    for (int n = 1; n <= MOST_ROWS; n = n < 4 || n >= 64 ? n + 1 : n * 4) {
        int wrong = cuda->sample(backend, memory, n, params, together, &error) != STATUS_OK;
        for (int i = 0; i < n && !wrong; i++)
            wrong += cuda->sample(backend, memory + (int64_t)i * n_vocab, 1, &params[i], &alone, &error) !=
                         STATUS_OK ||
                     alone != together[i];
        on->report(on->name, "rows", wrong, 0);
        if (n > 20)
            on->report(on->name, "bad rows", together[9] != SAMPLE_NOTHING || together[20] != SAMPLE_NAN, 0);
    }
    free(allowed);
    free(rows);
}

void test_sampling(const Ops *cuda, Report *report) {
    static const int SIZES[] = {1, 31, 32, 33, 40, 64, 257, 1000, 4096, 32000, 49152, 128256, 262144};
    for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
        Case c = {"sample", DTYPE_F32, 64, 1, 1, 64, 64, SIZES[s], .n_tokens = 1, .kv = DTYPE_F16};
        TestModel model;
        model_fill(&model, &c, 5);
        BackendOptions options = {
            .device = "cuda", .shape = &model.shape, .max_tokens = 1, .max_logits = MOST_ROWS};
        Backend *backend;
        Error error;
        void *memory = NULL;
        SampleScratch *scratch;
        if (cuda->open(&options, &backend, &error) || sample_scratch_open(c.vocab, &scratch, &error) ||
            cuda->alloc(backend, (size_t)c.vocab * MOST_ROWS * sizeof(float), &memory, &error)) {
            printf("FAILED %s\n", error.message);
            return report("sample", "open", NAN, 0);
        }
        float *row = malloc((size_t)c.vocab * sizeof *row);
        uint64_t state = 77;
        char name[32];
        snprintf(name, sizeof name, "vocabulary of %d", c.vocab);
        const Sampled on = {cuda, backend, memory, scratch, c.vocab, name, report};
        for (int kind = 0; kind < KINDS; kind++) {
            fill_row(row, c.vocab, kind, &state);
            compare_row(&on, row);
        }
        compare_rows(&on, sizeof PARAMS / sizeof *PARAMS);
        compare_rows(&on, 3);
        row[c.vocab - 1] = NAN;
        int32_t id = 0;
        cuda->write(backend, memory, row, (size_t)c.vocab * sizeof *row, &error);
        report(name, "NaN", cuda->sample(backend, memory, 1, &PARAMS[1], &id, &error) || id != SAMPLE_NAN, 0);
        for (int i = 0; i < c.vocab; i++) row[i] = -INFINITY;
        cuda->write(backend, memory, row, (size_t)c.vocab * sizeof *row, &error);
        report(name, "nothing",
               cuda->sample(backend, memory, 1, &PARAMS[0], &id, &error) || id != SAMPLE_NOTHING, 0);
        free(row);
        sample_scratch_close(scratch);
        cuda->free(backend, memory);
        cuda->close(backend);
        model_free(&model);
    }
}
