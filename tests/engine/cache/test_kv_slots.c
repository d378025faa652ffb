// Rows of a KV cache on the CPU: how they are quantised and turned, and the ops that work on slots, copy_slots and
// shift_keys, the latter against the view that needs no byte of the cache to change.
#include "kernels/cpu/cache/kv.h"
#include "kernels/kv_layout.h"
#include "tests/support/kernels/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 40, HEADS = 3, DIM = 24, LAYERS = 2 };

typedef struct CacheCase {
    DType type;
    int group;
    DType scale_type;
    bool rotate_keys, balance_keys;
} CacheCase;

static const CacheCase CASES[] = {
    {DTYPE_F32, 0, DTYPE_F32, false, false},  {DTYPE_F16, 0, DTYPE_F32, false, false},
    {DTYPE_BF16, 0, DTYPE_F32, true, false},  {DTYPE_INT8, 8, DTYPE_F16, false, false},
    {DTYPE_INT8, 24, DTYPE_F32, true, false}, {DTYPE_INT4, 4, DTYPE_F32, false, false},
    {DTYPE_INT4, 2, DTYPE_F16, true, false},  {DTYPE_INT8, 12, DTYPE_F16, true, true},
    {DTYPE_INT4, 8, DTYPE_F16, true, true}};
enum { N_CASES = sizeof CASES / sizeof *CASES };

// A cache in memory of its own, filled with random rows.
typedef struct Cache {
    KvLayer layers[LAYERS];
    int64_t bytes, scale_bytes;
    void *memory, *scales;
    int32_t held[SLOTS];
    float *balance, *feedback; // of all layers; NULL: none
} Cache;

static Cache new_cache(const CacheCase *c, int layout, const Rope *rope) {
    KvLayout l = {.layout = layout,
                  .n_layers = LAYERS,
                  .n_kv_heads = HEADS,
                  .head_dim = DIM,
                  .n_slots = SLOTS,
                  .type = c->type,
                  .group = c->group,
                  .scale_type = c->scale_type};
    Cache cache = {.bytes = kv_layout_bytes(&l), .scale_bytes = kv_layout_scale_bytes(&l)};
    cache.memory = calloc(1, (size_t)cache.bytes), cache.scales = calloc(1, (size_t)cache.scale_bytes + 1);
    uint64_t seed = 3;
    if (c->balance_keys) random_rounding(rope, HEADS, DIM, &cache.balance, &cache.feedback);
    for (int i = 0; i < LAYERS * SLOTS * HEADS; i++) {
        KvLayer *kv = &cache.layers[i % LAYERS];
        float key[DIM], value[DIM];
        *kv = kv_layout_layer(&l, cache.memory, cache.scales, i % LAYERS);
        kv->rotate_keys = c->rotate_keys;
        kv->key_balance = cache.balance, kv->key_feedback = cache.feedback, kv->key_pairs = rope->kind;
        for (int d = 0; d < DIM; d++) key[d] = random_float(&seed), value[d] = random_float(&seed);
        kv_store(loops_reference(), kv, &(KvRow){KV_KEYS, i / LAYERS / HEADS, i / LAYERS % HEADS, DIM}, key);
        kv_store(loops_reference(), kv, &(KvRow){KV_VALUES, i / LAYERS / HEADS, i / LAYERS % HEADS, DIM},
                 value);
    }
    for (int s = 0; s < SLOTS; s++) cache.held[s] = s % 9 == 4 ? -1 : 100 + s;
    return cache;
}

static void free_cache(Cache *cache) {
    free(cache->memory), free(cache->scales), free(cache->balance), free(cache->feedback);
}

// Every row [SLOTS, LAYERS, 2, HEADS, DIM] as it is read.
static float *all_rows(const Cache *cache) {
    float *rows = malloc((size_t)SLOTS * LAYERS * 2 * HEADS * DIM * sizeof *rows);
    for (int i = 0; i < SLOTS * LAYERS * 2 * HEADS; i++)
        kv_load(&cache->layers[i / 2 / HEADS % LAYERS], i / HEADS % 2 ? KV_VALUES : KV_KEYS,
                i / LAYERS / 2 / HEADS, i % HEADS, DIM, rows + (size_t)i * DIM);
    return rows;
}
enum { SLOT_FLOATS = LAYERS * 2 * HEADS * DIM };

