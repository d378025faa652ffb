// The KV cache on the device: where an index lies, what a query sees, elements in and out in every type.
#ifndef PALAVER_KERNELS_CUDA_CACHE_CUH
#define PALAVER_KERNELS_CUDA_CACHE_CUH

#include "kernels/cuda/cuda.cuh"

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

// What a query sees: positions low … high, a position a at the distance high - a. Where something is gone, the kept
// prefix is seen otherwise than the rest: see StepSequence.
struct Seen {
    int32_t low, high;
};

__device__ inline Seen seen_from(int32_t position, int window, int32_t n_keep, int32_t n_gone, bool kept) {
    Seen s = {0, position - (kept ? n_gone : 0)};
    if (window > 0 && s.high >= window) s.low = s.high - window + 1;
    if (!kept && n_gone > 0) s.low = max(s.low, n_keep + n_gone);
    return s;
}

// Indexes are gone through in units of `size`. Where something is gone, units below `kept` are seen as the kept prefix
// is, the others as the rest; one that holds both kinds comes twice, once for each.
struct Units {
    int size, kept, twice, n; // twice: 0 or 1

    __device__ Units(int unit_size, int begin, int end, int n_keep, int n_gone) : size(unit_size) {
        int most = end - begin, prefix = n_gone > 0 ? min(max(n_keep - begin, 0), most) : 0;
        kept = (prefix + size - 1) / size;
        twice = prefix % size != 0 && prefix < most;
        n = (most + size - 1) / size + twice;
    }
    // The first index of unit u, less `begin`.
    __device__ int first(int u) const { return (u - (u >= kept ? twice : 0)) * size; }
    // Whether an index, not less `begin`, belongs to unit u, whose range holds it.
    __device__ bool counts(int u, int index, int n_keep) const {
        return u < kept ? index < n_keep : kept == 0 || index >= n_keep;
    }
};

// ---- elements ----------------------------------------------------------------------------------------------

