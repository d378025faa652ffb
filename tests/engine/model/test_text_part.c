// The text part of a checkpoint that does more than write text: its config.json's text_config and its tensors under another
// name give the logits of the same model by itself; other parts are named and left alone, anything else is refused.
#include "tests/support/files.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include "engine/engine_internal.h"
#include "engine/session/session_step.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Whole {
    const char *root, *text;  // the golden model
    const char *type, *class; // of the whole; NULL: its tensors are under their own names
    bool within;              // names as transformers 5 writes them, else 4
} Whole;

static const Whole WHOLES[] = {
    {GOLDEN_DENSE, "gemma3", "gemma3", "Gemma3ForConditionalGeneration", false},
    {GOLDEN_DENSE, "gemma3", "gemma3", "Gemma3ForConditionalGeneration", true},
    {GOLDEN_MODELS, "mistral", "mistral3", "Mistral3ForConditionalGeneration", false},
    {GOLDEN_MODELS, "mistral", "mistral3", "Mistral3ForConditionalGeneration", true},
    {GOLDEN_EXPERTS, "llama4", "llama4", "Llama4ForConditionalGeneration", false},
    {GOLDEN_DENSE, "gemma4", "gemma4", "Gemma4ForConditionalGeneration", true},
    {GOLDEN_DENSE, "gemma4-e", "gemma4", "Gemma4ForConditionalGeneration", true},
    {GOLDEN_DENSE, "gemma4-moe", "gemma4", "Gemma4ForConditionalGeneration", true},
    {GOLDEN_DENSE, "gemma4-unified", "gemma4_unified", "Gemma4UnifiedForConditionalGeneration", true},
    {GOLDEN_DENSE, "muse_glimmer-listed", "muse_glimmer", "MuseGlimmerForConditionalGeneration", true},
    {GOLDEN_DENSE, "qwen2_vl", "qwen2_vl", "Qwen2VLForConditionalGeneration", true},
    {GOLDEN_DENSE, "qwen3_vl", "qwen3_vl", "Qwen3VLForConditionalGeneration", true},
    {GOLDEN_DENSE, "glm4v", "glm4v", "Glm4vForConditionalGeneration", true},
    {GOLDEN_EXPERTS, "glm4v_moe", "glm4v_moe", "Glm4vMoeForConditionalGeneration", true},
    {GOLDEN_EXPERTS, "qwen3_vl_moe", "qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", true},
    {GOLDEN_LATENT, "mistral4", "mistral3", "Mistral3ForConditionalGeneration", false},
    {GOLDEN_CONVOLUTION, "lfm2", "lfm2_vl", "Lfm2VlForConditionalGeneration", true},
    {GOLDEN_CONVOLUTION, "lfm3", "lfm3_vl", "Lfm3VlForConditionalGeneration", true},
    {GOLDEN_DELTA, "qwen3_5", "qwen3_5", "Qwen3_5ForConditionalGeneration", true},
    {GOLDEN_DELTA, "qwen3_5_moe", "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", true},
};

// "model.layers.0.…" as a part of a whole.
static void part_name(const Whole *w, const char *name, char *part, size_t size) {
    const bool of_base = strncmp(name, "model.", 6) == 0;
    if (!w->type)
        snprintf(part, size, "%s", name);
    else if (!w->within)
        snprintf(part, size, "language_model.%s", name);
    else
        snprintf(part, size, "%s%s", of_base ? "model.language_model." : "", of_base ? name + 6 : name);
}