static const double INV_FREQ[DIM / 2] = {1, 0.5, 0.3, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001, 1e-4, 1e-5, 1e-6};

static DecoderShape shape_of(RopeKind kind, int rotary_dim) {
    return (DecoderShape){.n_layers = LAYERS,
                          .hidden_size = 8,
                          .n_heads = HEADS,
                          .n_kv_heads = HEADS,
                          .head_dim = DIM,
                          .intermediate_size = 8,
                          .vocab_size = 1,
                          .attention_scale = 0.5f,
                          .rope = {kind, rotary_dim, INV_FREQ, 1.5}};
}

// ---- rows -----------------------------------------------------------------------------------------------

static void quantisation_is_its_formula(void **state) {
    (void)state;
    uint64_t seed = 77;
    for (int i = 0; i < N_CASES; i++) {
        const CacheCase *c = &CASES[i];
        if (!c->group) continue;
        int8_t bytes[2 * DIM];
        float scales[2 * DIM], row[DIM], read[DIM];
        int most = c->type == DTYPE_INT8 ? 127 : 7;
        const KvLayer kv = {.type = c->type,
                            .k = bytes,
                            .v = bytes,
                            .slot_stride = DIM,
                            .head_stride = DIM,
                            .group = c->group,
                            .scale_type = c->scale_type,
                            .k_scale = scales,
                            .v_scale = scales};
        for (int n = 0; n < 3000; n++) {
            float size = exp2f(40 * random_float(&seed) - 25); // many groups are below the least scale
            for (int d = 0; d < DIM; d++) row[d] = n % 50 ? random_float(&seed) * size : (float)d - 11.5f;
            kv_store(loops_reference(), &kv, &(KvRow){KV_VALUES, 1, 0, DIM}, row);
            kv_load(&kv, KV_VALUES, 1, 0, DIM, read);
            for (int d = 0; d < DIM; d++) {
                float largest = 0;
                for (int e = d / c->group * c->group; e < (d / c->group + 1) * c->group; e++)
                    largest = fmaxf(largest, fabsf(row[e]));
                float scale = fmaxf(largest / (float)most, 1e-5f);
                if (c->scale_type == DTYPE_F16) scale = quant_from_half(quant_to_half(scale));
                float q = fminf(fmaxf(nearbyintf(row[d] / scale), (float)-most), (float)most);
                if (!(read[d] == q * scale))
                    fail_msg("%s: %.9g was read as %.9g, not %.9g", dtype_name(c->type), row[d], read[d],
                             q * scale);
            }
        }
        row[3] = NAN;
        kv_store(loops_reference(), &kv, &(KvRow){KV_VALUES, 1, 0, DIM}, row);
        kv_load(&kv, KV_VALUES, 1, 0, DIM, read);
        assert_true(isnan(read[3]));
    }
}

