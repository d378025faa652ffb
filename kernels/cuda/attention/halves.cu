// attend, for prompts of one sequence whose cache is not f16: its keys and values become float16 beside each other, in
// the scratch of expanded weights, for the kernel by wgmma. What that costs grows with the cache, not with the prompt,
// whose tiles would each convert everything they look at.
#include "kernels/cuda/attention/tile.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"

enum { HALVES_THREADS = 256, HALVES_EACH = 4 };

// What the cache becomes: one page, index i in slot i.
struct Halves {
    __half *k, *v;      // [n_kv_heads, n_slots, head_dim]
    int32_t *positions; // [n_slots]
    int32_t *page;      // [1] slot 0
};

// Eight elements a thread, HALVES_EACH times. Grid: [n_slots·head_dim / 8 / threads / HALVES_EACH, n_kv_heads, keys or
// values].
__global__ void __launch_bounds__(HALVES_THREADS)
    halves_kernel(const __grid_constant__ AttendArguments a, int n_slots, Halves to) {
    int log_octets = a.head_dim == 128 ? 4 : 3, kv_head = blockIdx.y; // 128 or 64: dispatch_attend()
    bool is_key = blockIdx.z == 0;
    __half *target = (is_key ? to.k : to.v) + (int64_t)kv_head * n_slots * a.head_dim;
    let_next_begin();
    kernels_before();
#pragma unroll
    for (int e = 0; e < HALVES_EACH; e++) {
        int i = (blockIdx.x * HALVES_EACH + e) * HALVES_THREADS + threadIdx.x, index = i >> log_octets;
        if (index >= n_slots) continue;
        int64_t slot = slot_of(a.pages, 0, index),
                from = slot * a.kv.slot_stride + kv_head * a.kv.head_stride;
        *(uint4 *)(target + (int64_t)i * 8) = halves_at(a.kv, is_key, from + (i - (index << log_octets)) * 8);
        if (kv_head == 0 && is_key && i == index << log_octets)
            to.positions[index] = position_at(a.slot_positions, slot, index);
        if (kv_head == 0 && is_key && i == 0) *to.page = 0;
    }
}

static size_t halves_elements(const AttendLaunch *l) {
    return (size_t)l->most_slots * (size_t)l->a.n_kv_heads * (size_t)l->a.head_dim;
}

size_t halves_bytes(const AttendLaunch *l) {
    return 4 * halves_elements(l) + ((size_t)l->most_slots + 4) * sizeof(int32_t);
}

cudaError_t attend_as_halves(CudaBackend *cuda, const AttendLaunch *launch) {
    AttendLaunch l = *launch;
    const AttendArguments a = launch->a;
    size_t n = (size_t)l.most_slots, elements = halves_elements(launch);
    Halves to;
    to.k = (__half *)cuda->scratch.weights, to.v = to.k + elements;
    to.page = (int32_t *)(to.v + elements), to.positions = to.page + 4;
    l.a.kv = KvLayer{};
    l.a.kv.type = DTYPE_F16;
    l.a.kv.k = to.k, l.a.kv.v = to.v;
    l.a.kv.sink_scores = a.kv.sink_scores;
    l.a.kv.slot_stride = a.head_dim, l.a.kv.head_stride = (int64_t)n * a.head_dim;
    l.a.slot_positions = to.positions;
    l.a.pages = Pages{to.page, 1u << 31, 31};
    dim3 grid((unsigned)((n * (size_t)a.head_dim / 8 + HALVES_THREADS * HALVES_EACH - 1) /
                         (HALVES_THREADS * HALVES_EACH)),
              (unsigned)a.n_kv_heads, 2);
    cudaError_t code = launch_dependent(cuda, halves_kernel, grid, HALVES_THREADS, 0, a, l.most_slots, to);
    return code == cudaSuccess ? attend_by_wgmma(cuda, &l) : code;
}
