// Every value of every small model's config.json, in turn of each of JSON's types: what is of the wrong one is refused by
// the name of its key, or changes nothing.
#include "tests/support/model/base_config.h"
#include "tests/support/model/model_config.h"
#include "tests/support/test.h"
#include "engine/model/model.h"

#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const VALUES[] = {"null", "true", "0", "\"x\"", "[]", "{}"};

typedef struct Case {
    const char *file;
    json_t *config;        // with the value in its place
    const Model *as_it_is; // of the file
} Case;

static Status read_model(const json_t *config, Model **model, Error *error) {
    char *text = json_dumps(config, 0);
    Status status = model_from_config(text, strlen(text), NULL, 0, model, error);
    free(text);
    return status;
}

// Whether a value is of a type that the key may have as well: a null and what is empty are silence, a flag may be a number.
static bool may_be(const json_t *value, const json_t *before) {
    const bool nothing = json_is_null(value) || (json_is_array(value) && !json_array_size(value)) ||
                         (json_is_object(value) && !json_object_size(value));
    const bool number = json_is_number(value) || json_is_boolean(value),
               was = json_is_number(before) || json_is_boolean(before) || json_is_null(before);
    return nothing || (number && was) || json_typeof(value) == json_typeof(before);
}

// All that is computed by but for lists of a model's own; of these the two that many keys go into.
static bool is_same(const Model *a, const Model *b) {
    DecoderShape one = a->shape, other = b->shape;
    const size_t n_layers = (size_t)one.n_layers;
    one.rope.inv_freq = other.rope.inv_freq = NULL;
    one.rope.of_layers = other.rope.of_layers = NULL;
    one.heads_of_layers = other.heads_of_layers = NULL;
    one.sink_scores = other.sink_scores = NULL;
    if (memcmp(&one, &other, sizeof one) != 0) return false;
    const size_t n_turned = (size_t)(rope_tables(&one.rope) * rope_sets(&one.rope) * one.rope.rotary_dim / 2);
    return (!n_turned || !memcmp(a->inv_freq, b->inv_freq, n_turned * sizeof *a->inv_freq)) &&
           !memcmp(a->attention_windows, b->attention_windows, n_layers * sizeof *a->attention_windows);
}

static void check(const Case *of, const char *key, const json_t *before, const json_t *value,
                  const char *spelled) {
    Model *model;
    Error error = {0};
    const Status status = read_model(of->config, &model, &error);
    if (status && (!error.message[0] || strchr(error.message, '\n')))
        fail_msg("%s: %s = %s: \"%s\"", of->file, key, spelled, error.message);
    if (status && !may_be(value, before) && !strstr(error.message, key))
        fail_msg("%s: %s = %s: %s", of->file, key, spelled, error.message);
    if (!status && !may_be(value, before) && !is_same(model, of->as_it_is))
        fail_msg("%s: %s = %s is another model", of->file, key, spelled);
    model_close(model);
}

static void change_each(const Case *of, json_t *object) {
    void *place, *next;
    for (place = json_object_iter(object); place; place = next) {
        next = json_object_iter_next(object, place);
        const char *key = json_object_iter_key(place);
        json_t *before = json_incref(json_object_iter_value(place));
        for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
            json_t *value = json_loads(VALUES[i], JSON_DECODE_ANY, NULL);
            json_object_iter_set(object, place, value);
            check(of, key, before, value, VALUES[i]);
            json_decref(value);
        }
        json_object_iter_set_new(object, place, before);
        // A number that JSON has not is an object of ours.
        if (json_is_object(before) && !json_object_get(before, "__float__")) change_each(of, before);
    }
}

static void every_type_in_every_place(void **state) {
    (void)state;
    glob_t found;
    size_t n = 0;
    assert_int_equal(glob("tests/golden/*/*/config.json", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        Case of = {.file = found.gl_pathv[i]};
        Model *model = NULL;
        Error error = {0};
        of.config = json_load_file(of.file, 0, NULL);
        if (of.config && read_model(of.config, &model, &error) == STATUS_OK) {
            of.as_it_is = model;
            change_each(&of, of.config);
            n++;
        }
        model_close(model);
        json_decref(of.config);
    }
    globfree(&found);
    assert_true(n >= 60);
}

static void what_it_is_and_should_be(void **state) {
    (void)state;
    static const struct {
        const char *changes, *says;
    } CASES[] = {
        {"\"rope_parameters\": 0", "config.json: rope_parameters should be an object, not the number 0"},
        {"\"rope_scaling\": \"yarn\"", "rope_scaling should be an object, not the text \"yarn\""},
        {"\"rope_parameters\": {\"rope_theta\": {}}",
         "rope_parameters: rope_theta should be a number, not an object"},
        {"\"rope_parameters\": {\"full_attention\": 1.5}",
         "rope_parameters: full_attention should be an object, not the number 1.5"},
        {"\"layer_types\": [\"full_attention\", 7]", "layer_types[1] should be a string, not the number 7"},
        {"\"mlp_only_layers\": true", "mlp_only_layers should be a list of integers, not true"},
        {"\"first_k_dense_replace\": []", "first_k_dense_replace should be an integer, not a list"},
        {"\"text_config\": 1", "text_config should be an object, not the number 1"},
        {"\"vocab_size\": \"many\"", "vocab_size should be an integer, not the text \"many\""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[300];
        Model *model;
        Error error = {0};
        snprintf(text, sizeof text, "{%s}", CASES[i].changes);
        assert_int_equal(base_config_with(text, NULL, &model, &error), STATUS_FILE);
        if (!strstr(error.message, CASES[i].says)) fail_msg("%s", error.message);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_is_and_should_be),
        cmocka_unit_test(every_type_in_every_place),
    };
    return test_main("model_types", argc, argv, tests);
}
