// The kernel of attention/split.cuh for rows by the dozen, on Hopper, of a cache in f16: what somebody says in a long talk.
// A block takes 64 rows, tokens × heads that share a KV head; rows that are not there are
// multiplied with the others, but neither loaded nor stored. Its two
// warpgroups take units of 32 keys in turns, each through a ring of its own, and multiply them by wgmma as attention/wgmma.cu
// does: keys are brought to a row once, where warps of attention/split_warp.cuh would bring them to each 16 rows anew.
#include "kernels/cuda/attention/split_results.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/ptx_wgmma.cuh"

// What of SplitShape others ask for.
template <int HEAD> struct WgmmaShape {
    static constexpr int HEADS = SPLIT_WGMMA_ROWS, WARPS = 8, RESULTS = 2, BETWEEN = 8;
    static constexpr int KEYS = 32, ROW = HEAD * 2, CHUNKS = ROW / 16, SCALES = 0;
    static constexpr int STAGE = 2 * KEYS * ROW,
                         STAGES = 2; // two of each warpgroup's fit beside the ring of a flat GEMM
    static constexpr int QUERIES = HEADS * ROW, RINGS = RESULTS * STAGES * STAGE;
};
enum {
    WGMMA_SPLIT_THREADS = 256,
    WGMMA_SPLIT_REGISTERS = 136,
    WGMMA_SPLIT_STATIC = 6 << 10 // what the kernel declares itself, at most
};
// Two of its warps and three of a flat GEMM's find room in a quarter of a multiprocessor, whose ring is filled meanwhile.
static_assert(2 * 32 * WGMMA_SPLIT_REGISTERS + 3 * 32 * FLAT_REGISTERS <= 16384,
              "no room beside a flat GEMM");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A warpgroup's way through its units. A thread has two rows, 8 apart; of a unit's scores columns 8n + 2t and the next.
