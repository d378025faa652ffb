// Quantised Hugging Face folders: logits against transformers' over the numbers that the packed ones mean
// (tests/golden/make_quantized.py), and what each weight becomes.
#include "engine/engine_internal.h"
#include "kernels/cpu/loops/quant.h"
#include "tests/support/files.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_QUANTIZED GOLDEN "/quantized"

#define TENSORS "model.safetensors"
#define CONFIG "config.json"

static Error error;

// ---- logits ----------------------------------------------------------------------------------------------------

static double distance_of(Engine *engine, const GoldenCase *c) {
    const size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    if (golden_model_evaluate(engine, c, 7, logits, &error)) fail_msg("%s", error.message);
    double distance = golden_distance(logits, c->expected, count);
    free(logits);
    return distance;
}

// `rounding`: what the type that palaver holds the weights in costs, of the largest logit; 0: nothing.
static void check(const char *name, DType type, double rounding, const char *notice) {
    GoldenSet set;
    Engine *engine;
    if (golden_model_read(GOLDEN_QUANTIZED, name, &set, &error)) fail_msg("%s", error.message);
    if (golden_model_open(GOLDEN_QUANTIZED, name, "cpu:reference", DTYPE_F32, &engine, &error))
        fail_msg("%s: %s", name, error.message);
    const Model *model = engine_model(engine);
    assert_int_equal(model_main_type(model), type);
    double exact = distance_of(engine, &set.cases[0]), held = distance_of(engine, &set.cases[set.n - 1]);
    print_message("%s as %s: %.1e from what the files mean, %.1e from what is held\n", name, dtype_name(type),
                  exact, held);
    assert_true(held <= 1e-5);
    assert_true(exact <= (rounding > 0 ? rounding : 1e-5));
    const char *said = checkpoint_notice(model->checkpoint);
    if (!notice) assert_null(said);
    if (notice && (!said || !strstr(said, notice))) fail_msg("%s: said \"%s\"", name, said ? said : "");
    golden_model_free(&set);
    engine_close(engine);
}

static void gptq(void **state) {
    (void)state;
    check("gptq-g128", DTYPE_Q4_0, 0, NULL);
    check("gptq-asym-g32", DTYPE_Q4_1, 5e-3, NULL);
    check("gptq-v2", DTYPE_Q4_1, 5e-3, NULL);
    check("gptq-act-order", DTYPE_F16, 5e-3, "5 weights (GPTQ int4, act-order, 32) are rounded to f16");
    check("gptq-act-order-alike", DTYPE_Q4_0, 0, NULL);
    check("gptq-act-order-asym", DTYPE_Q4_1, 5e-3, NULL);
    check("gptq-int8", DTYPE_Q8_0, 0, NULL);
    check("gptq-int8-asym", DTYPE_F16, 5e-3, "7 weights (GPTQ int8) are rounded to f16");
}
static void awq(void **state) {
    (void)state;
    check("awq", DTYPE_Q4_1, 5e-3, NULL);
}
static Engine *open_fp8(const char *name, const char *device, Fp8Rounding fp8) {
    Model *model;
    Engine *engine;
    char path[300];
    EngineOptions options = {.device = device,
                             .n_threads = 2,
                             .context_size = 64,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = 32,
                             .fp8 = fp8};
    snprintf(path, sizeof path, GOLDEN_QUANTIZED "/%s", name);
    if (model_open(path, &model, &error)) fail_msg("%s: %s", name, error.message);
    if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s: %s", name, error.message);
    return engine;
}

// FP8 over what enters its layers as it is, and rounded as its makers do. What the latter costs is some hundredths; where
// a sum ends on the other side of a tie it is some thousandths from another machine's.
static void check_fp8(const char *name, Fp8Inputs how) {
    static const char *const DEVICES[] = {"cpu:reference", "cpu"};
    GoldenSet set;
    if (golden_model_read(GOLDEN_QUANTIZED, name, &set, &error)) fail_msg("%s", error.message);
    for (size_t i = 0; i < 2; i++)
        for (Fp8Rounding fp8 = FP8_AS_MADE; fp8 <= FP8_NEVER; fp8++) {
            Engine *engine = open_fp8(name, DEVICES[i], fp8);
            const Model *model = engine_model(engine);
            assert_int_equal(model_main_type(model), DTYPE_E4M3);
            assert_int_equal(model->shape.fp8_inputs, fp8 == FP8_NEVER ? FP8_INPUTS_KEPT : how);
            assert_null(checkpoint_notice(model->checkpoint));
            double exact = distance_of(engine, &set.cases[0]), made = distance_of(engine, &set.cases[1]);
            print_message("%s on %s, rounding %d: %.1e from what the files mean, %.1e from their makers\n",
                          name, DEVICES[i], fp8, exact, made);
            assert_true(fp8 == FP8_NEVER ? exact <= 1e-5 && made > 2e-2 : made <= 3e-3 && exact > 2e-2);
            engine_close(engine);
        }
    golden_model_free(&set);
}

