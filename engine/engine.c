#include "engine/grammar/vocabulary.h"
#include "engine/engine_internal.h"

#include "engine/backend.h"
#include "engine/files/tokenizer_source.h"
#include "engine/model/weights/conversion.h"
#include "kernels/hosts/world/world.h"
#include "kernels/split/split.h"

#include <stdio.h>
#include <stdlib.h>

// Of a made-up model's layers nobody knows what they will be.
static Fp8Inputs fp8_inputs(const Model *model, int wanted) {
    if (wanted == FP8_NEVER) return FP8_INPUTS_KEPT;
    if (!model->checkpoint) return wanted == FP8_ALWAYS ? FP8_INPUTS_ROWS : FP8_INPUTS_KEPT;
    return checkpoint_fp8_inputs(model->checkpoint, wanted == FP8_ALWAYS);
}

// The options with the context that is wanted.
static EngineOptions with_context(const EngineOptions *options, const Model *model) {
    EngineOptions own = *options;
    const int64_t most =
        options->context_most < model->context_length ? options->context_most : model->context_length;
    if (most > 0 && (own.context_size == 0 || own.context_size > most)) own.context_size = (int)most;
    return own;
}

Status engine_open_model(Model *model, const EngineOptions *wanted, Engine **out, Error *error) {
    const EngineOptions own = with_context(wanted, model), *options = &own;
    *out = NULL;
    Engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        model_close(model);
        return error_set(error, STATUS_MEMORY, "no memory for the engine");
    }
    engine->model = model;
    engine->part = (EnginePart){0, model->shape.n_layers, true, true};
    engine->n_rows = options->n_rows > 1 ? options->n_rows : 1;
    model->shape.fp8_inputs = fp8_inputs(model, options->fp8);
    engine->no_steps_ahead = options->no_steps_ahead;
    engine->wants_unified = options->softmax == SOFTMAX_UNIFIED;
    // A bias that grows with the distance has no base.
    engine->calibration =
        (CalibrationWish){options->random_weights, engine->wants_unified && !model->shape.alibi};
    Status status = model_reach_context(
        model, options->context_size > 0 ? options->context_size : model->context_length, error);
    if (!status) status = conversion_plan(model, options->weights, options->head, error);
    if (!status) status = ranks_meet(engine, options, error);
    if (!status) status = placement_open(engine, options, error);
    if (status)
        engine_close(engine);
    else
        *out = engine;
    return status;
}

Status engine_open(const EngineOptions *options, Engine **out, Error *error) {
    *out = NULL;
    Model *model = NULL;
    Tokenizer *tokenizer = NULL;
    char *jinja_template = NULL;
    Status status = model_open(options->model, &model, error);
    // Words before weights: what is wrong with them is known at once.
    if (!status) status = tokenizer_open_for(model->checkpoint, &tokenizer, error);
    if (!status) status = checkpoint_chat_template(model->checkpoint, &jinja_template, error);
    if (!status && tokenizer_size(tokenizer) > model->shape.vocab_size)
        status = error_set(error, STATUS_FILE, "%s: the tokenizer has %lld pieces, the model only %d",
                           options->model, (long long)tokenizer_size(tokenizer), model->shape.vocab_size);
    if (!status) {
        status = engine_open_model(model, options, out, error);
        model = NULL;
    }
    if (status) {
        free(jinja_template);
        tokenizer_close(tokenizer);
        model_close(model);
        return status;
    }
    tokenizer_set_interrupt(tokenizer, options->interrupt);
    (*out)->tokenizer = tokenizer;
    (*out)->jinja_template = jinja_template;
    return STATUS_OK;
}

void engine_close(Engine *engine) {
    if (!engine) return;
    placement_close(engine);
    ranks_close(engine);
    world_close(engine->world);
    free(engine->jinja_template);
    free(engine->kept_logits.row);
    vocabulary_close(engine->vocabulary);
    tokenizer_close(engine->tokenizer);
    model_close(engine->model);
    free(engine);
}

Status engine_check_files(const Engine *engine, Error *error) {
    bool in_place = backend_maps_any(engine->backend) && engine->model->checkpoint;
    return in_place ? checkpoint_check_files(engine->model->checkpoint, error) : STATUS_OK;
}

