// The rows of a phase: which a warp has, their products, and what becomes of each.
#ifndef PALAVER_KERNELS_CUDA_DECODE_ROWS_CUH
#define PALAVER_KERNELS_CUDA_DECODE_ROWS_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/decode/cards.cuh"
#include "kernels/cuda/decode/choose.cuh"
#include "kernels/cuda/decode/dot.cuh"
#include "kernels/cuda/decode/ring.cuh"

// Of n sums the first moves up as the last.
template <class Sum> __device__ inline void put_behind(int n, Sum sum, Sum sums[ROWS_AT_ONCE]) {
#pragma unroll
    for (int i = 0; i < ROWS_AT_ONCE - 1; i++) sums[i] = i == n - 1 ? sum : sums[i + 1];
    sums[ROWS_AT_ONCE - 1] = sum;
}

// A chunk of each of the ring's next n rows (at most ROWS_AT_ONCE), `elements` from column `first` on: this lane's
// shares of the dot products. Of experts in a loop whose sums move up, not by code for ROWS_AT_ONCE rows: their phases have
// few rows a warp, and instructions that are run for the first time take longer to come than to run. Dense layers lose a
// fifth by it. TWOS: two rows at a time, so that neither's words are waited for alone. `kept`: what follows from the lane
// is computed here, where it is needed, instead of being held in registers through all of a layer.
template <int FORMAT, bool WHOLE, bool EXPERTS, bool TWOS, bool SHORT = false>
__device__ inline void gemv_chunks(int n, int first, int elements, const Input &x, Ring &ring,
                                   typename DotOf<FORMAT>::Sum sums[ROWS_AT_ONCE]) {
    typedef typename DotOf<FORMAT>::Sum Sum;
    const int lane = EXPERTS ? (int)kept(threadIdx.x % 32) : threadIdx.x % 32;
    SliceOf<FORMAT, SHORT> slice;
    slice.template load<WHOLE>(x, first, elements, lane);
    if constexpr (EXPERTS) {
        int left = n;
#pragma unroll 1
        for (; TWOS && left >= 2; left -= 2) {
            const char *one = ring.take(), *two = ring.take_behind();
            const Sum of_one = slice.template dot<WHOLE>(one, elements, lane, sums[0]);
            const Sum of_two = slice.template dot<WHOLE>(two, elements, lane, sums[1]);
            ring.give_back();
            ring.give_back();
            put_behind(n, of_one, sums);
            put_behind(n, of_two, sums);
        }
#pragma unroll 1
        for (; left > 0; left--) {
            const Sum sum = slice.template dot<WHOLE>(ring.take(), elements, lane, sums[0]);
            ring.give_back();
            put_behind(n, sum, sums);
        }
    } else {
#pragma unroll
        for (int r = 0; r < ROWS_AT_ONCE; r++)
            if (r < n) {
                sums[r] = slice.template dot<WHOLE>(ring.take(), elements, lane, sums[r]);
                ring.give_back();
            }
    }
}

// Whether whole chunks have code of their own. In a kernel of all formats they go as a row's last one does: such code took a
// third more instructions, and as much more of compiling, and was no faster. Nor is it for four to six bits, which wait for
// memory; of Q2 and Q3 it saves a quarter of the instructions, places that depend on a row's end.
__host__ __device__ constexpr bool has_whole_chunks(int format, DecodeFormats set) {
    return set == DECODE_FEW || set == DECODE_FEW_RATES || (set == DECODE_TWO && format_packed(format));
}

