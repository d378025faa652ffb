#include "engine/model/model_hash.h"

#include "engine/files/checkpoint.h"
#include "kernels/base/hash.h"
#include "kernels/base/text/json.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 8, SAMPLE_BYTES = 256 };

// Bytes at even distances.
static uint64_t hash_tensor(uint64_t hash, const CheckpointTensor *t) {
    hash = hash_bytes(hash, t->name, strlen(t->name) + 1);
    hash = hash_bytes(hash, t->type_name, strlen(t->type_name) + 1);
    hash = HASH(hash, t->shape);
    const size_t step = t->bytes / SAMPLES;
    if (t->bytes <= (size_t)SAMPLES * SAMPLE_BYTES) return hash_bytes(hash, t->data, t->bytes);
    for (size_t i = 0; i < SAMPLES; i++)
        hash = hash_bytes(hash, (const char *)t->data + i * step, SAMPLE_BYTES);
    return hash;
}

// What the files say besides: windows, caps, scales, norms. Arrays are the tokenizer's.
static uint64_t hash_meta(uint64_t hash, const Checkpoint *c) {
    char *config =
        checkpoint_config(c) ? json_dumps(checkpoint_config(c), JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    if (config) hash = hash_bytes(hash, config, strlen(config));
    free(config);
    for (int64_t i = 0; i < checkpoint_n_meta(c); i++) {
        const MetaValue *v = checkpoint_meta_at(c, i);
        if (v->type == META_ARRAY) continue;
        hash = hash_bytes(hash, v->key, strlen(v->key) + 1);
        hash = HASH(hash, v->integer);
        hash = HASH(hash, v->number);
        hash = HASH(hash, v->flag);
        if (v->type == META_STRING) hash = hash_bytes(hash, v->string.data, v->string.length);
    }
    return hash;
}

uint64_t model_hash(const Model *m, uint64_t hash) {
    const int sizes[] = {m->shape.n_layers, m->shape.hidden_size, m->shape.n_heads,
                         m->shape.intermediate_size};
    hash = HASH(hash, sizes); // all that there is of a model whose weights are made up
    if (m->checkpoint) hash = hash_meta(hash, m->checkpoint);
    for (int64_t i = 0; m->checkpoint && i < checkpoint_n_tensors(m->checkpoint); i++)
        hash = hash_tensor(hash, checkpoint_tensor(m->checkpoint, i));
    return hash;
}
