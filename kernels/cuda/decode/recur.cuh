// What takes the place of attention in a layer that recurs (DeltaRule in kernels/decoder_shape.h), and what gives out its
// input where there are gates.
//
// A block has some columns of a head of values, and goes on with them by the token: what of q, k and v it needs, convolved by
// itself from the c of the tokens before, then a warp 8 columns of S in registers. S, c and what is known of the layer are
// asked for before the token's own c is there. qᵀ·S is published; norms, which need all of a head, and gates are every
// reader's own.
#ifndef PALAVER_KERNELS_CUDA_DECODE_RECUR_CUH
#define PALAVER_KERNELS_CUDA_DECODE_RECUR_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/decode/exchange.cuh"
#include "kernels/cuda/recurring/delta_state.cuh"

// ---- the state --------------------------------------------------------------------------------------------------

// A head's token, in the place of a phase's input. Zeros behind the head's own elements.
struct RecurShared {
    float q[RECUR_MOST_DIM], k[RECUR_MOST_DIM], v[RECUR_MOST_DIM]; // of v the block's columns
};

__device__ inline float receive(const uint32_t *from, unsigned round) {
    uint32_t v;
    do v = load_relaxed(from);
    while (!of_round(v, round));
    return carried(v);
}

// A block's part of a head of values.
struct RecurPart {
    int head, key, first, columns; // key: the head of q and k
    bool leads;                    // delta_leads(), of the head's first part
    __device__ RecurPart(const DecodeArguments &a, int part) {
        const DeltaRule &rule = a.delta;
        head = part / a.head_parts, key = delta_key_head(rule, head);
        columns = rule.value_dim / a.head_parts, first = part % a.head_parts * columns;
        leads = first == 0 && delta_leads(rule, head);
    }
};

// An element that the block convolves: i < 2·RECUR_MOST_DIM of q or k, else of v. Its channel, -1: the head has none there, or v
// no column.
struct RecurElement {
    int channel;
    bool leaves;
    __device__ RecurElement(const DeltaRule &rule, const RecurPart &part, int i) {
        const int keys = rule.n_key_heads * rule.key_dim, e = i % RECUR_MOST_DIM;
        const bool is_v = i >= 2 * RECUR_MOST_DIM;
        const bool there = e < (is_v ? part.columns : rule.key_dim);
        channel = !there ? -1
                  : is_v ? 2 * keys + part.head * rule.value_dim + part.first + e
                         : (i >= RECUR_MOST_DIM ? keys : 0) + part.key * rule.key_dim + e;
        leaves = is_v || part.leads;
    }
};

// c of a channel in the tokens before, the oldest first, and what it is convolved with: the last taps of RECUR_MOST_TAPS.
struct RecurTaps {
    float c[RECUR_MOST_TAPS - 1], conv[RECUR_MOST_TAPS], bias;
    __device__ void load(const DecodeArguments &a, const DecodeGated &g, int channel) {
        const int taps = a.delta.taps, ahead = RECUR_MOST_TAPS - taps;
        const float *before = g.states + max(a.state_from, 0) * a.state_floats + channel - ahead * a.channels,
                    *weights = g.conv + channel * taps - ahead;
#pragma unroll
        for (int j = 0; j < RECUR_MOST_TAPS; j++) {
            conv[j] = j >= ahead ? __ldg(weights + j) : 0;
            if (j + 1 < RECUR_MOST_TAPS)
                c[j] = j >= ahead && a.state_from >= 0 ? __ldcg(before + j * a.channels) : 0;
        }
        bias = g.conv_bias ? __ldg(g.conv_bias + channel) : 0;
    }
    __device__ float mixed(float own) const {
        float sum = bias;
#pragma unroll
        for (int j = 0; j + 1 < RECUR_MOST_TAPS; j++) sum = fmaf(conv[j], c[j], sum);
        return silu(fmaf(conv[RECUR_MOST_TAPS - 1], own, sum));
    }
    // What they are for the next token.
    __device__ void leave(const DecodeArguments &a, const DecodeGated &g, int channel, float own) const {
        const int ahead = RECUR_MOST_TAPS - a.delta.taps;
        float *to = g.states + a.state_to * a.state_floats + channel - ahead * a.channels;
#pragma unroll
        for (int j = 0; j + 1 < RECUR_MOST_TAPS; j++)
            if (j >= ahead)
                to[j * a.channels] =
                    j + 2 < RECUR_MOST_TAPS ? c[j + 1 < RECUR_MOST_TAPS - 1 ? j + 1 : j] : own;
    }
};

// log(1 + e^x), of what is small by its series.
__device__ inline float softplus(float x) {
    const float e = exp2_approx(x * 1.44269504f);
    return x > 20 ? x : e < 0.02f ? e * fmaf(e, fmaf(e, 0.33333333f, -0.5f), 1) : __logf(1 + e);
}

