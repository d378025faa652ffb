// Block formats for the AVX2 GEMMs: a group's integers and scales, of eight rows at a time. The layouts are
// told in quant.c.
#ifndef PALAVER_KERNELS_CPU_X86_GROUPS_AVX2_H
#define PALAVER_KERNELS_CPU_X86_GROUPS_AVX2_H

#include "kernels/cpu/x86/rows_avx2.h"

#ifdef __AVX2__
// Those of quant_is_type().
#define FOR_EACH_BLOCK_TYPE(_)                                                                               \
    _(Q8_0)                                                                                                  \
    _(Q4_0) _(Q4_1) _(Q5_0) _(Q5_1) _(Q4_K) _(Q5_K) _(Q6_K) _(Q2_K) _(Q3_K) _(IQ4_NL) _(IQ4_XS) _(MXFP4)

typedef struct Traits {
    int offset;      // what the format subtracts from its unsigned integers
    bool has_min;    // min is not zero
    bool two_scales; // one for each 16 columns
    int sums; // how many products of pairs fit into 16 bits, at most those of a scale; 0: the integers are signed
} Traits;

INLINE Traits traits_of(DType type) {
    switch (type) {
    case DTYPE_Q4_0:
        return (Traits){8, false, false, 8};
    case DTYPE_Q4_1:
        return (Traits){0, true, false, 8};
    case DTYPE_Q5_0:
        return (Traits){16, false, false, 4};
    case DTYPE_Q5_1:
        return (Traits){0, true, false, 4};
    case DTYPE_Q4_K:
        return (Traits){0, true, false, 8};
    case DTYPE_Q5_K:
        return (Traits){0, true, false, 4};
    case DTYPE_Q6_K:
        return (Traits){32, false, true, 2};
    case DTYPE_Q2_K:
        return (Traits){0, true, true, 4};
    case DTYPE_Q3_K:
        return (Traits){4, false, true, 4};
    case DTYPE_MXFP4: // of the codebook, which lies in memory with it
        return (Traits){12, false, false, 4};
    default:
        return (Traits){0, false, false, 0};
    }
}

// The same for instructions that take unsigned integers: those with a sign then count from -128.
INLINE Traits unsigned_traits(DType type) {
    Traits traits = traits_of(type);
    if (traits.sums == 0) traits.offset = 128;
    return traits;
}

// dtype_block_bytes() as a constant.
INLINE int64_t block_bytes_of(DType type) {
    switch (type) {
    case DTYPE_Q4_0:
        return 18;
    case DTYPE_Q4_1:
        return 20;
    case DTYPE_Q5_0:
        return 22;
    case DTYPE_Q5_1:
        return 24;
    case DTYPE_Q4_K:
        return 144;
    case DTYPE_Q5_K:
        return 176;
    case DTYPE_Q6_K:
        return 210;
    case DTYPE_Q2_K:
        return 84;
    case DTYPE_Q3_K:
        return 110;
    case DTYPE_IQ4_NL:
        return 18;
    case DTYPE_IQ4_XS:
        return 136;
    case DTYPE_MXFP4:
        return 17;
    default:
        return 34;
    }
}

// Groups of 32 columns in a block, as a constant.
INLINE int groups_a_block(DType type) {
    return (type >= DTYPE_Q4_K && type <= DTYPE_Q3_K) || type == DTYPE_IQ4_XS ? 8 : 1;
}

// ---- a group's integers -------------------------------------------------------------------------------

INLINE __m256i low_nibbles(__m256i v) {
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

// Sixteen bytes: low halves, then high halves.
INLINE __m256i nibbles(const uint8_t *bytes) {
    __m128i v = _mm_loadu_si128((const __m128i *)bytes);
    return low_nibbles(_mm256_set_m128i(_mm_srli_epi16(v, 4), v));
}

// Whose nibbles are places in a codebook.
INLINE bool has_book(DType type) {
    return type == DTYPE_IQ4_NL || type == DTYPE_IQ4_XS || type == DTYPE_MXFP4;
}

// The codebook's entries of nibbles: of IQ4_NL and IQ4_XS with their signs, of MXFP4 with the offset that Traits name.
INLINE __m256i looked_up(DType type, __m256i indices) {
    const __m128i book = type == DTYPE_MXFP4
                             ? _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0)
                             : _mm_loadu_si128((const __m128i *)QUANT_IQ4_BOOK);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(book), indices);
}

