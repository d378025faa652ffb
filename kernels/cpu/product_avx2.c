// Products of quantised weights with quantised activations.
//
// Eight rows of W are computed together, a lane each. For a group of 32 columns the products are summed as
// integers, exactly; then  y += (scale·x.scale)·sum  and  y += min·x.sum  in float, group after group. Two
// loops share that order, so that their results are equal bit by bit:
//  - for one row of activations, straight from the file's blocks: eight dot products a group, then a
//    transposing sum;
//  - for more, the eight rows are unpacked once into a panel where four columns of each row lie together, and
//    four rows of activations at a time pass over it: a broadcast of four activations meets all eight rows.
#include "kernels/cpu/simd_avx2.h"

#ifdef __AVX2__
#include <string.h>

#define ROWS 8
#define TOKENS 4                // rows of activations that pass over a panel together
#define BLOCK_BYTES (256 << 10) // of activations that stay in a core's cache while panels change

// One group of eight rows. q[j] holds columns 4j..4j+3 of rows 0..7. As stored: the format's unsigned
// integers, of which `offset` must be subtracted (see Traits), or signed ones (Q8_0).
typedef struct PanelGroup {
    __m256i q[ROWS];
    __m256 scale[2], min;
} PanelGroup;

typedef struct Traits {
    int offset;      // what the format subtracts from its unsigned integers
    bool has_min;    // min is not zero
    bool two_scales; // one for each 16 columns
    int sums;        // how many products of pairs fit into 16 bits; 0: the integers are signed
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
    default:
        return (Traits){0, false, false, 0};
    }
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
    default:
        return 34;
    }
}

// ---- a group's integers
// ------------------------------------------------------------------------------------

INLINE __m256i low_nibbles(__m256i v) {
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

// Sixteen bytes: low halves, then high halves.
INLINE __m256i nibbles(const uint8_t *bytes) {
    __m128i v = _mm_loadu_si128((const __m128i *)bytes);
    return low_nibbles(_mm256_set_m128i(_mm_srli_epi16(v, 4), v));
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

INLINE __m256i load32(const uint8_t *bytes) {
    return _mm256_loadu_si256((const __m256i *)bytes);
}

INLINE __m256i shifted_right(__m256i v, int n) {
    return _mm256_srl_epi16(v, _mm_cvtsi32_si128(n));
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
    default:
        return load32(block + 2); // Q8_0
    }
}

// ---- a group's scales, a lane for each of eight rows
// ---------------------------------------------------------

typedef struct Scales {
    __m256 scale[2], min;
} Scales;

INLINE int32_t load_int(const uint8_t *bytes) {
    int32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

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

// The 6-bit scales and minimums of Q4_K and Q5_K for one group: see quant.c.
INLINE Scales k_scales(const uint8_t *const rows[ROWS], int64_t at, int group) {
    const __m256i four = _mm256_set1_epi32(15), six = _mm256_set1_epi32(63);
    __m128i shift = _mm_cvtsi32_si128(group % 4 * 8);
    __m256i first = _mm256_srl_epi32(load_ints(rows, at + 4), shift);
    __m256i second = _mm256_srl_epi32(load_ints(rows, at + 8), shift);
    __m256i scale = _mm256_and_si256(first, six), min = _mm256_and_si256(second, six);
    if (group >= 4) {
        __m256i third = _mm256_srl_epi32(load_ints(rows, at + 12), shift);
        const __m256i two = _mm256_set1_epi32(0x30);
        scale = _mm256_or_si256(_mm256_and_si256(third, four),
                                _mm256_and_si256(_mm256_srli_epi32(first, 2), two));
        min = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(third, 4), four),
                              _mm256_and_si256(_mm256_srli_epi32(second, 2), two));
    }
    Scales s;
    __m256 d, dmin;
    split_halves(load_ints(rows, at), &d, &dmin);
    s.scale[0] = s.scale[1] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(scale));
    s.min = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(min));
    s.min = _mm256_xor_ps(s.min, _mm256_set1_ps(-0.0f));
    return s;
}

INLINE Scales q6_k_scales(const uint8_t *const rows[ROWS], int64_t at, int group) {
    Scales s;
    __m256 unused, d;
    split_halves(load_ints(rows, at + 206), &unused, &d); // the last two bytes of a block
    __m256i pairs = load_ints(rows, at + 192 + group / 2 * 4);
    pairs = _mm256_sll_epi32(pairs, _mm_cvtsi32_si128(group % 2 ? 0 : 16));
    s.scale[0] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(pairs, 8), 24)));
    s.scale[1] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_srai_epi32(pairs, 24)));
    s.min = _mm256_setzero_ps();
    return s;
}

