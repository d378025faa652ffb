// FNV-1a in 64 bits (Fowler, Noll, Vo): for tables and fingerprints, not against attackers.
#ifndef PALAVER_BASE_HASH_H
#define PALAVER_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xcbf29ce484222325u

// Goes on from `hash` (HASH_START at first) with `size` bytes.
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    const unsigned char *b = bytes;
    for (size_t i = 0; i < size; i++) hash = (hash ^ b[i]) * 0x100000001b3u;
    return hash;
}

// Goes on with the bytes of a variable or field, which has none that are not set.
#define HASH(hash, value) hash_bytes(hash, &(value), sizeof(value))

#endif
