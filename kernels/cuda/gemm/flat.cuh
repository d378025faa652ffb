// Products of up to 64 rows, for steps in which every sequence has one token: y [n, w.rows] = x [n, w.cols] · Wᵀ, weights as
// the tall side of tensor cores' products, rows of x padded to 8, 16, 32 or 64.
//
// A row's result has the same bits whatever n is and wherever the row stands: each element of a product is the sum over a
// column of its own, in an order that depends on the weight's shape and the number of multiprocessors alone. Tiles of 128
// rows of W by some columns follow each other, row tile after row tile, and are shared out evenly over the blocks, as runs
// of neighbours. Where a row tile's columns fall to several blocks, the first of them adds the others' sums, in their order.
#ifndef PALAVER_KERNELS_CUDA_GEMM_FLAT_CUH
#define PALAVER_KERNELS_CUDA_GEMM_FLAT_CUH

#include "kernels/cuda/heads.cuh"

enum {
    FLAT_ROWS = 128, // of W in a tile: 16 for each of
    FLAT_WARPS = 8,
    FLAT_MOST = 64, // rows of x at once
};

// What becomes of the sums.
enum FlatEnd {
    FLAT_STORE, // y = sum + bias, in the operand type
    FLAT_FLOAT, // the same in float32
    FLAT_ADD,   // y += sum + bias, in float32
    FLAT_GATED, // y [n, rows / 2] = activation(gate) · up, rows gate 0, up 0, gate 1, …, in the operand type
    FLAT_ALONE, // y = activation(sum + bias), in the operand type
    FLAT_HEADS, // y [n, n_heads·head_dim] = queries, in the operand type; keys and values to their slots: cuda_flat_heads()
};

// Any number of rows, in pieces of FLAT_MOST.
struct FlatProduct {
    const Linear *w;
    const void *x; // [n, w->cols] operand type
    int n;
    FlatEnd end;
    void *y;
    const float *bias, *other; // NULL: none. FLAT_GATED: of gates, and `other` of ups
    const int32_t
        *count; // on the device, where not all rows' results are wanted: how many; n <= FLAT_MOST. NULL: all
};
Status cuda_flat(CudaBackend *cuda, const FlatProduct *product, Error *error);

// q [n, n_heads·head_dim], keys and values of x [n, w->cols], with RoPE over whole heads. STATUS_UNSUPPORTED, with no error:
// there is no code for these weights or heads, and nothing was done.
Status cuda_flat_heads(CudaBackend *cuda, const Linear *w, const void *x, int n, const HeadArguments *heads,
                       void *q, Error *error);

// Scratch for them; cuda_flat() sees to it too, but may not while a graph is captured.
Status flat_reserve(CudaBackend *cuda, Error *error);
size_t flat_bytes(const CudaBackend *cuda);

// ---- the kernels ---------------------------------------------------------------------------------------------

struct FlatArguments {
    Weight w;
    const void *x;
    int n;
    FlatEnd end;
    void *y;
    int y_stride; // elements from a row to the next
    const float *bias, *other;
    const int32_t *count;
    Activation activation;
    HeadArguments
        heads;     // FLAT_HEADS: without biases and norms, rotary_dim = head_dim, 64 or 128, a cache in f16
    float4 *parts; // [blocks, FLAT_WARPS, FLAT_MOST / 8, 32] sums of a tile that another block ends
    unsigned *arrived; // [row tiles] blocks that have left theirs; zero between launches
    bool large;        // the ring of the kernels by wgmma: see there
};

// Kernels of one format each, in blocks that are all there at once: they wait for each other.
typedef cudaError_t FlatKernels(CudaBackend *cuda, FlatArguments *a);
template <Format FORMAT> cudaError_t flat_launch(CudaBackend *cuda, FlatArguments *a); // flat_format.cu

#endif
