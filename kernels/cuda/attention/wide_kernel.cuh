// attend by heads whose elements the warps of a block divide among them, for no warp has registers for all of its rows.
//
//   rows of queries (heads of a token that share a KV head, token after token)   16 · TILES of a block, in shared memory
//   keys, and values where they are not the keys: two stages of KEYS rows        brought while the stage before is used
//
//   scores:  warp (i, j) has rows 16·i … and keys j·WARP_KEYS … of a stage
//   values:  warp w has all rows, and an eighth of a value's elements
//
// Tiles of few tokens are cut into splits, and these into pieces, which wide_sum_kernel puts together; tiles of many are not.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_WIDE_KERNEL_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_WIDE_KERNEL_CUH

#include "kernels/cuda/attention/wide.cuh"
#include "kernels/cuda/device/launch.cuh"

enum { WIDE_THREADS = 256 };

// CONVERTS: the cache is not of C, the operands' type. SCORING: warps that compute scores; where eight would have fewer than
// eight keys each, the others look on.
template <class Operand, int HEAD, bool CONVERTED, int N_TILES, int N_KEYS> struct WideShape {
    typedef Operand C;
    static constexpr bool APART = HEAD != LATENT_ROW, CONVERTS = CONVERTED; // APART: values are not the keys
    static constexpr int ROW = HEAD, ELEMENTS = ROW / 8, COLUMNS = ELEMENTS / 8, PIECES = ROW / 8,
                         STRIDE = ROW + 8;
    static constexpr int TILES = N_TILES, KEYS = N_KEYS, ROWS = 16 * TILES,
                         ACROSS = 8 / TILES < KEYS / 8 ? 8 / TILES : KEYS / 8, WARP_KEYS = KEYS / ACROSS,
                         SCORING = TILES * ACROSS, NEXT = KEYS + 8; // from a row of weights to the next
    static constexpr size_t SHARED = wide_shared(ROW, {TILES, KEYS});
};

// What the block goes through: indexes [begin, end) of a tile, for `n_rows` rows of queries of a KV head from `first` on. Of
// these tokens the first and the last position that is seen; where tokens lie at their positions, what none of them sees is
// left out at both ends.
struct WideWork {
    AttendTile tile;
    int begin, end, first, n_rows, kv_head;
    int32_t lowest, highest;
};

__device__ inline bool find_work(const WideArguments &l, int rows, int keys, WideWork *w) {
    const AttendArguments &a = l.a;
    const int group = a.n_heads / a.n_kv_heads, lane = threadIdx.x % 32;
    w->tile = l.split_tiles ? l.split_tiles[blockIdx.y] : a.tiles[blockIdx.y];
    if (w->tile.n_tokens == 0) return false;
    w->kv_head = blockIdx.z % a.n_kv_heads;
    w->begin = 0, w->end = w->tile.n_slots;
    if (l.split_tiles) {
        const int split = (int)blockIdx.y - w->tile.first_split, piece = blockIdx.z / a.n_kv_heads,
                  each = (w->tile.split_slots + l.pieces - 1) / l.pieces,
                  past = (split + 1) * w->tile.split_slots;
        w->begin = split * w->tile.split_slots + piece * each;
        w->end = min(min(past, w->end), w->begin + each);
    }
    w->first = blockIdx.x * rows;
    w->n_rows = min(rows, w->tile.n_tokens * group - w->first);
    if (w->n_rows <= 0) return false;
    w->lowest = INT32_MAX, w->highest = -1;
    for (int t = w->first / group + lane; t <= (w->first + w->n_rows - 1) / group; t += 32) {
        const int32_t p = a.positions[w->tile.first_token + t];
        w->lowest = min(w->lowest, p), w->highest = max(w->highest, p);
    }
    w->lowest = __reduce_min_sync(~0u, w->lowest), w->highest = __reduce_max_sync(~0u, w->highest);
    if (w->tile.in_order && w->tile.n_evicted == 0) {
        const int low = seen_from(w->lowest, a.window, 0, 0, false).low;
        if (low > w->begin) w->begin += (low - w->begin) / keys * keys;
        w->end = min(w->end, w->highest + 1);
    }
    w->end = max(w->end, w->begin);
    return true;
}

