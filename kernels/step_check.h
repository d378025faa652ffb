// What every backend's begin() refuses: of a step as the host has it, before anything of it is taken over.
#ifndef PALAVER_KERNELS_STEP_CHECK_H
#define PALAVER_KERNELS_STEP_CHECK_H

#include "kernels/base/status.h"
#include "kernels/step.h"

#ifdef __cplusplus
extern "C" {
#endif

// STATUS_DEVICE says which token or sequence is wrong, and how. Not asked for: what only the cache's slot_positions tell.
Status step_check(const DecoderShape *shape, int max_tokens, const Step *step, Error *error);

#ifdef __cplusplus
}
#endif
#endif
