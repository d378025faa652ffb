// Which decoding kernel a head size and a number of query heads to a KV head take.
#include "kernels/cuda/decode.cuh"

cudaError_t decode_launch(const DecodeArguments *a, int n_blocks, cudaStream_t stream) {
    static const struct {
        int lanes, heads;
        DecodeLaunch *f16, *integers; // integers NULL: no kernel
    } KERNELS[] = {{8, 1, decode_launch_8_1, decode_launch_int_8_1},
                   {8, 2, decode_launch_8_2, decode_launch_int_8_2},
                   {8, 4, decode_launch_8_4, decode_launch_int_8_4},
                   {16, 1, decode_launch_16_1, decode_launch_int_16_1},
                   {16, 2, decode_launch_16_2, decode_launch_int_16_2},
                   {16, 4, decode_launch_16_4, decode_launch_int_16_4},
                   {32, 1, decode_launch_32_1, NULL},
                   {32, 2, decode_launch_32_2, NULL}};
    int lanes = decode_lanes(a->head_dim), heads = decode_heads(a->group, lanes, a->n_slots);
    for (auto &k : KERNELS) {
        DecodeLaunch *launch = a->kind == DECODE_F16 ? k.f16 : k.integers;
        if (k.lanes == lanes && k.heads == heads && launch) return launch(a, n_blocks, stream);
    }
    return cudaErrorInvalidValue;
}
