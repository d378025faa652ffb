#include "tests/support/model/model_config.h"

#include "engine/model/model_internal.h"
#include "engine/model/config/unread.h"
#include "kernels/base/text/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

Status model_from_config(const char *config, size_t config_size, const char *generation,
                         size_t generation_size, Model **model, Error *error) {
    *model = NULL;
    json_t *parsed = NULL, *parsed_generation = NULL;
    Status status = json_parse_python("config.json", config, config_size, &parsed, error);
    if (!status && generation) {
        status = json_parse("generation_config.json", generation, generation_size, &parsed_generation, error);
    }
    Model *created = NULL;
    if (!status) {
        created = calloc(1, sizeof *created);
        if (!created) {
            status = STATUS_MEMORY;
            error_set(error, status, "out of memory");
        } else {
            ParamSource source = {.config = parsed, .generation = parsed_generation, .path = "config.json"};
            Unread unread;
            status = unread_open(&source, &unread, error);
            if (!status) status = model_read_params(created, &source, error);
            unread_close(&unread);
        }
    }
    json_decref(parsed);
    json_decref(parsed_generation);
    if (status) {
        model_close(created);
        return status;
    }
    *model = created;
    return STATUS_OK;
}

double model_recommended(const Model *model, const char *setting) {
    for (size_t i = 0; i < MODEL_N_GENERATION; i++)
        if (strcmp(model->generation[i].key, setting) == 0) return model->generation[i].value;
    return NAN;
}
