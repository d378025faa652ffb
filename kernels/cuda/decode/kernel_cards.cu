// The decoding kernels of several cards: a cache in 16 bits, for lanes that share a head, query heads that a warp takes
// together, layers of experts or dense ones, and formats.
// INSTANCES: 8,1,false,DECODE_ALL 8,2,false,DECODE_ALL 8,4,false,DECODE_ALL
// INSTANCES: 16,1,false,DECODE_ALL 16,2,false,DECODE_ALL 16,4,false,DECODE_ALL
// INSTANCES: 8,1,false,DECODE_FEW 8,2,false,DECODE_FEW 8,4,false,DECODE_FEW
// INSTANCES: 16,1,false,DECODE_FEW 16,2,false,DECODE_FEW 16,4,false,DECODE_FEW
// INSTANCES: 8,1,false,DECODE_FOUR 8,2,false,DECODE_FOUR 8,4,false,DECODE_FOUR
// INSTANCES: 16,1,false,DECODE_FOUR 16,2,false,DECODE_FOUR 16,4,false,DECODE_FOUR
// INSTANCES: 8,1,false,DECODE_TWO 8,2,false,DECODE_TWO 8,4,false,DECODE_TWO
// INSTANCES: 16,1,false,DECODE_TWO 16,2,false,DECODE_TWO 16,4,false,DECODE_TWO
// INSTANCES: 8,1,true,DECODE_ALL 8,2,true,DECODE_ALL 8,4,true,DECODE_ALL
// INSTANCES: 16,1,true,DECODE_ALL 16,2,true,DECODE_ALL 16,4,true,DECODE_ALL
#include "kernels/cuda/decode/kernel.cuh"

template <int LANES, int HEADS, bool EXPERTS, DecodeFormats FORMATS>
cudaError_t decode_launch_cards(const DecodeArguments *a, int n_blocks, cudaStream_t stream) {
    void (*kernel)(DecodeArguments) = decode_kernel<LANES, HEADS, CacheF16, EXPERTS, FORMATS, true>;
    cudaFuncAttributes any;
    return n_blocks ? launch_blocks(kernel, a, n_blocks, stream) : cudaFuncGetAttributes(&any, kernel);
}

template cudaError_t decode_launch_cards<INSTANCE>(const DecodeArguments *a, int n_blocks,
                                                   cudaStream_t stream);
