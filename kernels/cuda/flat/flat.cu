// Flat GEMMs of the ops, and the plain kernel for what has no other: float32, and weights of 16 bits that are not of
// the operand type.
#include "kernels/cuda/flat/flat.cuh"
#include "kernels/cuda/device/by_format.cuh"
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"

// One warp a row of W, or a pair of gate and up, and a row of x. Grid: [units / 8, n], block: 256.
template <class T>
__global__ void __launch_bounds__(256) flat_plain_kernel(const __grid_constant__ FlatArguments a) {
    int lane = threadIdx.x % 32, unit = blockIdx.x * 8 + threadIdx.x / 32, token = blockIdx.y;
    bool gated = a.epilogue == EPILOGUE_GATED;
    let_next_begin();
    kernels_before();
    if (unit >= (gated ? a.w.rows / 2 : a.w.rows) || (a.count && token >= *a.count)) return;
    const T *x = (const T *)a.x + (int64_t)token * a.w.cols;
    auto dot = [&](int r) {
        const char *row = a.w.data + r * a.w.row_bytes;
        float sum = 0;
        for (int i = lane; i < a.w.cols; i += 32)
            sum += row_element(a.w.format, row, a.w.cols, i) * to_float(x[i]);
        for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
        return sum;
    };
    float sum = dot(gated ? 2 * unit : unit), up = gated ? dot(2 * unit + 1) : 0;
    if (lane == 0) end_sum<T>(a, token, unit, sum, up);
}

template <class T> static cudaError_t launch_plain(const CudaBackend *cuda, const FlatArguments *a) {
    int units = a->epilogue == EPILOGUE_GATED ? a->w.rows / 2 : a->w.rows;
    return launch_dependent(cuda, flat_plain_kernel<T>, dim3((units + 7) / 8, a->n), 256, 0, *a);
}

static cudaError_t launch(CudaBackend *cuda, FlatArguments *a) {
    cudaError_t code = cudaSuccess;
    FlatKernel kernel = dispatch_flat(&cuda->device.card, cuda->operand, (Format)a->w.format);
    if (a->w.format == FORMAT_W8) return flat_launch_w8(cuda, kernel, a);
    if (kernel != FLAT_PLAIN)
        return by_format<FORMAT_F16>(a->w.format, [](auto f) { return flat_launch<f.value>; })(cuda, kernel,
                                                                                               a);
    WITH_OPERAND(cuda, code = launch_plain<T>(cuda, a));
    return code;
}

// ---- the GEMM -------------------------------------------------------------------------------------------------

FlatArguments flat_arguments(const CudaBackend *cuda, const Gemm *g, int part, int first, int row) {
    size_t out = operand_bytes(gemm_output(cuda, g));
    FlatArguments a = {};
    a.w = g->w->part[part];
    a.x = (const char *)g->x + (size_t)first * gemm_input_bytes(cuda, g);
    a.x_scales = g->x_scales ? g->x_scales + first : NULL;
    a.n = g->n - first < FLAT_MOST ? g->n - first : FLAT_MOST;
    // The kernels do the same for both.
    a.epilogue = g->epilogue == EPILOGUE_SUMS ? EPILOGUE_FLOAT : g->epilogue, a.count = g->count;
    a.y_stride = g->epilogue == EPILOGUE_GATED ? g->w->rows / 2 : g->w->rows;
    if (g->heads) {
        a.heads = *g->heads;
        a.y_stride = a.heads.n_heads * a.heads.head_dim;
        a.heads.rope += (size_t)first * (size_t)(a.heads.head_dim / 2), a.heads.slots += first;
    }
    a.y = (char *)g->y + ((size_t)first * (size_t)a.y_stride + (size_t)row) * out;
    a.bias = g->bias ? g->bias + row : NULL, a.other = g->other;
    a.activation = cuda->shape->activation;
    a.parts = (uint4 *)cuda->scratch.handover.memory;
    return a;
}

Status flat_gemm(CudaBackend *cuda, const Gemm *g, Error *error) {
    Status status = cuda_reserve_handover(cuda, error);
    cudaError_t code = cudaSuccess;
    for (int first = 0; first < g->n && !status && code == cudaSuccess; first += FLAT_MOST)
        for (int i = 0, row = 0; i < g->w->n_parts && code == cudaSuccess; row += g->w->part[i++].rows) {
            FlatArguments a = flat_arguments(cuda, g, i, first, row);
            code = launch(cuda, &a);
        }
    return status ? status
                  : cuda_check(code, error, "the flat GEMM of %d rows by [%d, %d]", g->n, g->w->rows,
                               g->w->cols);
}
