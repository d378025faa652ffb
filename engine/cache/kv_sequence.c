// One sequence's table of pages: growing, cutting, sharing, evicting.
//
// After /undo the next reply cuts what was taken back: engine/session/session_prefix.c keeps a long tail as a branch, whose
// pages go when a page is wanted and none is free (take_page drops a branch); a short one goes at once
// (kv_sequence_truncate). Either way the pages are given back by release_page, unless others share them.
#include "engine/cache/kv_cache.h"

#include <stdlib.h>
#include <string.h>

// ---- where tokens lie --------------------------------------------------------------------------------------------

static int64_t ordinal_of(const KvSequence *s, int64_t token) {
    return token < s->n_sinks ? token : token + s->n_evicted;
}

static int32_t position_of(const KvSequence *s, int64_t token) {
    return (int32_t)(token < s->n_sinks ? token : token + s->n_evicted - s->n_moved);
}

static int index_of(const KvCache *cache, const KvSequence *s, int64_t token) {
    int64_t a = ordinal_of(s, token);
    return (int)(a < s->n_sinks ? a : s->n_sinks + (a - s->n_sinks) % (cache->context_size - s->n_sinks));
}

static int32_t slot_of(const KvCache *cache, const KvSequence *s, int index) {
    return s->pages[index / cache->page_size] + index % cache->page_size;
}

// Indexes that were ever written: the others hold whatever was there before.
static int written(const KvCache *cache, const KvSequence *s) {
    int64_t n = s->length + s->n_evicted;
    return (int)(n < cache->context_size ? n : cache->context_size);
}

static int pages_for(const KvCache *cache, int indexes) {
    return (indexes + cache->page_size - 1) / cache->page_size;
}

StepSequence kv_sequence_step(const KvCache *cache, const KvSequence *s, int n) {
    StepSequence step = {.n_tokens = n,
                         .n_slots = written(cache, s),
                         .pages = s->pages,
                         .n_sinks = s->n_sinks,
                         .n_evicted = s->n_evicted - s->n_moved,
                         .rope_set = s->rope_set,
                         .n_prefix = s->n_prefix,
                         .in_order = s->n_evicted == 0,
                         .state_from = kv_states_at(s, s->length - n),
                         .state_to = kv_states_at(s, s->length)};
    const int most = n > 0 ? CONVOLUTION_MOST_TAPS - 1 : 0; // nobody asks for pages of a step of nothing
    for (int64_t token = s->length - n - 1; token >= 0 && step.n_earlier < most; token--)
        step.earlier[step.n_earlier++] = slot_of(cache, s, index_of(cache, s, token));
    return step;
}

// ---- pages ---------------------------------------------------------------------------------------------------------

static void release_page(KvCache *cache, int32_t first_slot) {
    int page = first_slot / cache->page_size;
    if (--cache->references[page] == 0) cache->free_pages[cache->n_free++] = page;
}

static Status take_page(KvCache *cache, int32_t *first_slot, Error *error) {
    while (cache->n_free == 0)
        if (!kv_branch_drop(cache))
            return error_set(error, STATUS_CONTEXT, "all %d pages of the cache, of %d tokens each, are taken",
                             cache->n_pages, cache->page_size);
    int page = cache->free_pages[--cache->n_free];
    cache->references[page] = 1;
    *first_slot = page * cache->page_size;
    return STATUS_OK;
}

