// What tests of the forward pass ask of a golden model on the CPU (golden_model.h), with cmocka: each ends the test where
// it fails.
#ifndef PALAVER_TESTS_GOLDEN_CHECK_H
#define PALAVER_TESTS_GOLDEN_CHECK_H

#include "engine/model/model.h"
#include "tests/support/model/golden_model.h"

enum { GOLDEN_BEGIN = 8, GOLDEN_GREEDY = 64 }; // tokens of a prompt, and of the text that goes on with it

// The model in ROOT/NAME.
Model *golden_check_file(const char *root, const char *name);

// An engine over ROOT/NAME with a context of 128 tokens; n_threads 0: one for each core.
Engine *golden_check_open(const char *root, const char *name, const char *device, int n_threads, DType cache);

// Its like with two threads and a cache in float32, the weights held in such a type.
Engine *golden_check_converted(const char *root, const char *name, const char *device, WeightType weights);

// The case's logits, read token by token, by 7 and by 55, are transformers' to 1e-5 of the largest.
void golden_check_logits(Engine *engine, const char *name, const GoldenCase *c);

// Behind the first GOLDEN_BEGIN tokens of the first case, the greedy text is that of ROOT/GOLDEN_OF/golden.json.
void golden_check_greedy(Engine *engine, const char *root, const char *golden_of);

// Both of NAME on the devices, with one engine each; devices end with NULL.
void golden_check_model(const char *root, const char *name, const char *golden_of,
                        const char *const *devices);

// The CPU's: plain, then fast.
extern const char *const GOLDEN_LOOPS[];
// Of a folder by both, and of NAME.gguf beside it by the fast ones.
void golden_check_both(const char *root, const char *name);

// The first case's logits of ROOT/GOLDEN_OF, by 7, are as far as `bound` from transformers' at most; `what` says how the engine
// was opened.
void golden_check_distance(Engine *engine, const char *root, const char *golden_of, const char *what,
                           double bound);

// So through a cache of such a type: its rounding is all that changes.
void golden_check_cache(const char *root, const char *name, DType cache, double bound);

#endif
