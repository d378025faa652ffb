// Flat GEMMs, for steps in which every sequence has one token: y [n, w.rows] = x [n, w.cols] · Wᵀ with W the tall side
// of the tensor cores' GEMM, and rows of x, padded to 8, 16, 32 or 64, the flat one.
//
// A row's result has the same bits whatever n is and wherever the row stands: each element is the sum over a column of
// its own, in an order that depends on the weight's shape and the number of multiprocessors alone. Tiles of 128 rows of
// W by some columns follow each other, row tile after row tile, and are shared out evenly over the blocks, as runs of
// neighbours. Where a row tile's columns fall to several blocks, the first of them adds the others' sums, in their
// order.
#ifndef PALAVER_KERNELS_CUDA_GEMM_FLAT_CUH
#define PALAVER_KERNELS_CUDA_GEMM_FLAT_CUH

#include "kernels/cuda/gemm/gemm.cuh"

enum {
    FLAT_ROWS = 128, // of W in a tile: 16 for each of
    FLAT_WARPS = 8,
    FLAT_MOST = 64,       // rows of x at once
    FLAT_BLOCKS_A_SM = 2, // of a multiprocessor, at most
};

// Scratch for them; flat_gemm() sees to it too, but may not while a graph is captured.
Status flat_reserve(CudaBackend *cuda, Error *error);
size_t flat_bytes(const CudaBackend *cuda);

// ---- the kernels ---------------------------------------------------------------------------------------------

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
    float4 *parts;     // [blocks, FLAT_WARPS, FLAT_MOST / 8, 32] sums of a tile that another block ends
    unsigned *arrived; // [row tiles] blocks that have left theirs; zero between launches
    bool large;        // the ring of the kernels by wgmma: see there
};

// Kernels of one format each, in blocks that are all there at once: they wait for each other.
typedef cudaError_t FlatLaunch(CudaBackend *cuda, FlatKernel kernel, FlatArguments *a);
template <Format FORMAT>
cudaError_t flat_launch(CudaBackend *cuda, FlatKernel kernel, FlatArguments *a); // flat_format.cu
FlatLaunch flat_launch_w8;                                                       // w8/flat_w8.cu

#endif
