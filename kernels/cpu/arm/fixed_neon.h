// Products of fixed.h with NEON: sixteen rows of a panel at a time, four to a register and two columns of each, which a
// multiplication widens to sums of their own until a group is over.
#ifndef PALAVER_KERNELS_CPU_ARM_FIXED_NEON_H
#define PALAVER_KERNELS_CPU_ARM_FIXED_NEON_H

#include "kernels/cpu/loops/loops.h"

#ifdef __aarch64__
#include <arm_neon.h>

// All rows and activations of a product; scratch: a panel.
void neon_gemm_fixed(const Gemm *gemm, void *scratch);

#endif
#endif
