// What a warp of the kernel of attention/split.cuh has summed up, and what its weights are relative to.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_SUMS_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_SUMS_CUH

#include "kernels/cuda/attention/split_ring.cuh"

template <class C, class SHAPE, int HEAD> struct SplitSums : SplitRing<C, SHAPE, HEAD> {
    typedef SHAPE Shape;
    static constexpr int EIGHTHS = Shape::KEYS / 8, SETS = Shape::SETS, WIDE = Shape::WIDE,
                         MMAS = Shape::MMAS, LANE_HEADS = Shape::LANE_HEADS;

    // Weights are 2^(score - base), at most 2^room; times scales, at most `ceiling`, they are below float16's largest.
    // With `given` bases nobody looks whether they are: is_safe() does, once all is summed up.
    float out[MMAS][WIDE][4] = {}, scale_sum[C::INTEGER ? SETS : 1][4] = {};
    float base[LANE_HEADS] = {}, sum[LANE_HEADS] = {}, slope[LANE_HEADS] = {};
    int32_t own[LANE_HEADS]; // positions of the tokens
    float room = 15, ceiling = 1;
    uint32_t seen = 0; // bit l: the lane's l-th row has seen a key
    bool given = false;
    static constexpr uint32_t ALL_SEEN = (1u << LANE_HEADS) - 1;

    __device__ SplitSums(const SplitBlock &block, char *memory) : SplitRing<C, SHAPE, HEAD>(block, memory) {}

    // Which of the block's rows a lane's l-th is.
    __device__ static int lane_head(int l) {
        int t = threadIdx.x % 4;
        return Shape::J == 1 ? l / 2 * 8 + 2 * t + l % 2 : 2 * t / Shape::J;
    }

    // What a split adds up to has its place between float16's smallest and largest numbers: here at 2^CENTRE.
    static constexpr float CENTRE = C::INTEGER ? 9 : 5;

    // What the lane's rows are: whose positions, ALiBi's slopes and, where the layer has them, bases. Columns beyond the
    // tile's rows score 0.
    __device__ void take_rows(const SplitRows &rows) {
        const AttendArguments &a = this->s.l.a;
        given = a.kv.score_bases != NULL;
#pragma unroll
        for (int l = 0; l < LANE_HEADS; l++) {
            int row = min(rows.first + lane_head(l), rows.n - 1);
            own[l] = this->tile.n_tokens == 1 ? this->position : a.positions[rows.token(row)];
            if (a.alibi != 0) slope[l] = LOG2_E * a.alibi * alibi_slope(rows.head(row), a.n_heads);
            if (!given) continue;
            bool there = rows.first + lane_head(l) < rows.n;
            base[l] = (there ? __ldg(a.kv.score_bases + rows.head(row)) : 0) - CENTRE;
        }
    }

    // Whether sums by given bases are what running maxima would have given. Above, all sums are finite only if all
    // weights were. Below, a weight is rounded by at most 2^-25: of n of them that is at most 2^-11 of a sum of n·2^-14,
    // as much as float16 takes off any weight. Weights times scales are what is rounded where there are scales; their
    // largest sum counts, for it is what results are made of.
    __device__ bool is_safe(int n) const {
        float none = 0, least = (float)n / (1 << 14);
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
            for (int i = 0; i < MMAS; i++)
#pragma unroll
                for (int w = 0; w < WIDE; w++) none = fmaf(0, out[i][w][c], none); // NaN if one is not finite
        bool safe = none == 0;
#pragma unroll
        for (int l = 0; l < LANE_HEADS; l++) {
            float total = sum[l];
            if constexpr (C::INTEGER) {
                total = 0;
#pragma unroll
                for (int i = l / 2; i < SETS; i += Shape::EIGHTS)
                    total = fmaxf(total, Shape::J == 1 ? scale_sum[i][l % 2]
                                                       : fmaxf(scale_sum[i][0], scale_sum[i][1]));
                for (int o = 1; o < Shape::J / 2; o *= 2)
                    total = fmaxf(total, __shfl_xor_sync(~0u, total, o));
            } else {
                for (int o = 4; o < 32; o *= 2) total += __shfl_xor_sync(~0u, total, o);
            }
            safe = safe && (total >= least || !(seen >> l & 1));
        }
        return __all_sync(~0u, safe);
    }

    // Everything anew, with running maxima.
    __device__ void start_again() {
        seen = 0, given = false;
#pragma unroll
        for (int l = 0; l < LANE_HEADS; l++) base[l] = sum[l] = 0;
#pragma unroll
        for (int c = 0; c < 4; c++) {
#pragma unroll
            for (int i = 0; i < MMAS; i++)
#pragma unroll
                for (int n = 0; n < WIDE; n++) out[i][n][c] = 0;
#pragma unroll
            for (int i = 0; i < (C::INTEGER ? SETS : 1); i++) scale_sum[i][c] = 0;
        }
    }

    // Moves the bases, so that weights are at most 2^(room - 8), and what there is so far with them.
    __device__ void make_room(float largest, float scores[EIGHTHS][LANE_HEADS]) {
        if constexpr (C::INTEGER) {
            for (int o = 1; o < 32; o *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
            for (; largest > ceiling && room > -1; room--) ceiling *= 2;
        }
        const uint32_t before = seen;
        float shrink[LANE_HEADS];
#pragma unroll
        for (int l = 0; l < LANE_HEADS; l++) {
            const bool old = before >> l & 1;
            float top = scores[0][l];
#pragma unroll
            for (int e = 1; e < EIGHTHS; e++) top = fmaxf(top, scores[e][l]);
            for (int o = 4; o < 32; o *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
            float up = top - (room - 8);
            if (top == -INFINITY || (old && up < 0)) up = 0;
            if (top != -INFINITY) seen |= 1u << l;
            base[l] += up;
            shrink[l] = old ? exp2_approx(-up) : 1;
            sum[l] *= shrink[l];
#pragma unroll
            for (int e = 0; e < EIGHTHS; e++) scores[e][l] -= up;
        }
        if (before == 0) return; // nothing to move
#pragma unroll
        for (int c = 0; c < 4; c++) {
#pragma unroll
            for (int i = 0; i < MMAS; i++)
#pragma unroll
                for (int n = 0; n < WIDE; n++)
                    out[i][n][c] *= shrink[Shape::J == 1 ? n % Shape::EIGHTS * 2 + c % 2 : 0];
            if constexpr (C::INTEGER)
#pragma unroll
                for (int i = 0; i < SETS; i++)
                    scale_sum[i][c] *= shrink[Shape::J == 1 ? i % Shape::EIGHTS * 2 + c % 2 : 0];
        }
    }
};

#endif
