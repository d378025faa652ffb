// Hopper's matrix products of a warpgroup by name (PTX ISA, "wgmma"); they need sm_90a. The other instructions:
// ptx.cuh.
//
// 128 threads, operands in f16 or bf16, sums in float32. Operands in shared memory are tiles of rows of 128 bytes (64
// elements), aligned to 1,024, whose 16-byte pieces are swizzled: piece p of row r lies at p ^ r % 8. Wider matrices
// are several such tiles.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_PTX_WGMMA_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_PTX_WGMMA_CUH

#include <cuda_fp16.h>
#include <stdint.h>
#include <type_traits>

// Of a kernel's blocks; before sm_90 there are no clusters.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define IN_CLUSTERS_OF(n) __cluster_dims__(n, 1, 1)
#else
#define IN_CLUSTERS_OF(n)
#endif

// Byte of element 8·piece of a row within its tile.
__device__ inline int swizzled(int row, int piece) {
    return row * 128 + ((piece ^ (row & 7)) << 4);
}

// What wgmma is told about an operand: where it begins, bytes from 8 rows to the next 8 (1,024 for rows that follow
// each other) and, where the rows run along the sum of the wgmma, bytes from a tile to the next.
__device__ inline uint64_t matrix_at(uint32_t shared, int next_tile) {
    return (uint64_t)(shared >> 4 & 0x3fff) | (uint64_t)(next_tile >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

// The operand that begins so many times 16 bytes further on.
__device__ inline uint64_t matrix_beyond(uint64_t matrix, int units) {
    return (matrix & ~(uint64_t)UINT32_MAX) |
           (uint32_t)((uint32_t)matrix + units); // no carry, no second register
}

// Before the first wgmma, and after registers of its operands or sums were written.
__device__ inline void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most one group is under way, the last that was committed; its sums are not read before another wait.
__device__ inline void wgmma_wait_older() {
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
// Until at most N of the groups committed are under way; `sums`, of one that is done, are not read before.
template <int N, int COLUMNS> __device__ inline void wgmma_wait(float (&sums)[COLUMNS][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        asm volatile("" : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])::"memory");
}

#define WGMMA_SUMS_8(c, i)                                                                                   \
    "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3]), "+f"(c[i + 1][0]), "+f"(c[i + 1][1]),        \
        "+f"(c[i + 1][2]), "+f"(c[i + 1][3])
#define WGMMA_SUMS_32(c, i)                                                                                  \
    WGMMA_SUMS_8(c, i), WGMMA_SUMS_8(c, i + 2), WGMMA_SUMS_8(c, i + 4), WGMMA_SUMS_8(c, i + 6)
#define WGMMA_32                                                                                             \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"     \
    "%27,%28,%29,%30,%31"
#define WGMMA_64                                                                                             \
    WGMMA_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,"     \
             "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define WGMMA_96                                                                                             \
    WGMMA_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86," \
             "%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define WGMMA_128                                                                                            \
    WGMMA_96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,"  \
             "%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// c [64, 8·N] = (add ? c : 0) + a [64, 16] · bᵀ, b [8·N, 16], both of T in shared memory, their rows along the sum. The
// fragment: lane l of warp w holds of rows 16w + l/4 (c[·][0], c[·][1]) and 8 further (2, 3) columns 8i + l%4·2 and the
// next. width: 8·N; sums: their operands, behind which a, b and `add` are numbered; then the operands themselves.
#define WGMMA_PRODUCT(width, sums, a_at, b_at, add_at, ...)                                                  \
    if (std::is_same<T, __half>::value)                                                                      \
        WGMMA_PRODUCT_OF("f16", width, sums, a_at, b_at, add_at, __VA_ARGS__);                               \
    else                                                                                                     \
        WGMMA_PRODUCT_OF("bf16", width, sums, a_at, b_at, add_at, __VA_ARGS__)
#define WGMMA_PRODUCT_OF(type, width, sums, a_at, b_at, add_at, ...)                                         \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " add_at ", 0;\n"                                         \
                 "wgmma.mma_async.sync.aligned.m64n" width "k16.f32." type "." type " {" sums "}, " a_at     \
                 ", " b_at ", p, 1, 1, 0, 0;\n}"                                                             \
                 : __VA_ARGS__                                                                               \
                 : "l"(a), "l"(b), "r"((int)add))
template <class T> __device__ inline void wgmma_of(float (&c)[8][4], uint64_t a, uint64_t b, bool add) {
    WGMMA_PRODUCT("64", WGMMA_32, "%32", "%33", "%34", WGMMA_SUMS_32(c, 0));
}
template <class T> __device__ inline void wgmma_of(float (&c)[16][4], uint64_t a, uint64_t b, bool add) {
    WGMMA_PRODUCT("128", WGMMA_64, "%64", "%65", "%66", WGMMA_SUMS_32(c, 0), WGMMA_SUMS_32(c, 8));
}
template <class T> __device__ inline void wgmma_of(float (&c)[24][4], uint64_t a, uint64_t b, bool add) {
    WGMMA_PRODUCT("192", WGMMA_96, "%96", "%97", "%98", WGMMA_SUMS_32(c, 0), WGMMA_SUMS_32(c, 8),
                  WGMMA_SUMS_32(c, 16));
}
template <class T> __device__ inline void wgmma_of(float (&c)[32][4], uint64_t a, uint64_t b, bool add) {
    WGMMA_PRODUCT("256", WGMMA_128, "%128", "%129", "%130", WGMMA_SUMS_32(c, 0), WGMMA_SUMS_32(c, 8),
                  WGMMA_SUMS_32(c, 16), WGMMA_SUMS_32(c, 24));
}
#undef WGMMA_PRODUCT
#undef WGMMA_PRODUCT_OF

// c [64, 8·N] += a [64, 16] · b [16, 8·N]: a as a fragment of halves in registers, b's rows across the sum.
__device__ inline void wgmma_values(float (&c)[32][4], const uint32_t a[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" WGMMA_128
                 "}, {%128,%129,%130,%131}, %132, 1, 1, 1, 1;"
                 : WGMMA_SUMS_32(c, 0), WGMMA_SUMS_32(c, 8), WGMMA_SUMS_32(c, 16), WGMMA_SUMS_32(c, 24)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma_values(float (&c)[16][4], const uint32_t a[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" WGMMA_64
                 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
                 : WGMMA_SUMS_32(c, 0), WGMMA_SUMS_32(c, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma_values(float (&c)[8][4], const uint32_t a[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" WGMMA_32
                 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : WGMMA_SUMS_32(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// c [64, 8·N] += a [64, 16] · bᵀ, b [8·N, 16], both of T in shared memory, their rows along the sum.
#define WGMMA_ADD_OF(n, type, names, a_name, b_name, ...)                                                    \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" names "}, %" a_name     \
                 ", %" b_name ", 1, 1, 1, 0, 0;"                                                             \
                 : __VA_ARGS__                                                                               \
                 : "l"(a), "l"(b))
#define WGMMA_ADD(n, names, a_name, b_name, ...)                                                             \
    if (std::is_same<T, __half>::value)                                                                      \
        WGMMA_ADD_OF(n, "f16", names, a_name, b_name, __VA_ARGS__);                                          \
    else                                                                                                     \
        WGMMA_ADD_OF(n, "bf16", names, a_name, b_name, __VA_ARGS__)

template <class T> __device__ inline void wgmma_add(float (&c)[1][4], uint64_t a, uint64_t b) {
    WGMMA_ADD("8", "%0,%1,%2,%3", "4", "5", "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]));
}
template <class T> __device__ inline void wgmma_add(float (&c)[2][4], uint64_t a, uint64_t b) {
    WGMMA_ADD("16", "%0,%1,%2,%3,%4,%5,%6,%7", "8", "9", WGMMA_SUMS_8(c, 0));
}
template <class T> __device__ inline void wgmma_add(float (&c)[4][4], uint64_t a, uint64_t b) {
    WGMMA_ADD("32", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15", "16", "17", WGMMA_SUMS_8(c, 0),
              WGMMA_SUMS_8(c, 2));
}
template <class T> __device__ inline void wgmma_add(float (&c)[6][4], uint64_t a, uint64_t b) {
    WGMMA_ADD("48", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23",
              "24", "25", WGMMA_SUMS_8(c, 0), WGMMA_SUMS_8(c, 2), WGMMA_SUMS_8(c, 4));
}
template <class T> __device__ inline void wgmma_add(float (&c)[8][4], uint64_t a, uint64_t b) {
    WGMMA_ADD("64", WGMMA_32, "32", "33", WGMMA_SUMS_32(c, 0));
}
#undef WGMMA_ADD
#undef WGMMA_ADD_OF

// The same, a as a fragment of halves in registers, which stay as they are until the product is done.
#define WGMMA_ADD_VALUES(n, names, a0, a1, a2, a3, b_name, ...)                                              \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32.f16.f16 {" names "}, {%" a0 ",%" a1 ",%" a2  \
                 ",%" a3 "}, %" b_name ", 1, 1, 1, 0;"                                                       \
                 : __VA_ARGS__                                                                               \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
__device__ inline void wgmma_add_values(float (&c)[1][4], const uint32_t a[4], uint64_t b) {
    WGMMA_ADD_VALUES("8", "%0,%1,%2,%3", "4", "5", "6", "7", "8", "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]),
                     "+f"(c[0][3]));
}
__device__ inline void wgmma_add_values(float (&c)[2][4], const uint32_t a[4], uint64_t b) {
    WGMMA_ADD_VALUES("16", "%0,%1,%2,%3,%4,%5,%6,%7", "8", "9", "10", "11", "12", WGMMA_SUMS_8(c, 0));
}
__device__ inline void wgmma_add_values(float (&c)[4][4], const uint32_t a[4], uint64_t b) {
    WGMMA_ADD_VALUES("32", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15", "16", "17", "18", "19",
                     "20", WGMMA_SUMS_8(c, 0), WGMMA_SUMS_8(c, 2));
}
__device__ inline void wgmma_add_values(float (&c)[6][4], const uint32_t a[4], uint64_t b) {
    WGMMA_ADD_VALUES(
        "48", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23", "24",
        "25", "26", "27", "28", WGMMA_SUMS_8(c, 0), WGMMA_SUMS_8(c, 2), WGMMA_SUMS_8(c, 4));
}
__device__ inline void wgmma_add_values(float (&c)[8][4], const uint32_t a[4], uint64_t b) {
    WGMMA_ADD_VALUES("64", WGMMA_32, "32", "33", "34", "35", "36", WGMMA_SUMS_32(c, 0));
}
__device__ inline void wgmma_add_values(float (&c)[16][4], const uint32_t a[4], uint64_t b) {
    WGMMA_ADD_VALUES("128", WGMMA_64, "64", "65", "66", "67", "68", WGMMA_SUMS_32(c, 0), WGMMA_SUMS_32(c, 8));
}
__device__ inline void wgmma_add_values(float (&c)[32][4], const uint32_t a[4], uint64_t b) {
    WGMMA_ADD_VALUES("256", WGMMA_128, "128", "129", "130", "131", "132", WGMMA_SUMS_32(c, 0),
                     WGMMA_SUMS_32(c, 8), WGMMA_SUMS_32(c, 16), WGMMA_SUMS_32(c, 24));
}
#undef WGMMA_ADD_VALUES

#endif
