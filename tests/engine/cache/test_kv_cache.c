// The pool of pages, with a backend that only remembers which token lies in which slot: after any walk of growing,
// cutting, forking, evicting and coming back, each sequence sees exactly its own tokens, each at its distance.
#include "tests/support/kernels/host_memory.h"
#include "tests/support/test.h"
#include "engine/cache/kv_cache.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 512, MAX_TOKENS = 64, N_SEQUENCES = 4 };

// ---- a backend without arithmetic -------------------------------------------------------------------------

static int32_t contents[MAX_SLOTS]; // which token a slot holds
static int n_copied, n_shifted;

static Status fake_copy(Backend *backend, const CacheSlots *from, const int32_t *to, Error *error) {
    (void)backend, (void)error;
    for (int i = 0; i < from->n; i++) {
        contents[to[i]] = contents[from->slots[i]];
        from->slot_positions[to[i]] = from->slot_positions[from->slots[i]];
    }
    n_copied += from->n;
    return STATUS_OK;
}

static Status fake_shift(Backend *backend, const CacheSlots *slots, int32_t delta, Error *error) {
    (void)backend, (void)error;
    for (int i = 0; i < slots->n; i++) slots->slot_positions[slots->slots[i]] += delta;
    n_shifted += slots->n;
    return STATUS_OK;
}

static const Ops fake_ops = {.alloc = host_memory_alloc,
                             .free = host_memory_free,
                             .write = host_memory_write,
                             .copy_slots = fake_copy,
                             .shift_keys = fake_shift};
static Backend fake = {.ops = &fake_ops};
static const DecoderShape shape = {.n_layers = 1, .n_kv_heads = 1, .head_dim = 2};

// ---- sequences and what they ought to hold ------------------------------------------------------------------

typedef struct Walker {
    KvSequence sequence;
    int32_t log[MAX_TOKENS];
} Walker;

static KvCache open_cache(int window, int page_size, int n_sequences) {
    Error error = {0};
    KvCache cache;
    CacheOptions options = cache_options(DTYPE_F32);
    options.paged = page_size > 0;
    options.page_size = page_size;
    options.n_sequences = n_sequences;
    if (kv_cache_open(&fake, &options, &shape, window, &cache, &error)) fail_msg("%s", error.message);
    assert_true(cache.layout.n_slots <= MAX_SLOTS);
    for (int i = 0; i < MAX_SLOTS; i++) contents[i] = -1;
    // What a slot held before it was given out must not matter.
    for (int i = 0; i < cache.layout.n_slots; i++) cache.slot_positions[i] = i % 7;
    return cache;
}

// What the query of the i-th of the last n tokens sees, by the contract of StepSequence.
static void check_query(const KvCache *cache, const Walker *w, int n, int i, int32_t position) {
    StepSequence step = kv_sequence_step(cache, &w->sequence, n);
    int token = (int)w->sequence.length - n + i, seen = 0;
    for (int index = 0; index < step.n_slots; index++) {
        int slot = step.pages[index / cache->page_size] + index % cache->page_size;
        int64_t a = cache->slot_positions[slot], distance = (int64_t)position - a;
        if (step.in_order) assert_int_equal(a, index);
        if (a < 0) continue;
        if (step.n_evicted > 0 && a < step.n_sinks) {
            assert_int_equal(a, index);
            distance -= step.n_evicted;
        } else if (step.n_evicted > 0 && a < (int64_t)step.n_sinks + step.n_evicted) {
            continue;
        }
        if (distance < 0) continue;
        assert_in_range(distance, 0, token);
        assert_int_equal(contents[slot], w->log[token - distance]);
        seen++;
    }
    assert_int_equal(seen, token + 1);
}

static Status extend(KvCache *cache, Walker *w, const int32_t *tokens, int n) {
    int32_t slots[MAX_TOKENS], positions[MAX_TOKENS];
    Error error = {0};
    KvSequence before = w->sequence;
    Status status = kv_sequence_extend(cache, &w->sequence, n, slots, positions, &error);
    if (status) {
        assert_int_equal(status, STATUS_CONTEXT);
        assert_int_equal(w->sequence.length, before.length);
        assert_int_equal(w->sequence.n_pages, before.n_pages);
        return status;
    }
    for (int i = 0; i < n; i++) { // as begin() and the layers would
        assert_int_equal(cache->references[slots[i] / cache->page_size], 1);
        cache->slot_positions[slots[i]] = positions[i];
        contents[slots[i]] = w->log[before.length + i] = tokens[i];
    }
    for (int i = 0; i < n; i++) check_query(cache, w, n, i, positions[i]);
    return STATUS_OK;
}

