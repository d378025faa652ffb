// Per-layer embeddings: a row of every token for each layer, made behind embed(), added at the layers' ends (ops.h,
// DecoderShape.token_size).
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/ops/out.cuh"

#include <math.h>

enum { ROW_THREADS = 128 };

struct MakeRows {
    Weight embedding; // [vocab_size, n_layers·size]
    const int32_t *ids;
    const float *norm; // [size]
    int size;
    float of_x, of_id, eps;
    float *rows; // [n_tokens, n_layers·size] token_projection·x, and what becomes of it
};

// A block a row. Grid: [n_tokens, n_layers].
__global__ void __launch_bounds__(ROW_THREADS) make_rows_kernel(const __grid_constant__ MakeRows a) {
    __shared__ float sums[ROW_THREADS / 32];
    const int first = (int)blockIdx.y * a.size;
    float *row = a.rows + (int64_t)blockIdx.x * gridDim.y * a.size + first;
    let_next_begin();
    kernels_before();
    const int32_t id = a.ids[blockIdx.x];
    float square = 0;
    for (int i = threadIdx.x; i < a.size; i += ROW_THREADS) {
        const float x = row[i] * a.of_x;
        square += x * x;
    }
    const float scale = rsqrtf(block_sum<ROW_THREADS>(square, sums) / a.size + a.eps) * a.of_x;
    for (int i = threadIdx.x; i < a.size; i += ROW_THREADS)
        row[i] = (row[i] * scale * a.norm[i] + a.of_id * weight_element(a.embedding, id, first + i)) *
                 (float)M_SQRT1_2;
}

// part = activation(part)·row, of a token's rows that of this layer. Grid: [n_tokens].
struct GateRows {
    Activation activation;
    const float *rows; // of the layer
    int size;
    int64_t stride; // from a token's row to the next one's
};
template <class T>
__global__ void __launch_bounds__(ROW_THREADS) gate_rows_kernel(const __grid_constant__ GateRows a, T *part) {
    T *own = part + (int64_t)blockIdx.x * a.size;
    const float *row = a.rows + (int64_t)blockIdx.x * a.stride;
    let_next_begin();
    kernels_before();
    for (int i = threadIdx.x; i < a.size; i += ROW_THREADS)
        own[i] = from_float<T>(activate_any(a.activation, to_float(own[i])) * row[i]);
}

// Four elements a thread; n is a multiple of 4. Grid: [n / 1024], block: 256.
__global__ void __launch_bounds__(256) scale_kernel(float by, int64_t n, float *x) {
    const int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * 4;
    let_next_begin();
    kernels_before();
    if (i >= n) return;
    const float4 v = *(const float4 *)(x + i);
    *(float4 *)(x + i) = make_float4(v.x * by, v.y * by, v.z * by, v.w * by);
}

Status token_rows_make(CudaBackend *cuda, const Head *head, const float *x, Error *error) {
    const DecoderShape *s = cuda->shape;
    const int n = cuda->step.n_tokens;
    float *rows = cuda->scratch.of_tokens;
    Gemm gemm = {&head->token_projection, NULL, n, EPILOGUE_FLOAT, rows};
    Status status = gemm_take_norm(cuda, &gemm, x, NULL, Norm{}, error);
    if (!status) status = cuda_gemm(cuda, &gemm, error);
    if (status) return status;
    const MakeRows a = {head->token_embedding,
                        cuda->step.ids,
                        head->token_norm,
                        s->token_size,
                        1 / sqrtf((float)s->hidden_size),
                        sqrtf((float)s->token_size),
                        s->norm_eps,
                        rows};
    return cuda_check(launch_dependent(cuda, make_rows_kernel, dim3(n, s->n_layers), ROW_THREADS, 0, a),
                      error, "rows of %d tokens for %d layers", n, s->n_layers);
}

static Status add_rows(CudaBackend *cuda, const Layer *layer, float *x, Error *error) {
    const DecoderShape *s = cuda->shape;
    const int n = cuda->step.n_tokens;
    void *part = cuda->scratch.token_part;
    Gemm gate = {&layer->token_gate, NULL, n, EPILOGUE_STORE, part}, up = {&layer->token_up};
    cuda->step.normed = NULL; // x is another than at the layer's norms
    Status status = gemm_take_norm(cuda, &gate, x, NULL, Norm{}, error);
    if (!status) status = cuda_gemm(cuda, &gate, error);
    if (status) return status;
    const GateRows a = {s->activation, cuda->scratch.of_tokens + (int64_t)layer->index * s->token_size,
                        s->token_size, (int64_t)s->n_layers * s->token_size};
    cudaError_t code;
    WITH_OPERAND(cuda, (code = launch_dependent(cuda, gate_rows_kernel<T>, n, ROW_THREADS, 0, a, (T *)part)));
    status = cuda_check(code, error, "rows of %d tokens", n);
    up.y = x;
    return status ? status : out_add(cuda, &up, NULL, layer->token_norm, part, error);
}

Status token_rows_end_layer(CudaBackend *cuda, const Layer *layer, float *x, Error *error) {
    const int64_t n = (int64_t)cuda->step.n_tokens * cuda->shape->hidden_size;
    Status status = cuda->shape->token_size > 0 ? add_rows(cuda, layer, x, error) : STATUS_OK;
    if (status || layer->x_scale == 1) return status;
    cuda->step.normed = NULL;
    return cuda_check(launch_dependent(cuda, scale_kernel, dim3((unsigned)((n / 4 + 255) / 256)), 256, 0,
                                       layer->x_scale, n, x),
                      error, "scaling %d tokens", cuda->step.n_tokens);
}
