// States of layers that recur, with a backend without arithmetic: a state holds a hash of the text that has led to it. After
// any walk of growing, cutting, forking, taking back and coming back, a step goes on from the state of just the tokens before
// it, and writes one that nobody else looks at. So it is where no layer attends, and slots hold positions alone.
#include "tests/support/kernels/host_memory.h"
#include "tests/support/test.h"
#include "engine/cache/kv_rows.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 96, N_WALKERS = 4, N_LAYERS = 5, N_RECURRING = 3 };

static int n_stored; // of the layers those that have slots

static Status fake_copy(Backend *backend, const CacheSlots *from, const int32_t *to, Error *error) {
    (void)backend, (void)to, (void)error;
    assert_int_equal(from->n_layers, n_stored);
    for (int l = 0; l < from->n_layers; l++) assert_true(from->layers[l].k && !from->layers[l].recurs);
    return STATUS_OK;
}

static const Ops fake_ops = {.alloc = host_memory_alloc,
                             .free = host_memory_free,
                             .write = host_memory_write,
                             .read = host_memory_write, // either way a copy
                             .copy_slots = fake_copy};
static Backend fake = {.ops = &fake_ops};
// The last has no mixer; the second attends, or has none either.
static LayerHeads heads[N_LAYERS] = {{.n_kv_heads = 1, .head_dim = 2, .lender = 0, .recurs = true},
                                     {.n_kv_heads = 1, .head_dim = 2, .lender = 1},
                                     {.n_kv_heads = 1, .head_dim = 2, .lender = 2, .recurs = true},
                                     {.n_kv_heads = 1, .head_dim = 2, .lender = 3, .recurs = true},
                                     {.n_kv_heads = 1, .head_dim = 2, .lender = 4, .no_mixer = true}};
static const DecoderShape shape = {
    .n_layers = N_LAYERS,
    .n_heads = 1,
    .n_kv_heads = 1,
    .head_dim = 2,
    .heads_of_layers = heads,
    .delta = {.n_key_heads = 1, .n_value_heads = 1, .key_dim = 2, .value_dim = 3, .taps = 2}};

typedef struct Walker {
    KvSequence sequence;
    int32_t log[MAX_TOKENS];
} Walker;

static int one_attends(void **state) {
    (void)state;
    heads[1].no_mixer = false, n_stored = 1;
    return 0;
}
static int none_attends(void **state) {
    (void)state;
    heads[1].no_mixer = true, n_stored = 0;
    return 0;
}

static KvCache open_cache(int window, int page_size, int n_sequences) {
    Error error = {0};
    KvCache cache;
    CacheOptions options = cache_options(DTYPE_F32);
    options.paged = page_size > 0, options.page_size = page_size, options.n_sequences = n_sequences;
    if (kv_cache_open(&fake, &options, &shape, window, &cache, &error)) fail_msg("%s", error.message);
    assert_int_equal(cache.layout.n_layers, n_stored);
    assert_int_equal(decoder_attending(&shape), n_stored);
    assert_int_equal(cache.layout.n_recurring, N_RECURRING);
    assert_true(cache.layers[N_LAYERS - 1].recurs && !cache.layers[N_LAYERS - 1].states);
    assert_ptr_equal(kv_layer_attending(cache.layers, N_LAYERS), &cache.layers[n_stored]);
    assert_int_equal(cache.layout.state_floats, 1 * (2 + 2 + 3) + 2 * 3);
    return cache;
}

static void close_cache(KvCache *cache, Walker *walkers, int n) {
    for (int i = 0; i < n; i++) kv_sequence_free(cache, &walkers[i].sequence);
    while (kv_branch_drop(cache)) continue;
    for (int i = 0; i < cache->layout.n_states; i++) assert_int_equal(cache->state_references[i], 0);
    kv_cache_close(cache);
    assert_int_equal(host_memory_allocated, 0);
}

// What a text leaves in a layer.
static uint32_t trace_of(int layer, const int32_t *log, int64_t n) {
    uint32_t hash = 17 + (uint32_t)layer;
    for (int64_t i = 0; i < n; i++) hash = hash * 31 + (uint32_t)log[i] + 7;
    return hash;
}

