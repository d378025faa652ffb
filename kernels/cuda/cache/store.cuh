// How keys and values get into the KV cache: rounding, with and without feedback, and storing.
#ifndef PALAVER_KERNELS_CUDA_CACHE_STORE_CUH
#define PALAVER_KERNELS_CUDA_CACHE_STORE_CUH

#include "kernels/cuda/cache/cache.cuh"

// ---- rounding ----------------------------------------------------------------------------------------------

__device__ inline float most_of(const KvLayer &kv) {
    return kv.type == DTYPE_INT4 ? 7 : 127;
}

// log2 of the group, -1 if it is no power of two.
__device__ inline int group_shift(const KvLayer &kv) {
    return kv.group & (kv.group - 1) ? -1 : __ffs(kv.group) - 1;
}

// Enters the scale of a group whose largest element has the bits `top`, NaN and infinity being largest; returns it as
// stored.
__device__ inline float enter_scale(const KvLayer &kv, void *scales, int64_t at, uint32_t top) {
    float scale =
        top < 0x7f800000 ? fmaxf(__fdiv_rn(__uint_as_float(top), most_of(kv)), 1e-5f) : __uint_as_float(~0u);
    if (kv.scale_type == DTYPE_F16) {
        __half half = __float2half_rn(scale);
        ((__half *)scales)[at] = half;
        return __half2float(half);
    }
    ((float *)scales)[at] = scale;
    return scale;
}

// The group of a head's element i; shift: group_shift().
__device__ inline int group_of(const KvLayer &kv, int shift, int i) {
    return shift >= 0 ? i >> shift : i / kv.group;
}

// A warp enters the scales of v [dim], in shared memory, from `at` on, and leaves them in own [dim / group], as stored.
__device__ inline void enter_scales(const KvLayer &kv, void *scales, int64_t at, const float *v, float *own,
                                    int dim) {
    int lane = threadIdx.x % 32, shift = group_shift(kv);
    auto larger = [](uint32_t top, float x) { return max(top, __float_as_uint(fabsf(x))); };
    if (shift >= 2 && kv.group <= 128) { // four elements a lane
        for (int first = 0; first < dim; first += 128) {
            int i = first + lane * 4;
            uint32_t top = 0;
            if (i < dim) {
                float4 x = *(const float4 *)(v + i);
                top = larger(larger(larger(larger(0, x.x), x.y), x.z), x.w);
            }
            for (int o = 1; o < kv.group / 4; o *= 2) top = max(top, __shfl_xor_sync(~0u, top, o));
            if (i < dim && (i & (kv.group - 1)) == 0)
                own[i >> shift] = enter_scale(kv, scales, at + (i >> shift), top);
        }
    } else {
        for (int g = lane; g < dim / kv.group; g += 32) {
            uint32_t top = 0;
            for (int i = g * kv.group; i < (g + 1) * kv.group; i++) top = larger(top, v[i]);
            own[g] = enter_scale(kv, scales, at + g, top);
        }
    }
    __syncwarp();
}

// The integer that is nearest to x; 0 where the scale is no number.
__device__ inline float rounded(float x, float scale, float most) {
    float q = scale > 0 ? rintf(__fdiv_rn(x, scale)) : 0;
    return fmaxf(-most, fminf(most, q));
}

// v [dim] becomes integers, each rounded by itself.
__device__ inline void round_elements(const KvLayer &kv, const float *scales, float *v, int dim) {
    int shift = group_shift(kv);
    for (int i = threadIdx.x % 32; i < dim; i += 32)
        v[i] = rounded(v[i], scales[group_of(kv, shift, i)], most_of(kv));
    __syncwarp();
}

