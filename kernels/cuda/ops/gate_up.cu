// gate_up: g = activation(w_gate·h + b_gate) · (w_up·h + b_up), or activation(w_up·h + b_up), h = norm(x).
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/ops/gate_up.cuh"

// An activation without a gate: one of those that need no numbers, or xIELU by a layer's.
struct ByKind {
    Activation kind;
    __device__ float operator()(float x) const { return activate_any(kind, x); }
};
struct ByXielu {
    Xielu by;
    __device__ float operator()(float x) const { return xielu(by, x); }
};

// One thread four elements; cols, the intermediate size, is a multiple of 4. Biases may be NULL.
template <class T, class Activate>
__global__ void __launch_bounds__(256)
    activate_kernel(const Activate activate, const T *wide, const float *b_up, int cols, int64_t n, T *g) {
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    struct alignas(sizeof(T) * 4) Four {
        T v[4];
    } four = *(const Four *)(wide + i);
    for (int j = 0; j < 4; j++)
        four.v[j] = from_float<T>(activate(to_float(four.v[j]) + (b_up ? b_up[i % cols + j] : 0)));
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
        out.v[j] = from_float<T>(activate_pair(activation, gate, up));
    }
    *(Out *)(g + i) = out;
}

// `g` of a GEMM whose sums lie in scratch.wide.
template <class T> static void launch_activate(const CudaBackend *cuda, const Gemm *gemm, bool gated, T *g) {
    const int cols = gated ? gemm->w->rows / 2 : gemm->w->rows;
    int64_t n = (int64_t)gemm->n * cols;
    unsigned blocks = (unsigned)((n / 4 + 255) / 256);
    const T *wide = (const T *)cuda->scratch.wide;
    if (gated)
        activate_pairs_kernel<T><<<blocks, 256, 0, cuda->device.stream>>>(
            GateBiases{gemm->bias, gemm->other}, cuda->shape->activation, wide, cols, n, g);
    else if (cuda->shape->activation == ACTIVATION_XIELU)
        activate_kernel<<<blocks, 256, 0, cuda->device.stream>>>(ByXielu{*gemm->xielu}, wide, gemm->bias,
                                                                 cols, n, g);
    else
        activate_kernel<<<blocks, 256, 0, cuda->device.stream>>>(ByKind{cuda->shape->activation}, wide,
                                                                 gemm->bias, cols, n, g);
}

Status gate_up_gemm(CudaBackend *cuda, Gemm *gemm, bool gated, Error *error) {
    Status status = cuda_gemm(cuda, gemm, error);
    if (status != STATUS_UNSUPPORTED) return status;
    Gemm store = *gemm;
    store.epilogue = EPILOGUE_STORE, store.y = cuda->scratch.wide, store.bias = store.other = NULL;
    status = cuda_gemm(cuda, &store, error);
    if (status) return status;
    WITH_OPERAND(cuda, (launch_activate<T>(cuda, gemm, gated, (T *)gemm->y)));
    return CUDA_LAUNCHED(error, "[%d, %d]", gemm->n, gemm->w->rows);
}

Status cuda_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Status status;
    if (layer->router) {
        status = experts_gate_up(cuda, layer, (const float *)x, g, error);
        return status ? error_prefix(error, "gate_up: ") : STATUS_OK;
    }
    Gemm gemm = {&layer->gate_up, NULL, cuda->step.n_tokens,
                 layer->gated ? EPILOGUE_GATED : EPILOGUE_ACTIVATE, g};
    gemm.bias = layer->gated ? layer->b_gate : layer->b_up, gemm.other = layer->b_up;
    gemm.order = layer->orders.gate_up, gemm.xielu = &layer->xielu;
    gemm.chosen = &cuda->step.chosen.gate_up;
    status = gemm_take_norm(cuda, &gemm, (const float *)x, NULL, layer->ffn_norm, error);
    if (!status) status = gate_up_gemm(cuda, &gemm, layer->gated, error);
    return status ? error_prefix(error, "gate_up: ") : STATUS_OK;
}