static void fp8(void **state) {
    (void)state;
    check_fp8("fp8-tensor", FP8_INPUTS_ROWS); // by fixed scales
    check_fp8("fp8-channel", FP8_INPUTS_ROWS);
    check_fp8("fp8-block", FP8_INPUTS_GROUPS);
    check_fp8("fp8-powers", FP8_INPUTS_POWERS);
    check_fp8("fp8-experts", FP8_INPUTS_GROUPS);
    check_fp8("ct-fp8", FP8_INPUTS_ROWS);
}

// Makers who say nothing of what enters a layer leave it as it is.
static void fp8_weights_alone(void **state) {
    (void)state;
    char *folder = folder_new();
    Checkpoint *c;
    json_t *config = json_load_file(GOLDEN_QUANTIZED "/ct-fp8/config.json", 0, NULL);
    json_t *groups = json_object_get(json_object_get(config, "quantization_config"), "config_groups");
    json_object_set_new(json_object_get(groups, "group_0"), "input_activations", json_null());
    char *text = json_dumps(config, 0);
    folder_write_text(folder, CONFIG, text);
    folder_copy(folder, TENSORS, GOLDEN_QUANTIZED "/ct-fp8/model.safetensors");
    if (checkpoint_open(folder, &c, &error)) fail_msg("%s", error.message);
    assert_int_equal(checkpoint_fp8_inputs(c, false), FP8_INPUTS_KEPT);
    assert_int_equal(checkpoint_fp8_inputs(c, true), FP8_INPUTS_ROWS);
    checkpoint_close(c);
    free(text);
    json_decref(config);
    folder_remove(folder);
}
static void compressed_tensors(void **state) {
    (void)state;
    check("ct-int4", DTYPE_Q4_0, 0, NULL);
    check("ct-int4-asym", DTYPE_Q4_1, 5e-3, NULL);
    check("ct-int4-order", DTYPE_F16, 5e-3, "act-order");
    check("ct-int8-packed", DTYPE_Q8_0, 0, NULL);
    check("ct-int8", DTYPE_Q8_0, 5e-3, "activations stay as they are");
}
static void experts(void **state) {
    (void)state;
    check("awq-experts", DTYPE_Q4_1, 1e-2, NULL);
    check("mxfp4", DTYPE_F16, 0, NULL); // which most of so small a model's bytes have
}
static void bitsandbytes(void **state) {
    (void)state;
    check("bnb-nf4", DTYPE_NF4, 5e-3, "1 weights (bitsandbytes nf4) are rounded to f16");
    check("bnb-nf4-double", DTYPE_NF4, 0, NULL);
    check("bnb-int8", DTYPE_Q8_0, 5e-3, NULL);
}

// The first AutoGPTQ and AutoAWQ wrote a file of their own.
static void configs_of_their_own(void **state) {
    (void)state;
    static const char *const CASES[][3] = {
        {"gptq-g128", "quantize_config.json",
         "{\"bits\": 4, \"group_size\": 128, \"desc_act\": false, \"sym\": true}"},
        {"awq", "quant_config.json",
         "{\"zero_point\": true, \"q_group_size\": 32, \"w_bit\": 4, \"version\": \"GEMM\"}"}};
    for (size_t i = 0; i < 2; i++) {
        char *folder = folder_new(), path[300];
        snprintf(path, sizeof path, GOLDEN_QUANTIZED "/%s/config.json", CASES[i][0]);
        json_t *config = json_load_file(path, 0, NULL);
        json_object_del(config, "quantization_config");
        char *text = json_dumps(config, 0);
        folder_write_text(folder, CONFIG, text);
        folder_write_text(folder, CASES[i][1], CASES[i][2]);
        snprintf(path, sizeof path, GOLDEN_QUANTIZED "/%s/model.safetensors", CASES[i][0]);
        folder_copy(folder, TENSORS, path);
        Model *model;
        if (model_open(folder, &model, &error)) fail_msg("%s", error.message);
        assert_int_equal(model_main_type(model), i == 0 ? DTYPE_Q4_0 : DTYPE_Q4_1);
        model_close(model);
        free(text);
        json_decref(config);
        folder_remove(folder);
    }
}

// ---- making ------------------------------------------------------------------------------------------------------

