// attend over a cache of latents (ops.h, Latent): a row of 576 elements is the key and the value of all heads.
//
//   rows of queries (heads of a token, token after token)   16 · TILES of a block, in shared memory
//   keys, two stages of KEYS rows                           brought by all threads while the stage before is used
//
//   scores:  warp (i, j) has rows 16·i … and keys j·WARP_KEYS … of a stage
//   values:  warp w has all rows, and elements 72·w … of a key's 576
//
// Tiles of few tokens are cut into splits, which latent_sum_kernel puts together; tiles of many are not.
#include "kernels/cuda/attention/latent.cuh"
#include "kernels/cuda/device/launch.cuh"

enum { LATENT_THREADS = 256, ELEMENTS = LATENT_ROW / 8, PIECES = LATENT_ROW / 8, STRIDE = LATENT_ROW + 8 };

// SCORING: warps that compute scores; where eight would have fewer than eight keys each, the others look on.
template <int N_TILES, int N_KEYS> struct LatentShape {
    static constexpr int TILES = N_TILES, KEYS = N_KEYS, ROWS = 16 * TILES,
                         ACROSS = 8 / TILES < KEYS / 8 ? 8 / TILES : KEYS / 8, WARP_KEYS = KEYS / ACROSS,
                         SCORING = TILES * ACROSS, NEXT = KEYS + 8; // from a row of weights to the next
    static constexpr size_t SHARED = latent_shared({TILES, KEYS});
};

struct LatentArguments {
    AttendArguments a;
    const void *q, *q_sinks;
    void *y;
    const AttendTile *split_tiles; // NULL: tiles are whole
    int parts;                     // rows of a split
    float *sums;                   // [n_splits, parts, 576]
    float2 *weights;               // [n_splits, parts] largest score and sum
};

// What the block goes through: indexes [begin, end) of a tile, for `n_rows` rows of queries from `first` on.
struct LatentWork {
    AttendTile tile;
    int begin, end, first, n_rows;
    int64_t query; // row of q of the first one
};

__device__ inline bool find_work(const LatentArguments &l, int rows, LatentWork *w) {
    w->tile = l.split_tiles ? l.split_tiles[blockIdx.y] : l.a.tiles[blockIdx.y];
    if (w->tile.n_tokens == 0) return false;
    const int split = (int)blockIdx.y - w->tile.first_split;
    w->begin = l.split_tiles ? split * w->tile.split_slots : 0;
    w->end = l.split_tiles ? min(w->tile.n_slots, w->begin + w->tile.split_slots) : w->tile.n_slots;
    w->first = blockIdx.x * rows;
    w->n_rows = min(rows, w->tile.n_tokens * l.a.n_heads - w->first);
    w->query = (int64_t)w->tile.first_token * l.a.n_heads + w->first;
    return w->n_rows > 0;
}

// Queries as elements of the cache's type; rows that are not there become zeros.
template <class T, class C, int ROWS>
__device__ inline void load_queries(const T *q, const LatentWork &w, C *to) {
    for (int p = threadIdx.x; p < ROWS * PIECES; p += LATENT_THREADS) {
        const int row = p / PIECES, piece = p % PIECES;
        struct alignas(16) Eight {
            T v[8];
        } from = {};
        struct alignas(16) Converted {
            C v[8];
        } out;
        if (row < w.n_rows) from = *(const Eight *)(q + (w.query + row) * LATENT_ROW + piece * 8);
#pragma unroll
        for (int i = 0; i < 8; i++) out.v[i] = from_float<C>(to_float(from.v[i]));
        *(Converted *)(to + row * STRIDE + piece * 8) = out;
    }
}

// What row `row` of the block sees; rows that are not there see nothing.
__device__ inline Seen row_sees(const AttendArguments &a, const LatentWork &w, int row, bool is_sink) {
    if (row >= w.n_rows) return Seen{1, 0};
    const int token = w.tile.first_token + (w.first + row) / a.n_heads;
    return seen_from(a.positions[token], a.window, w.tile.n_sinks, w.tile.n_evicted, is_sink);
}

