// Routers: which experts a token takes, and the order of pairs of tokens and experts.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/experts/choose.cuh"
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/dispatch.h"

enum {
    ROUTE_WARPS = 8,
    ROUTE_NORMS = 4,        // pieces of the norm's weights that a thread asks for before x is there
    ROUTE_AHEAD = 8,        // pieces of 128 columns of the router that a warp asks for before x is there
    ROUTE_STATIC = 1 << 10, // bytes of shared memory that the kernel declares, at most
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
    int n_tokens;
    void *normed; // [n_tokens, hidden]
    DType operand;
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
    const ExpertChoice choice = choose_of<PER>(e, a.choice_bias, scores, room, e.guarded ? ROUTER_GUARD : 0);
    if (lane < e.n_active) {
        int64_t at = (int64_t)token * e.n_active + lane;
        a.to.ids[at] = choice.id;
        a.to.weights[at] = a.scales ? choice.weight * a.scales[choice.id] : choice.weight;
    }
    if (lane == 0 && a.n_logits > e.n) a.to.shared[token] = 1 / (1 + expf(-__ldcg(logits + e.n)));
}

// How a block of the router's kernel is cut: TOKENS of them against ROWS rows of the router a warp. A token's results are
// the same by any.
template <int TOKENS_, int ROWS_> struct RouteCut {
    static constexpr int TOKENS = TOKENS_, ROWS = ROWS_;
    static constexpr int AHEAD = ROUTE_AHEAD / ROWS; // pieces of a row that are asked for before x is there
    // Floats of shared memory: the tokens' inputs, and what a warp chooses in, which for many tokens lies over them.
    static size_t floats(int hidden, int n_experts) {
        const size_t inputs = (size_t)TOKENS * (size_t)hidden, room = 2 * (size_t)n_experts;
        return TOKENS == 1 ? inputs + room : inputs > ROUTE_WARPS * room ? inputs : ROUTE_WARPS * room;
    }
    static __device__ float *room(float *h, int hidden, int n_experts) {
        return TOKENS == 1 ? h + hidden : h + threadIdx.x / 32 * 2 * n_experts;
    }
};

// The sums over the block, for each token, as block_sum() has them.
template <int N> __device__ inline void block_sums(float (&v)[N], float (&sums)[N][ROUTE_WARPS]) {
#pragma unroll
    for (int t = 0; t < N; t++) {
        for (int o = 16; o; o /= 2) v[t] += __shfl_xor_sync(~0u, v[t], o);
        if (threadIdx.x % 32 == 0) sums[t][threadIdx.x / 32] = v[t];
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < N; t++) {
        v[t] = 0;
        for (int i = 0; i < ROUTE_WARPS; i++) v[t] += sums[t][i];
    }
    __syncthreads();
}

// The products' sum, made in one way by every cut: not as the compiler fuses them in each.
__device__ inline float dot_four(float4 v, float4 w) {
    return __fadd_rn(fmaf(v.x, w.x, __fmul_rn(v.y, w.y)), fmaf(v.z, w.z, __fmul_rn(v.w, w.w)));
}

__device__ inline void store_four(void *to, DType type, int64_t at, float4 v) {
    if (type == DTYPE_F32) {
        *(float4 *)((float *)to + at) = v;
    } else if (type == DTYPE_F16) {
        __half2 two[] = {__floats2half2_rn(v.x, v.y), __floats2half2_rn(v.z, v.w)};
        *(uint2 *)((__half *)to + at) = *(uint2 *)two;
    } else {
        __nv_bfloat162 two[] = {__floats2bfloat162_rn(v.x, v.y), __floats2bfloat162_rn(v.z, v.w)};
        *(uint2 *)((__nv_bfloat16 *)to + at) = *(uint2 *)two;
    }
}

