// Numbers that blocks of a launch leave to each other in memory, each in a place of its own. No flag says that they are
// there: a word of the place is 0 until the number's bits, inverted, stand in it, and 0 again once they have been taken, so
// that each word is whole by itself and nothing has to be fenced. Bits of ones are not left: of a float another NaN stands
// for them, and no sum of products of 8 bits has the integer whose bits these would be.
//
// Who waits must be sure that the others are there, or have been. The memory (CudaScratch.handover) is all zeros between
// launches: one kernel's at a time, from kernels_before() to its end.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_HANDOVER_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_HANDOVER_CUH

#include "kernels/cuda/device/ptx.cuh"

enum { HANDOVER_A_SM = 64 << 10 }; // bytes for each multiprocessor

__device__ inline uint32_t part_word(float v) {
    const uint32_t word = ~__float_as_uint(v);
    return word ? word : ~0x7fffffffu;
}
__device__ inline uint32_t part_word(int v) {
    return (uint32_t)v ^ 0x80000000u;
}
__device__ inline void part_value(uint32_t word, float *v) {
    *v = __uint_as_float(~word);
}
__device__ inline void part_value(uint32_t word, int *v) {
    *v = (int)(word ^ 0x80000000u);
}

// Four of a place, in order.
template <class Number>
__device__ inline uint4 part_words(Number first, Number second, Number third, Number fourth) {
    return make_uint4(part_word(first), part_word(second), part_word(third), part_word(fourth));
}
__device__ inline bool is_whole(uint4 words) {
    return words.x && words.y && words.z && words.w;
}

#endif
