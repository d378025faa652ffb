// Sums through NCCL, where cards do not reach each other's memory and it is there (nccl_library.h).
//
// Its kernels wait for each other for ever. So each sum tells the host that it has begun and that it is done, and a
// thread looks: if one is under way for longer than cards wait for each other elsewhere, or NCCL says that it failed, the
// thread breaks all of them off, and what follows a sum that was broken off ends the card's work, as a lost card does.
#ifndef PALAVER_KERNELS_CUDA_PEERS_NCCL_CUH
#define PALAVER_KERNELS_CUDA_PEERS_NCCL_CUH

#include "kernels/cuda/backend.cuh"

struct PeersNccl; // of all cards

// Connects them. STATUS_UNSUPPORTED: there is none, and a few words that stand in brackets say why; any other: likewise.
Status nccl_open(Backend *const *ranks, int n, PeersNccl **nccl, Error *error);
void nccl_close(PeersNccl *nccl);        // NULL is fine
int nccl_version(const PeersNccl *nccl); // 22803: 2.28.3

// x += the sum of all ranks' parts [n], the same to the bit on each; part = zeros. n is a multiple of 4. Of one rank, by
// its thread, in its stream, which is not captured. STATUS_FATAL: the others wait, and end.
struct NcclSum {
    int rank;
    float *part, *x;
    int64_t n;
};
Status nccl_sum(PeersNccl *nccl, const CudaBackend *cuda, const NcclSum *sum, Error *error);

#endif
