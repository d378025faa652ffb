// A warp of the kernel of attention/split.cuh. It takes KEYS keys at a time through tensor cores: scores are K·Qᵀ,
// results Vᵀ·Pᵀ, so that the short side of the mma, eight columns, is the query heads of a KV head. Keys, values and
// scales come by asynchronous copies into a ring of each warp's own.
//
// Scales multiply what the mma gives, not elements. Where fewer than eight heads share a KV head, columns are heads ×
// groups: column c of set s is head c / J and group s·J + c % J, J = 8 / HEADS. A query has zeros outside a column's
// group, so that an mma gives the sums of J groups apart, for their scales; weights times a group's scale give results
// that count only in that group's elements. The other cells of those mma are nobody's.
//
// With two heads, J = 4, the eight columns of set s, and set 0's queries (a letter a head, an element each; · is a
// zero):
//
//     column    0     1     2     3     4     5     6     7
//     head      a     a     a     a     b     b     b     b        c / J
//     group    4s   4s+1  4s+2  4s+3   4s   4s+1  4s+2  4s+3       s·J + c % J
//
//     elements  0 … 31   32 … 63   64 … 95   96 … 127     (groups of 32)
//     column 0  aaaaaa   ······    ······    ······
//     column 1  ······   aaaaaa    ······    ······
//     column 4  bbbbbb   ······    ······    ······
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_WARP_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_WARP_CUH

#include "kernels/cuda/attention/split_sums.cuh"
#include "kernels/cuda/device/ptx.cuh"

