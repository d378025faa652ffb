// Keys and tensors of a model's files that change what it computes: each is computed as transformers does, or refused
// by its name; none is left out in silence.
#include "tests/support/model/model_config.h"
#include "engine/engine_internal.h"
#include "engine/session/session_step.h"
#include "tests/support/files.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TOKENS = 24, MAX_VOCAB = 512 };

// What is different about the tensors of a golden model.
typedef struct Edit {
    const char *drop;       // is left out; NULL: none is
    const char *add, *copy; // a further one, of the values of `copy`; NULL: none
    bool negated;           // of minus them (float32)
} Edit;

static void add_tensor(json_t *header, Bytes *data, const char *name, const json_t *tensor,
                       const uint8_t *from, bool negated) {
    const json_t *at = json_object_get(tensor, "data_offsets");
    size_t begin = (size_t)json_integer_value(json_array_get(at, 0)),
           size = (size_t)json_integer_value(json_array_get(at, 1)) - begin;
    json_t *placed = json_deep_copy(tensor);
    json_int_t first = (json_int_t)data->size, last = first + (json_int_t)size;
    json_object_set_new(placed, "data_offsets", json_pack("[I, I]", first, last));
    json_object_set_new(header, name, placed);
    bytes_add(data, from + begin, size);
    for (size_t i = 0; negated && i < size / 4; i++)
        data->data[data->size - size + 4 * i + 3] ^= 0x80; // the sign
}

// The tensors of the safetensors file at `path` with an edit, into `folder`.
static void write_weights(const char *folder, const char *path, const Edit *edit) {
    Bytes all = bytes_of_file(path), data = {0};
    uint64_t length;
    memcpy(&length, all.data, sizeof length);
    const uint8_t *from = all.data + 8 + length;
    json_t *header = json_loadb((const char *)all.data + 8, length, 0, NULL), *out = json_object(), *value;
    const char *name;
    json_object_foreach(header, name, value) {
        bool is_tensor = strcmp(name, "__metadata__") != 0;
        if (is_tensor && (!edit->drop || strcmp(name, edit->drop) != 0))
            add_tensor(out, &data, name, value, from, false);
        if (edit->add && strcmp(name, edit->copy) == 0)
            add_tensor(out, &data, edit->add, value, from, edit->negated);
    }
    char *text = json_dumps(out, 0);
    Bytes whole = safetensors_of(text, 0);
    bytes_add(&whole, data.data, data.size);
    folder_write(folder, "model.safetensors", whole.data, whole.size);
    free(text);
    json_decref(out);
    json_decref(header);
    bytes_free(&whole);
    bytes_free(&data);
    bytes_free(&all);
}

// A folder with the weights of a golden model and its config.json with `change`, whose "absent" takes a key out;
// folder_remove() it.
static char *changed_folder(const char *model, const json_t *change, const Edit *edit) {
    const char *key;
    json_t *value;
    char path[256];
    char *folder = folder_new();
    snprintf(path, sizeof path, GOLDEN "/%s/config.json", model);
    json_t *config = json_load_file(path, 0, NULL);
    if (change) assert_int_equal(json_object_update(config, (json_t *)change), 0);
    json_object_foreach((json_t *)change, key, value) {
        if (json_is_string(value) && strcmp(json_string_value(value), "absent") == 0)
            json_object_del(config, key);
    }
    char *text = json_dumps(config, 0);
    folder_write_text(folder, "config.json", text);
    snprintf(path, sizeof path, GOLDEN "/%s/model.safetensors", model);
    write_weights(folder, path, edit);
    free(text);
    json_decref(config);
    return folder;
}

static Status open_folder(const char *folder, Engine **engine, Error *error) {
    Model *model = NULL;
    *engine = NULL;
    Status status = model_open(folder, &model, error);
    if (status) return status;
    EngineOptions options = {.device = "cpu:exact",
                             .n_threads = 1,
                             .context_size = 64,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = 64};
    return engine_open_model(model, &options, engine, error);
}

static Status last_logits(Engine *engine, const char *model, float *logits, Error *error) {
    char path[256];
    int32_t ids[N_TOKENS];
    Session *session = NULL;
    snprintf(path, sizeof path, GOLDEN "/%s/golden.json", model);
    json_t *golden = json_load_file(path, 0, NULL);
    const json_t *first = json_array_get(json_object_get(golden, "cases"), 0);
    for (size_t i = 0; i < N_TOKENS; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(json_object_get(first, "ids"), i));
    json_decref(golden);
    Status status = session_open(engine, &session, error);
    if (!status) status = session_sync(session, ids, N_TOKENS, NULL, error);
    if (!status) status = session_logits(session, logits, error);
    session_close(session);
    return status;
}

