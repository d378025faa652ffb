// A gated delta rule (DeltaRule in kernels/decoder_shape.h): qkv of a layer that recurs.
//
//   products of GEMMs     c = [q | k | v] in scratch.wide; z and the rates in scratch.gates
//   delta_mix_kernel      convolution, SiLU, lengths of q and k; β, γ, q·k → scratch.recurring; the state's c
//   delta_rule_kernel     the recurrence, token by token → qᵀ·S in the place of c; the state's S
//   or delta_chunks()     both of a long prompt, many tokens at once
//   delta_end_kernel      y = norm(qᵀ·S)·silu(z)
//   or delta_added_kernel y = scale·norm((qᵀ·S + skip·v)·silu(z))
//
// Where every sequence has one token, delta_one_kernel does all three of them, with the same numbers, but for what adds, whose
// norms are of several heads. But for chunks, a token's go through the same operations in the same order wherever steps were cut
// and whatever stands beside it.
#ifndef PALAVER_KERNELS_CUDA_RECURRING_DELTA_CUH
#define PALAVER_KERNELS_CUDA_RECURRING_DELTA_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/recurring/delta_state.cuh"
#include "kernels/cuda/ops/products.cuh"

struct DeltaArguments {
    DeltaRule rule;
    int n_tokens, channels, width;      // delta_channels(), delta_width()
    const int32_t *sequence_of;         // CudaStep's
    const RecurringSequence *sequences; // likewise
    // Products: c [n_tokens, channels]; z, of rows of z_stride; those of w_beta, unless it adds, behind them of w_decay, of rows of
    // rates_stride.
    const void *c, *z, *rate_rows;
    DType c_type, z_type, rates_type;
    int z_stride, rates_stride;
    const float *conv, *conv_bias, *decay_rate, *decay_bias, *norm,
        *skip; // conv_bias, skip, norm: NULL: none
    float eps;
    float *states; // KvLayer's, of state_floats each
    int64_t state_floats;
    CudaRecurring between;
    float *raw; // [n_tokens, width] qᵀ·S; c may lie there
    bool turns; // dispatch_chunks_by_wgmma()
};

// What qkv does in a layer that recurs. y [n_tokens, delta_width()].
Status delta_qkv(CudaBackend *cuda, const Layer *layer, const float *x, const KvLayer *kv, void *y,
                 Error *error);

// delta_one.cu, for a.rule of which delta_one_fits(), to y in operand type; n_rows of `sequences`.
bool delta_one_fits(const DeltaRule *rule);
cudaError_t delta_one(const CudaBackend *cuda, const DeltaArguments &a, int n_rows, void *y);

// delta_chunks.cu: the only sequence of a step, many tokens at once, up to a.raw and the state behind them. Results depend on
// where steps are cut.
bool delta_chunks_fit(const DeltaArguments &a);
cudaError_t delta_chunks(const CudaBackend *cuda, const DeltaArguments &a);

// ---- what a warp or a thread does ----------------------------------------------------------------------------------

// A sequence, past the L1, for who looks at it ahead of kernels_before(): it is there since begin().
__device__ inline RecurringSequence delta_sequence(const DeltaArguments &a, int i) {
    const int4 s = __ldcg((const int4 *)(a.sequences + i));
    return RecurringSequence{s.x, s.y, s.z, s.w};
}

// Elements of a head that a lane has: lane, lane + 32, …
enum { DELTA_LANE = DELTA_MOST_DIM / 32 };

