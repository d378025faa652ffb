// stamp, stamp_seconds: events between ops, for profiles; kernels: which of them the last step took.
#include "kernels/cuda/backend.cuh"

#include <stdio.h>
#include <stdlib.h>

void cuda_free_stamps(CudaBackend *cuda) {
    for (int i = 0; cuda->stamps && i < OPS_MAX_STAMPS; i++)
        if (cuda->stamps[i]) cudaEventDestroy(cuda->stamps[i]);
    free(cuda->stamps);
    cuda->stamps = NULL;
}

Status cuda_stamp(Backend *backend, int i, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    if (i < 0 || i >= OPS_MAX_STAMPS) return error_set(error, STATUS_USAGE, "cuda: stamp %d", i);
    if (!cuda->stamps) cuda->stamps = (cudaEvent_t *)calloc(OPS_MAX_STAMPS, sizeof *cuda->stamps);
    if (!cuda->stamps) return error_set(error, STATUS_MEMORY, "cuda: no memory for a profile");
    cudaError_t code = cuda->stamps[i] ? cudaSuccess : cudaEventCreate(&cuda->stamps[i]);
    if (code == cudaSuccess) code = cudaEventRecord(cuda->stamps[i], cuda->device.stream);
    return cuda_check(code, error, "stamp %d", i);
}

Status cuda_stamp_seconds(Backend *backend, int n, double *seconds, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    if (n < 0 || n >= OPS_MAX_STAMPS || !cuda->stamps)
        return error_set(error, STATUS_USAGE, "cuda: %d stamps", n);
    cudaError_t code = cudaStreamSynchronize(cuda->device.stream);
    for (int i = 0; i < n && code == cudaSuccess; i++) {
        float milliseconds = 0;
        code = cudaEventElapsedTime(&milliseconds, cuda->stamps[i], cuda->stamps[i + 1]);
        seconds[i] = 1e-3 * milliseconds;
    }
    return cuda_check(code, error, "reading %d stamps", n);
}

void cuda_kernels(const Backend *backend, char *text, size_t size) {
    const CudaStep *step = &((const CudaBackend *)backend)->step;
    // Of a narrowed step what most layers took.
    const auto taken = [step](const char *Chosen::*op) {
        return step->before.*op ? step->before.*op : step->chosen.*op;
    };
    const struct {
        const char *op, *kernel;
    } all[] = {{"qkv", taken(&Chosen::qkv)},
               {"heads", taken(&Chosen::heads)},
               {"attend", taken(&Chosen::tiles)},
               {"attend", step->before.tiles ? step->before.few : step->chosen.few},
               {"out", taken(&Chosen::out)},
               {"gate_up", taken(&Chosen::gate_up)},
               {"down", taken(&Chosen::down)},
               {"logits", step->chosen.logits}};
    size_t used = 0;
    *text = 0;
    for (auto &a : all)
        if (a.kernel && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s %s", used ? ", " : "", a.op, a.kernel);
}