// Returns whether it is as it should be, and says what is not.
static bool check_row(const json_t *row, const float *all) {
    const char *model = json_string_value(json_object_get(row, "model"));
    const json_t *change = json_object_get(row, "change");
    const bool accepted = json_is_true(json_object_get(row, "accepted")),
               fails = json_is_true(json_object_get(row, "fails"));
    const Edit edit = {.drop = json_string_value(json_object_get(row, "drop"))};
    char *text = json_dumps(change, 0), *folder = changed_folder(model, change, &edit);
    float logits[MAX_VOCAB];
    Error error = {0};
    Engine *engine;
    Status status = open_folder(folder, &engine, &error);
    if (!status) status = last_logits(engine, model, logits, &error);
    engine_close(engine);
    folder_remove(folder);
    double distance = 0;
    if (!status && !fails)
        distance = golden_distance(logits, all + json_integer_value(json_object_get(row, "at")),
                                   (size_t)json_integer_value(json_object_get(row, "vocab")));
    const bool right = status ? !accepted : !fails && distance <= 1e-4;
    if (!right && status) print_error("%s with %s is refused: %s\n", model, text, error.message);
    if (!right && !status && fails) print_error("%s with %s: transformers cannot\n", model, text);
    if (!right && !status && !fails) print_error("%s with %s: logits are off by %g\n", model, text, distance);
    free(text);
    return right;
}

// A key is read as transformers reads it, or the file is refused; what people have is not refused.
static void check_keys(const char *name, size_t least) {
    char path[128];
    snprintf(path, sizeof path, GOLDEN "/keys/%s.json", name);
    json_t *rows = json_load_file(path, 0, NULL);
    snprintf(path, sizeof path, GOLDEN "/keys/%s.logits", name);
    Bytes logits = bytes_of_file(path);
    assert_true(json_array_size(rows) > least);
    int wrong = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        wrong += !check_row(json_array_get(rows, i), (const float *)(const void *)logits.data);
    bytes_free(&logits);
    json_decref(rows);
    assert_int_equal(wrong, 0);
}

static void each_key_counts_or_is_refused(void **state) {
    (void)state;
    check_keys("keys", 400);
}

static void each_key_of_dense_ones_counts_or_is_refused(void **state) {
    (void)state;
    check_keys("dense_keys", 700);
}

static void each_key_of_experts_counts_or_is_refused(void **state) {
    (void)state;
    check_keys("experts_keys", 500);
}

static void each_key_of_latent_ones_counts_or_is_refused(void **state) {
    (void)state;
    check_keys("latent_keys", 200);
}

static void each_key_of_convolutions_counts_or_is_refused(void **state) {
    (void)state;
    check_keys("convolution_keys", 180);
}

static void each_key_of_recurring_ones_counts_or_is_refused(void **state) {
    (void)state;
    check_keys("delta_keys", 250);
}

static void each_key_of_state_spaces_counts_or_is_refused(void **state) {
    (void)state;
    check_keys("state_space_keys", 1200);
}

static void each_key_of_recent_ones_counts_or_is_refused(void **state) {
    (void)state;
    check_keys("recent_keys", 1500);
}

static void each_key_of_further_ones_counts_or_is_refused(void **state) {
    (void)state;
    check_keys("further_keys", 1000);
}

// What the configuration classes write, in either style.
static void check_defaults(const char *name, size_t least) {
    char path[128];
    snprintf(path, sizeof path, GOLDEN "/keys/%s.json", name);
    json_t *rows = json_load_file(path, 0, NULL);
    assert_true(json_array_size(rows) >= least);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char *text = json_dumps(json_object_get(json_array_get(rows, i), "config"), 0);
        Model *model = NULL;
        Error error = {0};
        if (model_from_config(text, strlen(text), NULL, 0, &model, &error))
            fail_msg("%s, of %s", error.message, text);
        model_close(model);
        free(text);
    }
    json_decref(rows);
}

static void default_configs_are_read(void **state) {
    (void)state;
    check_defaults("default", 20);
    check_defaults("dense_default", 34);
    check_defaults("experts_default", 18);
    check_defaults("latent_default", 6);
    check_defaults("convolution_default", 4);
    check_defaults("delta_default", 6);
    check_defaults("state_space_default", 6);
    check_defaults("recent_default", 20);
    check_defaults("further_default", 9);
}

// ---- tensors -----------------------------------------------------------------------------------------------

// An engine over a golden model with an edit, and the logits of its last token.
static Engine *edited(const char *model, const Edit *edit, float *logits) {
    char *folder = changed_folder(model, NULL, edit);
    Error error = {0};
    Engine *engine = NULL;
    Status status = open_folder(folder, &engine, &error);
    if (!status) status = last_logits(engine, model, logits, &error);
    if (status) fail_msg("%s", error.message);
    folder_remove(folder);
    return engine;
}

