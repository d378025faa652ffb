// The rings of the flat GEMMs on Hopper: tiles of W, and of x, come by tensor copies several steps ahead, of W even before
// the kernel before has ended. A step is 128 bytes of each of 128 rows of W, and of quantised weights their scales
// besides. x has a ring of its own: it comes from the L2, and so not from as far.
//
// One block a multiprocessor, and half of its shared memory and registers, so that the next GEMM's ring fills while
// this one ends. Rings of two sizes take turns: two large ones find no room side by side, nor two small ones beside a
// large one. Were two blocks of a GEMM on one multiprocessor and none on another, all would wait for them. Where more on
// its way is worth more than the next ring's early start, a block takes everything (FlatRing::WHOLE).
#ifndef PALAVER_KERNELS_CUDA_FLAT_FLAT_RING_CUH
#define PALAVER_KERNELS_CUDA_FLAT_FLAT_RING_CUH

#include "kernels/cuda/flat/flat_epilogue.cuh"
#include "kernels/cuda/gemm/unpack.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"

enum {
    FLAT_MOST_STAGES = 14,
    FLAT_THREADS = FLAT_WARPS * 32 + 32, // the last warp copies
};

// x in stages of X_COLUMNS columns: those of a step, or a part of them.
template <int FORMAT, int TILES> struct FlatRing {
    static constexpr bool QUANTIZED = format_grouped(FORMAT);
    // W unpacked is multiplied by mma.sync, but by wgmma where reading x for 16 rows of W at a time would be the most
    // work.
    static constexpr bool BY_MMA = QUANTIZED && TILES <= 4;
    static constexpr int COLUMNS = QUANTIZED ? Unpack<FORMAT>::COLUMNS : 64; // of a step
    static constexpr int SCALE_BYTES = QUANTIZED ? Unpack<FORMAT>::SCALE_BYTES : 0;
    static constexpr int X_MOST = TILES < 4 ? 256 : 128;
    static constexpr int X_COLUMNS = COLUMNS < X_MOST ? COLUMNS : X_MOST, X_A_STEP = COLUMNS / X_COLUMNS;
    static constexpr int W_BYTES = FLAT_ROWS * 128, STAGE = W_BYTES + FLAT_ROWS * SCALE_BYTES;
    static constexpr int X_BOX = TILES * 8 * 128,
                         X_STAGE = X_BOX * X_COLUMNS / 64; // bytes; a box: 64 columns
    // A block takes all of a multiprocessor's memory: where half of it would not hold what has to be on its way, as measured
    // (NOTES).
    static constexpr bool WHOLE = TILES > 4 || FORMAT == FORMAT_F16 || FORMAT == FORMAT_BF16 ||
                                  (TILES == 4 && COLUMNS < 256);
    static constexpr int REGISTERS =
        WHOLE && (TILES > 4 || QUANTIZED) ? FLAT_WHOLE_REGISTERS : FLAT_REGISTERS;
    // Of two rings side by side, up to 16 rows of x, 32 of steps of 256 columns, the next kernel's is not filled before all but
    // LEFT of this one's steps have been asked for: what it brings would come in between, and memory is idle at the end.
    static constexpr bool NEXT_LATE = !WHOLE && (TILES <= 2 || (TILES == 4 && COLUMNS == 256));
    static constexpr int LEFT = COLUMNS == 128 ? 6 : 4; // as measured: of shorter steps more
    // What a tile's end counts in shares, for any number of rows: a microsecond, in steps of half of one. Of longer steps a
    // block has too few to be weighed so finely (NOTES), those of 16 bits gain nothing.
    static constexpr int END_STEPS = COLUMNS == 128 ? 2 : 0;
    static constexpr int X_STAGES = WHOLE                                  ? (QUANTIZED ? 8 : 6)
                                    : X_STAGE <= (QUANTIZED ? 8192 : 1024) ? 4
                                                                           : 3,
                         X_BYTES = X_STAGES * X_STAGE;
    struct Barriers {
        uint64_t full[FLAT_MOST_STAGES], x_full[FLAT_MOST_STAGES], x_empty[FLAT_MOST_STAGES];
    };
    // Of a multiprocessor's 228 KB; blocks take 1 KB more, and small kernels stand beside them.
    static constexpr int MOST = ((222 << 10) - X_BYTES) / STAGE,
                         LARGE = ((114 << 10) - X_BYTES + STAGE - 1) / STAGE,
                         SMALL = ((222 << 10) - LARGE * STAGE - 2 * X_BYTES) / STAGE;
    static_assert(MOST <= FLAT_MOST_STAGES && (WHOLE || SMALL > 1), "a stage is left when the next is there");
    __host__ __device__ static constexpr int stages_of(FlatRoom room) {
        return room == FLAT_WHOLE ? MOST : room == FLAT_LARGE ? LARGE : SMALL;
    }
    static constexpr int bytes(FlatRoom room) {
        return X_BYTES + stages_of(room) * STAGE + (int)sizeof(Barriers);
    }

    int stages;            // of W
    uint32_t x, w, scales; // in shared memory
    Barriers *barriers;
    __device__ FlatRing(char *memory, FlatRoom room) : stages(stages_of(room)) {
        x = shared_at(memory), w = x + X_BYTES, scales = w + stages * W_BYTES;
        barriers = (Barriers *)(memory + X_BYTES + stages * STAGE);
    }
    __device__ uint32_t full(int stage) const { return shared_at(&barriers->full[stage]); }
    __device__ uint32_t x_full(int stage) const { return shared_at(&barriers->x_full[stage]); }
    // Who is done with a step's last stage of x is done with its W too.
    __device__ uint32_t x_empty(int stage) const { return shared_at(&barriers->x_empty[stage]); }

    __device__ void open() const {
        for (int i = 0; i < stages; i++) barrier_init(full(i), 1);
        for (int i = 0; i < X_STAGES; i++) {
            barrier_init(x_full(i), 1);
            barrier_init(x_empty(i), FLAT_WARPS);
        }
        show_barriers();
    }
    // An MMA warp is done with a stage of x.
    __device__ void leave_x(int stage) const {
        if (threadIdx.x % 32 == 0) barrier_arrive(x_empty(stage));
    }
};

