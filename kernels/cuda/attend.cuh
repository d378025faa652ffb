// What the kernels of attend share that work on tiles: 128 rows (tokens × the heads that share a KV head) against 64
// keys and more at a time.
#ifndef PALAVER_KERNELS_CUDA_ATTEND_CUH
#define PALAVER_KERNELS_CUDA_ATTEND_CUH

#include "kernels/cuda/cuda.cuh"

struct AttendArguments {
    KvLayer kv;
    const int32_t *positions, *slot_positions;
    const AttendTile *tiles;
    int n_heads, n_kv_heads, window;
    float scale; // attention_scale, times log2 e in the tile kernel
};

__device__ inline bool visible(int32_t slot, int32_t position, int window) {
    return slot >= 0 && slot <= position && (window <= 0 || position - slot < window);
}

enum { ROWS = 128, KEYS = 64 };

__device__ inline uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ inline void copy_16(void *shared, const void *global, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
                 "r"(there ? 16 : 0)
                 : "memory");
}

// 2^x, 0 for -inf.
__device__ inline float power(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline uint32_t pack_halves(float low, float high) {
    __half2 h = __floats2half2_rn(low, high);
    return *(uint32_t *)&h;
}

enum { TILE_HIDDEN, TILE_MASKED, TILE_SEEN };

// For every tile of 64 slots: whether no row sees any of it, some see some, or all see all. A warp a tile.
__device__ inline void classify_tiles(const AttendArguments &a, const AttendTile &tile, int lowest,
                                      int highest, uint8_t *kinds, int n) {
    int lane = threadIdx.x % 32;
    for (int t = threadIdx.x / 32; t < n; t += blockDim.x / 32) {
        bool any = false, all = true;
        for (int j = 0; j < 2; j++) {
            int i = t * KEYS + j * 32 + lane;
            int32_t p = i < tile.n_slots ? a.slot_positions[tile.first_slot + i] : -1;
            any |= p >= 0 && p <= highest && (a.window <= 0 || lowest - p < a.window);
            all &= p >= 0 && p <= lowest && (a.window <= 0 || highest - p < a.window);
        }
        any = __any_sync(~0u, any);
        all = __all_sync(~0u, all);
        if (lane == 0) kinds[t] = all ? TILE_SEEN : any ? TILE_MASKED : TILE_HIDDEN;
    }
}

// attend_wgmma.cu: for operands of 16 bits and a cache in f16 with aligned rows. cudaErrorNotSupported: not this device
// or head size, or too many slots.
cudaError_t attend_by_wgmma(const CudaBackend *cuda, const AttendArguments *a, const void *q, void *y);

#endif
