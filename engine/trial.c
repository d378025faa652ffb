#include "engine/trial.h"

#include "engine/cache/kv_cache.h"

enum { TRIAL_TOKENS = 3 };

int64_t trial_bytes(const DecoderShape *shape) {
    const CacheOptions options = cache_options(DTYPE_F16);
    KvLayout layout;
    return kv_cache_layout(&options, shape, TRIAL_TOKENS, &layout, NULL) ? 0 : kv_cache_bytes(&layout);
}

// The i-th token behind the others, until its logits are on the host.
static Status step(Forward *f, const KvCache *cache, int32_t i, Error *error) {
    Backend *b = f->backend;
    const int32_t id = (17 + 7919 * i) % f->model->shape.vocab_size, page = 0;
    const StepSequence sequence = {.n_tokens = 1, .n_slots = i + 1, .pages = &page};
    const Step one = {.n_tokens = 1,
                      .n_sequences = 1,
                      .ids = &id,
                      .positions = &i,
                      .slots = &i,
                      .sequences = &sequence,
                      .page_size = cache->page_size,
                      .slot_positions = cache->slot_positions};
    const int32_t row = 0;
    float logit;
    Status status = forward_step(f, &one, cache, NULL, error);
    if (!status) status = forward_logits(f, &row, 1, error);
    return status ? status : b->ops->read(b, &logit, f->current, sizeof logit, error);
}

Status trial_run(Forward *f, SplitTimes *times, Error *error) {
    const CacheOptions options = cache_options(DTYPE_F16);
    KvCache cache;
    Status status = kv_cache_open(f->backend, &options, &f->model->shape, TRIAL_TOKENS, &cache, error);
    if (status) return status;
    *times = (SplitTimes){0};
    for (int32_t i = 0; i < TRIAL_TOKENS && !status; i++) {
        status = step(f, &cache, i, error);
        const SplitTimes now = split_times(f->backend);
        for (int side = 0; side < SPLIT_SIDES; side++)
            if (i == 1 || now.seconds[side] < times->seconds[side]) times->seconds[side] = now.seconds[side];
    }
    kv_cache_close(&cache);
    return status;
}
