// Gates behind attention: qkv() makes their products, attend() multiplies its results with their sigmoids.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/ops/products.cuh"

Status input_products(CudaBackend *cuda, const Linear *w, LayerInput *input, void *y, DType *type,
                      Error *error) {
    Gemm g = {w, NULL, cuda->step.n_tokens, EPILOGUE_STORE, y};
    g.order = input->order, g.chosen = input->taken.w ? NULL : input->taken.chosen;
    const bool w8 = linear_is_w8(w), rounded = !w8 && gemm_fp8_inputs(cuda, &g) != FP8_INPUTS_KEPT;
    // Sums of W8 are exact in every kernel, and FLOAT is what those that end them know.
    if (!rounded) g.epilogue = w8 ? EPILOGUE_FLOAT : EPILOGUE_SUMS;
    *type = gemm_output(cuda, &g);
    const Gemm *taken = &input->taken;
    const bool shared =
        taken->w && !rounded && w8 == linear_is_w8(taken->w) && (w8 || taken->x_scales == NULL);
    Status status = STATUS_OK;
    if (shared)
        g.x = taken->x, g.x_scales = taken->x_scales, g.x_rows = taken->x_rows;
    else
        status = gemm_take_norm(cuda, &g, input->x, NULL, input->norm, error);
    input->taken = g;
    return status ? status : cuda_gemm(cuda, &g, error);
}

Status gate_make(CudaBackend *cuda, const Layer *layer, LayerInput *input, Error *error) {
    const int gates = layer->attn_gate.rows, of_gate = layer->out.cols / gates;
    AttentionGate gate = {cuda->scratch.gates,   DTYPE_F32,       of_gate,
                          layer->attn_gate_bias, gates * of_gate, gates};
    Status status = input_products(cuda, &layer->attn_gate, input, gate.products, &gate.type, error);
    cuda->step.gate = gate;
    return status;
}

// Four elements a thread; width is a multiple of 4. Grid: [n_tokens, width / 1024], block: 256.
template <class T> __global__ void __launch_bounds__(256) gate_kernel(const AttentionGate gate, T *y) {
    const int i = (blockIdx.y * 256 + threadIdx.x) * 4;
    struct alignas(sizeof(T) * 4) Four {
        T v[4];
    };
    let_next_begin();
    kernels_before();
    if (i >= gate.width) return;
    const int64_t from = (int64_t)blockIdx.x * gate.stride;
    Four *to = (Four *)(y + (int64_t)blockIdx.x * gate.width + i), four = *to;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int at = (i + j) / gate.of_gate;
        const float x = product_at(gate.products, gate.type, from + at) + (gate.bias ? gate.bias[at] : 0);
        four.v[j] = from_float<T>(to_float(four.v[j]) / (1 + expf(-x)));
    }
    *to = four;
}

Status gate_apply(CudaBackend *cuda, void *y, Error *error) {
    const AttentionGate *gate = &cuda->step.gate;
    if (!gate->products) return STATUS_OK;
    const dim3 grid(cuda->step.n_tokens, (gate->width + 1023) / 1024);
    cudaError_t code;
    WITH_OPERAND(cuda, (code = launch_dependent(cuda, gate_kernel<T>, grid, 256, 0, *gate, (T *)y)));
    return cuda_check(code, error, "gates of [%d, %d]", cuda->step.n_tokens, gate->width);
}
