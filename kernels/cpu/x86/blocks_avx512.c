// GEMMs of quantised weights with several rows of quantised activations, by AVX512-VNNI: to the bits of gemm_avx2.c.
//
// Sixteen rows of W are unpacked once into a panel, a lane each, where four columns of every row lie together; eight rows
// of activations at a time pass over it. Four products of bytes and their sum are one instruction, which takes W
// unsigned: integers with a sign count from -128 here, which is taken off with the format's own offset. Sums of a group
// are exact, so that it does not matter how they came about, and are scaled and added up in the order of gemm_avx2.c.
#include "kernels/cpu/x86/groups_avx2.h"
#include "kernels/cpu/x86/simd_avx512.h"

#ifdef __AVX512F__

#define LANES 16
#define TOKENS 8 // rows of activations that pass over a panel together

// One group of sixteen rows. q[j] holds columns 4j..4j+3 of each.
typedef struct WideGroup {
    __m512i q[8];
    __m512 scale[2], min[2];
} WideGroup;

INLINE __m512i both_integers(__m256i low, __m256i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// Group `group` of the block at `at` in eight rows, into half a group.
INLINE Scales half_group(DType type, const uint8_t *const rows[ROWS], int64_t at, int group,
                         const BlockScales *scales, __m256i q[ROWS]) {
    for (int r = 0; r < ROWS; r++) q[r] = unsigned_integers(type, rows[r] + at, group);
    transpose(q);
    return group_scales(type, scales, group);
}

INLINE void fill_panel_of(DType type, const uint8_t *const rows[LANES], int64_t groups, WideGroup *panel) {
    const int64_t ahead = LANES * (rows[1] - rows[0]),
                  bytes = LANES * block_bytes_of(type) / groups_a_block(type);
    for (int64_t g = 0, at = 0; g < groups; at += block_bytes_of(type)) {
        BlockScales scales[2];
        load_scales(type, rows, at, &scales[0]);
        load_scales(type, rows + ROWS, at, &scales[1]);
        for (int group = 0; group < groups_a_block(type); group++, g++, panel++) {
            __m256i low[ROWS], high[ROWS];
            for (int64_t i = 0; i < bytes; i += 64)
                _mm_prefetch((const char *)rows[0] + ahead + g * bytes + i, _MM_HINT_T0);
            const Scales a = half_group(type, rows, at, group, &scales[0], low),
                         b = half_group(type, rows + ROWS, at, group, &scales[1], high);
            for (int j = 0; j < ROWS; j++) panel->q[j] = both_integers(low[j], high[j]);
            for (int i = 0; i < 2; i++) {
                panel->scale[i] = both_halves(a.scale[i], b.scale[i]);
                panel->min[i] = both_halves(a.min[i], b.min[i]);
            }
        }
    }
}

// acc + the four products of each lane with the four activations at x.
INLINE __m512i dot_products(__m512i acc, __m512i w, const int8_t *x) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const int32_t(*)[1])(const void *)x));
    return acc;
}

// Sums of columns [4·first, 4·end) of a group for n rows of activations, less what `offset` added to each.
INLINE void sum_columns(const WideGroup *w, int n, const int8_t *const x[TOKENS], int first, int end,
                        __m512i sums[TOKENS]) {
#pragma GCC unroll 8
    for (int j = first; j < end; j++) {
        const __m512i v = w->q[j];
        for (int t = 0; t < n; t++) sums[t] = dot_products(sums[t], v, x[t] + 4 * j);
    }
}

// y + what a group's sums give; at: of the activations' groups. As add_group() of gemm_avx2.c.
INLINE __m512 add_group(Traits traits, __m512 y, const WideGroup *w, __m512i first, __m512i second,
                        const Activations *x, int64_t at) {
    const __m512 x_scale = _mm512_set1_ps(x->scale[at]);
    y = _mm512_fmadd_ps(_mm512_mul_ps(w->scale[0], x_scale), _mm512_cvtepi32_ps(first), y);
    if (!traits.two_scales)
        return traits.has_min ? _mm512_fmadd_ps(w->min[0], _mm512_set1_ps(x->sum[at]), y) : y;
    y = _mm512_fmadd_ps(_mm512_mul_ps(w->scale[1], x_scale), _mm512_cvtepi32_ps(second), y);
    for (int i = 0; i < 2 && traits.has_min; i++)
        y = _mm512_fmadd_ps(_mm512_mul_ps(w->min[i], x_scale), _mm512_set1_ps((float)x->sums[at * 2 + i]), y);
    return y;
}

