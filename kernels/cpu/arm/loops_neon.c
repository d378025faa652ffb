// The fast loops for 64-bit Arm: GEMMs with NEON, products of bytes by sdot where the processor has it; the rest is the
// plain loops'. Every element is computed in the order of the AVX2 loops, to the same bits.
//
// Four rows of W are computed together, a lane each, from rows that are unpacked once for all activations.
#include "kernels/cpu/arm/fixed_neon.h"
#include "kernels/cpu/loops/reference.h"

#ifdef __aarch64__
#include <arm_neon.h>
#include <string.h>
#include <sys/auxv.h>

#define INLINE static inline __attribute__((always_inline))
#define ROWS 4
#define HAS_SDOT (1ul << 20) // AT_HWCAP: ASIMDDP

// Four rows of W, of which n from `first` on are stored.
typedef struct Rows {
    const uint8_t *row[ROWS]; // beyond the last: that one again
    int64_t first;
    int n;
} Rows;

INLINE Rows find_rows(const Gemm *p, int64_t first) {
    const int64_t row_bytes = dtype_row_bytes(p->w->type, p->w->cols);
    Rows rows = {.first = first, .n = p->end - first < ROWS ? (int)(p->end - first) : ROWS};
    for (int r = 0; r < ROWS; r++)
        rows.row[r] = (const uint8_t *)p->w->data + (first + (r < rows.n ? r : rows.n - 1)) * row_bytes;
    return rows;
}

INLINE void store_rows(const Gemm *p, const Rows *rows, int64_t token, float32x4_t lanes) {
    float *y = gemm_row(p, token) + rows->first, values[ROWS];
    vst1q_f32(values, lanes);
    for (int r = 0; r < rows->n; r++) y[r] = p->add ? y[r] + values[r] : values[r];
}

// acc + the sixteen products of w and x, four to a lane. Without sdot two products of bytes, of which x is never -128,
// fit in 16 bits.
INLINE int32x4_t dot_products(bool sdot, int32x4_t acc, int8x16_t w, int8x16_t x) {
    if (sdot) {
        __asm__(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(w), "w"(x));
        return acc;
    }
    int16x8_t pairs = vmull_s8(vget_low_s8(w), vget_low_s8(x));
    return vpadalq_s16(acc, vmlal_high_s8(pairs, w, x));
}

// Lane r: the sum of p[r].
INLINE int32x4_t sum_rows(const int32x4_t p[ROWS]) {
    return vpaddq_s32(vpaddq_s32(p[0], p[1]), vpaddq_s32(p[2], p[3]));
}

// ---- quantised weights and activations: see x86/gemm_avx2.c -------------------------------------------

// A group of four rows.
typedef struct PanelGroup {
    int8_t q[ROWS][QUANT_GROUP];
    float scale[2][ROWS], min[2][ROWS];
} PanelGroup;

typedef struct Traits {
    bool two_scales, has_min;
} Traits;

static Traits traits_of(DType type) {
    return (Traits){.two_scales = type == DTYPE_Q6_K || type == DTYPE_Q2_K || type == DTYPE_Q3_K,
                    .has_min = type == DTYPE_Q4_1 || type == DTYPE_Q5_1 || type == DTYPE_Q4_K ||
                               type == DTYPE_Q5_K || type == DTYPE_Q2_K};
}

static void fill_panel(DType type, const Rows *rows, int64_t groups, PanelGroup *panel) {
    for (int64_t g = 0; g < groups; g++)
        for (int r = 0; r < ROWS; r++) {
            QuantGroup group;
            quant_unpack(type, rows->row[r], g, &group);
            memcpy(panel[g].q[r], group.q, QUANT_GROUP);
            for (int i = 0; i < 2; i++)
                panel[g].scale[i][r] = group.scale[i], panel[g].min[i][r] = group.min[i];
        }
}

