#include "engine/loading/trial.h"

#include "engine/cache/kv_cache.h"
#include "kernels/base/clock.h"

#include <string.h>

static const double SLOW = 0.25; // seconds for a token: then nobody shall wait for many

enum {
    FEW_TOKENS = 4,
    TRIAL_TOKENS = 16, // of a prompt
    TRIAL_REPLIES = 3, // tokens that are evaluated one by one
};

int64_t trial_bytes(const DecoderShape *shape) {
    const CacheOptions options = cache_options(DTYPE_F16);
    KvLayout layout;
    return kv_cache_layout(&options, shape, TRIAL_TOKENS, &layout, NULL) ? 0 : kv_cache_bytes(&layout);
}

// Tokens [first, first + n) behind the others, until the last one's logits are on the host.
static Status step(Forward *f, const KvCache *cache, int32_t first, int32_t n, double *seconds,
                   Error *error) {
    Backend *b = f->backend;
    const int32_t page = 0, row = n - 1;
    int32_t ids[TRIAL_TOKENS], places[TRIAL_TOKENS];
    for (int32_t i = 0; i < n; i++)
        ids[i] = (17 + 7919 * (first + i)) % f->model->shape.vocab_size, places[i] = first + i;
    // What the others left in states takes as long to go on from as nothing does.
    const StepSequence sequence = {.n_tokens = n, .n_slots = first + n, .pages = &page, .state_from = -1};
    const Step all = {.n_tokens = n,
                      .n_sequences = 1,
                      .ids = ids,
                      .positions = places,
                      .slots = places,
                      .sequences = &sequence,
                      .page_size = cache->page_size,
                      .slot_positions = cache->slot_positions};
    const LogitRows last = {&row, 1};
    float logit;
    const double start = clock_seconds();
    Status status = forward_step(f, &all, &last, cache, NULL, error);
    if (!status) status = forward_logits(f, &row, 1, error);
    if (!status) status = b->ops->read(b, &logit, f->current, sizeof logit, error);
    *seconds = clock_seconds() - start;
    return status;
}

int trial_visits_from(double one, double many, int n_many, double visit) {
    const double each = (many - one) / (n_many - 1);
    const double n = visit <= one ? 1 : each > 0 ? 1 + (visit - one) / each : TRIAL_VISITS_MOST + 1;
    int from = TRIAL_VISITS_LEAST;
    while (from < n && from <= TRIAL_VISITS_MOST) from *= 2;
    return from <= TRIAL_VISITS_MOST ? from : 0;
}

bool trial_can_visit_from(int64_t from) {
    const bool within = from >= TRIAL_VISITS_LEAST && from <= TRIAL_VISITS_MOST;
    return from == 0 || (within && !(from & (from - 1)));
}

// From how many tokens on it is worth it that the host's layers visit the device.
static Status try_visits(Forward *f, const KvCache *cache, const SplitTimes *times, int *visits_from,
                         Error *error) {
    const double one = times->seconds[SPLIT_FIRST], device = times->seconds[SPLIT_SECOND];
    const int n = one < SLOW ? TRIAL_TOKENS : FEW_TOKENS;
    double alone, visiting = 0;
    if (*visits_from != TRIAL_VISITS_UNKNOWN) {
        if (!split_set_visits(f->backend, *visits_from)) *visits_from = TRIAL_VISITS_UNKNOWN;
        return STATUS_OK;
    }
    if (f->max_tokens < n || !split_set_visits(f->backend, 0)) return STATUS_OK;
    Status status = step(f, cache, 0, n, &alone, error);
    if (split_set_visits(f->backend, 1) && !status) status = step(f, cache, 0, n, &visiting, error);
    if (!status) status = step(f, cache, 0, n, &visiting, error); // the first has opened its stages
    if (!status) *visits_from = trial_visits_from(one, alone - device, n, visiting - device);
    split_set_visits(f->backend, status ? 0 : *visits_from);
    return status;
}

Status trial_run(Forward *f, SplitTimes *times, int *visits_from, Error *error) {
    const CacheOptions options = cache_options(DTYPE_F16);
    KvCache cache;
    double ignored;
    Status status = kv_cache_open(f->backend, &options, &f->model->shape, TRIAL_TOKENS, &cache, error);
    if (status) return status;
    *times = (SplitTimes){0};
    for (int32_t i = 0; i < TRIAL_REPLIES && !status; i++) {
        status = step(f, &cache, i, 1, &ignored, error);
        const SplitTimes now = split_times(f->backend);
        for (int side = 0; side < SPLIT_SIDES; side++)
            if (i == 1 || now.seconds[side] < times->seconds[side]) times->seconds[side] = now.seconds[side];
    }
    if (!status) status = try_visits(f, &cache, times, visits_from, error);
    kv_cache_close(&cache);
    return status;
}
