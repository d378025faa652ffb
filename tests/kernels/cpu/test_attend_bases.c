// Attention relative to a base that no maximum was asked for: which splits of a cache fall back to their running
// maximum, and that what they give is the formula's in any case. One head; keys and queries are such that scores are
// chosen.
#include "tests/support/kernels/random.h"

#include <math.h>
#include <stdlib.h>

#define SPLIT 64 // indexes that fall back together
#define SPLITS 5
#define SLOTS (SPLIT * SPLITS)
#define DIM 8

// Query 1, 0, …: index i has the score scores[i], log2; values are random. One query that sees all.
typedef struct Scored {
    float scores[SLOTS], keys[SLOTS * DIM], values[SLOTS * DIM];
    int32_t held[SLOTS];
} Scored;

static Scored *new_scored(void) {
    Scored *s = calloc(1, sizeof *s);
    uint64_t seed = 5;
    for (int i = 0; i < SLOTS; i++) s->scores[i] = 6 * random_float(&seed), s->held[i] = i;
    for (int i = 0; i < SLOTS * DIM; i++) s->values[i] = random_float(&seed);
    return s;
}

static void attend(Backend *b, Scored *s, const float *base, float y[DIM], SoftmaxCounts *counts) {
    const float q[DIM] = {1};
    const int32_t id = 0, position = SLOTS - 1, slot = SLOTS - 1;
    const StepSequence sequence = {0, 1, SLOTS, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1};
    const Step step = {1, 1, &id, &position, &slot, &sequence, 1 << 30, s->held, STEP_ANY};
    KvLayer kv = {.type = DTYPE_F32, .k = s->keys, .v = s->values, .slot_stride = DIM, .head_stride = DIM};
    SoftmaxCounts before;
    Error error = {0};
    kv.score_bases = base;
    for (int i = 0; i < SLOTS; i++) s->keys[i * DIM] = s->scores[i] * 0.693147181f;
    assert_ok(b->ops->softmax_counts(b, &before, &error), &error);
    assert_ok(b->ops->begin(b, &step, NULL, &error), &error);
    assert_ok(b->ops->attend(b, q, &kv, 0, y, &error), &error);
    assert_ok(b->ops->softmax_counts(b, counts, &error), &error);
    counts->parts -= before.parts, counts->again -= before.again;
}

// Of the keys as they were rounded.
static void expected(const Scored *s, double y[DIM]) {
    double total = 0, largest = -INFINITY;
    for (int i = 0; i < SLOTS; i++)
        if (s->held[i] >= 0) largest = fmax(largest, (double)s->keys[i * DIM]);
    for (int d = 0; d < DIM; d++) y[d] = 0;
    for (int i = 0; i < SLOTS; i++) {
        double weight = s->held[i] < 0 ? 0 : exp((double)s->keys[i * DIM] - largest);
        total += weight;
        for (int d = 0; d < DIM; d++) y[d] += weight * s->values[i * DIM + d];
    }
    for (int d = 0; d < DIM; d++) y[d] = total > 0 ? y[d] / total : 0;
}

static const char *const DEVICES[] = {"cpu", "cpu:reference"};

static Backend *open_one(const char *device) {
    static const DecoderShape SHAPE = {.n_layers = 1,
                                       .hidden_size = 8,
                                       .n_heads = 1,
                                       .n_kv_heads = 1,
                                       .head_dim = DIM,
                                       .intermediate_size = 8,
                                       .vocab_size = 1,
                                       .norm_eps = 1e-5f,
                                       .embedding_scale = 1,
                                       .attention_scale = 1};
    return open_cpu(device, 1, &SHAPE, 1);
}

static void check(const char *device, Backend *b, Scored *s, float base, SoftmaxCounts *counts) {
    float y[DIM];
    double right[DIM];
    attend(b, s, &base, y, counts);
    expected(s, right);
    for (int d = 0; d < DIM; d++) assert_near(device, (int64_t)base * DIM + d, y[d], right[d], 5e-6);
}

// A score that is too large or splits that are all too small, in one split, some, all: those fall back, no others. The
// fast loops keep a base that they once moved, so that fewer may have to.
static void outliers_make_their_splits_fall_back(void **state) {
    (void)state;
    static const float OUTLIERS[] = {100, 3000, -100, -3000};
    for (int d = 0; d < 2; d++) {
        Backend *b = open_one(DEVICES[d]);
        for (int o = 0; o < 4; o++)
            for (unsigned which = 0; which < 1u << SPLITS; which++) {
                Scored *s = new_scored();
                SoftmaxCounts counts;
                int planted = __builtin_popcount(which);
                for (int split = 0; split < SPLITS; split++)
                    for (int i = 0; which >> split & 1 && i < (o < 2 ? 1 : SPLIT); i++)
                        s->scores[split * SPLIT + (o < 2 ? 20 : i)] += OUTLIERS[o];
                check(DEVICES[d], b, s, 0, &counts);
                assert_int_equal(counts.parts, SPLITS);
                assert_true(d ? counts.again == planted : counts.again <= SPLITS);
                if (planted == 0) assert_int_equal(counts.again, 0);
                if (planted == SPLITS || (planted && o < 2)) assert_true(counts.again > 0);
                free(s);
            }
        b->ops->close(b);
    }
}

// Within rounding, wherever the base is.
static void the_base_does_not_matter(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        Backend *b = open_one(DEVICES[d]);
        Scored *s = new_scored();
        SoftmaxCounts counts;
        for (int base = -40; base <= 40; base++) {
            check(DEVICES[d], b, s, (float)base, &counts);
            assert_int_equal(counts.again, 0);
        }
        for (int base = -2000; base <= 2000; base += 250) check(DEVICES[d], b, s, (float)base, &counts);
        free(s);
        b->ops->close(b);
    }
}

// What is not seen is no part, whatever scores would be there; a query that sees nothing gives zeros, and what is no
// number stays so.
static void a_masked_split_is_no_part(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        Backend *b = open_one(DEVICES[d]);
        Scored *s = new_scored();
        SoftmaxCounts counts;
        const float base = 0;
        float y[DIM];
        for (int split = 0; split < SPLITS; split++) {
            for (int i = 0; i < SPLIT; i++)
                s->held[split * SPLIT + i] = -1, s->scores[split * SPLIT + i] = NAN;
            if (split == SPLITS - 1) break;
            s->held[SLOTS - 1] = SLOTS - 1;
            check(DEVICES[d], b, s, 0, &counts);
            assert_int_equal(counts.parts, SPLITS - 1 - split);
            assert_int_equal(counts.again, 0);
        }
        s->held[SLOTS - 1] = SLOTS; // begin() enters the token itself: at a position that it does not see
        s->keys[(SLOTS - 1) * DIM] = NAN;
        s->scores[SLOTS - 1] = NAN;
        attend(b, s, &base, y, &counts);
        assert_true(isnan(y[0]) && counts.again == 1);
        free(s);
        b->ops->close(b);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outliers_make_their_splits_fall_back),
        cmocka_unit_test(the_base_does_not_matter),
        cmocka_unit_test(a_masked_split_is_no_part),
    };
    return test_main("attend_bases", argc, argv, tests);
}