static void discard(KvCache *cache, Walker *w, int64_t from, int64_t n, bool in_place) {
    Error error = {0};
    assert_true(kv_sequence_can_evict(cache, &w->sequence, from, n, in_place));
    if (kv_sequence_evict(cache, &w->sequence, from, n, in_place, &error)) {
        assert_int_equal(error.status, STATUS_CONTEXT); // no page for a copy of what others hold
        assert_true(in_place && cache->n_free == 0);
        return;
    }
    memmove(w->log + from, w->log + from + n, (size_t)(w->sequence.length - from) * sizeof *w->log);
}

static void check_references(const KvCache *cache, const Walker *walkers, int n) {
    int counted[MAX_SLOTS] = {0};
    for (int i = 0; i < n; i++)
        for (int p = 0; p < walkers[i].sequence.n_pages; p++)
            counted[walkers[i].sequence.pages[p] / cache->page_size]++;
    for (int i = 0; i < cache->n_branches; i++)
        for (int p = 0; p < cache->branches[i].sequence.n_pages; p++)
            counted[cache->branches[i].sequence.pages[p] / cache->page_size]++;
    int unused = 0;
    for (int i = 0; i < cache->n_pages; i++) {
        assert_int_equal(cache->references[i], counted[i]);
        unused += counted[i] == 0;
    }
    assert_int_equal(cache->n_free, unused);
}

static void close_cache(KvCache *cache, Walker *walkers, int n) {
    for (int i = 0; i < n; i++) kv_sequence_free(cache, &walkers[i].sequence);
    while (kv_branch_drop(cache)) continue;
    assert_int_equal(cache->n_free, cache->n_pages); // nothing leaked
    kv_cache_close(cache);
    assert_int_equal(host_memory_allocated, 0);
}

// ---- a walk --------------------------------------------------------------------------------------------------

