// A warp of the kernel of attend_split.cuh. It takes 16 keys at a time through tensor cores, eight query heads of a KV head beside
// each other: scores are K·Qᵀ, results Vᵀ·Pᵀ, so that heads are the short side of the products (mma.m16n8k16). Keys,
// values and scales come by asynchronous copies into a ring of each warp's own.
//
// Lane l = 4·g + t. Of the keys it holds rows g and g + 8, and of every 32 elements eight, from 8·t on; of the values
// rows 2t, 2t + 1, 2t + 8, 2t + 9, and of every 64 elements eight, from 8·g on. Which elements share a product is open
// as long as both sides agree.
#ifndef PALAVER_KERNELS_CUDA_SPLIT_WARP_CUH
#define PALAVER_KERNELS_CUDA_SPLIT_WARP_CUH

#include "kernels/cuda/attend_split.cuh"
#include "kernels/cuda/split_types.cuh"

enum { SPLIT_WARPS = 4, BATCH = 16 };

// SCALE: the type of scales, where there are any. COARSE: groups of at least 32 elements, so that scales multiply sums of
// products; else they multiply elements.
template <class C, class SCALE, int HEAD, int TILES, bool COARSE> struct SplitShape {
    static constexpr int ROW = HEAD * C::BITS / 8 + 16; // padded: rows in different banks
    static constexpr int SCALES =
        C::INTEGER ? (HEAD / (COARSE ? 32 : 8) * (int)sizeof(SCALE) + 3) / 4 * 4 : 0; // at most, of a row
    static constexpr int STAGE = 2 * BATCH * (ROW + SCALES);
    static constexpr int STAGES = 2;
    static constexpr int HEADS = 8 * TILES;
    static constexpr int BLOCKS =
        TILES == 1 && HEAD <= 128 ? 4 : 2; // of a multiprocessor, by their registers
};

// What every block keeps in shared memory besides the rings: queries, times the scale, for the recent and the kept.
template <int HEAD, int TILES> struct SplitQueries {
    __half q[2][8 * TILES][HEAD + 8];
    float offsets[2][HEAD / 32][8 * TILES]; // what the integers' offset adds to the products of 32 elements
};

template <int BYTES> __device__ inline void copy_piece(uint32_t to, const char *from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
                 "r"(there ? BYTES : 0)
                 : "memory");
}

