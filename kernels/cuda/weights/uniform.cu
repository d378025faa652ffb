// Whether the scales of layers in E4M3 are of whole rows or of blocks of rows, which decides which tiles of FP8 by FP8
// multiply them: found on the device when all weights are there, once.
#include "kernels/cuda/weights/upload.cuh"

// Clears the bits of *found that a row does not bear out. Grid: [rows], block: 128.
__global__ void __launch_bounds__(128) uniform_kernel(Weight w, int *found) {
    const int row = blockIdx.x, full = chunk_elements(FORMAT_E4M3), first = row / 64 * 64 + row % 2;
    auto scale = [&](int r, int group) {
        const int chunk = group * 128 / full, n = min(full, w.cols - chunk * full);
        return *(const float *)(w.data + r * w.row_bytes + (int64_t)chunk * chunk_bytes(FORMAT_E4M3, full) +
                                n + group % (full / 128) * 4);
    };
    for (int g = threadIdx.x; g < (w.cols + 127) / 128; g += 128) {
        const float own = scale(row, g);
        if (own != scale(row, 0)) atomicAnd(found, ~WEIGHT_UNIFORM_ROWS);
        if (own != scale(first, g)) atomicAnd(found, ~WEIGHT_UNIFORM_BLOCKS);
    }
}

enum { LINEARS = 5 };

// Of one layer, by memory for its answers. False: the device failed, which leaves inputs in 16 bits.
static bool find_uniform(CudaBackend *cuda, Layer *l, int *found) {
    int host[LINEARS];
    Linear *all[LINEARS] = {&l->qkv, &l->out, &l->gate_up, &l->down, &l->attn_gate};
    cudaStream_t stream = cuda->device.stream;
    cudaMemsetAsync(found, 0xff, sizeof host, stream);
    for (int i = 0; i < LINEARS && !l->router; i++) {
        const Weight *w = &all[i]->part[0];
        if (w->format == FORMAT_E4M3 && all[i]->n_parts == 1)
            uniform_kernel<<<(unsigned)w->rows, 128, 0, stream>>>(*w, found + i);
    }
    if (cudaMemcpyAsync(host, found, sizeof host, cudaMemcpyDeviceToHost, stream) != cudaSuccess ||
        cudaStreamSynchronize(stream) != cudaSuccess)
        return false;
    for (int i = 0; i < LINEARS; i++) all[i]->part[0].uniform = host[i];
    return true;
}

void weights_find_uniform(CudaBackend *cuda, Layer *layer) {
    int *found;
    if (!cuda->shape->fp8_inputs || cudaMalloc(&found, LINEARS * sizeof *found) != cudaSuccess) return;
    if (layer) find_uniform(cuda, layer, found);
    for (Layer *l = layer ? NULL : cuda->layers; l; l = l->next)
        if (!find_uniform(cuda, l, found)) break;
    cudaFree(found);
}
