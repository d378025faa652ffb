// The kernels of flat.cuh for weights of one format each, compiled by themselves.
// INSTANCES: FORMAT_F16 FORMAT_BF16 FORMAT_Q8 FORMAT_Q8S FORMAT_Q8M FORMAT_Q4 FORMAT_Q4M
// INSTANCES: FORMAT_IQ4 FORMAT_FP4 FORMAT_Q2 FORMAT_Q3 FORMAT_Q5 FORMAT_Q5M FORMAT_Q6 FORMAT_E4M3 FORMAT_NF4
#include "kernels/cuda/experts/flat.cuh"

template <int FORMAT>
using Operand = typename std::conditional<FORMAT == FORMAT_BF16, __nv_bfloat16, __half>::type;

template <int FORMAT, int TILES>
static cudaError_t launch_by_mma(CudaBackend *cuda, const FlatArguments *a, const ExpertFlatTiles &tiles) {
    auto kernel = expert_flat_mma_kernel<Operand<FORMAT>, FORMAT, TILES>;
    size_t shared;
    const cudaError_t code = prepare_flat_mma(cuda, kernel, FlatMmaRing<FORMAT, TILES>::BYTES, &shared);
    return code == cudaSuccess
               ? launch_dependent(cuda, kernel, cuda->device.card.n_sms, PIECE_THREADS, shared, *a, tiles)
               : code;
}

template <int FORMAT, int TILES>
static cudaError_t launch(CudaBackend *cuda, FlatArguments *a, const ExpertFlatTiles &tiles) {
    typedef Operand<FORMAT> T;
    typedef FlatRing<FORMAT, TILES> Ring;
    if (!dispatch_features(&cuda->device.card)->wgmma) return launch_by_mma<FORMAT, TILES>(cuda, a, tiles);
    auto kernel = expert_flat_kernel<T, FORMAT, TILES>;
    FlatMaps maps;
    const cudaError_t code = prepare_flat<Ring>(cuda, kernel, a->w.rows * tiles.n_experts, a, &maps);
    constexpr int BLOCKS = EXPERT_FLAT_BLOCKS<FORMAT, TILES>;
    if (BLOCKS > 1) a->room = FLAT_SMALL;
    return code == cudaSuccess ? launch_dependent(cuda, kernel, BLOCKS * cuda->device.card.n_sms,
                                                  FLAT_THREADS, Ring::bytes(a->room), maps, *a, tiles)
                               : code;
}

template <Format FORMAT>
cudaError_t expert_flat_launch(CudaBackend *cuda, FlatArguments *a, const ExpertFlatTiles &tiles) {
    return tiles.most <= 8    ? launch<FORMAT, 1>(cuda, a, tiles)
           : tiles.most <= 16 ? launch<FORMAT, 2>(cuda, a, tiles)
           : tiles.most <= 32 ? launch<FORMAT, 4>(cuda, a, tiles)
                              : launch<FORMAT, 8>(cuda, a, tiles);
}

template cudaError_t expert_flat_launch<INSTANCE>(CudaBackend *cuda, FlatArguments *a,
                                                  const ExpertFlatTiles &tiles);