__device__ inline void product_16x8(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                    uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ inline uint32_t transposed(uint32_t a) {
    uint32_t d;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

__device__ inline __half2 both(__half a, __half b) {
    return __halves2half2(a, b);
}
__device__ inline __half2 both(float a, float b) {
    return __floats2half2_rn(a, b);
}
template <class SCALE> __device__ inline __half2 twice(SCALE a) {
    return both(a, a);
}

// A warp's way through its units, and what it has found so far.
template <class C, class SCALE, int HEAD, int TILES, bool COARSE> struct SplitWarp {
    typedef SplitShape<C, SCALE, HEAD, TILES, COARSE> Shape;
    static constexpr int GROUPS = HEAD / 32, PIECES = HEAD / 64;

    const SplitArguments &s;
    const AttendTile &tile;
    const Units &units;
    const SplitQueries<HEAD, TILES> &queries;
    int begin, end, first_head;
    int32_t position;
    uint32_t ring;
    const char *k, *v, *k_scale, *v_scale;

    uint32_t q[TILES][HEAD / 8]; // of the products of 32 elements: four a tile of heads
    float out[TILES][HEAD / 16][4] = {};
    float top[TILES][2], sum[TILES][2] = {}, slope[TILES][2] = {};

    __device__ SplitWarp(const SplitArguments &a, const AttendTile &t, const Units &u,
                         const SplitQueries<HEAD, TILES> &sq, int kv_head, char *memory)
        : s(a), tile(t), units(u), queries(sq) {
        ring = (uint32_t)__cvta_generic_to_shared(memory) + threadIdx.x / 32 * Shape::STAGES * Shape::STAGE;
        k = (const char *)a.l.a.kv.k + kv_head * a.head_bytes;
        v = (const char *)a.l.a.kv.v + kv_head * a.head_bytes;
        k_scale = (const char *)a.l.a.kv.k_scale + kv_head * a.scale_head_bytes;
        v_scale = (const char *)a.l.a.kv.v_scale + kv_head * a.scale_head_bytes;
#pragma unroll
        for (int h = 0; h < TILES; h++) top[h][0] = top[h][1] = -INFINITY;
    }

    __device__ void take_queries(bool kept) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int h = 0; h < TILES; h++)
#pragma unroll
            for (int i = 0; i < HEAD / 8; i++) {
                const __half *at = &queries.q[kept][h * 8 + g][i / 4 * 32 + t * 8];
                __half2 pair = __halves2half2(at[C::first(i % 4)], at[C::second(i % 4)]);
                q[h][i] = *(uint32_t *)&pair;
            }
    }

    // Unit u's key `lane`: its slot, -1 if it is not there; two steps, a unit apart, for the second waits for the first.
    __device__ int look_up_slot(int u) const {
        int lane = threadIdx.x % 32, index = begin + units.first(u) + lane;
        if (lane >= BATCH || u >= units.n || index >= end || !units.counts(u, index, tile.n_keep)) return -1;
        return slot_of(s.l.a.pages, tile.first_page, index);
    }
    __device__ int32_t look_up_position(int u, int slot) const {
        int index = begin + units.first(u) + (int)threadIdx.x % 32;
        return slot < 0 ? -1 : position_at(s.l.a.slot_positions, slot, index);
    }

    // Copies unit u into a stage; returns which of its keys are seen. The rows of the others become zero.
    __device__ uint32_t issue(int u, int stage, int slot, int32_t at) const {
        Seen seen = seen_from(position, s.l.a.window, tile.n_keep, tile.n_gone, u < units.kept);
        uint32_t mask = __ballot_sync(~0u, visible(at, seen)) & 0xffff;
        if (mask) {
            uint32_t to = ring + stage * Shape::STAGE;
            slot = max(slot, 0);
            copy_rows(to, slot, mask);
            if constexpr (C::INTEGER) copy_scales(to + 2 * BATCH * Shape::ROW, slot, mask);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        return mask;
    }

    __device__ void copy_rows(uint32_t to, int slot, uint32_t mask) const {
        constexpr int PIECES_A_ROW = HEAD * C::BITS / 128;
        int lane = threadIdx.x % 32, row = s.l.a.head_dim * C::BITS / 8;
#pragma unroll
        for (int j = 0; j < BATCH * PIECES_A_ROW / 32; j++) {
            int i = j * 32 + lane, key = i / PIECES_A_ROW, at = i % PIECES_A_ROW * 16;
            int64_t from = (int64_t)(uint32_t)__shfl_sync(~0u, slot, key) * s.slot_bytes + at;
            bool there = mask >> key & 1 && at < row;
            uint32_t target = to + key * Shape::ROW + at;
            copy_piece<16>(target, k + from, there);
            copy_piece<16>(target + BATCH * Shape::ROW, v + from, there);
        }
    }

    // In pieces of scale_piece bytes, 2^scale_shift of them a row and a place or more for each.
    __device__ void copy_scales(uint32_t to, int slot, uint32_t mask) const {
        int lane = threadIdx.x % 32, shift = s.scale_shift;
#pragma unroll 1
        for (int i = lane; i < 2 * BATCH << shift; i += 32) {
            int key = i >> shift & 15, at = (i & ((1 << shift) - 1)) * s.scale_piece;
            bool keys = i >> shift < BATCH, there = mask >> key & 1;
            int64_t from = (int64_t)(uint32_t)__shfl_sync(~0u, slot, key) * s.scale_slot_bytes + at;
            const char *source = (keys ? k_scale : v_scale) + from;
            uint32_t target = to + (key + (keys ? 0 : BATCH)) * Shape::SCALES + at;
            if (at >= s.scale_row) continue;
            if (s.scale_piece == 8)
                copy_piece<8>(target, source, there);
            else if (s.scale_piece == 4)
                copy_piece<4>(target, source, there);
            else if (s.scale_piece == 16)
                copy_piece<16>(target, source, there);
            else // too little for a copy of its own
                *(uint16_t *)__cvta_shared_to_generic(target) = there ? *(const uint16_t *)source : 0;
        }
    }

    __device__ SCALE scale_of(const char *row, int element) const {
        return ((const SCALE *)row)[element >> s.group_shift];
    }
    // Behind a head's last element lies nothing: any scale will do that is a number.
    __device__ SCALE key_scale(const char *row, int element) const {
        return scale_of(row, element < s.l.a.head_dim ? element : 0);
    }

    // scores[h] of keys g, g + 8 and heads 2t, 2t + 1.
    __device__ void multiply_keys(const char *stage, float scores[TILES][4]) const {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const char *ks = stage + 2 * BATCH * Shape::ROW + g * Shape::SCALES;
#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
            typedef typename C::Eight Eight;
            const char *row = stage + g * Shape::ROW + (j * 32 + t * 8) * C::BITS / 8;
            uint32_t a[4], b[4];
            C::pairs(*(const Eight *)row, a);
            C::pairs(*(const Eight *)(row + 8 * Shape::ROW), b);
            if (C::INTEGER && !COARSE) {
                __half2 sa = twice(key_scale(ks, j * 32 + t * 8));
                __half2 sb = twice(key_scale(ks + 8 * Shape::SCALES, j * 32 + t * 8));
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    __half2 off = __float2half2_rn(C::offset(r));
                    a[r] = multiply(subtract(a[r], off), sa);
                    b[r] = multiply(subtract(b[r], off), sb);
                }
            }
            float sa = 1, sb = 1;
            if (C::INTEGER && COARSE) {
                sa = to_float(key_scale(ks, j * 32));
                sb = to_float(key_scale(ks + 8 * Shape::SCALES, j * 32));
            }
#pragma unroll
            for (int h = 0; h < TILES; h++) {
                const uint32_t *qh = q[h] + 4 * j;
                if (C::INTEGER && COARSE) {
                    float2 off = *(const float2 *)&queries.offsets[taken_kept][j][h * 8 + 2 * t];
                    float c[4] = {off.x, off.y, off.x, off.y};
                    product_16x8(c, a[0], b[0], a[1], b[1], qh[0], qh[1]);
                    product_16x8(c, a[2], b[2], a[3], b[3], qh[2], qh[3]);
                    scores[h][0] += sa * c[0], scores[h][1] += sa * c[1];
                    scores[h][2] += sb * c[2], scores[h][3] += sb * c[3];
                } else {
                    product_16x8(scores[h], a[0], b[0], a[1], b[1], qh[0], qh[1]);
                    product_16x8(scores[h], a[2], b[2], a[3], b[3], qh[2], qh[3]);
                }
            }
        }
    }

    // Scores to weights, those of unseen keys to 0; what there is so far is scaled to the largest score. That moves
    // only when it has to: a weight may become 2^8.
    __device__ void weigh(uint32_t mask, int32_t at, float scores[TILES][4]) {
        int lane = threadIdx.x % 32, g = lane / 4;
        bool first = mask >> g & 1, second = mask >> (g + 8) & 1, higher = false;
        if (s.l.a.alibi) {
            int32_t high = position - (taken_kept ? tile.n_gone : 0);
            float near = (float)(high - __shfl_sync(~0u, at, g)),
                  far = (float)(high - __shfl_sync(~0u, at, g + 8));
#pragma unroll
            for (int h = 0; h < TILES; h++)
#pragma unroll
                for (int i = 0; i < 4; i++) scores[h][i] -= slope[h][i % 2] * (i < 2 ? near : far);
        }
#pragma unroll
        for (int h = 0; h < TILES; h++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (!(i < 2 ? first : second)) scores[h][i] = -INFINITY;
                higher |= scores[h][i] > top[h][i % 2] + 8;
            }
        if (__any_sync(~0u, higher)) {
#pragma unroll
            for (int h = 0; h < TILES; h++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float largest = fmaxf(top[h][i], fmaxf(scores[h][i], scores[h][i + 2]));
                    for (int o = 4; o < 32; o *= 2)
                        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
                    float shrink = power(top[h][i] - (largest == -INFINITY ? 0 : largest));
                    top[h][i] = largest;
                    sum[h][i] *= shrink;
#pragma unroll
                    for (int m = 0; m < HEAD / 16; m++) out[h][m][i] *= shrink, out[h][m][i + 2] *= shrink;
                }
        }
#pragma unroll
        for (int h = 0; h < TILES; h++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float base = top[h][i % 2];
                scores[h][i] = power(scores[h][i] - (base == -INFINITY ? 0 : base));
                sum[h][i % 2] += scores[h][i];
            }
    }

    __device__ void add_values(const char *stage, const float weights[TILES][4]) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        uint32_t p[TILES][2];