__device__ inline float delta_warp_sum(float v) {
#pragma unroll
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// c of a sequence's t-th token of the step; of one of the taps - 1 before it what the state before has.
__device__ inline float delta_c(const DeltaArguments &a, const RecurringSequence &s, int t, int channel) {
    if (t >= 0) return product_at(a.c, a.c_type, (int64_t)(s.first_token + t) * a.channels + channel);
    if (s.from < 0) return 0;
    return a.states[s.from * a.state_floats + (int64_t)(a.rule.taps - 1 + t) * a.channels + channel];
}

// c, float32, of the sequence's tokens first, first + 1, …, n <= CONVOLUTION_MOST_TAPS of them, all asked for at once.
__device__ inline void delta_some_c(const DeltaArguments &a, const RecurringSequence &s, int first, int n,
                                    int channel, float (&c)[CONVOLUTION_MOST_TAPS]) {
    const float *own = (const float *)a.c + (int64_t)(s.first_token + first) * a.channels + channel,
                *before = a.states + max(s.from, 0) * a.state_floats +
                          (int64_t)(a.rule.taps - 1 + first) * a.channels + channel;
#pragma unroll
    for (int j = 0; j < CONVOLUTION_MOST_TAPS; j++) {
        const bool there = j < n && (first + j >= 0 || s.from >= 0);
        c[j] = there ? (first + j >= 0 ? own : before)[(int64_t)j * a.channels] : 0;
    }
}

// silu(conv_bias + Σ conv[j]·c[t - (taps - 1) + j]). AT_ONCE: c is float32, and what is needed is asked for at once, which
// takes more instructions: where tokens are few.
template <bool AT_ONCE>
__device__ inline float delta_mixed(const DeltaArguments &a, const RecurringSequence &s, int t, int channel) {
    const int taps = a.rule.taps;
    float sum = a.conv_bias ? a.conv_bias[channel] : 0;
    if constexpr (AT_ONCE) {
        float weights[CONVOLUTION_MOST_TAPS], c[CONVOLUTION_MOST_TAPS];
#pragma unroll
        for (int j = 0; j < CONVOLUTION_MOST_TAPS; j++)
            weights[j] = j < taps ? __ldg(a.conv + (int64_t)channel * taps + j) : 0;
        delta_some_c(a, s, t - (taps - 1), taps, channel, c);
#pragma unroll
        for (int j = 0; j < CONVOLUTION_MOST_TAPS; j++)
            if (j < taps) sum = fmaf(weights[j], c[j], sum);
    } else {
        for (int j = 0; j < taps; j++)
            sum = fmaf(__ldg(a.conv + (int64_t)channel * taps + j),
                       delta_c(a, s, t - (taps - 1) + j, channel), sum);
    }
    return silu(sum);
}

// c of the sequence's last taps - 1 tokens, of which some may be of the state before, into the state behind.
template <bool AT_ONCE>
__device__ inline void delta_leave_c(const DeltaArguments &a, const RecurringSequence &s, int channel) {
    const int n = a.rule.taps - 1;
    float *to = a.states + s.to * a.state_floats + channel;
    if constexpr (AT_ONCE) {
        float c[CONVOLUTION_MOST_TAPS];
        delta_some_c(a, s, s.n_tokens - n, n, channel, c);
#pragma unroll
        for (int j = 0; j < CONVOLUTION_MOST_TAPS; j++)
            if (j < n) to[(int64_t)j * a.channels] = c[j];
    } else {
        for (int j = 0; j < n; j++) to[(int64_t)j * a.channels] = delta_c(a, s, s.n_tokens - n + j, channel);
    }
}

// A warp's q and k of a head: divided by their lengths, q by √key_dim as well, where the rule has such. Returns their product.
// Elements beyond the head are zeros.
__device__ inline float delta_scale_keys(const DeltaRule &rule, float (&q)[DELTA_LANE],
                                         float (&k)[DELTA_LANE]) {
    float of_q = 0, of_k = 0, dot = 0;
#pragma unroll
    for (int e = 0; e < DELTA_LANE; e++) of_q = fmaf(q[e], q[e], of_q), of_k = fmaf(k[e], k[e], of_k);
    of_q = 1 / (sqrtf(delta_warp_sum(of_q) + DELTA_LENGTH_EPS) * sqrtf((float)rule.key_dim));
    of_k = 1 / sqrtf(delta_warp_sum(of_k) + DELTA_LENGTH_EPS);
    if (rule.adds) of_q = of_k = 1;
#pragma unroll
    for (int e = 0; e < DELTA_LANE; e++) {
        q[e] = __fmul_rn(q[e], of_q), k[e] = __fmul_rn(k[e], of_k);
        dot = fmaf(q[e], k[e], dot);
    }
    return delta_warp_sum(dot);
}

// γ and β of a head of values, the latter where it adds softplus(…).
__device__ inline float2 delta_rates(const DeltaArguments &a, int token, int head) {
    const int64_t at = (int64_t)token * a.rates_stride + head;
    const bool adds = a.rule.adds;
    const float beta = adds ? 0 : product_at(a.rate_rows, a.rates_type, at),
                decay = product_at(a.rate_rows, a.rates_type, at + (adds ? 0 : a.rule.n_value_heads)) +
                        a.decay_bias[head];
    float softplus = decay > 20 ? decay : log1pf(expf(decay));
    if (adds && softplus < a.rule.least_step) softplus = a.rule.least_step; // NaN stays
    return make_float2(expf(__fmul_rn(-a.decay_rate[head], softplus)),
                       adds ? softplus : 1 / (1 + expf(-beta)));
}

// Element i of a head's silu(z).
__device__ inline float delta_gate(const DeltaArguments &a, int token, int head, int i) {
    return silu(product_at(a.z, a.z_type, (int64_t)token * a.z_stride + head * a.rule.value_dim + i));
}

// A warp ends a head of values: y = norm(raw)·silu(z), weight(i) and gate(i) being the norm's and silu(z).
template <class T, class Weight, class Gate>
__device__ inline void delta_end_head(const DeltaArguments &a, const float *raw, const Weight &weight,
                                      const Gate &gate, T *y) {
    const int dim = a.rule.value_dim, lane = threadIdx.x % 32;
    float v[DELTA_LANE], squares = 0;
#pragma unroll
    for (int e = 0; e < DELTA_LANE; e++) {
        v[e] = lane + 32 * e < dim ? raw[lane + 32 * e] : 0;
        squares = fmaf(v[e], v[e], squares);
    }
    const float scale = rsqrtf(delta_warp_sum(squares) / dim + a.eps);
#pragma unroll
    for (int e = 0; e < DELTA_LANE; e++) {
        const int i = lane + 32 * e;
        if (i < dim) y[i] = from_float<T>(v[e] * scale * weight(i) * gate(i));
    }
}

// Where S of a head lies in a state.
__device__ inline float *delta_head(const DeltaArguments &a, int state, int head) {
    return a.states + state * a.state_floats + (int64_t)(a.rule.taps - 1) * a.channels +
           (int64_t)head * a.rule.key_dim * a.rule.value_dim;
}

#endif