// y + a group of four rows times its activations, `at` of all groups of the rows of activations.
INLINE float32x4_t add_group(bool sdot, Traits traits, float32x4_t y, const PanelGroup *w,
                             const Activations *x, int64_t at) {
    const int8x16_t low = vld1q_s8(x->q + at * QUANT_GROUP), high = vld1q_s8(x->q + at * QUANT_GROUP + 16);
    const float32x4_t x_scale = vdupq_n_f32(x->scale[at]), scale = vmulq_f32(vld1q_f32(w->scale[0]), x_scale);
    int32x4_t sums[ROWS], others[ROWS];
    for (int r = 0; r < ROWS; r++) {
        sums[r] = dot_products(sdot, vdupq_n_s32(0), vld1q_s8(w->q[r]), low);
        others[r] =
            dot_products(sdot, traits.two_scales ? vdupq_n_s32(0) : sums[r], vld1q_s8(w->q[r] + 16), high);
    }
    if (!traits.two_scales) {
        y = vfmaq_f32(y, scale, vcvtq_f32_s32(sum_rows(others)));
        return traits.has_min ? vfmaq_f32(y, vld1q_f32(w->min[0]), vdupq_n_f32(x->sum[at])) : y;
    }
    y = vfmaq_f32(y, scale, vcvtq_f32_s32(sum_rows(sums)));
    y = vfmaq_f32(y, vmulq_f32(vld1q_f32(w->scale[1]), x_scale), vcvtq_f32_s32(sum_rows(others)));
    for (int i = 0; i < 2 && traits.has_min; i++)
        y = vfmaq_f32(y, vmulq_f32(vld1q_f32(w->min[i]), x_scale), vdupq_n_f32((float)x->sums[at * 2 + i]));
    return y;
}

INLINE void gemm_quantized(bool sdot, const Gemm *p, PanelGroup *panel) {
    const Traits traits = traits_of(p->w->type);
    const int64_t groups = p->w->cols / QUANT_GROUP;
    for (int64_t first = p->first; first < p->end; first += ROWS) {
        const Rows rows = find_rows(p, first);
        fill_panel(p->w->type, &rows, groups, panel);
        for (int64_t t = 0; t < p->x->n; t++) {
            float32x4_t y = vdupq_n_f32(0);
            for (int64_t g = 0; g < groups; g++)
                y = add_group(sdot, traits, y, &panel[g], p->x, t * groups + g);
            store_rows(p, &rows, t, y);
        }
    }
}

// ---- DTYPE_W8: see x86/w8_avx2.c ----------------------------------------------------------------------

INLINE void gemm_w8(bool sdot, const Gemm *p) {
    const int64_t at = w8_scale_offset(p->w->cols), stride = w8_stride(p->w->cols);
    for (int64_t first = p->first; first < p->end; first += ROWS) {
        const Rows rows = find_rows(p, first);
        float scales[ROWS];
        for (int r = 0; r < ROWS; r++) memcpy(&scales[r], rows.row[r] + at, sizeof *scales);
        for (int64_t t = 0; t < p->x->n; t++) {
            int32x4_t acc[ROWS] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
            for (int64_t i = 0; i < at; i += 16) {
                const int8x16_t x = vld1q_s8(p->x->w8 + t * stride + i);
                for (int r = 0; r < ROWS; r++)
                    acc[r] = dot_products(sdot, acc[r], vld1q_s8((const int8_t *)rows.row[r] + i), x);
            }
            float32x4_t y = vmulq_n_f32(vcvtq_f32_s32(sum_rows(acc)), p->x->w8_scale[t].scale);
            store_rows(p, &rows, t, vmulq_f32(y, vld1q_f32(scales)));
        }
    }
}

// ---- float weights: see x86/float_avx2.c --------------------------------------------------------------

// Eight columns; a row's sums are eight interleaved ones.
typedef struct Eight {
    float32x4_t low, high;
} Eight;

INLINE Eight load_eight(const float *x) {
    return (Eight){vld1q_f32(x), vld1q_f32(x + 4)};
}

static void unpack_row(DType type, const uint8_t *row, int64_t cols, float *y) {
    int64_t i = 0;
    for (; type == DTYPE_F16 && i + 4 <= cols; i += 4)
        vst1q_f32(y + i, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(row + 2 * i))));
    for (; type == DTYPE_BF16 && i + 4 <= cols; i += 4)
        vst1q_u32((uint32_t *)(void *)(y + i), vshll_n_u16(vreinterpret_u16_u8(vld1_u8(row + 2 * i)), 16));
    quant_load(type, row, i, cols - i, y + i);
    for (i = cols; i % 8 != 0; i++) y[i] = 0;
}

