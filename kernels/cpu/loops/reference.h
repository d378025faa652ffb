// The plain loops that other sets take where they have none of their own: see Loops.
#ifndef PALAVER_KERNELS_CPU_LOOPS_REFERENCE_H
#define PALAVER_KERNELS_CPU_LOOPS_REFERENCE_H

#include "kernels/cpu/loops/loops.h"

void reference_rms_norm(const float *x, const float *w, int64_t n, float eps, float *y);
void reference_layer_norm(const float *x, const float *w, const float *b, int64_t n, float eps, float *y);
W8Scale reference_quantize_w8(const float *x, int64_t n, int8_t *q);
void reference_activate(Activation activation, float *g, const float *u, int64_t n);
void reference_xielu(const Xielu *by, float *g, int64_t n);
void reference_recur(const RecurToken *token);
void reference_to_half(const float *x, int64_t n, uint16_t *half);
void reference_attend(const AttendTile *tile, void *scratch);
int64_t reference_attend_scratch(int n_rows, int head_dim);

#endif
