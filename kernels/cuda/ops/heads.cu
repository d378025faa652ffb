// Heads from what a GEMM has stored of q, k and v: bias, norms, RoPE, keys and values into their slots. Compiled once for
// each pair of what q is stored as and of what the GEMM has stored.
// INSTANCES: __half,__half __nv_bfloat16,__nv_bfloat16 __nv_bfloat16,float float,float
#include "kernels/cuda/cache/store.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/heads.cuh"
#include "kernels/cuda/rope.cuh"

// Layer norm of a head v [dim] by a warp that has the sum of its elements.
__device__ inline void layer_norm_head(const float *weight, float sum, float eps, float *v, int dim) {
    float squares = 0;
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    const float mean = sum / dim;
    for (int i = threadIdx.x % 32; i < dim; i += 32) squares += (v[i] - mean) * (v[i] - mean);
    for (int o = 16; o; o /= 2) squares += __shfl_xor_sync(~0u, squares, o);
    const float scale = rsqrtf(squares / dim + eps);
    for (int i = threadIdx.x % 32; i < dim; i += 32) v[i] = (v[i] - mean) * scale * weight[i];
}

// A warp brings a head of a token to v [dim], in shared memory: bias, norm, RoPE (for a value only a norm of its own).
template <class Sum>
__device__ inline void finish_head(const HeadArguments &a, const Sum *in, int token, int head, float *v,
                                   int dim) {
    int lane = threadIdx.x % 32;
    bool is_q = head < a.n_heads, is_value = head >= a.n_heads + a.n_kv_heads;
    const float *norm = is_q ? a.q_norm : is_value ? a.v_norm : a.k_norm;
    float sum = 0, plain = 0;
    for (int i = lane * 2; i < dim; i += 64) {
        Pair<Sum> p = *(const Pair<Sum> *)(in + i);
        float2 f = make_float2(to_float(p.v[0]), to_float(p.v[1]));
        if (a.bias) f.x += a.bias[head * dim + i], f.y += a.bias[head * dim + i + 1];
        sum += f.x * f.x + f.y * f.y, plain += f.x + f.y;
        *(float2 *)(v + i) = f;
    }
    __syncwarp();
    if (norm && is_value) {
        norm_head(norm, sum, a.eps, v, dim);
    } else if (norm && a.row_scales) {
        const float2 scales = a.row_scales[token];
        const float scale = is_q ? scales.x : scales.y;
        norm += (is_q ? head : head - a.n_heads) * dim;
        for (int i = lane; i < dim; i += 32) v[i] *= scale * norm[i];
    } else if (norm && a.layer_norms) {
        layer_norm_head(norm + (is_q ? head : head - a.n_heads) * dim, plain, a.eps, v, dim);
    } else if (norm && !a.norms_turned) {
        norm_head(norm, sum, a.eps, v, dim);
    }
    __syncwarp();
    if (is_value) return;
    rope_head(a.rope + (int64_t)token * a.rope_stride, a.rotary_dim, a.interleaved, 1, v, v);
    __syncwarp();
    if (norm && a.norms_turned && !a.layer_norms) { // RoPE's magnitude has changed the sum of squares
        float turned = 0;
        for (int i = lane; i < dim; i += 32) turned += v[i] * v[i];
        norm_head(norm, turned, a.eps, v, dim);
    }
    __syncwarp();
    if (is_q && a.temperatures)
        for (int i = lane; i < dim; i += 32) v[i] *= a.temperatures[token];
    __syncwarp();
}

// At most KEYS heads that finish_head() has left are keys to be rounded with feedback; slots: theirs.
template <int KEYS>
__device__ inline void store_keys(const KvLayer &kv, int kv_head, const float *feedback, const int32_t *slots,
                                  const TurnedKeys &keys) {
    const int dim = keys.dim, half = (dim & -dim) / 2;
    for (int t = 0; t < keys.n; t++) {
        float *key = keys.v + t * keys.stride;
        turn_key(kv, balance_of(kv, kv_head, dim), key, dim);
        enter_scales(kv, kv.k_scale, group_at(kv, element_of(kv, slots[t], kv_head)), key, key + dim, dim);
    }
    round_fed_back<KEYS>(
        kv, [&](int block, int i) { return feedback + (block * half + i) * half; }, keys);
    for (int t = 0; t < keys.n; t++)
        store_integers(kv, true, element_of(kv, slots[t], kv_head), keys.v + t * keys.stride, dim);
}