// 16 rows by N times eight keys: c[n] as mma() has it.
template <class C, int N> __device__ inline void score(const C *queries, const C *keys, float (&c)[N][4]) {
    const int lane = threadIdx.x % 32;
    const uint32_t a_at = shared_at(queries + lane % 16 * STRIDE + lane / 16 * 8),
                   b_at = shared_at(keys + lane % 8 * STRIDE + lane / 8 * 8);
#pragma unroll
    for (int n = 0; n < N; n++) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll 6
    for (int k = 0; k < LATENT_ROW; k += 32) {
        uint32_t a[2][4], b[N][4];
        load_matrices(a[0], a_at + k * 2);
        load_matrices(a[1], a_at + k * 2 + 32);
#pragma unroll
        for (int n = 0; n < N; n++) load_matrices(b[n], b_at + (n * 8 * STRIDE + k) * 2);
#pragma unroll
        for (int n = 0; n < N; n++) {
            mma_of<C>(c[n], a[0], b[n][0], b[n][1]);
            mma_of<C>(c[n], a[1], b[n][2], b[n][3]);
        }
    }
}

// out += weights · values of a stage: all rows, nine times eight elements.
template <class C, class Shape>
__device__ inline void add_values(const C *weights, const C *values, float (&out)[Shape::TILES][9][4]) {
    constexpr int TILES = Shape::TILES;
    const int lane = threadIdx.x % 32;
    const uint32_t a_at = shared_at(weights + lane % 16 * Shape::NEXT + lane / 16 * 8),
                   b_at = shared_at(values + lane % 16 * STRIDE + lane / 16 * 8);
#pragma unroll
    for (int key = 0; key < Shape::KEYS; key += 16) {
        uint32_t a[TILES][4];
#pragma unroll
        for (int i = 0; i < TILES; i++) load_matrices(a[i], a_at + (i * 16 * Shape::NEXT + key) * 2);
#pragma unroll
        for (int n = 0; n < 9; n += 2) {
            uint32_t b[4]; // the last two of the ninth are the next warp's, or padding
            load_matrices_transposed(b, b_at + (key * STRIDE + n * 8) * 2);
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                mma_of<C>(out[i][n], a[i], b[0], b[1]);
                if (n + 1 < 9) mma_of<C>(out[i][n + 1], a[i], b[2], b[3]);
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
template <int TILES> struct LatentSums {
    float out[TILES][9][4], tops[TILES][2];
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
template <class C, class Shape, int N>
__device__ inline void weigh(const ScorePlace<Shape> &at, const float (&c)[N][4],
                             const float (&tops)[Shape::ACROSS][Shape::ROWS], C *weights,
                             LatentSums<Shape::TILES> &sums) {
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
__device__ inline void rebase(const float (&tops)[Shape::ACROSS][Shape::ROWS],
                              LatentSums<Shape::TILES> &sums) {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < Shape::TILES; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float now = highest(tops, i * 16 + g + 8 * r, sums.tops[i][r]);
            if (__any_sync(~0u, now != sums.tops[i][r])) {
                const float shrink = exp2f(sums.tops[i][r] - base_of(now));
#pragma unroll
                for (int n = 0; n < 9; n++)
                    sums.out[i][n][2 * r] *= shrink, sums.out[i][n][2 * r + 1] *= shrink;
            }
            sums.tops[i][r] = now;
        }
}

// A row of a split, for latent_sum_kernel, or of y. found: its largest score and its sum.
template <class T>
__device__ inline void end_row(const LatentArguments &l, const LatentWork &w, int row,
                               const float (&out)[9][4], int r, float2 found) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4;
    if (l.split_tiles) {
        const int64_t part = (int64_t)blockIdx.y * l.parts + w.first + row;
        if (warp == 0 && t == 0) l.weights[part] = found;
        float *to = l.sums + part * LATENT_ROW + warp * ELEMENTS + t * 2;
#pragma unroll
        for (int n = 0; n < 9; n++) *(float2 *)(to + n * 8) = make_float2(out[n][2 * r], out[n][2 * r + 1]);
        return;
    }
    struct alignas(sizeof(T) * 2) Two {
        T v[2];
    };
    const float scale = found.y == 0 ? 0 : 1 / found.y; // NaN stays
    T *to = (T *)l.y + (w.query + row) * LATENT_ROW + warp * ELEMENTS + t * 2;
#pragma unroll
    for (int n = 0; n < 9; n++)
        *(Two *)(to + n * 8) =
            Two{from_float<T>(out[n][2 * r] * scale), from_float<T>(out[n][2 * r + 1] * scale)};
}

// All rows. totals: in shared memory, of the warps side by side.
template <class T, class Shape>
__device__ inline void end_rows(const LatentArguments &l, const LatentWork &w, const ScorePlace<Shape> &at,
                                LatentSums<Shape::TILES> &sums, float (&totals)[Shape::ACROSS][Shape::ROWS]) {
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
            if (row < w.n_rows) end_row<T>(l, w, row, sums.out[i], r, make_float2(sums.tops[i][r], total));
        }
}

// Grid: [blocks of ROWS rows, splits or tiles], block: 256.
template <class T, class C, class Shape>
__global__ void __launch_bounds__(LATENT_THREADS, 1)
    latent_kernel(const __grid_constant__ LatentArguments l) {
    constexpr int TILES = Shape::TILES, KEYS = Shape::KEYS, ROWS = Shape::ROWS, N = Shape::WARP_KEYS / 8;
    extern __shared__ __align__(16) char shared[];
    __shared__ float tops[Shape::ACROSS][ROWS], totals[Shape::ACROSS][ROWS];
    __shared__ int32_t slots[3][KEYS], positions[3][KEYS];
    C *queries = (C *)shared, *stages = queries + ROWS * STRIDE, *weights = stages + 2 * KEYS * STRIDE;
    const AttendArguments &a = l.a;
    const ScorePlace<Shape> at;
    const int row = at.row + threadIdx.x % 32 / 4;
    let_next_begin();
    kernels_before();
    LatentWork w;
    if (!find_work(l, ROWS, &w)) return;
    const Units units(KEYS, w.begin, w.end, w.tile.n_sinks, w.tile.n_evicted);

    auto find_slots = [&](int u) {
        if (threadIdx.x >= KEYS || u >= units.n) return;
        const int index = w.begin + units.first(u) + (int)threadIdx.x;
        const bool there = index < w.end && units.counts(u, index, w.tile.n_sinks);
        const int32_t slot = there ? slot_of(a.pages, w.tile.first_page, index) : 0;
        slots[u % 3][threadIdx.x] = slot;
        positions[u % 3][threadIdx.x] = there ? position_at(a.slot_positions, slot, index) : -1;
    };
    auto bring = [&](int u) {
        C *to = stages + u % 2 * KEYS * STRIDE;
        for (int p = threadIdx.x; p < KEYS * PIECES && u < units.n; p += LATENT_THREADS) {
            const int key = p / PIECES, piece = p % PIECES;
            const C *from = (const C *)a.kv.k + slots[u % 3][key] * a.kv.slot_stride + piece * 8;
            copy_16(to + key * STRIDE + piece * 8, from, positions[u % 3][key] >= 0); // else zeros
        }
        end_copies();
    };

    LatentSums<TILES> sums = {};
    sums.own_tops[0] = sums.own_tops[1] = -INFINITY;
#pragma unroll
    for (int i = 0; i < TILES; i++) sums.tops[i][0] = sums.tops[i][1] = -INFINITY;
    bool is_sink = units.sinks > 0;
    find_slots(0);
    find_slots(1);
    load_queries<T, C, ROWS>((const T *)(is_sink ? l.q_sinks : l.q), w, queries);
    Seen seen[2] = {row_sees(a, w, row, is_sink), row_sees(a, w, row + 8, is_sink)};
    __syncthreads();
    bring(0);
    for (int u = 0; u < units.n; u++) {
        await_copies<0>();
        __syncthreads(); // the stage is there, and nobody uses the other
        if (is_sink && u == units.sinks) {
            is_sink = false;
            load_queries<T, C, ROWS>((const T *)l.q, w, queries);
            seen[0] = row_sees(a, w, row, false), seen[1] = row_sees(a, w, row + 8, false);
            __syncthreads();
        }
        bring(u + 1);
        find_slots(u + 2);
        const C *stage = stages + u % 2 * KEYS * STRIDE;
        float c[N][4];
        if (at.scores()) {
            score<C, N>(queries + at.row * STRIDE, stage + at.side * Shape::WARP_KEYS * STRIDE, c);
            mask_scores<Shape, N>(a, at, positions[u % 3], seen, c, tops);
        }
        __syncthreads(); // all have told their largest
        if (at.scores()) weigh<C, Shape, N>(at, c, tops, weights, sums);
        rebase<Shape>(tops, sums);
        __syncthreads(); // the weights are there
        add_values<C, Shape>(weights, stage + threadIdx.x / 32 * ELEMENTS, sums.out);
    }
    end_rows<T, Shape>(l, w, at, sums, totals);
}

// A block a row of a tile: what its splits have found. Grid: [rows, tiles of few tokens], block: 288, of which every
// thread has two elements.
template <class T>
__global__ void __launch_bounds__(LATENT_ROW / 2)
    latent_sum_kernel(const __grid_constant__ LatentArguments l) {
    __shared__ float shares[MOST_SPLITS];
    const AttendTile tile = l.a.tiles[blockIdx.y];
    const int row = blockIdx.x, n = tile.n_splits;
    let_next_begin();
    kernels_before();
    if (row >= tile.n_tokens * l.a.n_heads) return;
    const int64_t first = (int64_t)tile.first_split * l.parts + row;
    float top = -INFINITY, total = 0;
    for (int s = 0; s < n; s++) top = fmaxf(top, l.weights[first + (int64_t)s * l.parts].x);
    for (int s = threadIdx.x; s < n; s += LATENT_ROW / 2)
        shares[s] = exp2f(l.weights[first + (int64_t)s * l.parts].x - base_of(top));
    __syncthreads();
    float2 sum = make_float2(0, 0);
#pragma unroll 8
    for (int s = 0; s < n; s++) {
        const float2 v =
            *(const float2 *)(l.sums + (first + (int64_t)s * l.parts) * LATENT_ROW + threadIdx.x * 2);
        total += shares[s] * l.weights[first + (int64_t)s * l.parts].y;
        sum.x += shares[s] * v.x, sum.y += shares[s] * v.y;
    }
    const float scale = total == 0 ? 0 : 1 / total;
    T *to = (T *)l.y + ((int64_t)tile.first_token * l.a.n_heads + row) * LATENT_ROW + threadIdx.x * 2;
    to[0] = from_float<T>(sum.x * scale), to[1] = from_float<T>(sum.y * scale);
}

// ---- launches ----------------------------------------------------------------------------------------------

template <class T, class C, class Shape>
static cudaError_t launch(const CudaBackend *cuda, const LatentArguments &l, int rows, int n) {
    auto kernel = latent_kernel<T, C, Shape>;
    constexpr size_t SHARED = Shape::SHARED;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)SHARED);
    if (code != cudaSuccess) return code;
    const dim3 grid((rows + Shape::ROWS - 1) / Shape::ROWS, n);
    return launch_dependent(cuda, kernel, grid, LATENT_THREADS, SHARED, l);
}

