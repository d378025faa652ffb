// Products of fixed.h by AVX512-VNNI: sixteen rows to a register. Two panels by six rows of activations keep twelve sums
// of integers at work, and what they add up to, group after group, in registers as well. One row of activations reads
// panel after panel, in the order of memory, and is as fast as that.
#include "kernels/cpu/loops/fixed.h"
#include "kernels/cpu/x86/simd_avx512.h"

#ifdef __AVX512F__

#define PANELS 2
#define TOKENS 6
#define CHAINS 4                // of sums of one row of activations
#define BLOCK_BYTES (512 << 10) // of activations, which stay in a core's second cache while panels change
#define BYTES_AHEAD 2048

// Panels of the same groups of columns.
typedef struct Panels {
    const char *panel[PANELS];
    int64_t groups, exponents; // where these begin
    int64_t row;               // the first panel's first
} Panels;

INLINE __m512i pairs_of(const Panels *w, int r, int64_t at) {
    return _mm512_loadu_si512(w->panel[r] + 64 * at);
}

// acc + the two products of each lane.
INLINE __m512i pair_sums(__m512i acc, __m512i w, __m512i x) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x));
    return acc;
}

INLINE __m512i both_activations(const int16_t *q) {
    int32_t pair;
    __builtin_memcpy(&pair, q, sizeof pair);
    return _mm512_set1_epi32(pair);
}

INLINE __m512 scales_of(const Panels *w, int r, int64_t group) {
    const __m128i bytes =
        _mm_loadu_si128((const __m128i *)(const void *)(w->panel[r] + w->exponents + group * FIXED_ROWS));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes), 23));
}

INLINE void store_sums(const Gemm *p, int64_t token, int64_t row, __m512 y) {
    const int64_t skip = p->first > row ? p->first - row : 0, end = p->end - row;
    const __mmask16 lanes = (__mmask16)((end < FIXED_ROWS ? (1u << end) - 1 : 0xffff) & ~((1u << skip) - 1));
    float *to = gemm_row(p, token) + row;
    if (p->add) y = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, to), y);
    _mm512_mask_storeu_ps(to, lanes, y);
}

// `panels` panels by n tokens from `token` on, of which those from `end` on are the last one again, not stored.
INLINE void some_tokens(int panels, int n, const Gemm *p, const Panels *w, int64_t token, int64_t end) {
    const int64_t stride = w->groups * FIXED_GROUP;
    const int16_t *q[TOKENS];
    const float *scale[TOKENS];
    __m512 y[PANELS][TOKENS];
    for (int t = 0; t < n; t++) {
        const int64_t at = token + t < end ? token + t : end - 1;
        q[t] = p->x->fixed + at * stride, scale[t] = p->x->fixed_scale + at * w->groups;
        for (int r = 0; r < panels; r++) y[r][t] = _mm512_setzero_ps();
    }
    for (int64_t g = 0; g < w->groups; g++) {
        __m512i sums[PANELS][TOKENS];
        for (int t = 0; t < n; t++)
            for (int r = 0; r < panels; r++) sums[r][t] = _mm512_setzero_si512();
#pragma GCC unroll 16
        for (int j = 0; j < FIXED_GROUP / 2; j++) {
            __m512i v[PANELS];
            for (int r = 0; r < panels; r++) v[r] = pairs_of(w, r, g * (FIXED_GROUP / 2) + j);
            for (int t = 0; t < n; t++) {
                const __m512i x = both_activations(q[t] + g * FIXED_GROUP + 2 * j);
                for (int r = 0; r < panels; r++) sums[r][t] = pair_sums(sums[r][t], v[r], x);
            }
        }
        for (int r = 0; r < panels; r++) {
            const __m512 scales = scales_of(w, r, g);
            for (int t = 0; t < n; t++)
                y[r][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r][t]),
                                          _mm512_mul_ps(scales, _mm512_set1_ps(scale[t][g])), y[r][t]);
        }
    }
    for (int t = 0; t < n && token + t < end; t++)
        for (int r = 0; r < panels; r++) store_sums(p, token + t, w->row + r * FIXED_ROWS, y[r][t]);
}

