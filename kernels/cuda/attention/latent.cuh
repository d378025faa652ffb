// Attention over a cache of latents: attention/latent.cu.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_LATENT_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_LATENT_CUH

#include "kernels/cuda/attention/attend.cuh"

enum { LATENT_ROW = ATTEND_LATENT_ROW };

// Of blocks of `tiles` times 16 rows of queries: keys of a stage, and bytes of shared memory.
constexpr int latent_keys(int tiles) {
    return tiles == 4 ? 32 : 64;
}
constexpr size_t latent_shared(int tiles) {
    return 2 * ((size_t)(16 * tiles + 2 * latent_keys(tiles)) * (LATENT_ROW + 8) +
                (size_t)(16 * tiles) * (latent_keys(tiles) + 8));
}

// Such tiles of a block, for so many rows: 1, 2 or 4; on cards of less shared memory always 4, which take least.
static inline int latent_tiles(const Card *card, int rows) {
    const int tiles = rows <= 16 ? 1 : rows <= 32 ? 2 : 4;
    return latent_shared(tiles) + ATTEND_LATENT_STATIC <= card->shared_limit ? tiles : 4;
}

// For what dispatch_attend() gives it; split: tiles of few tokens, in splits.
cudaError_t attend_latents(const CudaBackend *cuda, const AttendLaunch *launch, bool split);

#endif