// The sequence alone holds page i of its table from now on: a shared one is copied, as far as it was written.
static Status own_page(KvCache *cache, KvSequence *s, int i, Error *error) {
    const int32_t shared = s->pages[i];
    int32_t own = 0;
    while (cache->references[shared / cache->page_size] > 1 && cache->n_free == 0)
        if (!kv_branch_drop(cache)) break;
    if (cache->references[shared / cache->page_size] == 1) return STATUS_OK;
    Status status = take_page(cache, &own, error);
    if (status) return status;
    int n = written(cache, s) - i * cache->page_size;
    if (n > cache->page_size) n = cache->page_size;
    int32_t *from = cache->copies, *to = from + cache->page_size;
    for (int k = 0; k < n; k++) from[k] = shared + k, to[k] = own + k;
    const CacheSlots copied = {kv_cache_stored(cache), cache->layout.n_layers, cache->slot_positions, from,
                               n};
    if (n > 0) status = cache->backend->ops->copy_slots(cache->backend, &copied, to, error);
    release_page(cache, status ? own : shared);
    if (!status) s->pages[i] = own;
    return status;
}

static Status grow_table(const KvCache *cache, KvSequence *s, Error *error) {
    if (s->pages) return STATUS_OK;
    s->pages = calloc((size_t)pages_for(cache, cache->context_size), sizeof *s->pages);
    if (!s->pages) return error_set(error, STATUS_MEMORY, "no memory for a table of pages");
    return STATUS_OK;
}

int64_t kv_sequence_room(const KvCache *cache, const KvSequence *s) {
    const int64_t left = cache->context_size - s->length,
                  slots = (int64_t)(s->n_pages + cache->n_free) * cache->page_size - written(cache, s);
    return s->length + s->n_evicted + slots >= cache->context_size || left < slots ? left : slots;
}

bool kv_sequence_has_room(const KvCache *cache, const KvSequence *s) {
    if (!s->pages || s->length >= cache->context_size || (s->n_evicted > 0 && s->length <= s->n_sinks))
        return false;
    if (!kv_states_has_room(cache, s)) return false;
    int page = index_of(cache, s, s->length) / cache->page_size;
    return page < s->n_pages ? cache->references[s->pages[page] / cache->page_size] == 1 : cache->n_free > 0;
}

Status kv_sequence_extend(KvCache *cache, KvSequence *s, int n, int32_t *slots, int32_t *positions,
                          Error *error) {
    if (n > cache->context_size - s->length)
        return error_set(error, STATUS_CONTEXT, "the context of %d tokens is full: %lld used, %d more wanted",
                         cache->context_size, (long long)s->length, n);
    Status status = grow_table(cache, s, error);
    int held = s->n_pages;
    for (int i = 0, before = -1; i < n && !status; i++) {
        int index = index_of(cache, s, s->length + i), page = index / cache->page_size;
        if (page != before) {
            if (page == s->n_pages)
                status = take_page(cache, &s->pages[s->n_pages], error), s->n_pages += !status;
            else if (page < held)
                status = own_page(cache, s, page, error);
            before = page;
        }
        if (status) break;
        slots[i] = slot_of(cache, s, index);
        positions[i] = position_of(s, s->length + i);
    }
    if (!status) status = kv_states_extend(cache, s, n, error);
    if (status)
        while (s->n_pages > held) release_page(cache, s->pages[--s->n_pages]);
    else
        s->length += n;
    return status;
}

void kv_sequence_truncate(KvCache *cache, KvSequence *s, int64_t length) {
    s->length = kv_sequence_cut(cache, s, length);
    kv_states_truncate(cache, s, s->length);
    if (s->length <= s->n_sinks) s->n_sinks = s->n_evicted = s->n_moved = 0;
    int needed = pages_for(cache, written(cache, s));
    while (s->n_pages > needed) release_page(cache, s->pages[--s->n_pages]);
}

void kv_sequence_free(KvCache *cache, KvSequence *s) {
    kv_states_truncate(cache, s, 0);
    while (s->n_pages > 0) release_page(cache, s->pages[--s->n_pages]);
    free(s->pages);
    *s = (KvSequence){0};
}

