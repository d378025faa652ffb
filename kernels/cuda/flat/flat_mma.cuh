// The kernel of flat.cuh for quantised weights on cards other than Hopper, by mma.m16n8k16. A warp takes 16 rows of W,
// straight from memory into registers, several steps ahead, where they become 16 bits; x comes through a ring in shared
// memory that the block's warps share. Weights of 16 bits: flat_copy.cuh.
//
// Lane l = 4·g + t holds of rows g and g + 8 four pieces of eight columns a step: which ones depends on how the
// format's 16-byte loads lie. x is read in the same order, so that any will do.
#ifndef PALAVER_KERNELS_CUDA_FLAT_FLAT_MMA_CUH
#define PALAVER_KERNELS_CUDA_FLAT_FLAT_MMA_CUH

#include "kernels/cuda/flat/flat_epilogue.cuh"
#include "kernels/cuda/device/codes.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"

#include <type_traits>

enum { FLAT_STEP = 128 };

// What a lane holds of one row's step.
template <int FORMAT> struct FlatRow {
    static constexpr bool HALVED = format_halved(FORMAT),
                          PAIRS = FORMAT == FORMAT_Q8M || FORMAT == FORMAT_Q4M;
    static constexpr int LOADS = HALVED ? 1 : 2;
    uint4 q[LOADS];
    uint32_t s[LOADS];      // scale, and minimum above it
    WideGroup<FORMAT> wide; // of wide codes, instead

    // Columns [col, col + FLAT_STEP) of a row, a multiple of FLAT_STEP; zeros beyond `cols`.
    __device__ void load(const char *row, int col, int cols, int t) {
        constexpr int FULL = chunk_elements(FORMAT), EACH = HALVED ? 32 : 16;
        int first = col / FULL * FULL, n = min(FULL, cols - first);
        const char *chunk = row + (int64_t)(col / FULL) * chunk_bytes(FORMAT, FULL);
        const char *scales = chunk + quant_bytes(FORMAT, n);
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int in = col - first + 64 * i + EACH * t;
            bool there = in < n;
            q[i] = make_uint4(0, 0, 0, 0);
            if (there && FORMAT == FORMAT_Q2)
                q[i] = packed_group<FORMAT>(chunk, n, in / 32);
            else if (there)
                q[i] = load_streaming(chunk + quant_bytes(FORMAT, in));
            if constexpr (format_wide(FORMAT)) {
                wide = WideGroup<FORMAT>{q[i], {0, 0}, 0};
                if (there) load_rest(chunk, n, in / 32, &wide);
                continue;
            }
            if (!there || format_packed(FORMAT))
                s[i] = 0;
            else if (FORMAT == FORMAT_NF4)
                s[i] = half_of(__ldg((const float *)scales + in / 64));
            else if (FORMAT == FORMAT_E4M3)
                s[i] = e4m3_scale(__ldg((const float *)scales + in / 128));
            else if (PAIRS)
                s[i] = __ldg((const uint32_t *)scales + in / 32);
            else
                s[i] = __ldg((const uint16_t *)scales + in / (FORMAT == FORMAT_Q8S ? 16 : 32));
        }
    }

    // Which of the step's 16 pieces is this lane's p-th.
    __device__ static int piece(int p, int t) {
        return HALVED ? 4 * t + p : p / 2 * 8 + 2 * t + p % 2;
    }

    // Its eight elements, in pairs of the operand type.
    __device__ void pairs(int p, uint32_t out[4]) const {
        if constexpr (format_packed(FORMAT) || format_wide(FORMAT)) {
            const uint32_t both = format_wide(FORMAT)   ? wide.scales
                                  : FORMAT == FORMAT_Q2 ? packed_scales(q[0], p / 2)
                                                        : q[0].w;
            const bool second = (FORMAT == FORMAT_Q3 || FORMAT == FORMAT_Q6) && p >= 2;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t w, scale = second ? both >> 16 : both;
                if constexpr (format_wide(FORMAT))
                    w = wide_bytes(wide, 2 * p + i);
                else
                    w = packed_bytes<FORMAT>(q[0], 2 * p + i);
                out[2 * i] = value(__byte_perm(w, 0x64646464, 0x4140), scale);
                out[2 * i + 1] = value(__byte_perm(w, 0x64646464, 0x4342), scale);
            }
        } else {
            const uint4 &v = q[HALVED ? 0 : p / 2];
            uint32_t scale = s[HALVED ? 0 : p / 2];
            uint32_t words[2] = {p % 2 ? v.z : v.x, p % 2 ? v.w : v.y};
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t w = words[i];
                if constexpr (FORMAT == FORMAT_E4M3) {
                    out[2 * i] = e4m3_scaled(w, scale), out[2 * i + 1] = e4m3_scaled(w >> 16, scale);
                    continue;
                }
                if constexpr (FORMAT == FORMAT_NF4) {
                    uint32_t v[2], both = __byte_perm(scale, 0, 0x1010);
                    nf4_halves(p < 2 ? w : w >> 16, v);
                    for (int k = 0; k < 2; k++) {
                        __half2 product = __hmul2(*(__half2 *)&v[k], *(__half2 *)&both);
                        out[2 * i + k] = *(uint32_t *)&product;
                    }
                    continue;
                }
                if constexpr (format_book(FORMAT) && FORMAT != FORMAT_NF4)
                    w = book_bytes<FORMAT>(p < 2 ? w : w >> 16);
                else
                    w = HALVED ? (p < 2 ? w : w >> 4) & 0x0f0f0f0f : w ^ 0x80808080;
                out[2 * i] = value(__byte_perm(w, 0x64646464, 0x4140), scale);
                out[2 * i + 1] = value(__byte_perm(w, 0x64646464, 0x4342), scale);
            }
        }
    }

    // Quants below the leading bit of 1024, times the scale; exact but for one rounding.
    __device__ static uint32_t value(uint32_t raised, uint32_t scale) {
        constexpr bool WITH_MIN = PAIRS || FORMAT == FORMAT_Q2 || FORMAT == FORMAT_Q5M;
        const __half2 offset = __float2half2_rn(!HALVED || format_book(FORMAT) ? 1152
                                                : WITH_MIN                     ? 1024
                                                : FORMAT == FORMAT_Q3          ? 1028
                                                : FORMAT == FORMAT_Q5          ? 1040
                                                : FORMAT == FORMAT_Q6          ? 1056
                                                                               : 1032);
        uint32_t low = __byte_perm(scale, 0, 0x1010), high = __byte_perm(scale, 0, 0x3232);
        __half2 q = __hsub2(*(__half2 *)&raised, offset);
        q = WITH_MIN ? __hfma2(q, *(__half2 *)&low, *(__half2 *)&high) : __hmul2(q, *(__half2 *)&low);
        return *(uint32_t *)&q;
    }
};