// What is made again is the same, and by threads as by one.
static void weights_are_made_when_asked_for(void **state) {
    (void)state;
    Checkpoint *c;
    Threads *threads;
    if (checkpoint_open(GOLDEN_QUANTIZED "/awq", &c, &error)) fail_msg("%s", error.message);
    assert_int_equal(threads_open(3, &threads, &error), STATUS_OK);
    const CheckpointTensor *t = checkpoint_find(c, "model.layers.0.mlp.down_proj.weight");
    assert_string_equal(t->method, "AWQ int4, groups of 32");
    assert_string_equal(t->type_name, "q4_1");
    assert_int_equal(t->shape[0], 64);
    assert_int_equal(t->shape[1], 96);
    assert_null(checkpoint_find(c, "model.layers.0.mlp.down_proj.qzeros"));
    uint8_t *first = malloc(t->bytes);
    assert_int_equal(checkpoint_make(c, t->data, threads, &error), STATUS_OK);
    memcpy(first, t->data, t->bytes);
    checkpoint_drop_made(c);
    assert_int_equal(checkpoint_make(c, (const char *)t->data + t->bytes - 1, NULL, &error), STATUS_OK);
    assert_memory_equal(first, t->data, t->bytes);
    assert_int_equal(checkpoint_make(c, &error, NULL, &error), STATUS_OK); // nobody's address
    free(first);
    threads_close(threads);
    checkpoint_close(c);
}

// Weights that are converted besides: int4 of what is held.
static void quantised_weights_are_converted(void **state) {
    (void)state;
    Model *model;
    Engine *engine;
    if (model_open(GOLDEN_QUANTIZED "/fp8-block", &model, &error)) fail_msg("%s", error.message);
    EngineOptions options = {.device = "cpu",
                             .n_threads = 2,
                             .context_size = 64,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = 32,
                             .weights = WEIGHTS_INT8};
    if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s", error.message);
    GoldenSet set;
    if (golden_model_read(GOLDEN_QUANTIZED, "fp8-block", &set, &error)) fail_msg("%s", error.message);
    double distance = distance_of(engine, &set.cases[0]);
    print_message("FP8 in int8: %.1e\n", distance);
    assert_true(distance <= 0.2);
    golden_model_free(&set);
    engine_close(engine);
}

// Gates and ups of gpt-oss stand in turn in the file; here they are one above the other, in blocks as GGUF has them.
static void experts_in_mxfp4(void **state) {
    (void)state;
    static const float BOOK[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    static const char HEADER[] =
        "{\"e.gate_up_proj_blocks\": {\"dtype\": \"U8\", \"shape\": [2, 4, 1, 16], \"data_offsets\": [0, "
        "128]}, "
        "\"e.gate_up_proj_scales\": {\"dtype\": \"U8\", \"shape\": [2, 4, 1], \"data_offsets\": [128, 136]}, "
        "\"e.down_proj_blocks\": {\"dtype\": \"U8\", \"shape\": [2, 2, 1, 16], \"data_offsets\": [136, "
        "200]}, "
        "\"e.down_proj_scales\": {\"dtype\": \"U8\", \"shape\": [2, 2, 1], \"data_offsets\": [200, 204]}}";
    char *folder = folder_new();
    Bytes bytes = safetensors_of(HEADER, 204);
    folder_write(folder, TENSORS, bytes.data, bytes.size);
    folder_write_text(folder, CONFIG, "{\"quantization_config\": {\"quant_method\": \"mxfp4\"}}");
    Checkpoint *c;
    if (checkpoint_open(folder, &c, &error)) fail_msg("%s", error.message);
    assert_int_equal(checkpoint_n_tensors(c), 2);
    assert_null(checkpoint_notice(c));
    for (int down = 0; down < 2; down++) {
        const CheckpointTensor *t = checkpoint_find(c, down ? "e.down_proj" : "e.gate_up_proj");
        const int rows = down ? 2 : 4;
        assert_int_equal(t->n_dims, 3);
        assert_int_equal(t->shape[1], rows);
        assert_int_equal(t->shape[2], 32);
        assert_string_equal(t->method, "MXFP4 of 2 experts");
        assert_int_equal(checkpoint_make(c, t->data, NULL, &error), STATUS_OK);
        for (int row = 0; row < 2 * rows; row++) {
            static const int TURNED[] = {0, 2, 1, 3};
            int from = down ? row : row / 4 * 4 + TURNED[row % 4], at = (down ? 136 : 0) + 16 * from;
            float values[32], scale = ldexpf(1, (down ? 200 : 128) + from - 127);
            quant_load(DTYPE_MXFP4, (const char *)t->data + 17 * row, 0, 32, values);
            for (int i = 0; i < 32; i++) { // the file's bytes count up
                int code = (at + i / 2) >> (i % 2 ? 4 : 0) & 15;
                assert_true(values[i] == (code & 8 ? -1 : 1) * BOOK[code & 7] * scale);
            }
        }
    }
    checkpoint_close(c);
    bytes_free(&bytes);
    folder_remove(folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gptq),
        cmocka_unit_test(awq),
        cmocka_unit_test(fp8),
        cmocka_unit_test(fp8_weights_alone),
        cmocka_unit_test(compressed_tensors),
        cmocka_unit_test(bitsandbytes),
        cmocka_unit_test(experts),
        cmocka_unit_test(configs_of_their_own),
        cmocka_unit_test(weights_are_made_when_asked_for),
        cmocka_unit_test(quantised_weights_are_converted),
        cmocka_unit_test(experts_in_mxfp4),
    };
    return test_main("quantized", argc, argv, tests);
}
