// Layers that differ in their heads, experts beside a dense part (Gemma 4), and layers that convolve (LFM 2): what such a cache holds comes back, pages
// and threads do not show, weights may be converted.
#include "engine/engine_internal.h"
#include "tests/support/files.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 56, N_IDS = 40, N_KEPT = 33, ANY = -1 };

static Error error;
static const char *const NAMES[] = {"convolution/lfm2", "convolution/lfm2-own", "dense/gemma4",
                                    "dense/gemma4-e", "dense/gemma4-moe"};

enum { N_NAMES = sizeof NAMES / sizeof *NAMES };

typedef struct Setting {
    int layout, n_threads;
    bool paged;
    DType cache;
    WeightType weights;
} Setting;

static Engine *open_with(const char *name, Setting setting) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", GOLDEN, name);
    // What a conversion costs is told by exact products.
    EngineOptions options = {.device = setting.weights ? "cpu:exact" : "cpu",
                             .n_threads = setting.n_threads,
                             .context_size = 64,
                             .cache = cache_options(setting.cache),
                             .weights = setting.weights,
                             .chunk = 16};
    options.cache.layout = setting.layout, options.cache.paged = setting.paged, options.cache.page_size = 16;
    return sessions_engine(path, &options);
}

static const int32_t *ids(void) {
    static int32_t all[N_IDS];
    for (int i = 0; i < N_IDS; i++) all[i] = (i * 37 + 5) % VOCAB;
    return all;
}

static void read_in(Session *session, int n, int evaluated, float logits[VOCAB]) {
    SyncReport report;
    if (session_sync(session, ids(), n, &report, &error) || session_logits(session, logits, &error))
        fail_msg("%s", error.message);
    if (evaluated != ANY) assert_int_equal(report.evaluated, evaluated);
}

// What was cached comes back from a file: what follows it is the same, bit by bit.
static void caches_come_back(void **state) {
    (void)state;
    char *folder = folder_new(), path[4096];
    snprintf(path, sizeof path, "%s/talk.kv", folder);
    for (int i = 0; i < 8 * N_NAMES; i++) {
        const Setting setting = {
            .layout = i % 4, .n_threads = 1, .paged = i / 4 % 2, .cache = i % 2 ? DTYPE_F16 : DTYPE_INT8};
        Engine *engines[] = {open_with(NAMES[i / 8], setting), open_with(NAMES[i / 8], setting)};
        sessions_come_back(engines, ids(), N_KEPT, N_IDS, path);
        for (int k = 0; k < 2; k++) engine_close(engines[k]);
    }
    folder_remove(folder);
}

// Nor do layouts; a text that is cut and told again gives what it gave.
static void pages_and_threads_do_not_show(void **state) {
    (void)state;
    for (int n = 0; n < N_NAMES; n++) {
        float expected[VOCAB], logits[VOCAB];
        for (int i = 0; i < 8; i++) {
            const Setting setting = {
                .layout = i % 4, .n_threads = 1 + i % 3, .paged = i / 4, .cache = DTYPE_F32};
            Engine *engine = open_with(NAMES[n], setting);
            Session *session = sessions_open(engine);
            read_in(session, N_IDS, N_IDS, i == 0 ? expected : logits);
            if (i > 0) assert_memory_equal(logits, expected, sizeof logits);
            if (session_sync(session, ids(), 16, NULL, &error)) fail_msg("%s", error.message);
            read_in(session, N_IDS, ANY, logits); // pages keep the rest
            assert_true(golden_distance(logits, expected, VOCAB) < 1e-5);
            session_close(session);
            engine_close(engine);
        }
    }
}

// The dense part beside experts is converted as they are; its norms stay. Rounding is all that changes.
static void converted_weights(void **state) {
    (void)state;
    static const struct {
        WeightType plan;
        DType type;
        double bound;
    } WAYS[] = {{WEIGHTS_BF16, DTYPE_BF16, 5e-2}, {WEIGHTS_INT8, DTYPE_W8, 0.3}};
    for (int i = 0; i < 2 * N_NAMES - 1;
         i++) { // the last one's experts have rows of 40, which int8 does not hold
        const char *name = NAMES[i / 2];
        GoldenSet set;
        if (golden_model_read(GOLDEN, name, &set, &error)) fail_msg("%s", error.message);
        const GoldenCase *c = &set.cases[0];
        const size_t count = (size_t)c->n * (size_t)c->vocab;
        float *logits = malloc(count * sizeof *logits);
        Engine *engine =
            open_with(name, (Setting){.n_threads = 2, .cache = DTYPE_F32, .weights = WAYS[i % 2].plan});
        const LayerWeights *w = &engine->model->layers[0];
        assert_int_equal(w->w_down.type, WAYS[i % 2].type);
        if (w->router.data) {
            assert_int_equal(w->w_gate.type, w->shared_gate.type);
            assert_int_not_equal(w->router_norm.type, DTYPE_W8);
        }
        if (golden_model_evaluate(engine, c, 7, logits, &error)) fail_msg("%s", error.message);
        const double distance = golden_distance(logits, c->expected, count);
        print_message("%s, %s: %.2g\n", name, dtype_name(WAYS[i % 2].type), distance);
        assert_true(distance <= WAYS[i % 2].bound);
        engine_close(engine);
        free(logits);
        golden_model_free(&set);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_come_back),
        cmocka_unit_test(pages_and_threads_do_not_show),
        cmocka_unit_test(converted_weights),
    };
    return test_main("layer_heads", argc, argv, tests);
}
