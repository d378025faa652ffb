// Layers that lie on the host and come for a prompt: one at a time, by the stages of upload.cu, into room of their own.
//
//   the card    … ops of layer i ……………………|…… ops of layer i+1 …
//   the bus                               | layer i+1 |
//   the host        … layer i+1 into pinned stages …
//
// The host fills stages while the card is still at the layer before; they cross once it is done with the room.
#include "kernels/cuda/weights/upload.cuh"

#include <stdlib.h>
#include <string.h>

struct Visit {
    char *memory;
    size_t bytes;
    Layer layer; // that is there
};

void visit_close(Visit *visit) {
    if (!visit) return;
    if (visit->memory) cudaFree(visit->memory);
    free(visit);
}

static int64_t visit_room(const Backend *backend, const LayerWeights *layers, int n) {
    size_t most = 0;
    for (int l = 0; l < n; l++) {
        const size_t bytes = layer_bytes(((const CudaBackend *)backend)->shape, &layers[l]);
        if (bytes > most) most = bytes;
    }
    return (int64_t)most;
}

static Status visit_open(Backend *backend, const LayerWeights *layers, int n, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Status status = STATUS_OK;
    for (int l = 0; l < n && !status; l++) status = layer_check(cuda, &layers[l], error);
    if (status || cuda->visit) return status;
    Visit *visit = (Visit *)calloc(1, sizeof *visit);
    if (!visit) return error_set(error, STATUS_MEMORY, "no memory for layers that visit");
    visit->bytes = (size_t)visit_room(backend, layers, n);
    status = cuda_check(device_allocate(&cuda->device, &visit->memory, visit->bytes), error,
                        "%zu bytes for layers that visit", visit->bytes);
    if (status)
        visit_close(visit);
    else
        cuda->visit = visit;
    return status;
}

static Status visit_load(Backend *backend, const LayerWeights *host, Layer **layer, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Visit *visit = cuda->visit;
    *layer = NULL;
    if (!visit || layer_bytes(cuda->shape, host) > visit->bytes)
        return error_set(error, STATUS_USAGE, "a layer visits for which there is no room");
    Status status = upload_begin(cuda, error);
    if (!status) status = upload_follow(cuda, error);
    const bool made_up = cuda->random_weights;
    cuda->random_weights = false; // the host has made up its own
    visit->layer = Layer{};
    if (!status) status = layer_load(cuda, host, visit->memory, &visit->layer, error);
    cuda->random_weights = made_up;
    if (!status) status = upload_precede(cuda, error);
    if (status) return status;
    weights_find_uniform(cuda, &visit->layer);
    *layer = &visit->layer;
    return STATUS_OK;
}

static Status visit_copy(Backend *backend, const HostRows *r, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const void *from = r->to_host ? r->memory : r->host;
    void *to = r->to_host ? r->host : r->memory;
    return cuda_check(cudaMemcpy2DAsync(to, r->pitch, from, r->pitch, r->width, r->n,
                                        r->to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                                        cuda->device.stream),
                      error, "copying %zu rows of %zu bytes", r->n, r->width);
}

static Status visit_alloc_host(Backend *backend, size_t bytes, void **memory, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    *memory = NULL;
    cudaSetDevice(cuda->device.index);
    cudaError_t code = cudaMallocHost(memory, bytes ? bytes : 1);
    if (code == cudaSuccess) {
        memset(*memory, 0, bytes);
        return STATUS_OK;
    }
    cudaGetLastError();
    return error_set(error, STATUS_MEMORY, "cuda: no %zu MB of pinned memory", bytes >> 20);
}

static void visit_free_host(Backend *, void *memory) {
    cudaFreeHost(memory);
}

const VisitOps CUDA_VISITS = {
    .room = visit_room,
    .open = visit_open,
    .load = visit_load,
    .copy = visit_copy,
    .alloc_host = visit_alloc_host,
    .free_host = visit_free_host,
};
