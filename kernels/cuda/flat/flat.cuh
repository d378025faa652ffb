// Flat GEMMs, for steps of few tokens: y [n, w.rows] = x [n, w.cols] · Wᵀ with W the tall side of the tensor cores'
// GEMM, and rows of x, padded to 8, 16, 32 or 64, the flat one.
//
// A row's result has the same bits whatever n is and wherever the row stands: each element is the sum over a column of
// its own, in an order that depends on the weight's shape and the number of multiprocessors alone. Tiles of 128 rows of
// W by some columns follow each other, row tile after row tile (by wgmma: two row tiles side by side), and are shared
// out evenly over the blocks (pairs of blocks), as runs of neighbours. Where a row tile's columns fall to several
// blocks, the first of them adds the others' sums, in their order.
#ifndef PALAVER_KERNELS_CUDA_FLAT_FLAT_CUH
#define PALAVER_KERNELS_CUDA_FLAT_FLAT_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/gemm/gemm.cuh"

enum {
    FLAT_ROWS = 128, // of W in a tile: 16 for each of
    FLAT_WARPS = 8,
    FLAT_MOST = 64, // rows of x at once
    FLAT_PART_ROWS =
        2 * FLAT_MOST, // those that a block has room to leave sums of; tiles of prompts have so many
};

// ---- the kernels ---------------------------------------------------------------------------------------------

// What the ring of a kernel by wgmma takes of a multiprocessor's memory: flat_ring.cuh.
typedef enum FlatRoom { FLAT_SMALL, FLAT_LARGE, FLAT_WHOLE } FlatRoom;

struct FlatArguments {
    Weight w;
    const void *x;
    const float *x_scales; // [n] of W8, else NULL
    int n;
    GemmEpilogue epilogue;
    void *y;
    int y_stride; // elements from a row to the next
    const float *bias, *other;
    const int32_t *count;
    Activation activation;
    // EPILOGUE_HEADS: without biases and norms, rotary_dim = head_dim, 64 or 128, a cache in f16.
    HeadArguments heads;
    // [multiprocessors, FLAT_WARPS, FLAT_PART_ROWS / 8, 32] sums that blocks leave to others; zeros between launches.
    uint4 *parts;
    FlatRoom room;
    bool x_boxed; // they copy a stage of x at once, not 64 columns at a time
    bool shared;  // tiles of prompts: gemm/unpack_tile.cuh
    int x_rows;   // that they may bring: gemm_rows_there()
};

// A sum that one thread has for itself, of row `unit` of W, or of its pair of gate and up: what is made of it, where it
// belongs.
template <class T>
__device__ inline void end_sum(const FlatArguments &a, int token, int unit, float sum, float up) {
    int64_t at = (int64_t)token * a.y_stride + unit;
    if (a.bias) sum += a.bias[unit];
    switch (a.epilogue) {
    case EPILOGUE_GATED:
        if (a.other) up += a.other[unit];
        ((T *)a.y)[at] = from_float<T>(activate_pair(a.activation, sum, up));
        break;
    case EPILOGUE_ADD:
        ((float *)a.y)[at] += sum;
        break;
    case EPILOGUE_FLOAT:
        ((float *)a.y)[at] = sum;
        break;
    default:
        if (a.epilogue == EPILOGUE_ACTIVATE) sum = activate_any(a.activation, sum);
        ((T *)a.y)[at] = from_float<T>(sum);
    }
}

// For rows first, first + 1, … of x, at most FLAT_MOST, by one of W's matrices, whose outputs begin at `row` of y's.
// Without the scratch, which flat_gemm() sees to.
FlatArguments flat_arguments(const CudaBackend *cuda, const Gemm *g, int part, int first, int row);

// Kernels of one format each, in blocks that are all there at once: they wait for each other.
typedef cudaError_t FlatLaunch(CudaBackend *cuda, FlatKernel kernel, FlatArguments *a);
template <Format FORMAT>
MAY_LACK cudaError_t flat_launch(CudaBackend *cuda, FlatKernel kernel, FlatArguments *a); // flat_format.cu
MAY_LACK FlatLaunch flat_launch_w8;                                                       // w8/flat_w8.cu

#endif
