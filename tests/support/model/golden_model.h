// The small models of tests/golden and what Hugging Face transformers makes of them (make_models.py,
// make_architectures.py, make_dense.py): for
// tests of the forward pass, on the CPU with cmocka and on a GPU without. Errors are values here as everywhere.
#ifndef PALAVER_TESTS_GOLDEN_MODEL_H
#define PALAVER_TESTS_GOLDEN_MODEL_H

#include "engine/engine.h"

#define GOLDEN "tests/golden"
#define GOLDEN_MODELS GOLDEN "/models"
#define GOLDEN_ARCHITECTURES GOLDEN "/architectures"
#define GOLDEN_DENSE GOLDEN "/dense"
#define GOLDEN_EXPERTS GOLDEN "/experts"
#define GOLDEN_LATENT GOLDEN "/latent"
#define GOLDEN_CONVOLUTION GOLDEN "/convolution"
#define GOLDEN_DELTA GOLDEN "/delta"
#define GOLDEN_STATE_SPACE GOLDEN "/state_space"

enum { GOLDEN_MAX_IDS = 64, GOLDEN_MAX_CASES = 4 };

typedef struct GoldenCase {
    char name[32];
    int n, from, vocab;
    int32_t ids[GOLDEN_MAX_IDS], positions[GOLDEN_MAX_IDS];
    // Distance of transformers' logits in 16 bits from `expected`, as golden_distance() has it; NaN: not known.
    double half_error;
    float *expected; // [n - from, vocab] transformers' logits in float32
} GoldenCase;

typedef struct GoldenSet {
    GoldenCase cases[GOLDEN_MAX_CASES];
    int n;
} GoldenSet;

// Reads ROOT/FOLDER/golden.json and the logits it names; golden_model_free() also after a failure.
Status golden_model_read(const char *root, const char *folder, GoldenSet *set, Error *error);
void golden_model_free(GoldenSet *set);

// An engine over ROOT/NAME with a context of 128 tokens.
Status golden_model_open(const char *root, const char *name, const char *device, DType cache, Engine **engine,
                         Error *error);

// Evaluates a case in steps of `step` tokens at its own positions; logits host [n - from, vocab].
Status golden_model_evaluate(Engine *engine, const GoldenCase *c, int step, float *logits, Error *error);

// How far logits may be from `expected` where linear layers of 16-bit floats are multiplied in integers
// (kernels/cpu/loops/fixed.h): an eighth of what 16-bit floats cost transformers, since numbers there have 12 to 15 bits,
// not the 8 of bfloat16, and are added up in float32. Where that is not known, a quarter of what it costs the model for which
// it is least.
double golden_fixed_bound(const GoldenCase *c);

// Largest difference over the largest expected value, of n; NaN anywhere gives infinity.
double golden_distance(const float *a, const float *expected, size_t n);

#endif