// Errors go on to the elements behind them in their row, computed here from the sum that ops.h states.
static void errors_are_fed_back_by_the_formula(void **state) {
    (void)state;
    enum { SIZE = 8, HALF = SIZE / 2, GROUP = 4 };
    const Rope ropes[] = {
        {.kind = ROPE_HALF_SPLIT, .rotary_dim = DIM, .inv_freq = INV_FREQ, .magnitude = 1},
        {.kind = ROPE_INTERLEAVED, .rotary_dim = DIM, .inv_freq = INV_FREQ, .magnitude = 1}};
    uint64_t seed = 79;
    for (int n = 0; n < 3000; n++) {
        const Rope *rope = &ropes[n / 2 % 2];
        const bool interleaved = rope->kind == ROPE_INTERLEAVED;
        float *balance, *feedback;
        random_rounding(rope, HEADS, DIM, &balance, &feedback);
        int most = n % 2 ? 127 : 7, head = n % HEADS;
        int8_t bytes[HEADS * DIM];
        float scales[HEADS * DIM], row[DIM], read[DIM], x[DIM];
        const KvLayer kv = {.type = n % 2 ? DTYPE_INT8 : DTYPE_INT4,
                            .k = bytes,
                            .v = bytes,
                            .slot_stride = (int64_t)HEADS * DIM,
                            .head_stride = DIM,
                            .group = GROUP,
                            .scale_type = DTYPE_F32,
                            .k_scale = scales,
                            .v_scale = scales,
                            .rotate_keys = true,
                            .key_balance = balance,
                            .key_feedback = feedback,
                            .key_pairs = rope->kind};
        for (int d = 0; d < DIM; d++) row[d] = random_float(&seed), x[d] = row[d] / balance[head * DIM + d];
        hadamard_turn(x, DIM);
        kv_store(loops_reference(), &kv, &(KvRow){KV_KEYS, 0, head, DIM}, row);
        kv_load(&kv, KV_KEYS, 0, head, DIM, read);
        for (int r = 0; r < 2 * DIM / SIZE; r++) {
            const int first = r / 2 * SIZE + (interleaved ? r % 2 : r % 2 * HALF), step = interleaved ? 2 : 1;
            double errors[HALF] = {0};
            for (int i = 0; i < HALF; i++) {
                const int d = first + i * step;
                float largest = 0;
                for (int e = d / GROUP * GROUP; e < (d / GROUP + 1) * GROUP; e++)
                    largest = fmaxf(largest, fabsf(x[e]));
                double scale = (double)fmaxf(largest / (float)most, 1e-5f), t = (double)x[d];
                for (int j = 0; j < i; j++)
                    t += (double)feedback[((head * DIM / SIZE + r / 2) * HALF + j) * HALF + i] * errors[j];
                if (fabs(fabs(t / scale - floor(t / scale)) - 0.5) < 1e-4) break; // either way
                double q = fmin(fmax(nearbyint(t / scale), -most), most);
                assert_near("fed back", n * DIM + d, (double)read[d], q * scale, 1e-6);
                errors[i] = t - q * scale;
            }
        }
        kv_load_key(&kv, 0, head, DIM, x);
        hadamard_turn(read, DIM);
        for (int d = 0; d < DIM; d++)
            assert_near("key", d, (double)x[d], (double)(read[d] * balance[head * DIM + d]), 1e-6);
        free(balance), free(feedback);
    }
}

static void refuses_half_a_rounding(void **state) {
    (void)state;
    float one[2 * DIM * DIM];
    const KvLayer good = {.type = DTYPE_INT4,
                          .k = one,
                          .v = one,
                          .slot_stride = DIM,
                          .head_stride = DIM,
                          .group = 8,
                          .scale_type = DTYPE_F32,
                          .k_scale = one,
                          .v_scale = one,
                          .rotate_keys = true,
                          .key_balance = one,
                          .key_feedback = one};
    KvLayer kv = good;
    Error error;
    assert_int_equal(kv_layer_check(&kv, DIM, &error), STATUS_OK);
    kv.key_feedback = NULL;
    assert_int_equal(kv_layer_check(&kv, DIM, &error), STATUS_UNSUPPORTED);
    kv = good, kv.key_balance = NULL;
    assert_int_equal(kv_layer_check(&kv, DIM, &error), STATUS_UNSUPPORTED);
    kv = good, kv.rotate_keys = false;
    assert_int_equal(kv_layer_check(&kv, DIM, &error), STATUS_UNSUPPORTED);
    kv = good, kv.type = DTYPE_F16;
    assert_int_equal(kv_layer_check(&kv, DIM, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "f16"));
}

// Against Sylvester's definition: the sign of (i, j) is the parity of their common bits.
static void keys_turn_by_the_hadamard_matrix(void **state) {
    (void)state;
    static const int SIZES[] = {1, 2, 20, 24, 64, 96, 128};
    for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
        int n = SIZES[s], block = n & -n;
        float *x = random_floats(s + 1, n), turned[128];
        memcpy(turned, x, (size_t)n * sizeof *x);
        hadamard_turn(turned, n);
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int j = 0; j < block; j++)
                sum += (__builtin_popcount((unsigned)(i % block & j)) % 2 ? -1 : 1) *
                       (double)x[i / block * block + j];
            assert_near("hadamard", i, turned[i], sum / sqrt(block), 1e-6);
        }
        hadamard_turn(turned, n);
        for (int i = 0; i < n; i++) assert_near("and back", i, turned[i], x[i], 1e-6);
        free(x);
    }
}

// ---- copy_slots -----------------------------------------------------------------------------------------