// γ and β of a head of values, the latter where it adds softplus(…).
__device__ inline float2 recur_rates(const DecodeArguments &a, const DecodeGated &g, int head, unsigned round,
                                     float decay_rate, float decay_bias) {
    const bool adds = a.delta.adds;
    const uint32_t *rates = a.qkv + g.gates_at + a.state_width + head;
    const float beta = adds ? 0 : receive(rates, round);
    const float step = softplus(receive(rates + (adds ? 0 : a.delta.n_value_heads), round) + decay_bias);
    return make_float2(exp2_approx(-1.44269504f * decay_rate * step),
                       adds ? step : reciprocal_approx(1 + exp2_approx(-1.44269504f * beta)));
}

// The head's q and k as a warp's lanes want them, divided by their lengths.
struct RecurKeys {
    const RecurShared &token;
    float of_q, of_k, dot;
    __device__ RecurKeys(const DeltaRule &rule, const RecurShared &s) : token(s), of_q(1), of_k(1) {
        const int lane = threadIdx.x % 32;
        const float4 a = *(const float4 *)&s.q[lane * 4], b = *(const float4 *)&s.k[lane * 4];
        const float all = warp_sum(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w);
        if (!rule.adds) {
            const float squares = warp_sum(a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w);
            of_q = rsqrtf((squares + DELTA_LENGTH_EPS) * (float)rule.key_dim);
            of_k = rsqrtf(warp_sum(b.x * b.x + b.y * b.y + b.z * b.z + b.w * b.w) + DELTA_LENGTH_EPS);
        }
        dot = all * of_q * of_k;
    }
    static __device__ float4 times(float4 v, float f) {
        return make_float4(v.x * f, v.y * f, v.z * f, v.w * f);
    }
    __device__ float4 q(int j) const {
        return times(*(const float4 *)&token.q[DeltaState<4>::row(j, 0)], of_q);
    }
    __device__ float4 k(int j) const {
        return times(*(const float4 *)&token.k[DeltaState<4>::row(j, 0)], of_k);
    }
};

// The phase of one layer, by WARPS warps; `memory`: shared memory. Its instructions are run once a layer and come from afar:
// what can be a loop is one. A part of the kernel and no function apart, as below: around calls all that rows are multiplied
// with would go to memory and come back for every group of rows.
template <int WARPS>
__device__ __forceinline__ void recur_phase(const DecodeArguments &a, const DecodeGated &g, int layer,
                                            char *memory, uint32_t multiplied) {
    const DeltaRule &rule = a.delta;
    const unsigned round = a.round + layer + 1;
    const int n_parts = rule.n_value_heads * a.head_parts, of_head = rule.key_dim * rule.value_dim;
    RecurShared &s = *(RecurShared *)memory;
    if ((int)blockIdx.x >= n_parts) return sync_warps(); // between two arrivals
#pragma unroll 1
    for (int p = blockIdx.x; p < n_parts; p += gridDim.x) {
        const RecurPart part(a, p);
        const float decay_rate = __ldg(g.decay_rate + part.head),
                    decay_bias = __ldg(g.decay_bias + part.head);
        const float skip = rule.adds ? __ldg(g.skip + part.head) : 0;
        const int64_t at = (int64_t)(rule.taps - 1) * a.channels + (int64_t)part.head * of_head + part.first +
                           DeltaState<4>::columns();
        int column = threadIdx.x / 32 * 8;
        DeltaState<4> state;
        if (column < part.columns)
            state.load(a.state_from >= 0 ? g.states + a.state_from * a.state_floats + at + column : NULL,
                       rule.key_dim, rule.value_dim);
#pragma unroll 1
        for (int i = threadIdx.x; i < 3 * RECUR_MOST_DIM; i += WARPS * 32) {
            const RecurElement e(rule, part, i);
            RecurTaps taps;
            if (e.channel >= 0) taps.load(a, g, e.channel);
            if (i >= WARPS * 32) {
            } else if (p == (int)blockIdx.x) {
                await(a.phases[PHASE_ATTEND].awaited, round * gridDim.x - a.early);
            } else {
                sync_warps();
            }
            float mixed = 0;
            if (e.channel >= 0) {
                const float own = receive(a.qkv + e.channel, round);
                mixed = taps.mixed(own);
                if (e.leaves) taps.leave(a, g, e.channel, own);
            }
            s.q[i] = mixed; // or k's or v's, which follow it
        }
        sync_warps();
        if (p == (int)blockIdx.x && threadIdx.x == 0) tell_place(multiplied, layer, PHASE_ATTEND);
        if (column >= part.columns) continue;
        const float2 rates = recur_rates(a, g, part.head, round, decay_rate, decay_bias);
        const RecurKeys keys(rule, s);
#pragma unroll 1
        for (;;) {
            const float2 v = *(const float2 *)&s.v[column + DeltaState<4>::columns()];
            float raw = rule.adds ? state.step<true>(rates, keys.dot, v, keys)
                                  : state.step<false>(rates, keys.dot, v, keys);
            const int own = column + DeltaState<4>::own_column();
            if (rule.adds) raw = fmaf(skip, s.v[own], raw);
            if (DeltaState<4>::stores_column())
                publish(a.attended + part.head * rule.value_dim + part.first + own, raw, round);
            state.store(g.states + a.state_to * a.state_floats + at + column, rule.key_dim, rule.value_dim);
            column += WARPS * 8;
            if (column >= part.columns) break;
            state.load(a.state_from >= 0 ? g.states + a.state_from * a.state_floats + at + column : NULL,
                       rule.key_dim, rule.value_dim);
        }
    }
}