// A warp a head (first those of q, then of k, then of v) of TOKENS tokens, in shared memory; the warps of a block have
// the same head, whose feedback they share. Several tokens: their keys are rounded together, with fewer lanes for each.
// DIM: the head size, 0: any. Grid: [n_tokens / (4·TOKENS), all heads], block: 128 threads, shared memory: the
// feedback, 4·TOKENS rows of store_row().
template <class T, class Sum, int TOKENS, int DIM>
__global__ void __launch_bounds__(128) heads_kernel(HeadArguments a, const Sum *wide, T *q) {
    extern __shared__ __align__(16) float shared[];
    int dim = DIM ? DIM : a.head_dim, stride = row_floats(dim), all = a.n_heads + 2 * a.n_kv_heads,
        head = blockIdx.y;
    int first = (blockIdx.x * 4 + threadIdx.x / 32) * TOKENS, n = min(TOKENS, a.n_tokens - first);
    bool is_q = head < a.n_heads, is_k = !is_q && head < a.n_heads + a.n_kv_heads;
    int kv_head = is_q ? 0 : (head - a.n_heads) % a.n_kv_heads;
    float *heads = shared + (a.kv.key_feedback ? feedback_floats(dim) : 0);
    float *v = heads + threadIdx.x / 32 * TOKENS * stride;
    const float *feedback = NULL;
    let_next_begin();
    if (is_k && a.kv.key_feedback) {
        const float *from = feedback_of(a.kv, kv_head, dim);
        for (int i = threadIdx.x * 4; i < feedback_floats(dim); i += 512)
            *(float4 *)(shared + i) = __ldg((const float4 *)(from + i));
        feedback = shared;
        __syncthreads();
    }
    kernels_before();
    for (int t = 0; t < n; t++) {
        int token = first + t;
        float *mine = v + t * stride;
        finish_head(a, wide + ((int64_t)token * all + head) * dim, token, head, mine, dim);
        if (is_q) {
            T *out = q + ((int64_t)token * a.n_heads + head) * dim;
            for (int i = threadIdx.x % 32 * 2; i < dim; i += 64)
                *(Pair<T> *)(out + i) = Pair<T>{from_float<T>(mine[i]), from_float<T>(mine[i + 1])};
        } else if ((TOKENS == 1 || !feedback) && a.slots[token] >= 0) {
            store_row(a.kv, CacheRow{is_k, a.slots[token], kv_head}, feedback, mine, dim);
        }
    }
    if (TOKENS > 1 && feedback && n > 0)
        store_keys<TOKENS>(a.kv, kv_head, feedback, a.slots + first, TurnedKeys{v, v + dim, stride, n, dim});
}

