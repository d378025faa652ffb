// gate_up: g = activation(w_gate·h) · (w_up·h), h = rms_norm(x)·ffn_norm.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/cuda.cuh"

// Pairs (gate, up) lie side by side. One thread four pairs; n, the number of pairs, is a multiple of 4.
template <class T>
__global__ void __launch_bounds__(256)
    activate_kernel(Activation activation, const T *wide, int64_t n, T *g) {
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    struct alignas(16) Pairs {
        T v[8];
    } in = *(const Pairs *)(wide + 2 * i);
    struct alignas(sizeof(T) * 4) Out {
        T v[4];
    } out;
    for (int j = 0; j < 4; j++)
        out.v[j] = from_float<T>(activate(activation, to_float(in.v[2 * j])) * to_float(in.v[2 * j + 1]));
    *(Out *)(g + i) = out;
}

Status cuda_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Status status =
        cuda_norm(cuda, (const float *)x, NULL, cuda->n_tokens, layer->ffn_norm, cuda->normed, error);
    Product product = {&layer->gate_up, cuda->normed, cuda->wide, cuda->operand, cuda->n_tokens, false};
    if (!status) status = cuda_product(cuda, &product, error);
    if (status) return error_prefix(error, "gate_up: ");
    int64_t n = (int64_t)cuda->n_tokens * cuda->shape->intermediate_size;
    unsigned blocks = (unsigned)((n / 4 + 255) / 256);
    WITH_OPERAND(cuda, (activate_kernel<T><<<blocks, 256, 0, cuda->stream>>>(
                           cuda->shape->activation, (const T *)cuda->wide, n, (T *)g)));
    return CUDA_LAUNCHED(error, "gate_up: [%d, %d]", cuda->n_tokens, cuda->shape->intermediate_size);
}