static uint64_t state;
static int draw(int n) { // 0 … n-1
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

static void step_of_a_walk(KvCache *cache, Walker *walkers, int window) {
    Walker *w = &walkers[draw(N_SEQUENCES)], *other = &walkers[draw(N_SEQUENCES)];
    int64_t length = w->sequence.length;
    int32_t tokens[MAX_TOKENS];
    for (int i = 0; i < window; i++) tokens[i] = draw(3);
    int what = draw(10);
    if (what < 5) {
        int most = 1 + draw(window / 2);
        if (length < window) extend(cache, w, tokens, length + most <= window ? most : window - (int)length);
    } else if (what < 7 && length > 0) {
        int64_t keep = w->sequence.n_evicted ? w->sequence.n_sinks : draw((int)length);
        if (keep < length) discard(cache, w, keep, 1 + draw((int)(length - keep)), draw(2));
    } else if (what == 7 && length > 0) {
        kv_sequence_truncate(cache, &w->sequence, draw((int)length + 1));
    } else if (what == 8 && w != other) {
        kv_sequence_free(cache, &other->sequence);
        memcpy(other->log, w->log, sizeof w->log);
        assert_int_equal(kv_sequence_fork(cache, &w->sequence, draw((int)length + 1), &other->sequence, NULL),
                         STATUS_OK);
    } else if (what == 9) {
        kv_branch_keep(cache, w->log, &w->sequence);
        w->sequence = (KvSequence){0};
        int64_t n = kv_branch_recall(cache, tokens, window, 0, 0, &w->sequence);
        assert_int_equal(w->sequence.length, n);
        memcpy(w->log, tokens, (size_t)n * sizeof *tokens);
    }
}

static void every_walk_sees_its_own_tokens(void **test) {
    (void)test;
    static const struct {
        int window, page_size, n_sequences;
    } caches[] = {{24, 1, 1}, {24, 4, 2}, {23, 5, 3}, {24, 64, 4}, {16, 16, 4}, {24, 0, 4}, {10, 3, 1}};
    for (size_t c = 0; c < sizeof caches / sizeof *caches; c++)
        for (state = 1; state < 20; state++) {
            uint64_t seed = state;
            Walker walkers[N_SEQUENCES] = {0};
            KvCache cache = open_cache(caches[c].window, caches[c].page_size, caches[c].n_sequences);
            for (int i = 0; i < 300; i++) {
                step_of_a_walk(&cache, walkers, caches[c].window);
                check_references(&cache, walkers, N_SEQUENCES);
            }
            close_cache(&cache, walkers, N_SEQUENCES);
            state = seed;
        }
}

// ---- single properties --------------------------------------------------------------------------------------

static void fill(Walker *w, KvCache *cache, int n) {
    int32_t tokens[MAX_TOKENS];
    for (int i = 0; i < n; i++) tokens[i] = 100 + i;
    assert_int_equal(extend(cache, w, tokens, n), STATUS_OK);
}

static void a_ring_goes_on_without_copies(void **test) {
    (void)test;
    Walker w = {0};
    KvCache cache = open_cache(16, 4, 1);
    fill(&w, &cache, 16);
    n_copied = n_shifted = 0;
    for (int i = 0; i < 1000; i++) { // discard = 1: a token leaves, a token comes
        discard(&cache, &w, 3, 1, false);
        assert_int_equal(extend(&cache, &w, &(int32_t){i}, 1), STATUS_OK);
    }
    assert_int_equal(w.sequence.n_evicted, 1000);
    assert_int_equal(n_copied + n_shifted, 0);
    for (int i = 0; i < 3; i++) assert_int_equal(w.log[i], 100 + i); // what is kept is the first
    for (int i = 3; i < 16; i++) assert_int_equal(w.log[i], 1000 - 16 + i);
    close_cache(&cache, &w, 1);
}

static void positions_in_place_do_not_grow(void **test) {
    (void)test;
    Walker w = {0};
    KvCache cache = open_cache(16, 4, 1);
    fill(&w, &cache, 16);
    n_copied = n_shifted = 0;
    for (int i = 0; i < 200; i++) {
        discard(&cache, &w, 3, 5, true);
        int32_t more[5] = {i, i, i, i, i};
        assert_int_equal(extend(&cache, &w, more, 5), STATUS_OK);
        for (int slot = 0; slot < 16; slot++) assert_in_range(cache.slot_positions[slot], 0, 15);
    }
    assert_int_equal(n_shifted, 200 * 8);
    assert_int_equal(n_copied, 0);
    assert_in_range(w.sequence.n_evicted, 1, 64);
    close_cache(&cache, &w, 1);
}

static void only_the_page_that_is_written_is_copied(void **test) {
    (void)test;
    Walker walkers[2] = {0};
    KvCache cache = open_cache(32, 4, 2);
    fill(&walkers[0], &cache, 18);
    memcpy(walkers[1].log, walkers[0].log, sizeof walkers[0].log);
    assert_int_equal(kv_sequence_fork(&cache, &walkers[0].sequence, 18, &walkers[1].sequence, NULL),
                     STATUS_OK);
    int before = cache.n_free;
    n_copied = 0;
    assert_int_equal(extend(&cache, &walkers[1], &(int32_t){7}, 1), STATUS_OK);
    assert_int_equal(n_copied, 2); // tokens 16 and 17 of the last page
    assert_int_equal(cache.n_free, before - 1);
    assert_int_equal(extend(&cache, &walkers[0], &(int32_t){8}, 1), STATUS_OK); // it has the page alone again
    assert_int_equal(n_copied, 2);
    close_cache(&cache, walkers, 2);
}

static void without_a_page_nothing_changes_and_figures_are_told(void **test) {
    (void)test;
    Walker walkers[2] = {0};
    KvCache cache = open_cache(16, 4, 1);
    int32_t slots[16], positions[16];
    Error error = {0};
    fill(&walkers[0], &cache, 10);
    assert_int_equal(kv_sequence_extend(&cache, &walkers[1].sequence, 5, slots, positions, &error),
                     STATUS_CONTEXT);
    assert_non_null(strstr(error.message, "4 pages"));
    assert_int_equal(walkers[1].sequence.n_pages, 0);
    assert_int_equal(cache.n_free, 1);
    assert_int_equal(kv_sequence_extend(&cache, &walkers[0].sequence, 7, slots, positions, &error),
                     STATUS_CONTEXT);
    assert_non_null(strstr(error.message, "16 tokens"));
    // A branch gives way.
    kv_branch_keep(&cache, walkers[0].log, &walkers[0].sequence);
    fill(&walkers[1], &cache, 16);
    assert_int_equal(cache.n_branches, 0);
    close_cache(&cache, walkers, 2);
}

static void the_branch_used_longest_ago_goes_first(void **test) {
    (void)test;
    Walker walkers[4] = {0};
    KvCache cache = open_cache(16, 4, 1);
    for (int i = 0; i < 3; i++) {
        int32_t tokens[4] = {i, 1, 2, 3};
        assert_int_equal(extend(&cache, &walkers[i], tokens, 4), STATUS_OK);
        kv_branch_keep(&cache, walkers[i].log, &walkers[i].sequence);
    }
    KvSequence found = {0};
    assert_int_equal(kv_branch_recall(&cache, (int32_t[]){0, 1, 9}, 3, 0, 0, &found),
                     2); // the oldest is used
    kv_sequence_free(&cache, &found);
    fill(&walkers[3], &cache, 8);
    assert_int_equal(cache.n_branches, 2);
    assert_int_equal(kv_branch_recall(&cache, (int32_t[]){1, 1, 2}, 3, 0, 0, &found), 0);
    assert_int_equal(kv_branch_recall(&cache, (int32_t[]){0, 1, 2}, 3, 0, 3, &found),
                     3); // no longer than at least
    assert_int_equal(kv_branch_recall(&cache, (int32_t[]){0, 1, 2, 3, 4}, 5, 0, 3, &found), 4);
    assert_int_equal(cache.n_branches, 1); // taken over: the sequence goes on from its end
    kv_sequence_free(&cache, &found);
    close_cache(&cache, walkers, 4);
}

static void what_cannot_be_discarded(void **test) {
    (void)test;
    Walker w = {0};
    KvCache cache = open_cache(16, 4, 1);
    fill(&w, &cache, 16);
    assert_false(kv_sequence_can_evict(&cache, &w.sequence, 3, 0, false));
    assert_false(kv_sequence_can_evict(&cache, &w.sequence, 3, 14, false));
    assert_false(kv_sequence_can_evict(&cache, &w.sequence, -1, 2, false));
    discard(&cache, &w, 3, 4, false);
    assert_false(kv_sequence_can_evict(&cache, &w.sequence, 2, 4, false)); // another prefix
    cache.position_limit = 24;                                             // 4 + 16 + 4
    assert_true(kv_sequence_can_evict(&cache, &w.sequence, 3, 4, false));
    assert_false(kv_sequence_can_evict(&cache, &w.sequence, 3, 5, false));
    assert_true(kv_sequence_can_evict(&cache, &w.sequence, 3, 5, true));
    kv_sequence_truncate(&cache, &w.sequence, 3); // only the prefix is left: the ring begins anew
    assert_int_equal(w.sequence.n_evicted, 0);
    assert_int_equal(w.sequence.n_pages, 1);
    fill(&w, &cache, 13);
    assert_true(kv_sequence_can_evict(&cache, &w.sequence, 2, 4, false));
    close_cache(&cache, &w, 1);
}

static void options_are_checked(void **test) {
    (void)test;
    Error error = {0};
    KvLayout layout;
    CacheOptions options = cache_options(DTYPE_INT8);
    const DecoderShape wide = {.n_layers = 3, .n_kv_heads = 2, .head_dim = 64};
    assert_int_equal(kv_cache_layout(&options, &wide, 100, &layout, &error), STATUS_OK);
    assert_int_equal(layout.n_slots, 128);
    // keys and values in bytes, two 16-bit scales for each, positions
    assert_int_equal(kv_cache_bytes(&layout), 128 * (3 * 2 * 2 * (64 + 2 * 2) + 4));
    options.type = DTYPE_INT4; // groups of 16 where nothing is said
    assert_int_equal(kv_cache_layout(&options, &wide, 100, &layout, &error), STATUS_OK);
    assert_int_equal(layout.group, 16);
    const DecoderShape odd = {.n_layers = 1, .n_kv_heads = 1, .head_dim = 12};
    options.type = DTYPE_INT8;
    assert_int_equal(kv_cache_layout(&options, &odd, 100, &layout, &error), STATUS_OK);
    assert_int_equal(layout.group, 4);
    options.group = 24;
    assert_int_equal(kv_cache_layout(&options, &wide, 100, &layout, &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "24"));
    options = cache_options(DTYPE_F16);
    options.paged = true;
    options.page_size = 0;
    assert_int_equal(kv_cache_layout(&options, &wide, 100, &layout, &error), STATUS_USAGE);
    options.page_size = 48;
    options.n_sequences = 2;
    assert_int_equal(kv_cache_layout(&options, &wide, 100, &layout, &error), STATUS_OK);
    assert_int_equal(layout.n_slots, 2 * 3 * 48);
    options.n_sequences = 1 << 30;
    assert_int_equal(kv_cache_layout(&options, &wide, 100, &layout, &error), STATUS_USAGE);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_walk_sees_its_own_tokens),
        cmocka_unit_test(a_ring_goes_on_without_copies),
        cmocka_unit_test(positions_in_place_do_not_grow),
        cmocka_unit_test(only_the_page_that_is_written_is_copied),
        cmocka_unit_test(without_a_page_nothing_changes_and_figures_are_told),
        cmocka_unit_test(the_branch_used_longest_ago_goes_first),
        cmocka_unit_test(what_cannot_be_discarded),
        cmocka_unit_test(options_are_checked),
    };
    return test_main("kv_cache", argc, argv, tests);
}
