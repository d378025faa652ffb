// Where layers lie, in words.
#include "app/loading/plan_shown.h"
#include "engine/model/model.h"
#include "tests/support/kernels/random.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

static void show(int device_layers, int expert_layers, char text[PLAN_ROOM]) {
    Error error;
    Model *model;
    Engine *engine;
    const EngineOptions options = {.device = "cpu",
                                   .device_layers = device_layers,
                                   .expert_layers = expert_layers,
                                   .n_threads = 1,
                                   .context_size = 64,
                                   .cache = cache_options(DTYPE_F16),
                                   .plans_only = true};
    assert_ok(model_open(GOLDEN_EXPERTS "/mixtral", &model, &error), &error);
    assert_ok(engine_open_model(model, &options, &engine, &error), &error);
    plan_shown(engine, text);
    engine_close(engine);
}

static void where_layers_and_experts_lie(void **state) {
    (void)state;
    char text[PLAN_ROOM];
    show(0, DEVICE_LAYERS_FIT, text);
    assert_non_null(strstr(text, "layers        all 2: weights "));
    show(1, DEVICE_LAYERS_FIT, text);
    assert_non_null(strstr(text, "layers        the last 1 and the head on the device: weights "));
    assert_non_null(strstr(text, "\n              the first 1 on the CPU: weights "));
    show(DEVICE_LAYERS_FIT, 1, text);
    assert_non_null(
        strstr(text, "layers        all 2 with the experts of the last 1 on the device: weights "));
    assert_non_null(strstr(text, "\n              the experts of the first 1 on the CPU: weights "));
    assert_non_null(strstr(text, ", cache 0"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(where_layers_and_experts_lie)};
    return test_main("plan_shown", argc, argv, tests);
}
