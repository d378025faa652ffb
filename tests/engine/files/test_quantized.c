// Quantised Hugging Face folders: logits against transformers' over the numbers that the packed ones mean
// (tests/golden/make_quantized.py), what each weight becomes, and what is said of damaged folders.
#include "engine/engine_internal.h"
#include "kernels/cpu/loops/quant.h"
#include "tests/support/files.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <math.h>
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

// ---- damaged folders -----------------------------------------------------------------------------------------------

// Overwrites the first `from` in a file's bytes with `to`, filled up with spaces to its length.
static void replace(const Bytes *bytes, const char *from, const char *to) {
    const size_t n = strlen(from);
    char *at = memmem(bytes->data, bytes->size, from, n);
    if (!at || strlen(to) > n) fail_msg("no room for %s in place of %s", to, from);
    for (size_t i = 0; at && i < n; i++) at[i] = i < strlen(to) ? to[i] : ' ';
}

// What opening a copy of a golden folder, and making all of it, says, where config.json or the tensors' file has `to`
// for `from`. Both empty: the file ends 100 bytes early.
static void refuses(const char *name, const char *file, const char *from, const char *to,
                    const char *expected) {
    static const char *const FILES[] = {"config.json", "model.safetensors"};
    char *folder = folder_new(), source[300];
    for (int i = 0; i < 2; i++) {
        snprintf(source, sizeof source, GOLDEN_QUANTIZED "/%s/%s", name, FILES[i]);
        Bytes bytes = bytes_of_file(source);
        bool changed = strcmp(file, FILES[i]) == 0;
        if (changed && *from) replace(&bytes, from, to);
        folder_write(folder, FILES[i], bytes.data, bytes.size - (changed && !*from ? 100 : 0));
        bytes_free(&bytes);
    }
    Model *model;
    error = (Error){0};
    Status status = model_open(folder, &model, &error);
    for (int64_t i = 0; !status && i < checkpoint_n_tensors(model->checkpoint); i++)
        status =
            checkpoint_make(model->checkpoint, checkpoint_tensor(model->checkpoint, i)->data, NULL, &error);
    if (model) model_close(model);
    if (!status || !strstr(error.message, expected) || strchr(error.message, '\n'))
        fail_msg("%s, %s for %s: \"%s\" instead of \"%s\"", name, to, from, error.message, expected);
    folder_remove(folder);
}

#define K_PROJ "model.layers.0.self_attn.k_proj."

static void damaged_folders(void **state) {
    (void)state;
    refuses("gptq-g128", TENSORS, "", "", "cut short");
    refuses("mxfp4", TENSORS, "experts.down_proj_scales", "experts.down_proj_scaleS",
            "experts.down_proj_scales is missing, without which");
    refuses("gptq-g128", TENSORS, K_PROJ "scales", K_PROJ "scaleS",
            "k_proj.scales is missing, without which");
    refuses("gptq-g128", TENSORS, K_PROJ "qzeros", K_PROJ "qzeroS", "k_proj.qzeros is missing");
    refuses("gptq-act-order", TENSORS, K_PROJ "g_idx", K_PROJ "g_idX", "k_proj.g_idx is missing");
    refuses("awq", CONFIG, "\"group_size\": 32", "\"group_size\": 24", "columns in groups of 24 have");
    refuses("gptq-v2", CONFIG, "\"bits\": 4", "\"bits\": 8", "expected [");
    refuses("awq", CONFIG, "\"hidden_size\": 64", "\"hidden_size\": 56", "expected [");
    refuses("fp8-block", CONFIG, "128\n  ]", "64 \n  ]",
            "down_proj.weight_scale_inv: expected [1, 3], file has [1, 2]");
    refuses("fp8-tensor", TENSORS, K_PROJ "weight_scale_inv", K_PROJ "weight_scale_inV",
            "k_proj.weight_scale is missing");
    refuses(
        "ct-int4", CONFIG, "\"group_size\": 32", "\"group_size\": 24",
        "down_proj.weight_scale: no group_size of config.json's schemes gives a row of 96 columns 3 scales");
    refuses("ct-int4", TENSORS, K_PROJ "weight_shape", K_PROJ "weight_shapE",
            "k_proj.weight_shape is missing");
    refuses("bnb-nf4", TENSORS, "\"blocksize\": 64", "\"blocksize\": 32",
            "weight.absmax: expected [192], file has [96]");
    refuses("bnb-nf4", TENSORS, "\"blocksize\": 64", "\"blocksize\": 0 ", "does not suit the bytes");
    refuses("bnb-nf4", TENSORS, "\"shape\": [64, 64]", "\"shape\": [64, 65]", "does not suit the bytes");
    refuses("bnb-int8", TENSORS, K_PROJ "SCB", K_PROJ "SCb", "k_proj.SCB is missing");
}

