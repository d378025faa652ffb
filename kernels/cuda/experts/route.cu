// Routers: which experts a token takes, and the order of pairs of tokens and experts.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/experts/choose.cuh"
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/dispatch.h"

enum {
    ROUTE_WARPS = 8,
    ROUTE_NORMS = 4, // pieces of the norm's weights that a thread asks for before x is there
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
    const float *bias, *choice_bias, *scales; // [e.n]; NULL: none
    Experts e;
    CudaRoutes to;
    void *normed; // [n, hidden]
};

// SparseMixer's two, as ops.h has it. scores: router·h + bias, −∞ behind the last expert.
template <int PER>
__device__ inline void choose_two(const RouteArguments &a, int token, float (&scores)[PER]) {
    const Experts &e = a.e;
    const int lane = threadIdx.x % 32;
    for (int j = 0; j < e.n_active; j++) {
        uint32_t own = 0;
        int place = e.n - 1;
        float top = -INFINITY, sum = 0;
#pragma unroll
        for (int k = 0; k < PER; k++)
            if (ordered(scores[k]) > own) own = ordered(scores[k]), place = k * 32 + lane, top = scores[k];
        const uint32_t best = __reduce_max_sync(~0u, own);
        place = (int)__reduce_min_sync(~0u, own == best ? (unsigned)place : (unsigned)e.n - 1);
        for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
#pragma unroll
        for (int k = 0; k < PER; k++) {
            const float l = scores[k];
            if (l > -INFINITY && top - l <= 2 * e.jitter * fmaxf(fabsf(l), top)) sum += expf(l - top);
            if (k * 32 + lane == place) scores[k] = -INFINITY;
        }
        for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
        if (lane != 0) continue;
        const int64_t at = (int64_t)token * e.n_active + j;
        a.to.ids[at] = place, a.to.weights[at] = 1 / sum;
    }
}

// Ids and weights of a token, by one warp, from its logits; a lane has PER of them. room: 2·e.n floats of shared memory.
template <int PER> __device__ inline void choose(const RouteArguments &a, int token, float *room) {
    const Experts &e = a.e;
    const int lane = threadIdx.x % 32;
    const float *logits = a.to.logits + (int64_t)token * a.n_logits;
    float scores[PER];
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int i = k * 32 + lane;
        scores[k] = i < e.n ? __ldcg(logits + i) + (a.bias ? a.bias[i] : 0) : -INFINITY;
    }
    if (e.score == ROUTER_SPARSEMIXER) {
        choose_two<PER>(a, token, scores);
        return;
    }
    const ExpertChoice choice = choose_of<PER>(e, a.choice_bias, scores, room);
    if (lane < e.n_active) {
        int64_t at = (int64_t)token * e.n_active + lane;
        a.to.ids[at] = choice.id;
        a.to.weights[at] = a.scales ? choice.weight * a.scales[choice.id] : choice.weight;
    }
    if (lane == 0 && a.n_logits > e.n) a.to.shared[token] = 1 / (1 + expf(-__ldcg(logits + e.n)));
}

// A warp's product of a row of the router [n] with h [n], in shared memory; `ahead`: the pieces of it that are there.
__device__ inline float row_product(const float *h, const float *row, const float4 (&ahead)[ROUTE_AHEAD],
                                    int n) {
    const int lane = threadIdx.x % 32;
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
    return dot;
}

// A warp a row of the router; the block of a token that is ready last chooses. Grid: [n_logits / 8, n]. Dynamic shared
// memory: hidden floats, and twice e.n.
template <class T, int PER>
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
    float4 norms[ROUTE_NORMS];
#pragma unroll
    for (int k = 0; k < ROUTE_NORMS; k++) {
        int i = (k * ROUTE_WARPS * 32 + (int)threadIdx.x) * 4;
        norms[k] = i < n ? __ldg((const float4 *)(a.norm.weight + i)) : make_float4(0, 0, 0, 0);
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
    auto finish = [&](int i, float4 w) { // of its own
        float4 v = *(const float4 *)(h + i);
        v = make_float4((v.x - mean) * scale * w.x, (v.y - mean) * scale * w.y, (v.z - mean) * scale * w.z,
                        (v.w - mean) * scale * w.w);
        if (a.norm.bias) {
            float4 b = *(const float4 *)(a.norm.bias + i);
            v = make_float4(v.x + b.x, v.y + b.y, v.z + b.z, v.w + b.w);
        }
        *(float4 *)(h + i) = v;
        if (blockIdx.x == 0) {
            T *to = (T *)a.normed + (int64_t)token * n + i;
            to[0] = from_float<T>(v.x), to[1] = from_float<T>(v.y), to[2] = from_float<T>(v.z),
            to[3] = from_float<T>(v.w);
        }
    };
    constexpr int STRIDE = ROUTE_WARPS * 32 * 4;
#pragma unroll
    for (int k = 0; k < ROUTE_NORMS; k++)
        if (k * STRIDE + (int)threadIdx.x * 4 < n) finish(k * STRIDE + (int)threadIdx.x * 4, norms[k]);
    for (int i = ROUTE_NORMS * STRIDE + (int)threadIdx.x * 4; i < n; i += STRIDE)
        finish(i, __ldg((const float4 *)(a.norm.weight + i)));
    __syncthreads();
    const float dot = row_product(h, row, ahead, n);
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
    choose<PER>(a, token, h + n);
}

