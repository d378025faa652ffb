// What the GPU tests share: counting, distances, and one backend with a model and a cache on it.
#ifndef PALAVER_TESTS_GPU_SIDE_H
#define PALAVER_TESTS_GPU_SIDE_H

#include "engine/forward.h"
#include "kernels/kv_layout.h"
#include "tests/gpu/model/model.h"
#include "tests/gpu/sample/sampling.h"

enum { SENTINEL = 256, SIDE_STATES = 8 /* of each layer that recurs */ };

// Counts, and prints what failed; with VERBOSE set, everything. NaN fails.
Report report;
int failures(void); // prints the closing line; the exit status

// Ends the program with the error's message.
void must(Status status, const Error *error);

// ‖a − b‖ / ‖b‖
double distance(const float *a, const float *b, int64_t n);

// Memory of 0xff, a NaN in every type, with SENTINEL more bytes behind it.
void *room(const Ops *ops, Backend *backend, size_t bytes);
void check_sentinel(const char *name, const Ops *ops, Backend *backend, void *memory, size_t bytes);

// So many processes share the work, and so the cores: threads that look for work take time from those that have some.
void side_share_cores(int n_processes);

typedef struct Side {
    const Ops *ops;
    Backend *backend;
    DType operand;
    const DecoderShape *shape; // of TEST_LAYERS
    Layer *layers[TEST_LAYERS];
    Head *head;
    void *x, *q, *g;
    float *logits;
    KvLayout layout;
    void *cache, *scale; // scale NULL without groups
    void *rounding;      // of keys, where they are fed back
    void *sink_scores;   // of Case.sinks
    void *states; // of layers that recur: [TEST_LAYERS, SIDE_STATES, delta_state_floats()]; NULL: none do
    KvLayer kv[TEST_LAYERS];
    int32_t *slot_positions; // [layout.n_slots]
    size_t sizes[4];         // of x, q, g, logits
    bool several;            // cards: each has rows of q and g of its own
} Side;

// The same over several cards ("cuda:0,1"). False: such a model cannot be cut for them.
bool side_open_cards(Side *s, const Ops *ops, const char *devices, const Case *c, const TestModel *m,
                     int n_slots);
void side_open(Side *s, const Ops *ops, const char *device, const Case *c, const TestModel *m, int n_slots);
void side_close(Side *s);

// A step's way through the side's model by the engine's own loop, and the same in one go; windows [TEST_LAYERS].
Pass side_pass(const Side *s, const Step *step, const int *windows);
DecodeStep side_decode(const Side *s, const Step *step, const Pass *pass);

// n activations of `type` as floats, and back.
float *get(Side *s, const void *memory, DType type, int64_t n);
void put(Side *s, void *memory, DType type, const float *values, int64_t n);

// Random keys and values in the slots that hold a position, the same bytes on both sides; the others keep their NaN.
void fill_caches(Side *a, Side *b, const int32_t *positions, uint64_t seed);

// The bytes of a side's cache and scales, host memory; and the keys or values of a layer in the slots that hold a
// position, as floats [n_kv_heads, slots, head_dim]; *n elements.
void *get_cache(Side *s, void **scale);
void put_cache(Side *s, const void *memory, const void *scale);
float *cache_floats(Side *s, int layer, bool keys, const int32_t *positions, int64_t *n);

// Makes b's cache what a's is.
void copy_cache(Side *a, Side *b);

// Sums of W8's GEMMs, bit by bit (w8.c).
void test_w8_sums(const Ops *cuda);

// The operator of its own, and what is done to slots (cache.c).
void test_caches(const Ops *cuda);

// Rows and prompts that do not depend on what they are decoded or read with (independent.c). only: NULL, or part of a
// name.
void test_independent(const Ops *cuda, const char *only);

// Two cards (cards.c): whether they are there, else it is told; and cases on both, op by op by test(): every
// parts-th from part on. golden: the folder of golden models, for the plug-in beside the program.
typedef struct CardsWish {
    const Ops *cuda;
    const char *golden;
    void (*test)(const Ops *cuda, const char *devices, const Case *c);
    int part, parts;
} CardsWish;
bool cards_are_there(const Ops *cuda);
void test_cards(const CardsWish *wish);

// Each way of a linear layer (ways.c).
void test_ways(const Ops *cuda);

// Weights beyond what the GPU's forms hold: refused while they are loaded (refused.c).
void test_refused(const Ops *cuda);

// Steps of a few tokens with weights of every type (flat.c), op by op by test(). only: as above.
void test_flat(const Ops *cuda, const char *only, void (*test)(const Ops *, const Case *));

// Prints how fast attention reads caches (attend_speed.c). No test.
void attend_speed(const Ops *ops);

#endif
