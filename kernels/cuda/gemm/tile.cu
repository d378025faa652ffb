// Products of many rows on Hopper: how they are cut into tiles, and their launches.
#include "kernels/cuda/gemm/tile.cuh"

#include "kernels/cuda/gemm/dense.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/gemm/tile_epilogue.cuh"
#include "kernels/cuda/gemm/tile_kernel.cuh"
#include "kernels/cuda/gemm/tensor_map.cuh"

// ---- how to cut ------------------------------------------------------------------------------------------------

static int64_t tiles_of(int n, int rows, int columns) {
    return (int64_t)((n + 2 * TILE_TOKENS - 1) / (2 * TILE_TOKENS)) * ((rows + columns - 1) / columns);
}

// What a product takes, in columns that every cluster multiplies with.
static int64_t cost_of(const CudaBackend *cuda, int n, int rows, int columns) {
    int clusters = cuda->n_sms / 2;
    return (tiles_of(n, rows, columns) + clusters - 1) / clusters * columns;
}

static int choose_columns(const CudaBackend *cuda, int n, int rows) {
    return cost_of(cuda, n, rows, 192) < cost_of(cuda, n, rows, 256) ? 192 : 256;
}

// Whether tiles of 128 are better than of 256, though shared memory is read more for a product: a quarter slower.
static bool choose_narrow(const CudaBackend *cuda, int n, int rows) {
    return cost_of(cuda, n, rows, 128) * 5 < cost_of(cuda, n, rows, 256) * 4;
}

// Whether three quarters of what the tensor cores could do meanwhile are of use: of less cuBLASLt makes more, by smaller
// tiles and sums cut in parts. Where those may not be cut, it does not.
static bool keeps_busy(const CudaBackend *cuda, int n, int rows, int columns) {
    int64_t could = cost_of(cuda, n, rows, columns) * (cuda->n_sms / 2) * 2 * TILE_TOKENS;
    return cuda->compute == 90 && cuda->operand != DTYPE_F32 &&
           (cuda->kind == STEP_READING || (int64_t)n * rows * 4 >= 3 * could);
}

bool tiles_suit_gates(const CudaBackend *cuda, const Layer *layer) {
    Activation activation = cuda->shape->activation;
    return layer->gated && !layer->b_gate && !layer->b_up &&
           (activation == ACTIVATION_SILU || activation == ACTIVATION_GELU_TANH) &&
           keeps_busy(cuda, cuda->n_tokens, layer->gate_up.rows,
                      choose_columns(cuda, cuda->n_tokens, layer->gate_up.rows));
}

bool tiles_suit_heads(const CudaBackend *cuda, const Linear *w, const HeadArguments &a) {
    return !a.bias && (a.head_dim == 64 || a.head_dim == 128) && a.kv.slot_stride % 8 == 0 &&
           a.kv.head_stride % 8 == 0 && keeps_busy(cuda, cuda->n_tokens, w->rows, 256);
}

bool tiles_suit_sums(const CudaBackend *cuda, const Product &a) {
    return cuda->compute == 90 && cuda->operand != DTYPE_F32 && cuda->kind == STEP_READING && a.add &&
           a.w->cols % 8 == 0 && a.w->rows % 8 == 0;
}

// ---- launching ---------------------------------------------------------------------------------------------------

// A product of the step's tokens: W [rows, cols] lies dense.
struct DenseProduct {
    const void *x, *dense;
    int rows, cols;
    bool expanded;
};

