// The chunks of a prompt one after the other, by mma.sync: see delta_chunks.cuh.
//
//   a block                  64 columns of a head's S, or 32
//     pairs of warps         16 columns each; of S a warp has half of the rows
//     two warps besides      bring the next chunk meanwhile
//
//   both of a pair     Sᵀk, Sᵀq by their rows
//   first one          other's Sᵀk → R → δ = T·R          S ← Γ·S + …
//   second one         other's Sᵀq → Γ·Sᵀq        (δ) → y  S ← Γ·S + …
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/recurring/delta_chunks.cuh"

enum { OF_PAIR = 16 };

// What the warps of a pair hand over, by lanes.
struct ChunkHandover {
    float k[CHUNK_GROUPS * 4][32],
        q[CHUNK_GROUPS * 4][32]; // Sᵀk of the second one, then δ; Sᵀq of the first one
};

template <int KEY_DIM, int PAIRS> struct ChunkShared {
    ChunkTokens<KEY_DIM, OF_PAIR * PAIRS, false> tokens[2];
    ChunkHandover handover[PAIRS];
};

// Half of the rows of Sᵀ of 16 columns of a head, by a warp: a c of 16 columns and 8 rows of S after the other. It is what the
// tensor cores give and, with a permutation of summands, what they take, and never leaves registers.
template <int KEY_DIM, int PAIRS> struct PairState {
    typedef ChunkTokens<KEY_DIM, OF_PAIR * PAIRS, false> Tokens;
    enum { TILES = KEY_DIM / 8, OWN = TILES / 2 };
    float s[OWN][4];
    int pair, second, g, t;

    __device__ PairState(int warp)
        : pair(warp / 2), second(warp % 2), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4) {}

    __device__ int64_t place(int m, int i, int stride) const {
        return (int64_t)(8 * (second * OWN + m) + 2 * t + i % 2) * stride + g + i / 2 * 8;
    }

    // Goes on by a chunk, of which n tokens are there; y of them [n, stride], the pair's columns.
    template <bool ADDS>
    __device__ void step(const Tokens &tokens, ChunkHandover *handover, int n, float *y, int64_t stride) {
        const int lane = threadIdx.x % 32;
        float of_k[CHUNK_GROUPS][4] = {}, of_q[CHUNK_GROUPS][4] = {};
        multiply<ADDS>(tokens, of_k, of_q);
        if (!second)
            put(handover->q, of_q, lane);
        else if (!ADDS)
            put(handover->k, of_k, lane);
        meet();
        if (!second) {
            if (!ADDS) take(handover->k, of_k, lane);
            correct<ADDS>(tokens, &tokens.v[0][pair * OF_PAIR], OF_PAIR * PAIRS + 4, of_k);
            put(handover->k, of_k, lane);
            meet();
        } else {
            take(handover->q, of_q, lane);
#pragma unroll
            for (int c = 0; c < CHUNK_GROUPS; c++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    of_q[c][i] *= tokens.factors[8 * c + 2 * t + i % 2].y;
                    of_k[c][i] = 0;
                }
            meet();
            take(handover->k, of_k, lane);
            look_back<ADDS>(tokens, of_k, of_q);
            leave_columns(of_q, n, y, stride);
        }
        add(tokens, of_k);
    }

  private:
    // The two warps of the pair.
    __device__ void meet() const {
        named_barrier_sync<64>(1 + pair);
    }

    __device__ static void put(float (*to)[32], const float (&v)[CHUNK_GROUPS][4], int lane) {
#pragma unroll
        for (int c = 0; c < CHUNK_GROUPS; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) to[c * 4 + i][lane] = v[c][i];
    }
    __device__ static void take(const float (*from)[32], float (&v)[CHUNK_GROUPS][4], int lane) {
#pragma unroll
        for (int c = 0; c < CHUNK_GROUPS; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) v[c][i] += from[c * 4 + i][lane];
    }

    // Sᵀk and Sᵀq by the warp's rows of S.
    template <bool ADDS>
    __device__ void multiply(const Tokens &tokens, float (&of_k)[CHUNK_GROUPS][4],
                             float (&of_q)[CHUNK_GROUPS][4]) const {
#pragma unroll
        for (int m = 0; m < OWN; m++) {
            float a[4];
            as_input(s[m], 1, 1, a);
#pragma unroll
            for (int c = 0; c < CHUNK_GROUPS; c++) {
                const int tile = (c * TILES + second * OWN + m) * CHUNK_TILE;
                if (!ADDS) mma_tf32(of_k[c], a, chunk_pair(tokens.k + tile, g, t));
                mma_tf32(of_q[c], a, chunk_pair(tokens.q + tile, g, t));
            }
        }
    }

    // S ← Γ[31]·S + Σ Γ[31]/Γ[j]·k[j]·δ[j]ᵀ.
    __device__ void add(const Tokens &tokens, const float (&d)[CHUNK_GROUPS][4]) {
        const float decay = tokens.factors[DELTA_CHUNK - 1].y;
        const float *k = tokens.k + second * OWN * CHUNK_TILE + g % 2 * (CHUNK_TILE / 2) + g / 2 + 2 * t * 4;
        float a[CHUNK_GROUPS][4];
#pragma unroll
        for (int j = 0; j < CHUNK_GROUPS; j++)
            as_input(d[j], tokens.factors[8 * j + 2 * t].w, tokens.factors[8 * j + 2 * t + 1].w, a[j]);
#pragma unroll
        for (int m = 0; m < OWN; m++) {
#pragma unroll
            for (int i = 0; i < 4; i++) s[m][i] *= decay;
#pragma unroll
            for (int j = 0; j < CHUNK_GROUPS; j++) {
                const float *at = k + (j * TILES + m) * CHUNK_TILE;
                mma_tf32(s[m], a[j], make_float2(at[0], at[4])); // of tokens 2t and 2t + 1
            }
        }
    }
};

