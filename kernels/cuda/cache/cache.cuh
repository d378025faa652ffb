// The KV cache on the device: where an index lies, what a query sees, elements in and out in every type.
#ifndef PALAVER_KERNELS_CUDA_CACHE_CACHE_CUH
#define PALAVER_KERNELS_CUDA_CACHE_CACHE_CUH

#include "kernels/cuda/device/formats.cuh"
#include "kernels/kv_layout.h"
#include "kernels/ops.h"

// ---- tiles, pages ------------------------------------------------------------------------------------------

// Tokens of one sequence that attend together, and what they look at: see StepSequence.
struct AttendTile {
    int first_token, n_tokens;
    int first_page, n_slots; // its sequence's table begins at the step's page first_page
    int n_sinks, n_evicted;
    int in_order;              // StepSequence.in_order
    int first_split, n_splits; // of a tile of few tokens, split_slots indexes each: see attention/split.cuh
    int split_slots;
    int mask_column; // of index 0, where there is a mask
};

// A step's tables of pages, one after the other.
struct Pages {
    const int32_t *first; // slot of each page's first index
    uint32_t size;
    int shift; // log2 of size, -1 where size is no power of two. A sequence of one page: 31
};

// ---- indexes -----------------------------------------------------------------------------------------------

__device__ inline int32_t slot_of(const Pages &pages, int first_page, int index) {
    if (pages.shift >= 0)
        return __ldg(pages.first + first_page + (index >> pages.shift)) + (index & (int)(pages.size - 1));
    return __ldg(pages.first + first_page + index / (int)pages.size) + index % (int)pages.size;
}

// The position that an index holds; without slot_positions its own number.
__device__ inline int32_t position_at(const int32_t *slot_positions, int32_t slot, int index) {
    return slot_positions ? slot_positions[slot] : index;
}

// What a query sees: positions low … high, a position a at the distance high - a. Where tokens were
// evicted, the attention sinks are seen otherwise than the rest: see StepSequence.
struct Seen {
    int32_t low, high;
};

__device__ inline Seen seen_from(int32_t position, int window, int32_t n_sinks, int32_t n_evicted,
                                 bool is_sink) {
    Seen s = {0, position - (is_sink ? n_evicted : 0)};
    if (window > 0 && s.high >= window) s.low = s.high - window + 1;
    if (window < 0) s.low = s.high - s.high % -window; // chunks
    if (!is_sink && n_evicted > 0) s.low = max(s.low, n_sinks + n_evicted);
    return s;
}

// Indexes are gone through in units of `size`. Where tokens were evicted, units below `sinks` are seen as the
// attention sinks are, the others as the rest; one that holds both kinds comes twice, once for each.
struct Units {
    int size, sinks, twice, n; // twice: 0 or 1

    __device__ Units(int unit_size, int begin, int end, int n_sinks, int n_evicted) : size(unit_size) {
        int most = end - begin, prefix = n_evicted > 0 ? min(max(n_sinks - begin, 0), most) : 0;
        sinks = (prefix + size - 1) / size;
        twice = prefix % size != 0 && prefix < most;
        n = (most + size - 1) / size + twice;
    }
    // The first index of unit u, less `begin`.
    __device__ int first(int u) const { return (u - (u >= sinks ? twice : 0)) * size; }
    // Whether an index, not less `begin`, belongs to unit u, whose range holds it.
    __device__ bool counts(int u, int index, int n_sinks) const {
        return u < sinks ? index < n_sinks : sinks == 0 || index >= n_sinks;
    }
};

// ---- elements ----------------------------------------------------------------------------------------------

__host__ __device__ inline bool is_quantised(const KvLayer &kv) {
    return kv.type == DTYPE_INT8 || kv.type == DTYPE_INT4;
}

__device__ inline float scale_at(const KvLayer &kv, const void *scales, int64_t group) {
    return kv.scale_type == DTYPE_F16 ? __half2float(((const __half *)scales)[group])
                                      : ((const float *)scales)[group];
}

// Element i of a layer's keys or values.
__device__ inline float kv_at(const KvLayer &kv, bool is_key, int64_t i) {
    const void *values = is_key ? kv.k : kv.v;
    switch (kv.type) {
    case DTYPE_F16:
        return __half2float(((const __half *)values)[i]);
    case DTYPE_BF16:
        return __bfloat162float(((const __nv_bfloat16 *)values)[i]);
    case DTYPE_F32:
        return ((const float *)values)[i];
    default: {
        int q = ((const int8_t *)values)[kv.type == DTYPE_INT4 ? i / 2 : i];
        if (kv.type == DTYPE_INT4) q = i % 2 ? q >> 4 : (int8_t)(q << 4) >> 4;
        return (float)q * scale_at(kv, is_key ? kv.k_scale : kv.v_scale, i / kv.group);
    }
    }
}

// The same for a head of 32·N elements, in registers: lane l holds elements l + 32·n.
template <int N> __device__ inline void hadamard_in_registers(float *v) {
    int lane = threadIdx.x % 32;
    float x[N];
#pragma unroll
    for (int n = 0; n < N; n++) x[n] = v[lane + 32 * n];
#pragma unroll
    for (int half = 1; half < 32; half *= 2)
#pragma unroll
        for (int n = 0; n < N; n++) {
            float other = __shfl_xor_sync(~0u, x[n], half);
            x[n] = lane & half ? other - x[n] : x[n] + other;
        }
#pragma unroll
    for (int half = 1; half < N; half *= 2)
#pragma unroll
        for (int n = 0; n < N; n++)
            if (!(n & half)) {
                float a = x[n], b = x[n + half];
                x[n] = a + b;
                x[n + half] = a - b;
            }
    float scale = 1 / sqrtf(32.0f * N);
#pragma unroll
    for (int n = 0; n < N; n++) v[lane + 32 * n] = x[n] * scale;
}

// A warp turns v [dim], in shared memory, by the Hadamard matrix that KvLayer speaks of.
__device__ inline void warp_hadamard(float *v, int dim) {
    int lane = threadIdx.x % 32, size = dim & -dim;
    __syncwarp();
    if (dim == 128) {
        hadamard_in_registers<4>(v);
    } else if (dim == 64) {
        hadamard_in_registers<2>(v);
    } else {
        for (int half = 1; half < size; half *= 2) {
            __syncwarp();
            for (int p = lane; p < dim / 2; p += 32) {
                int i = p / half * 2 * half + p % half;
                float a = v[i], b = v[i + half];
                v[i] = a + b;
                v[i + half] = a - b;
            }
        }
        __syncwarp();
        float scale = 1 / sqrtf((float)size);
        for (int i = lane; i < dim; i += 32) v[i] *= scale;
    }
    __syncwarp();
}

#endif
