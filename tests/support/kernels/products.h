// Products of weights with activations, by several sets of loops, against what is promised of one element, bit by bit.
#ifndef PALAVER_TESTS_PRODUCTS_H
#define PALAVER_TESTS_PRODUCTS_H

#include "kernels/cpu/loops/loops.h"

enum { PRODUCTS_TOKENS = 14 }; // of variants that put tokens elsewhere, at the most

typedef void (*Multiply)(const Gemm *gemm, void *scratch);

// What is multiplied with, and what comes of a row of weights and a token by definition; before: what it is added to, NULL:
// nothing.
typedef struct ProductSets {
    Multiply all[6];
    int n;
    float (*promised)(const float *w, const Activations *x, int64_t token, const float *before);
} ProductSets;

// Memory that the fastest loops of this machine work with, for rows of `cols`; to free.
void *products_scratch(int64_t cols);

// All rows of w but the first, where it has more, times x: in each set what is promised, and nothing besides is written.
// Bits of `variant`: 1 adds to what is there, 2 puts tokens backwards.
void products_check(const ProductSets *sets, const Matrix *w, const Activations *x, int variant,
                    void *scratch);

#endif
