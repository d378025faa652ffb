// The chunks of a prompt one after the other, by wgmma: see delta_chunks.cuh.
//
//   a block               64 columns of a head's S: a warpgroup that computes, a warp 16 of them; two warps bring the next chunks
//
//   Sᵀk | Sᵀq (wgmma) → R → δ = T·R ┬→ S ← Γ·S + … (wgmma)
//                                   └→ y = Γ·Sᵀq + …, meanwhile
//
// Sᵀ lies in the warps' registers, as what wgmma adds to and, rounded, as what it multiplies.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx_wgmma_tf32.cuh"
#include "kernels/cuda/recurring/delta_chunks.cuh"

enum { GROUP_COLUMNS = 64, GROUP_THREADS = 128 };

template <int KEY_DIM> struct GroupShared { ChunkTokens<KEY_DIM, GROUP_COLUMNS, true> tokens[3]; };

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int KEY_DIM> struct GroupState {
    typedef ChunkTokens<KEY_DIM, GROUP_COLUMNS, true> Tokens;
    enum { TILES = KEY_DIM / 8, OWN = TILES, TILE_BYTES = CHUNK_TILE * 4, TILE_UNITS = TILE_BYTES / 16 };
    float s[OWN][4]; // rows 8m + 2t and 8m + 2t + 1 of S, columns g and g + 8 of the warp's

    __device__ static int64_t place(int m, int i, int stride) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        return (int64_t)(8 * m + 2 * t + i % 2) * stride + g + i / 2 * 8;
    }

    // Goes on by a chunk, of which n tokens are there; y of them [n, stride], the warp's columns. v: of tokens, the same.
    template <bool ADDS>
    __device__ void step(const Tokens &tokens, const float *v, int n, float *y, int64_t stride) {
        constexpr int PRODUCTS = ADDS ? CHUNK_GROUPS : 2 * CHUNK_GROUPS;
        float products[PRODUCTS][4] = {}; // Sᵀk, unless it adds, and Sᵀq
        multiply(ADDS ? tokens.q : tokens.k, products);
        float delta[CHUNK_GROUPS][4], of_q[CHUNK_GROUPS][4];
        const int t = threadIdx.x % 4;
#pragma unroll
        for (int c = 0; c < CHUNK_GROUPS; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                delta[c][i] = ADDS ? 0 : products[c][i];
                of_q[c][i] =
                    products[PRODUCTS - CHUNK_GROUPS + c][i] * tokens.factors[8 * c + 2 * t + i % 2].y;
            }
        correct<ADDS>(tokens, v, GROUP_COLUMNS + 4, delta);
        float of_k[CHUNK_GROUPS][4];
#pragma unroll
        for (int j = 0; j < CHUNK_GROUPS; j++)
            as_input(delta[j], tokens.factors[8 * j + 2 * t].w, tokens.factors[8 * j + 2 * t + 1].w, of_k[j]);
        add(tokens, of_k);
        look_back<ADDS>(tokens, delta, of_q);
        leave_columns(of_q, n, y, stride);
        wgmma_wait<0>(s);
    }

  private:
    // Sᵀ by tokens' q, or by their k and q, which lie behind each other.
    template <int N> __device__ void multiply(const float *tokens, float (&products)[N][4]) const {
        const uint64_t b = pieces_at(shared_at(tokens), TILE_BYTES / 2, TILES * TILE_BYTES);
        float a[TILES][4];
#pragma unroll
        for (int m = 0; m < TILES; m++) as_input(s[m], 1, 1, a[m]);
        wgmma_settle(a);
        wgmma_fence();
#pragma unroll
        for (int m = 0; m < TILES; m++) wgmma_tf32(products, a[m], matrix_beyond(b, m * TILE_UNITS));
        wgmma_commit();
        wgmma_wait<0>(products);
    }

    // S ← Γ[31]·S + Σ Γ[31]/Γ[j]·k[j]·δ[j]ᵀ, which is awaited by the caller.
    __device__ void add(const Tokens &tokens, float (&a)[CHUNK_GROUPS][4]) {
        const uint64_t b = pieces_at(shared_at(tokens.turned), TILE_BYTES / 2, CHUNK_GROUPS * TILE_BYTES);
        const float decay = tokens.factors[DELTA_CHUNK - 1].y;
#pragma unroll
        for (int m = 0; m < TILES; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) s[m][i] *= decay;
        wgmma_settle(a), wgmma_settle(s);
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < CHUNK_GROUPS; j++) wgmma_tf32(s, a[j], matrix_beyond(b, j * TILE_UNITS));
        wgmma_commit();
    }
};

#endif

// Grid: [value_dim / 64, n_value_heads].
template <int KEY_DIM, bool ADDS>
__global__ void __launch_bounds__(GROUP_THREADS + CHUNK_LOADERS, 1)
    delta_wgmma_kernel(const __grid_constant__ DeltaArguments a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(128) char memory[];
    GroupShared<KEY_DIM> &shared = *(GroupShared<KEY_DIM> *)memory;
    const int head = blockIdx.y, first_column = blockIdx.x * GROUP_COLUMNS, warp = threadIdx.x / 32;
    const RecurringSequence sequence = delta_sequence(a, 0); // the state before is there since begin(), too
    let_next_begin();
    if (sequence.to < 0) return;
    if (warp >= GROUP_THREADS / 32) {
        kernels_before();
        return bring_chunks<KEY_DIM, GROUP_COLUMNS, true, ADDS>(a, head, first_column,
                                                                threadIdx.x - GROUP_THREADS, shared.tokens);
    }
    const int column = warp * 16, stride = a.rule.value_dim, n = delta_all_chunks(a);
    GroupState<KEY_DIM> state;
    load_state(state, sequence.from >= 0 ? delta_head(a, sequence.from, head) + first_column + column : NULL,
               stride);
    kernels_before();
    float *y = a.raw + head * stride + first_column + column;
    __syncthreads();
    for (int i = 0, stage = 0; i < n;
         i++, stage = stage == 2 ? 0 : stage + 1, y += (int64_t)DELTA_CHUNK * a.width) {
        const auto &tokens = shared.tokens[stage];
        state.template step<ADDS>(tokens, &tokens.v[0][column], a.n_tokens - i * DELTA_CHUNK, y, a.width);
        __syncthreads();
    }
    store_state(state, delta_head(a, sequence.to, head) + first_column + column, stride);
#endif
}

template <int KEY_DIM, bool ADDS>
static cudaError_t launch_groups(const CudaBackend *cuda, const DeltaArguments &a) {
    const auto kernel = delta_wgmma_kernel<KEY_DIM, ADDS>;
    const size_t bytes = sizeof(GroupShared<KEY_DIM>);
    const cudaError_t code =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (code != cudaSuccess) return code;
    return launch_dependent(cuda, kernel, dim3(a.rule.value_dim / GROUP_COLUMNS, a.rule.n_value_heads),
                            GROUP_THREADS + CHUNK_LOADERS, bytes, a);
}

cudaError_t delta_by_wgmma(const CudaBackend *cuda, const DeltaArguments &a) {
    if (a.rule.key_dim == 64)
        return a.rule.adds ? launch_groups<64, true>(cuda, a) : launch_groups<64, false>(cuda, a);
    return a.rule.adds ? launch_groups<128, true>(cuda, a) : launch_groups<128, false>(cuda, a);
}
