// Single elements of weights in any format, for what reads few of them: embeddings, plain loops.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_ELEMENT_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_ELEMENT_CUH

#include "kernels/cuda/device/codes.cuh"

// Element `col` of a row; of W8 its integer, without the row's scale.
__device__ inline float row_element(int format, const char *row, int cols, int col) {
    if (format == FORMAT_F32) return ((const float *)row)[col];
    if (format == FORMAT_F16) return __half2float(((const __half *)row)[col]);
    if (format == FORMAT_BF16) return __bfloat162float(((const __nv_bfloat16 *)row)[col]);
    if (format == FORMAT_W8) return ((const int8_t *)row)[col];
    int full = chunk_elements(format), first = col / full * full, n = min(full, cols - first),
        i = col - first;
    const char *chunk = row + (int64_t)(col / full) * chunk_bytes(format, full);
    if (format == FORMAT_E4M3)
        return __low2float(e4m3_pair((uint8_t)chunk[i])) *
               ((const float *)(chunk + quant_bytes(format, n)))[i / 128];
    if (format_packed(format)) {
        return format == FORMAT_Q2
                   ? packed_element<FORMAT_Q2>(packed_group<FORMAT_Q2>(chunk, n, i / 32), i % 32)
                   : packed_element<FORMAT_Q3>(packed_group<FORMAT_Q3>(chunk, n, i / 32), i % 32);
    }
    if (format == FORMAT_Q5) return wide_element(wide_group<FORMAT_Q5>(chunk, n, i / 32), i % 32);
    if (format == FORMAT_Q5M) return wide_element(wide_group<FORMAT_Q5M>(chunk, n, i / 32), i % 32);
    if (format == FORMAT_Q6) return wide_element(wide_group<FORMAT_Q6>(chunk, n, i / 32), i % 32);
    const __half *scales = (const __half *)(chunk + quant_bytes(format, n));
    int q;
    if (format_book(format)) {
        uint32_t word = ((const uint32_t *)chunk)[i / 32 * 4 + i % 16 / 4];
        q = book_entry(format, word >> (i % 32 / 16 * 16 + i % 4 * 4) & 15);
    } else if (format_nibbles(format)) {
        uint8_t byte = ((const uint8_t *)chunk)[i / 32 * 16 + i % 16];
        q = i % 32 < 16 ? byte & 15 : byte >> 4;
    } else {
        q = ((const int8_t *)chunk)[i];
    }
    switch (format) {
    case FORMAT_Q8:
    case FORMAT_IQ4:
    case FORMAT_FP4:
        return __half2float(scales[i / 32]) * q;
    case FORMAT_NF4:
        return ((const float *)scales)[i / 64] * NF4_UNIT * (float)q;
    case FORMAT_Q8S:
        return __half2float(scales[i / 16]) * q;
    case FORMAT_Q4:
        return __half2float(scales[i / 32]) * (q - 8);
    default:
        return __half2float(scales[i / 32 * 2]) * q + __half2float(scales[i / 32 * 2 + 1]);
    }
}

// Element `col` of row r.
__device__ inline float weight_element(const Weight &w, int64_t r, int col) {
    float v = row_element(w.format, w.data + r * w.row_bytes, w.cols, col);
    return w.scales ? v * w.scales[r] : v;
}

#endif
