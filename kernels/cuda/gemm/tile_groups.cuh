// The multiplying warpgroups of tile_kernel.cuh where scales are of 128 columns (Fp8Groups): a step's sums, which are
// exact to some 14 bits, are weighed and added up in float32. While a warpgroup does so, the other one's wgmmas run.
//
// A thread's columns 64·h … 64·h + 63 of a tile have one scale of W in every even row and one in every odd one: those of
// blocks of 128 rows, also where gates and ups stand in turn.
#ifndef PALAVER_KERNELS_CUDA_GEMM_TILE_GROUPS_CUH
#define PALAVER_KERNELS_CUDA_GEMM_TILE_GROUPS_CUH

template <int COLUMNS> struct TileSums<Fp8Groups, COLUMNS> {
    static constexpr int AHEAD = 1;
    float v[COLUMNS / 8][4];
    __device__ float2 pair(int i, int r) const { return make_float2(v[i][2 * r], v[i][2 * r + 1]); }
};

// What a thread weighs a step's sums with: of its two tokens, and of the even and odd rows of each 64 of W.
template <int COLUMNS> struct GroupScales {
    float x[2];
    float2 w[COLUMNS / 64];
    __device__ void load(const TileShape &s, int step, int token, int column) {
        constexpr int FULL = chunk_elements(FORMAT_E4M3), EACH = FULL / FP8_GROUP;
        const int chunk = step / EACH, n = min(FULL, s.fp8.cols - chunk * FULL);
        const int64_t at = (int64_t)chunk * chunk_bytes(FORMAT_E4M3, FULL) + n + step % EACH * 4;
#pragma unroll
        for (int h = 0; h < COLUMNS / 64; h++) {
            const char *row = s.fp8.w + min(column + 64 * h, s.rows - 2) * s.fp8.row_bytes + at;
            w[h] = make_float2(__ldg((const float *)row), __ldg((const float *)(row + s.fp8.row_bytes)));
        }
#pragma unroll
        for (int r = 0; r < 2; r++)
            x[r] = __ldcg(s.x_scales + (int64_t)step * s.fp8.x_stride + min(token + 8 * r, s.n - 1));
    }
    // sums += part, weighed.
    __device__ void add(const float (&part)[COLUMNS / 8][4], float (&sums)[COLUMNS / 8][4]) const {
#pragma unroll
        for (int i = 0; i < COLUMNS / 8; i++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                sums[i][2 * r] = fmaf(part[i][2 * r], x[r] * w[i / 8].x, sums[i][2 * r]);
                sums[i][2 * r + 1] = fmaf(part[i][2 * r + 1], x[r] * w[i / 8].y, sums[i][2 * r + 1]);
            }
    }
};

template <int COLUMNS, class Walk, class Epilogue>
__device__ inline void tile_wgmma_groups(TileGemmShared<Fp8Groups, COLUMNS> *s, const TileShape &shape,
                                         const Epilogue &epilogue) {
    constexpr int STAGES = TileGemmShared<Fp8Groups, COLUMNS>::STAGES;
    const int steps = (shape.cols + TILE_DEPTH - 1) / TILE_DEPTH, lane = threadIdx.x % 32;
    int stage = 0, phase = 0;
    const uint64_t first_x = matrix_at(shared_at(s->x[0] + threadIdx.x / 128 * 64 * TILE_DEPTH), 16),
                   first_w = matrix_at(shared_at(s->w[0]), 16);
    kernels_before();
    for (Walk at = Walk::template of<COLUMNS>(shape); at.more(); at.next()) {
        const int token = at.token() + (int)threadIdx.x / 32 * 16 + lane / 4, column = at.row() * COLUMNS;
        TileSums<Fp8Groups, COLUMNS> sums = {};
        GroupScales<COLUMNS> scales;
        scales.load(shape, 0, token, column);
        auto one_step = [&](int step) {
            float part[COLUMNS / 8][4];
            GroupScales<COLUMNS> next;
            next.load(shape, min(step + 1, steps - 1), token, column);
            barrier_wait(shared_at(&s->full[stage]), phase);
            const uint64_t x = first_x + stage * (sizeof s->x[0] >> 4),
                           w = first_w + stage * (sizeof s->w[0] >> 4);
            wgmma_fence();
#pragma unroll
            for (int d = 0; d < TILE_DEPTH; d += 16) {
                wgmma_fp8(part, x + d * 2 / 16, w + d * 2 / 16, d > 0);
            }
            wgmma_commit();
            wgmma_wait<0>(part);
            if (lane < 2)
                barrier_arrive_at(shared_at(&s->empty[stage]), lane); // either block copies for both
            if (++stage == STAGES) stage = 0, phase ^= 1;
            scales.add(part, sums.v);
            scales = next;
        };
        int step = 0;
#pragma unroll 1
        for (; step < steps - 3; step++) one_step(step);
        typename Epilogue::template Ahead<COLUMNS / 8, TileSums<Fp8Groups, COLUMNS>::AHEAD> ahead(
            epilogue, token, column, at.end, shape.rows);
#pragma unroll 1
        for (; step < steps; step++) one_step(step);
        epilogue(sums, ahead, token, column, at.end, shape.rows);
    }
}

#endif
