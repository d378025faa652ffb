// gemm/tile.cu: products of many rows on Hopper with what follows them, in one kernel: see gemm/tile_kernel.cuh.
//
// An element's sum is accumulated in the order of the columns, whatever the number of tokens, so that a row's result
// does not depend on what stands beside it.
#ifndef PALAVER_KERNELS_CUDA_GEMM_TILE_CUH
#define PALAVER_KERNELS_CUDA_GEMM_TILE_CUH

#include "kernels/cuda/heads.cuh"

// Whether the step's products are to be given to these functions: operands have 16 bits, what follows has code, and the tiles
// keep the device busy. Of prompts whose pieces are not to show all are, however few tokens they have.
bool tiles_suit_gates(const CudaBackend *cuda, const Layer *layer);
bool tiles_suit_heads(const CudaBackend *cuda, const Linear *w,
                      const HeadArguments &a); // of whole_heads_kernel()
bool tiles_suit_sums(const CudaBackend *cuda, const Product &product);

// g [n_tokens, intermediate_size] = activation(gate) · up of x · Wᵀ
Status product_of_gates(CudaBackend *cuda, const Layer *layer, const void *x, void *g, Error *error);
// q [n_tokens, n_heads·head_dim], and keys and values in their slots, of x · Wᵀ
Status product_of_heads(CudaBackend *cuda, const Linear *w, const void *x, const HeadArguments &a, void *q,
                        Error *error);

// y += x · Wᵀ, in float32
Status product_of_sums(CudaBackend *cuda, const Product &product, Error *error);

#endif