template <int HEAD> struct WgmmaWay : SplitRing<Half, WgmmaShape<HEAD>, HEAD> {
    typedef WgmmaShape<HEAD> Shape;
    typedef SplitRing<Half, Shape, HEAD> Ring;
    static constexpr int KEYS = Shape::KEYS, AHEAD = Shape::STAGES - 1;
    using Ring::s, Ring::tile, Ring::units, Ring::k, Ring::v;

    uint32_t q, ring; // in shared memory
    int group, first; // which warpgroup, and its first row of the lane
    float out[HEAD / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {}, slope[2] = {};
    int32_t own[2]; // positions of the rows' tokens

    __device__ WgmmaWay(const SplitBlock &block, char *memory)
        : Ring(block, memory), group(warp_index() / 4) {
        q = shared_at(memory);
        ring = q + Shape::QUERIES + group * Shape::STAGES * Shape::STAGE;
        first = warp_index() % 4 * 16 + threadIdx.x % 32 / 4;
    }

    __device__ void take_rows(const SplitRows &rows) {
        const AttendArguments &a = s.l.a;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = min(rows.first + first + 8 * r, rows.n - 1);
            own[r] = a.positions[rows.token(row)];
            if (a.alibi != 0) slope[r] = LOG2_E * a.alibi * alibi_slope(rows.head(row), a.n_heads);
        }
    }

    // Copies unit u to a stage, the warp's share of it; lane j knows key j's slot and position. Returns which keys a row
    // of the tile sees; the others become zeros.
    __device__ uint32_t issue(int u, uint32_t to, int slot, int32_t at) const {
        constexpr int CHUNKS = Shape::CHUNKS, ROWS_A_WARP = 32 / CHUNKS;
        const int lane = threadIdx.x % 32, chunk = lane % CHUNKS;
        const Seen any = {this->seen_by(this->first_position, false).low,
                          this->seen_by(this->position, false).high};
        const uint32_t mask = __ballot_sync(~0u, visible(at, any));
        slot = max(slot, 0);
        if (mask)
#pragma unroll
            for (int i = 0; i < KEYS / ROWS_A_WARP / 4; i++) {
                const int row = (i * 4 + warp_index() % 4) * ROWS_A_WARP + lane / CHUNKS;
                const uint64_t from = (uint64_t)(uint32_t)__shfl_sync(~0u, slot, row) * s.slot_bytes;
                const uint32_t target = to + chunk / 8 * KEYS * 128 + swizzled(row, chunk % 8);
                copy_piece<16>(target, k + from, mask >> row & 1);
                copy_piece<16>(target + KEYS * Shape::ROW, v + from, mask >> row & 1);
            }
        end_copies();
        return mask;
    }

    // What a row does not see becomes -inf; ALiBi's distances.
    __device__ void place_scores(bool whole, int32_t at, float (&scores)[KEYS / 8][4]) const {
        const float cap = s.l.a.cap;
        if (cap > 0)
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) scores[n][i] = capped(scores[n][i], cap * LOG2_E);
        if (whole && s.l.a.alibi == 0) return;
        const Seen seen[2] = {this->seen_by(own[0], false), this->seen_by(own[1], false)};
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int32_t key = __shfl_sync(~0u, at, n * 8 + threadIdx.x % 4 * 2 + i % 2);
                scores[n][i] -= slope[i / 2] * (float)(own[i / 2] - key);
                if (!visible(key, seen[i / 2])) scores[n][i] = -INFINITY;
            }
    }

    // Scores become weights, relative to the largest so far, and what there is is brought to it.
    __device__ void soften(float (&scores)[KEYS / 8][4]) {
        float shrink[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float largest = top[r], added = 0;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
                largest = fmaxf(largest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
            const float base = largest == -INFINITY ? 0 : largest;
            shrink[r] = top[r] == largest ? 1 : exp2_approx(top[r] - base);
            top[r] = largest;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = 2 * r; i < 2 * r + 2; i++) {
                    scores[n][i] = exp2_approx(scores[n][i] - base);
                    added += scores[n][i];
                }
            sum[r] = fmaf(sum[r], shrink[r], added);
        }
        if (!__any_sync(~0u, shrink[0] != 1 || shrink[1] != 1)) return; // rare after the first units
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) out[n][i] *= shrink[i / 2];
    }

    __device__ void take_unit(uint32_t stage, bool whole, int32_t at) {
        float scores[KEYS / 8][4] = {};
        wgmma_fence();
#pragma unroll
        for (int d = 0; d < HEAD; d += 16)
            wgmma_add<__half>(scores, matrix_at(q + d / 64 * Shape::HEADS * 128 + d % 64 * 2, 16),
                              matrix_at(stage + d / 64 * KEYS * 128 + d % 64 * 2, 16));
        wgmma_commit();
        wgmma_wait<0>(scores);
        place_scores(whole, at, scores);
        soften(scores);
        uint32_t weights[KEYS / 16][4];
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                weights[i][j] =
                    halves(scores[2 * i + j / 2][j % 2 * 2], scores[2 * i + j / 2][j % 2 * 2 + 1]);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++)
            wgmma_values(out, weights[i], matrix_at(stage + KEYS * Shape::ROW + i * 16 * 128, KEYS * 128));
        wgmma_commit();
        wgmma_wait<0>(out);
    }

    __device__ void sync_warpgroup() const {
        if (group == 0)
            named_barrier_sync<1, 128>();
        else
            named_barrier_sync<2, 128>();
    }

    // Units group, group + 2, …: copies run AHEAD units ahead. The queries are there once `ready` returns, and the first
    // copies are on their way; before it keys of positions from fresh_from on are not there.
    template <class Ready> __device__ void run(int32_t fresh_from, Ready ready) {
        int next = group, slot = this->look_up_slot(next), next_slot = this->look_up_slot(next + 2);
        int32_t at = this->look_up_position(next, slot), here[AHEAD];
        uint32_t mask[AHEAD], fill = ring;
        auto bring = [&](int i) {
            mask[i] = issue(next, fill, slot, at), here[i] = at;
            fill = fill == ring + (Shape::STAGES - 1) * Shape::STAGE ? ring : fill + Shape::STAGE;
            next += 2, slot = next_slot;
            at = this->look_up_position(next, slot), next_slot = this->look_up_slot(next + 2);
        };
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (__any_sync(~0u, at >= fresh_from)) kernels_before();
            bring(i);
        }
        ready();
        uint32_t take = ring;
#pragma unroll 1
        for (int u = group; u < units.n; u += 2) {
            const uint32_t now = mask[0];
            const int32_t positions = here[0];
            await_copies<AHEAD - 1>();
            show_stores();
            sync_warpgroup(); // all have done with the unit before, whose stage is the next one's
#pragma unroll
            for (int i = 0; i + 1 < AHEAD; i++) mask[i] = mask[i + 1], here[i] = here[i + 1];
            bring(AHEAD - 1);
            if (now) take_unit(take, this->seen_by_all(now, positions, false), positions);
            take = take == ring + (Shape::STAGES - 1) * Shape::STAGE ? ring : take + Shape::STAGE;
        }
        await_copies<0>();
    }

    __device__ void leave(int n_rows, SplitResults<Shape, HEAD> *r) const {
        const int t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int row = first + 8 * i;
            float total = sum[i];
            total += __shfl_xor_sync(~0u, total, 1);
            total += __shfl_xor_sync(~0u, total, 2);
            if (row >= n_rows) continue;
            if (t == 0) r->weights[group][row] = make_float2(top[i], total);
#pragma unroll
            for (int n = 0; n < HEAD / 8; n++)
                *(float2 *)&r->sums[group][row][n * 8 + 2 * t] =
                    make_float2(out[n][2 * i], out[n][2 * i + 1]);
        }
    }
};

