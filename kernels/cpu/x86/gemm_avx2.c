// GEMMs of quantised weights with quantised activations.
//
// Eight rows of W are computed together, a lane each. For a group of 32 columns the products of elements are summed as
// integers, exactly; then  y += (scale·x.scale)·sum  and  y += min·x.sum  in float, group after group. Two
// loops share that order, so that their results are equal bit by bit:
//  - for one row of activations, straight from the file's blocks: eight dot products a group, then a
//    transposing sum;
//  - for more, the eight rows are unpacked once into a panel where four columns of each row lie together, and
//    four rows of activations at a time pass over it: a broadcast of four activations meets all eight rows.
//
// Where the processor has AVX-VNNI or AVX512-VNNI, four products and their sum are one instruction, which takes W
// unsigned: see unsigned_traits(). With AVX-512 blocks_avx512.c has several rows of activations.
#include "kernels/cpu/x86/groups_avx2.h"

#ifdef __AVX2__
#define TOKENS 4                // rows of activations that pass over a panel together
#define WHOLE 12                // rows: parts of them fill the tiles of every loop
#define WIDE_FROM 4             // so many rows of activations are worth a panel of floats
#define BLOCK_BYTES (256 << 10) // of activations, which stay in a core's cache while panels change

// One group of eight rows. q[j] holds columns 4j..4j+3 of rows 0..7. As stored: the format's unsigned
// integers, of which `offset` must be subtracted (see Traits), or signed ones (Q8_0).
typedef struct PanelGroup {
    __m256i q[ROWS];
    __m256 scale[2], min[2];
} PanelGroup;

// ---- one row of activations ---------------------------------------------------------------------------

// What the float part of a group adds to y; at: of the activations' groups, row after row.
INLINE __m256 add_group(Traits traits, __m256 y, Scales w, HalfSums sums, const Activations *x, int64_t at) {
    const __m256 *scale = w.scale;
    __m256i a = sums.a, b = sums.b;
    __m256 x_scale = _mm256_broadcast_ss(x->scale + at);
    if (traits.two_scales) {
        a = _mm256_sub_epi32(a, _mm256_set1_epi32(traits.offset * x->sums[at * 2]));
        b = _mm256_sub_epi32(b, _mm256_set1_epi32(traits.offset * x->sums[at * 2 + 1]));
        y = _mm256_fmadd_ps(_mm256_mul_ps(scale[0], x_scale), _mm256_cvtepi32_ps(a), y);
        y = _mm256_fmadd_ps(_mm256_mul_ps(scale[1], x_scale), _mm256_cvtepi32_ps(b), y);
        for (int i = 0; i < 2 && traits.has_min; i++)
            y = _mm256_fmadd_ps(_mm256_mul_ps(w.min[i], x_scale), _mm256_set1_ps((float)x->sums[at * 2 + i]),
                                y);
        return y;
    }
    a = _mm256_add_epi32(a, b);
    if (traits.offset)
        a = _mm256_sub_epi32(a, _mm256_set1_epi32(traits.offset * (x->sums[at * 2] + x->sums[at * 2 + 1])));
    y = _mm256_fmadd_ps(_mm256_mul_ps(scale[0], x_scale), _mm256_cvtepi32_ps(a), y);
    return traits.has_min ? _mm256_fmadd_ps(w.min[0], _mm256_broadcast_ss(x->sum + at), y) : y;
}

// The same for formats of sixteen bytes of nibbles, two rows to a vector: lane r of the result is row r's sum.
INLINE __m256i nibble_sums(W8Dot dot, DType type, const uint8_t *const rows[ROWS], int64_t at,
                           const int8_t *x) {
    const __m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)x));
    const __m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(x + 16)));
    const __m256i ones = _mm256_set1_epi16(1), bias = _mm256_set1_epi8(-128);
    const bool negative = traits_of(type).sums == 0; // signed integers, whose pairs fill 16 bits
    __m256i p[4];
    for (int r = 0; r < 4; r++) {
        __m256i v = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)(rows[r + 4] + at)),
                                     _mm_loadu_si128((const __m128i *)(rows[r] + at)));
        __m256i first = low_nibbles(v), second = low_nibbles(_mm256_srli_epi16(v, 4));
        if (has_book(type)) first = looked_up(type, first), second = looked_up(type, second);
        if (dot != W8_PAIRS) {
            if (negative) first = _mm256_xor_si256(first, bias), second = _mm256_xor_si256(second, bias);
            p[r] = vnni_products(dot, vnni_products(dot, _mm256_setzero_si256(), first, low), second, high);
            continue;
        }
        first = pair_products(negative, first, low), second = pair_products(negative, second, high);
        p[r] = negative ? _mm256_add_epi32(_mm256_madd_epi16(first, ones), _mm256_madd_epi16(second, ones))
                        : _mm256_madd_epi16(_mm256_add_epi16(first, second), ones);
    }
    return _mm256_hadd_epi32(_mm256_hadd_epi32(p[0], p[1]), _mm256_hadd_epi32(p[2], p[3]));
}

