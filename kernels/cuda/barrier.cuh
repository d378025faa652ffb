// Barriers in shared memory that count arrivals and copied bytes (PTX ISA, "mbarrier"), named by their addresses there.
#ifndef PALAVER_KERNELS_CUDA_BARRIER_CUH
#define PALAVER_KERNELS_CUDA_BARRIER_CUH

#include <stdint.h>

__device__ inline uint32_t shared_at(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

// A fresh barrier is in the phase of parity 0: the one before, of parity 1, has passed.
__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

__device__ inline bool barrier_passed(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    return done;
}

__device__ inline void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

#endif
