// How GEMVs go through rows of W in one format: a lane's share of them, and what it multiplies that with.
//
// A row of W is cut into the chunks of formats.cuh (a plain type has none: they are counted all the same), of wide codes
// into halves of them. A warp's lane holds of one as many pieces of 16 bytes as there are `turns`: piece t covers
// elements (32·t + lane)·EACH and on.
#ifndef PALAVER_KERNELS_CUDA_GEMM_GEMV_ROWS_CUH
#define PALAVER_KERNELS_CUDA_GEMM_GEMV_ROWS_CUH

#include "kernels/cuda/decode/dot.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/gemm/gemv.cuh"

enum {
    GEMV_WARPS = 8, // of a block; two blocks of at most 128 registers fill a multiprocessor
    GEMV_ROWS = 2,  // of a warp at a time
    GEMV_AHEAD = 4, // loads of x that a thread has under way while it is rounded
};

template <int FORMAT> struct GemvShape {
    static constexpr bool QUANTS = format_rounds_input(FORMAT),
                          PAIRS = FORMAT == FORMAT_Q8M || FORMAT == FORMAT_Q4M; // scales and minimums
    static constexpr int TURNS = format_wide(FORMAT) ? 2 : 4; // more would take registers that are not there
    static constexpr int CHUNK = chunk_elements(FORMAT), EACH = CHUNK / 128, FULL = EACH * 32 * TURNS;
};

// A lane's share of a chunk of one row of W; zeros beyond the row's end.
template <int FORMAT> struct GemvRow {
    typedef GemvShape<FORMAT> Shape;
    uint4 q[Shape::TURNS];
    uint32_t s[Shape::TURNS]; // quants: scale, and minimum above it; E4M3, NF4: the scale's bits
    uint32_t rest[format_wide(FORMAT) ? Shape::TURNS : 1][WIDE_WORDS]; // of wide codes

    __device__ void load(const char *row, int chunk, int cols) {
        const int whole = chunk * Shape::FULL / Shape::CHUNK, first = whole * Shape::CHUNK;
        const int n = min(Shape::CHUNK, cols - first), lane = threadIdx.x % 32;
        const char *from = row + (int64_t)whole * chunk_bytes(FORMAT, Shape::CHUNK);
        const char *scales = from + quant_bytes(FORMAT, n);
#pragma unroll
        for (int t = 0; t < Shape::TURNS; t++) {
            int i = chunk * Shape::FULL - first + (t * 32 + lane) * Shape::EACH;
            bool there = i < n;
            q[t] = make_uint4(0, 0, 0, 0);
            if (there && FORMAT == FORMAT_Q2)
                q[t] = packed_group<FORMAT>(from, n, i / 32);
            else if (there)
                q[t] = load_streaming(from + quant_bytes(FORMAT, i));
            if constexpr (format_packed(FORMAT)) {
                s[t] = 0;
            } else if constexpr (FORMAT == FORMAT_E4M3) {
                s[t] = there ? __ldg((const uint32_t *)scales + i / 128) : 0;
            } else if constexpr (format_wide(FORMAT)) {
                WideGroup<FORMAT> g = {};
                if (there) load_rest(from, n, i / 32, &g);
                rest[t][0] = g.rest[0], rest[t][1] = g.rest[1], s[t] = g.scales;
            } else if constexpr (Shape::QUANTS) {
                if (!there)
                    s[t] = 0;
                else if (FORMAT == FORMAT_NF4)
                    s[t] = __ldg((const uint32_t *)scales + i / 64);
                else if (Shape::PAIRS)
                    s[t] = __ldg((const uint32_t *)scales + i / 32);
                else
                    s[t] = __ldg((const uint16_t *)scales + i / (FORMAT == FORMAT_Q8S ? 16 : 32));
            }
        }
    }
};

// Where the elements of x begin that a lane's piece t meets. Beyond the row's end W is 0, and any do: without a branch,
// a turn need not wait for the one before.
template <int FORMAT> __device__ inline int gemv_place(const FlatArguments &a, int chunk, int t) {
    int i = chunk * GemvShape<FORMAT>::FULL + (t * 32 + (int)threadIdx.x % 32) * GemvShape<FORMAT>::EACH;
    return i < a.w.cols ? i : 0;
}