static void slots_are_copied_and_no_others(void **state) {
    (void)state;
    static const int32_t FROM[] = {0, 7, 39, 4, 7}, TO[] = {11, 1, 30, 20, 38};
    DecoderShape shape = shape_of(ROPE_HALF_SPLIT, DIM);
    Backend *b = open_cpu("cpu", 2, &shape, 1);
    for (int i = 0; i < 4 * N_CASES; i++) {
        Cache cache = new_cache(&CASES[i / 4], i % 4, &shape.rope);
        Error error = {0};
        float *before = all_rows(&cache);
        int32_t held[SLOTS];
        memcpy(held, cache.held, sizeof held);
        assert_ok(b->ops->copy_slots(b, &(CacheSlots){cache.layers, LAYERS, cache.held, FROM, 5}, TO, &error),
                  &error);
        float *after = all_rows(&cache);
        for (int s = 0; s < SLOTS; s++) {
            int from = s;
            for (int j = 0; j < 5; j++) from = TO[j] == s ? FROM[j] : from;
            assert_memory_equal(after + s * SLOT_FLOATS, before + from * SLOT_FLOATS,
                                SLOT_FLOATS * sizeof *after);
            assert_int_equal(cache.held[s], held[from]);
        }
        assert_ok(b->ops->copy_slots(b, &(CacheSlots){cache.layers, LAYERS, cache.held, FROM, 0}, TO, &error),
                  &error);
        free(before), free(after);
        free_cache(&cache);
    }
    b->ops->close(b);
}

// ---- shift_keys -----------------------------------------------------------------------------------------

// x turned by `by` positions in double, without magnitude.
static void turn(const Rope *rope, double by, float *x) {
    for (int i = 0; i < rope->rotary_dim / 2; i++) {
        bool split = rope->kind == ROPE_HALF_SPLIT;
        float *a = x + (split ? i : 2 * i), *b = x + (split ? i + rope->rotary_dim / 2 : 2 * i + 1);
        double angle = by * rope->inv_freq[i], first = *a, second = *b;
        *a = (float)(first * cos(angle) - second * sin(angle));
        *b = (float)(first * sin(angle) + second * cos(angle));
    }
}

// One token in slot SLOTS-1 at `position`, which sees all slots.
static void attend(Backend *b, const Cache *cache, int32_t *held, int32_t position, int n_sinks,
                   int n_evicted, const float *q, float *y) {
    int32_t zero = 0, slot = SLOTS - 1;
    StepSequence sequence = {0, 1, SLOTS, ONE_PAGE(0), n_sinks, n_evicted, 0, 0, false, 0, {0}, -1, -1};
    Step step = {1, 1, &zero, &position, &slot, &sequence, SLOTS, held, STEP_ANY};
    Error error = {0};
    assert_ok(b->ops->begin(b, &step, NULL, &error), &error);
    assert_ok(b->ops->attend(b, q, &cache->layers[1], 0, y, &error), &error);
}

// Moving what is left by −n_evicted, and the query with it, is the same as looking past what is gone: up to rounding,
// and to quantisation, where keys are quantised again.
static void a_shift_in_place_equals_the_view(void **state) {
    (void)state;
    enum { KEEP = 10, GONE = 20 };
    const Rope ropes[] = {
        {.kind = ROPE_HALF_SPLIT, .rotary_dim = DIM, .inv_freq = INV_FREQ, .magnitude = 1.5},
        {.kind = ROPE_INTERLEAVED, .rotary_dim = DIM, .inv_freq = INV_FREQ, .magnitude = 1.5},
        {.kind = ROPE_HALF_SPLIT, .rotary_dim = 10, .inv_freq = INV_FREQ, .magnitude = 1},
        {.kind = ROPE_INTERLEAVED, .rotary_dim = 6, .inv_freq = INV_FREQ, .magnitude = 1}};
    for (int i = 0; i < 4 * N_CASES; i++) {
        const CacheCase *c = &CASES[i / 4];
        double tolerance = c->type == DTYPE_F32                            ? 2e-6
                           : c->type == DTYPE_INT8 || c->type == DTYPE_F16 ? 0.01
                                                                           : 0.1;
        DecoderShape shape = shape_of(ropes[i % 4].kind, ropes[i % 4].rotary_dim);
        shape.rope = ropes[i % 4];
        Backend *b = open_cpu(i % 2 ? "cpu:reference" : "cpu", 2, &shape, 1);
        Cache cache = new_cache(c, i % 4, &shape.rope);
        float *q = random_floats(8, HEADS * DIM), seen[HEADS * DIM], shifted[HEADS * DIM];
        int32_t slots[SLOTS], n = 0, before[SLOTS];
        for (int s = 0; s < SLOTS; s++) {
            cache.held[s] = s < KEEP ? s : s % 9 == 4 ? -1 : s + GONE; // empty ones hold keys nobody sees
            if (s >= KEEP) slots[n++] = s;
        }
        memcpy(before, cache.held, sizeof before);
        attend(b, &cache, cache.held, SLOTS - 1 + GONE, KEEP, GONE, q, seen);
        Error error = {0};
        float *rows = all_rows(&cache);
        assert_ok(
            b->ops->shift_keys(b, &(CacheSlots){cache.layers, LAYERS, cache.held, slots, n}, -GONE, &error),
            &error);
        float *moved = all_rows(&cache);
        for (int s = 0; s < SLOTS; s++) {
            bool stays = s < KEEP || before[s] < 0;
            assert_int_equal(cache.held[s], stays ? before[s] : s);
            for (int j = 0; j < SLOT_FLOATS / DIM; j++) // values never change
                if (stays || j / HEADS % 2)
                    assert_memory_equal(moved + (s * SLOT_FLOATS + j * DIM),
                                        rows + (s * SLOT_FLOATS + j * DIM), DIM * 4);
        }
        for (int h = 0; h < HEADS; h++) turn(&shape.rope, -GONE, q + (ptrdiff_t)h * DIM);
        attend(b, &cache, cache.held, SLOTS - 1, 0, 0, q, shifted);
        for (int j = 0; j < HEADS * DIM; j++)
            assert_near(dtype_name(c->type), j, shifted[j], seen[j], tolerance);
        free(q), free(rows), free(moved);
        free_cache(&cache);
        b->ops->close(b);
    }
}