static void what_is_not_known_is_named(void **state) {
    (void)state;
    refuses("gptq-g128", CONFIG, "\"quant_method\": \"gptq\"", "\"quant_method\": \"quip\"",
            "quantised by quip, which palaver cannot read (it reads GPTQ, AWQ,");
    refuses("gptq-g128", CONFIG, "\"bits\": 4", "\"bits\": 3", "quantization_config.bits is 3");
    refuses("gptq-g128", CONFIG, "\"damp_percent\"", "\"rotation\"",
            "what rotation means in quantization_config");
    refuses("gptq-g128", CONFIG, "\"checkpoint_format\": \"gptq\"", "\"checkpoint_format\": \"q\"",
            "checkpoint_format is \"q\"; of weights quantised by GPTQ palaver reads the formats gptq and "
            "gptq_v2");
    refuses("awq", CONFIG, "\"version\": \"gemm\"", "\"version\": \"gemv\"", "version is \"gemv\"");
    refuses("awq", CONFIG, "\"zero_point\": true", "\"zero_point\":false", "zero_point is false");
    refuses("awq", CONFIG, "\"lm_head\"", "\"q_proj\"", "\"q_proj\" is in the list of what is not quantised");
    refuses("ct-int4", CONFIG, "re:.*mlp.gate$", "re:.*k_proj.*$", "\"re:.*k_proj.*$\" is in the list");
    refuses("ct-int4", CONFIG, "\"format\": \"pack-quantized\"", "\"format\": \"marlin-24\"",
            "format is \"marlin-24\"");
    refuses("ct-fp8", CONFIG, "\"num_bits\": 8", "\"num_bits\": 4", "num_bits is 4");
    refuses("ct-int4", CONFIG, "\"observer\"", "\"observed\"", "what observed means in quantization_config");
    refuses("fp8-tensor", CONFIG, "\"fmt\": \"e4m3\"", "\"fmt\": \"e5m2\"", "fmt is \"e5m2\"");
    refuses("bnb-nf4", CONFIG, "\"bnb_4bit_quant_type\": \"nf4\"", "\"bnb_4bit_quant_type\": \"af4\"",
            "is \"af4\"");
}

// A number that is none is found when it is asked for: rows are not read before.
static void scales_that_are_no_numbers(void **state) {
    (void)state;
    char *folder = folder_new();
    Bytes bytes = bytes_of_file(GOLDEN_QUANTIZED "/ct-int4/model.safetensors");
    const uint64_t header = bytes.data[0] + 256u * bytes.data[1];
    json_error_t why;
    json_t *table = json_loadb((const char *)bytes.data + 8, header, 0, &why);
    const json_t *entry = json_object_get(table, K_PROJ "weight_scale");
    int64_t at = json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    memcpy(bytes.data + 8 + header + at + 2 * 2 * 5, "\x00\x7c", 2); // row 5, of two groups
    folder_copy(folder, CONFIG, GOLDEN_QUANTIZED "/ct-int4/config.json");
    folder_write(folder, TENSORS, bytes.data, bytes.size);
    Engine *engine = NULL;
    Model *model;
    EngineOptions options = {
        .device = "cpu", .n_threads = 2, .context_size = 64, .cache = cache_options(DTYPE_F32)};
    if (model_open(folder, &model, &error)) fail_msg("%s", error.message);
    assert_int_equal(engine_open_model(model, &options, &engine, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "k_proj.weight: row 5 has a scale or a code that is no number"));
    assert_null(engine);
    bytes_free(&bytes);
    json_decref(table);
    folder_remove(folder);
}

// Columns of a group that does not exist.
static void an_order_outside(void **state) {
    (void)state;
    char *folder = folder_new();
    Bytes bytes = bytes_of_file(GOLDEN_QUANTIZED "/gptq-act-order/model.safetensors");
    const uint64_t header = bytes.data[0] + 256u * bytes.data[1];
    json_error_t why;
    json_t *table = json_loadb((const char *)bytes.data + 8, header, 0, &why);
    const json_t *entry = json_object_get(table, K_PROJ "g_idx");
    int64_t at = json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    bytes.data[8 + header + (uint64_t)at + 12] = 2;
    folder_copy(folder, CONFIG, GOLDEN_QUANTIZED "/gptq-act-order/config.json");
    folder_write(folder, TENSORS, bytes.data, bytes.size);
    Checkpoint *c;
    assert_int_equal(checkpoint_open(folder, &c, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "k_proj.g_idx: column 3 is in group 2 of 2"));
    bytes_free(&bytes);
    json_decref(table);
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
        cmocka_unit_test(damaged_folders),
        cmocka_unit_test(what_is_not_known_is_named),
        cmocka_unit_test(scales_that_are_no_numbers),
        cmocka_unit_test(an_order_outside),
    };
    return test_main("quantized", argc, argv, tests);
}