INLINE __m256i shifted_right(__m256i v, int n) {
    return _mm256_srl_epi16(v, _mm_cvtsi32_si128(n));
}

// Two bits of each element of a group: see quant.c.
INLINE __m256i k_pairs(const uint8_t *bytes, int group) {
    return _mm256_and_si256(shifted_right(load32(bytes + group / 4 * 32), group % 4 * 2),
                            _mm256_set1_epi8(3));
}

// Bit i of 32 as 16 in byte i.
INLINE __m256i fifth_bits(const uint8_t *bytes) {
    int32_t bits;
    memcpy(&bits, bytes, sizeof bits);
    const __m256i source = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i v = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), source), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(v, bit), _mm256_set1_epi8(16));
}

// The 32 integers of group `group` of the block, in order, before the offset.
INLINE __m256i group_integers(DType type, const uint8_t *block, int group) {
    switch (type) {
    case DTYPE_Q4_0:
        return nibbles(block + 2);
    case DTYPE_Q4_1:
        return nibbles(block + 4);
    case DTYPE_Q5_0:
        return _mm256_or_si256(nibbles(block + 6), fifth_bits(block + 2));
    case DTYPE_Q5_1:
        return _mm256_or_si256(nibbles(block + 8), fifth_bits(block + 4));
    case DTYPE_Q4_K:
        return low_nibbles(shifted_right(load32(block + 16 + group / 2 * 32), group % 2 * 4));
    case DTYPE_Q5_K: {
        __m256i low = low_nibbles(shifted_right(load32(block + 48 + group / 2 * 32), group % 2 * 4));
        __m256i bit = _mm256_and_si256(shifted_right(load32(block + 16), group), _mm256_set1_epi8(1));
        return _mm256_or_si256(low, _mm256_slli_epi16(bit, 4));
    }
    case DTYPE_Q6_K: {
        __m256i low = load32(block + group / 4 * 64 + group % 2 * 32);
        __m256i high = shifted_right(load32(block + 128 + group / 4 * 32), group % 4 * 2);
        high = _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi8(3)), 4);
        return _mm256_or_si256(low_nibbles(shifted_right(low, group % 4 / 2 * 4)), high);
    }
    case DTYPE_Q2_K:
        return k_pairs(block + 16, group);
    case DTYPE_Q3_K: {
        __m256i bit = _mm256_and_si256(shifted_right(load32(block), group), _mm256_set1_epi8(1));
        return _mm256_or_si256(k_pairs(block + 32, group), _mm256_slli_epi16(bit, 2));
    }
    case DTYPE_IQ4_NL:
        return looked_up(type, nibbles(block + 2));
    case DTYPE_IQ4_XS:
        return looked_up(type, nibbles(block + 8 + group * 16));
    case DTYPE_MXFP4:
        return looked_up(type, nibbles(block + 1));
    default:
        return load32(block + 2); // Q8_0
    }
}

// The same as unsigned_traits() tell them.
INLINE __m256i unsigned_integers(DType type, const uint8_t *block, int group) {
    const __m256i q = group_integers(type, block, group);
    return traits_of(type).sums == 0 ? _mm256_xor_si256(q, _mm256_set1_epi8(-128)) : q;
}

// ---- a group's scales, a lane for each of eight rows --------------------------------------------------

typedef struct Scales {
    __m256 scale[2], min[2];
} Scales;

// The first four bytes at `offset` of each row's block.
INLINE __m256i load_ints(const uint8_t *const rows[ROWS], int64_t at) {
    return _mm256_setr_epi32(load_int(rows[0] + at), load_int(rows[1] + at), load_int(rows[2] + at),
                             load_int(rows[3] + at), load_int(rows[4] + at), load_int(rows[5] + at),
                             load_int(rows[6] + at), load_int(rows[7] + at));
}

