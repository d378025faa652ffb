// The kernel of flat.cuh on Hopper. W in 16 bits, or W8: a warpgroup's wgmma takes 64 rows of it from shared memory, with
// all rows of x. Quantised W is unpacked into registers, 16 rows a warp: up to 32 rows of x by mma.sync, for which no warp
// waits for another; beyond, where every warp's reading of x would be the most work, by wgmma. Both add up 16 products
// at once, and give the same bits (tests/gpu/rows/independent.c).
#ifndef PALAVER_KERNELS_CUDA_FLAT_FLAT_WGMMA_CUH
#define PALAVER_KERNELS_CUDA_FLAT_FLAT_WGMMA_CUH

#include "kernels/cuda/flat/flat_ring.cuh"
#include "kernels/cuda/gemm/tensor_map.cuh"
#include "kernels/cuda/device/ptx_wgmma.cuh"

// Formats whose numbers are a word's bytes or nibbles, scaled.
__host__ __device__ constexpr bool format_in_quads(int format) {
    return format == FORMAT_Q8 || format == FORMAT_Q8S || format == FORMAT_Q8M || format == FORMAT_Q4 ||
           format == FORMAT_Q4M;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

enum { SCALES_AT_ONCE = 4 }; // more would take registers that are not there
template <int FORMAT> using FlatUnpack = Unpack<FORMAT, SCALES_AT_ONCE>;

// Where an MMA warp is in the rings.
template <class Ring> struct FlatPosition {
    int stage = 0, phase = 0, x_stage = 0, x_phase = 0;
    int last = 0;                          // the stage of x before, which is read until a wgmma later
    bool w_there = false, x_there = false; // seen to be, by look_ahead(): of products by mma.sync
    __device__ void next_w(const Ring &ring) {
        if (++stage == ring.stages) stage = 0, phase ^= 1;
    }
    __device__ void next_x() {
        last = x_stage;
        if (++x_stage == Ring::X_STAGES) x_stage = 0, x_phase ^= 1;
    }
    __device__ void wait_w(const Ring &ring) const {
        if (!w_there) barrier_wait(ring.full(stage), phase);
    }
    __device__ void wait_x(const Ring &ring) const {
        if (!x_there) barrier_wait(ring.x_full(x_stage), x_phase);
    }
    // Whether the stages behind these are there: asked before they are wanted, for the answer takes its time.
    __device__ void look_ahead(const Ring &ring, bool last_of_step) {
        const bool turns = x_stage + 1 == Ring::X_STAGES;
        x_there = barrier_passed(ring.x_full(turns ? 0 : x_stage + 1), x_phase ^ turns);
        if (!last_of_step) return;
        const bool w_turns = stage + 1 == ring.stages;
        w_there = barrier_passed(ring.full(w_turns ? 0 : stage + 1), phase ^ w_turns);
    }
};

// A step of W in 16 bits, or of W8, pairs of whose columns count as one. `first`: nothing before it is under way.
template <class T, class Ring, int TILES>
__device__ inline void wgmma_step(const Ring &ring, FlatPosition<Ring> &at, bool first,
                                  typename SumsOf<T>::Sum (&c)[TILES][4]) {
    static_assert(Ring::X_A_STEP == 1, "stages of x as of W");
    barrier_wait(ring.full(at.stage), at.phase);
    barrier_wait(ring.x_full(at.x_stage), at.x_phase);
    uint64_t w = matrix_at(ring.w + at.stage * Ring::W_BYTES + threadIdx.x / 128 * 64 * 128, 16),
             x = matrix_at(ring.x + at.x_stage * Ring::X_STAGE, 16);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < Ring::COLUMNS / 8; d += 2) wgmma_add<T>(c, matrix_beyond(w, d), matrix_beyond(x, d));
    wgmma_commit();
    wgmma_wait_older();
    if (!first) ring.leave_x(at.last);
    at.next_x();
}