// What the copying warp is told of its sources.
struct FlatMaps {
    CUtensorMap w, scales, x; // scales: of quantised weights that do not hold them
};

// The copying warp. Between a place that has become free and what is asked for in its stead stands what this warp does: so
// all lanes walk together, which keeps what they count in registers of the whole warp, nothing is divided on the way, and
// one lane asks for the copies. A thread by itself was at work for as long as the others multiply (NOTES).
template <class Ring, int FORMAT, class Walk = FlatWalk> struct FlatCopy {
    const Ring &ring;
    const FlatMaps &maps;
    const FlatArguments &a;
    uint64_t once, often; // how the L2 is to treat W and what is read again
    Walk w_at, x_at;
    int x_part = 0; // of x_at's step: which of its stages
    int heads = 0;  // EPILOGUE_HEADS: of a tile
    int w_stage = 0;

    __device__ FlatCopy(const Ring &r, const FlatMaps &m, const FlatArguments &arguments, const Walk &walk)
        : ring(r), maps(m), a(arguments), once(read_once()), often(read_often()), w_at(walk), x_at(walk) {
        if (a.epilogue == EPILOGUE_HEADS) heads = FLAT_ROWS / a.heads.head_dim;
    }

    __device__ void tile(const CUtensorMap *map, uint32_t to, int at, uint32_t barrier,
                         uint64_t policy) const {
        if constexpr (Walk::GROUPED)
            copy_tile(to, map, at, w_at.row(), barrier, policy);
        else if (heads)
            copy_tile_of_five(to, map, at, w_at.tile * heads, barrier, policy);
        else
            copy_tile(to, map, at, w_at.tile * FLAT_ROWS, barrier, policy);
    }

    // The next step's W, into the next place.
    __device__ void next_w() {
        const int col = w_at.step * Ring::COLUMNS;
        const uint32_t barrier = ring.full(w_stage), to = ring.w + w_stage * Ring::W_BYTES;
        if (elected()) {
            barrier_expect(barrier, Ring::STAGE);
            if constexpr (Ring::QUANTIZED) {
                constexpr int FULL = chunk_elements(FORMAT), SCALES = Ring::SCALE_BYTES;
                constexpr int EACH = Ring::COLUMNS * Unpack<FORMAT>::TILES_A_BOX;
                int first = col / FULL * FULL, in = col - first, n = min(FULL, a.w.cols - first);
                int chunk = col / FULL * chunk_bytes(FORMAT, FULL); // columns of the maps are of two bytes
                tile(&maps.w, to, (chunk + quant_bytes(FORMAT, in)) / 2, barrier, once);
                if constexpr (SCALES > 0)
                    tile(&maps.scales, ring.scales + w_stage * FLAT_ROWS * SCALES,
                         (chunk + quant_bytes(FORMAT, n)) / 2 + in / EACH * (SCALES / 2), barrier, often);
            } else {
                tile(&maps.w, to, col, barrier, once);
            }
        }
        if (++w_stage == ring.stages) w_stage = 0;
        w_at.next();
    }

    // The next stage of x, to `stage`.
    __device__ void next_x(int stage) {
        const int col = x_at.step * Ring::COLUMNS + x_part * Ring::X_COLUMNS;
        const uint32_t barrier = ring.x_full(stage), to = ring.x + stage * Ring::X_STAGE;
        int row = 0;
        if constexpr (Walk::GROUPED) row = x_at.first;
        if (elected()) {
            barrier_expect(barrier, Ring::X_STAGE);
            if (Ring::X_COLUMNS > 64 && a.x_boxed) {
                copy_boxes(to, &maps.x, row, col / 64, barrier, often);
            } else {
#pragma unroll
                for (int b = 0; b < Ring::X_COLUMNS / 64; b++)
                    copy_tile(to + b * Ring::X_BOX, &maps.x, col + b * 64, row, barrier, often);
            }
        }
        if (++x_part == Ring::X_A_STEP) x_part = 0, x_at.next();
    }

    // Everything. Places become free stage of x by stage of x.
    __device__ void all(int steps) {
        const int n = steps * Ring::X_A_STEP, next_from = steps - Ring::LEFT;
        for (int i = 0; i < min(ring.stages, steps); i++) next_w();
        kernels_before();
        for (int j = 0; j < min(Ring::X_STAGES, n); j++) next_x(j);
        if (Ring::NEXT_LATE && next_from <= ring.stages) let_next_begin();
        int x_stage = 0, phase = 0, step = ring.stages, part = 0;
        for (int next = Ring::X_STAGES; next < n || step < steps; next++) {
            barrier_wait(ring.x_empty(x_stage), phase);
            if (next < n) next_x(x_stage);
            if (++x_stage == Ring::X_STAGES) x_stage = 0, phase ^= 1;
            if (++part < Ring::X_A_STEP) continue;
            part = 0;
            if (step < steps) next_w();
            if (Ring::NEXT_LATE && step + 1 == next_from) let_next_begin();
            step++;
        }
    }
};

#endif
