// Weights of any format as a dense matrix of the operand type, for GEMMs of many rows.
#include "kernels/cuda/gemm/gemm.cuh"
#include "kernels/cuda/device/element.cuh"

template <int FORMAT> __device__ inline void packed_octet(const char *chunk, int n, int i, float v[8]) {
    const uint4 group = packed_group<FORMAT>(chunk, n, i / 32);
    for (int j = 0; j < 8; j++) v[j] = packed_element<FORMAT>(group, i % 32 + j);
}

template <int FORMAT> __device__ inline void wide_octet(const char *chunk, int n, int i, float v[8]) {
    const WideGroup<FORMAT> g = wide_group<FORMAT>(chunk, n, i / 32);
    for (int k = 0; k < 2; k++) {
        uint32_t codes = wide_bytes(g, i % 32 / 4 + k);
        for (int j = 0; j < 4; j++) v[4 * k + j] = wide_value(g, (int)(codes >> 8 * j & 255), i % 32);
    }
}

// Eight elements of a chunk of n from i on, of packed or wide formats or such with a codebook.
__device__ inline void codes_octet(int format, const char *chunk, int n, int i, float v[8]) {
    if (format == FORMAT_Q5) return wide_octet<FORMAT_Q5>(chunk, n, i, v);
    if (format == FORMAT_Q5M) return wide_octet<FORMAT_Q5M>(chunk, n, i, v);
    if (format == FORMAT_Q6) return wide_octet<FORMAT_Q6>(chunk, n, i, v);
    if (format == FORMAT_Q2) return packed_octet<FORMAT_Q2>(chunk, n, i, v);
    if (format == FORMAT_Q3) return packed_octet<FORMAT_Q3>(chunk, n, i, v);
    const char *scales = chunk + quant_bytes(format, n);
    float scale = format == FORMAT_NF4 ? ((const float *)scales)[i / 64] * NF4_UNIT
                                       : __half2float(((const __half *)scales)[i / 32]);
    const uint32_t *words = (const uint32_t *)(chunk + i / 32 * 16) + i % 16 / 4;
    for (int k = 0; k < 2; k++) {
        uint32_t codes = i % 32 < 16 ? words[k] : words[k] >> 16;
        if (format == FORMAT_NF4) {
            const uint32_t upper = nf4_upper(codes), lower = nf4_lower(codes);
            for (int j = 0; j < 4; j++)
                v[4 * k + j] = scale * (float)(256 * (int8_t)(upper >> 8 * j) + (int8_t)(lower >> 8 * j));
            continue;
        }
        uint32_t raised =
            format == FORMAT_IQ4 ? book_bytes<FORMAT_IQ4>(codes) : book_bytes<FORMAT_FP4>(codes);
        for (int j = 0; j < 4; j++) v[4 * k + j] = scale * (float)((int)(raised >> 8 * j & 255) - 128);
    }
}

// Eight elements of a row from `col` on, a multiple of 8.
__device__ inline void row_octet(int format, const char *row, int cols, int col, float v[8]) {
    int full = chunk_elements(format), first = col / full * full, n = min(full, cols - first),
        i = col - first;
    const char *chunk = row + (int64_t)(col / full) * chunk_bytes(format, full);
    if (!format_quantized(format)) {
        for (int j = 0; j < 8; j++) v[j] = row_element(format, row, cols, col + j);
        return;
    }
    if (format == FORMAT_E4M3) {
        const float scale = ((const float *)(chunk + quant_bytes(format, n)))[i / 128];
        const uint2 codes = *(const uint2 *)(chunk + i);
        for (int j = 0; j < 8; j += 2) {
            float2 pair = __half22float2(e4m3_pair((j < 4 ? codes.x : codes.y) >> j % 4 * 8));
            v[j] = scale * pair.x, v[j + 1] = scale * pair.y;
        }
        return;
    }
    if (format_packed(format) || format_book(format) || format_wide(format)) {
        codes_octet(format, chunk, n, i, v);
        return;
    }
    const __half *scales = (const __half *)(chunk + quant_bytes(format, n));
    bool nibbles = format_nibbles(format);
    uint2 raw = *(const uint2 *)(chunk + (nibbles ? i / 32 * 16 + i % 16 : i));
    uint32_t words[2] = {raw.x, raw.y};
    bool pairs = format == FORMAT_Q8M || format == FORMAT_Q4M;
    int group = format == FORMAT_Q8S ? i / 16 : pairs ? i / 32 * 2 : i / 32;
    float scale = __half2float(scales[group]), min = pairs ? __half2float(scales[group + 1]) : 0;
    if (format == FORMAT_Q4) min = -8 * scale;
    int shift = i % 32 < 16 ? 0 : 4;
    for (int j = 0; j < 8; j++) {
        uint32_t byte = words[j / 4] >> j % 4 * 8;
        v[j] = scale * (nibbles ? (float)(byte >> shift & 15) : (float)(int8_t)byte) + min;
    }
}

enum { EXPAND_THREADS = 128, OCTETS = 4 }; // of a thread, all of which are on their way before one is written

// Grid: [n rows, cols/8 / (EXPAND_THREADS · OCTETS)]; cols is a multiple of 8.
template <class T>
__global__ void __launch_bounds__(EXPAND_THREADS) expand_kernel(Weight w, int first, T *dense) {
    struct alignas(16) Octet {
        T v[8];
    } out[OCTETS];
    int begin = (blockIdx.y * OCTETS * EXPAND_THREADS + threadIdx.x) * 8;
    const char *row = w.data + (int64_t)(first + blockIdx.x) * w.row_bytes;
    T *to = dense + (int64_t)blockIdx.x * w.cols;
#pragma unroll
    for (int k = 0; k < OCTETS; k++) {
        int col = begin + k * EXPAND_THREADS * 8;
        float v[8];
        if (col < w.cols) row_octet(w.format, row, w.cols, col, v);
        for (int j = 0; j < 8; j++) out[k].v[j] = from_float<T>(v[j]);
    }
#pragma unroll
    for (int k = 0; k < OCTETS; k++) {
        int col = begin + k * EXPAND_THREADS * 8;
        if (col < w.cols) *(Octet *)(to + col) = out[k];
    }
}

Status cuda_expand(CudaBackend *cuda, const WeightRows &rows, DType type, void *dense, Error *error) {
    const Weight *w = rows.w;
    const int first = rows.first, n = rows.n;
    int each = EXPAND_THREADS * OCTETS * 8;
    dim3 grid(n, (w->cols + each - 1) / each);
    WITH_TYPE(type, (expand_kernel<<<grid, EXPAND_THREADS, 0, cuda->device.stream>>>(*w, first, (T *)dense)));
    return CUDA_LAUNCHED(error, "expanding %d rows of [%d, %d]", n, w->rows, w->cols);
}