// A step of quantised W by wgmma. A group's fragments are made while the group before is multiplied.
template <int FORMAT, class Ring, int TILES>
__device__ inline void wgmma_unpacked(const Ring &ring, FlatPosition<Ring> &at, bool first,
                                      FlatUnpack<FORMAT> &unpack, float (&c)[TILES][4]) {
    constexpr int EACH = Ring::X_COLUMNS / 32; // groups of a stage of x
    uint32_t raw[2][Unpack<FORMAT>::RAW], a[2][2][4];
    uint64_t x = 0;
#pragma unroll
    for (int g = 0; g < Unpack<FORMAT>::GROUPS; g++) {
        if (SCALES_AT_ONCE < Unpack<FORMAT>::GROUPS && g % SCALES_AT_ONCE == 0) unpack.load_scales(g);
        unpack.load(g, raw);
        unpack.fragments(g, raw, a[g % 2]);
        if (g % EACH == 0) {
            barrier_wait(ring.x_full(at.x_stage), at.x_phase);
            x = matrix_at(ring.x + at.x_stage * Ring::X_STAGE, 16);
        }
        int piece = g % EACH / 2 * (Ring::X_BOX / 16) + g % 2 * 4;
        wgmma_fence();
        wgmma_add_values(c, a[g % 2][0], matrix_beyond(x, piece));
        wgmma_add_values(c, a[g % 2][1], matrix_beyond(x, piece + 2));
        wgmma_commit();
        wgmma_wait_older();
        if (g % EACH == 0 && !(first && g == 0)) ring.leave_x(at.last);
        if (g % EACH == EACH - 1) at.next_x();
    }
}

// A group's two products of 16 columns each, for all tiles.
template <int TILES>
__device__ inline void multiply_group(float (&c)[TILES][4], const uint32_t (&a)[2][4],
                                      const uint32_t (&b)[TILES][4]) {
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int i = 0; i < TILES; i++) mma(c[i], a[k], b[i][2 * k], b[i][2 * k + 1]);
}

// The same by mma.sync, with x through ldmatrix: no warp waits for another.
template <int FORMAT, class Ring, int TILES>
__device__ inline void mma_unpacked(const Ring &ring, FlatPosition<Ring> &at, FlatUnpack<FORMAT> &unpack,
                                    float (&c)[TILES][4]) {
    constexpr int GROUPS = Unpack<FORMAT>::GROUPS, EACH = Ring::X_COLUMNS / 32;
    uint32_t raw[2][2][Unpack<FORMAT>::RAW], x = 0; // what is read is a group ahead
    int lane = threadIdx.x % 32;
    unpack.load(0, raw[0]);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        if (SCALES_AT_ONCE < Unpack<FORMAT>::GROUPS && g % SCALES_AT_ONCE == 0) unpack.load_scales(g);
        if (g + 1 < GROUPS) unpack.load(g + 1, raw[(g + 1) % 2]);
        if (g % EACH == 0) {
            at.wait_x(ring);
            x = (ring.x + at.x_stage * Ring::X_STAGE + lane % 8 * 128) ^ (lane / 8 ^ lane % 8) << 4;
        }
        if (g % EACH == EACH - 1) at.look_ahead(ring, g == GROUPS - 1);
        uint32_t b[TILES][4], a[2][4], from = (x ^ g % 2 << 6) + g % EACH / 2 * Ring::X_BOX;
#pragma unroll
        for (int i = 0; i < TILES; i++) load_matrices(b[i], from + i * 1024);
        unpack.fragments(g, raw[g % 2], a);
        multiply_group(c, a, b);
        if (g % EACH < EACH - 1) continue;
        __syncwarp();
        ring.leave_x(at.x_stage);
        at.next_x();
    }
}