// h [TOKENS, hidden] = norm(x) of the block's tokens, of which the last one stands for those that are not there; its
// share of them goes to `normed` as well. norms: the first of the weights.
template <class Cut>
__device__ inline void norm_tokens(const RouteArguments &a, const float4 (&norms)[ROUTE_NORMS], float *h) {
    constexpr int TOKENS = Cut::TOKENS, STRIDE = ROUTE_WARPS * 128;
    __shared__ float sums[TOKENS][ROUTE_WARPS];
    const int first = blockIdx.y * TOKENS, mine = threadIdx.x * 4, n = a.hidden;
    float mean[TOKENS] = {}, scale[TOKENS] = {};
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        const float *x = a.x + (int64_t)min(first + t, a.n_tokens - 1) * n;
        for (int i = mine; i < n; i += STRIDE) {
            float4 v = *(const float4 *)(x + i);
            *(float4 *)(h + t * n + i) = v;
            mean[t] += (v.x + v.y) + (v.z + v.w);
        }
    }
    if (a.layer_norm) block_sums(mean, sums);
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        mean[t] = a.layer_norm ? mean[t] / n : 0;
        for (int i = mine; i < n; i += STRIDE) { // its own
            float4 v = *(const float4 *)(h + t * n + i);
            v = make_float4(v.x - mean[t], v.y - mean[t], v.z - mean[t], v.w - mean[t]);
            scale[t] += dot_four(v, v);
        }
    }
    block_sums(scale, sums);
#pragma unroll
    for (int t = 0; t < TOKENS; t++) scale[t] = rsqrtf(scale[t] / n + a.eps);
    auto finish = [&](int i, float4 w) { // of its own
        const float4 b = a.norm.bias ? *(const float4 *)(a.norm.bias + i) : make_float4(0, 0, 0, 0);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            float4 v = *(const float4 *)(h + t * n + i);
            v = make_float4((v.x - mean[t]) * scale[t] * w.x, (v.y - mean[t]) * scale[t] * w.y,
                            (v.z - mean[t]) * scale[t] * w.z, (v.w - mean[t]) * scale[t] * w.w);
            if (a.norm.bias)
                v = make_float4(__fadd_rn(v.x, b.x), __fadd_rn(v.y, b.y), __fadd_rn(v.z, b.z),
                                __fadd_rn(v.w, b.w));
            *(float4 *)(h + t * n + i) = v;
            if (t % gridDim.x == blockIdx.x && first + t < a.n_tokens)
                store_four(a.normed, a.operand, (int64_t)(first + t) * n + i, v);
        }
    };
#pragma unroll
    for (int k = 0; k < ROUTE_NORMS; k++)
        if (k * STRIDE + mine < n) finish(k * STRIDE + mine, norms[k]);
    for (int i = ROUTE_NORMS * STRIDE + mine; i < n; i += STRIDE)
        finish(i, __ldg((const float4 *)(a.norm.weight + i)));
}

// A warp's products of its rows of the router with h [TOKENS, n]; `ahead`: the pieces of them that are there.
template <class Cut>
__device__ inline void route_products(const float *h, const float *(&rows)[Cut::ROWS],
                                      const float4 (&ahead)[Cut::AHEAD][Cut::ROWS], int n,
                                      float (&dots)[Cut::TOKENS][Cut::ROWS]) {
    const int lane = threadIdx.x % 32;
    auto piece = [&](int i, const float4(&w)[Cut::ROWS]) {
#pragma unroll
        for (int t = 0; t < Cut::TOKENS; t++) {
            const float4 v = *(const float4 *)(h + t * n + i);
#pragma unroll
            for (int r = 0; r < Cut::ROWS; r++) dots[t][r] += dot_four(v, w[r]);
        }
    };
#pragma unroll
    for (int k = 0; k < Cut::AHEAD; k++)
        if (k * 128 + lane * 4 < n) piece(k * 128 + lane * 4, ahead[k]);
    for (int i = Cut::AHEAD * 128 + lane * 4; i < n; i += 128) {
        float4 w[Cut::ROWS];
#pragma unroll
        for (int r = 0; r < Cut::ROWS; r++) w[r] = __ldg((const float4 *)(rows[r] + i));
        piece(i, w);
    }
}

