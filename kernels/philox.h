// Philox4x32-10, the counter-based random numbers of Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3", SC'11: a bijection of 128-bit counters under a 64-bit key. No state: any number of any sequence
// costs the same.
//
// philox_uniform() equals cuRAND's device sequence: the first curand_uniform() after
// curand_init(seed, subsequence, offset, &state) with a curandStatePhilox4_32_10_t. There the key is the
// seed, the upper 64 bits of the counter are the subsequence, the lower ones offset / 4, and offset % 4 picks
// the word. Plain C that CUDA can include: host and device draw the same numbers.
#ifndef PALAVER_KERNELS_PHILOX_H
#define PALAVER_KERNELS_PHILOX_H

#include <stdint.h>

// Functions of a header that C and both sides of CUDA share.
#ifdef __CUDACC__
#define PALAVER_SHARED static __host__ __device__ __forceinline__
#else
#define PALAVER_SHARED static inline
#endif

typedef struct PhiloxCounter {
    uint32_t word[4];
} PhiloxCounter;

// The ten rounds. key0 is the low half of the key.
PALAVER_SHARED PhiloxCounter philox4x32_10(PhiloxCounter counter, uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * counter.word[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * counter.word[2];
        PhiloxCounter next = {{(uint32_t)(b >> 32) ^ counter.word[1] ^ key0, (uint32_t)b,
                               (uint32_t)(a >> 32) ^ counter.word[3] ^ key1, (uint32_t)a}};
        counter = next;
        key0 += 0x9E3779B9u; // the golden ratio and √3 − 1, as fractions of 2^32: Weyl sequences
        key1 += 0xBB67AE85u;
    }
    return counter;
}

// The 32-bit number at `offset` of a subsequence.
PALAVER_SHARED uint32_t philox_bits(uint64_t seed, uint64_t subsequence, uint64_t offset) {
    uint64_t block = offset / 4;
    PhiloxCounter counter = {
        {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)subsequence, (uint32_t)(subsequence >> 32)}};
    return philox4x32_10(counter, (uint32_t)seed, (uint32_t)(seed >> 32)).word[offset % 4];
}

// Uniform in (0, 1]: x·2^-32 + 2^-33 in float32. x is rounded to 24 bits first, so 1 itself occurs, about
// once in 2^25 draws; the product is exact, so a fused multiply-add changes nothing.
PALAVER_SHARED float philox_uniform(uint64_t seed, uint64_t subsequence, uint64_t offset) {
    return (float)philox_bits(seed, subsequence, offset) * 0x1p-32f + 0x1p-33f;
}

#endif
