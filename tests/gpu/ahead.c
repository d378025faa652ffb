// The step ahead on the GPU: the same tokens, logs and logits, to the bit, as where each step waits for its token; by the
// persistent kernel and by graphs, in one page and in pages; and many conversations at once.
#include "engine/model/model.h"
#include "tests/gpu/engine_tests.h"
#include "tests/support/acts.h"

#include <math.h>
#include <stdio.h>

enum { CONTEXT = 200, ACTS = 400 };

static Status open_sides(const char *model, bool paged, Engine *engines[2], Error *error) {
    Status status = STATUS_OK;
    engines[0] = engines[1] = NULL;
    for (int i = 0; i < 2 && !status; i++) {
        Model *opened;
        EngineOptions options = {.device = "cuda",
                                 .context_size = CONTEXT,
                                 .cache = cache_options(DTYPE_F16),
                                 .chunk = 64,
                                 .no_steps_ahead = i == 1};
        options.cache.paged = paged;
        if (paged) options.cache.page_size = 64;
        options.cache.n_sequences = 3;
        status = model_open(model, &opened, error);
        if (!status) status = engine_open_model(opened, &options, &engines[i], error);
    }
    return status;
}

void test_steps_ahead(const char *root, Report *report) {
    static const char *const MODELS[] = {"models/llama-f16", "models/qwen2-bf16", "architectures/gpt_neox",
                                         "architectures/llama-dynamic"};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++)
        for (int paged = 0; paged < 2; paged++) {
            Engine *engines[2];
            Error error;
            char model[400], first[200] = "";
            snprintf(model, sizeof model, "%s/%s", root, MODELS[m]);
            Status status = open_sides(model, paged, engines, &error);
            if (status) printf("FAILED %s: %s\n", model, error.message);
            int wrong = status ? 1 : acts_compare(engines, 31 + m, ACTS, first, sizeof first);
            if (*first) printf("FAILED %s: %s\n", model, first);
            report(MODELS[m], paged ? "ahead, paged" : "ahead", wrong, 0);
            engine_close(engines[0]);
            engine_close(engines[1]);
        }
}