#pragma unroll
        for (int h = 0; h < TILES; h++) {
            p[h][0] = transposed(halves(weights[h][0], weights[h][1]));
            p[h][1] = transposed(halves(weights[h][2], weights[h][3]));
        }
        const char *values = stage + BATCH * Shape::ROW + 2 * t * Shape::ROW;
        const char *vs = stage + 2 * BATCH * Shape::ROW + (BATCH + 2 * t) * Shape::SCALES;
#pragma unroll
        for (int b = 0; b < PIECES; b++) {
            typedef typename C::Eight Eight;
            int element = b * 64 + g * 8;
            const char *row = values + element * C::BITS / 8;
            uint32_t low[8], high[8];
            C::columns(*(const Eight *)row, *(const Eight *)(row + Shape::ROW), low);
            C::columns(*(const Eight *)(row + 8 * Shape::ROW), *(const Eight *)(row + 9 * Shape::ROW), high);
            if (C::INTEGER) {
                __half2 sl = both(scale_of(vs, element), scale_of(vs + Shape::SCALES, element));
                __half2 sh = both(scale_of(vs + 8 * Shape::SCALES, element),
                                  scale_of(vs + 9 * Shape::SCALES, element));
#pragma unroll
                for (int e = 0; e < 8; e++) low[e] = multiply(low[e], sl), high[e] = multiply(high[e], sh);
            }
#pragma unroll
            for (int m = 0; m < 4; m++)
#pragma unroll
                for (int h = 0; h < TILES; h++)
                    product_16x8(out[h][b * 4 + m], low[2 * m], low[2 * m + 1], high[2 * m], high[2 * m + 1],
                                 p[h][0], p[h][1]);
        }
    }

    bool taken_kept = false;

    // Units warp, warp + SPLIT_WARPS, …: each is copied while the one before is multiplied. The queries are there once
    // `ready` returns, and the first copies are on their way.
    template <class Ready> __device__ void run(const char *memory, Ready ready) {
        const char *mine = memory + threadIdx.x / 32 * Shape::STAGES * Shape::STAGE;
        int u = (int)threadIdx.x / 32 - SPLIT_WARPS, stage = 1;
        int slot = look_up_slot(u + SPLIT_WARPS), next_slot = look_up_slot(u + 2 * SPLIT_WARPS);
        int32_t at = look_up_position(u + SPLIT_WARPS, slot), here = -1;
        uint32_t mask = 0;
#pragma unroll 1
        for (; u < units.n; u += SPLIT_WARPS, stage ^= 1) {
            uint32_t next_mask = issue(u + SPLIT_WARPS, stage ^ 1, slot, at);
            int32_t next_here = at;
            slot = next_slot;
            at = look_up_position(u + 2 * SPLIT_WARPS, slot);
            next_slot = look_up_slot(u + 3 * SPLIT_WARPS);
            if (u < 0) {
                ready();
                taken_kept = u + SPLIT_WARPS < units.kept;
                take_queries(taken_kept);
            }
            asm volatile("cp.async.wait_group 1;" ::: "memory");
            __syncwarp();
            if (mask) {
                if (taken_kept && u >= units.kept) taken_kept = false, take_queries(false);
                const char *now = mine + stage * Shape::STAGE;
                float scores[TILES][4] = {};
                multiply_keys(now, scores);
                weigh(mask, here, scores);
                add_values(now, scores);
            }
            __syncwarp();
            mask = next_mask, here = next_here;
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
};

#endif
