// Element types of tensors in files and caches, and how many bytes they take.
//
// A row of a quantised type is a sequence of blocks of dtype_block_size() elements; plain types are
// blocks of one, int4 of two. The other block formats are those of GGUF, bit by bit, but for three that are in no file: a
// row of w8 is blocks of one with zeros up to a multiple of 16 bytes, then the row's scale (see kernels/w8.h); one of
// e4m3 is blocks of 128 elements, a float32 scale and 128 bytes whose value is the scale times the 8-bit float, and its
// last block is filled up with zeros. nf4, of bitsandbytes' folders, is blocks of 64: a float32 scale, then codes of the
// 4-bit NormalFloat (arXiv:2305.14314, appendix E), in byte i those of elements 2i (its lower half) and 2i + 1.
#ifndef PALAVER_KERNELS_DTYPE_H
#define PALAVER_KERNELS_DTYPE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum DType {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_Q8_0,
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_Q2_K,
    DTYPE_Q3_K,
    DTYPE_IQ4_NL,
    DTYPE_IQ4_XS,
    DTYPE_MXFP4,
    DTYPE_E4M3, // of linear layers that their makers hold in FP8
    DTYPE_NF4,  // of those that bitsandbytes holds in 4 bits
    DTYPE_INT8, // of KV caches; their scales lie apart, see KvLayer
    DTYPE_INT4,
    DTYPE_W8, // of linear layers that were converted while they were loaded; in no file
    DTYPE_COUNT,
} DType;

// Lower case, as files and people write it: "f32", "bf16", "q4_k". "unknown" for anything else.
const char *dtype_name(DType type);

// Elements of one block: 1, 2, 32, 64, 128 or 256.
int64_t dtype_block_size(DType type);

// Bytes of one block. Rows of w8 end with more than blocks, and those of e4m3 with a block that may be part of one:
// dtype_row_bytes() alone says how long they are.
int64_t dtype_block_bytes(DType type);

// Bytes to which a block is aligned in memory: that of its widest member (4 for f32, 2 for one with
// halves, else 1), 16 for w8.
int64_t dtype_alignment(DType type);

// Bytes of a row of `cols` elements; -1 if cols is negative, no multiple of the block size (e4m3: of 32), or too large.
int64_t dtype_row_bytes(DType type, int64_t cols);

#ifdef __cplusplus
}
#endif
#endif