// The common case in registers: pairs (i, i + dim/2) over the whole head, no norms of heads. dim/4 lanes a head, two
// neighbouring pairs a lane; the rope's values serve eight heads. Grid: [n_tokens, all heads / 8 / heads of a block],
// block: 128.
enum { HEADS_AT_ONCE = 8 };
template <class T, class Sum, int DIM>
__global__ void __launch_bounds__(128) whole_heads_kernel(HeadArguments a, const Sum *wide, T *q) {
    constexpr int LANES = DIM / 4, HALF = DIM / 2;
    int token = blockIdx.x, i = threadIdx.x % LANES * 2, all = a.n_heads + 2 * a.n_kv_heads;
    int first = (blockIdx.y * (128 / LANES) + threadIdx.x / LANES) * HEADS_AT_ONCE;
    let_next_begin();
    kernels_before();
    float4 turn = *(const float4 *)(a.rope + (int64_t)token * HALF + i);
    const Sum *in = wide + (int64_t)token * all * DIM + i;
    Pair<Sum> low[HEADS_AT_ONCE], high[HEADS_AT_ONCE];
#pragma unroll
    for (int h = 0; h < HEADS_AT_ONCE; h++) {
        if (first + h >= all) continue;
        low[h] = *(const Pair<Sum> *)(in + (first + h) * DIM);
        high[h] = *(const Pair<Sum> *)(in + (first + h) * DIM + HALF);
    }
    bool stored = a.slots[token] >= 0;
    int64_t slot = (int64_t)a.slots[token] * a.kv.slot_stride + i;
#pragma unroll
    for (int h = 0; h < HEADS_AT_ONCE; h++) {
        int head = first + h;
        if (head >= all) continue;
        float2 x = make_float2(to_float(low[h].v[0]), to_float(low[h].v[1]));
        float2 y = make_float2(to_float(high[h].v[0]), to_float(high[h].v[1]));
        if (a.bias) {
            float2 u = *(const float2 *)(a.bias + head * DIM + i),
                   v = *(const float2 *)(a.bias + head * DIM + HALF + i);
            x = make_float2(x.x + u.x, x.y + u.y);
            y = make_float2(y.x + v.x, y.y + v.y);
        }
        if (head < a.n_heads + a.n_kv_heads) {
            float2 u = x, v = y;
            rope_pair(u.x, v.x, make_float2(turn.x, turn.y), x.x, y.x);
            rope_pair(u.y, v.y, make_float2(turn.z, turn.w), x.y, y.y);
        }
        if (head < a.n_heads) {
            T *out = q + ((int64_t)token * a.n_heads + head) * DIM + i;
            *(Pair<T> *)out = Pair<T>{from_float<T>(x.x), from_float<T>(x.y)};
            *(Pair<T> *)(out + HALF) = Pair<T>{from_float<T>(y.x), from_float<T>(y.y)};
        } else if (stored) {
            bool is_k = head < a.n_heads + a.n_kv_heads;
            __half *out = (__half *)(is_k ? a.kv.k : a.kv.v) + slot +
                          (head - a.n_heads - (is_k ? 0 : a.n_kv_heads)) * a.kv.head_stride;
            *(__half2 *)out = __floats2half2_rn(x.x, x.y);
            *(__half2 *)(out + HALF) = __floats2half2_rn(y.x, y.y);
        }
    }
}

template <class T, class Sum, int DIM>
static cudaError_t launch_whole_heads(const CudaBackend *cuda, const HeadArguments &a, T *q) {
    int each = HEADS_AT_ONCE * 128 / (DIM / 4), all = a.n_heads + 2 * a.n_kv_heads;
    dim3 grid(cuda->step.n_tokens, (all + each - 1) / each);
    return launch_dependent(cuda, whole_heads_kernel<T, Sum, DIM>, grid, 128, 0, a,
                            (const Sum *)cuda->scratch.wide, q);
}

template <class T, class Sum, int TOKENS, int DIM>
static cudaError_t launch_any_heads(const CudaBackend *cuda, const HeadArguments &a, T *q) {
    auto kernel = heads_kernel<T, Sum, TOKENS, DIM>;
    dim3 grid((a.n_tokens + 4 * TOKENS - 1) / (4 * TOKENS), a.n_heads + 2 * a.n_kv_heads);
    size_t floats =
        (a.kv.key_feedback ? feedback_floats(a.head_dim) : 0) + 4 * TOKENS * row_floats(a.head_dim);
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            (int)(floats * sizeof(float)));
    if (code != cudaSuccess) return code;
    return launch_dependent(cuda, kernel, grid, 128, floats * sizeof(float), a,
                            (const Sum *)cuda->scratch.wide, q);
}

// From what the GEMM has stored in cuda->scratch.wide, in `Sum`.
template <class T, class Sum>
cudaError_t heads_finish(const CudaBackend *cuda, HeadsKernel kernel, const HeadArguments &a, void *to) {
    T *q = (T *)to;
    switch (kernel) {
    case HEADS_WHOLE:
        return a.head_dim == 128 ? launch_whole_heads<T, Sum, 128>(cuda, a, q)
                                 : launch_whole_heads<T, Sum, 64>(cuda, a, q);
    case HEADS_TOGETHER: // a row of feedback is read once for several tokens
        return a.head_dim == 128 ? launch_any_heads<T, Sum, HEADS_TOGETHER_TOKENS, 128>(cuda, a, q)
                                 : launch_any_heads<T, Sum, HEADS_TOGETHER_TOKENS, 0>(cuda, a, q);
    default:
        return a.head_dim == 128 ? launch_any_heads<T, Sum, 1, 128>(cuda, a, q)
                                 : launch_any_heads<T, Sum, 1, 0>(cuda, a, q);
    }
}

template cudaError_t heads_finish<INSTANCE>(const CudaBackend *cuda, HeadsKernel kernel,
                                            const HeadArguments &a, void *q);
