// Routers: which experts a token takes, and the order of pairs of tokens and experts.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/dispatch.h"

enum {
    ROUTE_WARPS = 8,
    ROUTE_AHEAD = 8, // pieces of 128 columns of a router's row that a warp asks for before x is there
    SORT_THREADS = 1024,
};

struct RouteArguments {
    const float *x;
    Norm norm;
    bool layer_norm;
    float eps;
    int hidden;
    const float *router; // [n_logits, hidden]; behind those of the experts perhaps the shared one's
    int n_logits;
    const float *bias, *choice_bias;
    Experts e;
    CudaRoutes to;
    void *normed; // [n, hidden]
};

// Floats as integers that compare alike, from 1 on: 0 is less than all.
__device__ inline uint32_t ordered(float v) {
    uint32_t bits = __float_as_uint(v);
    return max(bits & 0x80000000u ? ~bits : bits | 0x80000000u, 1u);
}

// The lowest place of the largest of keys [n], by a warp.
__device__ inline int largest_key(const uint32_t *keys, int n) {
    uint32_t most = 0;
    int place = n;
    for (int i = threadIdx.x % 32; i < n; i += 32)
        if (keys[i] > most) most = keys[i], place = i;
    uint32_t best = __reduce_max_sync(~0u, most);
    return (int)__reduce_min_sync(~0u, best == most && best ? (unsigned)place : (unsigned)n - 1);
}

// Only the experts of the best groups stay.
__device__ inline void choose_groups(const Experts &e, uint32_t *keys, const float *choice, float *sums) {
    const int lane = threadIdx.x % 32, size = e.n / e.n_groups;
    for (int g = lane; g < e.n_groups; g += 32) {
        float first = -INFINITY, second = -INFINITY;
        for (int i = g * size; i < (g + 1) * size; i++) {
            float v = choice[i];
            if (v > first)
                second = first, first = v;
            else
                second = fmaxf(second, v);
        }
        sums[g] = first + (size > 1 ? second : 0);
    }
    __syncwarp();
    for (int g = lane; g < e.n_groups; g += 32) {
        int before = 0; // groups that are better
        for (int o = 0; o < e.n_groups; o++) before += sums[o] > sums[g] || (sums[o] == sums[g] && o < g);
        if (before >= e.n_active_groups)
            for (int i = g * size; i < (g + 1) * size; i++) keys[i] = 0;
    }
    __syncwarp();
}

// Ids and weights of a token, by one warp, from its logits. scores, choice and keys: [e.n] in shared memory, of which
// choice is what groups add up in once it is in keys.
__device__ inline void choose(const RouteArguments &a, int token, float *scores, float *choice,
                              uint32_t *keys) {
    const Experts &e = a.e;
    const int lane = threadIdx.x % 32;
    const float *logits = a.to.logits + (int64_t)token * a.n_logits;
    uint32_t most = 0;
    for (int i = lane; i < e.n; i += 32) {
        float v = __ldcg(logits + i) + (a.bias ? a.bias[i] : 0);
        scores[i] = v;
        most = max(most, ordered(v));
    }
    most = __reduce_max_sync(~0u, most);
    const float top = __uint_as_float(most & 0x80000000u ? most & 0x7fffffffu : ~most);
    float sum = 0;
    for (int i = lane; i < e.n; i += 32) {
        scores[i] = e.score == ROUTER_SOFTMAX ? expf(scores[i] - top) : 1 / (1 + expf(-scores[i]));
        sum += scores[i];
    }
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    for (int i = lane; i < e.n; i += 32) {
        if (e.score == ROUTER_SOFTMAX) scores[i] /= sum;
        choice[i] = scores[i] + (a.choice_bias ? a.choice_bias[i] : 0);
        keys[i] = ordered(choice[i]);
    }
    __syncwarp();
    if (e.n_groups > 1)
        choose_groups(e, keys, choice, (float *)a.to.group_sums + (int64_t)token * e.n_groups);
    float mine = 0, total = 0;
    int id = 0;
    for (int j = 0; j < e.n_active; j++) {
        int best = largest_key(keys, e.n);
        if (lane == 0) keys[best] = 0;
        if (lane == j) id = best, mine = scores[best];
        total += scores[best];
        __syncwarp();
    }
    if (lane < e.n_active) {
        int64_t at = (int64_t)token * e.n_active + lane;
        a.to.ids[at] = id;
        a.to.weights[at] = mine * (e.renormalise ? e.scale / total : e.scale);
    }
    if (lane == 0 && a.n_logits > e.n) a.to.shared[token] = 1 / (1 + expf(-__ldcg(logits + e.n)));
}

