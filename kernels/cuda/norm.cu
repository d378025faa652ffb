// RMS norm (Zhang & Sennrich, arXiv:1910.07467) into the operand type, before matrix products of many rows.
#include "kernels/cuda/cuda.cuh"

// One block of 256 threads a row, four elements a thread and turn; n is a multiple of 4.
template <class T>
__global__ void __launch_bounds__(256)
    norm_kernel(const float *x, const int32_t *rows, const float *w, int n, float eps, T *y) {
    __shared__ float sums[8];
    const float *in = x + (int64_t)(rows ? rows[blockIdx.x] : blockIdx.x) * n;
    T *out = y + (int64_t)blockIdx.x * n;
    float sum = 0;
    for (int i = threadIdx.x * 4; i < n; i += 1024) {
        float4 v = *(const float4 *)(in + i);
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < 8; i++) sum += sums[i];
    float scale = rsqrtf(sum / n + eps);
    for (int i = threadIdx.x * 4; i < n; i += 1024) {
        float4 v = *(const float4 *)(in + i), u = *(const float4 *)(w + i);
        alignas(sizeof(T) * 4) T q[4] = {from_float<T>(v.x * scale * u.x), from_float<T>(v.y * scale * u.y),
                                         from_float<T>(v.z * scale * u.z), from_float<T>(v.w * scale * u.w)};
        if (sizeof(T) == 2)
            *(uint2 *)(out + i) = *(uint2 *)q;
        else
            *(uint4 *)(out + i) = *(uint4 *)q;
    }
}

Status cuda_norm(CudaBackend *cuda, const float *x, const int32_t *rows, int n, const float *norm, void *y,
                 Error *error) {
    const DecoderShape *s = cuda->shape;
    WITH_OPERAND(cuda, (norm_kernel<T>
                        <<<n, 256, 0, cuda->stream>>>(x, rows, norm, s->hidden_size, s->norm_eps, (T *)y)));
    return CUDA_LAUNCHED(error, "norm: [%d, %d]", n, s->hidden_size);
}