static void refuses_impossible_slots(void **state) {
    (void)state;
    DecoderShape shape = shape_of(ROPE_HALF_SPLIT, DIM);
    Backend *b = open_cpu("cpu", 1, &shape, 1);
    Cache cache = new_cache(&CASES[0], 0, &shape.rope);
    float *before = all_rows(&cache);
    static const int32_t GOOD[] = {3, 5}, BAD[] = {3, -1};
    Error error;
    assert_int_equal(
        b->ops->copy_slots(b, &(CacheSlots){cache.layers, LAYERS, cache.held, BAD, 2}, GOOD, &error),
        STATUS_DEVICE);
    assert_string_equal(error.message, "copy_slots: slot -1");
    assert_int_equal(
        b->ops->copy_slots(b, &(CacheSlots){cache.layers, LAYERS, cache.held, GOOD, 2}, BAD, &error),
        STATUS_DEVICE);
    assert_int_equal(
        b->ops->shift_keys(b, &(CacheSlots){cache.layers, LAYERS, cache.held, BAD, 2}, 1, &error),
        STATUS_DEVICE);
    assert_int_equal(
        b->ops->shift_keys(b, &(CacheSlots){cache.layers, LAYERS, cache.held, GOOD, 2}, -105, &error),
        STATUS_DEVICE);
    assert_string_equal(error.message, "shift_keys: slot 3 holds position 103, which cannot move by -105");
    assert_int_equal(
        b->ops->shift_keys(b, &(CacheSlots){cache.layers, LAYERS, cache.held, GOOD, 2}, INT32_MAX, &error),
        STATUS_DEVICE);
    cache.layers[1].type = DTYPE_Q8_0;
    assert_int_equal(
        b->ops->shift_keys(b, &(CacheSlots){cache.layers, LAYERS, cache.held, GOOD, 2}, 1, &error),
        STATUS_UNSUPPORTED);
    cache.layers[1].type = DTYPE_F32;
    float *after = all_rows(&cache);
    assert_memory_equal(after, before, (size_t)SLOTS * SLOT_FLOATS * sizeof *after);
    assert_int_equal(cache.held[3], 103);
    free(before), free(after);
    free_cache(&cache);
    b->ops->close(b);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantisation_is_its_formula),
        cmocka_unit_test(keys_turn_by_the_hadamard_matrix),
        cmocka_unit_test(slots_are_copied_and_no_others),
        cmocka_unit_test(a_shift_in_place_equals_the_view),
        cmocka_unit_test(refuses_impossible_slots),
        cmocka_unit_test(errors_are_fed_back_by_the_formula),
        cmocka_unit_test(refuses_half_a_rounding),
    };
    return test_main("kv_slots", argc, argv, tests);
}
