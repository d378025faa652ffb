// Feed-forward parts with a gate, or without.
#ifndef PALAVER_KERNELS_CUDA_GATE_UP_CUH
#define PALAVER_KERNELS_CUDA_GATE_UP_CUH

#include "kernels/cuda/gemm/gemm.cuh"

// gemm->y = activation(gate)·up, gated, or activation(up), gemm->x being there: in the GEMM's own epilogue where it has
// one, else by a kernel behind it, through scratch.wide.
Status gate_up_gemm(CudaBackend *cuda, Gemm *gemm, bool gated, Error *error);

// experts/experts.cu: the two ops of a layer of experts.
MAY_LACK Status experts_gate_up(CudaBackend *cuda, const Layer *layer, const float *x, void *g, Error *error);
MAY_LACK Status experts_down(CudaBackend *cuda, const Layer *layer, const void *g, float *x, Error *error);

#endif
