// Hopper's copies of tiles into shared memory (PTX ISA, "cp.async.bulk.tensor"), clusters of two blocks, and kernels that
// begin while the one before them ends ("griddepcontrol"). Needs sm_90, but for the latter, which do nothing elsewhere.
#ifndef PALAVER_KERNELS_CUDA_TMA_CUH
#define PALAVER_KERNELS_CUDA_TMA_CUH

#include "kernels/cuda/barrier.cuh"

#include <cuda.h>

// ---- clusters ----------------------------------------------------------------------------------------------

__device__ inline uint32_t cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of the cluster meet. Barriers made and shown before are there; of other writes nothing is said.
__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

// Fresh barriers, for the copies and the blocks of the cluster.
__device__ inline void show_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives at the same barrier of the cluster's block `rank`. It releases nothing to that block: a fence of the whole device
// would cost more than the products that it follows.
__device__ inline void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

// ---- copies ------------------------------------------------------------------------------------------------

// Arrives, and has the barrier wait for so many bytes besides.
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// How the L2 is to treat what is copied.
__device__ inline uint64_t read_once() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
__device__ inline uint64_t read_often() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// The map's tile whose first element is (col, row) to `to`; what lies beyond the matrix becomes 0 and counts.
__device__ inline void copy_tile(uint32_t to, const CUtensorMap *map, int col, int row, uint32_t barrier,
                                 uint64_t policy) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(col), "r"(row), "r"(barrier), "l"(policy)
                 : "memory");
}

// The same of five dimensions, from (col, 0, 0, 0, last) on.
__device__ inline void copy_tile_of_five(uint32_t to, const CUtensorMap *map, int col, int last,
                                         uint32_t barrier, uint64_t policy) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3, %3, %3, %4}], [%5], %6;" ::"r"(to),
                 "l"(map), "r"(col), "r"(0), "r"(last), "r"(barrier), "l"(policy)
                 : "memory");
}

// The same as copy_tile() into all blocks that `mask` names, with each one's own barrier.
__device__ inline void copy_tile_to(uint16_t mask, uint32_t to, const CUtensorMap *map, int col, int row,
                                    uint32_t barrier, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(to),
        "l"(map), "r"(col), "r"(row), "r"(barrier), "h"(mask), "l"(policy)
        : "memory");
}

// ---- kernels that overlap ----------------------------------------------------------------------------------

// What the kernels before have written is there. Where a kernel was not launched to overlap: at once.
__device__ inline void kernels_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel may begin, where it was launched to; it still waits for this one's end in kernels_before().
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
