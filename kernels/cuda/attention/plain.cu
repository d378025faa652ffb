// attend in float32, for whatever the kernels on tensor cores have no code for.
#include "kernels/cuda/attention/attend.cuh"

enum { PLAIN_WARPS = 8 };

// One query of one head, as a warp goes through its indexes; vectors [dim] in shared memory.
struct PlainRow {
    int token, head;
    float *q, *sinks, *sums;
    float largest, weight;
};

__device__ inline float mask_at(const AttendMask &mask, int64_t at) {
    if (mask.type == DTYPE_F32) return ((const float *)mask.values)[at];
    return mask.type == DTYPE_F16 ? __half2float(((const __half *)mask.values)[at])
                                  : __bfloat162float(((const __nv_bfloat16 *)mask.values)[at]);
}

// Whether rows are of 16 bits and can be read 16 bytes at a time.
__device__ inline bool in_octets(const KvLayer &kv, int dim) {
    return (kv.type == DTYPE_F16 || kv.type == DTYPE_BF16) && dim % 8 == 0 && kv.slot_stride % 8 == 0 &&
           kv.head_stride % 8 == 0 && ((uintptr_t)kv.k | (uintptr_t)kv.v) % 16 == 0;
}

template <class T> struct alignas(16) Octet { T v[8]; };

