// qkv of a layer that recurs, where every sequence has one token: one kernel, which reads S once and writes it once.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/recurring/delta.cuh"

enum { ONE_MOST_DIM = 128 };

// A head's token between its threads.
template <int J> struct OneToken {
    float q[32 * J], k[32 * J], v[ONE_MOST_DIM], raw[ONE_MOST_DIM], weight[ONE_MOST_DIM], gate[ONE_MOST_DIM];
    float2 rates;
    float dot;
};

// A lane's vectors, read when they are needed: there are registers for S and little more.
template <int J> struct OneKeys {
    const OneToken<J> &token;
    __device__ float4 q(int j) const { return *(const float4 *)&token.q[DeltaState<J>::row(j, 0)]; }
    __device__ float4 k(int j) const { return *(const float4 *)&token.k[DeltaState<J>::row(j, 0)]; }
};

// Element i of a head's q, then k, as long as OneToken has them, then v.
template <int J> struct OneElement {
    int channel;
    bool there,
        keeps; // it is the head's; the state has its c from here, not from another head of values with the same q and k
    float *where;
    __device__ OneElement(const DeltaRule &rule, int head, int i, OneToken<J> *token) {
        const int key = delta_key_head(rule, head), keys = rule.n_key_heads * rule.key_dim;
        const bool is_v = i >= 64 * J, is_k = !is_v && i >= 32 * J, first = delta_leads(rule, head);
        const int e = is_v ? i - 64 * J : is_k ? i - 32 * J : i;
        channel = is_v ? 2 * keys + head * rule.value_dim + e : (is_k ? keys : 0) + key * rule.key_dim + e;
        there = e < (is_v ? rule.value_dim : rule.key_dim), keeps = there && (is_v || first);
        where = is_v ? &token->v[e] : is_k ? &token->k[e] : &token->q[e];
    }
};

// c of a channel in the tokens before, the oldest first.
struct OneBefore {
    float c[CONVOLUTION_MOST_TAPS - 1];
    __device__ void load(const DeltaArguments &a, const RecurringSequence &s, int channel) {
#pragma unroll
        for (int j = 0; j < CONVOLUTION_MOST_TAPS - 1; j++)
            c[j] = j < a.rule.taps - 1 && s.from >= 0
                       ? __ldcg(a.states + s.from * a.state_floats + (int64_t)j * a.channels + channel)
                       : 0;
    }
};

// delta_mixed(), and delta_leave_c() where `keeps`, of one token, all that they need asked for at once.
__device__ inline float mix_one(const DeltaArguments &a, const RecurringSequence &s, int channel, bool keeps,
                                const OneBefore &before) {
    const int most = CONVOLUTION_MOST_TAPS - 1, last = a.rule.taps - 1;
    const float *conv = a.conv + (int64_t)channel * a.rule.taps;
    const float own = product_at(a.c, a.c_type, (int64_t)s.first_token * a.channels + channel);
    float weights[most], sum = 0; // what has a bias adds
#pragma unroll
    for (int j = 0; j < most; j++) weights[j] = j < last ? __ldg(conv + j) : 0;
#pragma unroll
    for (int j = 0; j < most; j++)
        if (j < last) sum = fmaf(weights[j], before.c[j], sum);
    sum = fmaf(__ldg(conv + last), own, sum);
    float *to = a.states + s.to * a.state_floats + channel;
#pragma unroll
    for (int j = 0; j < most; j++)
        if (keeps && j < last)
            to[(int64_t)j * a.channels] = j + 1 < last ? before.c[j + 1 < most ? j + 1 : j] : own;
    return silu(sum);
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
    const float dot = delta_scale_keys(rule, q, k);
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
    const RecurringSequence s = delta_sequence(a, blockIdx.y);
    DeltaState<J> state;
    let_next_begin();
    const int own = column + DeltaState<J>::columns();
    state.load(s.to >= 0 && s.from >= 0 ? delta_head(a, s.from, head) + own : NULL, rule.key_dim,
               rule.value_dim);
    OneBefore before;
    const OneElement<J> first(rule, head, threadIdx.x, &token);
    if (s.to >= 0 && first.there) before.load(a, s, first.channel);
    kernels_before();
    T *to = y + (int64_t)(s.to < 0 ? (int)blockIdx.y : s.first_token) * a.width + head * rule.value_dim;
    if (s.to < 0) {
        if (threadIdx.x < rule.value_dim) to[threadIdx.x] = from_float<T>(0);
        return;
    }
    // The last threads, who have least of q, k and v, bring what is wanted later.
    const int from_last = (int)blockDim.x - 1 - (int)threadIdx.x;
    if (from_last < rule.value_dim)
        token.weight[from_last] = a.norm[from_last],
        token.gate[from_last] = delta_gate(a, s.first_token, head, from_last);
    if (from_last == 0) token.rates = delta_rates(a, s.first_token, head);
    for (int i = threadIdx.x; i < 64 * J + rule.value_dim; i += blockDim.x) {
        const OneElement<J> e(rule, head, i, &token);
        if (i >= blockDim.x && e.there) before.load(a, s, e.channel);
        *e.where = e.there ? mix_one(a, s, e.channel, e.keeps, before) : 0;
    }
    __syncthreads();
    if (threadIdx.x < 32) scale_one<J>(rule, &token);
    __syncthreads();
    const float raw =
        state.template step<false>(token.rates, token.dot, *(const float2 *)&token.v[own], OneKeys<J>{token});
    if (DeltaState<J>::stores_column()) token.raw[column + DeltaState<J>::own_column()] = raw;
    __syncthreads();
    state.store(delta_head(a, s.to, head) + own, rule.key_dim, rule.value_dim);
    if (threadIdx.x < 32)
        delta_end_head(
            a, token.raw, [&](int i) { return token.weight[i]; }, [&](int i) { return token.gate[i]; }, to);
}

bool delta_one_fits(const DeltaRule *rule) {
    return !rule->adds && rule->key_dim <= ONE_MOST_DIM && rule->value_dim <= ONE_MOST_DIM;
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