// The row of q, and of y, of a block's row.
__device__ inline int64_t query_row(const AttendArguments &a, const WideWork &w, int row) {
    const int group = a.n_heads / a.n_kv_heads, at = w.first + row;
    return (int64_t)(w.tile.first_token + at / group) * a.n_heads + w.kv_head * group + at % group;
}

// Queries as elements of the cache's type; rows that are not there become zeros.
template <class Shape>
__device__ inline void load_queries(const WideArguments &l, const void *q, const WideWork &w,
                                    typename Shape::C *to) {
    for (int p = threadIdx.x; p < Shape::ROWS * Shape::PIECES; p += WIDE_THREADS) {
        const int row = p / Shape::PIECES, piece = p % Shape::PIECES;
        uint4 eight = make_uint4(0, 0, 0, 0);
        if (row < w.n_rows)
            eight = eight_of<typename Shape::C>(l.type, q, query_row(l.a, w, row) * Shape::ROW + piece * 8);
        *(uint4 *)(to + row * Shape::STRIDE + piece * 8) = eight;
    }
}

// What row `row` of the block sees; rows that are not there see nothing.
__device__ inline Seen row_sees(const AttendArguments &a, const WideWork &w, int row, bool is_sink) {
    if (row >= w.n_rows) return Seen{1, 0};
    const int token = w.tile.first_token + (w.first + row) / (a.n_heads / a.n_kv_heads);
    return seen_from(a.positions[token], a.window, w.tile.n_sinks, w.tile.n_evicted, is_sink);
}

// 16 rows by N times eight keys: c[n] as mma() has it.
template <class Shape, int N>
__device__ inline void score(const typename Shape::C *queries, const typename Shape::C *keys,
                             float (&c)[N][4]) {
    const int lane = threadIdx.x % 32;
    const uint32_t a_at = shared_at(queries + lane % 16 * Shape::STRIDE + lane / 16 * 8),
                   b_at = shared_at(keys + lane % 8 * Shape::STRIDE + lane / 8 * 8);
#pragma unroll
    for (int n = 0; n < N; n++) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll 6
    for (int k = 0; k < Shape::ROW; k += 32) {
        uint32_t a[2][4], b[N][4];
        load_matrices(a[0], a_at + k * 2);
        load_matrices(a[1], a_at + k * 2 + 32);
#pragma unroll
        for (int n = 0; n < N; n++) load_matrices(b[n], b_at + (n * 8 * Shape::STRIDE + k) * 2);
#pragma unroll
        for (int n = 0; n < N; n++) {
            mma_of<typename Shape::C>(c[n], a[0], b[n][0], b[n][1]);
            mma_of<typename Shape::C>(c[n], a[1], b[n][2], b[n][3]);
        }
    }
}

// out += weights · values of a stage: all rows, the warp's elements eight by eight.
template <class Shape>
__device__ inline void add_values(const typename Shape::C *weights, const typename Shape::C *values,
                                  float (&out)[Shape::TILES][Shape::COLUMNS][4]) {
    constexpr int TILES = Shape::TILES, COLUMNS = Shape::COLUMNS;
    const int lane = threadIdx.x % 32;
    const uint32_t a_at = shared_at(weights + lane % 16 * Shape::NEXT + lane / 16 * 8),
                   b_at = shared_at(values + lane % 16 * Shape::STRIDE + lane / 16 * 8);
#pragma unroll
    for (int key = 0; key < Shape::KEYS; key += 16) {
        uint32_t a[TILES][4];
#pragma unroll
        for (int i = 0; i < TILES; i++) load_matrices(a[i], a_at + (i * 16 * Shape::NEXT + key) * 2);
#pragma unroll
        for (int n = 0; n < COLUMNS; n += 2) {
            uint32_t b[4]; // of an odd number the last two are the next warp's, or padding
            load_matrices_transposed(b, b_at + (key * Shape::STRIDE + n * 8) * 2);
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                mma_of<typename Shape::C>(out[i][n], a[i], b[0], b[1]);
                if (n + 1 < COLUMNS) mma_of<typename Shape::C>(out[i][n + 1], a[i], b[2], b[3]);
            }
        }
    }
}

