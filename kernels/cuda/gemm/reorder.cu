// Inputs of matrices whose columns have an order of their own (Matrix.order).
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/gemm/gemm.cuh"

// Four elements a thread; cols is a multiple of 4. Grid: [cols / 1024, rows], block: 256.
template <class T>
__global__ void __launch_bounds__(256) reorder_kernel(const T *from, const int32_t *order, int cols, T *to) {
    struct alignas(sizeof(T) * 4) Four {
        T v[4];
    } four;
    const int i = (blockIdx.x * 256 + threadIdx.x) * 4;
    const int4 at = i < cols ? __ldg((const int4 *)(order + i)) : make_int4(0, 0, 0, 0);
    let_next_begin();
    kernels_before();
    if (i >= cols) return;
    const T *row = from + (int64_t)blockIdx.y * cols;
    four.v[0] = row[at.x], four.v[1] = row[at.y], four.v[2] = row[at.z], four.v[3] = row[at.w];
    *(Four *)(to + (int64_t)blockIdx.y * cols + i) = four;
}

Status cuda_reorder(CudaBackend *cuda, const Gemm *gemm, const void *from, void *to, Error *error) {
    const int cols = gemm->w->cols;
    const dim3 grid((unsigned)((cols + 1023) / 1024), (unsigned)gemm->n);
    cudaError_t code;
    WITH_OPERAND(cuda, (code = launch_dependent(cuda, reorder_kernel<T>, grid, 256, 0, (const T *)from,
                                                gemm->order, cols, (T *)to)));
    return cuda_check(code, error, "reordering [%d, %d]", gemm->n, cols);
}
