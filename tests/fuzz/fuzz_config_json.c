// Hostile config.json, and behind a NUL generation_config.json: a Model within its limits, or one line of error.
#include "tests/support/model/model_config.h"
#include "engine/cache/kv_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A length that is believed shows: allocations far beyond the input end the program.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "max_allocation_size_mb=64";
}

static void check(const Model *model) {
    const DecoderShape *shape = &model->shape;
    if (shape->n_layers < 1 || shape->hidden_size < 1 || shape->vocab_size < 1 ||
        shape->intermediate_size < 1)
        abort();
    if (shape->n_kv_heads < 1 || shape->n_heads % shape->n_kv_heads != 0) abort();
    const bool turned = shape->n_positions == 0 && !shape->alibi,
               needless = decoder_attending(shape) == 0 && shape->rope.rotary_dim == 0;
    if (turned ? shape->rope.rotary_dim < 2 && !needless : shape->rope.rotary_dim != 0) abort();
    if (shape->rope.rotary_dim > decoder_most_head_dim(shape) || shape->rope.rotary_dim % 2 != 0) abort();
    if (shape->rope.other_rotary_dim < 0 || shape->rope.other_rotary_dim > shape->rope.rotary_dim) abort();
    if (shape->n_positions < 0 || shape->n_positions > model->context_length) abort();
    const double way = strcmp(model->architecture, "nanochat") == 0 ? -1 : 1; // in which pairs turn
    for (int i = 0; i < shape->rope.n_sets * (shape->rope.rotary_dim / 2); i++) {
        if (!isfinite(model->inv_freq[i]) || way * model->inv_freq[i] < 0) abort();
    }
    if (!(shape->rope.magnitude > 0) || !isfinite(shape->rope.magnitude)) abort();
    for (int i = 0; i < shape->n_layers; i++) {
        if (model->attention_windows[i] < 0 && model->attention_windows[i] != -model->chunk) abort();
        const LayerHeads heads = layer_heads(shape, i);
        if (heads.head_dim < 1 || heads.n_kv_heads < 1 || shape->n_heads % heads.n_kv_heads != 0) abort();
        if (heads.lender < 0 || heads.lender > i || layer_heads(shape, heads.lender).lender != heads.lender)
            abort();
    }
    for (int i = 0; i < model->n_eos; i++) {
        if (model->eos_ids[i] < 0 || model->eos_ids[i] >= shape->vocab_size) abort();
    }
    CacheOptions cache = cache_options(DTYPE_F32);
    KvLayout layout;
    if (model->context_length < 1) abort();
    if (!kv_cache_layout(&cache, shape, 512, &layout, NULL) && kv_cache_bytes(&layout) <= 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *config = (const char *)data, *generation = memchr(data, 0, size);
    size_t config_size = generation != NULL ? (size_t)(generation - config) : size;
    size_t generation_size = size - config_size;
    if (generation != NULL) generation++, generation_size--;
    Model *model;
    Error error = {0};
    if (model_from_config(config, config_size, generation, generation_size, &model, &error) == STATUS_OK) {
        check(model);
    } else if (error.message[0] == '\0' || strchr(error.message, '\n') != NULL || model != NULL) {
        abort();
    }
    model_close(model);
    return 0;
}
