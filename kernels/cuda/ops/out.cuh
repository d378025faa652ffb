// Linear layers whose results are added to the residual stream.
#ifndef PALAVER_KERNELS_CUDA_OUT_CUH
#define PALAVER_KERNELS_CUDA_OUT_CUH

#include "kernels/cuda/gemm/gemm.cuh"

// gemm->y [n_tokens, hidden_size] float32 += norm(W·y + bias), y of the operand type; without weights of a norm W·y +
// bias. With them scratch.normed is written.
Status out_add(CudaBackend *cuda, Gemm *gemm, const float *bias, Norm norm, const void *y, Error *error);

// A norm behind a part; of a share of the part none, for all are normed once they are added up.
Norm out_norm_behind(const CudaBackend *cuda, Norm norm);

// n float32 zeros, a multiple of 4.
Status out_clear(const CudaBackend *cuda, int64_t n, float *x, Error *error);

// ---- token_rows.cu: per-layer embeddings (ops.h, DecoderShape.token_size), and the ends of layers ---------------

// The step's rows for all layers, of its ids and of what embed() has made of them.
Status token_rows_make(CudaBackend *cuda, const Head *head, const float *x, Error *error);
// What a layer's rows add to x; then all of x times layer->x_scale.
Status token_rows_end_layer(CudaBackend *cuda, const Layer *layer, float *x, Error *error);

#endif