// Running maxima and sums of rows that are on their way, base 2.
template <int ACROSS, int ROWS>
__device__ inline float highest(const float (&tops)[ACROSS][ROWS], int row, float before) {
#pragma unroll
    for (int j = 0; j < ACROSS; j++) before = fmaxf(before, tops[j][row]);
    return before;
}

__device__ inline float base_of(float top) {
    return top == -INFINITY ? 0 : top; // what saw nothing yet weighs nothing
}

// What a thread has of the block's sums: of all rows g and g + 8 of 16 their largest scores, and as a warp of scores those
// of its own rows.
template <class Shape> struct WideSums {
    float out[Shape::TILES][Shape::COLUMNS][4], tops[Shape::TILES][2];
    float own_tops[2], own_totals[2];
};

// Where a warp's scores lie: rows from `row` on, keys from side·WARP_KEYS on.
template <class Shape> struct ScorePlace {
    int row, side;
    __device__ ScorePlace() {
        row = (int)threadIdx.x / 32 / Shape::ACROSS * 16;
        side = (int)threadIdx.x / 32 % Shape::ACROSS;
    }
    __device__ static bool scores() { return Shape::SCORING == 8 || threadIdx.x < Shape::SCORING * 32; }
};

// Scores that count, times the scale, and the rows' largest of the warp's keys to `tops`.
template <class Shape, int N>
__device__ inline void mask_scores(const AttendArguments &a, const ScorePlace<Shape> &at,
                                   const int32_t *positions, const Seen seen[2], float (&c)[N][4],
                                   float (&tops)[Shape::ACROSS][Shape::ROWS]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float top[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int32_t position = positions[at.side * Shape::WARP_KEYS + n * 8 + t * 2 + j % 2];
            c[n][j] = visible(position, seen[j / 2]) ? c[n][j] * a.scale : -INFINITY;
            top[j / 2] = fmaxf(top[j / 2], c[n][j]);
        }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 1));
        top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 2));
        if (t == 0) tops[at.side][at.row + g + 8 * r] = top[r];
    }
}

// Scores become weights, relative to the rows' largest so far.
template <class Shape, int N>
__device__ inline void weigh(const ScorePlace<Shape> &at, const float (&c)[N][4],
                             const float (&tops)[Shape::ACROSS][Shape::ROWS], typename Shape::C *weights,
                             WideSums<Shape> &sums) {
    typedef typename Shape::C C;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    struct alignas(4) Two {
        C v[2];
    };
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = at.row + g + 8 * r;
        const float now = highest(tops, row, sums.own_tops[r]), base = base_of(now);
        float sum = sums.own_totals[r] * exp2f(sums.own_tops[r] - base);
#pragma unroll
        for (int n = 0; n < N; n++) {
            const float x = exp2_approx(c[n][2 * r] - base), y = exp2_approx(c[n][2 * r + 1] - base);
            *(Two *)(weights + row * Shape::NEXT + at.side * Shape::WARP_KEYS + n * 8 + t * 2) =
                Two{from_float<C>(x), from_float<C>(y)};
            sum += x + y;
        }
        sums.own_tops[r] = now, sums.own_totals[r] = sum;
    }
}

// What there is so far is made relative to them.
template <class Shape>
__device__ inline void rebase(const float (&tops)[Shape::ACROSS][Shape::ROWS], WideSums<Shape> &sums) {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < Shape::TILES; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float now = highest(tops, i * 16 + g + 8 * r, sums.tops[i][r]);
            if (__any_sync(~0u, now != sums.tops[i][r])) {
                const float shrink = exp2f(sums.tops[i][r] - base_of(now));
#pragma unroll
                for (int n = 0; n < Shape::COLUMNS; n++)
                    sums.out[i][n][2 * r] *= shrink, sums.out[i][n][2 * r + 1] *= shrink;
            }
            sums.tops[i][r] = now;
        }
}