// The low and the high halves of eight 32-bit integers, as floats from half precision.
INLINE void split_halves(__m256i pairs, __m256 *low, __m256 *high) {
    __m256i l = _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff)), h = _mm256_srli_epi32(pairs, 16);
    __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(l, h), 0xd8);
    *low = _mm256_cvtph_ps(_mm256_castsi256_si128(both));
    *high = _mm256_cvtph_ps(_mm256_extracti128_si256(both, 1));
}

// The scales of a block, still packed.
typedef struct BlockScales {
    __m256 scale, min;
    // Four of a row's bytes to a lane. Q4_K, Q5_K: scales of groups 0..3, 4..7, minimums of groups 0..3, 4..7.
    // Q6_K, Q2_K, Q3_K: scales of groups 0 and 1, 2 and 3, 4 and 5, 6 and 7. IQ4_XS: low halves, high bits.
    __m256i bytes[4];
} BlockScales;

// The 6-bit scales and minimums of Q4_K and Q5_K, a byte each: see quant.c.
INLINE void load_k_bytes(const uint8_t *const rows[ROWS], int64_t at, __m256i bytes[4]) {
    const __m256i two = _mm256_set1_epi8(0x30), four = _mm256_set1_epi8(15), six = _mm256_set1_epi8(63);
    __m256i first = load_ints(rows, at + 4), second = load_ints(rows, at + 8),
            third = load_ints(rows, at + 12);
    bytes[0] = _mm256_and_si256(first, six);
    bytes[1] =
        _mm256_or_si256(_mm256_and_si256(third, four), _mm256_and_si256(_mm256_srli_epi32(first, 2), two));
    bytes[2] = _mm256_and_si256(second, six);
    bytes[3] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(third, 4), four),
                               _mm256_and_si256(_mm256_srli_epi32(second, 2), two));
}

// The 6-bit scales of Q3_K, a byte each.
INLINE void load_q3_k_bytes(const uint8_t *const rows[ROWS], int64_t at, __m256i bytes[4]) {
    const __m256i two = _mm256_set1_epi8(0x30);
    __m256i first = load_ints(rows, at + 96), second = load_ints(rows, at + 100),
            high = load_ints(rows, at + 104);
    bytes[0] = _mm256_or_si256(low_nibbles(first), _mm256_and_si256(_mm256_slli_epi32(high, 4), two));
    bytes[1] = _mm256_or_si256(low_nibbles(second), _mm256_and_si256(_mm256_slli_epi32(high, 2), two));
    bytes[2] = _mm256_or_si256(low_nibbles(_mm256_srli_epi32(first, 4)), _mm256_and_si256(high, two));
    bytes[3] = _mm256_or_si256(low_nibbles(_mm256_srli_epi32(second, 4)),
                               _mm256_and_si256(_mm256_srli_epi32(high, 2), two));
}

// 2^(exponent - 128) of each lane's first byte: see quant.c.
INLINE __m256 exponent_scales(__m256i lanes) {
    __m256i e = _mm256_and_si256(lanes, _mm256_set1_epi32(255)), one = _mm256_set1_epi32(1);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), _mm256_min_epi32(e, one));
    return _mm256_castsi256_ps(_mm256_max_epi32(normal, subnormal));
}