// The dot products of the ring's next n rows, of `cols` columns, chunk after chunk, in all lanes; of several pieces each row
// is the sum of what all its pieces give.
template <int FORMAT, DecodeFormats FORMATS, bool EXPERTS>
__device__ inline void gemv_group(int n, const DecodePhaseShape &p, int cols, const Input &x, Ring &ring,
                                  float dots[ROWS_AT_ONCE]) {
    constexpr int FULL = chunk_elements(FORMAT);
    typename DotOf<FORMAT>::Sum sums[ROWS_AT_ONCE] = {};
    int first = 0;
    if constexpr (EXPERTS) {
        constexpr bool TWOS = FORMATS == DECODE_FEW || FORMATS == DECODE_FEW_RATES,
                       TWO_BYTES = FORMAT == FORMAT_F16 || FORMAT == FORMAT_BF16;
        // Of a layer that recurs out has columns of its own.
        const int end = p.pieces > 1 ? p.pieces * p.pitch : cols;
#pragma unroll 1
        for (int left = cols; first < end;) {
            const int elements = min(FULL, left);
            if (TWOS && TWO_BYTES && elements <= FULL * 3 / 4)
                gemv_chunks<FORMAT, false, EXPERTS, TWOS, true>(n, first, elements, x, ring, sums);
            else
                gemv_chunks<FORMAT, false, EXPERTS, TWOS>(n, first, elements, x, ring, sums);
            first += elements, left -= elements;
            if (left == 0) first += p.pitch - p.cols, left = cols;
        }
    } else if constexpr (has_whole_chunks(FORMAT, FORMATS)) {
#pragma unroll 1
        for (; first + FULL <= cols; first += FULL)
            gemv_chunks<FORMAT, true, EXPERTS, false>(n, first, FULL, x, ring, sums);
        if (first < cols) gemv_chunks<FORMAT, false, EXPERTS, false>(n, first, cols - first, x, ring, sums);
    } else {
#pragma unroll 1
        for (; first < cols; first += FULL)
            gemv_chunks<FORMAT, false, EXPERTS, false>(n, first, min(FULL, cols - first), x, ring, sums);
    }
#pragma unroll
    for (int r = 0; r < ROWS_AT_ONCE; r++) dots[r] = DotOf<FORMAT>::total(sums[r]);
}

// The same of a format that the kernel has.
template <int FORMAT, DecodeCacheKind KIND, DecodeFormats FORMATS, bool EXPERTS>
__device__ inline void gemv_group_if(int n, const DecodePhaseShape &p, int cols, const Input &x, Ring &ring,
                                     float dots[ROWS_AT_ONCE]) {
    if constexpr (decode_multiplies(KIND, FORMAT, FORMATS))
        gemv_group<FORMAT, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
}

// Of a format that is known when it runs.
template <DecodeCacheKind KIND, DecodeFormats FORMATS, bool EXPERTS>
__device__ inline void gemv_group(int format, int n, const DecodePhaseShape &p, int cols, const Input &x,
                                  Ring &ring, float dots[ROWS_AT_ONCE]) {
    switch (format) {
    case FORMAT_F32:
        return gemv_group_if<FORMAT_F32, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_F16:
        return gemv_group_if<FORMAT_F16, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_BF16:
        return gemv_group_if<FORMAT_BF16, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_Q8:
        return gemv_group_if<FORMAT_Q8, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_Q8S:
        return gemv_group_if<FORMAT_Q8S, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_Q8M:
        return gemv_group_if<FORMAT_Q8M, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_Q4:
        return gemv_group_if<FORMAT_Q4, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_IQ4:
        return gemv_group_if<FORMAT_IQ4, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_FP4:
        return gemv_group_if<FORMAT_FP4, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_Q2:
        return gemv_group_if<FORMAT_Q2, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_Q3:
        return gemv_group_if<FORMAT_Q3, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_Q5:
        return gemv_group_if<FORMAT_Q5, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_Q5M:
        return gemv_group_if<FORMAT_Q5M, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_Q6:
        return gemv_group_if<FORMAT_Q6, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_E4M3:
        return gemv_group_if<FORMAT_E4M3, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_NF4:
        return gemv_group_if<FORMAT_NF4, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    case FORMAT_W8:
        return gemv_group_if<FORMAT_W8, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    default:
        return gemv_group_if<FORMAT_Q4M, KIND, FORMATS, EXPERTS>(n, p, cols, x, ring, dots);
    }
}

