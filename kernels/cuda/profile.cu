// stamp, stamp_seconds: events between ops, for profiles.
#include "kernels/cuda/backend.cuh"

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
    if (code == cudaSuccess) code = cudaEventRecord(cuda->stamps[i], cuda->stream);
    return cuda_check(code, error, "stamp %d", i);
}

Status cuda_stamp_seconds(Backend *backend, int n, double *seconds, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    if (n < 0 || n >= OPS_MAX_STAMPS || !cuda->stamps)
        return error_set(error, STATUS_USAGE, "cuda: %d stamps", n);
    cudaError_t code = cudaStreamSynchronize(cuda->stream);
    for (int i = 0; i < n && code == cudaSuccess; i++) {
        float milliseconds = 0;
        code = cudaEventElapsedTime(&milliseconds, cuda->stamps[i], cuda->stamps[i + 1]);
        seconds[i] = 1e-3 * milliseconds;
    }
    return cuda_check(code, error, "reading %d stamps", n);
}
