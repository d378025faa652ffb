// The forms in which weights lie on the device, and what turns them into numbers.
//
// A matrix is rows of chunks. Plain types are as in the file. Block types are taken apart at upload: a chunk
// holds its quants first, then its scales, padded to 16 bytes, so that 16-byte loads and bulk copies are whole:
//
//   Q8   int8 q[n], f16 scale[n/32]            value = scale·q
//   Q8S  int8 q[n], f16 scale[n/16]            the same with a scale for every 16
//   Q8M  int8 q[n], f16 (scale, min)[n/32]     value = scale·q + min
//   Q4   nibbles[n/2], f16 scale[n/32]         value = scale·(q - 8); byte i of a group: elements i and i + 16
//   Q4M  nibbles[n/2], f16 (scale, min)[n/32]  value = scale·q + min
//   IQ4  nibbles[n/2], f16 scale[n/32]         value = scale·book[q], in another order: see codes.cuh
//   FP4  nibbles[n/2], f16 scale[n/32]         likewise, with the book of e2m1
//   Q2   8 bytes a group of 32, then records of 512 elements with Q2_K's scales; value = d·scale·q + dmin·min
//   Q3   16 bytes a group of 32 with two f16 scales; value = scale·(q - 4); q has three bits
//   Q5   16 bytes a group of 32, then records with the rest of two groups and their f16 scales; value = scale·(q - 16)
//   Q5M  likewise, then records with the rest of a group and its f16 (scale, min); value = scale·q + min
//   Q6   likewise with its two f16 scales; value = scale·(q - 32)
//   E4M3 8-bit floats[n], f32 scale[n/128]     value = scale·number; of a row's end the last scale has fewer
//   NF4  nibbles[n/2], f32 scale[n/64]         as IQ4, with the book of NF4
//
// Q8S and Q8M are for rows of two types in one matrix. How codes of two, three, five and six bits lie: codes.cuh.
//
// W8, whose inputs are quantised too (kernels/w8.h), has rows of int8, zeros up to a multiple of 16 bytes, and the
// rows' scales in an array of their own behind them, so that tiles and chunks of a row are integers alone.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_FORMATS_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_FORMATS_CUH

#include "kernels/cuda/device/format.h"
#include "kernels/dtype.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

__host__ __device__ constexpr bool format_quantized(int format) {
    return format >= FORMAT_Q8;
}
__host__ __device__ constexpr bool format_nibbles(int format) {
    return format == FORMAT_Q4 || format == FORMAT_Q4M || format == FORMAT_IQ4 || format == FORMAT_FP4 ||
           format == FORMAT_NF4;
}
// Nibbles that are entries' places in a codebook.
__host__ __device__ constexpr bool format_book(int format) {
    return format == FORMAT_IQ4 || format == FORMAT_FP4 || format == FORMAT_NF4;
}
// Groups that are, or that are made when they are read, four words with their scales.
__host__ __device__ constexpr bool format_packed(int format) {
    return format == FORMAT_Q2 || format == FORMAT_Q3;
}
// Codes of more than four bits, which a group's four words do not hold: the rest lies with its scales.
__host__ __device__ constexpr bool format_wide(int format) {
    return format == FORMAT_Q5 || format == FORMAT_Q5M || format == FORMAT_Q6;
}
// Which are taken in groups of 32, and have 16 bytes for each or less.
__host__ __device__ constexpr bool format_halved(int format) {
    return format_nibbles(format) || format_packed(format) || format_wide(format);
}
// Bytes that n elements of a wide format have behind their quants.
__host__ __device__ constexpr int wide_rest_bytes(int format, int n) {
    return format == FORMAT_Q6 ? n / 32 * 12 : format == FORMAT_Q5M ? n / 32 * 8 : (n + 63) / 64 * 12;
}
// In groups that have scales of their own.
__host__ __device__ constexpr bool format_grouped(int format) {
    return format_quantized(format) && format != FORMAT_W8;
}

// Whose products by rows take their input as integers of 8 bits: numbers that are no integers times a scale take floats.
__host__ __device__ constexpr bool format_rounds_input(int format) {
    return format_quantized(format) && format != FORMAT_E4M3;
}

// Elements of a full chunk: about 2 KB, which one bulk copy moves at the memory's full speed.
__host__ __device__ constexpr int chunk_elements(int format) {
    return format == FORMAT_F32        ? 512
           : !format_quantized(format) ? 1024
           : format_halved(format)     ? 4096
                                       : 2048;
}

// Bytes of the quants of n elements, and of what lies with them.
__host__ __device__ constexpr int quant_bytes(int format, int n) {
    return format == FORMAT_F32        ? n * 4
           : !format_quantized(format) ? n * 2
           : format == FORMAT_Q2       ? n / 4
           : format_halved(format)     ? n / 2
                                       : n;
}

enum { Q2_RECORD = 48, Q2_RECORD_ELEMENTS = 512 }; // bytes of a record of Q2, and what it is for

// Bytes of a chunk of n elements.
__host__ __device__ constexpr int chunk_bytes(int format, int n) {
    int quants = quant_bytes(format, n);
    if (format == FORMAT_W8) return (quants + 15) / 16 * 16;
    if (!format_quantized(format) || format == FORMAT_Q3) return quants;
    if (format == FORMAT_Q2) return quants + (n + Q2_RECORD_ELEMENTS - 1) / Q2_RECORD_ELEMENTS * Q2_RECORD;
    if (format == FORMAT_E4M3) return quants + ((n + 127) / 128 * 4 + 15) / 16 * 16;
    int scales = format_wide(format) ? wide_rest_bytes(format, n)
                 : format == FORMAT_Q8 || format == FORMAT_Q4 || format_book(format) ? n / 16
                                                                                     : n / 8;
    return quants + (scales + 15) / 16 * 16;
}

__host__ __device__ inline int64_t format_row_bytes(int format, int cols) {
    int full = chunk_elements(format), rest = cols % full;
    return (int64_t)(cols / full) * chunk_bytes(format, full) + chunk_bytes(format, rest);
}

// One matrix on the device.
struct Weight {
    char *data; // [rows] of row_bytes
    int64_t row_bytes;
    int rows, cols;
    int format;
    int uniform;   // of E4M3: WEIGHT_UNIFORM_…, found when all are there (weights/uniform.cu)
    float *scales; // [rows] of W8, else NULL
};

// Of E4M3: a row's scales are one; those of 128 columns are the same in every second row of each 64.
enum { WEIGHT_UNIFORM_ROWS = 1, WEIGHT_UNIFORM_BLOCKS = 2 };

// The types that GEMMs take their operands in.
template <class T> __device__ inline T from_float(float v);
template <> __device__ inline float from_float<float>(float v) {
    return v;
}
template <> __device__ inline __half from_float<__half>(float v) {
    return __float2half_rn(v);
}
template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float v) {
    return __float2bfloat16_rn(v);
}
__device__ inline float to_float(float v) {
    return v;
}
__device__ inline float to_float(__half v) {
    return __half2float(v);
}
__device__ inline float to_float(__nv_bfloat16 v) {
    return __bfloat162float(v);
}

#endif
