// The kernels of gemv.cuh for weights of one format each, compiled by themselves.
// INSTANCES: FORMAT_F32 FORMAT_F16 FORMAT_BF16 FORMAT_Q8 FORMAT_Q8S FORMAT_Q8M FORMAT_Q4 FORMAT_Q4M
// INSTANCES: FORMAT_IQ4 FORMAT_FP4 FORMAT_Q2 FORMAT_Q3 FORMAT_Q5 FORMAT_Q5M FORMAT_Q6 FORMAT_E4M3 FORMAT_NF4
#include "kernels/cuda/gemm/gemv_rows.cuh"

// The sums of rows `row` and row + 1 of W by all rows of x.
template <class T, int NX>
__device__ inline void end_rows(const FlatArguments &a, int row, const GemvSum (*sums)[NX]) {
    const int lane = threadIdx.x % 32;
    bool gated = a.epilogue == EPILOGUE_GATED;
    float mine = 0, other = 0;
#pragma unroll
    for (int r = 0; r < GEMV_ROWS; r++)
#pragma unroll
        for (int j = 0; j < NX; j++) {
            float sum = sums[r][j].even + sums[r][j].odd;
            for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
            if (lane == r * NX + j) mine = sum;
            if (gated && r == 1 && lane == j) other = sum;
        }
    int j = lane % NX, r = lane / NX;
    if (r >= (gated ? 1 : GEMV_ROWS) || j >= a.n || (a.count && j >= *a.count) || row + r >= a.w.rows) return;
    end_sum<T>(a, j, gated ? row / 2 : row + r, mine, other);
}

// A warp two rows of W after the other, up to the last; the block's warps have neighbours. Grid: any, block: GEMV_WARPS
// warps. Dynamic shared memory, of quantised weights: GEMV_INPUT_BYTES(cols) for each row of x.
template <int FORMAT, class T, int NX>
__global__ void __launch_bounds__(GEMV_WARPS * 32, 2) gemv_kernel(const __grid_constant__ FlatArguments a) {
    extern __shared__ __align__(16) char shared[];
    const int chunks = (a.w.cols + GemvShape<FORMAT>::FULL - 1) / GemvShape<FORMAT>::FULL;
    const int stride = (int)gridDim.x * GEMV_WARPS * GEMV_ROWS;
    int row = ((int)blockIdx.x * GEMV_WARPS + (int)threadIdx.x / 32) * GEMV_ROWS, chunk = 0;
    GemvRow<FORMAT> next[GEMV_ROWS];
    auto load = [&](int first, int c) {
#pragma unroll
        for (int r = 0; r < GEMV_ROWS; r++)
            next[r].load(a.w.data + (int64_t)min(first + r, a.w.rows - 1) * a.w.row_bytes, c, a.w.cols);
    };
    let_next_begin();
    if (row < a.w.rows) load(row, 0);
    kernels_before();
    if constexpr (format_rounds_input(FORMAT)) {
        quantise_input<T>(a, shared);
        __syncthreads();
    }
    GemvSum sums[GEMV_ROWS][NX] = {};
    while (row < a.w.rows) {
        GemvRow<FORMAT> now[GEMV_ROWS];
#pragma unroll
        for (int r = 0; r < GEMV_ROWS; r++) now[r] = next[r];
        bool last = chunk + 1 == chunks;
        int row_next = last ? row + stride : row, chunk_next = last ? 0 : chunk + 1;
        if (row_next < a.w.rows) load(row_next, chunk_next);
        if constexpr (format_rounds_input(FORMAT))
            multiply_quants<FORMAT, NX>(a, now, shared, chunk, sums);
        else
            multiply_plain<FORMAT, T, NX>(a, now, chunk, sums);
        if (last) {
            end_rows<T, NX>(a, row, sums);
#pragma unroll
            for (int r = 0; r < GEMV_ROWS; r++)
#pragma unroll
                for (int j = 0; j < NX; j++) sums[r][j] = GemvSum{0, 0};
        }
        row = row_next, chunk = chunk_next;
    }
}

template <int FORMAT, class T, int NX>
static cudaError_t launch_gemv_rows(const CudaBackend *cuda, const FlatArguments *a) {
    auto kernel = gemv_kernel<FORMAT, T, NX>;
    int shared = format_rounds_input(FORMAT) ? a->n * GEMV_INPUT_BYTES(a->w.cols) : 0, a_sm = 0;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (code == cudaSuccess)
        code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&a_sm, kernel, GEMV_WARPS * 32, (size_t)shared);
    if (code != cudaSuccess) return code;
    int rows = GEMV_WARPS * GEMV_ROWS, blocks = (a->w.rows + rows - 1) / rows,
        most = (a_sm > 0 ? a_sm : 1) * cuda->device.card.n_sms;
    if (blocks > most) blocks = most;
    // Where kernels overlap, all divide a multiprocessor's memory in one way; elsewhere the L1 gets what is left for x.
    return dispatch_features(&cuda->device.card)->overlap
               ? launch_dependent(cuda, kernel, blocks, GEMV_WARPS * 32, (size_t)shared, *a)
               : launch_overlapping(cuda, kernel, blocks, GEMV_WARPS * 32, (size_t)shared, *a);
}

template <int FORMAT, class T>
static cudaError_t launch_gemv(const CudaBackend *cuda, const FlatArguments *a) {
    if (a->n == 1) return launch_gemv_rows<FORMAT, T, 1>(cuda, a);
    if (a->n == 2) return launch_gemv_rows<FORMAT, T, 2>(cuda, a);
    return launch_gemv_rows<FORMAT, T, 4>(cuda, a);
}

template <Format FORMAT> cudaError_t gemv_launch(const CudaBackend *cuda, const FlatArguments *a) {
    cudaError_t code;
    WITH_OPERAND(cuda, (code = launch_gemv<FORMAT, T>(cuda, a)));
    return code;
}

template cudaError_t gemv_launch<INSTANCE>(const CudaBackend *cuda, const FlatArguments *a);
