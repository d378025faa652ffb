// What is said of quantised Hugging Face folders that are damaged, or packed in ways that palaver does not know.
#include "engine/engine_internal.h"
#include "tests/support/files.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define GOLDEN_QUANTIZED GOLDEN "/quantized"

#define TENSORS "model.safetensors"
#define CONFIG "config.json"

static Error error;

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
        cmocka_unit_test(damaged_folders),
        cmocka_unit_test(what_is_not_known_is_named),
        cmocka_unit_test(scales_that_are_no_numbers),
        cmocka_unit_test(an_order_outside),
    };
    return test_main("quantized_refused", argc, argv, tests);
}
