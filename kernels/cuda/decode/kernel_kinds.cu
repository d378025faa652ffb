// The decoding kernels of models whose layers are of two kinds (Gemma 4: heads of 256 behind a window, heads of 512 that see all),
// each with its formats.
// INSTANCES: DECODE_ALL DECODE_FEW DECODE_FOUR
#include "kernels/cuda/decode/kernel.cuh"

template <DecodeFormats FORMATS>
cudaError_t decode_launch_kinds(const DecodeArguments *a, int n_blocks, cudaStream_t stream) {
    return launch_blocks(decode_kernel<32, 2, CacheF16, false, FORMATS, false, DECODE_KINDS>, a, n_blocks,
                         stream);
}

template cudaError_t decode_launch_kinds<INSTANCE>(const DecodeArguments *a, int n_blocks,
                                                   cudaStream_t stream);
