// Norms, before GEMMs.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/w8/norm_row.cuh"

template <class T> __device__ inline void store_four(T *to, float a, float b, float c, float d) {
    alignas(sizeof(T) * 4) T q[4] = {from_float<T>(a), from_float<T>(b), from_float<T>(c), from_float<T>(d)};
    if (sizeof(T) == 2)
        *(uint2 *)to = *(uint2 *)q;
    else
        *(uint4 *)to = *(uint4 *)q;
}

// One block of 256 threads a row, four elements a thread and turn; n is a multiple of 4. y may be x where rows is NULL.
// The norm's weights are there before x is, of the TURNS that are kept in registers; of longer rows the rest is read twice.
template <class T, int TURNS>
__global__ void __maxnreg__(BESIDE_REGISTERS)
    rms_norm_kernel(const float *x, const int32_t *rows, const float *w, int n, float eps, T *y) {
    __shared__ float sums[8];
    float4 u[TURNS], v[TURNS];
    const int first = threadIdx.x * 4, left = n - first;
#pragma unroll
    for (int t = 0; t < TURNS; t++)
        if (t * 1024 < left) u[t] = *(const float4 *)(w + first + t * 1024);
    let_next_begin();
    kernels_before();
    const float *in = x + (int64_t)(rows ? rows[blockIdx.x] : blockIdx.x) * n + first;
#pragma unroll
    for (int t = 0; t < TURNS; t++)
        v[t] = t * 1024 < left ? *(const float4 *)(in + t * 1024) : make_float4(0, 0, 0, 0);
    float sum = 0;
#pragma unroll
    for (int t = 0; t < TURNS; t++)
        sum += v[t].x * v[t].x + v[t].y * v[t].y + v[t].z * v[t].z + v[t].w * v[t].w;
#pragma unroll 4
    for (int i = TURNS * 1024; i < left; i += 1024) {
        float4 a = *(const float4 *)(in + i);
        sum += a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w;
    }
    float scale = rsqrtf(block_sum<256>(sum, sums) / n + eps);
    T *out = y + (int64_t)blockIdx.x * n + first;
#pragma unroll
    for (int t = 0; t < TURNS; t++)
        if (t * 1024 < left)
            store_four(out + t * 1024, v[t].x * scale * u[t].x, v[t].y * scale * u[t].y,
                       v[t].z * scale * u[t].z, v[t].w * scale * u[t].w);
#pragma unroll 1
    for (int i = TURNS * 1024; i < left; i += 1024) {
        float4 a = *(const float4 *)(in + i), b = *(const float4 *)(w + first + i);
        store_four(out + i, a.x * scale * b.x, a.y * scale * b.y, a.z * scale * b.z, a.w * scale * b.w);
    }
}

template <class T>
static cudaError_t launch_rms(const CudaBackend *cuda, const float *x, const int32_t *rows, int n,
                              const float *w, T *y) {
    int cols = cuda->shape->hidden_size;
    auto kernel = cols <= 1024   ? rms_norm_kernel<T, 1>
                  : cols <= 2048 ? rms_norm_kernel<T, 2>
                                 : rms_norm_kernel<T, 4>;
    return launch_dependent(cuda, kernel, n, 256, 0, x, rows, w, cols, cuda->shape->norm_eps, y);
}