// A row of a piece, for wide_sum_kernel, or of y. found: its largest score and its sum.
template <class Shape>
__device__ inline void end_row(const WideArguments &l, const WideWork &w, int row,
                               const float (&out)[Shape::COLUMNS][4], int r, float2 found) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4;
    const int64_t query = query_row(l.a, w, row);
    const int at = warp * Shape::ELEMENTS + t * 2;
    if (l.split_tiles) {
        const int64_t piece = (int64_t)blockIdx.y * l.pieces + blockIdx.z / l.a.n_kv_heads,
                      part = piece * l.parts + query - (int64_t)w.tile.first_token * l.a.n_heads;
        if (warp == 0 && t == 0) l.weights[part] = found;
        float *to = l.sums + part * Shape::ROW + at;
#pragma unroll
        for (int n = 0; n < Shape::COLUMNS; n++)
            *(float2 *)(to + n * 8) = make_float2(out[n][2 * r], out[n][2 * r + 1]);
        return;
    }
    const float scale = found.y == 0 ? 0 : 1 / found.y; // NaN stays
#pragma unroll
    for (int n = 0; n < Shape::COLUMNS; n++) {
        const int64_t to = query * Shape::ROW + at + n * 8;
        const float x = out[n][2 * r] * scale, y = out[n][2 * r + 1] * scale;
        if (l.type == DTYPE_F16)
            *(__half2 *)((__half *)l.y + to) = __floats2half2_rn(x, y);
        else
            *(__nv_bfloat162 *)((__nv_bfloat16 *)l.y + to) = __floats2bfloat162_rn(x, y);
    }
}

// All rows. totals: in shared memory, of the warps side by side.
template <class Shape>
__device__ inline void end_rows(const WideArguments &l, const WideWork &w, const ScorePlace<Shape> &at,
                                WideSums<Shape> &sums, float (&totals)[Shape::ACROSS][Shape::ROWS]) {
    const int lane = threadIdx.x % 32, g = lane / 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = sums.own_totals[r];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        if (at.scores() && lane % 4 == 0) totals[at.side][at.row + g + 8 * r] = total;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Shape::TILES; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = i * 16 + g + 8 * r;
            float total = 0;
            for (int j = 0; j < Shape::ACROSS; j++) total += totals[j][row];
            if (row < w.n_rows)
                end_row<Shape>(l, w, row, sums.out[i], r, make_float2(sums.tops[i][r], total));
        }
}

// Keys and values of a block on their way into shared memory: unit u lies in stage u % 2.
template <class Shape> struct WideStages {
    typedef typename Shape::C C;
    enum { KEYS = Shape::KEYS, STRIDE = Shape::STRIDE, KEPT = Shape::APART ? 2 : 1 };
    const AttendArguments &a;
    const WideWork &w;
    const Units &units;
    C *memory; // [2, KEPT, KEYS, STRIDE]
    int32_t (*slots)[KEYS],
        (*positions)[KEYS]; // [3, KEYS] of units u - 1, u and u + 1; positions -1: nothing

    __device__ const C *keys(int u) const { return memory + u % 2 * KEPT * KEYS * STRIDE; }
    __device__ const C *values(int u) const { return keys(u) + (KEPT - 1) * KEYS * STRIDE; }

    __device__ void find_slots(int u) const {
        if (threadIdx.x >= KEYS || u >= units.n) return;
        const int index = w.begin + units.first(u) + (int)threadIdx.x;
        const bool there = index < w.end && units.counts(u, index, w.tile.n_sinks);
        const int32_t slot = there ? slot_of(a.pages, w.tile.first_page, index) : 0;
        slots[u % 3][threadIdx.x] = slot;
        positions[u % 3][threadIdx.x] = there ? position_at(a.slot_positions, slot, index) : -1;
    }
    __device__ void bring(int u) const {
        for (int p = threadIdx.x; p < KEPT * KEYS * Shape::PIECES && u < units.n; p += WIDE_THREADS) {
            const int key = p / Shape::PIECES % KEYS, d = p % Shape::PIECES * 8;
            const bool is_key = KEPT == 1 || p < KEYS * Shape::PIECES, there = positions[u % 3][key] >= 0;
            const int64_t from = slots[u % 3][key] * a.kv.slot_stride + w.kv_head * a.kv.head_stride + d;
            C *to = (C *)(is_key ? keys(u) : values(u)) + key * STRIDE + d;
            if constexpr (Shape::CONVERTS)
                *(uint4 *)to = there ? halves_at(a.kv, is_key, from) : make_uint4(0, 0, 0, 0);
            else
                copy_16(to, (const C *)(is_key ? a.kv.k : a.kv.v) + from, there); // else zeros
        }
        end_copies();
    }
};