// `at`: bytes from a row's start to the block.
INLINE Scales group_scales(DType type, const uint8_t *const rows[ROWS], int64_t at, int group) {
    if (type == DTYPE_Q4_K || type == DTYPE_Q5_K) return k_scales(rows, at, group);
    if (type == DTYPE_Q6_K) return q6_k_scales(rows, at, group);
    Scales s;
    split_halves(load_ints(rows, at), &s.scale[0], &s.min); // min: of Q4_1 and Q5_1 only, else of no meaning
    s.scale[1] = s.scale[0];
    return s;
}

// ---- one row of activations
// ----------------------------------------------------------------------------------

// Sums over each half (16 columns) of eight vectors of eight partial sums: lane r of *a + *b is row r's.
INLINE void transposing_sums(const __m256i p[ROWS], __m256i *a, __m256i *b) {
    __m256i u = _mm256_hadd_epi32(_mm256_hadd_epi32(p[0], p[1]), _mm256_hadd_epi32(p[2], p[3]));
    __m256i v = _mm256_hadd_epi32(_mm256_hadd_epi32(p[4], p[5]), _mm256_hadd_epi32(p[6], p[7]));
    *a = _mm256_permute2x128_si256(u, v, 0x20);
    *b = _mm256_permute2x128_si256(u, v, 0x31);
}

INLINE __m256i pair_products(bool is_signed, __m256i w, __m256i x) {
    return is_signed ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                     : _mm256_maddubs_epi16(w, x);
}

// What the float part of a group adds to y.
INLINE __m256 add_group(Traits traits, __m256 y, const __m256 scale[2], __m256 min, __m256i a, __m256i b,
                        const Activations *x, int64_t row, int64_t group) {
    int64_t at = row * (x->cols / QUANT_GROUP) + group;
    __m256 x_scale = _mm256_broadcast_ss(x->scale + at);
    if (traits.two_scales) {
        a = _mm256_sub_epi32(a, _mm256_set1_epi32(traits.offset * x->sums[at * 2]));
        b = _mm256_sub_epi32(b, _mm256_set1_epi32(traits.offset * x->sums[at * 2 + 1]));
        y = _mm256_fmadd_ps(_mm256_mul_ps(scale[0], x_scale), _mm256_cvtepi32_ps(a), y);
        return _mm256_fmadd_ps(_mm256_mul_ps(scale[1], x_scale), _mm256_cvtepi32_ps(b), y);
    }
    a = _mm256_add_epi32(a, b);
    if (traits.offset)
        a = _mm256_sub_epi32(a, _mm256_set1_epi32(traits.offset * (x->sums[at * 2] + x->sums[at * 2 + 1])));
    y = _mm256_fmadd_ps(_mm256_mul_ps(scale[0], x_scale), _mm256_cvtepi32_ps(a), y);
    return traits.has_min ? _mm256_fmadd_ps(min, _mm256_broadcast_ss(x->sum + at), y) : y;
}

// Rows are often shorter than what a processor's prefetcher needs to find eight streams, so the loop asks for
// the next eight rows itself, `ahead` bytes further on.
INLINE __m256 rows_times_one(DType type, const uint8_t *const rows[ROWS], int64_t ahead, const Activations *x,
                             int64_t row) {
    const Traits traits = traits_of(type);
    const int64_t groups = x->cols / QUANT_GROUP, block_bytes = block_bytes_of(type);
    const int per_block = type >= DTYPE_Q4_K ? 8 : 1;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 y = _mm256_setzero_ps();
    for (int64_t g = 0; g < groups; g++) {
        int64_t at = g / per_block * block_bytes;
        int group = (int)(g % per_block);
        __m256i q = load32((const uint8_t *)x->q + row * x->cols + g * QUANT_GROUP), p[ROWS], a, b;
        const int group_bytes = (int)(ROWS * block_bytes / per_block);
        for (int i = 0; i < group_bytes; i += 64)
            _mm_prefetch((const char *)rows[0] + ahead + g * group_bytes + i, _MM_HINT_T0);
        for (int r = 0; r < ROWS; r++) {
            __m256i w = group_integers(type, rows[r] + at, group);
            p[r] = _mm256_madd_epi16(pair_products(traits.sums == 0, w, q), ones);
        }
        transposing_sums(p, &a, &b);
        Scales s = group_scales(type, rows, at, group);
        y = add_group(traits, y, s.scale, s.min, a, b, x, row, g);
    }
    return y;
}