// Two sums, so that products need not wait for each other.
struct GemvSum {
    float even, odd;
};

// ---- weights as numbers --------------------------------------------------------------------------------------------

__device__ inline void floats_of(uint4 v, float *f, float) {
    f[0] = __uint_as_float(v.x), f[1] = __uint_as_float(v.y);
    f[2] = __uint_as_float(v.z), f[3] = __uint_as_float(v.w);
}
template <class T> __device__ inline void floats_of(uint4 v, float *f, T) {
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 p = pair_of(words[i], T());
        f[2 * i] = p.x, f[2 * i + 1] = p.y;
    }
}

template <int FORMAT> struct PlainOf { typedef float T; };
template <> struct PlainOf<FORMAT_F16> { typedef __half T; };
template <> struct PlainOf<FORMAT_BF16> { typedef __nv_bfloat16 T; };

// Elements first … first + N - 1 of a lane's piece t as floats.
template <int N, int FORMAT>
__device__ inline void weights_of(const GemvRow<FORMAT> &row, int t, int first, float *f) {
    if constexpr (FORMAT == FORMAT_E4M3) {
        const uint32_t words[2] = {first ? row.q[t].z : row.q[t].x, first ? row.q[t].w : row.q[t].y};
        const float scale = __uint_as_float(row.s[t]);
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            float2 p = __half22float2(e4m3_pair(words[i / 4] >> (i % 4 * 8)));
            f[i] = scale * p.x, f[i + 1] = scale * p.y;
        }
    } else {
        floats_of(row.q[t], f, typename PlainOf<FORMAT>::T());
    }
}

// N elements of x: 4 or 8.
template <int N, class T> __device__ inline void load_floats(const T *x, float *f) {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < N; i += 4) floats_of(__ldg((const uint4 *)(x + i)), f + i, float());
    } else if constexpr (N == 8) {
        floats_of(__ldg((const uint4 *)x), f, T());
    } else {
        uint2 v = __ldg((const uint2 *)x);
        float2 p = pair_of(v.x, T()), q = pair_of(v.y, T());
        f[0] = p.x, f[1] = p.y, f[2] = q.x, f[3] = q.y;
    }
}

template <int FORMAT, class T, int NX>
__device__ inline void multiply_plain(const FlatArguments &a, const GemvRow<FORMAT> *rows, int chunk,
                                      GemvSum (*sums)[NX]) {
    constexpr int EACH = GemvShape<FORMAT>::EACH,
                  N = EACH < 8 ? EACH : 8; // more would take too many registers
    const T *x = (const T *)a.x;
#pragma unroll
    for (int piece = 0; piece < GemvShape<FORMAT>::TURNS * EACH; piece += N) {
        const int t = piece / EACH, first = piece % EACH, col = gemv_place<FORMAT>(a, chunk, t) + first;
        float w[GEMV_ROWS][N];
#pragma unroll
        for (int r = 0; r < GEMV_ROWS; r++) weights_of<N>(rows[r], t, first, w[r]);
#pragma unroll
        for (int j = 0; j < NX; j++) {
            float f[N];
            load_floats<N>(x + (int64_t)min(j, a.n - 1) * a.w.cols + col, f);
#pragma unroll
            for (int r = 0; r < GEMV_ROWS; r++)
#pragma unroll
                for (int i = 0; i < N; i += 2) {
                    sums[r][j].even = fmaf(w[r][i], f[i], sums[r][j].even);
                    sums[r][j].odd = fmaf(w[r][i + 1], f[i + 1], sums[r][j].odd);
                }
        }
    }
}

// ---- quantised weights ------------------------------------------------------------------------------------------

// Row j of the input in shared memory, as dot.cuh has it.
__device__ inline Input gemv_input(char *shared, int cols, int j) {
    Input x;
    x.quants = shared + (int64_t)j * GEMV_INPUT_BYTES(cols);
    x.plane = cols / 2;
    x.scales = (const float *)(x.quants + cols);
    x.sums = (const float *)(x.quants + cols + (cols / 8 + 15) / 16 * 16);
    return x;
}

