#include "kernels/dtype.h"

#include "kernels/w8.h"

typedef struct DTypeTraits {
    const char *name;
    int64_t block_size, block_bytes, alignment;
} DTypeTraits;

// Bytes of a block are written as the sum of its members: scales, high bits, low bits, in the block's order.
static const DTypeTraits TRAITS[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", 1, 4, 4},
    [DTYPE_F16] = {"f16", 1, 2, 2},
    [DTYPE_BF16] = {"bf16", 1, 2, 2},
    [DTYPE_Q8_0] = {"q8_0", 32, 2 + 32, 2},
    [DTYPE_Q4_0] = {"q4_0", 32, 2 + 16, 2},
    [DTYPE_Q4_1] = {"q4_1", 32, 2 + 2 + 16, 2},
    [DTYPE_Q5_0] = {"q5_0", 32, 2 + 4 + 16, 2},
    [DTYPE_Q5_1] = {"q5_1", 32, 2 + 2 + 4 + 16, 2},
    [DTYPE_Q4_K] = {"q4_k", 256, 2 + 2 + 12 + 128, 2},
    [DTYPE_Q5_K] = {"q5_k", 256, 2 + 2 + 12 + 32 + 128, 2},
    [DTYPE_Q6_K] = {"q6_k", 256, 128 + 64 + 16 + 2, 2},
    [DTYPE_Q2_K] = {"q2_k", 256, 16 + 64 + 2 + 2, 2},
    [DTYPE_Q3_K] = {"q3_k", 256, 32 + 64 + 12 + 2, 2},
    [DTYPE_IQ4_NL] = {"iq4_nl", 32, 2 + 16, 2},
    [DTYPE_IQ4_XS] = {"iq4_xs", 256, 2 + 2 + 4 + 128, 2},
    [DTYPE_MXFP4] = {"mxfp4", 32, 1 + 16, 1},
    [DTYPE_E4M3] = {"e4m3", 128, 4 + 128, 4},
    [DTYPE_NF4] = {"nf4", 64, 4 + 32, 4},
    [DTYPE_INT8] = {"int8", 1, 1, 1},
    [DTYPE_INT4] = {"int4", 2, 1, 1},
    [DTYPE_W8] = {"w8", 1, 1, W8_ALIGNMENT},
};

static const DTypeTraits *traits_of(DType type) {
    static const DTypeTraits UNKNOWN = {"unknown", 1, 0, 1};
    return (unsigned)type < DTYPE_COUNT ? &TRAITS[type] : &UNKNOWN;
}

const char *dtype_name(DType type) {
    return traits_of(type)->name;
}

int64_t dtype_block_size(DType type) {
    return traits_of(type)->block_size;
}

int64_t dtype_block_bytes(DType type) {
    return traits_of(type)->block_bytes;
}

int64_t dtype_alignment(DType type) {
    return traits_of(type)->alignment;
}

int64_t dtype_row_bytes(DType type, int64_t cols) {
    const DTypeTraits *traits = traits_of(type);
    int64_t bytes;
    if (type == DTYPE_W8) return w8_row_bytes(cols);
    const int64_t unit = type == DTYPE_E4M3 ? 32 : traits->block_size;
    if (cols < 0 || cols % unit != 0) return -1;
    const int64_t blocks = cols / traits->block_size + (cols % traits->block_size != 0);
    if (__builtin_mul_overflow(blocks, traits->block_bytes, &bytes)) return -1;
    return bytes;
}