// A warp a row of the router; the block of a token that is ready last chooses. Grid: [n_logits / 8, n]. Dynamic shared
// memory: hidden floats, and three times e.n.
template <class T>
__global__ void __launch_bounds__(ROUTE_WARPS * 32) route_kernel(const __grid_constant__ RouteArguments a) {
    extern __shared__ __align__(16) float h[];
    __shared__ float sums[ROUTE_WARPS];
    __shared__ bool last;
    const int lane = threadIdx.x % 32, expert = blockIdx.x * ROUTE_WARPS + threadIdx.x / 32,
              token = blockIdx.y, n = a.hidden;
    const float *row = a.router + (int64_t)min(expert, a.n_logits - 1) * n;
    float4 ahead[ROUTE_AHEAD];
#pragma unroll
    for (int k = 0; k < ROUTE_AHEAD; k++) {
        int i = k * 128 + lane * 4;
        ahead[k] = i < n ? __ldg((const float4 *)(row + i)) : make_float4(0, 0, 0, 0);
    }
    let_next_begin();
    kernels_before();
    const float *x = a.x + (int64_t)token * n;
    float sum = 0, square = 0, mean = 0;
    for (int i = threadIdx.x * 4; i < n; i += ROUTE_WARPS * 128) {
        float4 v = *(const float4 *)(x + i);
        *(float4 *)(h + i) = v;
        sum += (v.x + v.y) + (v.z + v.w);
    }
    if (a.layer_norm) mean = block_sum<ROUTE_WARPS * 32>(sum, sums) / n;
    for (int i = threadIdx.x * 4; i < n; i += ROUTE_WARPS * 128) { // its own
        float4 v = *(const float4 *)(h + i);
        v = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
        square += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    }
    const float scale = rsqrtf(block_sum<ROUTE_WARPS * 32>(square, sums) / n + a.eps);
    for (int i = threadIdx.x; i < n; i += ROUTE_WARPS * 32) {
        float v = (h[i] - mean) * scale * a.norm.weight[i] + (a.norm.bias ? a.norm.bias[i] : 0);
        h[i] = v;
        if (blockIdx.x == 0) ((T *)a.normed)[(int64_t)token * n + i] = from_float<T>(v);
    }
    __syncthreads();
    float dot = 0;
#pragma unroll
    for (int k = 0; k < ROUTE_AHEAD; k++) {
        int i = k * 128 + lane * 4;
        if (i >= n) break;
        float4 v = *(const float4 *)(h + i);
        dot += (v.x * ahead[k].x + v.y * ahead[k].y) + (v.z * ahead[k].z + v.w * ahead[k].w);
    }
    for (int i = ROUTE_AHEAD * 128 + lane * 4; i < n; i += 128) {
        float4 v = *(const float4 *)(h + i), w = __ldg((const float4 *)(row + i));
        dot += (v.x * w.x + v.y * w.y) + (v.z * w.z + v.w * w.w);
    }
    for (int o = 16; o; o /= 2) dot += __shfl_xor_sync(~0u, dot, o);
    if (lane == 0 && expert < a.n_logits) __stcg(a.to.logits + (int64_t)token * a.n_logits + expert, dot);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(a.to.arrived + token, 1u) == gridDim.x - 1;
        if (last) a.to.arrived[token] = 0; // for the next launch
    }
    __syncthreads();
    if (!last || threadIdx.x >= 32) return;
    __threadfence();
    float *scores = h + n;
    choose(a, token, scores, scores + a.e.n, (uint32_t *)(scores + 2 * a.e.n));
}

template <class T> static cudaError_t launch_route(const CudaBackend *cuda, const RouteArguments &a, int n) {
    size_t shared = ((size_t)a.hidden + 3 * (size_t)a.e.n) * sizeof(float);
    cudaError_t code =
        cudaFuncSetAttribute(route_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess) return code;
    return launch_dependent(cuda, route_kernel<T>, dim3((a.n_logits + ROUTE_WARPS - 1) / ROUTE_WARPS, n),
                            ROUTE_WARPS * 32, shared, a);
}

