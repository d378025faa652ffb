// What a plug-in may lack that was built for a first talk (FIRST in the Makefile): kernels for weights of formats that the
// default model has none of, W8 and FP8, for experts, for latents, for caches that are not in f16, and most decoding kernels.
// What launches them is declared so that it is NULL where it was not linked. Nothing goes another, slower way on the
// device for that: a model or a cache that needs them is refused.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_BUILT_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_BUILT_CUH

#include "kernels/ops.h"

#define MAY_LACK __attribute__((weak))

// Whether such a launcher is there. The compiler holds a template's address for one of something in spite of the above:
// it is not to see where this one comes from.
template <class Launch> inline bool is_built(Launch *launch) {
    asm("" : "+r"(launch));
    return launch;
}

// The error of that; `what` the plug-in has no kernels for.
inline Status built_lacks(const char *what, Error *error) {
    return error_set(error, STATUS_DEVICE,
                     "the CUDA plug-in was built for a first talk, without kernels for %s: make builds all",
                     what);
}

#endif
