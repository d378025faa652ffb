// The numbers of xIELU (tests/golden/make_dense.py's apertus): of each layer its own, the same from both kinds of files, and
// none that is guessed.
#include "tests/support/gguf.h"
#include "tests/support/kernels/random.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/model/model_config.h"
#include "tests/support/test.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char FILE_NAME[] = GOLDEN_DENSE "/apertus.gguf";

static double softplus(double x) {
    return log1p(exp(x));
}

static double saved(const Model *model, int layer, const char *name) {
    char path[80];
    float value;
    snprintf(path, sizeof path, "model.layers.%d.mlp.act_fn.%s", layer, name);
    const CheckpointTensor *tensor = checkpoint_find(model->checkpoint, path);
    assert_non_null(tensor);
    quant_load(tensor->type, tensor->data, 0, 1, &value);
    return (double)value;
}

static void are_each_layers_own(void **state) {
    (void)state;
    Error error = {0};
    Model *folder, *file;
    assert_ok(model_open(GOLDEN_DENSE "/apertus", &folder, &error), &error);
    assert_ok(model_open(FILE_NAME, &file, &error), &error);
    assert_int_equal(folder->shape.activation, ACTIVATION_XIELU);
    for (int l = 0; l < folder->shape.n_layers; l++) {
        const Xielu *own = &folder->layers[l].xielu;
        const double beta = saved(folder, l, "beta");
        assert_memory_equal(own, &file->layers[l].xielu, sizeof *own);
        assert_near("alpha_p", l, own->alpha_p, softplus(saved(folder, l, "alpha_p")), 1e-6);
        assert_near("alpha_n", l, own->alpha_n, beta + softplus(saved(folder, l, "alpha_n")), 1e-6);
        assert_true((double)own->beta == beta && (double)own->eps == saved(folder, l, "eps"));
        for (int other = 0; other < l; other++)
            assert_true(memcmp(own, &folder->layers[other].xielu, sizeof *own) != 0);
    }
    model_close(folder);
    model_close(file);
}

// Where the value of a key begins, with its type.
static size_t value_of(const Bytes *bytes, const char *key) {
    const size_t n = strlen(key);
    for (size_t i = 8; i + n < bytes->size; i++)
        if (bytes->data[i - 8] == n && memcmp(bytes->data + i, key, n) == 0) return i + n;
    fail_msg("no %s", key);
    return 0;
}

static Status open_bytes(const Bytes *bytes, Model **model, Error *error) {
    Checkpoint *checkpoint;
    *model = NULL;
    Status status = gguf_parse(bytes->data, bytes->size, &checkpoint, error);
    return status ? status : model_from_checkpoint(checkpoint, model, error);
}

static void refused(const Bytes *bytes, const char *fragment) {
    Error error = {0};
    Model *model;
    const Status status = open_bytes(bytes, &model, &error);
    if (status != STATUS_FILE || !strstr(error.message, fragment))
        fail_msg("status %d, \"%s\", not \"%s\"", status, error.message, fragment);
}

// llama.cpp takes one number for all layers as well.
static void may_be_one_for_all(void **state) {
    (void)state;
    Error error = {0};
    Model *model;
    Bytes old = bytes_of_file(FILE_NAME), bytes = {0};
    const float value = 0.375f;
    const uint32_t float_type = 6;
    // A list of three float32 has a type of elements, a number of them and two of them more: 20 bytes, for which the
    // model's name, which comes before, grows.
    const size_t name = value_of(&old, "general.name") + 4, text = name + 8 + old.data[name],
                 beta = value_of(&old, "xielu.beta"), end = beta + 4 + 4 + 8 + 3 * sizeof value;
    assert_true(name < beta && old.data[beta] == 9);
    bytes_add(&bytes, old.data, text);
    bytes.data[name] = (uint8_t)(bytes.data[name] + 20);
    bytes_text(&bytes, ", one number for all");
    bytes_add(&bytes, old.data + text, beta - text);
    bytes_u32(&bytes, float_type);
    bytes_add(&bytes, &value, sizeof value);
    bytes_add(&bytes, old.data + end, old.size - end);
    assert_ok(open_bytes(&bytes, &model, &error), &error);
    assert_non_null(model);
    for (int l = 0; model && l < 3; l++) assert_true(model->layers[l].xielu.beta == value);
    model_close(model);
    bytes_free(&bytes);
    bytes_free(&old);
}

static void are_all_there(void **state) {
    (void)state;
    static const char *const KEYS[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        char missing[64], wrong[64];
        Bytes bytes = bytes_of_file(FILE_NAME);
        const size_t at = value_of(&bytes, KEYS[i]);
        const float no_number = NAN;
        snprintf(missing, sizeof missing, "%s is missing", KEYS[i]);
        snprintf(wrong, sizeof wrong, "%s should be a number, or a list of them for 3 layers", KEYS[i]);
        bytes.data[at - 1] ^= 1; // another key
        refused(&bytes, missing);
        bytes.data[at - 1] ^= 1;
        bytes.data[at + 4] = 0, bytes.data[at + 8] = 12; // a list of twelve bytes
        refused(&bytes, wrong);
        bytes.data[at + 4] = 6, bytes.data[at + 8] = 3;
        memcpy(bytes.data + at + 16 + sizeof no_number, &no_number, sizeof no_number); // of layer 1
        refused(&bytes, "of layer 1 is nan");
        bytes_free(&bytes);
    }
}

// A class whose activations have trained numbers of their own in each layer, which palaver looks for in Apertus alone.
static void are_of_apertus_alone(void **state) {
    (void)state;
    static const char CONFIG[] = "{\"model_type\": \"%s\", \"hidden_act\": \"xielu\", \"hidden_size\": 64, "
                                 "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                                 "\"intermediate_size\": 64, \"vocab_size\": 40}";
    static const char *const NAMES[] = {"llama", "nemotron", "apertus"};
    for (int i = 0; i < 3; i++) {
        char text[300];
        Error error = {0};
        Model *model = NULL;
        snprintf(text, sizeof text, CONFIG, NAMES[i]);
        const Status status = model_from_config(text, strlen(text), NULL, 0, &model, &error);
        assert_int_equal(status, i < 2 ? STATUS_UNSUPPORTED : STATUS_OK);
        if (i < 2) assert_non_null(strstr(error.message, "Apertus's xielu"));
        model_close(model);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_each_layers_own),
        cmocka_unit_test(may_be_one_for_all),
        cmocka_unit_test(are_all_there),
        cmocka_unit_test(are_of_apertus_alone),
    };
    return test_main("xielu", argc, argv, tests);
}