// The mma of half a piece: rows g and g + 8 in a and b.
template <class T>
__device__ inline void mma_half(float c[4], const uint32_t *a, const uint32_t *b, uint32_t x, uint32_t y) {
    const uint32_t rows[4] = {a[0], b[0], a[1], b[1]};
    mma_of<T>(c, rows, x, y);
}

template <int FORMAT, int TILES> struct FlatShape {
    static constexpr int DEPTH = format_wide(FORMAT)                  ? (TILES < 4 ? 3 : 2)
                                 : format_halved(FORMAT) && TILES < 8 ? 4
                                 : TILES < 4                          ? 3
                                                                      : 2;
    static constexpr int STAGES = TILES == 8 ? 3 : 4, STAGE = TILES * 8 * FLAT_STEP * 2; // bytes
    static constexpr int THREADS = FLAT_WARPS * 32;
};

// Where piece p of row n lies in a stage, so that the lanes of any format's reads fall into different banks.
__device__ inline int flat_place(int n, int p) {
    return n * FLAT_STEP * 2 + ((p ^ (n & 1) * 5 ^ (p >> 3) * 2) << 4);
}

// Step `step` of all rows of x into a stage; zeros for rows and columns that are not there.
template <class T, int TILES>
__device__ inline void copy_input(const FlatArguments &a, uint32_t stage, int step) {
    constexpr int PIECES = TILES * 8 * 16, THREADS = FLAT_WARPS * 32;
#pragma unroll
    for (int i = 0; i < PIECES; i += THREADS) {
        int at = i + threadIdx.x, n = at / 16, p = at % 16, col = step * FLAT_STEP + p * 8;
        if (PIECES < THREADS && at >= PIECES) break;
        bool there = n < a.n && col < a.w.cols;
        const T *from = (const T *)a.x + (there ? (int64_t)n * a.w.cols + col : 0);
        copy_piece<16>(stage + flat_place(n, p), from, there);
    }
}

// The way through a block's steps: row tile and step of columns, with this lane's two rows.
struct FlatWay {
    int tile, step;
    const char *low, *high;
    __device__ FlatWay(const FlatArguments &a, const FlatShare &share, int u)
        : tile(u / share.n_steps), step(u % share.n_steps) {
        set_rows(a);
    }
    __device__ void set_rows(const FlatArguments &a) {
        int row = FlatPlace<InOrder>(tile, 0, 0).row, next = row + 8;
        if (a.epilogue == EPILOGUE_HEADS) { // as end_heads() wants them: elements d and d + dim/2 of a head
            const int dim = a.heads.head_dim, first = row - threadIdx.x % 32 / 4;
            row = first / dim * dim + first % dim / 2 + threadIdx.x % 32 / 4, next = row + dim / 2;
        }
        low = a.w.data + (int64_t)min(row, a.w.rows - 1) * a.w.row_bytes;
        high = a.w.data + (int64_t)min(next, a.w.rows - 1) * a.w.row_bytes;
    }
    __device__ void next(const FlatArguments &a, const FlatShare &share) {
        if (++step < share.n_steps) return;
        step = 0, tile++;
        set_rows(a);
    }
};