// The norm, the router and the choice; the block of a token that is ready last chooses for it. Grid: [rows of the router /
// (ROUTE_WARPS·ROWS), tokens / TOKENS]. Dynamic shared memory: Cut::floats().
template <int PER, class Cut>
__global__ void __launch_bounds__(ROUTE_WARPS * 32) route_kernel(const __grid_constant__ RouteArguments a) {
    extern __shared__ __align__(16) float h[];
    __shared__ bool last[Cut::TOKENS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = a.hidden,
              expert = (blockIdx.x * ROUTE_WARPS + warp) * Cut::ROWS, first = blockIdx.y * Cut::TOKENS;
    const float *rows[Cut::ROWS];
    float4 ahead[Cut::AHEAD][Cut::ROWS], norms[ROUTE_NORMS];
#pragma unroll
    for (int r = 0; r < Cut::ROWS; r++) rows[r] = a.router + (int64_t)min(expert + r, a.n_logits - 1) * n;
#pragma unroll
    for (int k = 0; k < Cut::AHEAD; k++)
#pragma unroll
        for (int r = 0; r < Cut::ROWS; r++) {
            int i = k * 128 + lane * 4;
            ahead[k][r] = i < n ? __ldg((const float4 *)(rows[r] + i)) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
    for (int k = 0; k < ROUTE_NORMS; k++) {
        int i = (k * ROUTE_WARPS * 32 + (int)threadIdx.x) * 4;
        norms[k] = i < n ? __ldg((const float4 *)(a.norm.weight + i)) : make_float4(0, 0, 0, 0);
    }
    let_next_begin();
    kernels_before();
    norm_tokens<Cut>(a, norms, h);
    __syncthreads();
    float dots[Cut::TOKENS][Cut::ROWS] = {};
    route_products<Cut>(h, rows, ahead, n, dots);
#pragma unroll
    for (int t = 0; t < Cut::TOKENS; t++)
#pragma unroll
        for (int r = 0; r < Cut::ROWS; r++) {
            float dot = dots[t][r];
            for (int o = 16; o; o /= 2) dot += __shfl_xor_sync(~0u, dot, o);
            if (lane == (t * Cut::ROWS + r) % 32 && expert + r < a.n_logits && first + t < a.n_tokens)
                __stcg(a.to.logits + (int64_t)(first + t) * a.n_logits + expert + r, dot);
        }
    __threadfence();
    __syncthreads();
    if (threadIdx.x < Cut::TOKENS) {
        const int token = first + (int)threadIdx.x;
        bool is_last = token < a.n_tokens && atomicAdd(a.to.arrived + token, 1u) == gridDim.x - 1;
        if (is_last) a.to.arrived[token] = 0; // for the next launch
        last[threadIdx.x] = is_last;
    }
    __syncthreads();
    for (int t = warp; t < Cut::TOKENS; t += ROUTE_WARPS) {
        if (!last[t]) continue;
        __threadfence();
        choose<PER>(a, first + t, Cut::room(h, n, a.e.n));
        __syncwarp();
    }
}

template <class Cut> static dim3 route_grid(const RouteArguments &a) {
    constexpr int ROWS = ROUTE_WARPS * Cut::ROWS;
    return dim3((a.n_logits + ROWS - 1) / ROWS, (a.n_tokens + Cut::TOKENS - 1) / Cut::TOKENS);
}

// Whether a block finds room, and half of the multiprocessors have one: the router is read once for a block's tokens, but
// of few blocks each takes long.
template <class Cut> static bool route_takes(const Card &card, const RouteArguments &a) {
    const dim3 grid = route_grid<Cut>(a);
    return a.n_tokens >= Cut::TOKENS &&
           Cut::floats(a.hidden, a.e.n) * sizeof(float) + ROUTE_STATIC <= card.shared_limit &&
           2 * (int64_t)grid.x * grid.y >= card.n_sms;
}

template <int PER, class Cut>
static cudaError_t launch_route_cut(const CudaBackend *cuda, const RouteArguments &a) {
    auto kernel = route_kernel<PER, Cut>;
    const size_t shared = Cut::floats(a.hidden, a.e.n) * sizeof(float);
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    return code == cudaSuccess
               ? launch_dependent(cuda, kernel, route_grid<Cut>(a), ROUTE_WARPS * 32, shared, a)
               : code;
}

template <int PER> static cudaError_t launch_route(const CudaBackend *cuda, const RouteArguments &a) {
    typedef RouteCut<4, 2> Some;
    typedef RouteCut<16, 4> Many;
    const Card &card = cuda->device.card;
    if constexpr (PER <= 8) // more would spill
        if (route_takes<Many>(card, a)) return launch_route_cut<PER, Many>(cuda, a);
    return route_takes<Some>(card, a) ? launch_route_cut<PER, Some>(cuda, a)
                                      : launch_route_cut<PER, RouteCut<1, 1>>(cuda, a);
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
    a.e = s->experts, a.to = cuda->scratch.routes, a.n_tokens = call->n;
    a.normed = cuda->scratch.normed, a.operand = cuda->operand;
    const cudaError_t code = a.e.n <= 128   ? launch_route<4>(cuda, a)
                             : a.e.n <= 256 ? launch_route<8>(cuda, a)
                                            : launch_route<EXPERTS_MOST / 32>(cuda, a);
    return cuda_check(code, error, "the router of %d tokens", call->n);
}

// ---- the order of experts ----------------------------------------------------------------------------------

struct SortArguments {
    CudaRoutes r;
    int n_pairs, n_active, n, tile_pairs;
    const int32_t *count; // tokens that the step has; NULL: all
};

// start, tiles, tile_pairs, token and where, by one block. Pairs of an expert stand in any order: none shows in another's
// result. Those of tokens that the step does not have stand behind all others, where no tile takes them.
__global__ void __launch_bounds__(SORT_THREADS) sort_kernel(const __grid_constant__ SortArguments a) {
    __shared__ int counts[EXPERTS_MOST], next[EXPERTS_MOST], tile_of[EXPERTS_MOST];
    let_next_begin();
    kernels_before();
    const int n_pairs = a.count ? min(*a.count * a.n_active, a.n_pairs) : a.n_pairs;
    for (int i = threadIdx.x; i < a.n; i += SORT_THREADS) counts[i] = 0;
    __syncthreads();
    for (int p = threadIdx.x; p < n_pairs; p += SORT_THREADS) atomicAdd(&counts[a.r.ids[p]], 1);
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
                tile_of[i] = tiles + sum_tiles - both;
                a.r.start[i] = next[i], a.r.tiles[i] = tile_of[i];
            }
            start += __shfl_sync(~0u, sum, 31), tiles += __shfl_sync(~0u, sum_tiles, 31);
        }
        if (threadIdx.x == 0) a.r.start[a.n] = start, a.r.tiles[a.n] = tiles;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < a.n; e += SORT_THREADS)
        for (int i = 0; i * a.tile_pairs < counts[e]; i++)
            a.r.tile_pairs[tile_of[e] + i] =
                make_int4(e, next[e] + i * a.tile_pairs, min(counts[e] - i * a.tile_pairs, a.tile_pairs), 0);
    __syncthreads();
    for (int p = threadIdx.x; p < n_pairs; p += SORT_THREADS) {
        int at = atomicAdd(&next[a.r.ids[p]], 1);
        a.r.where[p] = at, a.r.token[at] = p / a.n_active;
    }
    for (int p = n_pairs + threadIdx.x; p < a.n_pairs; p += SORT_THREADS)
        a.r.where[p] = p, a.r.token[p] = p / a.n_active;
}