// Grid: [blocks of ROWS rows, splits or tiles, KV heads · pieces], block: 256.
template <class Shape>
__global__ void __launch_bounds__(WIDE_THREADS, 1) wide_kernel(const __grid_constant__ WideArguments l) {
    typedef typename Shape::C C;
    constexpr int TILES = Shape::TILES, KEYS = Shape::KEYS, ROWS = Shape::ROWS, N = Shape::WARP_KEYS / 8;
    extern __shared__ __align__(16) char shared[];
    __shared__ float tops[Shape::ACROSS][ROWS], totals[Shape::ACROSS][ROWS];
    __shared__ int32_t slots[3][KEYS], positions[3][KEYS];
    C *queries = (C *)shared, *staged = queries + ROWS * Shape::STRIDE,
      *weights = staged + 2 * (Shape::APART ? 2 : 1) * KEYS * Shape::STRIDE;
    const AttendArguments &a = l.a;
    const ScorePlace<Shape> at;
    const int row = at.row + threadIdx.x % 32 / 4;
    let_next_begin();
    kernels_before();
    WideWork w;
    if (!find_work(l, ROWS, KEYS, &w)) return;
    const Units units(KEYS, w.begin, w.end, w.tile.n_sinks, w.tile.n_evicted);
    const WideStages<Shape> stages = {a, w, units, staged, slots, positions};

    WideSums<Shape> sums = {};
    sums.own_tops[0] = sums.own_tops[1] = -INFINITY;
#pragma unroll
    for (int i = 0; i < TILES; i++) sums.tops[i][0] = sums.tops[i][1] = -INFINITY;
    bool is_sink = units.sinks > 0;
    stages.find_slots(0);
    stages.find_slots(1);
    load_queries<Shape>(l, is_sink ? l.q_sinks : l.q, w, queries);
    Seen seen[2] = {row_sees(a, w, row, is_sink), row_sees(a, w, row + 8, is_sink)};
    __syncthreads();
    stages.bring(0);
    for (int u = 0; u < units.n; u++) {
        await_copies<0>();
        __syncthreads(); // the stage is there, and nobody uses the other
        if (is_sink && u == units.sinks) {
            is_sink = false;
            load_queries<Shape>(l, l.q, w, queries);
            seen[0] = row_sees(a, w, row, false), seen[1] = row_sees(a, w, row + 8, false);
            __syncthreads();
        }
        stages.bring(u + 1);
        stages.find_slots(u + 2);
        float c[N][4];
        if (at.scores()) {
            score<Shape, N>(queries + at.row * Shape::STRIDE,
                            stages.keys(u) + at.side * Shape::WARP_KEYS * Shape::STRIDE, c);
            mask_scores<Shape, N>(a, at, positions[u % 3], seen, c, tops);
        }
        __syncthreads(); // all have told their largest
        if (at.scores()) weigh<Shape, N>(at, c, tops, weights, sums);
        rebase<Shape>(tops, sums);
        __syncthreads(); // the weights are there
        add_values<Shape>(weights, stages.values(u) + threadIdx.x / 32 * Shape::ELEMENTS, sums.out);
    }
    end_rows<Shape>(l, w, at, sums, totals);
}

#endif
