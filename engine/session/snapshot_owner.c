// By what a cache is told from others: all that its bytes depend on, and the ids.
#include "engine/session/snapshot_internal.h"

#include "engine/cache/key_rounding.h"
#include "engine/model/model_hash.h"
#include "kernels/base/checksum.h"
#include "kernels/base/hash.h"
#include "kernels/cpu/cpu.h"
#include "kernels/hosts/hosts.h"
#include "kernels/shards/shards.h"
#include "kernels/split/split.h"

#include <stdlib.h>

static uint64_t hash_backend(uint64_t hash, const Backend *backend) {
    const char *name = backend->ops->name, *loops = cpu_loops_name(backend);
    hash = hash_bytes(hash, name, strlen(name) + 1);
    return loops ? hash_bytes(hash, loops, strlen(loops) + 1) : hash;
}

// Which layers are whose is in the cache as well, for they round in ways of their own.
static uint64_t hash_backends(const Backend *backend) {
    const Backend *first = hosts_own(backend);
    uint64_t hash = first ? hosts_hash(backend) : HASH_START;
    if (first) backend = first;
    hash = hash_backend(hash, backend);
    const int n_cards = shards_count(backend);
    if (n_cards > 0) hash = HASH(hash, n_cards);
    if (!split_side(backend, SPLIT_FIRST)) return hash;
    const int border = split_border(backend);
    hash = HASH(hash, border);
    if (split_has_experts(backend)) hash = hash_bytes(hash, "experts", 7);
    for (int side = 0; side < SPLIT_SIDES; side++) hash = hash_backend(hash, split_side(backend, side));
    return hash;
}

static uint64_t hash_model(const Engine *engine) {
    uint64_t hash = hash_backends(engine->backend);
    hash = HASH(hash, engine->model->weights);
    for (int l = 0; engine->model->smoothing && l < engine->model->shape.n_layers; l++)
        if (engine->model->smoothing[l]) hash = HASH(hash, l);
    return model_hash(engine->model, hash);
}

static uint64_t hash_tokenizer(const Tokenizer *tokenizer) {
    uint64_t hash = HASH_START;
    for (int64_t id = 0; tokenizer && id < tokenizer_size(tokenizer); id++) {
        size_t size;
        const char *piece = tokenizer_piece(tokenizer, (int32_t)id, &size);
        hash = hash_bytes(hash, piece, size + 1);
    }
    return hash;
}

// What a study has made of the model's keys is in them.
static Status hash_cache(const Engine *engine, uint64_t *hash, Error *error) {
    const KvCache *cache = &engine->cache;
    const KvLayout *l = &cache->layout;
    const int64_t parts[] = {l->layout,
                             l->n_layers,
                             l->n_kv_heads,
                             l->head_dim,
                             (int64_t)l->type,
                             l->group,
                             (int64_t)l->scale_type,
                             kv_layer_attending(kv_cache_stored(cache), l->n_layers)->rotate_keys,
                             l->one_plane};
    const int64_t states[] = {l->n_recurring, l->state_floats};
    *hash = HASH(HASH_START, parts);
    if (l->n_recurring) *hash = HASH(*hash, states);
    if (!cache->key_rounding) return STATUS_OK;
    size_t bytes = (size_t)key_rounding_bytes(&engine->model->shape);
    void *rounding = malloc(bytes);
    if (!rounding) return error_set(error, STATUS_MEMORY, "no memory for a snapshot");
    Status status = cache->backend->ops->read(cache->backend, rounding, cache->key_rounding, bytes, error);
    uint64_t sum = checksum_of(rounding, bytes);
    *hash = HASH(*hash, sum);
    free(rounding);
    return status;
}

// The tables of all layers, of one set.
static uint64_t hash_rope(const Model *model, int set) {
    const Rope *r = &model->shape.rope;
    const int64_t parts[] = {(int64_t)r->kind, r->rotary_dim, set, rope_tables(r)};
    const double magnitudes[] = {r->magnitude, r->other_magnitude};
    const size_t n = (size_t)r->rotary_dim / 2;
    uint64_t hash = HASH(HASH_START, parts);
    hash = HASH(hash, magnitudes);
    for (int i = 0; n && i < rope_tables(r); i++)
        hash = hash_bytes(hash, r->inv_freq + (size_t)rope_row(r, i, set) * n, n * sizeof *r->inv_freq);
    if (!r->of_layers) return hash;
    return hash_bytes(hash, r->of_layers, (size_t)model->shape.n_layers * sizeof *r->of_layers);
}

Status snapshot_owner_of(const Session *s, int rope_set, uint64_t words, SnapshotOwner *owner, Error *error) {
    const Engine *engine = s->engine;
    const int n_sets = engine->model->shape.rope.n_sets;
    *owner = (SnapshotOwner){0};
    if (rope_set < 0 || (rope_set > 0 && rope_set >= n_sets))
        return error_set(error, STATUS_FILE, "it was read with other rotary frequencies");
    owner->model = hash_model(engine);
    owner->tokenizer = hash_tokenizer(engine->tokenizer);
    owner->words = words;
    owner->rope = hash_rope(engine->model, rope_set);
    return hash_cache(engine, &owner->cache, error);
}