template <class T, int COLUMNS, class End>
static Status launch(CudaBackend *cuda, const DenseProduct &p, const End &end, Error *error) {
    auto kernel = product_kernel<T, COLUMNS, End>;
    size_t shared = sizeof(ProductShared<T, COLUMNS>);
    int64_t tiles = tiles_of(cuda->n_tokens, p.rows, COLUMNS), clusters = cuda->n_sms / 2;
    TileShape shape = {cuda->n_tokens, p.rows, p.cols, !p.expanded};
    CUtensorMap x_map, w_map;
    dim3 grid(2 * (unsigned)(tiles < clusters ? tiles : clusters));
    cudaError_t code = make_tile_map(&x_map, p.x, shape.n, p.cols, TILE_TOKENS);
    if (code == cudaSuccess) code = make_tile_map(&w_map, p.dense, p.rows, p.cols, COLUMNS / 2);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code == cudaSuccess)
        code = launch_dependent(cuda, kernel, grid, PRODUCT_THREADS, shared, x_map, w_map, shape, end);
    return cuda_check(code, error, "product of [%d, %d] and [%d, %d]", shape.n, p.cols, p.rows, p.cols);
}

template <class T, class End>
static Status launch_best(CudaBackend *cuda, const DenseProduct &p, const End &end, Error *error) {
    return choose_columns(cuda, cuda->n_tokens, p.rows) == 192 ? launch<T, 192>(cuda, p, end, error)
                                                               : launch<T, 256>(cuda, p, end, error);
}

template <class T, class End>
static Status launch_wide_or_narrow(CudaBackend *cuda, const DenseProduct &p, const End &end, Error *error) {
    return choose_narrow(cuda, cuda->n_tokens, p.rows) ? launch<T, 128>(cuda, p, end, error)
                                                       : launch<T, 256>(cuda, p, end, error);
}

template <class T, Activation ACTIVATION>
static Status launch_gates(CudaBackend *cuda, const DenseProduct &p, int first, void *g, Error *error) {
    GatedEnd<T, ACTIVATION> end = {(T *)g + first / 2, cuda->shape->intermediate_size};
    return launch_best<T>(cuda, p, end, error);
}

Status product_of_gates(CudaBackend *cuda, const Layer *layer, const void *x, void *g, Error *error) {
    const Linear *w = &layer->gate_up;
    return for_dense(cuda, w, error, [&](const void *dense, bool expanded, int first, int n) {
        DenseProduct p = {x, dense, n, w->cols, expanded};
        Status status;
        if (cuda->shape->activation == ACTIVATION_SILU)
            WITH_TYPE_16(cuda->operand,
                         status = (launch_gates<T, ACTIVATION_SILU>(cuda, p, first, g, error)));
        else
            WITH_TYPE_16(cuda->operand,
                         status = (launch_gates<T, ACTIVATION_GELU_TANH>(cuda, p, first, g, error)));
        return status;
    });
}

template <class T>
static Status launch_heads(CudaBackend *cuda, const DenseProduct &p, int first, const HeadArguments &a,
                           void *q, Error *error) {
    if (a.head_dim == 64)
        return launch_wide_or_narrow<T>(cuda, p, HeadsEnd<T, 64>{a, (T *)q, first / 64}, error);
    return launch_wide_or_narrow<T>(cuda, p, HeadsEnd<T, 128>{a, (T *)q, first / 128}, error);
}

Status product_of_heads(CudaBackend *cuda, const Linear *w, const void *x, const HeadArguments &a, void *q,
                        Error *error) {
    return for_dense(cuda, w, error, [&](const void *dense, bool expanded, int first, int n) {
        DenseProduct p = {x, dense, n, w->cols, expanded};
        Status status;
        WITH_TYPE_16(cuda->operand, status = launch_heads<T>(cuda, p, first, a, q, error));
        return status;
    });
}

Status product_of_sums(CudaBackend *cuda, const Product &a, Error *error) {
    return for_dense(cuda, a.w, error, [&](const void *dense, bool expanded, int first, int n) {
        DenseProduct p = {a.x, dense, n, a.w->cols, expanded};
        AddEnd end = {(float *)a.y + first, a.w->rows};
        Status status;
        WITH_TYPE_16(cuda->operand, status = launch_wide_or_narrow<T>(cuda, p, end, error));
        return status;
    });
}