// Its tensors under their names in the whole, and a further one, of the values of the last norm.
static void write_weights(const Whole *w, const char *further, const char *folder) {
    char path[256], name[256];
    snprintf(path, sizeof path, "%s/%s/model.safetensors", w->root, w->text);
    Bytes all = bytes_of_file(path);
    uint64_t length;
    memcpy(&length, all.data, sizeof length);
    json_t *header = json_loadb((const char *)all.data + 8, length, 0, NULL), *out = json_object(), *value;
    const char *key;
    json_object_foreach(header, key, value) {
        if (strcmp(key, "__metadata__") == 0) continue;
        part_name(w, key, name, sizeof name);
        json_object_set(out, name, value);
    }
    const json_t *last = json_object_get(header, "model.norm.weight");
    json_t *norm = json_deep_copy(last ? last : json_object_get(header, "model.embedding_norm.weight"));
    const json_t *at = json_object_get(norm, "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(at, 0)),
               end = json_integer_value(json_array_get(at, 1)), size = (json_int_t)(all.size - 8 - length);
    json_object_set_new(norm, "data_offsets", json_pack("[I, I]", size, size + end - begin));
    if (further) json_object_set(out, further, norm);
    char *text = json_dumps(out, 0);
    Bytes written = safetensors_of(text, 0);
    bytes_add(&written, all.data + 8 + length, (size_t)size);
    if (further) bytes_add(&written, all.data + 8 + length + begin, (size_t)(end - begin));
    folder_write(folder, "model.safetensors", written.data, written.size);
    free(text);
    json_decref(norm);
    json_decref(out);
    json_decref(header);
    bytes_free(&written);
    bytes_free(&all);
}

// The folder of a whole, with `change` to the outer config.json (NULL: none); folder_remove() it.
static char *whole_folder(const Whole *w, const char *change, const char *further) {
    char path[256];
    char *folder = folder_new();
    snprintf(path, sizeof path, "%s/%s/config.json", w->root, w->text);
    json_t *text = json_load_file(path, 0, NULL);
    json_object_del(text, "architectures");
    json_t *config = json_pack("{s: s, s: [s], s: o, s: {s: i}, s: i, s: i}", "model_type", w->type,
                               "architectures", w->class, "text_config", text, "vision_config", "hidden_size",
                               32, "image_token_index", 70, "mm_tokens_per_image", 4);
    json_t *changes = change ? json_loads(change, 0, NULL) : NULL;
    if (changes) json_object_update(config, changes);
    char *written = json_dumps(config, 0);
    folder_write_text(folder, "config.json", written);
    write_weights(w, further, folder);
    free(written);
    json_decref(changes);
    json_decref(config);
    return folder;
}

// The folder of a text with another part beside it; the config is given away.
static char *flat_folder(json_t *config, const char *further) {
    char *folder = folder_new(), *written = json_dumps(config, 0);
    folder_write_text(folder, "config.json", written);
    write_weights(&(Whole){GOLDEN_DENSE, "qwen2_vl", NULL, NULL, false}, further, folder);
    free(written);
    json_decref(config);
    return folder;
}

static Status open_whole(const char *folder, Engine **engine, Error *error) {
    Model *model = NULL;
    *engine = NULL;
    Status status = model_open(folder, &model, error);
    if (status) return status;
    EngineOptions options = {
        .device = "cpu:exact", .n_threads = 1, .context_size = 64, .cache = cache_options(DTYPE_F32)};
    return engine_open_model(model, &options, engine, error);
}

// A folder, removed behind it, has the logits of the golden model, and says that it has other parts.
static void check_logits(const char *root, const char *text, char *folder, const char *parts) {
    Engine *engine;
    GoldenSet set;
    Error error = {0};
    if (golden_model_read(root, text, &set, &error)) fail_msg("%s", error.message);
    if (open_whole(folder, &engine, &error)) fail_msg("%s: %s", text, error.message);
    assert_string_equal(engine_model(engine)->other_parts, parts);
    const GoldenCase *c = &set.cases[0];
    size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    if (golden_model_evaluate(engine, c, 7, logits, &error)) fail_msg("%s", error.message);
    double distance = golden_distance(logits, c->expected, count);
    if (!(distance <= 1e-5)) fail_msg("%s: relative error %g", text, distance);
    free(logits);
    engine_close(engine);
    golden_model_free(&set);
    folder_remove(folder);
}

static void the_text_is_a_model_by_itself(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof WHOLES / sizeof *WHOLES; i++) {
        const Whole *w = &WHOLES[i];
        char *folder =
            whole_folder(w, NULL, w->within ? "model.vision_tower.norm.weight" : "vision_tower.norm.weight");
        check_logits(w->root, w->text, folder, "vision_tower");
    }
}

// As their makers wrote them: all keys on one level, the text's tensors under its own names, and what sees beside them.
static void a_text_with_parts_beside_it(void **state) {
    (void)state;
    static const char *const KINDS[][2] = {{"qwen2_vl", "Qwen2VLForConditionalGeneration"},
                                           {"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration"}};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        json_t *config = json_load_file(GOLDEN_DENSE "/qwen2_vl/config.json", 0, NULL);
        json_object_set_new(config, "model_type", json_string(KINDS[i][0]));
        json_object_set_new(config, "architectures", json_pack("[s]", KINDS[i][1]));
        json_object_set_new(config, "vision_config", json_pack("{s: i}", "hidden_size", 32));
        json_object_set_new(config, "image_token_id", json_integer(50));
        check_logits(GOLDEN_DENSE, "qwen2_vl", flat_folder(config, "visual.merger.ln_q.weight"), "visual");
    }
}

// Parts that do not write text, and what predicts further tokens, in a folder without a number of a layer.
static void other_parts_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *further, *parts;
    } CASES[] = {
        {"qwen3_5", "model.visual.norm.weight", "visual"},
        {"qwen3_5", "mtp.norm.weight", "a layer that predicts further tokens"},
        {"qwen3_5_moe", "mtp.layers.0.input_layernorm.weight", "a layer that predicts further tokens"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const Whole *w = WHOLES;
        while (strcmp(w->text, CASES[i].text) != 0) w++;
        char *folder = whole_folder(w, NULL, CASES[i].further);
        Model *model = NULL;
        Error error = {0};
        if (model_open(folder, &model, &error)) fail_msg("%s", error.message);
        assert_string_equal(model->other_parts, CASES[i].parts);
        model_close(model);
        folder_remove(folder);
    }
}

static void what_is_neither_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *change, *further, *message;
    } CASES[] = {
        {"{\"model_type\": \"llava\"}", NULL,
         "a llava model (model_type) around a gemma3_text model (text_config.model_type)"},
        {"{\"model_type\": 3}", NULL, "does not name what is around its text_config"},
        {"{\"architectures\": [\"Gemma3ForCausalLM\"]}", NULL, "architectures names Gemma3ForCausalLM"},
        {"{\"something\": 3}", NULL, "palaver does not know what something means"},
        {NULL, "model.adapter.weight", "tensor model.adapter.weight has no place"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *folder = whole_folder(&WHOLES[0], CASES[i].change, CASES[i].further);
        Engine *engine;
        Error error = {0};
        assert_int_not_equal(open_whole(folder, &engine, &error), STATUS_OK);
        if (!strstr(error.message, CASES[i].message)) fail_msg("%s", error.message);
        folder_remove(folder);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_a_model_by_itself),
        cmocka_unit_test(a_text_with_parts_beside_it),
        cmocka_unit_test(other_parts_are_named),
        cmocka_unit_test(what_is_neither_is_refused),
    };
    return test_main("text part", argc, argv, tests);
}
