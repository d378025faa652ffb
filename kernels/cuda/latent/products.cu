// Products of heads with matrices of their own, of few tokens.
#include "kernels/cuda/latent/latent.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/rope.cuh"

enum {
    PRODUCT_WARPS = 8,
    PRODUCT_ROWS = 4
}; // rows of a warp, which read x out of shared memory once for all

template <class W> struct alignas(sizeof(W) * 4) Four { W v[4]; };

// PRODUCT_ROWS rows of a head's matrix a warp, for NX tokens; of each four elements a lane and turn, so that what a token
// gets does not depend on the others. cols: a multiple of 4.
// Grid: [rows / 32, n_heads, n / NX], block: 256, shared memory: NX rows of x in float32.
template <class T, class W, int NX>
__global__ void __launch_bounds__(PRODUCT_WARPS * 32)
    head_product_kernel(const __grid_constant__ HeadProduct p, const W *weights) {
    extern __shared__ __align__(16) float x[];
    const int head = blockIdx.y, token = blockIdx.z * NX, n = min(NX, p.n - token), lane = threadIdx.x % 32,
              first = (blockIdx.x * PRODUCT_WARPS + threadIdx.x / 32) * PRODUCT_ROWS;
    let_next_begin();
    kernels_before();
    for (int i = threadIdx.x; i < NX * p.cols; i += PRODUCT_WARPS * 32) {
        const int t = i / p.cols;
        const T *from = (const T *)p.x + (token + t) * p.x_token + head * p.x_head;
        x[i] = t < n ? to_float(from[i % p.cols]) : 0;
    }
    __syncthreads();
    float sums[PRODUCT_ROWS][NX] = {};
    for (int i = lane * 4; i < p.cols; i += 128) {
        Four<W> w[PRODUCT_ROWS];
#pragma unroll
        for (int r = 0; r < PRODUCT_ROWS; r++)
            w[r] = *(const Four<W> *)(weights +
                                      ((int64_t)head * p.rows + min(first + r, p.rows - 1)) * p.cols + i);
#pragma unroll
        for (int t = 0; t < NX; t++) {
            const float4 v = *(const float4 *)(x + t * p.cols + i);
#pragma unroll
            for (int r = 0; r < PRODUCT_ROWS; r++) {
                sums[r][t] = fmaf(to_float(w[r].v[0]), v.x, sums[r][t]);
                sums[r][t] = fmaf(to_float(w[r].v[1]), v.y, sums[r][t]);
                sums[r][t] = fmaf(to_float(w[r].v[2]), v.z, sums[r][t]);
                sums[r][t] = fmaf(to_float(w[r].v[3]), v.w, sums[r][t]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < PRODUCT_ROWS; r++)
#pragma unroll
        for (int t = 0; t < NX; t++) {
            const float sum = warp_sum(sums[r][t]);
            if (lane == 0 && t < n && first + r < p.rows)
                ((T *)p.y)[(token + t) * p.y_token + head * p.y_head + first + r] = from_float<T>(sum);
        }
}

template <class T, class W, int NX> static cudaError_t launch(const CudaBackend *cuda, const HeadProduct *p) {
    const int rows = PRODUCT_WARPS * PRODUCT_ROWS;
    const dim3 grid((p->rows + rows - 1) / rows, p->n_heads, (p->n + NX - 1) / NX);
    return launch_dependent(cuda, head_product_kernel<T, W, NX>, grid, PRODUCT_WARPS * 32,
                            NX * (size_t)p->cols * sizeof(float), *p, (const W *)p->w->data);
}

template <class T, class W> static cudaError_t launch_few(const CudaBackend *cuda, const HeadProduct *p) {
    return p->n == 1 ? launch<T, W, 1>(cuda, p) : launch<T, W, 8>(cuda, p);
}

template <class T> static cudaError_t launch_of(const CudaBackend *cuda, const HeadProduct *p) {
    return p->w->format == FORMAT_F32   ? launch_few<T, float>(cuda, p)
           : p->w->format == FORMAT_F16 ? launch_few<T, __half>(cuda, p)
                                        : launch_few<T, __nv_bfloat16>(cuda, p);
}

Status head_product(CudaBackend *cuda, const HeadProduct *p, Error *error) {
    const StepKind kind = cuda->step.kind;
    const bool few = kind == STEP_DECODING || (kind == STEP_ANY && p->n <= HEAD_PRODUCT_FEW);
    if (!few) {
        Status status = library_head_product(cuda, p, error);
        if (status != STATUS_UNSUPPORTED) return status;
    }
    cudaError_t code;
    WITH_OPERAND(cuda, (code = launch_of<T>(cuda, p)));
    return cuda_check(code, error, "products of %d tokens with %d heads' [%d, %d]", p->n, p->n_heads, p->rows,
                      p->cols);
}