// The sums of a group of eight rows times 32 activations: see transposing_sums().
INLINE HalfSums group_sums(W8Dot dot, DType type, const uint8_t *const rows[ROWS], int64_t at, int group,
                           const int8_t *x) {
    if (type == DTYPE_Q4_0 || type == DTYPE_Q4_1 || has_book(type)) {
        int head = type == DTYPE_MXFP4    ? 1
                   : type == DTYPE_Q4_1   ? 4
                   : type == DTYPE_IQ4_XS ? 8 + 16 * group
                                          : 2;
        return (HalfSums){nibble_sums(dot, type, rows, at + head, x), _mm256_setzero_si256()};
    }
    __m256i q = load32((const uint8_t *)x), p[ROWS];
    for (int r = 0; r < ROWS; r++) {
        if (dot != W8_PAIRS) {
            __m256i w = unsigned_integers(type, rows[r] + at, group);
            p[r] = vnni_products(dot, _mm256_setzero_si256(), w, q);
            continue;
        }
        __m256i w = group_integers(type, rows[r] + at, group);
        p[r] = _mm256_madd_epi16(pair_products(traits_of(type).sums == 0, w, q), _mm256_set1_epi16(1));
    }
    return transposing_sums(p);
}

// Rows are often shorter than what a processor's prefetcher needs to find eight streams, so the loops ask for
// a group's share of the next eight rows themselves, `ahead` bytes further on.
INLINE void prefetch_rows(DType type, const uint8_t *row, int64_t ahead, int64_t group) {
    const int64_t bytes = ROWS * block_bytes_of(type) / groups_a_block(type);
    for (int64_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)row + ahead + group * bytes + i, _MM_HINT_T0);
}

INLINE Traits dot_traits(W8Dot dot, DType type) {
    return dot == W8_PAIRS ? traits_of(type) : unsigned_traits(type);
}

INLINE __m256 rows_times_one(W8Dot dot, DType type, const uint8_t *const rows[ROWS], const Activations *x,
                             int64_t row) {
    const Traits traits = dot_traits(dot, type);
    const int64_t ahead = ROWS * (rows[1] - rows[0]), groups = x->cols / QUANT_GROUP;
    const int8_t *q = x->q + row * x->cols;
    __m256 y = _mm256_setzero_ps();
    for (int64_t g = 0, at = 0; g < groups; at += block_bytes_of(type)) {
        BlockScales scales;
        load_scales(type, rows, at, &scales);
        for (int group = 0; group < groups_a_block(type); group++, g++) {
            prefetch_rows(type, rows[0], ahead, g);
            HalfSums sums = group_sums(dot, type, rows, at, group, q + g * QUANT_GROUP);
            Scales s = group_scales(type, &scales, group);
            y = add_group(traits, y, s, sums, x, row * groups + g);
        }
    }
    return y;
}

// ---- a panel, and several rows of activations ---------------------------------------------------------

INLINE void fill_panel(W8Dot dot, DType type, const uint8_t *const rows[ROWS], int64_t groups,
                       PanelGroup *panel) {
    const int64_t ahead = ROWS * (rows[1] - rows[0]);
    for (int64_t g = 0, at = 0; g < groups; at += block_bytes_of(type)) {
        BlockScales scales;
        load_scales(type, rows, at, &scales);
        for (int group = 0; group < groups_a_block(type); group++, g++) {
            __m256i q[ROWS];
            prefetch_rows(type, rows[0], ahead, g);
            for (int r = 0; r < ROWS; r++)
                q[r] = dot == W8_PAIRS ? group_integers(type, rows[r] + at, group)
                                       : unsigned_integers(type, rows[r] + at, group);
            transpose(q);
            Scales s = group_scales(type, &scales, group);
            for (int j = 0; j < ROWS; j++) panel[g].q[j] = q[j];
            panel[g].scale[0] = s.scale[0];
            panel[g].scale[1] = s.scale[1];
            panel[g].min[0] = s.min[0];
            panel[g].min[1] = s.min[1];
        }
    }
}

// A vector for each of four rows of activations: named ones, which stay in registers.
typedef struct Four {
    __m256i a, b, c, d;
} Four;

