#include "engine/model/model_hash.h"

#include "engine/files/checkpoint.h"
#include "kernels/base/hash.h"
#include "kernels/base/text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SAMPLES = 8, SAMPLE_BYTES = 256 };

static uint64_t hash_name(uint64_t hash, const CheckpointTensor *t) {
    hash = hash_bytes(hash, t->name, strlen(t->name) + 1);
    hash = hash_bytes(hash, t->type_name, strlen(t->type_name) + 1);
    return HASH(hash, t->shape);
}

// Bytes at even distances, of each piece.
static uint64_t hash_samples(uint64_t hash, const Checkpoint *c, int64_t tensor) {
    const void *data;
    size_t bytes;
    for (int piece = 0; checkpoint_stored(c, tensor, piece, &data, &bytes); piece++) {
        const size_t step = bytes / SAMPLES;
        if (bytes <= (size_t)SAMPLES * SAMPLE_BYTES) {
            hash = hash_bytes(hash, data, bytes);
            continue;
        }
        for (size_t i = 0; i < SAMPLES; i++)
            hash = hash_bytes(hash, (const char *)data + i * step, SAMPLE_BYTES);
    }
    return hash;
}

// What the files say besides: windows, caps, scales, norms. Arrays are nearly all the tokenizer's, but not those that have
// a number for each layer.
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

static uint64_t hash_arrays(uint64_t hash, const Checkpoint *c) {
    for (int64_t i = 0; i < checkpoint_n_meta(c); i++) {
        const MetaValue *v = checkpoint_meta_at(c, i);
        MetaCursor cursor = {0};
        MetaValue element;
        if (v->type != META_ARRAY) continue;
        hash = HASH(hash, v->count);
        while (checkpoint_meta_next(v, &cursor, &element)) continue;
        hash = hash_bytes(hash, v->data, cursor.offset);
    }
    return hash;
}

static uint64_t hash_sizes(const Model *m, uint64_t hash) {
    const int sizes[] = {m->shape.n_layers, m->shape.hidden_size, m->shape.n_heads,
                         m->shape.intermediate_size};
    hash = HASH(hash, sizes); // all that there is of a model whose weights are made up
    const DeltaRule *d = &m->shape.delta;
    const int of_delta[] = {d->n_key_heads, d->n_value_heads,  d->key_dim, d->value_dim,
                            d->taps,        d->keys_alternate, d->adds,    decoder_recurring(&m->shape)};
    return d->n_value_heads > 0 ? HASH(hash, of_delta) : hash;
}

uint64_t model_hash(const Model *m, uint64_t hash) {
    const Checkpoint *c = m->checkpoint;
    hash = hash_sizes(m, hash);
    if (c) hash = hash_meta(hash, c);
    for (int64_t i = 0; c && i < checkpoint_n_tensors(c); i++)
        hash = hash_samples(hash_name(hash, checkpoint_tensor(c, i)), c, i);
    return hash;
}

ModelFacts model_facts(const Model *m) {
    const Checkpoint *c = m->checkpoint;
    ModelFacts f = {hash_sizes(m, HASH_START), HASH_START, HASH_START};
    if (c) f.says = hash_arrays(hash_meta(f.says, c), c);
    f.tensors = HASH(f.tensors, m->weight_bytes);
    for (int64_t i = 0; c && i < checkpoint_n_tensors(c); i++) {
        f.tensors = hash_name(f.tensors, checkpoint_tensor(c, i));
        f.samples = hash_samples(f.samples, c, i);
    }
    return f;
}

uint64_t model_files(const Model *m) {
    char boot[64] = "";
    const Checkpoint *c = m->checkpoint;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    const bool known = file && fgets(boot, sizeof boot, file) && strlen(boot) > 30;
    if (file) fclose(file);
    uint64_t hash = hash_bytes(HASH_START, boot, strlen(boot));
    return c && known && !model_hash_files(c, &hash) ? hash : 0;
}

const char *model_hash_files(const Checkpoint *c, uint64_t *hash) {
    for (int i = 0; i < checkpoint_n_files(c); i++) {
        const char *path = checkpoint_file(c, i, NULL);
        struct stat s;
        if (stat(path, &s)) return path;
        *hash = HASH(*hash, s.st_size);
        *hash = HASH(*hash, s.st_mtim);
        *hash = HASH(*hash, s.st_ctim);
        *hash = HASH(*hash, s.st_dev);
        *hash = HASH(*hash, s.st_ino);
    }
    return NULL;
}