Status experts_route(CudaBackend *cuda, const RouteCall *call, Error *error) {
    const DecoderShape *s = cuda->shape;
    const Layer *layer = call->layer;
    RouteArguments a = {};
    a.x = call->x, a.norm = layer->ffn_norm, a.layer_norm = s->norm == NORM_LAYER, a.eps = s->norm_eps;
    a.hidden = s->hidden_size, a.router = layer->router;
    a.n_logits = s->experts.n + (layer->shared_routed ? 1 : 0);
    a.bias = layer->router_bias, a.choice_bias = layer->choice_bias;
    a.e = s->experts, a.to = cuda->scratch.routes, a.normed = cuda->scratch.normed;
    cudaError_t code;
    WITH_OPERAND(cuda, (code = launch_route<T>(cuda, a, call->n)));
    return cuda_check(code, error, "the router of %d tokens", call->n);
}

// ---- the order of experts ----------------------------------------------------------------------------------

struct SortArguments {
    CudaRoutes r;
    int n_pairs, n_active, n;
};

// start, tiles, token and where, by one block. Pairs of an expert stand in any order: none shows in another's result.
__global__ void __launch_bounds__(SORT_THREADS) sort_kernel(const __grid_constant__ SortArguments a) {
    __shared__ int counts[EXPERTS_MOST], next[EXPERTS_MOST];
    let_next_begin();
    kernels_before();
    for (int i = threadIdx.x; i < a.n; i += SORT_THREADS) counts[i] = 0;
    __syncthreads();
    for (int p = threadIdx.x; p < a.n_pairs; p += SORT_THREADS) atomicAdd(&counts[a.r.ids[p]], 1);
    __syncthreads();
    if (threadIdx.x < 32) {
        int start = 0, tiles = 0;
        for (int first = 0; first < a.n; first += 32) {
            int i = first + (int)threadIdx.x, count = i < a.n ? counts[i] : 0;
            int both = (count + 2 * TILE_TOKENS - 1) / (2 * TILE_TOKENS), sum = count, sum_tiles = both;
            for (int o = 1; o < 32; o *= 2) {
                int v = __shfl_up_sync(~0u, sum, o), t = __shfl_up_sync(~0u, sum_tiles, o);
                if ((int)threadIdx.x >= o) sum += v, sum_tiles += t;
            }
            if (i < a.n) {
                next[i] = start + sum - count;
                a.r.start[i] = next[i], a.r.tiles[i] = tiles + sum_tiles - both;
            }
            start += __shfl_sync(~0u, sum, 31), tiles += __shfl_sync(~0u, sum_tiles, 31);
        }
        if (threadIdx.x == 0) a.r.start[a.n] = start, a.r.tiles[a.n] = tiles;
    }
    __syncthreads();
    for (int p = threadIdx.x; p < a.n_pairs; p += SORT_THREADS) {
        int at = atomicAdd(&next[a.r.ids[p]], 1);
        a.r.where[p] = at, a.r.token[at] = p / a.n_active;
    }
}

// Rows of normed for the pairs, 16 bytes a thread. Grid: [n_pairs].
__global__ void __launch_bounds__(128)
    gather_kernel(const uint4 *normed, const int32_t *token, int pieces, uint4 *pairs) {
    let_next_begin();
    kernels_before();
    const uint4 *from = normed + (int64_t)token[blockIdx.x] * pieces;
    uint4 *to = pairs + (int64_t)blockIdx.x * pieces;
    for (int i = threadIdx.x; i < pieces; i += 128) to[i] = from[i];
}

Status experts_sort(CudaBackend *cuda, Error *error) {
    const DecoderShape *s = cuda->shape;
    const CudaRoutes *r = &cuda->scratch.routes;
    SortArguments a = {*r, cuda->step.n_tokens * s->experts.n_active, s->experts.n_active, s->experts.n};
    int pieces = (int)((size_t)s->hidden_size * operand_bytes(cuda->operand) / 16);
    cudaError_t code = launch_dependent(cuda, sort_kernel, 1, SORT_THREADS, 0, a);
    if (code == cudaSuccess)
        code = launch_dependent(cuda, gather_kernel, a.n_pairs, 128, 0, (const uint4 *)cuda->scratch.normed,
                                (const int32_t *)r->token, pieces, (uint4 *)r->pairs);
    return cuda_check(code, error, "the order of %d pairs of tokens and experts", a.n_pairs);
}
