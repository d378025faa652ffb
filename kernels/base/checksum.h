// A checksum of many bytes, at the speed of memory: to find damage in files of ours, not against attackers.
#ifndef PALAVER_BASE_CHECKSUM_H
#define PALAVER_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CHECKSUM_FACTOR 0x9e3779b97f4a7c15u // odd, so that no step loses a bit

static inline uint64_t checksum_step(uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * CHECKSUM_FACTOR;
    return sum << 29 | sum >> 35; // else the highest bits of two words could cancel each other
}

// Words of 8 bytes go to four sums in turn, which do not wait for each other; the rest, and the length, to their sum.
// Whatever is changed within 8 bytes changes the result.
static inline uint64_t checksum_of(const void *bytes, size_t size) {
    const unsigned char *b = bytes;
    uint64_t sums[4] = {1, 2, 3, 4}, words[4], sum = size, rest = 0;
    size_t at = 0;
    for (; size - at >= sizeof words; at += sizeof words) {
        memcpy(words, b + at, sizeof words);
        for (int i = 0; i < 4; i++) sums[i] = checksum_step(sums[i], words[i]);
    }
    for (int i = 0; i < 4; i++) sum = checksum_step(sum, sums[i]);
    for (; at < size; at += sizeof rest) {
        size_t n = size - at < sizeof rest ? size - at : sizeof rest;
        rest = 0;
        memcpy(&rest, b + at, n);
        sum = checksum_step(sum, rest);
    }
    return sum;
}

#endif