// ---- gates -------------------------------------------------------------------------------------------------------

// load_input() of what gates multiply: of at most TURNS turns, which are asked for at once and then gone through in a loop
// whose registers move up, as there. Gates are there since qkv.
template <int TURNS>
__device__ __forceinline__ float load_gated_input(const DecodeArguments &a, const DecodeGated &g,
                                                  InputSource s, Input x, float *sums) {
    const int mine = threadIdx.x * 4, dim = a.delta.value_dim;
    const bool of_state = g.gate == GATE_STATE, of_all = g.gate == GATE_ADDED;
    uint4 v[TURNS], z[TURNS];
    InputSource of_gates = s;
    of_gates.from = a.qkv + g.gates_at;
    float squares = 0;
    uint32_t top = 0;
    receive_turns(of_gates, mine, z);
    await(s.counter, s.target);
    receive_turns(s, mine, v);
#pragma unroll 1
    for (int i = mine, begin = 0; begin < s.cols; i += INPUT_SPAN, begin += INPUT_SPAN) {
        float4 f = make_float4(0, 0, 0, 0), w = make_float4(1, 1, 1, 1);
        const bool there = i < s.cols;
        if (there) f = carried_4(v[0]);
        if (there && (of_state || of_all))
            w = __ldg((const float4 *)(g.norm + (of_state ? i & (dim - 1) : i)));
        const float4 gate = carried_4(z[0]);
        // silu(x) = x·sigmoid(x)
        float4 by = make_float4(reciprocal_approx(1 + exp2_approx(gate.x * -1.44269504f)),
                                reciprocal_approx(1 + exp2_approx(gate.y * -1.44269504f)),
                                reciprocal_approx(1 + exp2_approx(gate.z * -1.44269504f)),
                                reciprocal_approx(1 + exp2_approx(gate.w * -1.44269504f)));
        if (g.gate != GATE_SIGMOID)
            by = make_float4(by.x * gate.x, by.y * gate.y, by.z * gate.z, by.w * gate.w);
        if (of_state) { // a head is dim / 4 neighbouring lanes
            float of_head = f.x * f.x + f.y * f.y + f.z * f.z + f.w * f.w;
#pragma unroll 1
            for (int o = 1; o < dim / 4; o *= 2) of_head += __shfl_xor_sync(~0u, of_head, o);
            const float scale = rsqrtf(__fdividef(of_head, (float)dim) + a.delta.norm_eps);
            by = make_float4(by.x * scale, by.y * scale, by.z * scale, by.w * scale);
        }
        f = make_float4(f.x * by.x, f.y * by.y, f.z * by.z, f.w * by.w);
        squares += f.x * f.x + f.y * f.y + f.z * f.z + f.w * f.w;
        f = make_float4(f.x * w.x, f.y * w.y, f.z * w.z, f.w * w.w);
        if (s.floats && there) *(float4 *)(x.floats + float_index(i)) = f;
        if (s.quants) store_quants<1>(x, &f, &i, s.cols);
        if (s.halves) store_halves(x, f, i, s.cols);
        top = max(top, magnitude_bits(f));
        const uint4 kept = make_uint4(__float_as_uint(f.x), __float_as_uint(f.y), __float_as_uint(f.z),
                                      __float_as_uint(f.w));
#pragma unroll
        for (int t = 0; t + 1 < TURNS; t++) v[t] = v[t + 1], z[t] = z[t + 1];
        v[TURNS - 1] = kept; // for W8
    }
    squares = warp_sum(squares);
    top = __reduce_max_sync(~0u, top);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = squares, sums[16 + threadIdx.x / 32] = __uint_as_float(top);
    sync_warps();
    const float scale = of_all ? rsqrtf(__fdividef(sum_of_warps(sums), (float)s.cols) + a.delta.norm_eps) : 1;
    if (!s.whole) return scale;
#pragma unroll 1
    for (int i = 16; i < 32; i++) top = max(top, __float_as_uint(sums[i])); // zeros behind the warps'
    const float unit = w8_scale(__uint_as_float(top));
    const W8Divisor by(unit);
    const int turns = (s.cols + INPUT_SPAN - 1) / INPUT_SPAN;
#pragma unroll
    for (int t = 0; t < TURNS; t++) { // the last turns of v are what there is
        const int i = (t - (TURNS - turns)) * INPUT_SPAN + mine;
        if (t < TURNS - turns || i >= s.cols) continue;
        *(uint32_t *)(x.quants + i) = by.four(make_float4(__uint_as_float(v[t].x), __uint_as_float(v[t].y),
                                                          __uint_as_float(v[t].z), __uint_as_float(v[t].w)));
    }
    sync_warps();
    return scale * unit;
}

#endif