INLINE void one_token(const Gemm *p, const Panels *w, int64_t token) {
    const int16_t *q = p->x->fixed + token * w->groups * FIXED_GROUP;
    const float *scale = p->x->fixed_scale + token * w->groups;
    __m512 y = _mm512_setzero_ps();
    for (int64_t g = 0; g < w->groups; g++, q += FIXED_GROUP) {
        __m512i sums[CHAINS];
        for (int i = 0; i < CHAINS; i++) sums[i] = _mm512_setzero_si512();
#pragma GCC unroll 16
        for (int j = 0; j < FIXED_GROUP / 2; j++) {
            const int64_t at = g * (FIXED_GROUP / 2) + j;
            _mm_prefetch(w->panel[0] + 64 * at + BYTES_AHEAD, _MM_HINT_T1);
            sums[j % CHAINS] = pair_sums(sums[j % CHAINS], pairs_of(w, 0, at), both_activations(q + 2 * j));
        }
        const __m512i sum =
            _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]), _mm512_add_epi32(sums[2], sums[3]));
        y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum),
                            _mm512_mul_ps(scales_of(w, 0, g), _mm512_set1_ps(scale[g])), y);
    }
    store_sums(p, token, w->row, y);
}

INLINE void all_tokens(int panels, const Gemm *p, const Panels *w, int64_t token, int64_t end) {
    for (; end - token > TOKENS / 2; token += TOKENS) some_tokens(panels, TOKENS, p, w, token, end);
    if (token < end) some_tokens(panels, TOKENS / 2, p, w, token, end);
}

static __attribute__((noinline)) void two_panels(const Gemm *p, const Panels *w, int64_t token, int64_t end) {
    all_tokens(2, p, w, token, end);
}

static __attribute__((noinline)) void one_panel(const Gemm *p, const Panels *w, int64_t token, int64_t end) {
    if (end - token == 1)
        one_token(p, w, token);
    else
        all_tokens(1, p, w, token, end);
}

// Panels [first, end) for a block of tokens.
static void block_times_panels(const Gemm *p, int64_t token, int64_t end_token, char *scratch) {
    const int64_t cols = p->w->cols, bytes = fixed_panel_bytes(cols),
                  end = (p->end + FIXED_ROWS - 1) / FIXED_ROWS;
    Panels w = {.groups = fixed_groups(cols), .exponents = fixed_exponents(cols)};
    for (int64_t number = p->first / FIXED_ROWS, n; number < end; number += n) {
        n = end_token - token > 1 && end - number >= PANELS ? PANELS : 1;
        w.row = number * FIXED_ROWS;
        for (int r = 0; r < n; r++) {
            w.panel[r] = fixed_find(p->w, number + r);
            if (w.panel[r]) continue;
            avx2_fixed_fill(p->w, number + r, scratch + r * bytes);
            w.panel[r] = scratch + r * bytes;
        }
        if (n == PANELS)
            two_panels(p, &w, token, end_token);
        else
            one_panel(p, &w, token, end_token);
    }
}

void avx512_gemm_fixed(const Gemm *p, int64_t token, int64_t end, void *scratch) {
    const int64_t n = end - token, bytes = n * fixed_stride(p->w->cols) * (int64_t)sizeof(int16_t),
                  n_blocks = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES,
                  block = ((n + n_blocks - 1) / n_blocks + TOKENS - 1) / TOKENS * TOKENS;
    for (int64_t t = token; t < end; t += block)
        block_times_panels(p, t, t + block < end ? t + block : end, scratch);
}

#else

// Never called: avx512_has_blocks() is false then.
void avx512_gemm_fixed(const Gemm *p, int64_t token, int64_t end, void *scratch) {
    (void)p, (void)token, (void)end, (void)scratch;
}

#endif