// Adds up the products of elements in columns [4*first, 4*end) of a group: pairs in 16 bits while they fit, then in 32.
INLINE Four sum_columns(W8Dot dot, Traits traits, const PanelGroup *w, const int8_t *const x[TOKENS],
                        int first, int end) {
    const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi16(1);
    const bool negative = traits.sums == 0; // signed integers, whose pairs fill 16 bits
    const int at_once = negative ? 1 : traits.sums;
    Four sums = {zero, zero, zero, zero}, pairs = sums;
#pragma GCC unroll 8
    for (int j = first; j < end; j++) {
        __m256i v = w->q[j];
        if (dot != W8_PAIRS) {
            sums.a = vnni_products(dot, sums.a, v, broadcast4(x[0] + 4 * j));
            sums.b = vnni_products(dot, sums.b, v, broadcast4(x[1] + 4 * j));
            sums.c = vnni_products(dot, sums.c, v, broadcast4(x[2] + 4 * j));
            sums.d = vnni_products(dot, sums.d, v, broadcast4(x[3] + 4 * j));
            continue;
        }
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
INLINE void panel_times(W8Dot dot, DType type, const PanelGroup *panel, const Activations *x,
                        const int64_t rows[TOKENS], __m256 y[TOKENS]) {
    const Traits traits = dot_traits(dot, type);
    const int8_t *q[TOKENS];
    __m256 y0 = _mm256_setzero_ps(), y1 = y0, y2 = y0, y3 = y0;
    for (int t = 0; t < TOKENS; t++) q[t] = x->q + rows[t] * x->cols;
    const int64_t groups = x->cols / QUANT_GROUP;
    for (int64_t g = 0; g < groups; g++, panel++) {
        const Scales s = {{panel->scale[0], panel->scale[1]}, {panel->min[0], panel->min[1]}};
        Four first = sum_columns(dot, traits, panel, q, 0, traits.two_scales ? 4 : 8), second = {0};
        if (traits.two_scales) second = sum_columns(dot, traits, panel, q, 4, 8);
        y0 = add_group(traits, y0, s, (HalfSums){first.a, second.a}, x, rows[0] * groups + g);
        y1 = add_group(traits, y1, s, (HalfSums){first.b, second.b}, x, rows[1] * groups + g);
        y2 = add_group(traits, y2, s, (HalfSums){first.c, second.c}, x, rows[2] * groups + g);
        y3 = add_group(traits, y3, s, (HalfSums){first.d, second.d}, x, rows[3] * groups + g);
        for (int t = 0; t < TOKENS; t++) q[t] += QUANT_GROUP;
    }
    y[0] = y0, y[1] = y1, y[2] = y2, y[3] = y3;
}

// ---- rows of a matrix ---------------------------------------------------------------------------------

// Eight rows of W, of which n_rows from `first` on are stored.
typedef struct EightRows {
    const uint8_t *rows[ROWS]; // beyond the last: that one again
    int64_t first;
    int n_rows;
} EightRows;

INLINE void eight_rows(W8Dot dot, DType type, const Gemm *p, const EightRows *w, int64_t token,
                       int64_t end_token, PanelGroup *panel) {
    const uint8_t *const *rows = w->rows;
    const int64_t first = w->first;
    const int n_rows = w->n_rows;
    __m256 y[TOKENS];
    if (end_token - token == 1) {
        store_rows(p, token, first, n_rows, rows_times_one(dot, type, rows, p->x, token));
        return;
    }
    fill_panel(dot, type, rows, p->x->cols / QUANT_GROUP, panel);
    for (; token < end_token; token += TOKENS) {
        int64_t left = end_token - token, tokens[TOKENS]; // beyond the last: that one again, not stored
        for (int t = 0; t < TOKENS; t++) tokens[t] = token + (t < left ? t : left - 1);
        panel_times(dot, type, panel, p->x, tokens, y);
        for (int t = 0; t < TOKENS && t < left; t++) store_rows(p, token + t, first, n_rows, y[t]);
    }
}

INLINE void gemm_rows(W8Dot dot, DType type, const Gemm *p, int64_t token, int64_t end_token,
                      PanelGroup *panel) {
    const uint8_t *data = p->w->data;
    int64_t row_bytes = dtype_row_bytes(type, p->w->cols);
    for (int64_t first = p->first; first < p->end; first += ROWS) {
        EightRows w = {.first = first, .n_rows = p->end - first < ROWS ? (int)(p->end - first) : ROWS};
        for (int r = 0; r < ROWS; r++)
            w.rows[r] = data + (first + (r < w.n_rows ? r : w.n_rows - 1)) * row_bytes;
        eight_rows(dot, type, p, &w, token, end_token, panel);
    }
}

// A function for each type and instruction, because all in one a compiler takes minutes over them.
#define GEMM_OF(type, dot)                                                                                   \
    static __attribute__((noinline)) void gemm_##type##_##dot(const Gemm *p, int64_t token, int64_t end,     \
                                                              void *panel) {                                 \
        gemm_rows(dot, DTYPE_##type, p, token, end, panel);                                                  \
    }
#define GEMMS_OF(type) GEMM_OF(type, W8_PAIRS) GEMM_OF(type, W8_VNNI) GEMM_OF(type, W8_VNNI_512)
FOR_EACH_BLOCK_TYPE(GEMMS_OF)

static void gemm_quantized(W8Dot dot, const Gemm *p, int64_t token, int64_t end, void *panel) {
#define CASES_OF(type)                                                                                       \
    case DTYPE_##type:                                                                                       \
        (dot == W8_VNNI       ? gemm_##type##_W8_VNNI                                                        \
         : dot == W8_VNNI_512 ? gemm_##type##_W8_VNNI_512                                                    \
                              : gemm_##type##_W8_PAIRS)(p, token, end, panel);                               \
        break;
    switch (p->w->type) {
        FOR_EACH_BLOCK_TYPE(CASES_OF)
    default: // none of these types: nobody asks
        break;
    }
}

int64_t avx2_gemm_scratch(int64_t cols) {
    const int64_t needs[] = {(cols / QUANT_GROUP + 1) * (int64_t)sizeof(PanelGroup),
                             avx512_gemm_scratch(cols), avx512_blocks_scratch(cols),
                             2 * fixed_panel_bytes(cols)};
    int64_t most = 0;
    for (int i = 0; i < 4; i++)
        if (needs[i] > most) most = needs[i];
    return most;
}

// ---- which loop, by the type of W ---------------------------------------------------------------------

static bool in_floats(DType type) {
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16 || type == DTYPE_E4M3 ||
           type == DTYPE_NF4;
}

// All rows that are asked for, of the activations [token, end).
typedef void PartOfGemm(Extras extras, const Gemm *p, int64_t token, int64_t end, void *scratch);

// As many activations at a time as stay in a core's cache, of which a number takes `bytes`.
static void in_blocks(PartOfGemm *part, int bytes, Extras extras, const Gemm *p, void *scratch) {
    const int64_t n = p->x->n, fit = BLOCK_BYTES / (p->x->cols * bytes) / WHOLE * WHOLE,
                  block = fit < 2 * WHOLE ? 2 * WHOLE : fit;
    for (int64_t t = 0; t < n; t += block) part(extras, p, t, t + block < n ? t + block : n, scratch);
}

static void part_of_fixed(Extras extras, const Gemm *p, int64_t token, int64_t end, void *scratch) {
    avx2_gemm_fixed(extras.dot, p, token, end, scratch);
}

static void part_of_floats(Extras extras, const Gemm *p, int64_t token, int64_t end, void *scratch) {
    (void)extras;
    avx2_gemm_float(p, token, end, scratch);
}

static void part_of_w8(Extras extras, const Gemm *p, int64_t token, int64_t end, void *scratch) {
    avx2_gemm_w8(extras.dot, p, token, end, scratch);
}

static void part_of_quantized(Extras extras, const Gemm *p, int64_t token, int64_t end, void *scratch) {
    if (extras.wide && extras.dot == W8_VNNI_512 && end - token > 1)
        avx512_gemm_blocks(p, token, end, scratch);
    else
        gemm_quantized(extras.dot, p, token, end, scratch);
}

// Those of AVX-512 have blocks of their own.
static void gemm_fixed(Extras extras, const Gemm *p, void *scratch) {
    if (extras.wide && extras.dot == W8_VNNI_512)
        avx512_gemm_fixed(p, 0, p->x->n, scratch);
    else
        in_blocks(part_of_fixed, sizeof(int16_t), extras, p, scratch);
}

static void gemm_floats(Extras extras, const Gemm *p, void *scratch) {
    if (extras.wide && p->x->n >= WIDE_FROM)
        avx512_gemm_float(p, 0, p->x->n, scratch);
    else
        in_blocks(part_of_floats, sizeof(float), extras, p, scratch);
}

void avx2_gemm(Extras extras, const Gemm *p, void *scratch) {
    if (gemm_is_fixed(p))
        gemm_fixed(extras, p, scratch);
    else if (in_floats(p->w->type))
        gemm_floats(extras, p, scratch);
    else if (p->w->type == DTYPE_W8)
        in_blocks(part_of_w8, sizeof(int8_t), extras, p, scratch);
    else
        in_blocks(part_of_quantized, sizeof(int8_t), extras, p, scratch);
}

#endif