// ---- a panel, and several rows of activations
// ------------------------------------------------------------------

// q[r] holds 32 columns of row r; becomes columns 4j..4j+3 of all rows at j.
INLINE void transpose(__m256i q[ROWS]) {
    __m256i t[ROWS], u[ROWS];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_epi32(q[2 * i], q[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_epi32(q[2 * i], q[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        u[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        u[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        q[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
        q[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
    }
}

INLINE void fill_panel(DType type, const uint8_t *const rows[ROWS], int64_t groups, PanelGroup *panel) {
    const int64_t block_bytes = block_bytes_of(type);
    const int per_block = type >= DTYPE_Q4_K ? 8 : 1;
    for (int64_t g = 0; g < groups; g++) {
        int64_t at = g / per_block * block_bytes;
        int group = (int)(g % per_block);
        __m256i q[ROWS];
        for (int r = 0; r < ROWS; r++) q[r] = group_integers(type, rows[r] + at, group);
        transpose(q);
        Scales s = group_scales(type, rows, at, group);
        for (int j = 0; j < ROWS; j++) panel[g].q[j] = q[j];
        panel[g].scale[0] = s.scale[0];
        panel[g].scale[1] = s.scale[1];
        panel[g].min = s.min;
    }
}

INLINE __m256i broadcast4(const int8_t *q) {
    return _mm256_set1_epi32(load_int((const uint8_t *)q));
}

// Keeps the compiler from turning a chain of sums into a tree, which needs more registers than there are.
INLINE __m256i kept(__m256i v) {
    __asm__("" : "+x"(v));
    return v;
}

// A vector for each of four rows of activations: named ones, which stay in registers.
typedef struct Four {
    __m256i a, b, c, d;
} Four;

// Adds up the products of columns [4*first, 4*end) of a group: pairs in 16 bits as long as they fit, then in 32.
INLINE Four sum_columns(Traits traits, const PanelGroup *w, const int8_t *const x[TOKENS], int first,
                        int end) {
    const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi16(1);
    const bool negative = traits.sums == 0; // signed integers, whose pairs fill 16 bits
    const int at_once = negative ? 1 : traits.sums;
    Four sums = {zero, zero, zero, zero}, pairs = sums;
#pragma GCC unroll 8
    for (int j = first; j < end; j++) {
        __m256i v = w->q[j];
        pairs.a = kept(_mm256_add_epi16(pairs.a, pair_products(negative, v, broadcast4(x[0] + 4 * j))));
        pairs.b = kept(_mm256_add_epi16(pairs.b, pair_products(negative, v, broadcast4(x[1] + 4 * j))));
        pairs.c = kept(_mm256_add_epi16(pairs.c, pair_products(negative, v, broadcast4(x[2] + 4 * j))));
        pairs.d = kept(_mm256_add_epi16(pairs.d, pair_products(negative, v, broadcast4(x[3] + 4 * j))));
        if ((j + 1) % at_once != 0) continue;
        sums.a = _mm256_add_epi32(sums.a, _mm256_madd_epi16(pairs.a, ones));
        sums.b = _mm256_add_epi32(sums.b, _mm256_madd_epi16(pairs.b, ones));
        sums.c = _mm256_add_epi32(sums.c, _mm256_madd_epi16(pairs.c, ones));
        sums.d = _mm256_add_epi32(sums.d, _mm256_madd_epi16(pairs.d, ones));
        pairs = (Four){zero, zero, zero, zero};
    }
    return sums;
}

// y[t] = the panel's eight rows times activations rows[t].
INLINE void panel_times(DType type, const PanelGroup *panel, const Activations *x, const int64_t rows[TOKENS],
                        __m256 y[TOKENS]) {
    const Traits traits = traits_of(type);
    const int8_t *q[TOKENS];
    __m256 y0 = _mm256_setzero_ps(), y1 = y0, y2 = y0, y3 = y0;
    for (int t = 0; t < TOKENS; t++) q[t] = x->q + rows[t] * x->cols;
    for (int64_t g = 0; g < x->cols / QUANT_GROUP; g++, panel++) {
        Four first = sum_columns(traits, panel, q, 0, traits.two_scales ? 4 : 8), second = {0};
        if (traits.two_scales) second = sum_columns(traits, panel, q, 4, 8);
        y0 = add_group(traits, y0, panel->scale, panel->min, first.a, second.a, x, rows[0], g);
        y1 = add_group(traits, y1, panel->scale, panel->min, first.b, second.b, x, rows[1], g);
        y2 = add_group(traits, y2, panel->scale, panel->min, first.c, second.c, x, rows[2], g);
        y3 = add_group(traits, y3, panel->scale, panel->min, first.d, second.d, x, rows[3], g);
        for (int t = 0; t < TOKENS; t++) q[t] += QUANT_GROUP;
    }
    y[0] = y0, y[1] = y1, y[2] = y2, y[3] = y3;
}

// ---- rows of a matrix
// ----------------------------------------------------------------------------------------

// Stores the first n_rows lanes.
INLINE void store_rows(const Product *p, int64_t token, int64_t first, int n_rows, __m256 lanes) {
    float *y = p->y + token * p->y_stride + first, values[ROWS];
    if (n_rows == ROWS) {
        if (p->add) lanes = _mm256_add_ps(_mm256_loadu_ps(y), lanes);
        _mm256_storeu_ps(y, lanes);
        return;
    }
    _mm256_storeu_ps(values, lanes);
    for (int r = 0; r < n_rows; r++) y[r] = p->add ? y[r] + values[r] : values[r];
}

INLINE void eight_rows(DType type, const Product *p, const uint8_t *const rows[ROWS], int64_t first,
                       int n_rows, int64_t token, int64_t end_token, PanelGroup *panel) {
    __m256 y[TOKENS];
    if (end_token - token == 1) {
        store_rows(p, token, first, n_rows,
                   rows_times_one(type, rows, ROWS * (rows[1] - rows[0]), p->x, token));
        return;
    }
    fill_panel(type, rows, p->x->cols / QUANT_GROUP, panel);
    for (; token < end_token; token += TOKENS) {
        int64_t left = end_token - token, tokens[TOKENS]; // beyond the last: that one again, not stored
        for (int t = 0; t < TOKENS; t++) tokens[t] = token + (t < left ? t : left - 1);
        panel_times(type, panel, p->x, tokens, y);
        for (int t = 0; t < TOKENS && t < left; t++) store_rows(p, token + t, first, n_rows, y[t]);
    }
}

INLINE void product_quantized(DType type, const Product *p, int64_t token, int64_t end_token,
                              PanelGroup *panel) {
    const uint8_t *data = p->w->data;
    int64_t row_bytes = dtype_row_bytes(type, p->w->cols);
    for (int64_t first = p->first; first < p->end; first += ROWS) {
        int n_rows = p->end - first < ROWS ? (int)(p->end - first) : ROWS;
        const uint8_t *rows[ROWS]; // beyond the last: that one again, not stored
        for (int r = 0; r < ROWS; r++) rows[r] = data + (first + (r < n_rows ? r : n_rows - 1)) * row_bytes;
        eight_rows(type, p, rows, first, n_rows, token, end_token, panel);
    }
}

int64_t avx2_product_scratch(int64_t cols) {
    int64_t floats = (cols + 7) / 8 * 8 * 4 * (int64_t)sizeof(float); // four rows for float_avx2.c
    int64_t panel = (cols / QUANT_GROUP + 1) * (int64_t)sizeof(PanelGroup);
    return floats > panel ? floats : panel;
}

void avx2_product(const Product *p, void *scratch) {
    int64_t n = p->x->n, row = p->x->cols * (p->x->quantized ? 1 : 4),
            block = BLOCK_BYTES / row / TOKENS * TOKENS;
    if (block < 4 * TOKENS) block = 4 * TOKENS;
    for (int64_t t = 0; t < n; t += block) {
        int64_t end = t + block < n ? t + block : n;
        switch (p->w->type) {
        case DTYPE_Q8_0:
            product_quantized(DTYPE_Q8_0, p, t, end, scratch);
            break;
        case DTYPE_Q4_0:
            product_quantized(DTYPE_Q4_0, p, t, end, scratch);
            break;
        case DTYPE_Q4_1:
            product_quantized(DTYPE_Q4_1, p, t, end, scratch);
            break;
        case DTYPE_Q5_0:
            product_quantized(DTYPE_Q5_0, p, t, end, scratch);
            break;
        case DTYPE_Q5_1:
            product_quantized(DTYPE_Q5_1, p, t, end, scratch);
            break;
        case DTYPE_Q4_K:
            product_quantized(DTYPE_Q4_K, p, t, end, scratch);
            break;
        case DTYPE_Q5_K:
            product_quantized(DTYPE_Q5_K, p, t, end, scratch);
            break;
        case DTYPE_Q6_K:
            product_quantized(DTYPE_Q6_K, p, t, end, scratch);
            break;
        default:
            avx2_product_float(p, t, end, scratch);
        }
    }
}

#endif