// What a warp has found so far, and how.
template <class C, class SHAPE, int HEAD> struct SplitWarp : SplitSums<C, SHAPE, HEAD> {
    typedef SHAPE Shape;
    typedef SplitSums<C, SHAPE, HEAD> Sums;
    typedef SplitQueries<HEAD, Shape::HEADS, Shape::SETS> Queries;
    static constexpr int KEYS = Shape::KEYS, EIGHTHS = KEYS / 8, SETS = Shape::SETS, WIDE = Shape::WIDE,
                         MMAS = Shape::MMAS, LANE_HEADS = Shape::LANE_HEADS;
    using Sums::out, Sums::scale_sum, Sums::base, Sums::sum, Sums::slope, Sums::own, Sums::room,
        Sums::ceiling, Sums::seen, Sums::given, Sums::ALL_SEEN;
    using Sums::s, Sums::tile, Sums::units, Sums::ring;

    const Queries &queries;
    uint32_t offsets; // the lane's, in shared memory
    uint32_t q[MMAS][WIDE][2];
    bool taken_sinks = false;
    __device__ SplitWarp(const SplitBlock &block, const Queries &sq, char *memory)
        : Sums(block, memory), queries(sq) {
        offsets = kept((uint32_t)__cvta_generic_to_shared(&sq.offsets[0][0][threadIdx.x % 4 * 2]));
    }

    __device__ void take_queries(bool for_sinks) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        taken_sinks = for_sinks;
        if constexpr (C::BITS == 16) { // a row of eight of a set a lane's address, columns of two mma
            const uint32_t from = shared_at(&queries.q[for_sinks][lane % 8][lane / 8 * 8]);
#pragma unroll
            for (int i = 0; i < MMAS; i += 2)
#pragma unroll
                for (int w = 0; w < WIDE; w++) {
                    uint32_t two[4];
                    load_matrices(two, from + w * 8 * (int)sizeof queries.q[0][0] + i * 32);
                    q[i][w][0] = two[0], q[i][w][1] = two[1], q[i + 1][w][0] = two[2],
                    q[i + 1][w][1] = two[3];
                }
        } else {
#pragma unroll
            for (int i = 0; i < MMAS; i++)
#pragma unroll
                for (int w = 0; w < WIDE; w++) {
                    int set = Shape::set_of(i) + w;
                    const __half *at = queries.q[for_sinks][Shape::head_of(set, g)];
                    bool mine = Shape::group_of(set, g) == C::key_dim(i, t, 0) / Shape::GROUP;
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        __half2 pair =
                            __halves2half2(at[C::key_dim(i, t, 2 * r)], at[C::key_dim(i, t, 2 * r + 1)]);
                        q[i][w][r] = mine ? *(uint32_t *)&pair : 0;
                    }
                }
        }
    }

    // ---- mma -------------------------------------------------------------------------------------------------

    // Matrices of mma i, i + 1, … of 16 rows: of chunk 0, rows 0–7 and 8–15, the same of chunk 1.
    __device__ void load_keys(uint32_t rows, int pair, uint32_t w[4]) const {
        int lane = threadIdx.x % 32;
        uint32_t first = place_of<Shape::CHUNKS>(lane % 16, lane / 16) * 16;
        if constexpr (C::BITS == 32) {
            uint32_t a[4], b[4];
            load_matrices(a, rows + turned(first, 2 * pair));
            load_matrices(b, rows + turned(first, 2 * pair + 1));
            for (int i = 0; i < 2; i++) {
                w[i] = halves(__uint_as_float(a[i]), __uint_as_float(a[i + 2]));
                w[i + 2] = halves(__uint_as_float(b[i]), __uint_as_float(b[i + 2]));
            }
        } else {
            load_matrices(w, rows + turned(first, pair));
        }
    }
    __device__ void load_values(uint32_t rows, int pair, uint32_t w[4]) const {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        if constexpr (C::BITS == 32) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int row = 8 * i + 2 * t, chunk = pair * 4 + g / 2;
                uint32_t x[2], y[2];
                load_words<2>(rows + place_of<Shape::CHUNKS>(row, chunk) * 16 + g % 2 * 8, x);
                load_words<2>(rows + place_of<Shape::CHUNKS>(row + 1, chunk) * 16 + g % 2 * 8, y);
                w[i] = halves(__uint_as_float(x[0]), __uint_as_float(y[0]));
                w[i + 2] = halves(__uint_as_float(x[1]), __uint_as_float(y[1]));
            }
        } else {
            load_matrices_transposed(w,
                                     rows + turned(place_of<Shape::CHUNKS>(lane % 16, lane / 16) * 16, pair));
        }
    }
    // From the place of chunk 0 or 1 to that of chunk 2·pair or 2·pair + 1 of the same row.
    __device__ static uint32_t turned(uint32_t place, int pair) {
        constexpr int PAIRS = Shape::CHUNKS < 8 ? Shape::CHUNKS / 2 : 4;
        return (place ^ pair % PAIRS * 32) + pair / PAIRS * PAIRS * 32;
    }

    // The scales of a key, in words of two groups: where a set has at least four groups, word s is the lane's of set s,
    // of columns c and c ^ 1; else all of them.
    static constexpr int WORDS = Shape::J >= 4 ? SETS : (Shape::GROUPS + 1) / 2;
    __device__ static void scale_words(uint32_t row, int c, uint32_t w[WORDS]) {
        if constexpr (Shape::J >= 4) {
#pragma unroll
            for (int i = 0; i < SETS; i++)
                load_words<1>(row + i * Shape::J * 2 + c % Shape::J % Shape::GROUPS / 2 * 4, w + i);
        } else {
            load_words<WORDS>(row, w);
        }
    }
    __device__ static constexpr int word_of(int set) {
        return Shape::J > 1 ? set / Shape::EIGHTS : set / Shape::EIGHTS / 2;
    }

    // Adds to scores[e][…], e = 0, 1: of keys g and g + 8 of 16 and the lane's heads.
    __device__ void mma_keys(uint32_t rows, uint32_t scales, float scores[2][LANE_HEADS]) const {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        float c[SETS][4];
#pragma unroll
        for (int i = 0; i < SETS; i++) {
            uint32_t off[2] = {};
            if constexpr (C::INTEGER) load_words<2>(offsets + (taken_sinks * SETS + i) * 32, off);
            c[i][0] = c[i][2] = __uint_as_float(off[0]), c[i][1] = c[i][3] = __uint_as_float(off[1]);
        }
#pragma unroll
        for (int j = 0; j < MMAS / C::MMAS; j++) {
            uint32_t w[4], low[C::MMAS][2], high[C::MMAS][2];
            load_keys(rows, j, w);
            C::operands(w[0], w[2], false, low);
            C::operands(w[1], w[3], false, high);
#pragma unroll
            for (int m = 0; m < C::MMAS; m++) {
                int i = j * C::MMAS + m;
                const uint32_t a[4] = {low[m][0], high[m][0], low[m][1], high[m][1]};
#pragma unroll
                for (int n = 0; n < WIDE; n++) mma(c[Shape::set_of(i) + n], a, q[i][n][0], q[i][n][1]);
            }
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            if constexpr (!C::INTEGER) {
#pragma unroll
                for (int l = 0; l < LANE_HEADS; l++) scores[e][l] = c[l / 2][2 * e + l % 2];
            } else {
                uint32_t w[WORDS];
                scale_words(scales + (g + 8 * e) * Shape::SCALES, 2 * t, w);
#pragma unroll
                for (int l = 0; l < LANE_HEADS; l++) scores[e][l] = 0;
#pragma unroll
                for (int i = 0; i < SETS; i++) {
                    float2 f = __half22float2(*(const __half2 *)&w[word_of(i)]);
                    if constexpr (Shape::J > 1) {
                        scores[e][0] = fmaf(f.x, c[i][2 * e], fmaf(f.y, c[i][2 * e + 1], scores[e][0]));
                    } else {
                        float own = i / Shape::EIGHTS % 2 ? f.y : f.x;
#pragma unroll
                        for (int l = 0; l < 2; l++)
                            scores[e][i % Shape::EIGHTS * 2 + l] += own * c[i][2 * e + l];
                    }
                }
                for (int o = 1; o < Shape::J / 2; o *= 2)
                    scores[e][0] += __shfl_xor_sync(~0u, scores[e][0], o);
            }
        }
    }

    // Results of 16 values, with the weights of keys g and g + 8.
    __device__ void add_values(uint32_t rows, uint32_t scales, const float weights[2][LANE_HEADS]) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        uint32_t p[Shape::EIGHTS][2], b[SETS][2];