// y[t] = the panel's sixteen rows times activations rows[t], n of them.
INLINE void panel_times(DType type, int n, const WideGroup *w, const Activations *x,
                        const int64_t rows[TOKENS], __m512 y[TOKENS]) {
    const Traits traits = unsigned_traits(type);
    const int64_t groups = x->cols / QUANT_GROUP;
    const int8_t *q[TOKENS];
    for (int t = 0; t < n; t++) q[t] = x->q + rows[t] * x->cols, y[t] = _mm512_setzero_ps();
    for (int64_t g = 0; g < groups; g++, w++) {
        __m512i first[TOKENS], second[TOKENS];
        for (int t = 0; t < n; t++) {
            const int16_t *sums = x->sums + (rows[t] * groups + g) * 2;
            first[t] = _mm512_set1_epi32(-traits.offset * (traits.two_scales ? sums[0] : sums[0] + sums[1]));
            second[t] = _mm512_set1_epi32(-traits.offset * sums[1]);
        }
        sum_columns(w, n, q, 0, traits.two_scales ? 4 : 8, first);
        if (traits.two_scales) sum_columns(w, n, q, 4, 8, second);
        for (int t = 0; t < n; t++) {
            y[t] = add_group(traits, y[t], w, first[t], second[t], x, rows[t] * groups + g);
            q[t] += QUANT_GROUP;
        }
    }
}

// Sixteen rows of W, of which n_rows from `first` on are stored.
typedef struct WideRows {
    const uint8_t *rows[LANES]; // beyond the last: that one again
    int64_t first;
    int n_rows;
} WideRows;

INLINE void some_tokens(DType type, int n, const Gemm *p, const WideRows *w, const WideGroup *panel,
                        int64_t token, int64_t end) {
    const __mmask16 lanes = (__mmask16)((1u << w->n_rows) - 1);
    int64_t tokens[TOKENS]; // beyond the last: that one again, not stored
    __m512 y[TOKENS];
    for (int t = 0; t < n; t++) tokens[t] = token + t < end ? token + t : end - 1;
    panel_times(type, n, panel, p->x, tokens, y);
    for (int t = 0; t < n && token + t < end; t++) {
        float *to = gemm_row(p, token + t) + w->first;
        if (p->add) y[t] = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, to), y[t]);
        _mm512_mask_storeu_ps(to, lanes, y[t]);
    }
}

INLINE void gemm_blocks(DType type, const Gemm *p, int64_t token, int64_t end, WideGroup *panel) {
    const uint8_t *data = p->w->data;
    const int64_t row_bytes = dtype_row_bytes(type, p->w->cols);
    for (int64_t first = p->first; first < p->end; first += LANES) {
        WideRows w = {.first = first, .n_rows = p->end - first < LANES ? (int)(p->end - first) : LANES};
        for (int r = 0; r < LANES; r++)
            w.rows[r] = data + (first + (r < w.n_rows ? r : w.n_rows - 1)) * row_bytes;
        fill_panel_of(type, w.rows, p->x->cols / QUANT_GROUP, panel);
        int64_t t = token;
        for (; end - t > TOKENS / 2; t += TOKENS) some_tokens(type, TOKENS, p, &w, panel, t, end);
        if (t < end) some_tokens(type, TOKENS / 2, p, &w, panel, t, end);
    }
}

bool avx512_has_blocks(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni");
}

int64_t avx512_blocks_scratch(int64_t cols) {
    return cols / QUANT_GROUP * (int64_t)sizeof(WideGroup);
}

#define GEMM_OF(name)                                                                                        \
    case DTYPE_##name:                                                                                       \
        gemm_blocks(DTYPE_##name, p, token, end, scratch);                                                   \
        break;

void avx512_gemm_blocks(const Gemm *p, int64_t token, int64_t end, void *scratch) {
    switch (p->w->type) {
        FOR_EACH_BLOCK_TYPE(GEMM_OF)
    default: // none of these types: nobody asks
        break;
    }
}

#else

bool avx512_has_blocks(void) {
    return false;
}

int64_t avx512_blocks_scratch(int64_t cols) {
    (void)cols;
    return 0;
}

// Never called: avx512_has_blocks() is false then.
void avx512_gemm_blocks(const Gemm *p, int64_t token, int64_t end, void *scratch) {
    (void)p, (void)token, (void)end, (void)scratch;
}

#endif
