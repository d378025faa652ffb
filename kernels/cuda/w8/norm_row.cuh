// A row that a block holds in registers, normed and quantised for W8 or FP8: the same steps, and so the same bits,
// wherever the row comes from.
#ifndef PALAVER_KERNELS_CUDA_W8_NORM_ROW_CUH
#define PALAVER_KERNELS_CUDA_W8_NORM_ROW_CUH

#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/w8/fp8.cuh"
#include "kernels/cuda/w8/w8.cuh"
#include "kernels/cuda/layers.cuh"

// Rows of n elements in 8 bits: `stride` bytes each, zeros behind their elements.
struct NormRows {
    Norm norm;
    int n, stride;
    float eps;
    char *q;
    float *scales;
    Fp8Row fp8; // of FP8
};

// Row `row` of q and its scales from v, whose largest magnitude this thread has seen is `top`. All THREADS take part.
template <RowForm FORM, int THREADS, int TURNS>
__device__ inline void store_row(const NormRows &a, int row, const float4 (&v)[TURNS], uint32_t top) {
    constexpr int SPAN = THREADS * 4;
    __shared__ uint32_t tops[THREADS / 32];
    const int mine = threadIdx.x * 4;
    char *to = a.q + (int64_t)row * a.stride + mine;
    if constexpr (FORM == ROW_FP8_GROUPS) { // of which a warp has one a turn
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            const float scale = a.fp8.scale(__reduce_max_sync(~0u, magnitude_bits(v[t])));
            const Fp8Divisor by(scale);
            const int i = t * SPAN + mine;
            if (i >= a.stride) continue;
            *(uint32_t *)(to + t * SPAN) = by.four(v[t]);
            if (threadIdx.x % 32 == 0) a.scales[(int64_t)(i / FP8_GROUP) * a.fp8.stride + row] = scale;
        }
    } else {
        const uint32_t most = block_most<THREADS>(top, tops);
        const float scale = FORM == ROW_W8 ? w8_scale(__uint_as_float(most)) : a.fp8.scale(most);
        const typename DivisorOf<FORM>::Divisor by(scale);
#pragma unroll
        for (int t = 0; t < TURNS; t++)
            if (t * SPAN + mine < a.stride) *(uint32_t *)(to + t * SPAN) = by.four(v[t]);
        if (threadIdx.x == 0) a.scales[row] = scale;
    }
}

// Row `row` of q and its scale from v: thread i has elements t·4·THREADS + 4i … in v[t], zeros behind the n-th; u,
// likewise, the norm's weights. All THREADS take part.
template <RowForm FORM, int THREADS, int TURNS, bool LAYER>
__device__ inline void norm_row(const NormRows &a, int row, float4 (&v)[TURNS], const float4 (&u)[TURNS]) {
    constexpr int SPAN = THREADS * 4;
    __shared__ float sums[THREADS / 32];
    const int n = a.n, mine = threadIdx.x * 4;
    float sum = 0, square = 0;
#pragma unroll
    for (int t = 0; t < TURNS; t++) sum += (v[t].x + v[t].y) + (v[t].z + v[t].w);
    float mean = LAYER ? block_sum<THREADS>(sum, sums) / n : 0;
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        if (LAYER && t * SPAN + mine < n)
            v[t] = make_float4(v[t].x - mean, v[t].y - mean, v[t].z - mean, v[t].w - mean);
        square += v[t].x * v[t].x + v[t].y * v[t].y + v[t].z * v[t].z + v[t].w * v[t].w;
    }
    float factor = rsqrtf(block_sum<THREADS>(square, sums) / n + a.eps);
    uint32_t top = 0;
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        int i = t * SPAN + mine;
        if (i >= n) continue;
        float4 b = make_float4(0, 0, 0, 0);
        if (LAYER && a.norm.bias) b = __ldg((const float4 *)(a.norm.bias + i));
        v[t] = make_float4(v[t].x * factor * u[t].x + b.x, v[t].y * factor * u[t].y + b.y,
                           v[t].z * factor * u[t].z + b.z, v[t].w * factor * u[t].w + b.w);
        top = max(top, magnitude_bits(v[t]));
    }
    store_row<FORM, THREADS>(a, row, v, top);
}

// The norm's weights as norm_row() wants them.
template <int THREADS, int TURNS> __device__ inline void load_norm(const NormRows &a, float4 (&u)[TURNS]) {
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        int i = t * THREADS * 4 + threadIdx.x * 4;
        u[t] = i < a.n ? __ldg((const float4 *)(a.norm.weight + i)) : make_float4(0, 0, 0, 0);
    }
}

// Runs `call` with the THREADS and TURNS that rows of n <= NORM_QUANTIZE_MOST elements take.
#define WITH_NORM_TURNS(n, call)                                                                             \
    do {                                                                                                     \
        if ((n) <= 1024) {                                                                                   \
            constexpr int THREADS = 256, TURNS = 1;                                                          \
            call;                                                                                            \
        } else if ((n) <= 2048) {                                                                            \
            constexpr int THREADS = 256, TURNS = 2;                                                          \
            call;                                                                                            \
        } else if ((n) <= 4096) {                                                                            \
            constexpr int THREADS = 256, TURNS = 4;                                                          \
            call;                                                                                            \
        } else if ((n) <= 8192) {                                                                            \
            constexpr int THREADS = 256, TURNS = 8;                                                          \
            call;                                                                                            \
        } else {                                                                                             \
            constexpr int THREADS = 1024, TURNS = 8;                                                         \
            call;                                                                                            \
        }                                                                                                    \
    } while (0)

#endif
