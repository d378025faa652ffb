// Weights on their way from the mapped file to the device.
//
//   file → (threads copy) → pinned stages → (bus) → device, or a stage there → (repack_kernel) → device
//
// The stages are used in turn, each with a stream of its own, so that copying, the bus and repacking work at the same
// time. Nothing is kept: the stages go when loading ends.
#ifndef PALAVER_KERNELS_CUDA_WEIGHTS_UPLOAD_CUH
#define PALAVER_KERNELS_CUDA_WEIGHTS_UPLOAD_CUH

#include "kernels/cuda/backend.cuh"

// The stages, made for the first weight that is loaded and kept until cuda_end_upload().
Status upload_begin(CudaBackend *cuda, Error *error);

// The streams of the stages wait for what was asked of the backend before, and what is asked of it later for them.
Status upload_follow(CudaBackend *cuda, Error *error);
Status upload_precede(CudaBackend *cuda, Error *error);

// Rows of `m` become rows first, first + stride, … of w.
Status upload_rows(CudaBackend *cuda, const Matrix *m, const Weight *w, int64_t first, int stride,
                   Error *error);

// Writes n vectors of `sizes` elements (absent ones as zeros), one after the other, as float32 with `offset` added, times
// the list's scale.
struct VectorList {
    const Matrix *const *vectors;
    const int64_t *sizes;
    int n;
    float scale = 1;
};
Status upload_vectors(CudaBackend *cuda, const VectorList &list, float offset, float *target, Error *error);

// ---- weights.cu: a layer in memory of layer_bytes() ----------------------------------------------------------

size_t layer_bytes(const DecoderShape *shape, const LayerWeights *host);
Status layer_check(const CudaBackend *cuda, const LayerWeights *host, Error *error);
Status layer_load(CudaBackend *cuda, const LayerWeights *host, char *memory, Layer *layer, Error *error);

// Copies bytes of any host memory on their way with the others.
Status upload_bytes(CudaBackend *cuda, void *to, const void *from, size_t bytes, Error *error);

// uniform.cu: finds Weight.uniform of a layer, NULL: of all that were loaded, where inputs of FP8 are rounded.
void weights_find_uniform(CudaBackend *cuda, Layer *layer);
// gates.cu, likewise: rounded_rates of all layers.
void gates_round_rates(CudaBackend *cuda);

#endif
