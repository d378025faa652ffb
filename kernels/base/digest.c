#include "kernels/base/digest.h"

#include <stdio.h>
#include <string.h>

#if defined __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t left(uint32_t x, int n) {
    return x << n | x >> (32 - n);
}

static uint32_t right(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static uint32_t word_at(const uint8_t *b) {
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

// ---- one block ----------------------------------------------------------------------------------------------------

static void sha1_block(uint32_t *state, const uint8_t *block) {
    static const uint32_t constants[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], s[5];
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 16; i++) w[i] = word_at(block + 4 * i);
    for (int i = 16; i < 80; i++) w[i] = left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t b = s[1], c = s[2], d = s[3];
        uint32_t f = i < 20              ? (b & c) | (~b & d)
                     : i >= 40 && i < 60 ? (b & c) | (b & d) | (c & d)
                                         : b ^ c ^ d;
        uint32_t next = left(s[0], 5) + f + s[4] + constants[i / 20] + w[i];
        s[4] = d, s[3] = c, s[2] = left(b, 30), s[1] = s[0], s[0] = next;
    }
    for (int i = 0; i < 5; i++) state[i] += s[i];
}

static void sha256_block(uint32_t *state, const uint8_t *block) {
    uint32_t w[64], s[8];
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 16; i++) w[i] = word_at(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (right(a, 7) ^ right(a, 18) ^ a >> 3) + w[i - 7] +
               (right(b, 17) ^ right(b, 19) ^ b >> 10);
    }
    for (int i = 0; i < 64; i++) {
        uint32_t a = s[0], e = s[4];
        uint32_t one =
            s[7] + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + K[i] + w[i];
        uint32_t two =
            (right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one, s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

#if defined __x86_64__
// The same by the processor's own instructions for it, seven times as fast. They keep the state as ABEF and CDGH, and
// take four rounds' words at once.
__attribute__((target("sha,sse4.1"))) static void sha256_blocks_x86(uint32_t *state, const uint8_t *block,
                                                                    size_t n) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);        // CDAB
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b); // EFGH
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);
    for (; n > 0; n--, block += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(block + 16 * i)), swap);
        for (int i = 0; i < 16; i++) {
            __m128i sum = _mm_add_epi32(w[i % 4], _mm_loadu_si128((const __m128i *)(K + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            if (i >= 12) continue;
            // The words of four rounds, sixteen rounds on.
            __m128i next = _mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]);
            next = _mm_add_epi32(next, _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4));
            w[i % 4] = _mm_sha256msg2_epu32(next, w[(i + 3) % 4]);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    low = _mm_shuffle_epi32(abef, 0x1b), high = _mm_shuffle_epi32(cdgh, 0xb1); // FEBA, DCHG
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

static int has_sha(void) {
    unsigned a, b = 0, c, d;
    return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
}
#endif

static void add_blocks(Digest *digest, const uint8_t *bytes, size_t n) {
#if defined __x86_64__
    if (digest->kind == DIGEST_SHA256 && has_sha()) {
        sha256_blocks_x86(digest->state, bytes, n);
        return;
    }
#endif
    for (; n > 0; n--, bytes += sizeof digest->block)
        (digest->kind == DIGEST_SHA1 ? sha1_block : sha256_block)(digest->state, bytes);
}

// ---- all of them --------------------------------------------------------------------------------------------------

void digest_begin(Digest *digest, DigestKind kind) {
    static const uint32_t starts[2][8] = {
        {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0},
        {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
    *digest = (Digest){.kind = kind};
    memcpy(digest->state, starts[kind], sizeof digest->state);
}

void digest_add(Digest *digest, const void *from, size_t size) {
    const uint8_t *bytes = from;
    size_t held = digest->size % sizeof digest->block;
    digest->size += size;
    if (held) {
        size_t n = sizeof digest->block - held < size ? sizeof digest->block - held : size;
        memcpy(digest->block + held, bytes, n);
        bytes += n, size -= n;
        if (held + n < sizeof digest->block) return;
        add_blocks(digest, digest->block, 1);
    }
    size_t blocks = size / sizeof digest->block;
    add_blocks(digest, bytes, blocks);
    memcpy(digest->block, bytes + blocks * sizeof digest->block, size % sizeof digest->block);
}

void digest_end(Digest *digest, char hex[DIGEST_HEX]) {
    uint64_t bits = digest->size * 8;
    uint8_t end[72] = {0x80};
    size_t held = digest->size % sizeof digest->block, n = (held < 56 ? 56 : 120) - held;
    for (int i = 0; i < 8; i++) end[n + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    digest_add(digest, end, n + 8);
    for (int i = 0; i < (digest->kind == DIGEST_SHA1 ? 5 : 8); i++)
        snprintf(hex + 8 * i, 9, "%08x", (unsigned)digest->state[i]);
}