// Queries times the scale as halves, for wgmma. What is left where no row is becomes nobody's scores.
template <int HEAD>
__device__ inline void load_rows(const SplitArguments &s, const int64_t *places, int n_rows, char *to) {
    constexpr int PIECES = HEAD / 8, TURNS = SPLIT_WGMMA_ROWS * PIECES / WGMMA_SPLIT_THREADS;
    uint4 raw[TURNS];
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        const int i = t * WGMMA_SPLIT_THREADS + threadIdx.x, row = i / PIECES;
        if (row < n_rows) raw[t] = *(const uint4 *)((const __half *)s.l.q + places[row] + i % PIECES * 8);
    }
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        const int i = t * WGMMA_SPLIT_THREADS + threadIdx.x, row = i / PIECES, piece = i % PIECES;
        if (row >= n_rows) break;
        *(uint4 *)(to + piece / 8 * SPLIT_WGMMA_ROWS * 128 + swizzled(row, piece % 8)) =
            scaled_halves(raw[t], s.l.type, [&](int) { return s.l.a.scale; });
    }
    show_stores();
    __syncthreads();
}

#endif

// Grid: [n_kv_heads·row_tiles, n_splits].
template <int HEAD>
__global__ void __maxnreg__(WGMMA_SPLIT_REGISTERS)
    split_wgmma_kernel(const __grid_constant__ SplitArguments s) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef WgmmaShape<HEAD> Shape;
    extern __shared__ __align__(1024) char memory[];
    __shared__ int64_t places[Shape::HEADS]; // of the block's rows: the first element's in q and y
    let_next_begin();
    if (!s.early) kernels_before(); // else what a step is about is there since its first kernel
    const SplitBlock block(s, Shape::HEADS, Shape::KEYS);
    if (block.n_rows <= 0) return;
    WgmmaWay<HEAD> w(block, memory);
    w.take_rows(block.rows);
    block.leave_places(places);
    w.run(block.fresh_from(), [&] {
        __syncthreads(); // places are known
        kernels_before();
        load_rows<HEAD>(s, places, block.n_rows, memory);
    });
    __syncthreads(); // rings and queries are done with
    SplitResults<Shape, HEAD> *results = (SplitResults<Shape, HEAD> *)memory;
    w.leave(block.n_rows, results);
    __syncthreads();
    end_split<Shape, HEAD>(block, results, places);
#endif
}

// ---- launchers -----------------------------------------------------------------------------------------------

template <int HEAD> static constexpr size_t shared_bytes() {
    typedef WgmmaShape<HEAD> Shape;
    return split_room<Shape, HEAD>(Shape::QUERIES + Shape::RINGS);
}

template <int HEAD> static cudaError_t allow_shared() {
    return cudaFuncSetAttribute(split_wgmma_kernel<HEAD>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)shared_bytes<HEAD>());
}

template <int HEAD> static cudaError_t launch(CudaBackend *cuda, SplitArguments a) {
    a.row_tiles = (a.parts / a.l.a.n_kv_heads + SPLIT_WGMMA_ROWS - 1) / SPLIT_WGMMA_ROWS;
    const dim3 grid((unsigned)(a.l.a.n_kv_heads * a.row_tiles), (unsigned)cuda->step.n_splits);
    a.handover = split_handover(cuda, grid);
    cudaError_t code = allow_shared<HEAD>();
    if (code != cudaSuccess) return code;
    return launch_dependent(cuda, split_wgmma_kernel<HEAD>, grid, WGMMA_SPLIT_THREADS, shared_bytes<HEAD>(),
                            a);
}

cudaError_t split_wgmma_launch(CudaBackend *cuda, const SplitArguments *a) {
    return a->l.a.head_dim == 64 ? launch<64>(cuda, *a) : launch<128>(cuda, *a);
}

template <int HEAD> static cudaError_t fit_of(SplitFit *fit) {
    fit->rows = SPLIT_WGMMA_ROWS, fit->once = true;
    fit->shared = shared_bytes<HEAD>() + WGMMA_SPLIT_STATIC;
    cudaError_t code = allow_shared<HEAD>();
    if (code != cudaSuccess) return code;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit->blocks_a_sm, split_wgmma_kernel<HEAD>,
                                                         WGMMA_SPLIT_THREADS, shared_bytes<HEAD>());
}

cudaError_t split_wgmma_fit(int head_dim, SplitFit *fit) {
    return head_dim == 64 ? fit_of<64>(fit) : fit_of<128>(fit);
}