// Where the kernel is: in a phase of the layer-th layer.
struct PhaseOfLayer {
    const DecodeLayer &l;
    int phase, layer;
    const DecodeGated *gated; // where layers recur
    const DecodeKind *kind;   // where layers are of two kinds
};

// What is added to a row's product, or to those of a gate and an up: biases. That of down of experts is every chosen
// one's, by its weight.
struct RowBias {
    float first, up;
};
template <bool EXPERTS>
__device__ __forceinline__ RowBias row_bias(const DecodeArguments &a, const PhaseOfLayer &at,
                                            const ChosenExperts &chosen, int row) {
    const float *bias = at.l.bias[at.phase];
    RowBias add = {0, 0};
    if (EXPERTS && at.phase == PHASE_GATE_UP) {
        row += chosen.ahead[__umulhi((unsigned)row, a.size_factor)];
        if (at.l.up_bias) add.up = __ldg(at.l.up_bias + row);
    }
    if (!bias) return add;
    if (EXPERTS && at.phase == PHASE_DOWN)
#pragma unroll 1
        for (int j = 0; j < a.experts.n_active; j++)
            add.first =
                fmaf(chosen.weights[j], __ldg(bias + (int64_t)chosen.ids[j] * a.hidden + row), add.first);
    else
        add.first = __ldg(bias + row);
    return add;
}

template <bool EXPERTS> __device__ __forceinline__ float gated(Activation activation, float gate, float up) {
    return EXPERTS && activation == ACTIVATION_CLAMPED_SWIGLU ? clamped_swiglu(gate, up)
                                                              : activate(activation, gate) * up;
}

// What a phase multiplies, in shared memory: x times `scale`; and the residual stream.
struct PhaseInput {
    const Input &x;
    float scale;
    const float *residual;
};