// The same where W comes in quads: of every 16 columns a lane holds 4t to 4t + 3, of W and of x. So that its reads of x
// fall into different banks, the products' columns are rows 0, 2, 4, 6, 1, 3, 5, 7 of x (InQuads).
template <int FORMAT, class Ring, int TILES>
__device__ inline void mma_in_quads(const Ring &ring, FlatPosition<Ring> &at, FlatUnpack<FORMAT> &unpack,
                                    float (&c)[TILES][4]) {
    constexpr int GROUPS = Unpack<FORMAT>::GROUPS, EACH = Ring::X_COLUMNS / 32,
                  LOAD = Unpack<FORMAT>::QUAD_GROUPS;
    const int lane = threadIdx.x % 32, t = lane % 4, row = lane / 16 + lane / 4 % 4 * 2;
    uint32_t raw[2][4], x = 0; // what is read is a load ahead
    unpack.load_quads(0, raw[0]);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        if (SCALES_AT_ONCE < GROUPS && g % SCALES_AT_ONCE == 0) unpack.load_scales(g);
        if (g % LOAD == 0 && g + LOAD < GROUPS) unpack.load_quads(g + LOAD, raw[(g / LOAD + 1) % 2]);
        if (g % EACH == 0) {
            at.wait_x(ring);
            x = (ring.x + at.x_stage * Ring::X_STAGE + row * 128 + t % 2 * 8) ^ (t / 2 ^ row) << 4;
        }
        if (g % EACH == EACH - 1) at.look_ahead(ring, g == GROUPS - 1);
        uint32_t b[TILES][4], a[2][4];
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int k = 0; k < 2; k++)
                load_words<2>((x ^ (g % 2 << 6 | k << 5)) + g % EACH / 2 * Ring::X_BOX + i * 1024,
                              b[i] + 2 * k);
        unpack.fragments_in_quads(g, raw[g / LOAD % 2], a);
        multiply_group(c, a, b);
        if (g % EACH < EACH - 1) continue;
        __syncwarp();
        ring.leave_x(at.x_stage);
        at.next_x();
    }
}

template <int FORMAT, class Ring> constexpr bool IN_QUADS = Ring::BY_MMA &&format_in_quads(FORMAT);

template <int FORMAT, class Ring, int TILES>
__device__ inline void unpacked_step(const Ring &ring, FlatPosition<Ring> &at, bool first, int step,
                                     int n_groups, FlatUnpack<FORMAT> &unpack, float (&c)[TILES][4]) {
    at.wait_w(ring);
    unpack.begin(ring.w + at.stage * Ring::W_BYTES, ring.scales + at.stage * FLAT_ROWS * Ring::SCALE_BYTES,
                 step, threadIdx.x / 32 * 16, n_groups);
    if constexpr (IN_QUADS<FORMAT, Ring>)
        mma_in_quads<FORMAT>(ring, at, unpack, c);
    else if constexpr (Ring::BY_MMA)
        mma_unpacked<FORMAT>(ring, at, unpack, c);
    else
        wgmma_unpacked<FORMAT>(ring, at, first, unpack, c);
}

// What a block's warps unpack W by, if they do.
template <int FORMAT>
using FlatUnpackIf = typename std::conditional<format_grouped(FORMAT), FlatUnpack<FORMAT>, int>::type;
// In which order the columns of a tile's products are rows of x.
template <int FORMAT, class Ring>
using FlatOrder = typename std::conditional<IN_QUADS<FORMAT, Ring>, InQuads, InOrder>::type;

// c += the products of a tile's steps [step, step + n).
template <class T, int FORMAT, class Ring, int TILES>
__device__ inline void flat_steps(const Ring &ring, int cols, int step, int n, FlatPosition<Ring> &at,
                                  FlatUnpackIf<FORMAT> &unpack, typename SumsOf<T>::Sum (&c)[TILES][4]) {
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        int there = (cols - (step + i) * Ring::COLUMNS) / 32;
        if constexpr (Ring::QUANTIZED)
            unpacked_step<FORMAT>(ring, at, i == 0, step + i, there, unpack, c);
        else
            wgmma_step<T>(ring, at, i == 0, c);
        at.next_w(ring);
    }
    if constexpr (!Ring::BY_MMA) {
        wgmma_wait<0>(c);
        ring.leave_x(at.last);
    }
}

template <class T, class Out, int FORMAT, int TILES>
__device__ inline void flat_tiles(const FlatRing<FORMAT, TILES> &ring, const FlatArguments &a,
                                  const FlatShare &share, int begin, int end) {
    typedef FlatRing<FORMAT, TILES> Ring;
    FlatPosition<Ring> at;
    FlatUnpackIf<FORMAT> unpack = {};
    FlatScales<T> scales;
    kernels_before();
    // Not before: of three generations at once some multiprocessor would get two blocks.
    if (!Ring::NEXT_LATE) let_next_begin();
    scales.begin(a);
    for (int u = begin, tile = u / share.n_steps, step = u % share.n_steps; u < end; tile++, step = 0) {
        const int n = min(end - u, share.n_steps - step);
        typename SumsOf<T>::Sum c[TILES][4] = {};
        scales.begin_tile(a, tile);
        flat_steps<T, FORMAT>(ring, a.w.cols, step, n, at, unpack, c);
        u += n;
        if (gather_tile<TILES>(a, share, begin, end, tile, c))
            end_sums<T, Out, FlatOrder<FORMAT, Ring>, TILES>(a, tile, scales, c);
    }
}