INLINE float32x4_t rows_times(const float *w, const float *x, int64_t cols) {
    const int64_t padded = (cols + 7) / 8 * 8;
    Eight acc[ROWS];
    for (int r = 0; r < ROWS; r++) acc[r] = (Eight){vdupq_n_f32(0), vdupq_n_f32(0)};
    for (int64_t i = 0; i < cols; i += 8) {
        float rest[8] = {0};
        if (i + 8 > cols) memcpy(rest, x + i, (size_t)(cols - i) * sizeof *x);
        const Eight v = load_eight(i + 8 > cols ? rest : x + i);
        for (int r = 0; r < ROWS; r++) {
            const Eight row = load_eight(w + r * padded + i);
            acc[r].low = vfmaq_f32(acc[r].low, row.low, v.low);
            acc[r].high = vfmaq_f32(acc[r].high, row.high, v.high);
        }
    }
    float32x4_t low = vpaddq_f32(vpaddq_f32(acc[0].low, acc[1].low), vpaddq_f32(acc[2].low, acc[3].low));
    float32x4_t high = vpaddq_f32(vpaddq_f32(acc[0].high, acc[1].high), vpaddq_f32(acc[2].high, acc[3].high));
    return vaddq_f32(low, high);
}

static void gemm_float(const Gemm *p, float *panel) {
    const int64_t cols = p->w->cols, padded = (cols + 7) / 8 * 8;
    for (int64_t first = p->first; first < p->end; first += ROWS) {
        const Rows rows = find_rows(p, first);
        for (int r = 0; r < ROWS; r++) unpack_row(p->w->type, rows.row[r], cols, panel + r * padded);
        for (int64_t t = 0; t < p->x->n; t++)
            store_rows(p, &rows, t, rows_times(panel, gemm_input(p) + t * cols, cols));
    }
}

// ---- the table ----------------------------------------------------------------------------------------

static int64_t gemm_scratch(int64_t cols) {
    int64_t floats = (cols + 7) / 8 * 8 * ROWS * (int64_t)sizeof(float);
    int64_t panel = (cols / QUANT_GROUP + 1) * (int64_t)sizeof(PanelGroup);
    const int64_t most = floats > panel ? floats : panel, fixed = fixed_panel_bytes(cols);
    return most > fixed ? most : fixed;
}

static void gemm_with_sdot(const Gemm *p, void *scratch) {
    if (p->w->type == DTYPE_W8)
        gemm_w8(true, p);
    else if (quant_is_type(p->w->type))
        gemm_quantized(true, p, scratch);
    else if (gemm_is_fixed(p))
        neon_gemm_fixed(p, scratch);
    else
        gemm_float(p, scratch);
}

static void gemm_with_neon(const Gemm *p, void *scratch) {
    if (p->w->type == DTYPE_W8)
        gemm_w8(false, p);
    else if (quant_is_type(p->w->type))
        gemm_quantized(false, p, scratch);
    else if (gemm_is_fixed(p))
        neon_gemm_fixed(p, scratch);
    else
        gemm_float(p, scratch);
}

#define LOOPS_WITH(called, multiply)                                                                         \
    {                                                                                                        \
        .name = (called), .quantized_activations = true, .rms_norm = reference_rms_norm,                     \
        .layer_norm = reference_layer_norm, .quantize = quant_store_row, .quantize_fixed = fixed_quantize,   \
        .fill_fixed = fixed_fill, .quantize_w8 = reference_quantize_w8, .activate = reference_activate,      \
        .xielu = reference_xielu, .recur = reference_recur, .to_half = reference_to_half,                    \
        .gemm = (multiply), .gemm_scratch = gemm_scratch, .attend_rows = 8, .attend = reference_attend,      \
        .attend_scratch = reference_attend_scratch,                                                          \
    }

const Loops *loops_neon(bool sdot) {
    static const Loops SDOT = LOOPS_WITH("NEON with sdot", gemm_with_sdot),
                       NEON = LOOPS_WITH("NEON", gemm_with_neon);
    if (!sdot) return &NEON;
    return getauxval(AT_HWCAP) & HAS_SDOT ? &SDOT : NULL;
}

#else

const Loops *loops_neon(bool sdot) {
    (void)sdot;
    return NULL;
}

#endif
