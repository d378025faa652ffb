// Rows of weights from the type that a file has them in to the one that they are to be held in.
#ifndef PALAVER_KERNELS_CPU_LOOPS_CONVERT_H
#define PALAVER_KERNELS_CPU_LOOPS_CONVERT_H

#include "kernels/base/machine/threads.h"
#include "kernels/ops.h"

// Whether matrices with rows of `cols` can become `type`: DTYPE_F16, BF16, W8, Q8_0 or Q4_0.
bool convert_suits(DType type, int64_t cols);

// What could not be converted: the first row with a value that has no place in the new type, and that value. Not a
// number and infinite ones have none in any type, and those of f16 end at 65504.
typedef struct ConvertFlaw {
    int64_t row; // -1: there is none
    float value;
} ConvertFlaw;

// What is converted: a matrix whose rows and columns are multiplied first, with powers of two; NULL: they are not.
typedef struct ConvertSource {
    const Matrix *matrix;
    const float *of_rows, *of_cols; // [rows], [cols]
} ConvertSource;

// `from` as rows of `type` in `to` [rows·dtype_row_bytes(type, cols)], whose start is aligned for it; its cols suit
// the type. f16 and bf16: to the nearest, even ones at ties. W8: kernels/w8.h. Q8_0: scale max/127. Q4_0: each group of
// 32 gets the scale that leaves the smallest squared error among 17, see convert.c. STATUS_MEMORY: nothing was
// converted.
Status convert_matrix(Threads *threads, const ConvertSource *from, DType type, void *to, ConvertFlaw *flaw,
                      Error *error);

// One group of Q4_0: x [32] → block [18 bytes]. False: the scale has no place in f16.
bool convert_q4_group(const float *x, uint8_t *block);

#endif
