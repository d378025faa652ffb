// What the files say about generating: special ids, and sampling settings their makers recommend.
#include "engine/model/model_internal.h"

#include <limits.h>
#include <math.h>

// Files are careless here (-1, ids beyond the vocabulary for tokens the model lacks): such ids are none.
static int32_t valid_id(const Model *model, int64_t id) {
    return id >= 0 && id < model->shape.vocab_size ? (int32_t)id : -1;
}

static void add_eos(Model *model, int64_t id) {
    int32_t valid = valid_id(model, id);
    if (valid >= 0 && !model_is_eos(model, valid) && model->n_eos < MODEL_MAX_EOS) {
        model->eos_ids[model->n_eos++] = valid;
    }
}

// An id, a list of ids, or null.
static Status add_json_eos(Model *model, const json_t *object, const char *path, Error *error) {
    const json_t *found = json_object_get(object, "eos_token_id");
    if (json_is_integer(found)) add_eos(model, json_integer_value(found));
    bool ok = found == NULL || json_is_null(found) || json_is_integer(found) || json_is_array(found);
    for (size_t i = 0; i < json_array_size(found) && ok; i++) {
        const json_t *id = json_array_get(found, i);
        ok = json_is_integer(id);
        if (ok) add_eos(model, json_integer_value(id));
    }
    return ok ? STATUS_OK
              : error_set(error, STATUS_FILE, "%s: eos_token_id should be an id or a list of ids", path);
}

static Status read_ids(Model *model, const ParamSource *source, Error *error) {
    static const char *const GGUF_ENDS[] = {".tokenizer.ggml.eos_token_id", ".tokenizer.ggml.eot_token_id",
                                            ".tokenizer.ggml.eom_token_id"};
    int64_t bos = -1;
    Status status = param_integer(source, (Key){"bos_token_id", ".tokenizer.ggml.bos_token_id"}, &bos, error);
    model->bos_id = valid_id(model, bos);
    if (source->config != NULL) {
        if (status == STATUS_OK) status = add_json_eos(model, source->config, source->path, error);
        if (status == STATUS_OK)
            status = add_json_eos(model, source->generation, "generation_config.json", error);
        return status;
    }
    for (size_t i = 0; i < sizeof GGUF_ENDS / sizeof *GGUF_ENDS && status == STATUS_OK; i++) {
        int64_t id = -1;
        status = param_integer(source, (Key){NULL, GGUF_ENDS[i]}, &id, error);
        add_eos(model, id);
    }
    return status;
}

// A recommendation outside of what makes sense is no recommendation.
static double within(double value, double least, double most) {
    return value >= least && value <= most ? value : NAN;
}

Status model_read_generation(Model *model, const ParamSource *source, Error *error) {
    GenerationDefaults *defaults = &model->generation;
    // top_k may be written as a number; in config.json files these keys are not looked for: they were never
    // meant.
    double top_k = NAN;
    const struct {
        Key key;
        double *value;
    } numbers[] = {
        {{"temperature", ".general.sampling.temp"}, &defaults->temperature},
        {{"top_k", ".general.sampling.top_k"}, &top_k},
        {{"top_p", ".general.sampling.top_p"}, &defaults->top_p},
        {{"min_p", ".general.sampling.min_p"}, &defaults->min_p},
        {{"typical_p", NULL}, &defaults->typical_p},
        {{"repetition_penalty", ".general.sampling.penalty_repeat"}, &defaults->repetition_penalty},
    };
    *defaults = (GenerationDefaults){NAN, NAN, NAN, NAN, NAN, -1, -1};
    Status status = read_ids(model, source, error);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == STATUS_OK; i++) {
        status = source->config == NULL ? param_number(source, numbers[i].key, numbers[i].value, error)
                                        : json_number_at(source->generation, "generation_config.json",
                                                         numbers[i].key.hf, numbers[i].value, error);
    }
    const json_t *sample = json_object_get(source->generation, "do_sample");
    if (json_is_boolean(sample)) defaults->do_sample = json_is_true(sample);
    defaults->temperature = within(defaults->temperature, 0, 100);
    defaults->top_p = within(defaults->top_p, 0, 1);
    defaults->min_p = within(defaults->min_p, 0, 1);
    defaults->typical_p = within(defaults->typical_p, 0, 1);
    defaults->repetition_penalty = within(defaults->repetition_penalty, 0.01, 100);
    if (top_k >= 0 && top_k <= INT_MAX) defaults->top_k = (int)top_k;
    return status;
}