Status kv_sequence_fork(KvCache *cache, const KvSequence *from, int64_t length, KvSequence *to,
                        Error *error) {
    *to = *from;
    to->pages = NULL;
    Status status = grow_table(cache, to, error);
    if (status) {
        *to = (KvSequence){0};
        return status;
    }
    kv_states_share(cache, to);
    for (int i = 0; i < to->n_pages; i++) {
        to->pages[i] = from->pages[i];
        cache->references[to->pages[i] / cache->page_size]++;
    }
    kv_sequence_truncate(cache, to, length);
    return STATUS_OK;
}

// ---- evicting ------------------------------------------------------------------------------------------------------

bool kv_sequence_can_evict(const KvCache *cache, const KvSequence *s, int64_t from, int64_t n,
                           bool in_place) {
    if (from < 0 || n < 1 || from + n > s->length || (s->n_evicted > 0 && from != s->n_sinks)) return false;
    if (cache->states) return false; // what was evicted is in them
    return in_place || s->n_evicted - s->n_moved + n + cache->context_size <= cache->position_limit;
}

// Empties the indexes [from, to).
static Status empty(KvCache *cache, const KvSequence *s, int from, int to, Error *error) {
    Status status = STATUS_OK;
    for (int i = 0; i < cache->page_size; i++) cache->copies[i] = -1;
    while (from < to && !status) {
        int n = cache->page_size - from % cache->page_size;
        if (n > to - from) n = to - from;
        status = cache->backend->ops->write(cache->backend, cache->slot_positions + slot_of(cache, s, from),
                                            cache->copies, (size_t)n * sizeof *cache->copies, error);
        from += n;
    }
    return status;
}

// Turns the keys of the tokens [from, length) back by `delta`, and empties every index that holds no token: the
// evicted ones and what truncation left, since others take over their positions.
static Status move_back(KvCache *cache, KvSequence *s, int64_t from, int64_t n, int32_t delta, Error *error) {
    Status status = STATUS_OK;
    int behind = (int)(s->length - from - n), end = written(cache, s);
    for (int page = (int)from / cache->page_size; page < s->n_pages && !status; page++)
        status = own_page(cache, s, page, error);
    if (status) return status;
    int32_t *slots = malloc((size_t)(behind + 1) * sizeof *slots);
    if (!slots) return error_set(error, STATUS_MEMORY, "no memory to move %d tokens", behind);
    for (int i = 0; i < behind; i++) slots[i] = slot_of(cache, s, index_of(cache, s, from + n + i));
    const CacheSlots turned = {kv_cache_stored(cache), cache->layout.n_layers, cache->slot_positions, slots,
                               behind};
    if (behind > 0) status = cache->backend->ops->shift_keys(cache->backend, &turned, -delta, error);
    free(slots);
    // The survivors lie in one piece of the ring, or in two with a gap between them.
    int first = behind > 0 ? index_of(cache, s, from + n) : end,
        last = behind > 0 ? index_of(cache, s, s->length - 1) + 1 : end;
    if (!status && first < last) {
        status = empty(cache, s, (int)from, first, error);
        if (!status) status = empty(cache, s, last, end, error);
    } else if (!status) {
        status = empty(cache, s, behind > 0 ? last : (int)from, behind > 0 ? first : end, error);
    }
    return status;
}

Status kv_sequence_evict(KvCache *cache, KvSequence *s, int64_t from, int64_t n, bool in_place,
                         Error *error) {
    Status status = STATUS_OK;
    if (s->n_evicted == 0) s->n_sinks = (int32_t)from;
    int32_t ring = cache->context_size - s->n_sinks, evicted = s->n_evicted + (int32_t)n;
    if (in_place) status = move_back(cache, s, from, n, evicted - s->n_moved, error);
    if (status) return status;
    s->n_evicted = evicted;
    s->length -= n;
    if (in_place) s->n_moved = evicted;
    // What was moved in place has no positions to tell rounds of the ring apart by.
    while (s->n_moved > cache->context_size + ring) s->n_moved -= ring, s->n_evicted -= ring;
    return STATUS_OK;
}