static uint32_t *place_of(const KvCache *cache, int layer, int32_t state) {
    return (uint32_t *)(void *)(cache->layers[layer].states + state * cache->layout.state_floats);
}

// As the layers would: from one state to the other.
static void run_step(const KvCache *cache, const Walker *w, int n) {
    const StepSequence step = kv_sequence_step(cache, &w->sequence, n);
    const int64_t before = w->sequence.length - n;
    assert_true(step.state_to >= 0 && step.state_to != step.state_from);
    assert_int_equal(cache->state_references[step.state_to], 1);
    assert_int_equal(step.state_from < 0, before == 0);
    for (int l = 0; l < N_LAYERS; l++) {
        if (!heads[l].recurs) continue;
        if (step.state_from >= 0)
            assert_int_equal(*place_of(cache, l, step.state_from), trace_of(l, w->log, before));
        *place_of(cache, l, step.state_to) = trace_of(l, w->log, w->sequence.length);
    }
}

static Status extend(KvCache *cache, Walker *w, const int32_t *tokens, int n) {
    int32_t slots[MAX_TOKENS], positions[MAX_TOKENS];
    Error error = {0};
    const int64_t before = w->sequence.length;
    const Status status = kv_sequence_extend(cache, &w->sequence, n, slots, positions, &error);
    if (status) {
        assert_int_equal(status, STATUS_CONTEXT);
        assert_int_equal(w->sequence.length, before);
        return status;
    }
    memcpy(w->log + before, tokens, (size_t)n * sizeof *tokens);
    run_step(cache, w, n);
    return STATUS_OK;
}

static void check_references(const KvCache *cache, const Walker *walkers, int n) {
    int counted[256] = {0};
    for (int i = 0; i < n; i++)
        for (int m = 0; m < walkers[i].sequence.n_marks; m++) counted[walkers[i].sequence.marks[m].state]++;
    for (int i = 0; i < cache->n_branches; i++)
        for (int m = 0; m < cache->branches[i].sequence.n_marks; m++)
            counted[cache->branches[i].sequence.marks[m].state]++;
    for (int i = 0; i < cache->layout.n_states; i++) assert_int_equal(cache->state_references[i], counted[i]);
}

// ---- a walk --------------------------------------------------------------------------------------------------------