template <class T> __device__ inline float dot_octets(const float *q, const T *row, int dim) {
    float sums[4] = {};
    for (int d = 0; d < dim; d += 8) {
        const Octet<T> k = *(const Octet<T> *)(row + d);
#pragma unroll
        for (int i = 0; i < 8; i++) sums[i % 4] = fmaf(q[d + i], to_float(k.v[i]), sums[i % 4]);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

__device__ inline float dot_key(const KvLayer &kv, bool octets, const float *q, int64_t start, int dim) {
    if (octets && kv.type == DTYPE_F16) return dot_octets(q, (const __half *)kv.k + start, dim);
    if (octets) return dot_octets(q, (const __nv_bfloat16 *)kv.k + start, dim);
    float dot = 0;
    for (int d = 0; d < dim; d++) dot += q[d] * kv_at(kv, true, start + d);
    return dot;
}

// sums += w · value, by a warp: two elements a lane and turn.
template <class T> __device__ inline void add_pairs(float w, const T *row, int dim, float *sums) {
    struct alignas(4) Two {
        T v[2];
    };
    for (int d = threadIdx.x % 32 * 2; d < dim; d += 64) {
        const Two value = *(const Two *)(row + d);
        sums[d] = fmaf(w, to_float(value.v[0]), sums[d]);
        sums[d + 1] = fmaf(w, to_float(value.v[1]), sums[d + 1]);
    }
}

__device__ inline void add_value(const KvLayer &kv, bool octets, float w, int64_t start, int dim,
                                 float *sums) {
    if (octets && kv.type == DTYPE_F16) return add_pairs(w, (const __half *)kv.v + start, dim, sums);
    if (octets) return add_pairs(w, (const __nv_bfloat16 *)kv.v + start, dim, sums);
    for (int d = threadIdx.x % 32; d < dim; d += 32) sums[d] += w * kv_at(kv, false, start + d);
}

// Indexes first, first + step, …, 32 of them at a time: a lane an index for the scores, a lane an element for the
// values.
__device__ inline void plain_stream(const AttendArguments &a, const AttendTile &tile, int first, int step,
                                    PlainRow &r) {
    const int token = r.token, head = r.head;
    int lane = threadIdx.x % 32, kv_head = head / (a.n_heads / a.n_kv_heads), dim = a.head_dim;
    Seen recent = seen_from(a.positions[token], a.window, tile.n_sinks, tile.n_evicted, false);
    Seen prefix = seen_from(a.positions[token], a.window, tile.n_sinks, tile.n_evicted, true);
    const bool octets = in_octets(a.kv, dim);
    float slope = a.alibi != 0 ? a.alibi * alibi_slope(head, a.n_heads) : 0;
    for (int begin = first; begin < tile.n_slots; begin += step) {
        int index = begin + lane;
        bool is_sink = tile.n_evicted > 0 && index < tile.n_sinks, there = index < tile.n_slots;
        int32_t slot = there ? slot_of(a.pages, tile.first_page, index) : 0;
        int32_t position = there ? position_at(a.slot_positions, slot, index) : -1;
        const Seen &seen = is_sink ? prefix : recent;
        float score = -INFINITY;
        int64_t start = slot * a.kv.slot_stride + kv_head * a.kv.head_stride;
        if (there && visible(position, seen)) {
            score = dot_key(a.kv, octets, is_sink ? r.sinks : r.q, start, dim) * a.scale;
            if (a.cap > 0) score = a.cap * tanhf(score / a.cap);
            score -= slope * (float)(seen.high - position);
            if (a.mask.values)
                score += mask_at(a.mask, token * a.mask.row + head * a.mask.head + tile.mask_column + index);
        }
        float top = score;
        for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
        top = fmaxf(top, r.largest);
        if (top == -INFINITY) continue;
        float shrink = expf(r.largest - top), weight = expf(score - top), sum = weight;
        r.largest = top;
        for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
        r.weight = r.weight * shrink + sum;
        for (int d = lane; d < dim; d += 32) r.sums[d] *= shrink;
        __syncwarp(); // the same elements are other lanes' below
        for (int s = 0; s < 32; s++) {
            float w = __shfl_sync(~0u, weight, s);
            int64_t at = __shfl_sync(~0u, start, s);
            if (w != 0) add_value(a.kv, octets, w, at, dim, r.sums);
        }
        __syncwarp();
    }
}

// Many tokens: each warp takes every eighth. Few: all warps share a token's indexes, and put together what they have;
// unless how many they are is not to show.
// Grid: [tiles, heads], block: 256, shared memory: 8 · 3·head_dim floats.
template <class T>
__global__ void __launch_bounds__(PLAIN_WARPS * 32)
    plain_kernel(const __grid_constant__ AttendArguments a, bool always_alone, const T *q, const T *q_sinks,
                 T *y) {
    extern __shared__ float shared[];
    __shared__ float largest[PLAIN_WARPS], weights[PLAIN_WARPS];
    AttendTile tile = a.tiles[blockIdx.x];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.y, dim = a.head_dim;
    bool alone = always_alone || tile.n_tokens >= PLAIN_WARPS;
    float *mine = shared + warp * 3 * dim;
    for (int t = alone ? warp : 0; t < tile.n_tokens; t += alone ? PLAIN_WARPS : 1) {
        int token = tile.first_token + t;
        int64_t row = ((int64_t)token * a.n_heads + head) * dim;
        PlainRow r = {token, head, mine, mine + dim, mine + 2 * dim, -INFINITY, 0};
        for (int d = lane; d < dim; d += 32) {
            r.q[d] = to_float(q[row + d]);
            r.sinks[d] = to_float(q_sinks[row + d]);
            r.sums[d] = 0;
        }
        if (alone)
            __syncwarp();
        else
            __syncthreads(); // all have read q, which may be y
        plain_stream(a, tile, alone ? 0 : warp * 32, alone ? 32 : PLAIN_WARPS * 32, r);
        __syncwarp();
        if (alone) {
            const float weight = sum_with_sink(a, head, r.largest * LOG2_E, r.weight);
            for (int d = lane; d < dim; d += 32)
                y[row + d] = from_float<T>(weight == 0 ? 0 : r.sums[d] / weight);
            __syncwarp();
            continue;
        }
        if (lane == 0) largest[warp] = r.largest, weights[warp] = r.weight;
        __syncthreads();
        float top = -INFINITY, weight = 0;
        for (int w = 0; w < PLAIN_WARPS; w++) top = fmaxf(top, largest[w]);
        for (int w = 0; w < PLAIN_WARPS; w++)
            if (weights[w] != 0) weight += weights[w] * expf(largest[w] - top);
        weight = sum_with_sink(a, head, top * LOG2_E, weight);
        for (int d = threadIdx.x; d < dim; d += blockDim.x) {
            float sum = 0;
            for (int w = 0; w < PLAIN_WARPS; w++)
                if (weights[w] != 0) sum += shared[(w * 3 + 2) * dim + d] * expf(largest[w] - top);
            y[row + d] = from_float<T>(weight == 0 ? 0 : sum / weight);
        }
        __syncthreads();
    }
}

template <class T> static cudaError_t launch(const CudaBackend *cuda, const AttendLaunch *l) {
    size_t shared = PLAIN_WARPS * 3 * (size_t)l->a.head_dim * sizeof(float);
    cudaError_t code =
        cudaFuncSetAttribute(plain_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess) return code;
    plain_kernel<T><<<dim3(l->n_tiles, l->a.n_heads), PLAIN_WARPS * 32, shared, cuda->device.stream>>>(
        l->a, cuda->step.kind == STEP_READING, (const T *)l->queries.recent, (const T *)l->queries.sinks,
        (T *)l->y);
    return cudaGetLastError();
}

cudaError_t attend_plain(const CudaBackend *cuda, const AttendLaunch *l) {
    cudaError_t code;
    WITH_TYPE(l->type, code = launch<T>(cuda, l));
    return code;
}