// The rows of a phase that are this warp's, in groups, in the order in which its ring brings them. After a group
// lane r holds row r (of pairs, lane r pair r), and publishes it.
template <DecodeCacheKind KIND, DecodeFormats FORMATS, bool EXPERTS, bool CARDS, DecodeOthers OTHERS>
__device__ inline void gemv_rows(const DecodeArguments &a, const PhaseOfLayer &at, const PhaseInput &in,
                                 const ChosenExperts &chosen, Ring &ring) {
    const Input &x = in.x;
    const float scale = in.scale, *residual = in.residual;
    const DecodeLayer &l = at.l;
    const int phase = at.phase;
    const unsigned round = a.round + at.layer + 1;
    const DecodePhaseShape &p = a.phases[phase];
    constexpr bool RECURS = OTHERS == DECODE_RECURS, KINDS = OTHERS == DECODE_KINDS;
    const DecodeGated *of_qkv = RECURS && phase == PHASE_QKV ? at.gated : NULL;
    const QkvRows parts = qkv_rows<OTHERS>(a, at.kind);
    const int cols = RECURS && phase == PHASE_OUT && at.gated->recurs ? a.state_width
                     : KINDS && phase == PHASE_OUT                    ? parts.q
                                                                      : p.cols;
    const int n_units = RECURS && of_qkv              ? of_qkv->units()
                        : KINDS && phase == PHASE_QKV ? parts.all()
                                                      : p.units,
              lane = threadIdx.x % 32, stride = gridDim.x * DECODE_WARPS;
    const bool last = phase == PHASE_LOGITS, pairs = phase == PHASE_GATE_UP;
    const bool split = !RECURS && phase == PHASE_QKV && l.split_qkv;
    const int at_once = pairs ? ROWS_AT_ONCE / 2 : ROWS_AT_ONCE; // units
    const bool shared = CARDS && (phase == PHASE_OUT || phase == PHASE_DOWN);
    const bool halved = decode_halves<KIND, CARDS, OTHERS>() && a.is_halved(phase);
    const bool adds =
        !CARDS && !halved && ((phase == PHASE_OUT && !l.out_post) || (phase == PHASE_DOWN && !l.down_post));
    int format = last ? a.output.format : l.rows[phase].format;
    const float *channels = last ? a.output.scales : l.rows[phase].scales;
#pragma unroll 1
    for (int unit = threadIdx.x / 32 * gridDim.x + blockIdx.x, units = 0; unit < n_units;
         unit += units * stride) {
        int end = split ? parts.end_of_part(unit) : n_units;
        if (RECURS && of_qkv) {
            int part = 0;
            while (unit >= of_qkv->ends[part]) part++;
            const DecodeMatrix &m = of_qkv->parts[part];
            end = of_qkv->ends[part], format = m.format;
            channels = m.scales ? m.scales - of_qkv->begin(part) : NULL;
        }
        units = min(at_once, units_left(unit, stride, end));
        int mine = unit + lane * stride;
        bool publishes = lane < units;
        float s[ROWS_AT_ONCE];
        float2 factors = make_float2(scale, scale); // of a row, or of both of a pair
        if (channels && publishes) {
            factors.x *= __ldg(channels + (pairs ? 2 * mine : mine));
            if (pairs) factors.y *= __ldg(channels + 2 * mine + 1);
        }
        RowBias add = {0, 0};
        if (!last && publishes && !(halved && mine & 1)) // a row's first half has its bias
            add = row_bias<EXPERTS>(a, at, chosen, halved ? mine >> 1 : mine);
        if (adds && publishes) add.first += residual[mine];
        if (split && unit >= parts.q) format = unit < parts.q + parts.kv ? l.k.format : l.v.format;
        const int rows = pairs ? 2 * units : units;
        gemv_group<KIND, FORMATS, EXPERTS>(format, rows, p, cols, x, ring, s);
        if (!publishes) continue;
        float value;
        if (pairs) {
            float gate = lane ? s[2] : s[0], up = lane ? s[3] : s[1];
            value = gated<EXPERTS>(a.activation, gate * factors.x + add.first, up * factors.y + add.up);
            if (EXPERTS) value *= chosen.weights[__umulhi((unsigned)mine, a.size_factor)];
        } else {
            value = (lane == 0 ? s[0] : lane == 1 ? s[1] : lane == 2 ? s[2] : s[3]) * factors.x + add.first;
        }
        if (last)
            a.logits[mine] = a.logit_cap > 0 ? a.logit_cap * tanhf(value / a.logit_cap) : value;
        else if (shared)
            publish_share(a, phase == PHASE_DOWN, mine, value, round);
        else
            publish(p.to + (halved ? (mine & 1) * a.hidden + (mine >> 1) : mine), value, round);
    }
}

// The parts of the router's rows that are this warp's: few, and each the sooner done.
__device__ __forceinline__ void route_rows(const DecodeArguments &a, const PhaseOfLayer &at, const Input &x,
                                           float scale, Ring &ring) {
    const DecodePhaseShape &p = a.phases[PHASE_ROUTE];
    const unsigned round = a.round + at.layer + 1;
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int unit = threadIdx.x / 32 * gridDim.x + blockIdx.x; unit < p.units;
         unit += gridDim.x * DECODE_WARPS) {
        const int row = unit / a.route_parts, part = unit - row * a.route_parts;
        const int first = part * ROUTE_PART, n = min(ROUTE_PART, a.hidden - first);
        float add = 0;
        if (part == 0 && at.l.bias[PHASE_ROUTE]) add = __ldg(at.l.bias[PHASE_ROUTE] + row);
        Slice<FORMAT_F32> slice;
        slice.template load<false>(x, first, n, lane);
        const float2 sum = slice.template dot<false>(ring.take(), n, lane, make_float2(0, 0));
        ring.give_back();
        const float dot = DotOf<FORMAT_F32>::total(sum);
        if (lane == 0) publish(p.to + unit, dot * scale + add, round);
    }
}

#endif