// `at`: bytes from a row's start to the block. min is of Q4_1, Q5_1, Q4_K, Q5_K and Q2_K only, else of no meaning.
INLINE void load_scales(DType type, const uint8_t *const rows[ROWS], int64_t at, BlockScales *block) {
    if (type == DTYPE_MXFP4) {
        block->scale = block->min = exponent_scales(load_ints(rows, at));
        return;
    }
    if (type == DTYPE_Q2_K) {
        split_halves(load_ints(rows, at + 80), &block->scale, &block->min);
        for (int i = 0; i < 4; i++) block->bytes[i] = load_ints(rows, at + 4 * i);
        return;
    }
    if (type == DTYPE_Q3_K) { // the scale is a block's last two bytes
        split_halves(load_ints(rows, at + 106), &block->min, &block->scale);
        load_q3_k_bytes(rows, at, block->bytes);
        return;
    }
    if (type == DTYPE_Q6_K) { // likewise
        split_halves(load_ints(rows, at + 206), &block->min, &block->scale);
        for (int i = 0; i < 4; i++) block->bytes[i] = load_ints(rows, at + 192 + 4 * i);
        return;
    }
    split_halves(load_ints(rows, at), &block->scale, &block->min);
    if (type == DTYPE_Q4_K || type == DTYPE_Q5_K) load_k_bytes(rows, at, block->bytes);
    if (type == DTYPE_IQ4_XS) {
        block->bytes[0] = load_ints(rows, at + 4);
        block->bytes[1] = _mm256_srli_epi32(load_ints(rows, at), 16);
    }
}

// Byte n of each lane, with its sign or without, as a float.
INLINE __m256 byte_of(__m256i lanes, int n, bool is_signed) {
    lanes = _mm256_sll_epi32(lanes, _mm_cvtsi32_si128(24 - 8 * n));
    return _mm256_cvtepi32_ps(is_signed ? _mm256_srai_epi32(lanes, 24) : _mm256_srli_epi32(lanes, 24));
}

// The 6-bit scales of a group of IQ4_XS, less 32.
INLINE __m256 iq4_xs_scales(const __m256i bytes[2], int group) {
    const __m128i low_at = _mm_cvtsi32_si128(4 * group), high_at = _mm_cvtsi32_si128(2 * group);
    __m256i low = _mm256_and_si256(_mm256_srl_epi32(bytes[0], low_at), _mm256_set1_epi32(15));
    __m256i high = _mm256_and_si256(_mm256_srl_epi32(bytes[1], high_at), _mm256_set1_epi32(3));
    __m256i scale = _mm256_or_si256(low, _mm256_slli_epi32(high, 4));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(scale, _mm256_set1_epi32(32)));
}

// Of Q2_K, Q3_K and Q6_K: scales, and minimums, of sixteen columns each.
INLINE void half_scales(DType type, const BlockScales *block, int group, Scales *s) {
    for (int i = 0; i < 2; i++) {
        __m256i bytes = block->bytes[group / 2];
        int n = group % 2 * 2 + i;
        if (type == DTYPE_Q2_K) {
            __m256 min = byte_of(low_nibbles(_mm256_srli_epi32(bytes, 4)), n, false);
            s->min[i] = _mm256_xor_ps(_mm256_mul_ps(block->min, min), _mm256_set1_ps(-0.0f));
            bytes = low_nibbles(bytes);
        }
        __m256 scale = byte_of(bytes, n, type == DTYPE_Q6_K);
        if (type == DTYPE_Q3_K) scale = _mm256_sub_ps(scale, _mm256_set1_ps(32));
        s->scale[i] = _mm256_mul_ps(block->scale, scale);
    }
}

INLINE Scales group_scales(DType type, const BlockScales *block, int group) {
    Scales s = {{block->scale, block->scale}, {block->min, block->min}};
    if (type == DTYPE_Q4_K || type == DTYPE_Q5_K) {
        __m256 min = _mm256_mul_ps(block->min, byte_of(block->bytes[2 + group / 4], group % 4, false));
        s.scale[0] = _mm256_mul_ps(block->scale, byte_of(block->bytes[group / 4], group % 4, false));
        s.scale[1] = s.scale[0];
        s.min[0] = s.min[1] = _mm256_xor_ps(min, _mm256_set1_ps(-0.0f));
    } else if (type == DTYPE_Q2_K || type == DTYPE_Q3_K || type == DTYPE_Q6_K) {
        half_scales(type, block, group, &s);
    } else if (type == DTYPE_IQ4_XS) {
        s.scale[0] = s.scale[1] = _mm256_mul_ps(block->scale, iq4_xs_scales(block->bytes, group));
    }
    return s;
}

#endif
#endif
