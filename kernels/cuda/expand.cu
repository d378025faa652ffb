// Weights of any format as a dense matrix of the operand type, for products of many rows.
#include "kernels/cuda/cuda.cuh"

// Eight elements of a row from `col` on, a multiple of 8.
__device__ inline void row_octet(int format, const char *row, int cols, int col, float v[8]) {
    int full = chunk_elements(format), first = col / full * full, n = min(full, cols - first),
        i = col - first;
    const char *chunk = row + (int64_t)(col / full) * chunk_bytes(format, full);
    if (!format_quantized(format)) {
        for (int j = 0; j < 8; j++) v[j] = row_element(format, row, cols, col + j);
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

// One thread eight elements. Grid: [n rows, cols/8 / 128]; cols is a multiple of 8.
template <class T> __global__ void __launch_bounds__(128) expand_kernel(Weight w, int first, T *dense) {
    int col = (blockIdx.y * blockDim.x + threadIdx.x) * 8;
    if (col >= w.cols) return;
    float v[8];
    row_octet(w.format, w.data + (int64_t)(first + blockIdx.x) * w.row_bytes, w.cols, col, v);
    struct alignas(16) Octet {
        T v[8];
    } out;
    for (int j = 0; j < 8; j++) out.v[j] = from_float<T>(v[j]);
    *(Octet *)(dense + (int64_t)blockIdx.x * w.cols + col) = out;
}

Status cuda_expand(CudaBackend *cuda, const Weight *w, int first, int n, DType type, void *dense,
                   Error *error) {
    dim3 grid(n, (w->cols / 8 + 127) / 128);
    if (type == DTYPE_F32)
        expand_kernel<<<grid, 128, 0, cuda->stream>>>(*w, first, (float *)dense);
    else if (type == DTYPE_BF16)
        expand_kernel<<<grid, 128, 0, cuda->stream>>>(*w, first, (__nv_bfloat16 *)dense);
    else
        expand_kernel<<<grid, 128, 0, cuda->stream>>>(*w, first, (__half *)dense);
    return CUDA_LAUNCHED(error, "expanding %d rows of [%d, %d]", n, w->rows, w->cols);
}
