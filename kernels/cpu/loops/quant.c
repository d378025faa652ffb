#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <string.h>

bool quant_is_type(DType type) {
    return type >= DTYPE_Q8_0 && type <= DTYPE_MXFP4;
}

// ---- half precision -----------------------------------------------------------------------------------

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float quant_from_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0) return float_of_bits(sign | 0x3f800000u) * (float)fraction * 0x1p-24f;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t quant_to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000) return sign | 0x7e00;
    if (size >= 0x477ff000) return sign | 0x7c00; // 65520 and more round to infinity
    if (size <
        0x38800000) // below the smallest normal half, 2^-14: let a float addition round to units of 2^-24
        return sign | (uint16_t)(fabsf(value) * 0x1p24f + 0x1p23f - 0x1p23f);
    return sign | (uint16_t)((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

uint16_t quant_to_bfloat(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float half_at(const uint8_t *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return quant_from_half(half);
}

// ---- block formats ------------------------------------------------------------------------------------

#define NO_MINIMUM (-0.0f) // adding it changes nothing, not even the sign of a zero

// Q8_0: f16 scale, int8 q[32].
static void unpack_q8_0(const uint8_t *block, QuantGroup *out) {
    out->scale[0] = out->scale[1] = half_at(block);
    out->min[0] = out->min[1] = NO_MINIMUM;
    memcpy(out->q, block + 2, QUANT_GROUP);
}

// The four low bits of element i are byte i's low half, of element i + 16 its high half.
static void unpack_nibbles(const uint8_t *bytes, int offset, QuantGroup *out) {
    for (int i = 0; i < 16; i++) {
        out->q[i] = (int8_t)((bytes[i] & 15) - offset);
        out->q[i + 16] = (int8_t)((bytes[i] >> 4) - offset);
    }
}

// The fifth bit of element i is bit i of 32.
static void unpack_fifth_bits(const uint8_t *bytes, QuantGroup *out) {
    for (int i = 0; i < QUANT_GROUP; i++) out->q[i] = (int8_t)(out->q[i] + 16 * (bytes[i / 8] >> i % 8 & 1));
}

// Q4_0: f16 scale, nibbles[16]; q - 8.
static void unpack_q4_0(const uint8_t *block, QuantGroup *out) {
    out->scale[0] = out->scale[1] = half_at(block);
    out->min[0] = out->min[1] = NO_MINIMUM;
    unpack_nibbles(block + 2, 8, out);
}

// Q4_1: f16 scale, f16 minimum, nibbles[16].
static void unpack_q4_1(const uint8_t *block, QuantGroup *out) {
    out->scale[0] = out->scale[1] = half_at(block);
    out->min[0] = out->min[1] = half_at(block + 2);
    unpack_nibbles(block + 4, 0, out);
}

// Q5_0: f16 scale, fifth bits[4], nibbles[16]; q - 16.
static void unpack_q5_0(const uint8_t *block, QuantGroup *out) {
    out->scale[0] = out->scale[1] = half_at(block);
    out->min[0] = out->min[1] = NO_MINIMUM;
    unpack_nibbles(block + 6, 16, out);
    unpack_fifth_bits(block + 2, out);
}

// Q5_1: f16 scale, f16 minimum, fifth bits[4], nibbles[16].
static void unpack_q5_1(const uint8_t *block, QuantGroup *out) {
    out->scale[0] = out->scale[1] = half_at(block);
    out->min[0] = out->min[1] = half_at(block + 2);
    unpack_nibbles(block + 8, 0, out);
    unpack_fifth_bits(block + 4, out);
}

// Q4_K and Q5_K: eight 6-bit scales and minimums in 12 bytes. Those of groups 0..3 are the low six bits of
// bytes 0..3 and 4..7; groups 4..7 have their low four bits in bytes 8..11, the high two in the bytes before.
static void unpack_k_scales(const uint8_t *block, int64_t group, QuantGroup *out) {
    const uint8_t *s = block + 4;
    int scale, min;
    if (group < 4) {
        scale = s[group] & 63;
        min = s[group + 4] & 63;
    } else {
        scale = (s[group + 4] & 15) | s[group - 4] >> 6 << 4;
        min = s[group + 4] >> 4 | s[group] >> 6 << 4;
    }
    out->scale[0] = out->scale[1] = half_at(block) * (float)scale;
    out->min[0] = out->min[1] = -(half_at(block + 2) * (float)min);
}

// Groups 2i and 2i + 1 share 32 bytes: the low and the high halves.
static void unpack_k_nibbles(const uint8_t *bytes, int64_t group, QuantGroup *out) {
    const uint8_t *nibbles = bytes + group / 2 * QUANT_GROUP;
    for (int i = 0; i < QUANT_GROUP; i++) out->q[i] = (int8_t)(nibbles[i] >> group % 2 * 4 & 15);
}

// Q4_K: f16 scale of scales, f16 scale of minimums, scales[12], nibbles[128].
static void unpack_q4_k(const uint8_t *block, int64_t group, QuantGroup *out) {
    unpack_k_scales(block, group, out);
    unpack_k_nibbles(block + 16, group, out);
}

// Q5_K: as Q4_K, with fifth bits[32] before the nibbles: bit g of byte i belongs to element i of group g.
static void unpack_q5_k(const uint8_t *block, int64_t group, QuantGroup *out) {
    unpack_k_scales(block, group, out);
    unpack_k_nibbles(block + 48, group, out);
    for (int i = 0; i < QUANT_GROUP; i++) out->q[i] = (int8_t)(out->q[i] + 16 * (block[16 + i] >> group & 1));
}

// Q6_K: low nibbles[128], high bits[64], int8 scales[16], f16 scale of scales; q - 32. Each half of 128
// elements has 64 bytes of nibbles, low halves first, and 32 bytes of two high bits for its four groups.
static void unpack_q6_k(const uint8_t *block, int64_t group, QuantGroup *out) {
    const uint8_t *low = block + group / 4 * 64 + group % 2 * 32, *high = block + 128 + group / 4 * 32;
    int low_shift = group % 4 / 2 * 4, high_shift = group % 4 * 2;
    float scale = half_at(block + 208);
    for (int i = 0; i < 2; i++) out->scale[i] = scale * (float)(int8_t)block[192 + group * 2 + i];
    out->min[0] = out->min[1] = NO_MINIMUM;
    for (int i = 0; i < QUANT_GROUP; i++)
        out->q[i] = (int8_t)(((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
}

// Two bits of each element: each half of 128 has 32 bytes for its four groups, the first in the lowest bits.
static void unpack_k_pairs(const uint8_t *bytes, int64_t group, QuantGroup *out) {
    const uint8_t *pairs = bytes + group / 4 * 32;
    for (int i = 0; i < QUANT_GROUP; i++) out->q[i] = (int8_t)(pairs[i] >> group % 4 * 2 & 3);
}

// Q2_K: scales[16] (low half the scale, high half the minimum of 16 elements), pairs of bits[64], f16 scale of scales,
// f16 scale of minimums.
static void unpack_q2_k(const uint8_t *block, int64_t group, QuantGroup *out) {
    float scale = half_at(block + 80), min = half_at(block + 82);
    for (int i = 0; i < 2; i++) {
        uint8_t both = block[group * 2 + i];
        out->scale[i] = scale * (float)(both & 15);
        out->min[i] = -(min * (float)(both >> 4));
    }
    unpack_k_pairs(block + 16, group, out);
}

// Q3_K: third bits[32], pairs of bits[64], scales[12], f16 scale of scales; q - 4. Bit g of byte i is element i's of
// group g. Sixteen 6-bit scales, less 32: the low four bits of scale j are in byte j % 8, low halves first, the high two
// in byte 8 + j % 4, lowest bits first.
static void unpack_q3_k(const uint8_t *block, int64_t group, QuantGroup *out) {
    const uint8_t *s = block + 96;
    float scale = half_at(block + 108);
    for (int i = 0; i < 2; i++) {
        int64_t j = group * 2 + i;
        int low = s[j % 8] >> j / 8 * 4 & 15, high = s[8 + j % 4] >> j / 4 * 2 & 3;
        out->scale[i] = scale * (float)((low | high << 4) - 32);
    }
    out->min[0] = out->min[1] = NO_MINIMUM;
    unpack_k_pairs(block + 32, group, out);
    for (int i = 0; i < QUANT_GROUP; i++) out->q[i] = (int8_t)(out->q[i] + 4 * (block[i] >> group & 1) - 4);
}

const int8_t QUANT_IQ4_BOOK[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int8_t QUANT_FP4_BOOK[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void look_up(const int8_t book[16], const uint8_t *nibbles, QuantGroup *out) {
    unpack_nibbles(nibbles, 0, out);
    for (int i = 0; i < QUANT_GROUP; i++) out->q[i] = book[out->q[i]];
}

// IQ4_NL: f16 scale, nibbles[16].
static void unpack_iq4_nl(const uint8_t *block, QuantGroup *out) {
    out->scale[0] = out->scale[1] = half_at(block);
    out->min[0] = out->min[1] = NO_MINIMUM;
    look_up(QUANT_IQ4_BOOK, block + 2, out);
}

// IQ4_XS: f16 scale of scales, high bits of scales[2], low halves of scales[4], nibbles[128], sixteen bytes a group.
// Eight 6-bit scales, less 32.
static void unpack_iq4_xs(const uint8_t *block, int64_t group, QuantGroup *out) {
    int high = (block[2] | block[3] << 8) >> group * 2 & 3, low = block[4 + group / 2] >> group % 2 * 4 & 15;
    out->scale[0] = out->scale[1] = half_at(block) * (float)((low | high << 4) - 32);
    out->min[0] = out->min[1] = NO_MINIMUM;
    look_up(QUANT_IQ4_BOOK, block + 8 + group * 16, out);
}

// MXFP4: exponent, nibbles[16]. The scale is 2^(exponent - 128): half of what the format's standard says, as the
// codebook's entries are twice.
static void unpack_mxfp4(const uint8_t *block, QuantGroup *out) {
    uint32_t exponent = block[0];
    out->scale[0] = out->scale[1] =
        float_of_bits(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
    out->min[0] = out->min[1] = NO_MINIMUM;
    look_up(QUANT_FP4_BOOK, block + 1, out);
}

void quant_unpack(DType type, const void *row, int64_t group, QuantGroup *out) {
    int64_t groups_per_block = dtype_block_size(type) / QUANT_GROUP;
    const uint8_t *block = (const uint8_t *)row + group / groups_per_block * dtype_block_bytes(type);
    group %= groups_per_block;
    switch (type) {
    case DTYPE_Q8_0:
        unpack_q8_0(block, out);
        break;
    case DTYPE_Q4_0:
        unpack_q4_0(block, out);
        break;
    case DTYPE_Q4_1:
        unpack_q4_1(block, out);
        break;
    case DTYPE_Q5_0:
        unpack_q5_0(block, out);
        break;
    case DTYPE_Q5_1:
        unpack_q5_1(block, out);
        break;
    case DTYPE_Q4_K:
        unpack_q4_k(block, group, out);
        break;
    case DTYPE_Q5_K:
        unpack_q5_k(block, group, out);
        break;
    case DTYPE_Q6_K:
        unpack_q6_k(block, group, out);
        break;
    case DTYPE_Q2_K:
        unpack_q2_k(block, group, out);
        break;
    case DTYPE_Q3_K:
        unpack_q3_k(block, group, out);
        break;
    case DTYPE_IQ4_NL:
        unpack_iq4_nl(block, out);
        break;
    case DTYPE_IQ4_XS:
        unpack_iq4_xs(block, group, out);
        break;
    case DTYPE_MXFP4:
        unpack_mxfp4(block, out);
        break;
    default:
        memset(out, 0, sizeof *out);
    }
}

// ---- rows ---------------------------------------------------------------------------------------------

float quant_from_e4m3(uint8_t code) {
    const uint32_t size = code & 127, sign = (uint32_t)(code & 128) << 24;
    if (size == 127) return float_of_bits(sign | 0x7fc00000u);
    return float_of_bits(sign | size << 20) * 0x1p120f; // whose exponent counts from 7, a float's from 127
}

static void load_e4m3(const uint8_t *row, int64_t first, int64_t n, float *values) {
    const int64_t size = dtype_block_size(DTYPE_E4M3), bytes = dtype_block_bytes(DTYPE_E4M3);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *block = row + (first + i) / size * bytes;
        float scale;
        memcpy(&scale, block, sizeof scale);
        values[i] = quant_from_e4m3(block[sizeof scale + (size_t)((first + i) % size)]) * scale;
    }
}

const float QUANT_NF4_BOOK[16] = {-1.0f,           -0x1.647362p-1f, -0x1.0cd66p-1f,  -0x1.94654p-2f,
                                  -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0.0f,
                                  0x1.45f5fep-4f,  0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,
                                  0x1.c3497p-2f,   0x1.200f56p-1f,  0x1.722766p-1f,  1.0f};

static void load_nf4(const uint8_t *row, int64_t first, int64_t n, float *values) {
    const int64_t size = dtype_block_size(DTYPE_NF4), bytes = dtype_block_bytes(DTYPE_NF4);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *block = row + (first + i) / size * bytes;
        const int64_t in = (first + i) % size;
        float scale;
        memcpy(&scale, block, sizeof scale);
        values[i] = QUANT_NF4_BOOK[block[4 + in / 2] >> in % 2 * 4 & 15] * scale;
    }
}

static void load_groups(DType type, const void *row, int64_t first, int64_t n, float *values) {
    for (int64_t i = 0; i < n; i += QUANT_GROUP) {
        QuantGroup group;
        quant_unpack(type, row, (first + i) / QUANT_GROUP, &group);
        for (int j = 0; j < QUANT_GROUP; j++)
            values[i + j] = group.scale[j / 16] * (float)group.q[j] + group.min[j / 16];
    }
}

void quant_load(DType type, const void *row, int64_t first, int64_t n, float *values) {
    const uint8_t *bytes = row;
    if (type == DTYPE_F32) {
        memcpy(values, bytes + first * 4, (size_t)n * 4);
    } else if (type == DTYPE_F16) {
        for (int64_t i = 0; i < n; i++) values[i] = half_at(bytes + (first + i) * 2);
    } else if (type == DTYPE_BF16) {
        for (int64_t i = 0; i < n; i++) {
            uint16_t bits;
            memcpy(&bits, bytes + (first + i) * 2, sizeof bits);
            values[i] = float_of_bits((uint32_t)bits << 16);
        }
    } else if (type == DTYPE_E4M3) {
        load_e4m3(bytes, first, n, values);
    } else if (type == DTYPE_NF4) {
        load_nf4(bytes, first, n, values);
    } else {
        load_groups(type, row, first, n, values);
    }
}

static void quantize_group(const float *x, int64_t group, const QuantRow *out) {
    int8_t *q = out->q + group * QUANT_GROUP;
    float largest = 0;
    bool finite = true;
    for (int i = 0; i < QUANT_GROUP; i++) {
        finite = finite && isfinite(x[i]);
        largest = fmaxf(largest, fabsf(x[i]));
    }
    float inverse = finite && largest > QUANT_TINY ? 127 / largest : 0;
    int sums[2] = {0, 0};
    for (int i = 0; i < QUANT_GROUP; i++) {
        q[i] = (int8_t)(finite ? rintf(x[i] * inverse) : 0);
        sums[i / 16] += q[i];
    }
    out->scale[group] = finite ? largest / 127 : NAN;
    out->sum[group] = out->scale[group] * (float)(sums[0] + sums[1]);
    for (int i = 0; i < 2; i++) out->sums[group * 2 + i] = (int16_t)sums[i];
}

void quant_store_row(const float *x, int64_t n, const QuantRow *out) {
    for (int64_t group = 0; group < n / QUANT_GROUP; group++)
        quantize_group(x + group * QUANT_GROUP, group, out);
}
