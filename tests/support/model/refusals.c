#include "tests/support/model/refusals.h"

#include "engine/files/checkpoint_internal.h"
#include "tests/support/files.h"
#include "tests/support/model/model_config.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void refuse_configs(const char *folder, const ConfigRefusal *cases, size_t n) {
    char path[256];
    snprintf(path, sizeof path, "%s/config.json", folder);
    for (size_t i = 0; i < n; i++) {
        json_t *config = json_load_file(path, 0, NULL), *changes = json_loads(cases[i].changes, 0, NULL);
        json_object_update(config, changes);
        char *text = json_dumps(config, 0);
        Model *model = NULL;
        Error error = {0};
        const Status status = model_from_config(text, strlen(text), NULL, 0, &model, &error);
        if (!status || !strstr(error.message, cases[i].fragment))
            fail_msg("%s: status %d, \"%s\"", cases[i].changes, status, error.message);
        model_close(model);
        free(text);
        json_decref(changes), json_decref(config);
    }
}

// Where `name` stands in a file's bytes, and not as the beginning of a longer one: small numbers follow it.
static uint8_t *place_of(const Bytes *bytes, const char *name) {
    const size_t n = strlen(name);
    for (size_t i = 0; i + n < bytes->size; i++)
        if (memcmp(bytes->data + i, name, n) == 0 && bytes->data[i + n] < ' ') return bytes->data + i;
    fail_msg("the file has no %s", name);
    return NULL;
}

void refuse_ggufs(const char *path, const GgufRefusal *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        Bytes bytes = bytes_of_file(path);
        uint8_t *end = place_of(&bytes, cases[i].name) + strlen(cases[i].name);
        if (cases[i].at)
            memcpy(end + cases[i].at, &cases[i].value, sizeof cases[i].value);
        else
            end[-1]++;
        Checkpoint *checkpoint;
        Model *model = NULL;
        Error error = {0};
        Status status = checkpoint_from_gguf("a.gguf", bytes.data, bytes.size, &checkpoint, &error);
        if (!status) status = model_from_checkpoint(checkpoint, &model, &error);
        if (!status || !strstr(error.message, cases[i].fragment))
            fail_msg("%s: status %d, \"%s\"", cases[i].name, status, error.message);
        model_close(model);
        bytes_free(&bytes);
    }
}