// A tied model's file may hold the head as well, or instead of the embedding; another matrix than that is the head.
static void a_head_in_the_file_is_the_head(void **state) {
    (void)state;
    static const char EMBEDDING[] = "model.embed_tokens.weight", HEAD[] = "lm_head.weight";
    static const struct {
        Edit edit;
        float sign; // of the logits, beside those of the tied model
        bool tied;
    } CASES[] = {{{.add = HEAD, .copy = EMBEDDING}, 1, true},
                 {{.drop = EMBEDDING, .add = HEAD, .copy = EMBEDDING}, 1, true},
                 {{.add = HEAD, .copy = EMBEDDING, .negated = true}, -1, false}};
    float expected[MAX_VOCAB] = {0}, logits[MAX_VOCAB] = {0};
    Engine *plain = edited("models/llama", &(Edit){0}, expected);
    const int vocab = plain->model->shape.vocab_size;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Engine *engine = edited("models/llama", &CASES[i].edit, logits);
        const Model *m = engine->model;
        assert_int_equal(m->tied_head, CASES[i].tied);
        assert_int_equal(m->head.output.data == m->head.embedding.data, CASES[i].tied);
        if (CASES[i].tied) assert_int_equal(m->weight_bytes, plain->model->weight_bytes); // once
        for (int j = 0; j < vocab; j++) assert_true(logits[j] == CASES[i].sign * expected[j]);
        engine_close(engine);
    }
    engine_close(plain);
}

// Makes a.safetensors and b.safetensors of a folder its model.
static void join_files(const char *folder) {
    static const char *const files[] = {"a.safetensors", "b.safetensors"};
    json_t *map = json_object(), *value;
    char path[4096];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        Bytes all = bytes_of_file(path);
        uint64_t length;
        memcpy(&length, all.data, sizeof length);
        json_t *header = json_loadb((const char *)all.data + 8, length, 0, NULL);
        const char *name;
        json_object_foreach(header, name, value) if (strcmp(name, "__metadata__") != 0)
            json_object_set_new(map, name, json_string(files[i]));
        json_decref(header);
        bytes_free(&all);
    }
    json_t *index = json_pack("{s:o}", "weight_map", map);
    char *text = json_dumps(index, 0);
    folder_write_text(folder, "model.safetensors.index.json", text);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(remove(path), 0);
    free(text);
    json_decref(index);
}

// Frequencies that a file was saved with must be those that its config.json asks for, as they are or in 16 bits.
static void saved_frequencies_are_compared(void **state) {
    (void)state;
    static const char HEADER[] = "{\"model.layers.0.self_attn.rotary_emb.inv_freq\": {\"dtype\": \"%s\", "
                                 "\"shape\": [%d], \"data_offsets\": "
                                 "[0, %d]}}";
    static const struct {
        double base;
        int n;
        bool half, refused;
    } CASES[] = {
        {10000, 6, false, false}, {10000, 6, true, false}, {10500, 6, false, true}, {10000, 5, false, true}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[300];
        int size = CASES[i].n * (CASES[i].half ? 2 : 4);
        snprintf(text, sizeof text, HEADER, CASES[i].half ? "BF16" : "F32", CASES[i].n, size);
        char *folder = changed_folder("models/llama", NULL, &(Edit){0});
        Bytes bytes = safetensors_of(text, 0);
        for (int k = 0; k < CASES[i].n; k++) {
            float value = (float)pow(CASES[i].base, -k / 6.0);
            bytes_add(&bytes, (const char *)&value + (CASES[i].half ? 2 : 0),
                      CASES[i].half ? 2 : 4); // cut to bf16
        }
        Bytes weights = bytes_of_file(GOLDEN "/models/llama/model.safetensors");
        folder_write(folder, "a.safetensors", weights.data, weights.size);
        folder_write(folder, "b.safetensors", bytes.data, bytes.size);
        bytes_free(&weights);
        bytes_free(&bytes);
        join_files(folder);
        Error error = {0};
        Model *model = NULL;
        Status status = model_open(folder, &model, &error);
        if (status != (CASES[i].refused ? STATUS_UNSUPPORTED : STATUS_OK) ||
            (status &&
             !strstr(error.message, "inv_freq has other frequencies than those that config.json asks for")))
            fail_msg("base %g, %d: status %d, \"%s\"", CASES[i].base, CASES[i].n, status, error.message);
        model_close(model);
        folder_remove(folder);
    }
}