template <class T, class C>
static cudaError_t launch_tiles(const CudaBackend *cuda, const LatentArguments &l, int rows, int n) {
    const LatentForm form = latent_form(&cuda->device.card, rows);
    if (form.tiles == 4) return launch<T, C, LatentShape<4, 32>>(cuda, l, rows, n);
    if (form.keys == 32)
        return form.tiles == 1 ? launch<T, C, LatentShape<1, 32>>(cuda, l, rows, n)
                               : launch<T, C, LatentShape<2, 32>>(cuda, l, rows, n);
    return form.tiles == 1 ? launch<T, C, LatentShape<1, 64>>(cuda, l, rows, n)
                           : launch<T, C, LatentShape<2, 64>>(cuda, l, rows, n);
}

template <class T>
static cudaError_t launch_cache(const CudaBackend *cuda, const LatentArguments &l, int rows, int n) {
    return l.a.kv.type == DTYPE_F16 ? launch_tiles<T, __half>(cuda, l, rows, n)
                                    : launch_tiles<T, __nv_bfloat16>(cuda, l, rows, n);
}

cudaError_t attend_latents(const CudaBackend *cuda, const AttendLaunch *launch, bool split) {
    const CudaStep *step = &cuda->step;
    LatentArguments l = {launch->a, launch->queries.recent, launch->queries.sinks, launch->y};
    const AttendHeads *h = &launch->heads;
    // Of tiles of many tokens always as many rows, so that where a prompt was cut does not show.
    const int most = h->n_heads < ATTEND_ROWS ? ATTEND_ROWS / h->n_heads : 1;
    const int rows = (split ? step->few_tokens : most) * h->n_heads,
              n = split ? step->n_splits : launch->n_tiles;
    cudaError_t code;
    if (split) {
        l.split_tiles = step->split_tiles;
        l.parts = step->few_tokens * h->n_heads;
        l.sums = (float *)cuda->scratch.parts.memory;
        l.weights = (float2 *)(l.sums + (size_t)n * (size_t)l.parts * LATENT_ROW);
    }
    WITH_TYPE_16(launch->type, (code = launch_cache<T>(cuda, l, rows, n)));
    if (code != cudaSuccess || !split) return code;
    l.a.tiles += step->n_tiles;
    WITH_TYPE_16(launch->type, (code = launch_dependent(cuda, latent_sum_kernel<T>,
                                                        dim3(rows, launch->n_tiles), LATENT_ROW / 2, 0, l)));
    return code;
}
