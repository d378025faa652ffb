// The forms in which weights lie on the device, by name: see formats.cuh.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_FORMAT_H
#define PALAVER_KERNELS_CUDA_DEVICE_FORMAT_H

#include "kernels/dtype.h"

typedef enum Format {
    FORMAT_F32,
    FORMAT_F16,
    FORMAT_BF16,
    FORMAT_Q8,
    FORMAT_Q8S,
    FORMAT_Q8M,
    FORMAT_Q4,
    FORMAT_Q4M,
    FORMAT_IQ4,
    FORMAT_FP4,
    FORMAT_Q2,
    FORMAT_Q3,
    FORMAT_Q5,
    FORMAT_Q5M,
    FORMAT_Q6,
    FORMAT_E4M3,
    FORMAT_NF4,
    FORMAT_W8
} Format;

// In which weights of a file's type are kept.
static inline Format format_of(DType type) {
    switch (type) {
    case DTYPE_F32:
        return FORMAT_F32;
    case DTYPE_F16:
        return FORMAT_F16;
    case DTYPE_BF16:
        return FORMAT_BF16;
    case DTYPE_Q4_0:
        return FORMAT_Q4;
    case DTYPE_Q4_1:
    case DTYPE_Q4_K:
        return FORMAT_Q4M;
    case DTYPE_Q5_0:
        return FORMAT_Q5;
    case DTYPE_Q5_1:
    case DTYPE_Q5_K:
        return FORMAT_Q5M;
    case DTYPE_Q6_K:
        return FORMAT_Q6;
    case DTYPE_IQ4_NL:
    case DTYPE_IQ4_XS:
        return FORMAT_IQ4;
    case DTYPE_MXFP4:
        return FORMAT_FP4;
    case DTYPE_Q2_K:
        return FORMAT_Q2;
    case DTYPE_Q3_K:
        return FORMAT_Q3;
    case DTYPE_E4M3:
        return FORMAT_E4M3;
    case DTYPE_NF4:
        return FORMAT_NF4;
    case DTYPE_W8:
        return FORMAT_W8;
    default:
        return FORMAT_Q8;
    }
}

#endif
