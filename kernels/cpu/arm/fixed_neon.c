#include "kernels/cpu/arm/fixed_neon.h"

#ifdef __aarch64__
#include <string.h>

#define FOURS (FIXED_ROWS / 4) // rows of a panel, four to a register

// y + what a group of sixteen rows gives with a group of activations.
static void add_group(const int16_t *w, const uint8_t *exponents, const int16_t *q, float scale,
                      float32x4_t y[FOURS]) {
    int32x4_t low[FOURS], high[FOURS]; // of rows 0 and 1, 2 and 3 of each four: a column's sum in every lane
    for (int r = 0; r < FOURS; r++) low[r] = high[r] = vdupq_n_s32(0);
    for (int j = 0; j < FIXED_GROUP / 2; j++, w += 2 * FIXED_ROWS, q += 2) {
        int32_t pair;
        memcpy(&pair, q, sizeof pair);
        const int16x8_t x = vreinterpretq_s16_s32(vdupq_n_s32(pair));
        for (int r = 0; r < FOURS; r++) {
            const int16x8_t v = vld1q_s16(w + 8 * r);
            low[r] = vmlal_s16(low[r], vget_low_s16(v), vget_low_s16(x));
            high[r] = vmlal_high_s16(high[r], v, x);
        }
    }
    for (int r = 0; r < FOURS; r++) {
        uint32_t bits[4];
        for (int i = 0; i < 4; i++) bits[i] = (uint32_t)exponents[4 * r + i] << 23;
        const float32x4_t by = vmulq_n_f32(vreinterpretq_f32_u32(vld1q_u32(bits)), scale);
        y[r] = vfmaq_f32(y[r], vcvtq_f32_s32(vpaddq_s32(low[r], high[r])), by);
    }
}

void neon_gemm_fixed(const Gemm *p, void *scratch) {
    const int64_t cols = p->w->cols, groups = fixed_groups(cols);
    for (int64_t number = p->first / FIXED_ROWS; number * FIXED_ROWS < p->end; number++) {
        const char *panel = fixed_find(p->w, number);
        if (!panel) fixed_fill(p->w, number, scratch), panel = scratch;
        const int16_t *w = (const int16_t *)(const void *)panel;
        const uint8_t *exponents = (const uint8_t *)panel + fixed_exponents(cols);
        const int64_t row = number * FIXED_ROWS, first = p->first > row ? p->first - row : 0,
                      end = p->end - row < FIXED_ROWS ? p->end - row : FIXED_ROWS;
        for (int64_t t = 0; t < p->x->n; t++) {
            float32x4_t y[FOURS];
            float values[FIXED_ROWS], *to = gemm_row(p, t) + row;
            for (int r = 0; r < FOURS; r++) y[r] = vdupq_n_f32(0);
            for (int64_t g = 0; g < groups; g++)
                add_group(w + g * FIXED_ROWS * FIXED_GROUP, exponents + g * FIXED_ROWS,
                          p->x->fixed + (t * groups + g) * FIXED_GROUP, p->x->fixed_scale[t * groups + g], y);
            for (int r = 0; r < FOURS; r++) vst1q_f32(values + 4 * r, y[r]);
            for (int64_t r = first; r < end; r++) to[r] = p->add ? to[r] + values[r] : values[r];
        }
    }
}

#endif
