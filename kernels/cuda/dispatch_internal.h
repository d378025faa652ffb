// What several files of dispatch ask. Only for dispatch*.c.
#ifndef PALAVER_CUDA_DISPATCH_INTERNAL_H
#define PALAVER_CUDA_DISPATCH_INTERNAL_H

#include "kernels/cuda/dispatch.h"

static inline bool is_16_bit(DType type) {
    return type == DTYPE_F16 || type == DTYPE_BF16;
}

static inline bool has_wgmma(const Card *card) {
    return dispatch_features(card)->wgmma;
}

static inline Format format_of_operand(DType operand) {
    return operand == DTYPE_F16 ? FORMAT_F16 : operand == DTYPE_BF16 ? FORMAT_BF16 : FORMAT_F32;
}

#endif