// A block some columns of a head's S, through all chunks. Grid: [value_dim / (16·PAIRS), n_value_heads].
template <int KEY_DIM, int PAIRS, bool ADDS>
__global__ void __launch_bounds__(64 * PAIRS + CHUNK_LOADERS)
    delta_mma_kernel(const __grid_constant__ DeltaArguments a) {
#ifndef __CUDA_ARCH_FEAT_SM90_ALL // there delta_wgmma.cu takes what this could
    extern __shared__ __align__(16) char memory[];
    ChunkShared<KEY_DIM, PAIRS> &shared = *(ChunkShared<KEY_DIM, PAIRS> *)memory;
    constexpr int COLUMNS = OF_PAIR * PAIRS;
    const int head = blockIdx.y, first_column = blockIdx.x * COLUMNS, warp = threadIdx.x / 32,
              n = delta_all_chunks(a);
    const RecurringSequence s = delta_sequence(a, 0); // the state before is there since begin(), too
    let_next_begin();
    if (s.to < 0) return;
    if (warp >= 2 * PAIRS) {
        kernels_before();
        return bring_chunks<KEY_DIM, COLUMNS, false, ADDS>(a, head, first_column, threadIdx.x - 64 * PAIRS,
                                                           shared.tokens);
    }
    PairState<KEY_DIM, PAIRS> state(warp);
    const int own = first_column + state.pair * OF_PAIR;
    load_state(state, s.from >= 0 ? delta_head(a, s.from, head) + own : NULL, a.rule.value_dim);
    kernels_before();
    float *y = a.raw + head * a.rule.value_dim + own;
    __syncthreads();
    for (int i = 0; i < n; i++, y += (int64_t)DELTA_CHUNK * a.width) {
        state.template step<ADDS>(shared.tokens[i & 1], &shared.handover[state.pair],
                                  a.n_tokens - i * DELTA_CHUNK, y, a.width);
        __syncthreads();
    }
    store_state(state, delta_head(a, s.to, head) + own, a.rule.value_dim);
#endif
}

template <int KEY_DIM, int PAIRS, bool ADDS>
static cudaError_t launch_chunks(const CudaBackend *cuda, const DeltaArguments &a) {
    const size_t bytes = sizeof(ChunkShared<KEY_DIM, PAIRS>);
    const auto kernel = delta_mma_kernel<KEY_DIM, PAIRS, ADDS>;
    const cudaError_t code =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (code != cudaSuccess) return code;
    return launch_dependent(cuda, kernel, dim3(a.rule.value_dim / (OF_PAIR * PAIRS), a.rule.n_value_heads),
                            64 * PAIRS + CHUNK_LOADERS, bytes, a);
}

// By pairs for which there is shared memory.
template <int KEY_DIM, bool ADDS>
static cudaError_t launch_pairs(const CudaBackend *cuda, const DeltaArguments &a) {
    return sizeof(ChunkShared<KEY_DIM, 4>) <= (size_t)cuda->device.card.shared_limit
               ? launch_chunks<KEY_DIM, 4, ADDS>(cuda, a)
               : launch_chunks<KEY_DIM, 2, ADDS>(cuda, a);
}

cudaError_t delta_by_mma(const CudaBackend *cuda, const DeltaArguments &a) {
    if (a.rule.key_dim == 64)
        return a.rule.adds ? launch_pairs<64, true>(cuda, a) : launch_pairs<64, false>(cuda, a);
    return a.rule.adds ? launch_pairs<128, true>(cuda, a) : launch_pairs<128, false>(cuda, a);
}
