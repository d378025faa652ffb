// qkv of a layer that recurs, where every sequence has one token: one kernel, which reads S once and writes it once.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/ops/delta.cuh"

enum { ONE_MOST_DIM = 128 };

// A head's token between its threads.
template <int J> struct OneToken {
    float q[32 * J], k[32 * J], v[ONE_MOST_DIM], raw[ONE_MOST_DIM];
    float2 rates;
    float dot;
};

// A lane's vectors, read when they are needed: there are registers for S and little more.
template <int J> struct OneKeys {
    const OneToken<J> &token;
    __device__ float4 q(int j) const { return *(const float4 *)&token.q[DeltaState<J>::row(j, 0)]; }
    __device__ float4 k(int j) const { return *(const float4 *)&token.k[DeltaState<J>::row(j, 0)]; }
};

// A thread an element of q, k and v: the convolution, and what the state keeps of it. Heads of values that share q and k leave
// them to the first.
template <int J>
__device__ inline void mix_one(const DeltaArguments &a, const RecurringSequence &s, int head,
                               OneToken<J> *to) {
    const DeltaRule &rule = a.rule;
    const int key = delta_key_head(rule, head), keys = rule.n_key_heads * rule.key_dim;
    const bool first =
        rule.keys_alternate ? head < rule.n_key_heads : head % (rule.n_value_heads / rule.n_key_heads) == 0;
    for (int i = threadIdx.x; i < 64 * J + rule.value_dim; i += blockDim.x) {
        const bool is_v = i >= 64 * J, is_k = !is_v && i >= 32 * J;
        const int e = is_v ? i - 64 * J : is_k ? i - 32 * J : i;
        const bool there = is_v || e < rule.key_dim;
        const int channel =
            is_v ? 2 * keys + head * rule.value_dim + e : (is_k ? keys : 0) + key * rule.key_dim + e;
        float *where = is_v ? &to->v[e] : is_k ? &to->k[e] : &to->q[e];
        *where = there ? delta_mixed(a, s, 0, channel) : 0;
        if (there && (is_v || first)) delta_leave_c(a, s, channel);
    }
}

// A warp's lengths of q and k.
template <int J> __device__ inline void scale_one(const DeltaRule &rule, OneToken<J> *token) {
    const int lane = threadIdx.x % 32;
    float q[DELTA_LANE], k[DELTA_LANE];
#pragma unroll
    for (int e = 0; e < DELTA_LANE; e++) {
        q[e] = e < J ? token->q[lane + 32 * e] : 0;
        k[e] = e < J ? token->k[lane + 32 * e] : 0;
    }
    const float dot = delta_scale_keys(q, k, rule.key_dim);
#pragma unroll
    for (int e = 0; e < J; e++) token->q[lane + 32 * e] = q[e], token->k[lane + 32 * e] = k[e];
    if (lane == 0) token->dot = dot;
}

// A block a head of values of a sequence, a warp 8 columns of its S, as DeltaState says. Of a sequence that is not there y
// becomes zeros. Grid: [n_value_heads, rows], block: 4·value_dim.
template <class T, int J>
__global__ void __launch_bounds__(4 * ONE_MOST_DIM, 2)
    delta_one_kernel(const __grid_constant__ DeltaArguments a, T *y) {
    __shared__ __align__(16) OneToken<J> token;
    const DeltaRule &rule = a.rule;
    const int head = blockIdx.x, column = threadIdx.x / 32 * 8;
    const RecurringSequence s =
        a.sequences[blockIdx.y]; // these, and the state before, are there since begin()
    DeltaState<J> state;
    let_next_begin();
    const int own = column + threadIdx.x % 4 * 2;
    state.load(s.to >= 0 && s.from >= 0 ? delta_head(a, s.from, head) + own : NULL, rule.key_dim,
               rule.value_dim);
    kernels_before();
    T *to = y + (int64_t)(s.to < 0 ? (int)blockIdx.y : s.first_token) * a.width + head * rule.value_dim;
    if (s.to < 0) {
        if (threadIdx.x < rule.value_dim) to[threadIdx.x] = from_float<T>(0);
        return;
    }
    mix_one<J>(a, s, head, &token);
    __syncthreads();
    if (threadIdx.x < 32) scale_one<J>(rule, &token);
    if (threadIdx.x == blockDim.x - 1) token.rates = delta_rates(a, s.first_token, head);
    __syncthreads();
    const int value = column + DeltaState<J>::own_column();
    const float raw = state.step(token.rates, token.dot, token.v[value], OneKeys<J>{token});
    if (DeltaState<J>::stores_column()) token.raw[value] = raw;
    __syncthreads();
    state.store(delta_head(a, s.to, head) + own, rule.key_dim, rule.value_dim);
    if (threadIdx.x < 32) delta_end_head<T>(a, s.first_token, head, token.raw, to);
}

bool delta_one_fits(const DeltaRule *rule) {
    return rule->key_dim <= ONE_MOST_DIM && rule->value_dim <= ONE_MOST_DIM;
}

template <class T>
static cudaError_t launch_one(const CudaBackend *cuda, const DeltaArguments &a, int n_rows, T *y) {
    const dim3 grid(a.rule.n_value_heads, n_rows), block(4 * a.rule.value_dim);
    return a.rule.key_dim <= 32   ? launch_dependent(cuda, delta_one_kernel<T, 1>, grid, block, 0, a, y)
           : a.rule.key_dim <= 64 ? launch_dependent(cuda, delta_one_kernel<T, 2>, grid, block, 0, a, y)
                                  : launch_dependent(cuda, delta_one_kernel<T, 4>, grid, block, 0, a, y);
}

cudaError_t delta_one(const CudaBackend *cuda, const DeltaArguments &a, int n_rows, void *y) {
    cudaError_t code;
    WITH_OPERAND(cuda, (code = launch_one<T>(cuda, a, n_rows, (T *)y)));
    return code;
}