// Lanes that share a row of `half` elements, which becomes integers, round one element after the other: half/(4·QUADS)
// neighbouring lanes, of which lane `own` has x[m][0 … 3], elements 4·(own + lanes·m) … of the row, and their scale.
// rows(i): rows i … i + 3 of the feedback, of `half` elements each; called by all lanes of the warp, in order.
template <int QUADS, class Rows>
__device__ inline void feed_back(Rows rows, int half, float most, float (&x)[QUADS][4],
                                 const float (&scale)[QUADS]) {
    constexpr float ROUND = 12582912; // 1.5·2^23: what is added to it has no digits behind the point
    int lanes = half / (4 * QUADS), own = threadIdx.x % 32 & (lanes - 1);
    float inverse[QUADS], integers[QUADS][4];
#pragma unroll
    for (int m = 0; m < QUADS; m++) {
        inverse[m] = scale[m] > 0 ? __frcp_rn(scale[m]) : 0;
#pragma unroll
        for (int e = 0; e < 4; e++) x[m][e] = scale[m] > 0 ? x[m][e] : 0, integers[m][e] = 0;
    }
#pragma unroll
    for (int n = 0; n < QUADS; n++)
#pragma unroll 1
        for (int owner = 0; owner < lanes; owner++) {
            int quad = (n * lanes + owner) * 4;
            const float *f = rows(quad);
            float t[4], q[4], s = __shfl_sync(~0u, scale[n], owner, lanes),
                              inverted = __shfl_sync(~0u, inverse[n], owner, lanes);
#pragma unroll
            for (int e = 0; e < 4; e++) t[e] = __shfl_sync(~0u, x[n][e], owner, lanes);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float *row = f + e * half;
                q[e] = fmaxf(-most, fminf(most, fmaf(t[e], inverted, ROUND) - ROUND));
                float error = inverted > 0 ? fmaf(-s, q[e], t[e]) : 0;
                float4 next = *(const float4 *)(row + quad);
                t[1] = fmaf(next.y, error, t[1]); // those that are rounded already are not looked at again
                t[2] = fmaf(next.z, error, t[2]);
                t[3] = fmaf(next.w, error, t[3]);
#pragma unroll
                for (int m = n; m < QUADS; m++) {
                    float4 y = *(const float4 *)(row + (m * lanes + own) * 4);
                    x[m][0] = fmaf(y.x, error, x[m][0]), x[m][1] = fmaf(y.y, error, x[m][1]);
                    x[m][2] = fmaf(y.z, error, x[m][2]), x[m][3] = fmaf(y.w, error, x[m][3]);
                }
            }
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (own == owner) integers[n][e] = q[e];
        }
#pragma unroll
    for (int m = 0; m < QUADS; m++)
#pragma unroll
        for (int e = 0; e < 4; e++) x[m][e] = integers[m][e];
}

// Floats of a KV head's feedback.
__host__ __device__ inline int feedback_floats(int dim) {
    return dim * (dim & -dim) / 4;
}

// Whether feed_back() can be had: four elements that follow each other in a row have the same scale.
__host__ __device__ inline bool feeds_back_in_quads(const KvLayer &kv, int dim) {
    return dim % 8 == 0 && kv.group % 8 == 0;
}

// Turned keys of one head in shared memory: v [n][dim] and their scales, both `stride` apart.
struct TurnedKeys {
    float *v;
    const float *scales;
    int stride, n, dim;
};

// A warp rounds turned keys with feedback, as many rows at a time as there are lanes for; a row has at least 4·QUADS
// elements. rows(block, i): as feed_back()'s, of this lane's block.
template <int QUADS, class Rows>
__device__ inline void round_fed_back(const KvLayer &kv, Rows rows, const TurnedKeys &keys) {
    float *v = keys.v;
    const float *scales = keys.scales;
    const int stride = keys.stride, n_keys = keys.n, dim = keys.dim;
    int size = dim & -dim, half = size / 2, lanes = half / (4 * QUADS), lane = threadIdx.x % 32,
        own = lane & (lanes - 1);
    int step = kv.key_pairs == ROPE_INTERLEAVED ? 2 : 1, second = step == 2 ? 1 : half;
    int of_key = dim / half, n_rows = n_keys * of_key, shift = group_shift(kv);
    for (int first = 0; first < n_rows; first += 32 / lanes) {
        int r = first + lane / lanes, mine = min(r, n_rows - 1), key = mine / of_key,
            block = mine % of_key / 2;
        int begin = block * size + (mine % 2 ? second : 0);
        float x[QUADS][4], scale[QUADS];
#pragma unroll
        for (int m = 0; m < QUADS; m++) {
            int at = begin + (own + lanes * m) * 4 * step;
            const float *from = v + key * stride + at;
            scale[m] = scales[key * stride + group_of(kv, shift, at)];
            if (step == 1) {
                float4 four = *(const float4 *)from;
                x[m][0] = four.x, x[m][1] = four.y, x[m][2] = four.z, x[m][3] = four.w;
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++) x[m][e] = from[e * 2];
            }
        }
        feed_back<QUADS>([&](int i) { return rows(block, i); }, half, most_of(kv), x, scale);
        __syncwarp();
#pragma unroll
        for (int m = 0; m < QUADS; m++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (r < n_rows) v[key * stride + begin + ((own + lanes * m) * 4 + e) * step] = x[m][e];
    }
    __syncwarp();
}

