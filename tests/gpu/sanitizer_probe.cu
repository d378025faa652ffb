// What compute-sanitizer takes for a fault though it is sound, each beside the form that it understands: the reason for
// the checked build (CHECKED in kernels/cuda/backend.cuh). Run as
//
//   compute-sanitizer --tool racecheck build/sanitizer-probe KERNEL     compute-sanitizer --tool initcheck … product
//
// Version 2025.3.1 reports hazards for tell, one_arrives, lanes_at_once and product; none for wait, all_arrive,
// lanes_in_turn and product_on_nan.
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 16, STAGES = 2 };

__device__ uint32_t address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ void barrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ bool barrier_passed(uint32_t barrier, int parity) {
    uint32_t passed;
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(passed)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return passed;
}

__device__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// One warp writes, the other reads; who only tells that it is there (bar.arrive) goes on at once.
template <bool TELL> __global__ void exchange_kernel(float *out) {
    __shared__ float values[32];
    int lane = threadIdx.x % 32;
    for (int i = 0; i < ROUNDS; i++) {
        if (threadIdx.x < 32) {
            values[lane] = lane + i;
            if (TELL)
                asm volatile("bar.arrive 2, 64;" ::: "memory");
            else
                asm volatile("bar.sync 2, 64;" ::: "memory");
            asm volatile("bar.sync 3, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 2, 64;" ::: "memory");
            out[lane] += values[(lane + 7) % 32];
            if (TELL)
                asm volatile("bar.arrive 3, 64;" ::: "memory");
            else
                asm volatile("bar.sync 3, 64;" ::: "memory");
        }
    }
}

// Lanes 0 and 1 of the first warp each fill a ring by bulk copies, at once or in turn; a warp each reads it. That a
// stage has been read is told by every lane, or by one of them after __syncwarp().
template <bool IN_TURN, bool ALL> __global__ void ring_kernel(const float *in, float *out) {
    __shared__ alignas(128) float rings[2][STAGES][32];
    __shared__ alignas(8) unsigned long long barriers[2][2][STAGES]; // of each ring: full, empty
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, ring = (warp ? warp - 1 : lane) % 2;
    uint32_t full = address(barriers[ring][0]), empty = address(barriers[ring][1]);
    if (threadIdx.x < 2)
        for (int s = 0; s < STAGES; s++)
            barrier_init(full + 8 * s, 1), barrier_init(empty + 8 * s, ALL ? 32 : 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    for (int i = 0; warp == 0;) {
        bool more = lane < 2 && i < ROUNDS;
        for (int turn = 0; turn < (IN_TURN ? 2 : 1); turn++) {
            if (IN_TURN && lane != turn) continue;
            int s = i % STAGES;
            if (!more || !barrier_passed(empty + 8 * s, (i / STAGES & 1) ^ 1)) continue;
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" ::"r"(full + 8 * s) : "memory");
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" ::
                    "r"(address(rings[ring][s])),
                "l"(in + i * 32), "r"(full + 8 * s)
                : "memory");
            i++;
        }
        if (!__any_sync(~0u, more)) return;
    }
    float sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int s = i % STAGES;
        while (!barrier_passed(full + 8 * s, i / STAGES & 1)) continue;
        sum += rings[ring][s][lane];
        __syncwarp();
        if (ALL || lane == 0) barrier_arrive(empty + 8 * s);
    }
    out[threadIdx.x] = sum;
}

__global__ void read_kernel(const __nv_bfloat16 *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __bfloat162float(y[i]);
}

// A product of cuBLASLt into memory that nobody wrote before, or that holds NaN, and a kernel that reads it.
static void product(bool on_nan) {
    const int n = 128, rows = 256, cols = 512;
    const size_t room = 64 << 20;
    __nv_bfloat16 *x, *w, *y;
    float *out, one = 1, zero = 0, last = 0;
    void *workspace;
    cudaMalloc(&x, n * cols * 2), cudaMalloc(&w, rows * cols * 2), cudaMalloc(&y, n * rows * 2);
    cudaMalloc(&out, n * rows * 4), cudaMalloc(&workspace, room);
    cudaMemset(x, 0x3c, n * cols * 2), cudaMemset(w, 0x3c, rows * cols * 2);
    if (on_nan) cudaMemset(y, 0xff, n * rows * 2);
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t of_w, of_x, of_y;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    cublasOperation_t transpose = CUBLAS_OP_T;
    int n_found = 0;
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose);
    cublasLtMatrixLayoutCreate(&of_w, CUDA_R_16BF, cols, rows, cols);
    cublasLtMatrixLayoutCreate(&of_x, CUDA_R_16BF, cols, n, cols);
    cublasLtMatrixLayoutCreate(&of_y, CUDA_R_16BF, rows, n, rows);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
                                         sizeof room);
    cublasLtMatmulAlgoGetHeuristic(handle, operation, of_w, of_x, of_y, of_y, preference, 1, &found,
                                   &n_found);
    cublasLtMatmul(handle, operation, &one, w, of_w, x, of_x, &zero, y, of_y, y, of_y, &found.algo, workspace,
                   room, 0);
    read_kernel<<<(n * rows + 255) / 256, 256>>>(y, out, n * rows);
    cudaMemcpy(&last, out + n * rows - 1, sizeof last, cudaMemcpyDeviceToHost);
    printf("the last of the product: %g\n", last);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    float *in, *out;
    cudaMalloc(&in, 1 << 16), cudaMalloc(&out, 1 << 16);
    cudaMemset(in, 0, 1 << 16), cudaMemset(out, 0, 1 << 16);
    if (!strcmp(what, "tell")) exchange_kernel<true><<<1, 64>>>(out);
    if (!strcmp(what, "wait")) exchange_kernel<false><<<1, 64>>>(out);
    if (!strcmp(what, "one_arrives")) ring_kernel<true, false><<<1, 96>>>(in, out);
    if (!strcmp(what, "all_arrive") || !strcmp(what, "lanes_in_turn"))
        ring_kernel<true, true><<<1, 96>>>(in, out);
    if (!strcmp(what, "lanes_at_once")) ring_kernel<false, true><<<1, 96>>>(in, out);
    if (!strcmp(what, "product")) product(false);
    if (!strcmp(what, "product_on_nan")) product(true);
    printf("%s: %s\n", what, cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
