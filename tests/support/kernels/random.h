// What the tests of kernels/cpu share: seeded data, matrices of every type, comparisons.
#ifndef PALAVER_TESTS_RANDOM_H
#define PALAVER_TESTS_RANDOM_H

#include "kernels/ops.h"
#include "tests/support/test.h"

#define GUARD 12345.678f                         // stands where nothing may be written
#define ONE_PAGE(slot) ((const int32_t[]){slot}) // the table of a sequence that is not paged

// xorshift64*: 64 random bits; a float uniform in [-1, 1); n of them in memory of exactly their size.
uint64_t seeded_bits(uint64_t *seed);
float random_float(uint64_t *seed);
float *random_floats(uint64_t seed, int64_t n);

// A matrix of random bits with sane scales, in memory of exactly its size that starts at an odd address.
typedef struct TestMatrix {
    Matrix matrix;
    uint8_t *memory; // to free
} TestMatrix;

TestMatrix random_matrix(DType type, int64_t rows, int64_t cols, uint64_t seed);

// Row of a matrix as float32; to free.
float *matrix_row(const Matrix *matrix, int64_t row);

// NaN fails.
void assert_near(const char *what, int64_t i, double value, double expected, double tolerance);

// For keys of heads with this rope: a made-up balance and feedback (see KvLayer); to free.
void random_rounding(const Rope *rope, int n_heads, int head_dim, float **balance, float **feedback);

// A decoder that a backend is opened for of which no layer is asked.
DecoderShape any_shape(void);

// The CPU backend "cpu" or "cpu:reference", opened for max_tokens tokens and as many rows of logits.
Backend *open_cpu(const char *device, int n_threads, const DecoderShape *shape, int max_tokens);

// Ends the test with the error's message if status is not STATUS_OK.
void assert_ok(Status status, const Error *error);

#endif