#pragma unroll
        for (int n = 0; n < Shape::EIGHTS; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float *w = weights[e];
                p[n][e] = transposed(Shape::J == 1 ? halves(w[n * 2], w[n * 2 + 1]) : halves(w[0], w[0]));
            }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            if constexpr (!C::INTEGER) {
#pragma unroll
                for (int i = 0; i < SETS; i++) b[i][e] = p[i][e];
            } else {
                uint32_t x[WORDS], y[WORDS];
                scale_words(scales + (2 * t + 8 * e) * Shape::SCALES, g, x);
                scale_words(scales + (2 * t + 8 * e + 1) * Shape::SCALES, g, y);
#pragma unroll
                for (int i = 0; i < SETS; i++) {
                    int odd = Shape::J > 1 ? g % 2 : i / Shape::EIGHTS % 2;
                    b[i][e] = mul_half2(__byte_perm(x[word_of(i)], y[word_of(i)], odd ? 0x7632 : 0x5410),
                                        p[i % Shape::EIGHTS][e]);
                }
            }
        }
        if constexpr (C::INTEGER) {
            const uint32_t ones[4] = {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00};
#pragma unroll
            for (int i = 0; i < SETS; i++) mma(scale_sum[i], ones, b[i][0], b[i][1]);
        }
#pragma unroll
        for (int j = 0; j < MMAS / C::MMAS; j++) {
            uint32_t w[4], low[C::MMAS][2], high[C::MMAS][2];
            load_values(rows, j, w);
            C::operands(w[0], w[2], true, low);
            C::operands(w[1], w[3], true, high);
#pragma unroll
            for (int m = 0; m < C::MMAS; m++) {
                int i = j * C::MMAS + m;
                const uint32_t a[4] = {low[m][0], low[m][1], high[m][0], high[m][1]};
#pragma unroll
                for (int n = 0; n < WIDE; n++) {
                    const uint32_t *own = b[Shape::set_of(i) + n];
                    mma(out[i][n], a, own[0], own[1]);
                }
            }
        }
    }

    // ---- softmax ---------------------------------------------------------------------------------------------

    // Of the unit's values, a share for each lane.
    __device__ static float largest_scale(uint32_t scales) {
        constexpr int ALL_WORDS = KEYS * Shape::GROUPS / 2, N = ALL_WORDS < 32 ? 1 : ALL_WORDS / 32;
        uint32_t w[N];
        load_words<N>(scales + threadIdx.x % 32 % (ALL_WORDS / N) * N * 4, w);
        __half2 largest = *(const __half2 *)&w[0];
#pragma unroll
        for (int i = 1; i < N; i++) largest = __hmax2(largest, *(const __half2 *)&w[i]);
        return __half2float(__hmax(__low2half(largest), __high2half(largest)));
    }

    // Scores of keys that a row does not see to -inf. What a row of given bases has seen is noted.
    __device__ void hide(int32_t at, float scores[EIGHTHS][LANE_HEADS]) {
        int g = threadIdx.x % 32 / 4;
        uint32_t now = 0;
#pragma unroll
        for (int e = 0; e < EIGHTHS; e++) {
            int32_t key = __shfl_sync(~0u, at, g + 8 * e);
#pragma unroll
            for (int l = 0; l < LANE_HEADS; l++)
                if (visible(key, this->seen_by(own[l], taken_sinks)))
                    now |= 1u << l;
                else
                    scores[e][l] = -INFINITY;
        }
        if (!given) return;
        for (int o = 4; o < 32; o *= 2) now |= __shfl_xor_sync(~0u, now, o);
        seen |= now;
    }

    // Scores of keys g, g + 8, … to weights, those of unseen keys to 0. Bases move only when they have to. `whole`: every
    // row sees all of the unit's keys.
    __device__ void weigh(bool whole, int32_t at, uint32_t value_scales, float scores[EIGHTHS][LANE_HEADS]) {
        int g = threadIdx.x % 32 / 4;
        if (s.l.a.cap > 0)
#pragma unroll
            for (int e = 0; e < EIGHTHS; e++)
#pragma unroll
                for (int l = 0; l < LANE_HEADS; l++)
                    scores[e][l] = capped(scores[e][l], s.l.a.cap * (LOG2_E / C::UNIT));
#pragma unroll
        for (int e = 0; e < EIGHTHS; e++)
#pragma unroll
            for (int l = 0; l < LANE_HEADS; l++) scores[e][l] = fmaf(scores[e][l], C::UNIT, -base[l]);
        if (s.l.a.alibi != 0) {
            int32_t nearer = taken_sinks ? tile.n_evicted : 0;
#pragma unroll
            for (int e = 0; e < EIGHTHS; e++) {
                int32_t key = __shfl_sync(~0u, at, g + 8 * e) + nearer;
#pragma unroll
                for (int l = 0; l < LANE_HEADS; l++) scores[e][l] -= slope[l] * (float)(own[l] - key);
            }
        }
        if (!whole)
            hide(at, scores);
        else if (given)
            seen = ALL_SEEN;
        if (!given) {
            bool higher = false;
            if (seen != ALL_SEEN) // a base that nothing depends on yet goes where the first scores are
#pragma unroll
                for (int e = 0; e < EIGHTHS; e++)
#pragma unroll
                    for (int l = 0; l < LANE_HEADS; l++)
                        higher |= !(seen >> l & 1) && scores[e][l] != -INFINITY;
            float scale = 0;
            if constexpr (C::INTEGER) {
                scale = largest_scale(value_scales);
                higher |= scale > ceiling;
            }
#pragma unroll
            for (int e = 0; e < EIGHTHS; e++)
#pragma unroll
                for (int l = 0; l < LANE_HEADS; l++) higher |= scores[e][l] > room;
            if (__any_sync(~0u, higher)) this->make_room(scale, scores);
        }
#pragma unroll
        for (int e = 0; e < EIGHTHS; e++)
#pragma unroll
            for (int l = 0; l < LANE_HEADS; l++) {
                scores[e][l] = exp2_approx(scores[e][l]);
                sum[l] += scores[e][l];
            }
    }

    // ---- the way ---------------------------------------------------------------------------------------------

    __device__ void take_unit(uint32_t stage, bool whole, int32_t at) {
        float scores[EIGHTHS][LANE_HEADS];
        uint32_t scales = stage + 2 * KEYS * Shape::ROW;
#pragma unroll
        for (int b = 0; b < KEYS / 16; b++)
            mma_keys(stage + b * 16 * Shape::ROW, scales + b * 16 * Shape::SCALES, scores + 2 * b);
        scales += KEYS * Shape::SCALES;
        weigh(whole, at, scales, scores);
#pragma unroll
        for (int b = 0; b < KEYS / 16; b++)
            add_values(stage + (KEYS + b * 16) * Shape::ROW, scales + b * 16 * Shape::SCALES, scores + 2 * b);
    }

    // Units warp, warp + Shape::WARPS, …: copies run STAGES - 1 units ahead. The queries are there once `ready` returns,
    // and the first copies are on their way; before it keys of positions from fresh_from on are not there.
    template <class Ready> __device__ void run(int32_t fresh_from, Ready ready) {
        constexpr int AHEAD = Shape::STAGES - 1;
        int next = warp_index(), u = next - AHEAD * Shape::WARPS;
        int slot = this->look_up_slot(next), next_slot = this->look_up_slot(next + Shape::WARPS);
        int32_t at = this->look_up_position(next, slot), here[AHEAD] = {};
        uint32_t mask[AHEAD] = {}, fill = ring;
#pragma unroll 1
        for (; u < units.n; u += Shape::WARPS, next += Shape::WARPS) {
            if (u < 0 && __any_sync(~0u, at >= fresh_from)) kernels_before();
            uint32_t take = fill + Shape::STAGE, next_mask = this->issue(next, fill, slot, at);
            int32_t next_here = at;
            if (take == ring + Shape::STAGES * Shape::STAGE) take = ring;
            slot = next_slot;
            at = this->look_up_position(next + Shape::WARPS, slot);
            next_slot = this->look_up_slot(next + 2 * Shape::WARPS);
            if (u < 0 && u + Shape::WARPS >= 0) {
                ready();
                take_queries(u + Shape::WARPS < units.sinks);
            }
            await_copies<AHEAD>();
            __syncwarp();
            if (mask[0]) {
                if (taken_sinks && u >= units.sinks) take_queries(false);
                take_unit(take, this->seen_by_all(mask[0], here[0], taken_sinks), here[0]);
            }
            __syncwarp();
            fill = take;
#pragma unroll
            for (int i = 0; i + 1 < AHEAD; i++) mask[i] = mask[i + 1], here[i] = here[i + 1];
            mask[AHEAD - 1] = next_mask, here[AHEAD - 1] = next_here;
        }
        await_copies<0>();
    }
};

#endif
