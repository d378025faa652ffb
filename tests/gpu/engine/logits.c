#include "tests/gpu/engine/engine_tests.h"
#include "tests/support/model/golden_model.h"
#include "engine/model/model.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Quantised weights meet activations of 8 bits in decoding: with these sharp random weights that moves the logits by
// some percent (tests/engine/test_forward.c has the same bound for the CPU's fast loops).
#define QUANTIZED_BOUND 0.05

// Whether all is within the bound.
static bool test_case(Engine *engine, const char *model, const GoldenCase *c, double bound, Report *report) {
    bool within = true;
    static const int STEPS[] = {1, 7, 64};
    size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    Error error;
    for (int i = 0; i < 3; i++) {
        char what[48];
        memset(logits, 0xff, count * sizeof *logits);
        Status status = golden_model_evaluate(engine, c, STEPS[i], logits, &error);
        if (status) printf("FAILED %s: %s\n", model, error.message);
        snprintf(what, sizeof what, "%s by %d, %s", c->name, STEPS[i], dtype_name(engine_cache_type(engine)));
        const double distance = status ? NAN : golden_distance(logits, c->expected, count);
        report(model, what, distance, bound);
        within = within && distance <= bound;
    }
    free(logits);
    return within;
}

// A device, and every which model is evaluated on it.
typedef struct Where {
    const char *device;
    int every;
    bool some; // it cannot take all models
    Report *report;
} Where;

// Biases of layers that recur, which no published model has: they run on the CPU.
static bool is_refused(const char *model) {
    return !strcmp(model, "mamba2-biased");
}

static bool test_model(const Where *where, const char *root, const char *model, const char *golden,
                       const char *golden_of, DType cache) {
    Error error;
    GoldenSet set;
    Engine *engine = NULL;
    Report *report = where->report;
    Status status = golden_model_read(golden, golden_of, &set, &error);
    if (!status) status = golden_model_open(root, model, where->device, cache, &engine, &error);
    if (status && !((where->some || is_refused(model)) && status == STATUS_UNSUPPORTED)) {
        printf("FAILED %s\n", error.message);
        report(model, "open", NAN, 0);
    }
    bool within = !status;
    for (int i = 0; i < set.n && !status; i++) {
        const GoldenCase *c = &set.cases[i];
        if (!strcmp(c->name, "made")) continue; // of FP8 by FP8: steps of few tokens are finer here
        const Model *m = engine_model(engine);
        // What expands latents is held in 16 bits where the file has it in blocks.
        const bool halves = m->shape.latent.rank > 0 && m->layers[0].k_up.type != DTYPE_F32;
        bool exact = model_main_type(m) == DTYPE_F32 && cache == DTYPE_F32 && !halves;
        double bound = exact ? 1e-4 : isnan(c->half_error) ? QUANTIZED_BOUND : c->half_error;
        within = test_case(engine, model, c, bound, report) && within;
    }
    engine_close(engine);
    golden_model_free(&set);
    return within;
}

static bool there_is(const char *root, const char *name, const char *inside) {
    char path[800];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s%s", root, name, inside);
    return stat(path, &status) == 0;
}

// A folder NAME with a config.json, or a file NAME.gguf, whose logits are those of NAME/golden.json.
static bool is_model(const char *root, const char *name, char golden_of[256]) {
    const char *end = strstr(name, ".gguf");
    const bool whole = end && !end[strlen(".gguf")];
    snprintf(golden_of, 256, "%.*s", (int)(whole ? end - name : (ptrdiff_t)strlen(name)), name);
    return name[0] != '.' && there_is(root, golden_of, "/golden.json") &&
           (whole || there_is(root, name, "/config.json"));
}

// All models of ROOT/FOLDER, with caches in float32 and float16, in the order of their names.
static void test_folder(const Where *where, const char *root, const char *folder) {
    char path[400], golden_of[256];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/%s", root, folder);
    const int n = scandir(path, &entries, NULL, alphasort);
    int n_models = 0;
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (is_model(path, name, golden_of)) {
            const bool chosen = n_models++ % where->every == 0;
            bool within = chosen && test_model(where, path, name, path, golden_of, DTYPE_F32);
            within = chosen && test_model(where, path, name, path, golden_of, DTYPE_F16) && within;
            if (within && !where->some) printf("within bounds: %s/%s\n", folder, name);
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    where->report(folder, "models", n_models > 0 ? 0 : NAN, 0);
}

void test_golden_on(const char *root, const char *device, int every, Report *report) {
    const Where where = {device, every, strcmp(device, "cuda") != 0, report};
    static const char *const FOLDERS[] = {"latent", "models", "architectures", "convolution", "state_space",
                                          "delta",  "dense",  "experts",       "quantized"};
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++) test_folder(&where, root, FOLDERS[i]);
    // The one that comes with palaver lies beside the tests, and in a bundle.
    test_model(&where, "assets", "parley-9m", root, "parley", DTYPE_F32);
    test_model(&where, "assets", "parley-9m", root, "parley", DTYPE_F16);
}

void test_golden_logits(const char *root, Report *report) {
    test_golden_on(root, "cuda", 1, report);
}
