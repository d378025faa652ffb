// gate_up: g = activation(w_gate·h + b_gate) · (w_up·h + b_up), or activation(w_up·h + b_up), h = norm(x).
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/gemm/gemm.cuh"

// One thread four elements; cols, the intermediate size, is a multiple of 4. Biases may be NULL.
template <class T>
__global__ void __launch_bounds__(256)
    activate_kernel(Activation activation, const T *wide, const float *b_up, int cols, int64_t n, T *g) {
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    struct alignas(sizeof(T) * 4) Four {
        T v[4];
    } four = *(const Four *)(wide + i);
    for (int j = 0; j < 4; j++)
        four.v[j] =
            from_float<T>(activate_any(activation, to_float(four.v[j]) + (b_up ? b_up[i % cols + j] : 0)));
    *(Four *)(g + i) = four;
}

struct GateBiases {
    const float *gate, *up; // [cols], NULL: none
};

// The same for pairs (gate, up) that lie side by side; n is the number of pairs.
template <class T>
__global__ void __launch_bounds__(256)
    activate_pairs_kernel(GateBiases b, Activation activation, const T *wide, int cols, int64_t n, T *g) {
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    struct alignas(16) Pairs {
        T v[8];
    } in = *(const Pairs *)(wide + 2 * i);
    struct alignas(sizeof(T) * 4) Out {
        T v[4];
    } out;
    for (int j = 0; j < 4; j++) {
        float gate = to_float(in.v[2 * j]), up = to_float(in.v[2 * j + 1]);
        if (b.gate) gate += b.gate[i % cols + j];
        if (b.up) up += b.up[i % cols + j];
        out.v[j] = from_float<T>(activate_any(activation, gate) * up);
    }
    *(Out *)(g + i) = out;
}

template <class T> static void launch_activate(const CudaBackend *cuda, const Layer *layer, T *g) {
    const DecoderShape *s = cuda->shape;
    int64_t n = (int64_t)cuda->step.n_tokens * s->intermediate_size;
    unsigned blocks = (unsigned)((n / 4 + 255) / 256);
    const T *wide = (const T *)cuda->scratch.wide;
    if (layer->gated)
        activate_pairs_kernel<T><<<blocks, 256, 0, cuda->device.stream>>>(
            GateBiases{layer->b_gate, layer->b_up}, s->activation, wide, s->intermediate_size, n, g);
    else
        activate_kernel<T><<<blocks, 256, 0, cuda->device.stream>>>(s->activation, wide, layer->b_up,
                                                                    s->intermediate_size, n, g);
}

Status cuda_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const int n = cuda->step.n_tokens;
    Gemm gemm = {&layer->gate_up, NULL, n, layer->gated ? EPILOGUE_GATED : EPILOGUE_ACTIVATE, g};
    gemm.bias = layer->gated ? layer->b_gate : layer->b_up, gemm.other = layer->b_up;
    gemm.chosen = &cuda->step.chosen.gate_up;
    Status status = gemm_take_norm(cuda, &gemm, (const float *)x, NULL, layer->ffn_norm, error);
    if (!status) status = cuda_gemm(cuda, &gemm, error);
    if (status == STATUS_UNSUPPORTED) {
        gemm.epilogue = EPILOGUE_STORE, gemm.y = cuda->scratch.wide, gemm.bias = gemm.other = NULL;
        status = cuda_gemm(cuda, &gemm, error);
        if (!status) {
            WITH_OPERAND(cuda, (launch_activate<T>(cuda, layer, (T *)g)));
            status = CUDA_LAUNCHED(error, "[%d, %d]", n, cuda->shape->intermediate_size);
        }
    }
    return status ? error_prefix(error, "gate_up: ") : STATUS_OK;
}
