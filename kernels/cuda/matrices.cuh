// Instructions by name: shared memory by 32-bit addresses, and a warp's on matrices of 8×8 float16, where lane l = 4·g + t
// holds elements 2t and 2t + 1 of row g.
#ifndef PALAVER_KERNELS_CUDA_MATRICES_CUH
#define PALAVER_KERNELS_CUDA_MATRICES_CUH

#include <cstdint>

// N words, a power of two, out of shared memory.
template <int N> __device__ inline void load_words(uint32_t from, uint32_t w[N]) {
    if constexpr (N == 1) {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w[0]) : "r"(from) : "memory");
    } else if constexpr (N == 2) {
        asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(from) : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 4)
            asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(w[i]), "=r"(w[i + 1]), "=r"(w[i + 2]), "=r"(w[i + 3])
                         : "r"(from + 4 * i)
                         : "memory");
    }
}

// Asks for BYTES from global memory, 4, 8 or 16, or for zeros if they are not there.
template <int BYTES> __device__ inline void copy_piece(uint32_t to, const char *from, bool there) {
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
                     "r"(there ? BYTES : 0)
                     : "memory");
}
// Ends a group of copies; waits until at most N groups are under way.
__device__ inline void end_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> __device__ inline void await_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// The value itself, of which the compiler knows nothing: it is kept in registers, not computed again.
__device__ inline uint32_t kept(uint32_t x) {
    asm volatile("" : "+r"(x));
    return x;
}
__device__ inline const char *kept(const char *x) {
    asm volatile("" : "+l"(x));
    return x;
}

// (x & mask) ^ flip in one instruction.
__device__ inline uint32_t masked(uint32_t x, uint32_t mask, uint32_t flip) {
    uint32_t y;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(y) : "r"(x), "r"(mask), "r"(flip));
    return y;
}

// Four matrices out of shared memory; lane l gives the address of row l % 8 of matrix l / 8, 16 bytes.
__device__ inline void load_matrices(uint32_t r[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

// The same, of the transposed: lane l holds elements g of rows 2t and 2t + 1.
__device__ inline void load_matrices_transposed(uint32_t r[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

__device__ inline uint32_t transposed(uint32_t a) {
    uint32_t d;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

// c [16, 8] += a [16, 16] · b [16, 8]. a: rows 0–7 and 8–15 of columns 0–7, the same of columns 8–15; b: columns as the
// matrix's rows, 0–7 and 8–15 of the sum; c[0], c[1] in row g, c[2], c[3] in row g + 8, columns 2t and 2t + 1.
__device__ inline void multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