template <class T, int PER>
static cudaError_t launch_route_of(const CudaBackend *cuda, const RouteArguments &a, int n) {
    auto kernel = route_kernel<T, PER>;
    size_t shared = ((size_t)a.hidden + 2 * (size_t)a.e.n) * sizeof(float);
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess) return code;
    return launch_dependent(cuda, kernel, dim3((a.n_logits + ROUTE_WARPS - 1) / ROUTE_WARPS, n),
                            ROUTE_WARPS * 32, shared, a);
}

template <class T> static cudaError_t launch_route(const CudaBackend *cuda, const RouteArguments &a, int n) {
    return a.e.n <= 128   ? launch_route_of<T, 4>(cuda, a, n)
           : a.e.n <= 256 ? launch_route_of<T, 8>(cuda, a, n)
                          : launch_route_of<T, EXPERTS_MOST / 32>(cuda, a, n);
}

Status experts_route(CudaBackend *cuda, const RouteCall *call, Error *error) {
    const DecoderShape *s = cuda->shape;
    const Layer *layer = call->layer;
    RouteArguments a = {};
    a.x = call->x, a.norm = s->experts.beside ? layer->router_norm : layer->ffn_norm,
    a.layer_norm = s->norm == NORM_LAYER, a.eps = s->norm_eps;
    a.hidden = s->hidden_size, a.router = layer->router;
    a.n_logits = s->experts.n + (layer->shared_routed ? 1 : 0);
    a.bias = layer->router_bias, a.choice_bias = layer->choice_bias, a.scales = layer->expert_scale;
    a.e = s->experts, a.to = cuda->scratch.routes, a.normed = cuda->scratch.normed;
    cudaError_t code;
    WITH_OPERAND(cuda, (code = launch_route<T>(cuda, a, call->n)));
    return cuda_check(code, error, "the router of %d tokens", call->n);
}

// ---- the order of experts ----------------------------------------------------------------------------------

struct SortArguments {
    CudaRoutes r;
    int n_pairs, n_active, n, tile_pairs;
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
            int both = (count + a.tile_pairs - 1) / a.tile_pairs, sum = count, sum_tiles = both;
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

// Within the range of f16; NaN stays.
__device__ inline float half_of(float v) {
    return v > 65504 ? 65504 : v < -65504 ? -65504 : v;
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

// The same of bf16, as f16; what that cannot hold becomes its largest number.
__global__ void __launch_bounds__(128)
    gather_halves_kernel(const __nv_bfloat162 *normed, const int32_t *token, int pairs_a_row,
                         __half2 *pairs) {
    let_next_begin();
    kernels_before();
    const __nv_bfloat162 *from = normed + (int64_t)token[blockIdx.x] * pairs_a_row;
    __half2 *to = pairs + (int64_t)blockIdx.x * pairs_a_row;
    for (int i = threadIdx.x; i < pairs_a_row; i += 128) {
        const float2 v = __bfloat1622float2(from[i]);
        to[i] = __floats2half2_rn(half_of(v.x), half_of(v.y));
    }
}

// Rows of the pairs times their weights. Grid: [n_pairs].
template <class T>
__global__ void __launch_bounds__(128)
    weigh_pairs_kernel(const float *weights, const int32_t *where, int hidden, T *pairs) {
    let_next_begin();
    kernels_before();
    const float by = weights[blockIdx.x];
    T *row = pairs + (int64_t)where[blockIdx.x] * hidden;
    for (int i = threadIdx.x; i < hidden; i += 128) row[i] = from_float<T>(by * to_float(row[i]));
}

Status experts_sort(CudaBackend *cuda, bool halved, int tile_pairs, Error *error) {
    const DecoderShape *s = cuda->shape;
    const CudaRoutes *r = &cuda->scratch.routes;
    SortArguments a = {*r, cuda->step.n_tokens * s->experts.n_active, s->experts.n_active, s->experts.n,
                       tile_pairs};
    int pieces = (int)((size_t)s->hidden_size * operand_bytes(cuda->operand) / 16);
    cudaError_t code = launch_dependent(cuda, sort_kernel, 1, SORT_THREADS, 0, a);
    if (code == cudaSuccess && halved)
        code = launch_dependent(cuda, gather_halves_kernel, a.n_pairs, 128, 0,
                                (const __nv_bfloat162 *)cuda->scratch.normed, (const int32_t *)r->token,
                                s->hidden_size / 2, (__half2 *)r->pairs);
    else if (code == cudaSuccess)
        code = launch_dependent(cuda, gather_kernel, a.n_pairs, 128, 0, (const uint4 *)cuda->scratch.normed,
                                (const int32_t *)r->token, pieces, (uint4 *)r->pairs);
    if (code == cudaSuccess && s->experts.scales_input)
        WITH_OPERAND(cuda, (code = launch_dependent(cuda, weigh_pairs_kernel<T>, a.n_pairs, 128, 0,
                                                    (const float *)r->weights, (const int32_t *)r->where,
                                                    s->hidden_size, (T *)r->pairs)));
    return cuda_check(code, error, "the order of %d pairs of tokens and experts", a.n_pairs);
}
