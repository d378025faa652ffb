// A gated delta rule (DeltaRule in kernels/decoder_shape.h): qkv of a layer that recurs.
//
//   products of GEMMs     c = [q | k | v] in scratch.wide; z and the rates in scratch.gates
//   delta_mix_kernel      convolution, SiLU, lengths of q and k; β, γ, q·k → scratch.recurring; the state's c
//   delta_rule_kernel     the recurrence, token by token → qᵀ·S in the place of c; the state's S
//   or delta_chunks()     the same of a long prompt, many tokens at once
//   delta_end_kernel      y = norm(qᵀ·S)·silu(z)
//   or delta_added_kernel y = scale·norm((qᵀ·S + skip·v)·silu(z))
//
// Where every sequence has one token, delta_one_kernel does all three of them, with the same numbers, but for what adds, whose
// norms are of several heads. But for chunks, a token's go through the same operations in the same order wherever steps were cut
// and whatever stands beside it.
#ifndef PALAVER_KERNELS_CUDA_OPS_DELTA_CUH
#define PALAVER_KERNELS_CUDA_OPS_DELTA_CUH

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
    float *raw;    // [n_tokens, width] qᵀ·S; c may lie there
    float *chunks; // of delta_chunks()
    int n_chunks;
};

// What qkv does in a layer that recurs. y [n_tokens, delta_width()].
Status delta_qkv(CudaBackend *cuda, const Layer *layer, const float *x, const KvLayer *kv, void *y,
                 Error *error);

// delta_one.cu, for a.rule of which delta_one_fits(), to y in operand type; n_rows of `sequences`.
bool delta_one_fits(const DeltaRule *rule);
cudaError_t delta_one(const CudaBackend *cuda, const DeltaArguments &a, int n_rows, void *y);

// delta_chunks.cu: the recurrence of `longest` tokens, the most that one of n_rows sequences has, many at once, behind
// delta_mix_kernel, to a.raw. Results depend on where steps are cut.
bool delta_chunks_fit(const DeltaArguments &a, int n_rows, int longest);
cudaError_t delta_chunks(const CudaBackend *cuda, DeltaArguments a, int n_rows, int longest);

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

__device__ inline int delta_key_head(const DeltaRule &rule, int head) {
    return rule.keys_alternate ? head % rule.n_key_heads : head / (rule.n_value_heads / rule.n_key_heads);
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

// ---- the recurrence ----------------------------------------------------------------------------------------------

// S of 8 columns of a head, by a warp, in registers:
//
//   lane = 4·g + c      columns 2c and 2c + 1      rows 32·j + 4·g + i      0 <= i < 4, 0 <= j < J, key_dim <= 32·J
//
// so that a lane's elements of k and q are J vectors of four, which the eight groups g read side by side and the four lanes of a
// group together, and a row's 8 columns are one sector of memory. Rows beyond key_dim are zeros.
template <int J> struct DeltaState {
    float2 s[J][4];

    __device__ static int row(int j, int i) { return j * 32 + threadIdx.x % 32 / 4 * 4 + i; }

    // at: the first element of the lane's columns; NULL: zeros. They are of a step before, so that begin() lies in between, and
    // nobody has to wait for kernels_before(); past the L1, which may hold what was there before that.
    __device__ void load(const float *at, int key_dim, int stride) {
#pragma unroll
        for (int j = 0; j < J; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[j][i] = at && row(j, i) < key_dim
                              ? __ldcg((const float2 *)(at + (int64_t)row(j, i) * stride))
                              : make_float2(0, 0);
    }
    __device__ void store(float *at, int key_dim, int stride) const {
#pragma unroll
        for (int j = 0; j < J; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (row(j, i) < key_dim) *(float2 *)(at + (int64_t)row(j, i) * stride) = s[j][i];
    }

    // Goes on by a token: γ, β, q·k, and v of the lane's two columns. Returns qᵀ·S of one of them, the first in groups of even g, the
    // second in odd ones. k and q of the lane, by row(j, 0): keys.k(j), keys.q(j). ADDS: δ is β·v.
    //
    // δ = β·(v - γ·kᵀS), S = γ·S + k·δ, and qᵀ of that is γ·qᵀS + (q·k)·δ: both products are of the old S, and summed up over
    // the groups at the same time, those of k for both columns in each, so that none has to wait for another's δ.
    template <bool ADDS, class Keys>
    __device__ float step(float2 rates, float dot, float2 v, const Keys &keys) {
        const bool odd = threadIdx.x & 4;
        float of_k[2] = {0, 0}, of_q[2] = {0, 0};
#pragma unroll
        for (int j = 0; j < J; j++) {
            const float4 k4 = keys.k(j), q4 = keys.q(j);
            const float k[4] = {k4.x, k4.y, k4.z, k4.w}, q[4] = {q4.x, q4.y, q4.z, q4.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                of_k[0] = fmaf(k[i], s[j][i].x, of_k[0]), of_k[1] = fmaf(k[i], s[j][i].y, of_k[1]);
                of_q[0] = fmaf(q[i], s[j][i].x, of_q[0]), of_q[1] = fmaf(q[i], s[j][i].y, of_q[1]);
            }
        }
        float own_q = odd ? of_q[1] : of_q[0];
        own_q += __shfl_xor_sync(~0u, odd ? of_q[0] : of_q[1], 4);
        if (!ADDS)
#pragma unroll
            for (int o = 4; o < 32; o *= 2) {
                of_k[0] += __shfl_xor_sync(~0u, of_k[0], o);
                of_k[1] += __shfl_xor_sync(~0u, of_k[1], o);
            }
#pragma unroll
        for (int o = 8; o < 32; o *= 2) own_q += __shfl_xor_sync(~0u, own_q, o);
        const float first = __fmul_rn(rates.y, ADDS ? v.x : fmaf(-rates.x, of_k[0], v.x)),
                    second = __fmul_rn(rates.y, ADDS ? v.y : fmaf(-rates.x, of_k[1], v.y));
#pragma unroll
        for (int j = 0; j < J; j++) {
            const float4 k4 = keys.k(j);
            const float k[4] = {k4.x, k4.y, k4.z, k4.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[j][i].x = fmaf(k[i], first, __fmul_rn(rates.x, s[j][i].x));
                s[j][i].y = fmaf(k[i], second, __fmul_rn(rates.x, s[j][i].y));
            }
        }
        return fmaf(rates.x, own_q, __fmul_rn(dot, odd ? second : first));
    }

    // The columns of step()'s v, and that of what it returns, of the warp's 8; one of the lanes that have it stores it.
    __device__ static int columns() {
        return threadIdx.x % 4 * 2;
    }
    __device__ static int own_column() {
        return columns() + (threadIdx.x & 4 ? 1 : 0);
    }
    __device__ static bool stores_column() {
        return threadIdx.x % 32 < 8;
    }
};

// Where S of a head lies in a state.
__device__ inline float *delta_head(const DeltaArguments &a, int state, int head) {
    return a.states + state * a.state_floats + (int64_t)(a.rule.taps - 1) * a.channels +
           (int64_t)head * a.rule.key_dim * a.rule.value_dim;
}

#endif
