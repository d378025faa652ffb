// Mixtures of experts: greedy text as transformers writes it (tests/golden/make_experts.py), choices by groups, and
// that neither the number of threads nor where a prompt is cut shows.
#include "engine/engine_internal.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/model/golden_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Error error;

static Engine *open_engine(const char *name, const char *device, int n_threads) {
    return golden_check_open(GOLDEN_EXPERTS, name, device, n_threads, DTYPE_F32);
}

// ---- greedy text ---------------------------------------------------------------------------------------------

static void check_greedy(const char *name, const char *golden_of, const char *device) {
    Engine *engine = open_engine(name, device, 2);
    golden_check_greedy(engine, GOLDEN_EXPERTS, golden_of);
    engine_close(engine);
}

static void greedy_text(void **state) {
    (void)state;
    static const char *const NAMES[][2] = {
        {"mixtral", "mixtral"},
        {"mixtral-packed", "mixtral-packed"},
        {"mixtral.gguf", "mixtral"},
        {"qwen3_moe", "qwen3_moe"},
        {"qwen3_moe.gguf", "qwen3_moe"},
        {"qwen2_moe", "qwen2_moe"},
        {"olmoe", "olmoe"},
        {"deepseek", "deepseek"},
        {"ling1", "ling1"},
        {"ling1.gguf", "ling1"},
        {"glm4v_moe", "glm4v_moe"},
        {"glm4v_moe.gguf", "glm4v_moe"},
        {"deepseek.gguf", "deepseek"},
        {"granitemoe", "granitemoe"},
        {"granitemoe.gguf", "granitemoe"},
        {"granitemoeshared", "granitemoeshared"},
        {"granitemoeshared.gguf", "granitemoeshared"},
        {"glm4_moe", "glm4_moe"},
        {"ernie4_5_moe", "ernie4_5_moe"},
        {"gpt_oss", "gpt_oss"},
        {"gpt_oss.gguf", "gpt_oss"},
        {"glm4_moe.gguf", "glm4_moe"},
        {"ernie4_5_moe.gguf", "ernie4_5_moe"},
        {"phimoe", "phimoe"},
        {"llama4", "llama4"},
        {"llama4-usual", "llama4-usual"},
        {"llama4-usual.gguf", "llama4-usual"},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        check_greedy(NAMES[i][0], NAMES[i][1], "cpu:reference");
        check_greedy(NAMES[i][0], NAMES[i][1], "cpu");
    }
}

// ---- bits ----------------------------------------------------------------------------------------------------

static float *logits_by(const char *name, int n_threads, int step, const GoldenCase *c) {
    float *logits = malloc((size_t)c->n * (size_t)c->vocab * sizeof *logits);
    Engine *engine = open_engine(name, "cpu", n_threads);
    if (golden_model_evaluate(engine, c, step, logits, &error)) fail_msg("%s", error.message);
    engine_close(engine);
    return logits;
}

static void neither_threads_nor_cuts_show(void **state) {
    (void)state;
    static const char *const NAMES[] = {"mixtral", "qwen2_moe", "gpt_oss", "phimoe", "llama4"};
    for (int i = 0; i < 5; i++) {
        GoldenSet set;
        if (golden_model_read(GOLDEN_EXPERTS, NAMES[i], &set, &error)) fail_msg("%s", error.message);
        const GoldenCase *c = &set.cases[0];
        float *one = logits_by(NAMES[i], 1, 64, c), *three = logits_by(NAMES[i], 3, 64, c),
              *cut = logits_by(NAMES[i], 2, 7, c);
        const size_t n = (size_t)c->n * (size_t)c->vocab;
        assert_memory_equal(one, three, n * sizeof *one);
        assert_true(golden_distance(cut, one, n) <= 1e-5);
        free(one), free(three), free(cut);
        golden_model_free(&set);
    }
}

// ---- choices -------------------------------------------------------------------------------------------------

static void check_choice(const Experts *e, const float *logits, const float *bias, const int32_t *ids,
                         const double *weights) {
    float copy[8], found[8];
    int32_t chosen[8];
    memcpy(copy, logits, (size_t)e->n * sizeof *copy);
    route_choose(e, copy, bias, chosen, found);
    for (int i = 0; i < e->n_active; i++) {
        assert_int_equal(chosen[i], ids[i]);
        assert_true(fabs((double)found[i] - weights[i]) <= 1e-6);
    }
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void choices(void **state) {
    (void)state;
    static const float LOGITS[8] = {1, 3, 0, 2, 2.5f, -1, 0.5f, 2.5f};
    const double sum = exp(1) + exp(3) + exp(0) + exp(2) + 2 * exp(2.5) + exp(-1) + exp(0.5);
    Experts e = {.n = 8, .n_active = 3, .scale = 1};
    // Of equal ones the lower.
    check_choice(&e, LOGITS, NULL, (int32_t[]){1, 4, 7},
                 (double[]){exp(3) / sum, exp(2.5) / sum, exp(2.5) / sum});
    e.renormalise = true, e.scale = 2;
    const double three = exp(3) + 2 * exp(2.5);
    check_choice(&e, LOGITS, NULL, (int32_t[]){1, 4, 7},
                 (double[]){2 * exp(3) / three, 2 * exp(2.5) / three, 2 * exp(2.5) / three});
    // A bias chooses, and has no weight.
    static const float BIAS[8] = {0, 0, 0.9f, 0, 0, 0, 0, 0};
    e.score = ROUTER_SIGMOID, e.n_active = 2, e.scale = 1;
    const double two = sigmoid(0) + sigmoid(3);
    check_choice(&e, LOGITS, BIAS, (int32_t[]){2, 1}, (double[]){sigmoid(0) / two, sigmoid(3) / two});
    // Groups of two: {1, 3}, {0, 2}, {2.5, -1}, {0.5, 2.5}: the first's two are the best, then the last's.
    e.n_groups = 4, e.n_active_groups = 2;
    const double best = sigmoid(3) + sigmoid(2.5);
    check_choice(&e, LOGITS, NULL, (int32_t[]){1, 7}, (double[]){sigmoid(3) / best, sigmoid(2.5) / best});
    // By the best alone the third is as good as the last, and before it.
    e.groups_by_best = true;
    check_choice(&e, LOGITS, NULL, (int32_t[]){1, 4}, (double[]){sigmoid(3) / best, sigmoid(2.5) / best});
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_text),
        cmocka_unit_test(neither_threads_nor_cuts_show),
        cmocka_unit_test(choices),
    };
    return test_main("experts", argc, argv, tests);
}
