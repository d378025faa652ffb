// What a mask of allowed tokens adds to a draw: test-gpu PLUGIN sample-speed prints microseconds a call, by rows,
// settings and mask, at a vocabulary of 129,280. Logits lie on the device; bits come from the host, as a grammar has
// them.
#include "tests/gpu/model/model.h"
#include "tests/gpu/sample/sampling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VOCABULARY = 129280, MOST_ROWS = 32, CALLS = 400 };

typedef struct Bench {
    const Ops *ops;
    Backend *backend;
    float *logits; // [MOST_ROWS*VOCABULARY] on the device
} Bench;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

// The median of calls, each of which is waited for.
static double measure(const Bench *on, int n_rows, const SampleParams *like, const uint32_t *allowed) {
    SampleParams params[MOST_ROWS];
    int32_t ids[MOST_ROWS];
    double times[CALLS];
    Error error;
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < n_rows; i++) {
            params[i] = *like;
            params[i].conversation = (uint64_t)i, params[i].position = (uint64_t)call;
            params[i].allowed = allowed;
        }
        const double begin = seconds();
        if (on->ops->sample(on->backend, on->logits, n_rows, params, ids, &error)) {
            printf("FAILED %s\n", error.message);
            exit(1);
        }
        times[call] = 1e6 * (seconds() - begin);
    }
    qsort(times, CALLS, sizeof *times, by_value);
    return times[CALLS / 2];
}

static void print_times(const Bench *on) {
    static const struct {
        const char *name;
        SampleParams params;
    } all[] = {{"greedy", {.temperature = 0, .top_p = 1, .typical_p = 1}},
               {"top_k 40, top_p 0.95",
                {.temperature = 0.8f, .top_p = 0.95f, .typical_p = 1, .top_k = 40, .seed = 7}},
               {"temperature 1", {.temperature = 1, .top_p = 1, .typical_p = 1, .seed = 7}}};
    static uint32_t masks[3][VOCABULARY / 32]; // all, every second, every 10,000th
    memset(masks[0], 0xFF, sizeof masks[0]);
    for (int id = 0; id < VOCABULARY; id++) {
        masks[1][id / 32] |= (uint32_t)(id % 2) << (id % 32);
        masks[2][id / 32] |= (uint32_t)(id % 10000 == 9) << (id % 32);
    }
    printf("| rows | settings | no mask | all allowed | every second | 13 tokens "
           "|\n|---|---|---|---|---|---|\n");
    for (int rows = 1; rows <= MOST_ROWS; rows *= 32)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            printf("| %d | %s | %.1f", rows, all[i].name, measure(on, rows, &all[i].params, NULL));
            for (int k = 0; k < 3; k++) printf(" | %.1f", measure(on, rows, &all[i].params, masks[k]));
            printf(" |\n");
        }
}

void sample_speed(const Ops *cuda) {
    Case c = {"sample", DTYPE_F32, 64, 1, 1, 64, 64, VOCABULARY, .n_tokens = 1, .kv = DTYPE_F16};
    TestModel model;
    model_fill(&model, &c, 5);
    BackendOptions options = {
        .device = "cuda", .shape = &model.shape, .max_tokens = 1, .max_logits = MOST_ROWS};
    Bench on = {.ops = cuda};
    Error error;
    void *memory = NULL;
    const size_t n = (size_t)VOCABULARY * MOST_ROWS;
    float *logits = malloc(n * sizeof *logits);
    if (!logits || cuda->open(&options, &on.backend, &error) ||
        cuda->alloc(on.backend, n * sizeof *logits, &memory, &error)) {
        printf("FAILED %s\n", error.message);
        exit(1);
    }
    uint64_t state = 77;
    for (size_t i = 0; i < n; i++) logits[i] = 4 * random_normal(&state);
    cuda->write(on.backend, memory, logits, n * sizeof *logits, &error);
    free(logits);
    on.logits = memory;
    print_times(&on);
    cuda->free(on.backend, memory);
    cuda->close(on.backend);
    model_free(&model);
}