template <class T> __device__ inline void quantise_input(const FlatArguments &a, char *shared) {
    constexpr int STRIDE = GEMV_WARPS * 32 * 4;
    const int cols = a.w.cols;
    for (int j = 0; j < a.n; j++) {
        Input to = gemv_input(shared, cols, j);
        const T *x = (const T *)a.x + (int64_t)j * cols;
        // Several loads at once; lanes behind the end take part in the others' shuffles.
        for (int first = 0; first < cols; first += GEMV_AHEAD * STRIDE) {
            float4 f[GEMV_AHEAD] = {};
            int place[GEMV_AHEAD];
#pragma unroll
            for (int k = 0; k < GEMV_AHEAD; k++) {
                int i = place[k] = first + k * STRIDE + (int)threadIdx.x * 4;
                if (i < cols) load_floats<4>(x + i, &f[k].x);
            }
            store_quants<GEMV_AHEAD>(to, f, place, cols);
        }
    }
}

// What piece t of a row of W gives with its 16 or 32 elements of x.
template <int FORMAT>
__device__ inline void multiply_piece(const GemvRow<FORMAT> &row, int t, const Input &x, int at,
                                      GemvSum &sum) {
    constexpr bool PAIRS = GemvShape<FORMAT>::PAIRS;
    const uint4 q = row.q[t];
    const uint32_t s = row.s[t];
    if constexpr (format_packed(FORMAT) || format_wide(FORMAT)) {
        const uint4 u = *(const uint4 *)(x.quants + at / 2),
                    v = *(const uint4 *)(x.quants + x.plane + at / 2);
        const float2 sums = *(const float2 *)(x.sums + at / 16);
        float2 both = make_float2(sum.even, sum.odd);
        if constexpr (format_packed(FORMAT))
            both = packed_product<FORMAT>(q, u, v, packed_input<FORMAT>(x.scales[at / 32], sums), both);
        else
            both = wide_product(WideGroup<FORMAT>{q, {row.rest[t][0], row.rest[t][1]}, s}, u, v,
                                x.scales[at / 32], wide_sums<FORMAT>(sums), both);
        sum.even = both.x, sum.odd = both.y;
        return;
    }
    float2 scale = FORMAT == FORMAT_NF4 ? make_float2(__uint_as_float(s) * NF4_DOT_UNIT, 0)
                                        : __half22float2(*(__half2 *)&s);
    int product;
    float sums, unit = 1; // of the product
    if constexpr (format_book(FORMAT)) {
        product = book_dot<FORMAT>(q, *(const uint4 *)(x.quants + at / 2),
                                   *(const uint4 *)(x.quants + x.plane + at / 2));
        sums = 0;
    } else if constexpr (format_nibbles(FORMAT)) {
        product = nibbles_dot(q, *(const uint4 *)(x.quants + at / 2),
                              *(const uint4 *)(x.quants + x.plane + at / 2));
        unit = 0.0625f;
        float2 both = *(const float2 *)(x.sums + at / 16);
        sums = both.x + both.y;
    } else {
        product = dot_4x4(q, *(const uint4 *)(x.quants + (at / 16 & 1) * x.plane + at / 32 * 16));
        sums = PAIRS ? x.sums[at / 16] : 0;
    }
    float scaled = x.scales[at / 32] * unit * (float)product;
    if (FORMAT == FORMAT_Q4) scaled = fmaf(-8, sums, scaled);
    sum.even = fmaf(scale.x, scaled, sum.even);
    if (PAIRS) sum.odd = fmaf(scale.y, sums, sum.odd);
}

template <int FORMAT, int NX>
__device__ inline void multiply_quants(const FlatArguments &a, const GemvRow<FORMAT> *rows, char *shared,
                                       int chunk, GemvSum (*sums)[NX]) {
#pragma unroll
    for (int t = 0; t < GemvShape<FORMAT>::TURNS; t++) {
        const int at = gemv_place<FORMAT>(a, chunk, t);
#pragma unroll
        for (int j = 0; j < NX; j++) {
            Input x = gemv_input(shared, a.w.cols, min(j, a.n - 1));
#pragma unroll
            for (int r = 0; r < GEMV_ROWS; r++) multiply_piece<FORMAT>(rows[r], t, x, at, sums[r][j]);
        }
    }
}

// ---- the kernel ------------------------------------------------------------------------------------------------

#endif
