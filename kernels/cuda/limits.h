// A smaller card than the one at hand, so that its paths can be tried there. The environment variable
// PALAVER_CUDA_LIMITS has any of
//
//   compute=86,smem=99k,sms=46,memory=8G
//
// compute: the capability times ten whose row of dispatch_features() counts, one without anything that the card has
// not. Code for Hopper ("sm_90a") is refused any other: where its own kernels do what the portable ones could, those are
// left out of it, so that a plug-in of compute_80's code is wanted, translated for Hopper: CUDA_ARCH='-gencode
// arch=compute_80,code=sm_90'. smem: bytes of shared memory a block; sms: multiprocessors; memory: bytes of the device. k, M
// and G are powers of 1,024.
#ifndef PALAVER_KERNELS_CUDA_LIMITS_H
#define PALAVER_KERNELS_CUDA_LIMITS_H

#include "kernels/base/status.h"
#include "kernels/cuda/dispatch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LIMITS_VARIABLE "PALAVER_CUDA_LIMITS"

typedef struct CardLimits {
    int compute, n_sms;
    int64_t shared, memory; // bytes
} CardLimits;               // 0: as the card has it

// NULL and "": no limits. What is not understood is STATUS_USAGE.
Status limits_read(const char *text, CardLimits *limits, Error *error);

// The card with its limits; STATUS_USAGE where it has less than they say.
Status limits_apply(const CardLimits *limits, Card *card, Error *error);

#ifdef __cplusplus
}
#endif
#endif