// Within the range of f16; NaN stays.
__device__ inline float half_of(float v) {
    return v > 65504 ? 65504 : v < -65504 ? -65504 : v;
}

// Rows of normed for the pairs, 16 bytes a thread. Grid: [n_pairs].
__global__ void __launch_bounds__(128)
    gather_kernel(const uint4 *normed, const int32_t *token, int pieces, uint4 *pairs) {
    kernels_before();
    let_next_begin(); // which reads what has been sorted
    const uint4 *from = normed + (int64_t)token[blockIdx.x] * pieces;
    uint4 *to = pairs + (int64_t)blockIdx.x * pieces;
    for (int i = threadIdx.x; i < pieces; i += 128) to[i] = from[i];
}

// The same of bf16, as f16; what that cannot hold becomes its largest number.
__global__ void __launch_bounds__(128)
    gather_halves_kernel(const __nv_bfloat162 *normed, const int32_t *token, int pairs_a_row,
                         __half2 *pairs) {
    kernels_before();
    let_next_begin(); // which reads what has been sorted
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
    kernels_before();
    let_next_begin(); // which reads what has been sorted
    const float by = weights[blockIdx.x];
    T *row = pairs + (int64_t)where[blockIdx.x] * hidden;
    for (int i = threadIdx.x; i < hidden; i += 128) row[i] = from_float<T>(by * to_float(row[i]));
}

Status experts_sort(CudaBackend *cuda, bool halved, int tile_pairs, Error *error) {
    const DecoderShape *s = cuda->shape;
    const CudaRoutes *r = &cuda->scratch.routes;
    SortArguments a = {
        *r,         cuda->step.n_tokens * s->experts.n_active,  s->experts.n_active, s->experts.n,
        tile_pairs, cuda->step.padded ? cuda->step.count : NULL};
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