#endif

// Registers: what leaves room for a norm beside two of these, where there are two.
template <class T, class Out, int FORMAT, int TILES>
__global__ void __maxnreg__((FlatRing<FORMAT, TILES>::REGISTERS))
    flat_wgmma_kernel(const __grid_constant__ FlatMaps maps, const __grid_constant__ FlatArguments a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef FlatRing<FORMAT, TILES> Ring;
    extern __shared__ __align__(1024) char memory[];
    const Ring ring(memory, a.room);
    const FlatShare share(a.w, Ring::COLUMNS, Ring::END_STEPS);
    if (threadIdx.x == 0) ring.open();
    __syncthreads();
    int begin = share.begin(blockIdx.x), end = share.begin(blockIdx.x + 1);
    if (warp_index() < FLAT_WARPS)
        flat_tiles<T, Out, FORMAT, TILES>(ring, a, share, begin, end);
    else
        FlatCopy<Ring, FORMAT>(ring, maps, a, FlatWalk(share, begin)).all(end - begin);
#endif
}

// ---- launchers -----------------------------------------------------------------------------------------------

// What a kernel with this ring copies from, of all `rows` of W's data, and how much room its ring has.
template <class Ring, class Kernel>
static cudaError_t prepare_flat(CudaBackend *cuda, Kernel kernel, int rows, FlatArguments *a,
                                FlatMaps *maps) {
    const int dim = a->epilogue == EPILOGUE_HEADS ? a->heads.head_dim : 0, x_rows = Ring::X_BOX / 128;
    cudaError_t code = make_bytes_map(&maps->w, a->w.data, a->w.row_bytes, rows, dim, 128);
    if (code == cudaSuccess && Ring::SCALE_BYTES > 0)
        code = make_bytes_map(&maps->scales, a->w.data, a->w.row_bytes, rows, dim, Ring::SCALE_BYTES);
    a->x_boxed = Ring::X_COLUMNS > 64 && a->w.cols % 64 == 0;
    if (code == cudaSuccess)
        code = a->x_boxed ? make_boxes_map(&maps->x, a->x, a->n, a->w.cols, x_rows, Ring::X_COLUMNS / 64)
                          : make_tile_map(&maps->x, a->x, a->n, flat_columns(a->w), x_rows);
    cuda->step.flat_large = !cuda->step.flat_large;
    a->room = Ring::WHOLE ? FLAT_WHOLE : cuda->step.flat_large ? FLAT_LARGE : FLAT_SMALL;
    return code == cudaSuccess ? cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                      Ring::bytes(Ring::WHOLE ? FLAT_WHOLE : FLAT_LARGE))
                               : code;
}

template <class T, class Out, int FORMAT, int TILES>
static cudaError_t launch_flat_tiles(CudaBackend *cuda, FlatArguments *a) {
    typedef FlatRing<FORMAT, TILES> Ring;
    auto kernel = flat_wgmma_kernel<T, Out, FORMAT, TILES>;
    FlatMaps maps;
    const cudaError_t code = prepare_flat<Ring>(cuda, kernel, a->w.rows, a, &maps);
    if (code != cudaSuccess) return code;
    int blocks = min(cuda->device.card.n_sms, FlatShare(a->w, Ring::COLUMNS, Ring::END_STEPS).total);
    return launch_dependent(cuda, kernel, blocks, FLAT_THREADS, Ring::bytes(a->room), maps, *a);
}

// Operands of type T, results of type Out.
template <class T, class Out, int FORMAT>
static cudaError_t launch_flat(CudaBackend *cuda, FlatArguments *a) {
    if (a->n <= 8) return launch_flat_tiles<T, Out, FORMAT, 1>(cuda, a);
    if (a->n <= 16) return launch_flat_tiles<T, Out, FORMAT, 2>(cuda, a);
    if (a->n <= 32) return launch_flat_tiles<T, Out, FORMAT, 4>(cuda, a);
    if (a->n <= 48) return launch_flat_tiles<T, Out, FORMAT, 6>(cuda, a);
    return launch_flat_tiles<T, Out, FORMAT, 8>(cuda, a);
}

#endif
