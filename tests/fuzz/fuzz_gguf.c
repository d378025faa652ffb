// Hostile GGUF bytes: a whole Checkpoint whose every byte can be read, or one line of error.
#include "engine/files/checkpoint_internal.h"
#include "engine/files/gguf_vocab.h"
#include "engine/model/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A length that is believed shows: allocations far beyond the input end the program.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "max_allocation_size_mb=64";
}

static volatile uint8_t sink;

static void touch(const void *bytes, size_t size) {
    if (size > 0) sink = ((const uint8_t *)bytes)[0] ^ ((const uint8_t *)bytes)[size - 1];
}

static void check_error(Status status, const Error *error) {
    if (status == STATUS_OK) return;
    if (error->message[0] == '\0' || strchr(error->message, '\n') != NULL) abort();
}

static void walk_metadata(const Checkpoint *checkpoint) {
    for (int64_t i = 0; i < checkpoint_n_meta(checkpoint); i++) {
        const MetaValue *value = checkpoint_meta_at(checkpoint, i);
        MetaCursor cursor = {0};
        MetaValue element;
        int64_t n = 0;
        touch(value->string.data, value->string.length);
        while (checkpoint_meta_next(value, &cursor, &element)) {
            touch(element.string.data, element.string.length);
            n++;
        }
        if (value->type == META_ARRAY && n != value->count) abort();
    }
}

static void walk_tensors(const Checkpoint *checkpoint) {
    for (int64_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const CheckpointTensor *tensor = checkpoint_tensor(checkpoint, i);
        touch(tensor->data, tensor->bytes);
        if (checkpoint_find(checkpoint, tensor->name) != tensor) abort();
    }
}

// The sizes of a model that was taken must be those of its data.
static void walk_model(const Model *model) {
    for (int i = 0; i < model->shape.n_layers; i++) {
        const LayerWeights *l = &model->layers[i];
        const Matrix *all[] = {&l->wq,         &l->wv,         &l->bv,        &l->w_up, &l->w_down,
                               &l->attn_gate,  &l->w_beta,     &l->w_decay,   &l->conv, &l->decay_rate,
                               &l->decay_bias, &l->state_norm, &l->conv_bias, &l->skip};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++)
            touch(all[j]->data, (size_t)(all[j]->rows * dtype_row_bytes(all[j]->type, all[j]->cols)));
        touch(&model->attention_windows[i], sizeof model->attention_windows[i]);
    }
    touch(model->inv_freq,
          (size_t)(model->shape.rope.n_sets * model->shape.rope.rotary_dim / 2) * sizeof *model->inv_freq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Checkpoint *checkpoint;
    Error error = {0};
    Status status = checkpoint_from_gguf("fuzz.gguf", data, size, &checkpoint, &error);
    check_error(status, &error);
    if (status != STATUS_OK) return 0;
    walk_metadata(checkpoint);
    walk_tensors(checkpoint);

    TokenizerVocab vocab;
    check_error(gguf_vocab(checkpoint, &vocab, &error), &error);
    for (int64_t i = 0; i < vocab.n_pieces; i++) touch(vocab.pieces[i].text, vocab.pieces[i].size);
    gguf_vocab_free(&vocab);
    char *template;
    check_error(checkpoint_chat_template(checkpoint, &template, &error), &error);
    free(template);

    Model *model;
    status = model_from_checkpoint(checkpoint, &model, &error);
    check_error(status, &error);
    if (status == STATUS_OK) walk_model(model);
    model_close(model);
    return 0;
}
