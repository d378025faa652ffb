#include "tests/support/kernels/products.h"

#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 1 }; // a row before it is not asked for

static const int32_t BACKWARDS[PRODUCTS_TOKENS] = {13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};

void *products_scratch(int64_t cols) {
    return aligned_alloc(64, (size_t)(loops_fast()->gemm_scratch(cols) + 63) / 64 * 64);
}

void products_check(const ProductSets *sets, const Matrix *w, const Activations *x, int variant,
                    void *scratch) {
    const int64_t stride = w->rows + 1, n = (x->n > PRODUCTS_TOKENS ? x->n : PRODUCTS_TOKENS) * stride,
                  first = w->rows > FIRST ? FIRST : 0;
    float *expected = malloc((size_t)n * sizeof *expected), *y = malloc((size_t)n * sizeof *y);
    const float before = GUARD;
    Gemm p = {.w = w,
              .x = x,
              .first = first,
              .end = w->rows,
              .y = expected,
              .y_stride = stride,
              .add = variant & 1};
    if (variant & 2) p.to = BACKWARDS;
    for (int64_t i = 0; i < n; i++) expected[i] = before;
    for (int64_t r = p.first; r < p.end; r++) {
        float *weights = matrix_row(w, r);
        for (int64_t t = 0; t < x->n; t++)
            gemm_row(&p, t)[r] = sets->promised(weights, x, t, p.add ? &before : NULL);
        free(weights);
    }
    p.y = y;
    for (int i = 0; i < sets->n; i++) {
        for (int64_t j = 0; j < n; j++) y[j] = before;
        sets->all[i](&p, scratch);
        for (int64_t j = 0; j < n; j++)
            if (memcmp(&y[j], &expected[j], sizeof *y) != 0)
                fail_msg("%s, %lld columns, %lld tokens, set %d: y[%lld] is %a, promised %a",
                         dtype_name(w->type), (long long)w->cols, (long long)x->n, i, (long long)j,
                         (double)y[j], (double)expected[j]);
    }
    free(expected), free(y);
}
