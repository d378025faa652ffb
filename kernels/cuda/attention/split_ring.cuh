// How keys, values and scales come to a warp of the kernel of attention/split.cuh: the shapes that it is built for, and
// asynchronous copies into a ring of each warp's own.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_RING_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_RING_CUH

#include "kernels/cuda/attention/split.cuh"
#include "kernels/cuda/attention/split_types.cuh"

enum { SPLIT_STATIC = 4096 }; // more shared memory than the kernel declares itself

// A block's rows: of a tile's KV head those from `first` on.
struct SplitRows {
    int first, n, group; // n: of the tile
    int first_token, first_head;
    __device__ int of_block(int most) const { return min(most, n - first); }
    __device__ int token(int row) const { return first_token + row / group; }
    __device__ int head(int row) const { return first_head + row % group; }
    // Among [n_tokens, n_heads] of the step.
    __device__ int64_t place(int n_heads, int row) const { return (int64_t)token(row) * n_heads + head(row); }
};

// What a block is for: rows of a tile's KV head, through the indexes of a split.
struct SplitBlock {
    const SplitArguments &s;
    const int split, kv_head;
    const AttendTile tile;
    const SplitRows rows;
    const int n_rows; // <= 0: there is nothing to do, other tiles have more rows
    const int begin, end;
    const Units units;

    // Of at most `most` rows, by units of so many keys.
    __device__ SplitBlock(const SplitArguments &a, int most, int keys)
        : s(a), split(blockIdx.y), kv_head(blockIdx.x / a.row_tiles),
          tile(a.split_tiles[split]), rows{(int)blockIdx.x % a.row_tiles * most, tile.n_tokens * group(),
                                           group(), tile.first_token, kv_head * group()},
          n_rows(rows.of_block(most)), begin((split - tile.first_split) * tile.split_slots),
          end(min(begin + tile.split_slots, tile.n_slots)),
          units(keys, begin, end, tile.n_sinks, tile.n_evicted) {}

    __device__ int group() const { return s.l.a.n_heads / s.l.a.n_kv_heads; }
    // The first row's among the results of all splits.
    __device__ int64_t part() const {
        return (int64_t)split * s.parts + kv_head * (s.parts / s.l.a.n_kv_heads) + rows.first;
    }
    // Where each row begins in q and y, in elements.
    __device__ void leave_places(int64_t *places) const {
        const int row = threadIdx.x;
        if (row < n_rows) places[row] = rows.place(s.l.a.n_heads, rows.first + row) * s.l.a.head_dim;
    }
    // Keys of positions from here on are the step's own: the tile's, of one token, or those of the only sequence.
    __device__ int32_t fresh_from() const { return s.l.a.positions[s.independent ? tile.first_token : 0]; }
};

// HEADS that a split takes together, rows of queries: 1, 2, 4, 8, or 16 as two times eight. GROUP: elements of a scale, 8, 16 or 32;
// larger ones are taken as several of 32 (or 16) with the same scale. No integers: the whole head. WARPS: of a block.
template <class C, int HEAD, int HEADS_, int GROUP_, int WARPS_> struct SplitShape {
    static constexpr int HEADS = HEADS_, GROUP = GROUP_, WARPS = WARPS_, KEYS = C::keys(HEADS_, GROUP_);
    static constexpr int ROW = HEAD * C::BITS / 8, CHUNKS = ROW / 16; // 16 bytes each
    static constexpr int GROUPS = HEAD / GROUP,
                         SCALES = C::INTEGER ? GROUPS * 2 : 0; // bytes of a row, as float16
    static constexpr int RESULTS = WARPS, BETWEEN = 4;         // see SplitResults
    static constexpr int STAGE = KEYS * 2 * (ROW + SCALES), STAGES = C::INTEGER && KEYS == 16 ? 3 : 2;

    static constexpr int J = HEADS < 8 ? 8 / HEADS : 1, EIGHTS = HEADS > 8 ? HEADS / 8 : 1;
    static constexpr int SETS = EIGHTS * (GROUPS > J ? GROUPS / J : 1);
    static constexpr int LANE_HEADS = J == 1 ? 2 * EIGHTS : 1; // a lane's: of columns 2t and 2t + 1
    // An mma's elements lie in SPAN of them: so many sets have something to do with them, from set_of(i) on.
    static constexpr int MMAS = HEAD / 16, SPANNED = C::SPAN > GROUP ? C::SPAN / GROUP : 1;
    static constexpr int WIDE = EIGHTS * (SPANNED > J ? SPANNED / J : 1);
    __device__ static constexpr int set_of(int i) { return i * 16 / C::SPAN * C::SPAN / GROUP / J * EIGHTS; }
    // Of column c of a set.
    __device__ static constexpr int head_of(int set, int c) { return set % EIGHTS * 8 + c / J; }
    __device__ static constexpr int group_of(int set, int c) { return set / EIGHTS * J + c % J; }

    static constexpr int REGISTERS = 6 * MMAS * WIDE + (C::INTEGER ? 4 * SETS : 0); // that stay
    static constexpr int SHARED =
        WARPS * STAGES * STAGE + 4 * HEADS * (HEAD + 8) + 2048; // of a block, at most
    static constexpr int BY_REGISTERS = REGISTERS <= 64   ? 4
                                        : REGISTERS <= 88 ? 3
                                                          : 2,
                         BY_SHARED = 227 * 1024 / SHARED;
    static constexpr int BLOCKS = BY_REGISTERS < BY_SHARED ? BY_REGISTERS : BY_SHARED; // of a multiprocessor
};