// The same threads; the variance in a second pass, from the mean. The norm's bias may be NULL.
template <class T>
__global__ void __launch_bounds__(256)
    layer_norm_kernel(const float *x, const int32_t *rows, Norm norm, int n, float eps, T *y) {
    const float *w = norm.weight, *b = norm.bias;
    __shared__ float sums[8];
    let_next_begin();
    kernels_before();
    const float *in = x + (int64_t)(rows ? rows[blockIdx.x] : blockIdx.x) * n;
    T *out = y + (int64_t)blockIdx.x * n;
    float sum = 0, square = 0;
    for (int i = threadIdx.x * 4; i < n; i += 1024) {
        float4 v = *(const float4 *)(in + i);
        sum += (v.x + v.y) + (v.z + v.w);
    }
    float mean = block_sum<256>(sum, sums) / n;
    for (int i = threadIdx.x * 4; i < n; i += 1024) {
        float4 v = *(const float4 *)(in + i);
        v = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
        square += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    float scale = rsqrtf(block_sum<256>(square, sums) / n + eps);
    for (int i = threadIdx.x * 4; i < n; i += 1024) {
        float4 v = *(const float4 *)(in + i), u = *(const float4 *)(w + i),
               a = b ? *(const float4 *)(b + i) : make_float4(0, 0, 0, 0);
        store_four(out + i, (v.x - mean) * scale * u.x + a.x, (v.y - mean) * scale * u.y + a.y,
                   (v.z - mean) * scale * u.z + a.z, (v.w - mean) * scale * u.w + a.w);
    }
}

// No norm: x in the type of the GEMM. One thread four elements.
template <class T>
__global__ void __launch_bounds__(256) copy_kernel(const float *x, const int32_t *rows, int n, T *y) {
    const int i = (blockIdx.y * 256 + threadIdx.x) * 4;
    let_next_begin();
    kernels_before();
    if (i >= n) return;
    float4 v = *(const float4 *)(x + (int64_t)(rows ? rows[blockIdx.x] : blockIdx.x) * n + i);
    store_four(y + (int64_t)blockIdx.x * n + i, v.x, v.y, v.z, v.w);
}

// x += norm(y), or, unless ADDS, x = times·norm(y), where y may be x. One block of 256 threads a row, four elements a
// thread and turn; n is a multiple of 4.
template <bool ADDS>
__global__ void __launch_bounds__(256)
    add_normed_kernel(const float *y, Norm norm, bool centred, int n, float eps, float times, float *x) {
    __shared__ float sums[8];
    const float *in = y + (int64_t)blockIdx.x * n, *w = norm.weight, *b = norm.bias;
    float *to = x + (int64_t)blockIdx.x * n;
    float sum = 0, square = 0;
    let_next_begin();
    kernels_before();
    for (int i = threadIdx.x * 4; i < n && centred; i += 1024) {
        float4 v = *(const float4 *)(in + i);
        sum += (v.x + v.y) + (v.z + v.w);
    }
    const float mean = centred ? block_sum<256>(sum, sums) / n : 0;
    for (int i = threadIdx.x * 4; i < n; i += 1024) {
        float4 v = *(const float4 *)(in + i);
        v = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
        square += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    const float scale = rsqrtf(block_sum<256>(square, sums) / n + eps);
    for (int i = threadIdx.x * 4; i < n; i += 1024) {
        float4 v = *(const float4 *)(in + i), u = *(const float4 *)(w + i),
               a = b ? *(const float4 *)(b + i) : make_float4(0, 0, 0, 0);
        float4 normed = make_float4((v.x - mean) * scale * u.x + a.x, (v.y - mean) * scale * u.y + a.y,
                                    (v.z - mean) * scale * u.z + a.z, (v.w - mean) * scale * u.w + a.w);
        float4 old = ADDS ? *(const float4 *)(to + i) : make_float4(0, 0, 0, 0);
        *(float4 *)(to + i) =
            ADDS ? make_float4(old.x + normed.x, old.y + normed.y, old.z + normed.z, old.w + normed.w)
                 : make_float4(times * normed.x, times * normed.y, times * normed.z, times * normed.w);
    }
}

// Norm + quantise, for W8 (kernels/w8.h) and FP8 (kernels/fp8.h): a row in 8 bits and its scale, or its groups'. One block a row, which stays in registers.
// LAYER: a layer norm, else RMS.
template <int THREADS, int TURNS>
constexpr int QUANTIZE_REGISTERS = // those of longer rows find no room beside GEMMs
    TURNS <= 4        ? BESIDE_REGISTERS
    : THREADS == 1024 ? 64
                      : 80;
template <RowForm FORM, int THREADS, int TURNS, bool LAYER>
__global__ void __maxnreg__((QUANTIZE_REGISTERS<THREADS, TURNS>))
    norm_quantize_kernel(const float *x, const int32_t *rows, const __grid_constant__ NormRows a) {
    float4 u[TURNS], v[TURNS];
    load_norm<THREADS>(a, u);
    let_next_begin();
    kernels_before();
    const float *in = x + (int64_t)(rows ? rows[blockIdx.x] : blockIdx.x) * a.n;
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        int i = (t * THREADS + threadIdx.x) * 4;
        v[t] = i < a.n ? *(const float4 *)(in + i) : make_float4(0, 0, 0, 0);
    }
    norm_row<FORM, THREADS, TURNS, LAYER>(a, blockIdx.x, v, u);
}

template <RowForm FORM, bool LAYER>
static cudaError_t launch_quantize(const CudaBackend *cuda, const NormCall *c, const NormRows &a) {
    cudaError_t code = cudaErrorInvalidValue;
    if (a.n <= NORM_QUANTIZE_MOST)
        WITH_NORM_TURNS(a.n, (code = launch_dependent(cuda, norm_quantize_kernel<FORM, THREADS, TURNS, LAYER>,
                                                      c->n, THREADS, 0, c->x, c->rows, a)));
    return code;
}

template <RowForm FORM>
static cudaError_t launch_form(const CudaBackend *cuda, const NormCall *c, const NormRows &a) {
    return cuda->shape->norm == NORM_LAYER ? launch_quantize<FORM, true>(cuda, c, a)
                                           : launch_quantize<FORM, false>(cuda, c, a);
}

Status cuda_norm_quantize(CudaBackend *cuda, const NormCall *c, const QuantizedRows &to, Error *error) {
    const DecoderShape *s = cuda->shape;
    int n = s->hidden_size;
    NormRows a = {c->norm, n, (int)w8_scale_offset(n), s->norm_eps, (char *)c->y, to.scales, to.fp8};
    cudaError_t code = to.form == ROW_W8         ? launch_form<ROW_W8>(cuda, c, a)
                       : to.form == ROW_FP8_ROWS ? launch_form<ROW_FP8_ROWS>(cuda, c, a)
                                                 : launch_form<ROW_FP8_GROUPS>(cuda, c, a);
    return cuda_check(code, error, "norm in 8 bits: [%d, %d]", c->n, n);
}

static cudaError_t launch_norm(const CudaBackend *cuda, const NormCall *c) {
    const DecoderShape *s = cuda->shape;
    cudaError_t code;
    if (!c->norm.weight)
        WITH_TYPE(c->type,
                  (code = launch_dependent(cuda, copy_kernel<T>, dim3(c->n, (s->hidden_size + 1023) / 1024),
                                           256, 0, c->x, c->rows, s->hidden_size, (T *)c->y)));
    else if (s->norm == NORM_LAYER)
        WITH_TYPE(c->type, (code = launch_dependent(cuda, layer_norm_kernel<T>, c->n, 256, 0, c->x, c->rows,
                                                    c->norm, s->hidden_size, s->norm_eps, (T *)c->y)));
    else
        WITH_TYPE(c->type, (code = launch_rms<T>(cuda, c->x, c->rows, c->n, c->norm.weight, (T *)c->y)));
    return code;
}

Status cuda_norm(CudaBackend *cuda, const NormCall *c, Error *error) {
    return cuda_check(launch_norm(cuda, c), error, "norm: [%d, %d]", c->n, cuda->shape->hidden_size);
}

Status cuda_add_normed(CudaBackend *cuda, const float *y, int n, Norm norm, float *x, Error *error) {
    const DecoderShape *s = cuda->shape;
    cudaError_t code =
        launch_dependent(cuda, add_normed_kernel<true>, n, 256, 0, y, norm, s->norm == NORM_LAYER,
                         s->hidden_size, decoder_post_norm_eps(s), 1.0f, x);
    return cuda_check(code, error, "norm behind [%d, %d]", n, s->hidden_size);
}

Status cuda_norm_residual(CudaBackend *cuda, Norm norm, float *x, Error *error) {
    const DecoderShape *s = cuda->shape;
    if (s->normed_residual == 0) return STATUS_OK;
    cudaError_t code =
        launch_dependent(cuda, add_normed_kernel<false>, cuda->step.n_tokens, 256, 0, (const float *)x, norm,
                         s->norm == NORM_LAYER, s->hidden_size, s->norm_eps, s->normed_residual, x);
    return cuda_check(code, error, "normed residual: [%d, %d]", cuda->step.n_tokens, s->hidden_size);
}