// One step: c += W · xᵀ.
template <class T, int FORMAT, int TILES>
__device__ inline void mma_step(const FlatRow<FORMAT> &low, const FlatRow<FORMAT> &high, const char *stage,
                                float c[TILES][4]) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < 4; p++) {
        uint32_t a[4], b[4];
        low.pairs(p, a);
        high.pairs(p, b);
        int at = flat_place(lane / 4, FlatRow<FORMAT>::piece(p, lane % 4));
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            uint4 x = *(const uint4 *)(stage + i * 8 * FLAT_STEP * 2 + at);
            mma_half<T>(c[i], a, b, x.x, x.y);
            mma_half<T>(c[i], a + 2, b + 2, x.z, x.w);
        }
    }
}

template <class T, int FORMAT, int TILES>
__global__ void __launch_bounds__(FLAT_WARPS * 32, FLAT_BLOCKS_A_SM)
    flat_mma_kernel(const __grid_constant__ FlatArguments a) {
#ifndef __CUDA_ARCH_FEAT_SM90_ALL // there flat_wgmma.cuh takes what this could
    typedef FlatShape<FORMAT, TILES> Shape;
    constexpr int DEPTH = Shape::DEPTH, STAGES = Shape::STAGES;
    extern __shared__ __align__(128) char ring[];
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(ring);
    const FlatShare share(a.w, FLAT_STEP);
    int t = threadIdx.x % 4, begin = share.begin(blockIdx.x), end = share.begin(blockIdx.x + 1);

    let_next_begin();
    FlatWay ahead(a, share, begin);
    FlatRow<FORMAT> low[DEPTH], high[DEPTH];
    auto load = [&](int d) {
        low[d].load(ahead.low, ahead.step * FLAT_STEP, a.w.cols, t);
        high[d].load(ahead.high, ahead.step * FLAT_STEP, a.w.cols, t);
        ahead.next(a, share);
    };
#pragma unroll
    for (int d = 0; d < DEPTH; d++)
        if (begin + d < end) load(d);
    kernels_before();
    int copied = begin % share.n_steps; // the step of x that is copied next
    int to = 0, from = 0;               // stages, in bytes
    auto copy_next = [&](int u) {
        if (u < end) copy_input<T, TILES>(a, shared + to, copied);
        copied = copied + 1 == share.n_steps ? 0 : copied + 1;
        to = to == (STAGES - 1) * Shape::STAGE ? 0 : to + Shape::STAGE;
        end_copies();
    };
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) copy_next(begin + s);

    float c[TILES][4] = {};
    int tile = begin / share.n_steps, left = share.n_steps - begin % share.n_steps; // steps of this tile
    for (int u = begin; u < end;) {
#pragma unroll
        for (int d = 0; d < DEPTH; d++, u++) {
            if (u >= end) break;
            await_copies<STAGES - 2>();
            __syncthreads();
            copy_next(u + STAGES - 1);
            mma_step<T, FORMAT, TILES>(low[d], high[d], ring + from, c);
            from = from == (STAGES - 1) * Shape::STAGE ? 0 : from + Shape::STAGE;
            if (u + DEPTH < end) load(d);
            if (--left > 0 && u + 1 < end) continue;
            if (gather_tile<TILES>(a, share, begin, end, tile, c)) end_tile<T, InOrder, TILES>(a, tile, c);
            tile++, left = share.n_steps;
#pragma unroll
            for (int i = 0; i < TILES; i++) c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
        }
    }
#endif
}

// ---- launchers -----------------------------------------------------------------------------------------------

template <class T, int FORMAT, int TILES>
static cudaError_t launch_flat_mma_tiles(const CudaBackend *cuda, const FlatArguments *a) {
    typedef FlatShape<FORMAT, TILES> Shape;
    auto kernel = flat_mma_kernel<T, FORMAT, TILES>;
    int shared = Shape::STAGES * Shape::STAGE;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (code != cudaSuccess) return code;
    int blocks = min(FLAT_BLOCKS_A_SM * cuda->device.card.n_sms, FlatShare(a->w, FLAT_STEP).total);
    return launch_dependent(cuda, kernel, blocks, Shape::THREADS, shared, *a);
}

template <class T, int FORMAT>
static cudaError_t launch_flat_mma(const CudaBackend *cuda, const FlatArguments *a) {
    if (a->n <= 8) return launch_flat_mma_tiles<T, FORMAT, 1>(cuda, a);
    if (a->n <= 16) return launch_flat_mma_tiles<T, FORMAT, 2>(cuda, a);
    if (a->n <= 32) return launch_flat_mma_tiles<T, FORMAT, 4>(cuda, a);
    return launch_flat_mma_tiles<T, FORMAT, 8>(cuda, a);
}

#endif
