#include "tests/support/model/base_config.h"

#include "tests/support/model/model_config.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char BASE[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4, \"vocab_size\": 100, \"max_position_embeddings\": 512}";

Status base_config_with(const char *changes, const char *generation, Model **model, Error *error) {
    json_t *config = json_loads(BASE, 0, NULL), *changed = json_loads(changes, 0, NULL);
    if (changed == NULL) fail_msg("no JSON: %s", changes);
    const char *key;
    json_t *value;
    json_object_update(config, changed);
    json_object_foreach(changed, key, value) {
        if (json_is_string(value) && strcmp(json_string_value(value), "absent") == 0)
            json_object_del(config, key);
    }
    char *text = json_dumps(config, 0);
    Status status = model_from_config(text, strlen(text), generation,
                                      generation != NULL ? strlen(generation) : 0, model, error);
    free(text);
    json_decref(config);
    json_decref(changed);
    return status;
}

Model *base_config_ok(const char *changes, const char *generation) {
    Model *model;
    Error error = {0};
    if (base_config_with(changes, generation, &model, &error) != STATUS_OK)
        fail_msg("%s: %s", changes, error.message);
    return model;
}
