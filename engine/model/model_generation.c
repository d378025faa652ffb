// What the files say about generating: special ids, and sampling settings their makers recommend.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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
    bool ok = !found || json_is_null(found) || json_is_integer(found) || json_is_array(found);
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
    model->seen_both_ways = source->architecture->seen_both_ways;
    if (!status && model->seen_both_ways && model->bos_id < 0)
        return error_set(error, STATUS_FILE, "%s: bos_token_id, where a prompt ends, is %lld", source->path,
                         (long long)bos);
    if (source->config) {
        if (!status) status = add_json_eos(model, source->config, source->path, error);
        if (!status) status = add_json_eos(model, source->generation, "generation_config.json", error);
        return status;
    }
    for (size_t i = 0; i < sizeof GGUF_ENDS / sizeof *GGUF_ENDS && !status; i++) {
        int64_t id = -1;
        status = param_integer(source, (Key){NULL, GGUF_ENDS[i]}, &id, error);
        add_eos(model, id);
    }
    return status;
}

// Of generation_config.json and of GGUF files. In config.json these keys are not looked for: they were never meant
// there.
static const struct {
    const char *setting; // palaver's
    Key key;
    double least,
        most; // what is outside of them is not followed; -1, which stands for none, is no recommendation
} RECOMMENDED[MODEL_N_GENERATION] = {
    {"temperature", {"temperature", ".general.sampling.temp"}, 0, 100},
    {"top_k", {"top_k", ".general.sampling.top_k"}, 0, INT_MAX},
    {"top_p", {"top_p", ".general.sampling.top_p"}, 0, 1},
    {"min_p", {"min_p", ".general.sampling.min_p"}, 0, 1},
    {"typical_p", {"typical_p", NULL}, 0, 1},
    {"repeat_penalty", {"repetition_penalty", ".general.sampling.penalty_repeat"}, 0.01, 100},
    {"max_tokens", {"max_new_tokens", NULL}, 1, INT_MAX},
};

// Keys of generation_config.json that change what transformers generates and that palaver has nothing for, each with
// the number that asks for nothing; null, false and an empty list do so everywhere.
static const struct {
    const char *key;
    double off; // NAN: no number does
} UNFOLLOWED[] = {{"max_time", NAN},
                  {"stop_strings", NAN},
                  {"min_length", 0},
                  {"min_new_tokens", 0},
                  {"num_beams", 1},
                  {"num_beam_groups", 1},
                  {"diversity_penalty", 0},
                  {"penalty_alpha", 0},
                  {"dola_layers", NAN},
                  {"no_repeat_ngram_size", 0},
                  {"encoder_no_repeat_ngram_size", 0},
                  {"encoder_repetition_penalty", 1},
                  {"exponential_decay_length_penalty", NAN},
                  {"bad_words_ids", NAN},
                  {"force_words_ids", NAN},
                  {"constraints", NAN},
                  {"sequence_bias", NAN},
                  {"suppress_tokens", NAN},
                  {"begin_suppress_tokens", NAN},
                  {"forced_bos_token_id", NAN},
                  {"forced_eos_token_id", NAN},
                  {"forced_decoder_ids", NAN},
                  {"guidance_scale", 1},
                  {"epsilon_cutoff", 0},
                  {"eta_cutoff", 0},
                  {"top_h", NAN},
                  {"watermarking_config", NAN}};

static bool asks_for_nothing(const json_t *value, double off) {
    if (!value || json_is_null(value) || json_is_false(value)) return true;
    if (json_is_array(value)) return json_array_size(value) == 0;
    if (json_is_object(value)) return json_object_size(value) == 0;
    return json_is_number(value) && json_number_value(value) == off;
}

// Of more than there is room for, as many as fit, and a sign that there are others.
static void name_unfollowed(Model *model, const char *key) {
    const size_t n = strlen(model->unfollowed), room = sizeof model->unfollowed - n, sign = strlen("...");
    if (n >= sign && !strcmp(model->unfollowed + n - sign, "...")) return;
    const bool fits = strlen(key) + sizeof ", , ..." <= room;
    snprintf(model->unfollowed + n, room, "%s%s", n == 0 ? "" : ", ", fits ? key : "...");
}

static void find_unfollowed(Model *model, const json_t *generation) {
    for (size_t i = 0; i < sizeof UNFOLLOWED / sizeof *UNFOLLOWED; i++)
        if (!asks_for_nothing(json_object_get(generation, UNFOLLOWED[i].key), UNFOLLOWED[i].off))
            name_unfollowed(model, UNFOLLOWED[i].key);
}

Status model_read_generation(Model *model, const ParamSource *source, Error *error) {
    Status status = read_ids(model, source, error);
    find_unfollowed(model, source->generation);
    static const JsonTyped SAMPLE = {"do_sample", JSON_A_FLAG};
    const json_t *sample = json_object_get(source->generation, SAMPLE.key);
    if (!status) status = json_check_type(source->generation, "generation_config.json", &SAMPLE, error);
    for (size_t i = 0; i < MODEL_N_GENERATION; i++) {
        const Key *key = &RECOMMENDED[i].key;
        double value = NAN;
        if (!status)
            status = !source->config ? param_number(source, *key, &value, error)
                                     : json_read_number(source->generation, "generation_config.json", key->hf,
                                                        &value, error);
        if (!(value >= RECOMMENDED[i].least && value <= RECOMMENDED[i].most)) {
            if (!isnan(value) && value != -1) name_unfollowed(model, source->config ? key->hf : key->gguf);
            value = NAN;
        }
        if (json_is_false(sample) && strcmp(RECOMMENDED[i].setting, "temperature") == 0) value = 0;
        model->generation[i] = (GenerationDefault){RECOMMENDED[i].setting, value};
    }
    return status;
}