static uint64_t seed;
static int draw(int n) { // 0 … n-1
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

// A token that is evaluated while it is drawn: its state is there, and the sequence does not know of it. Then it is taken
// back, or it comes, or a page of text does.
static void step_ahead(KvCache *cache, Walker *w, int window) {
    int32_t slot, position;
    Error error = {0};
    const int64_t before = w->sequence.length;
    if (before == 0 || before + 2 > window || !kv_sequence_has_room(cache, &w->sequence)) return;
    const int n_branches = cache->n_branches;
    assert_int_equal(kv_sequence_extend(cache, &w->sequence, 1, &slot, &position, &error), STATUS_OK);
    assert_int_equal(cache->n_branches, n_branches);
    w->log[before] = draw(3);
    run_step(cache, w, 1);
    const int32_t reserved = kv_states_at(&w->sequence, before + 1);
    w->sequence.length--;
    const int what = draw(4);
    if (what == 0) return; // who comes next finds it reserved
    if (what == 1) {
        kv_sequence_truncate(cache, &w->sequence, before);
    } else if (what == 2) {
        assert_int_equal(kv_sequence_extend(cache, &w->sequence, 1, &slot, &position, &error), STATUS_OK);
        assert_int_equal(kv_states_at(&w->sequence, before + 1), reserved);
        return;
    }
    assert_int_equal(w->sequence.length, before);
    (void)extend(cache, w, (int32_t[]){draw(3), draw(3)}, 2);
}

static void step_of_a_walk(KvCache *cache, Walker *walkers, int window) {
    Walker *w = &walkers[draw(N_WALKERS)], *other = &walkers[draw(N_WALKERS)];
    const int64_t length = w->sequence.length;
    int32_t tokens[MAX_TOKENS];
    for (int i = 0; i < window; i++) tokens[i] = draw(3);
    const int what = draw(12);
    if (what < 3) {
        const int most = 1 + draw(window / 3);
        if (length < window) extend(cache, w, tokens, length + most <= window ? most : window - (int)length);
    } else if (what < 6) {
        for (int i = 0; i < 5 && w->sequence.length < window; i++) extend(cache, w, tokens + i, 1);
    } else if (what == 6) {
        step_ahead(cache, w, window);
    } else if (what == 7 && length > 0) {
        const int64_t to = draw((int)length + 1), cut = kv_sequence_cut(cache, &w->sequence, to);
        assert_true(cut <= to);
        kv_sequence_truncate(cache, &w->sequence, to);
        assert_int_equal(w->sequence.length, cut);
    } else if (what == 8 && length > 0) { // a step that failed
        const int64_t before = w->sequence.length;
        if (length < window && !extend(cache, w, tokens, 1))
            kv_sequence_truncate(cache, &w->sequence, before);
        assert_int_equal(w->sequence.length, before);
    } else if (what == 9 && w != other) {
        kv_sequence_free(cache, &other->sequence);
        memcpy(other->log, w->log, sizeof w->log);
        assert_int_equal(kv_sequence_fork(cache, &w->sequence, draw((int)length + 1), &other->sequence, NULL),
                         STATUS_OK);
    } else if (what >= 10) {
        kv_branch_keep(cache, w->log, &w->sequence);
        w->sequence = (KvSequence){0};
        const int64_t n = kv_branch_recall(cache, tokens, window, 0, 0, &w->sequence);
        assert_int_equal(w->sequence.length, n);
        memcpy(w->log, tokens, (size_t)n * sizeof *tokens);
    }
}

static void every_step_goes_on_from_its_own_text(void **test) {
    (void)test;
    static const struct {
        int window, page_size, n_sequences;
    } caches[] = {{24, 1, 1}, {24, 4, 2}, {90, 5, 4}, {64, 64, 5}, {60, 0, 4}, {10, 3, 1}};
    for (size_t c = 0; c < sizeof caches / sizeof *caches; c++)
        for (uint64_t first = 1; first < 30; first++) {
            Walker walkers[N_WALKERS] = {0};
            KvCache cache = open_cache(caches[c].window, caches[c].page_size, caches[c].n_sequences);
            seed = first;
            for (int i = 0; i < 300; i++) {
                step_of_a_walk(&cache, walkers, caches[c].window);
                check_references(&cache, walkers, N_WALKERS);
            }
            close_cache(&cache, walkers, N_WALKERS);
        }
}

// ---- single properties ---------------------------------------------------------------------------------------------

static void grow(KvCache *cache, Walker *w, int n) {
    int32_t tokens[MAX_TOKENS] = {0};
    for (int i = 0; i < n; i++) tokens[i] = (int32_t)w->sequence.length + i;
    assert_int_equal(extend(cache, w, tokens, n), STATUS_OK);
}

static void talk(KvCache *cache, Walker *w, int prompt, int reply) {
    grow(cache, w, prompt);
    for (int i = 0; i < reply; i++) grow(cache, w, 1);
}

static void turns_can_be_taken_back_to_where_they_begin(void **test) {
    (void)test;
    Walker w = {0};
    KvCache cache = open_cache(90, 8, 1);
    talk(&cache, &w, 10, 7), talk(&cache, &w, 5, 9);
    assert_int_equal(kv_sequence_cut(&cache, &w.sequence, 31), 31);
    assert_int_equal(kv_sequence_cut(&cache, &w.sequence, 30), 30); // the last token may be taken back
    assert_int_equal(kv_sequence_cut(&cache, &w.sequence, 29), 22); // another answer
    assert_int_equal(kv_sequence_cut(&cache, &w.sequence, 21), 17); // another question
    assert_int_equal(kv_sequence_cut(&cache, &w.sequence, 16), 10);
    assert_int_equal(kv_sequence_cut(&cache, &w.sequence, 9), 0);
    kv_sequence_truncate(&cache, &w.sequence, 21);
    assert_int_equal(w.sequence.length, 17);
    assert_false(kv_sequence_can_evict(&cache, &w.sequence, 2, 3, false));
    assert_false(kv_sequence_can_evict(&cache, &w.sequence, 2, 3, true));
    close_cache(&cache, &w, 1);
}

static void one_sequence_never_lacks_a_state(void **test) {
    (void)test;
    for (int n = 1; n <= 8; n++) {
        Walker walkers[8] = {0};
        KvCache cache = open_cache(90, 8, n);
        for (int turn = 0; turn < 9; turn++)
            for (int i = 0; i < n; i++) talk(&cache, &walkers[i], 4, 3);
        check_references(&cache, walkers, n);
        close_cache(&cache, walkers, n);
    }
}

static void states_go_to_a_file_and_come_back(void **test) {
    (void)test;
    Walker walkers[2] = {0};
    Error error = {0};
    KvCache cache = open_cache(90, 8, 2);
    talk(&cache, &walkers[0], 20, 3);
    const KvRows from = {&cache, &walkers[0].sequence, 23};
    const int64_t bytes = kv_rows_bytes(&cache.layout, 23);
    assert_int_equal(bytes, n_stored * 23 * 2 * 2 * 4 + N_RECURRING * 13 * 4);
    char *stream = malloc((size_t)bytes);
    for (int64_t at = 0; at < bytes; at += 7)
        assert_int_equal(kv_rows_read(&from, at, bytes - at < 7 ? bytes - at : 7, stream + at, &error),
                         STATUS_OK);
    int32_t slots[23], positions[23];
    assert_int_equal(kv_sequence_extend(&cache, &walkers[1].sequence, 23, slots, positions, &error),
                     STATUS_OK);
    memcpy(walkers[1].log, walkers[0].log, sizeof walkers[0].log);
    const KvRows to = {&cache, &walkers[1].sequence, 23};
    for (int64_t at = 0; at < bytes; at += 11)
        assert_int_equal(kv_rows_write(&to, at, bytes - at < 11 ? bytes - at : 11, stream + at, &error),
                         STATUS_OK);
    grow(&cache, &walkers[1], 2); // finds them
    free(stream);
    close_cache(&cache, walkers, 2);
}

// Whatever the layout and the type.
static void slots_of_no_layer_have_no_bytes(void **test) {
    (void)test;
    static const DType types[] = {DTYPE_F32, DTYPE_F16, DTYPE_INT8, DTYPE_INT4};
    for (int i = 0; i < 16; i++) {
        CacheOptions options = cache_options(types[i % 4]);
        KvCache cache;
        Error error = {0};
        options.layout = i / 4;
        if (kv_cache_open(&fake, &options, &shape, 90, &cache, &error)) fail_msg("%s", error.message);
        const KvLayout *l = &cache.layout;
        assert_true(!cache.memory && !cache.scales && cache.states && cache.slot_positions);
        assert_int_equal(kv_layout_bytes(l) + kv_layout_scale_bytes(l), 0);
        assert_int_equal(kv_rows_bytes(l, 23), N_RECURRING * 13 * 4);
        assert_int_equal(kv_cache_bytes(l), l->n_slots * 4 + l->n_states * N_RECURRING * 13 * 4);
        assert_false(kv_layer_attending(kv_cache_stored(&cache), l->n_layers)->rotate_keys);
        kv_cache_close(&cache);
        assert_int_equal(host_memory_allocated, 0);
    }
}

#define OF_BOTH(TEST) cmocka_unit_test_setup(TEST, one_attends), cmocka_unit_test_setup(TEST, none_attends)

int main(void) {
    const struct CMUnitTest tests[] = {
        OF_BOTH(every_step_goes_on_from_its_own_text),
        OF_BOTH(turns_can_be_taken_back_to_where_they_begin),
        OF_BOTH(one_sequence_never_lacks_a_state),
        OF_BOTH(states_go_to_a_file_and_come_back),
        cmocka_unit_test_setup(slots_of_no_layer_have_no_bytes, none_attends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