__device__ inline bool is_quantised(const KvLayer &kv) {
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

// A warp turns v [dim], in shared memory, by the Hadamard matrix that KvLayer speaks of.
__device__ inline void warp_hadamard(float *v, int dim) {
    int lane = threadIdx.x % 32, size = dim & -dim;
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
    __syncwarp();
}

// The integer that is nearest to x; 0 where the scale is no number.
__device__ inline int quantised(const KvLayer &kv, float x, float scale) {
    int most = kv.type == DTYPE_INT4 ? 7 : 127, q = scale > 0 ? __float2int_rn(__fdiv_rn(x, scale)) : 0;
    return max(-most, min(most, q));
}

// A lane stores the scale of one group, x [group], and returns it as stored.
__device__ inline float store_scale(const KvLayer &kv, void *scales, int64_t at, const float *x) {
    float largest = 0;
    bool finite = true;
    for (int i = 0; i < kv.group; i++) {
        finite = finite && isfinite(x[i]);
        largest = fmaxf(largest, fabsf(x[i]));
    }
    float most = kv.type == DTYPE_INT4 ? 7 : 127,
          scale = finite ? fmaxf(__fdiv_rn(largest, most), 1e-5f) : NAN;
    if (kv.scale_type == DTYPE_F16)
        ((__half *)scales)[at] = __float2half_rn(scale);
    else
        ((float *)scales)[at] = scale;
    return scale_at(kv, scales, at);
}

// A warp stores v [dim], in shared memory, at element `at` of the layer's keys or values, in groups: a lane a group.
__device__ inline void store_groups(const KvLayer &kv, bool is_key, int64_t at, const float *v, int dim) {
    bool nibbles = kv.type == DTYPE_INT4;
    uint8_t *bytes = (uint8_t *)(is_key ? kv.k : kv.v) + (nibbles ? at / 2 : at);
    void *scales = is_key ? kv.k_scale : kv.v_scale;
    for (int g = threadIdx.x % 32; g < dim / kv.group; g += 32) {
        float scale = store_scale(kv, scales, at / kv.group + g, v + g * kv.group);
        int low = 0;
        for (int element = g * kv.group; element < (g + 1) * kv.group; element++) {
            int q = quantised(kv, v[element], scale);
            if (!nibbles)
                bytes[element] = (uint8_t)q;
            else if (element % 2 == 0)
                low = q & 15;
            else
                bytes[element / 2] = (uint8_t)(low | (q & 15) << 4);
        }
    }
}

// A warp rounds one block of a turned key, v [2·half] in shared memory, whose scales begin at `scale`, with feedback
// [half, half]; v becomes the integers. Lane l holds the elements l % 16 + 16·n of row l / 16.
template <int N>
__device__ inline void round_block(const KvLayer &kv, const float *feedback, int half, int64_t at, float *v) {
    int lane = threadIdx.x % 32, own = lane % 16, step = kv.key_pairs == ROPE_INTERLEAVED ? 2 : 1;
    int row = lane < 16 ? 0 : step == 2 ? 1 : half;
    float x[N], scale[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
        int i = min(own + 16 * n, half - 1);
        x[n] = v[row + i * step];
        scale[n] = scale_at(kv, kv.k_scale, (at + row + i * step) / kv.group);
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll 4
        for (int l = 0; l < min(16, half); l++) {
            int i = 16 * n + l, owner = lane & 16 | l;
            float t = __shfl_sync(~0u, x[n], owner), s = __shfl_sync(~0u, scale[n], owner);
            int q = quantised(kv, t, s);
            float error = s > 0 ? t - s * (float)q : 0;
            if (own == l) v[row + i * step] = (float)q;
#pragma unroll
            for (int m = n; m < N; m++) {
                int j = own + 16 * m;
                if (j > i && j < half) x[m] += __ldg(feedback + i * half + j) * error;
            }
        }
}

// A warp stores a turned key v [dim] of a layer with key_feedback, and changes it.
__device__ inline void store_fed_back(const KvLayer &kv, int kv_head, int64_t at, float *v, int dim) {
    int lane = threadIdx.x % 32, size = dim & -dim, half = size / 2;
    const float *feedback = kv.key_feedback + (int64_t)kv_head * dim * half / 2;
    for (int g = lane; g < dim / kv.group; g += 32)
        store_scale(kv, kv.k_scale, at / kv.group + g, v + g * kv.group);
    __syncwarp();
    for (int block = 0; block < dim; block += size, feedback += half * half) {
        if (half <= 16)
            round_block<1>(kv, feedback, half, at + block, v + block);
        else if (half == 32)
            round_block<2>(kv, feedback, half, at + block, v + block);
        else if (half == 64)
            round_block<4>(kv, feedback, half, at + block, v + block);
        else
            round_block<8>(kv, feedback, half, at + block, v + block);
    }
    __syncwarp();
    if (kv.type == DTYPE_INT8)
        for (int i = lane; i < dim; i += 32) ((int8_t *)kv.k)[at + i] = (int8_t)v[i];
    else
        for (int i = lane; i < dim / 2; i += 32)
            ((uint8_t *)kv.k)[at / 2 + i] = (uint8_t)(((int)v[2 * i] & 15) | ((int)v[2 * i + 1] & 15) << 4);
}

// A warp stores v [dim], in shared memory, as one head's key or value of a slot; v may be changed.
__device__ inline void store_row(const KvLayer &kv, bool is_key, int64_t slot, int kv_head, float *v,
                                 int dim) {
    int64_t at = slot * kv.slot_stride + kv_head * kv.head_stride;
    void *values = is_key ? kv.k : kv.v;
    if (is_key && kv.key_balance)
        for (int i = threadIdx.x % 32; i < dim; i += 32)
            v[i] = __fdiv_rn(v[i], kv.key_balance[kv_head * dim + i]);
    if (is_key && kv.rotate_keys) warp_hadamard(v, dim);
    if (is_key && kv.key_feedback) return store_fed_back(kv, kv_head, at, v, dim);
    if (is_quantised(kv)) return store_groups(kv, is_key, at, v, dim);
    for (int i = threadIdx.x % 32; i < dim; i += 32) {
        if (kv.type == DTYPE_F16)
            ((__half *)values)[at + i] = __float2half_rn(v[i]);
        else if (kv.type == DTYPE_BF16)
            ((__nv_bfloat16 *)values)[at + i] = __float2bfloat16_rn(v[i]);
        else
            ((float *)values)[at + i] = v[i];
    }
}

#endif