const Model *engine_model(const Engine *engine) {
    return engine->model;
}
Status engine_vocabulary(Engine *engine, Vocabulary **out, Error *error) {
    Status status = STATUS_OK;
    if (!engine->vocabulary)
        status =
            vocabulary_open(engine->tokenizer, engine->model->shape.vocab_size, &engine->vocabulary, error);
    *out = engine->vocabulary;
    return status;
}

const Tokenizer *engine_tokenizer(const Engine *engine) {
    return engine->tokenizer;
}
const char *engine_jinja_template(const Engine *engine) {
    return engine->jinja_template;
}
EngineMemory engine_memory(const Engine *engine) {
    return engine->memory;
}
EngineTokenTimes engine_token_times(const Engine *engine) {
    if (!split_side(engine->backend, SPLIT_FIRST)) return (EngineTokenTimes){0};
    const SplitTimes times = split_times(engine->backend);
    return (EngineTokenTimes){times.seconds[SPLIT_FIRST], times.seconds[SPLIT_SECOND],
                              split_visits_from(engine->backend)};
}
double engine_load_seconds(const Engine *engine) {
    return engine->load_seconds;
}
int engine_context_size(const Engine *engine) {
    return engine->context_size;
}
int64_t engine_token_bytes(const Engine *engine) {
    const KvLayout *l = &engine->cache.layout;
    return (kv_cache_bytes(l) - l->n_recurring * kv_layout_states_bytes(l)) / l->n_slots;
}
int engine_chunk(const Engine *engine) {
    return engine->forward.max_tokens;
}
int engine_rows(const Engine *engine) {
    return engine->n_rows;
}
int engine_full_sessions(const Engine *engine) {
    return engine->cache_options.n_sequences;
}
int64_t engine_weight_bytes(const Engine *engine, WeightType weights) {
    return conversion_bytes(engine->model, weights, engine->model->head_weights);
}
DType engine_cache_type(const Engine *engine) {
    return engine->cache.layout.type;
}
void engine_set_profile(Engine *engine, Profile *profile) {
    engine->forward.profile = profile;
}
const EngineDispatch *engine_dispatch(const Engine *engine) {
    return &engine->dispatch;
}
const char *engine_backend_note(const Engine *engine) {
    return engine->backend_note;
}
bool engine_sees_better(const Engine *engine) {
    return engine->sees_better;
}
const char *engine_cannot_shift(const Engine *engine) {
    const Model *model = engine->model;
    if (model->shape.n_positions > 0) return "its positions are learned, each by itself";
    if (model->shape.norms_turned) return "its keys are normed after they were turned";
    if (model->chunk > 0) return "its layers see chunks of the text";
    if (model->seen_both_ways) return "its prompt is seen both ways";
    if (decoder_recurring(&model->shape) > 0) return "its states have seen all of the text";
    if (model_rope_set(model, engine->context_size) > 0)
        return "its rotary frequencies go by the length of the text";
    return NULL;
}
Status engine_describe_softmax(const Engine *engine, char *text, size_t size, Error *error) {
    int n_layers = engine->model->shape.n_layers, n_based = 0;
    SoftmaxCounts counts;
    Status status = engine->backend->ops->softmax_counts(engine->backend, &counts, error);
    if (status) return status;
    for (int l = 0; l < n_layers; l++) n_based += engine->cache.layers[l].score_bases != NULL;
    if (decoder_attending(&engine->model->shape) == 0)
        snprintf(text, size, "none: no layer attends");
    else if (!engine->calibration.bases)
        snprintf(text, size, "running maxima%s",
                 engine->wants_unified ? ": a bias by distance has no base" : "");
    else
        snprintf(text, size, "%d of %d layers by bases%s; %lld of %lld parts taken again (%.2f%%)", n_based,
                 n_layers, n_based < n_layers ? ", the others' scores reach too far" : "",
                 (long long)counts.again, (long long)counts.parts,
                 counts.parts ? 100.0 * (double)counts.again / (double)counts.parts : 0.0);
    return STATUS_OK;
}
void engine_describe_backend(const Engine *engine, char *text, size_t size) {
    char how[256];
    const bool two = split_side(engine->backend, SPLIT_FIRST) != NULL; // which names both
    engine->backend->ops->describe(engine->backend, how, sizeof how);
    snprintf(text, size, "%s%s%s", two ? "" : engine->backend->ops->name, two ? "" : ": ", how);
}