// What every block keeps in shared memory besides the rings: queries, times the scale, for the recent slots and the
// sinks, and what the integers' offset adds to the sums of each set's columns.
template <int HEAD, int HEADS, int SETS> struct alignas(128) SplitQueries {
    __half q[2][HEADS][HEAD + 8];
    float offsets[2][SETS][8];
};

// Where 16 bytes of a row lie: rows that are read together have theirs in different banks.
template <int CHUNKS> __device__ constexpr int place_of(int row, int chunk) {
    constexpr int TURN = CHUNKS < 8 ? CHUNKS : 8;
    return row * CHUNKS + (chunk ^ row / (8 / TURN) % TURN);
}

// A warp's way through its units.
template <class C, class SHAPE, int HEAD> struct SplitRing {
    typedef SHAPE Shape;
    static constexpr int KEYS = Shape::KEYS;
    static constexpr uint32_t ALL = KEYS == 32 ? ~0u : (1u << KEYS % 32) - 1;

    const SplitArguments &s;
    const AttendTile &tile;
    const Units &units;
    int begin, end;
    int32_t first_position, position;      // of the tile's first token and of its last
    uint32_t ring;                         // in shared memory
    const char *k, *v, *k_scale, *v_scale; // the KV head's; k and v from the lane's chunk on

    __device__ SplitRing(const SplitBlock &block, char *memory)
        : s(block.s), tile(block.tile), units(block.units), begin(block.begin), end(block.end),
          first_position(s.l.a.positions[tile.first_token]),
          position(s.l.a.positions[tile.first_token + tile.n_tokens - 1]) {
        int chunk = threadIdx.x % 32 % Shape::CHUNKS;
        ring = kept((uint32_t)__cvta_generic_to_shared(memory) +
                    threadIdx.x / 32 * Shape::STAGES * Shape::STAGE);
        k = kept((const char *)s.l.a.kv.k + block.kv_head * s.head_bytes + chunk * 16);
        v = kept((const char *)s.l.a.kv.v + block.kv_head * s.head_bytes + chunk * 16);
        k_scale = (const char *)s.l.a.kv.k_scale + block.kv_head * s.scale_head_bytes;
        v_scale = (const char *)s.l.a.kv.v_scale + block.kv_head * s.scale_head_bytes;
    }

    // Unit u's key `lane`: its slot, -1 if it is not there; two steps, a unit apart, for the second waits for the
    // first.
    __device__ int look_up_slot(int u) const {
        int lane = threadIdx.x % 32, index = begin + units.first(u) + lane;
        if (lane >= KEYS || u >= units.n || index >= end || !units.counts(u, index, tile.n_sinks)) return -1;
        return slot_of(s.l.a.pages, tile.first_page, index);
    }
    __device__ int32_t look_up_position(int u, int slot) const {
        int index = begin + units.first(u) + (int)threadIdx.x % 32;
        return slot < 0 ? -1 : position_at(tile.in_order ? NULL : s.l.a.slot_positions, slot, index);
    }

    __device__ Seen seen_by(int32_t own, bool is_sink) const {
        return seen_from(own, s.l.a.window, tile.n_sinks, tile.n_evicted, is_sink);
    }

    // Whether every token sees all keys of a unit, of which `mask` are seen by any.
    __device__ bool seen_by_all(uint32_t mask, int32_t at, bool is_sink) const {
        if (tile.n_tokens == 1 || mask != ALL) return mask == ALL;
        Seen all = {seen_by(position, is_sink).low, seen_by(first_position, is_sink).high};
        return __all_sync(~0u, threadIdx.x % 32 >= KEYS || visible(at, all));
    }

    // Copies unit u to a stage; returns which of its keys a token sees. The rows of the others become zero.
    __device__ uint32_t issue(int u, uint32_t to, int slot, int32_t at) const {
        Seen any = {seen_by(first_position, u < units.sinks).low, seen_by(position, u < units.sinks).high};
        uint32_t mask = __ballot_sync(~0u, visible(at, any)) & ALL;
        if (mask) {
            int lane = threadIdx.x % 32, first = __shfl_sync(~0u, slot, 0);
            bool next = lane >= KEYS || slot == first + lane;
            if (__all_sync(~0u, next) && mask == ALL && s.together && first * Shape::SCALES % 16 == 0) {
                copy_block(to, first);
            } else {
                slot = max(slot, 0);
                copy_rows(to, slot, mask);
                if constexpr (C::INTEGER) copy_scales(to + 2 * KEYS * Shape::ROW, slot, mask);
            }
        }
        end_copies();
        return mask;
    }

    // Slots from `first` on, all of them, where a head's rows and scales lie one behind the other.
    __device__ void copy_block(uint32_t to, int first) const {
        constexpr int CHUNKS = Shape::CHUNKS, TURN = CHUNKS < 8 ? 1 : 8;
        int lane = threadIdx.x % 32, row = lane / CHUNKS;
        uint32_t place = place_of<CHUNKS>(row, lane % CHUNKS) * 16;
        const char *from = k + (uint64_t)(uint32_t)(first + row) * Shape::ROW;
        const char *values = v + (uint64_t)(uint32_t)(first + row) * Shape::ROW;
#pragma unroll
        for (int j = 0; j < KEYS * CHUNKS / 32; j++) {
            uint32_t target = to + (place ^ j * 32 / CHUNKS % TURN * 16) + j * 512;
            copy_piece<16>(target, from + j * 512, true);
            copy_piece<16>(target + KEYS * Shape::ROW, values + j * 512, true);
        }
        if constexpr (C::INTEGER) {
            constexpr int N = KEYS * Shape::SCALES / 16; // pieces of keys' scales, and of values'
#pragma unroll
            for (int j = 0; j < (2 * N + 31) / 32; j++) {
                int i = j * 32 + lane;
                const char *scales =
                    (i < N ? k_scale : v_scale) + (uint64_t)(uint32_t)first * Shape::SCALES + i % N * 16;
                if (2 * N >= 32 || i < 2 * N)
                    copy_piece<16>(to + 2 * KEYS * Shape::ROW + i * 16, scales, true);
            }
        }
    }

    __device__ void copy_rows(uint32_t to, int slot, uint32_t mask) const {
        constexpr int CHUNKS = Shape::CHUNKS, TURN = CHUNKS < 8 ? 1 : 8;
        int lane = threadIdx.x % 32, first = lane / CHUNKS, row = s.l.a.head_dim * C::BITS / 8;
        uint32_t place = place_of<CHUNKS>(first, lane % CHUNKS) * 16, mine = mask >> first;
        if (lane % CHUNKS * 16 >= row) mine = 0;
#pragma unroll
        for (int j = 0; j < KEYS * CHUNKS / 32; j++) {
            constexpr int WHOLE = CHUNKS > 32 ? CHUNKS / 32 : 1; // rows of several turns
            int key = j * 32 / CHUNKS, rest = j % WHOLE * 512;
            uint32_t own = (uint32_t)__shfl_sync(~0u, slot, first + key);
            bool there = mine >> key & 1 && (WHOLE == 1 || rest + lane * 16 < row);
            uint32_t target = to + (place ^ key % TURN * 16) + key * Shape::ROW + rest;
            copy_piece<16>(target, k + (uint64_t)own * s.slot_bytes + rest, there);
            copy_piece<16>(target + KEYS * Shape::ROW, v + (uint64_t)own * s.slot_bytes + rest, there);
        }
    }

    // Scales as float16, one for each GROUP: copied if that is what the cache has, else converted here.
    __device__ void copy_scales(uint32_t to, int slot, uint32_t mask) const {
        constexpr int PIECE = Shape::SCALES < 16 ? Shape::SCALES : 16, PIECES = Shape::SCALES / PIECE;
        int lane = threadIdx.x % 32;
        if (s.scales_fit) {
#pragma unroll
            for (int j = 0; j < 2 * KEYS * PIECES / 32; j++) {
                int i = j * 32 + lane, key = i / PIECES % KEYS, at = i % PIECES * PIECE;
                bool keys = i < KEYS * PIECES;
                int own = PIECES == 1 && KEYS == 32 ? slot : __shfl_sync(~0u, slot, key);
                const char *from =
                    (keys ? k_scale : v_scale) + (int64_t)(uint32_t)own * s.scale_slot_bytes + at;
                copy_piece<PIECE>(to + i / PIECES * Shape::SCALES + at, from, mask >> key & 1);
            }
            return;
        }
#pragma unroll 1
        for (int i = lane; i < 2 * KEYS * Shape::GROUPS; i += 32) {
            int key = i / Shape::GROUPS % KEYS, group = (i % Shape::GROUPS * Shape::GROUP) >> s.group_shift;
            int64_t own = (int64_t)(uint32_t)__shfl_sync(~0u, slot, key) * s.scale_slot_bytes;
            const char *from = (i < KEYS * Shape::GROUPS ? k_scale : v_scale) + own;
            __half scale = __ushort_as_half(0);
            if (mask >> key & 1 && group << s.group_shift < s.l.a.head_dim)
                scale = s.l.a.kv.scale_type == DTYPE_F16 ? ((const __half *)from)[group]
                                                         : __float2half_rn(((const float *)from)[group]);
            *(__half *)__cvta_shared_to_generic(to + i * 2) = scale;
        }
    }
};

#endif