// The same for any group and size, a lane a row.
__device__ inline void round_fed_back_slowly(const KvLayer &kv, const float *feedback, float *v,
                                             const float *scales, int dim) {
    int size = dim & -dim, half = size / 2, step = kv.key_pairs == ROPE_INTERLEAVED ? 2 : 1;
    for (int r = threadIdx.x % 32; r < dim / half; r += 32) {
        int begin = r / 2 * size + (r % 2 ? step == 2 ? 1 : half : 0);
        const float *f = feedback + r / 2 * half * half;
        for (int i = 0; i < half; i++) {
            int at = begin + i * step;
            float t = v[at], scale = scales[at / kv.group], q = rounded(t, scale, most_of(kv));
            float error = scale > 0 ? t - scale * q : 0;
            v[at] = q;
            for (int j = i + 1; j < half; j++) v[begin + j * step] += f[i * half + j] * error;
        }
    }
    __syncwarp();
}

// ---- storing -----------------------------------------------------------------------------------------------

__device__ inline int64_t element_of(const KvLayer &kv, int64_t slot, int kv_head) {
    return slot * kv.slot_stride + kv_head * kv.head_stride;
}

// at / group, where `at` is a multiple of it.
__device__ inline int64_t group_at(const KvLayer &kv, int64_t at) {
    int shift = group_shift(kv);
    return shift >= 0 ? at >> shift : at / kv.group;
}

// A warp stores the integers v [dim], in shared memory, from element `at` on.
__device__ inline void store_integers(const KvLayer &kv, bool is_key, int64_t at, const float *v, int dim) {
    uint8_t *bytes = (uint8_t *)(is_key ? kv.k : kv.v) + (kv.type == DTYPE_INT4 ? at / 2 : at);
    if (kv.type == DTYPE_INT8)
        for (int i = threadIdx.x % 32; i < dim; i += 32) bytes[i] = (uint8_t)(int)v[i];
    else
        for (int i = threadIdx.x % 32; i < dim / 2; i += 32) {
            float2 pair = *(const float2 *)(v + 2 * i);
            bytes[i] = (uint8_t)(((int)pair.x & 15) | ((int)pair.y & 15) << 4);
        }
    __syncwarp();
}

// A KV head's balance; NULL: none.
__device__ inline const float *balance_of(const KvLayer &kv, int kv_head, int dim) {
    return kv.key_balance ? kv.key_balance + kv_head * dim : NULL;
}

// A warp puts a key v [dim], in shared memory, into the form in which it is rounded. balance: its head's.
__device__ inline void turn_key(const KvLayer &kv, const float *balance, float *v, int dim) {
    if (balance)
        for (int i = threadIdx.x % 32; i < dim; i += 32) v[i] = __fdiv_rn(v[i], balance[i]);
    if (kv.rotate_keys) warp_hadamard(v, dim);
}

// Floats of shared memory that store_row() and what it is made of want for a head: v [dim], then scales.
__host__ __device__ inline int row_floats(int dim) {
    return dim + (dim / 2 + 3) / 4 * 4;
}

// One head's key or value of a slot.
struct CacheRow {
    bool is_key;
    int64_t slot;
    int kv_head;
};

// A warp stores v [dim], in shared memory, as a row of the cache. v is changed; behind it there is room: row_floats().
// feedback: the KV head's, NULL: none.
__device__ inline void store_row(const KvLayer &kv, const CacheRow &row, const float *feedback, float *v,
                                 int dim) {
    const bool is_key = row.is_key;
    const int kv_head = row.kv_head;
    int64_t at = element_of(kv, row.slot, kv_head);
    void *values = is_key ? kv.k : kv.v;
    if (is_key) turn_key(kv, balance_of(kv, kv_head, dim), v, dim);
    if (is_quantised(kv)) {
        enter_scales(kv, is_key ? kv.k_scale : kv.v_scale, group_at(kv, at), v, v + dim, dim);
        int half = (dim & -dim) / 2;
        if (!is_key || !feedback)
            round_elements(kv, v + dim, v, dim);
        else if (feeds_back_in_quads(kv, dim))
            round_fed_back<1>(
                kv, [&](int block, int i) { return feedback + (block * half + i) * half; },
                TurnedKeys{v, v + dim, 0, 1, dim});
        else
            round_fed_back_slowly(kv, feedback, v, v + dim, dim);
        return store_integers(kv, is_key, at, v, dim);
    }
    for (int i = threadIdx.x % 32; i < dim; i += 32) {
        if (kv.type == DTYPE_F16)
            ((__half *)values)[at + i] = __float2half_rn(v[i]);
        else if (kv.type == DTYPE_BF16)
            ((__nv_bfloat16 *)values)[at + i] = __float2bfloat16_rn(v[i]);
        else
            ((float *)values)[at + i] = v[i];
    }
}

// A KV head's feedback in backend memory; NULL: there is none.
__device__ inline const float *feedback_of(const KvLayer &kv, int kv_head, int dim) {
    return kv.key_feedback ? kv.key_feedback + (int64_t)kv_head * feedback_floats(dim) : NULL;
}

#endif
