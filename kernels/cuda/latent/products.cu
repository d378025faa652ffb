// Products of heads with matrices of their own, of few tokens.
#include "kernels/cuda/latent/latent.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/rope.cuh"

// Rows of a warp read x out of shared memory once for all.
enum { PRODUCT_WARPS = 8, PRODUCT_ROWS = 4 };

// Pair i of what lies behind x[token, head], turned, to before y[token, head].
template <class T> __device__ inline void turn_pair(const HeadProduct &p, int64_t token, int head, int i) {
    const T *from = (const T *)p.x + token * p.x_token + head * p.x_head + p.cols;
    T *to = (T *)p.y + token * p.y_token + head * p.y_head - p.rotary_dim;
    const RopePlace place(i, p.rotary_dim, p.interleaved);
    float x = to_float(from[place.first]), y = to_float(from[place.second]);
    if (p.rope) rope_pair(x, y, p.rope[token * (p.rotary_dim / 2) + i], x, y);
    to[place.first] = from_float<T>(x);
    to[place.second] = from_float<T>(y);
}

// A thread a pair of a head. Grid: [n, pairs of all heads / 256], block: 256.
template <class T>
__global__ void __launch_bounds__(256) turn_pairs_kernel(const __grid_constant__ HeadProduct p) {
    const int pairs = p.rotary_dim / 2, at = blockIdx.y * 256 + threadIdx.x;
    let_next_begin();
    kernels_before();
    if (at < p.n_heads * pairs) turn_pair<T>(p, blockIdx.x, at / pairs, at % pairs);
}

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
    Four<W> next[PRODUCT_ROWS]; // on its way while the kernels before end
    auto load = [&](int i) {
#pragma unroll
        for (int r = 0; r < PRODUCT_ROWS && i < p.cols; r++) {
            const int64_t row = (int64_t)head * p.rows + min(first + r, p.rows - 1);
            next[r] = *(const Four<W> *)(weights + row * p.cols + i);
        }
    };
    let_next_begin();
    load(lane * 4);
    kernels_before();
    for (int i = threadIdx.x; i < NX * p.cols; i += PRODUCT_WARPS * 32) {
        const int t = i / p.cols;
        const T *from = (const T *)p.x + (token + t) * p.x_token + head * p.x_head;
        x[i] = t < n ? to_float(from[i % p.cols]) : 0;
    }
    if (blockIdx.x == 0 && p.rotary_dim > 0)
        for (int i = threadIdx.x; i < n * (p.rotary_dim / 2); i += PRODUCT_WARPS * 32)
            turn_pair<T>(p, token + i / (p.rotary_dim / 2), head, i % (p.rotary_dim / 2));
    __syncthreads();
    float sums[PRODUCT_ROWS][NX] = {};
    for (int i = lane * 4; i < p.cols; i += 128) {
        Four<W> w[PRODUCT_ROWS];
#pragma unroll
        for (int r = 0; r < PRODUCT_ROWS; r++) w[r] = next[r];
        load(i + 128);
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
    cudaError_t code = cudaSuccess;
    if (!few) {
        Status status = library_head_product(cuda, p, error);
        const dim3 grid(p->n, (p->n_heads * (p->rotary_dim / 2) + 255) / 256);
        if (!status && p->rotary_dim > 0)
            WITH_OPERAND(cuda, (code = launch_dependent(cuda, turn_pairs_kernel<T>, grid, 256, 0, *p)));
        if (!status)
            status = cuda_check(code, error, "rotary parts of %d tokens and %d heads", p->n, p->n_heads);
        if (status != STATUS_UNSUPPORTED) return status;
    }
    WITH_OPERAND(cuda, (code = launch_of<T>(cuda, p)));
    return cuda_check(code, error, "products of %d tokens with %d heads' [%d, %d]", p->n, p->n_heads, p->rows,
                      p->cols);
}
