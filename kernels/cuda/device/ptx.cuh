// The machine's instructions by name: all inline PTX of the CUDA kernels stands here (PTX ISA 9.0; the section is named
// where it helps). What is said of registers and shared memory is the instruction's own layout.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_PTX_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_PTX_CUH

#include <cuda.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <type_traits>

// ---- registers ---------------------------------------------------------------------------------------------

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

// Bytes of a and b (0 … 7), selected by the lower four nibbles of `codes`; a nibble of 8 or more gives the sign of byte
// nibble - 8 in all bits: 0 or -1.
__device__ inline uint32_t bytes_or_sign(uint32_t a, uint32_t b, uint32_t codes) {
    uint32_t y;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(codes));
    return y;
}

// c + the sum of the products of four bytes: of a without sign, of b with it.
__device__ inline int dot_bytes(uint32_t a, uint32_t b, int c) {
    int d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// c + the sum of the products of two halves of a, with sign, and the lower two bytes of b, without.
__device__ inline int dot_halves(uint32_t a, uint32_t b, int c) {
    int d;
    asm("dp2a.lo.s32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// 2^x to 22 bits, 0 for -inf; 1/x to 23 bits. Both flush denormal numbers to 0.
#if __CUDA_ARCH__ >= 890
// The two e4m3 numbers of a pair of bytes, the lower one first (9.7.9.22, "cvt").
__device__ inline __half2 e4m3_halves(uint16_t pair) {
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
    return *(__half2 *)&halves;
}
#endif

__device__ inline float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ inline float reciprocal_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// A warpgroup takes registers from the block's pool until each thread has N, or gives back what is beyond N;
// "setmaxnreg". Needs sm_90a.
template <int N> __device__ inline void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ inline void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// ---- shared memory, by 32-bit addresses -----------------------------------------------------------------------

__device__ inline uint32_t shared_at(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

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

// ---- copies into shared memory that go on in the background ("cp.async") ------------------------------------

// Asks for BYTES from global memory, 4, 8 or 16, or for zeros if they are not there.
template <int BYTES> __device__ inline void copy_piece(uint32_t to, const void *from, bool there) {
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
// Waits until none of this thread's is under way, in a group or not.
__device__ inline void await_all_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
// 16 bytes past the L1, for which 256 come into the L2 at once.
__device__ inline void copy_streaming(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// ---- barriers of a block, by number (0 is that of __syncthreads) -------------------------------------------

// THREADS of the block meet at barrier ID, whole warps each.
template <int ID, int THREADS> __device__ inline void named_barrier_sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
// The same of a number that is known when it runs.
template <int THREADS> __device__ inline void named_barrier_sync(int id) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(THREADS) : "memory");
}
// Tells the others that this warp has come, without waiting for them.
template <int ID, int THREADS> __device__ inline void named_barrier_arrive() {
    asm volatile("bar.arrive %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

// A word that one thread writes while others read it: the old one or the new one.
__device__ inline void store_shared_relaxed(uint32_t to, uint32_t v) {
    asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}
__device__ inline uint32_t load_shared_relaxed(uint32_t from) {
    uint32_t v;
    asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
    return v;
}

// ---- barriers in shared memory that count arrivals and copied bytes ("mbarrier"), named by their addresses ----

// A fresh barrier is in the phase of parity 0: the one before, of parity 1, has passed.
__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
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

// Until it has passed; from Hopper on without asking again and again.
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
#else
    while (!barrier_passed(barrier, parity)) {
    }
#endif
}

__device__ inline void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives when all copies that this thread has asked for piece by piece ("cp.async") have come.
__device__ inline void barrier_arrive_behind_copies(uint32_t barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and has the barrier wait for so many bytes besides.
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// ---- warps -------------------------------------------------------------------------------------------------

// This warp among the block's, of which the compiler knows that it is the same in all lanes, which are all here: what
// follows from it is held, and branched on, once for the warp.
__device__ inline int warp_index() {
    return __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
}
// One of the warp's lanes, all of which are here; from Hopper on.
__device__ inline bool elected() {
    uint32_t mine;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(mine));
    return mine;
}

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
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// Arrives at the same barrier of the cluster's block `rank`. It releases nothing to that block: a fence of the whole
// device would cost more than the GEMMs that it follows.
__device__ inline void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

// ---- bulk copies into shared memory ("cp.async.bulk"); they need sm_90 ----------------------------------------

// `bytes` that lie one behind the other, 16 and a multiple of it, to aligned addresses; the barrier is told beforehand.
__device__ inline void copy_bulk(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

// What this thread has stored in shared memory, for wgmma and bulk copies to read.
__device__ inline void show_stores() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
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

// The same as copy_bulk(), treated so by the L2.
__device__ inline void copy_bulk(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier,
                                 uint64_t policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
}
// `bytes` that lie one behind the other, 16 and a multiple of it, into the L2.
__device__ inline void prefetch_bulk(const void *from, uint32_t bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// The map's tile whose first element is (col, row) to `to`; what lies beyond the matrix becomes 0 and counts.
__device__ inline void copy_tile(uint32_t to, const CUtensorMap *map, int col, int row, uint32_t barrier,
                                 uint64_t policy) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(col), "r"(row), "r"(barrier), "l"(policy)
                 : "memory");
}

// The same of the boxes that make_boxes_map() has side by side, from `row` of the `first` one on.
__device__ inline void copy_boxes(uint32_t to, const CUtensorMap *map, int row, int first, uint32_t barrier,
                                  uint64_t policy) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
                 "l"(map), "r"(0), "r"(row), "r"(first), "r"(barrier), "l"(policy)
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

// Into the L1.
__device__ inline void prefetch_near(const void *at) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(at));
}

// ---- global memory that other blocks read and write meanwhile ----------------------------------------------

// Relaxed: each access is whole, and seen by the whole device; nothing is said of other accesses.
__device__ inline void store_relaxed(uint32_t *to, uint32_t v) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
}
__device__ inline void store_relaxed(unsigned long long *to, unsigned long long v) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(v) : "memory");
}
// The same, seen by the host too.
__device__ inline void store_relaxed_to_host(unsigned long long *to, unsigned long long v) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(v) : "memory");
}
__device__ inline uint32_t load_relaxed(const uint32_t *from) {
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
    return v;
}
__device__ inline unsigned long long load_relaxed(const unsigned long long *from) {
    unsigned long long v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(from) : "memory");
    return v;
}
__device__ inline uint4 load_relaxed_4(const uint32_t *from) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}
__device__ inline void count_relaxed(unsigned *counter) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
// The same of four words, each of which is whole by itself.
__device__ inline void store_relaxed(uint4 *to, uint4 v) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}
// 16 bytes that nobody writes and nobody reads again soon: past the L1, 256 bytes at once into the L2.
__device__ inline uint4 load_streaming(const void *from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

// ---- mma, by a warp: of a matrix of 8×8 elements of 16 bits lane l = 4·g + t holds elements 2t, 2t + 1 of row g ----

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

// The same by pointers.
__device__ inline void load_matrices(uint32_t r[4], const void *at) {
    load_matrices(r, shared_at(at));
}
__device__ inline void load_matrices_transposed(uint32_t r[4], const void *at) {
    load_matrices_transposed(r, shared_at(at));
}

__device__ inline uint32_t transposed(uint32_t a) {
    uint32_t d;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

// c [16, 8] += a [16, 16] · b [16, 8]. a: rows 0–7 and 8–15 of columns 0–7, the same of columns 8–15; b: columns as the
// matrix's rows, 0–7 and 8–15 of the sum; c[0], c[1] in row g, c[2], c[3] in row g + 8, columns 2t and 2t + 1.
__device__ inline void mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// c [16, 8] += a [16, 16] · b [16, 8] as above, operands of type T.
template <class T> __device__ inline void mma_of(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    if (std::is_same<T, __half>::value)
        mma(c, a, b0, b1);
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