// A tensor without a place is an error that names it, unless it is a mask, which older files were saved with.
static void tensors_without_a_place_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *model, *add, *copy;
        bool refused;
    } CASES[] = {
        {"models/llama", "model.layers.0.self_attn.rotary_emb.inv_freq", "model.norm.weight", true},
        {"models/llama", "model.layers.0.self_attn.q_norm.weight", "model.norm.weight", true},
        {"models/llama", "model.layers.1.self_attn.v_proj.bias", "model.norm.weight", true},
        {"models/llama", "model.layers.2.input_layernorm.weight", "model.norm.weight", true},
        {"models/llama", "model.layers.0.post_feedforward_layernorm.weight", "model.norm.weight", true},
        {"models/llama", "lm_head.bias", "model.norm.weight", true},
        {"models/llama", "norm.weight", "model.norm.weight", true}, // twice, under the bare name
        {"models/qwen2", "model.layers.0.self_attn.o_proj.bias", "model.norm.weight", true},
        {"models/qwen3", "model.layers.0.self_attn.sinks", "model.norm.weight", true},
        {"architectures/gptj", "transformer.h.0.attn.masked_bias", "transformer.ln_f.bias", false},
        {"architectures/gptj", "transformer.h.1.attn.bias", "transformer.ln_f.bias", false},
        {"architectures/gptj", "transformer.h.1.attn.q_proj.bias", "transformer.ln_f.bias", true},
        {"dense/gpt2", "h.0.attn.bias", "ln_f.bias", false},
        {"dense/gpt2", "h.1.attn.c_attn.scales", "ln_f.bias", true},
        {"architectures/gpt_neox", "gpt_neox.layers.1.attention.bias", "gpt_neox.final_layer_norm.bias",
         false},
        {"architectures/gpt_neox", "gpt_neox.layers.1.attention.masked_bias",
         "gpt_neox.final_layer_norm.bias", false},
        {"architectures/mpt", "transformer.blocks.0.attn.q_ln.weight", "transformer.norm_f.weight", true},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *folder =
            changed_folder(CASES[i].model, NULL, &(Edit){.add = CASES[i].add, .copy = CASES[i].copy});
        Error error = {0};
        Model *model = NULL;
        Status status = model_open(folder, &model, &error);
        folder_remove(folder);
        if (status != (CASES[i].refused ? STATUS_UNSUPPORTED : STATUS_OK) ||
            (status && !strstr(error.message, CASES[i].add)))
            fail_msg("%s with %s: status %d, \"%s\"", CASES[i].model, CASES[i].add, status, error.message);
        model_close(model);
    }
}

// An expert's tensor that is missing is named with its number.
static void a_missing_expert_is_named(void **state) {
    (void)state;
    static const char NAME[] = "model.layers.1.block_sparse_moe.experts.3.w1.weight";
    char *folder = changed_folder("experts/mixtral", NULL, &(Edit){.drop = NAME});
    Error error = {0};
    Model *model = NULL;
    assert_int_equal(model_open(folder, &model, &error), STATUS_FILE);
    if (!strstr(error.message, "layer 1: tensor block_sparse_moe.experts.3.w1.weight is missing"))
        fail_msg("\"%s\"", error.message);
    folder_remove(folder);
}

// norm_head would change the embedding that a tied head is.
static void a_tied_head_has_no_norm(void **state) {
    (void)state;
    json_t *change = json_pack("{s:b}", "tie_word_embeddings", 1);
    char *folder = changed_folder("experts/ling1", change, &(Edit){.drop = "lm_head.weight"});
    Error error = {0};
    Model *model = NULL;
    assert_int_equal(model_open(folder, &model, &error), STATUS_UNSUPPORTED);
    if (!strstr(error.message, "norm_head divides")) fail_msg("\"%s\"", error.message);
    json_decref(change);
    folder_remove(folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_counts_or_is_refused),
        cmocka_unit_test(each_key_of_dense_ones_counts_or_is_refused),
        cmocka_unit_test(each_key_of_experts_counts_or_is_refused),
        cmocka_unit_test(each_key_of_latent_ones_counts_or_is_refused),
        cmocka_unit_test(each_key_of_convolutions_counts_or_is_refused),
        cmocka_unit_test(each_key_of_recurring_ones_counts_or_is_refused),
        cmocka_unit_test(each_key_of_state_spaces_counts_or_is_refused),
        cmocka_unit_test(each_key_of_recent_ones_counts_or_is_refused),
        cmocka_unit_test(each_key_of_further_ones_counts_or_is_refused),
        cmocka_unit_test(default_configs_are_read),
        cmocka_unit_test(a_head_in_the_file_is_the_head),
        cmocka_unit_test(saved_frequencies_are_compared),
        cmocka_unit_test(tensors_without_a_place_are_refused),
        cmocka_unit_test(a_missing_expert_is_named),
        cmocka_unit_test(a_tied_head_has_no_norm),
    };
    return test_main("model keys", argc, argv, tests);
}
