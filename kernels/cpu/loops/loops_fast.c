// Which set of loops a machine gets: compiled for any machine, as what asks must be.
#include "kernels/cpu/loops/loops.h"

#if defined(__x86_64__)
#include <cpuid.h>

const Loops *loops_fast(void) {
    unsigned a, b, c, d;
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? loops_avx2() : NULL;
}

#else

const Loops *loops_fast(void) {
    const Loops *with_sdot = loops_neon(true);
    return with_sdot ? with_sdot : loops_neon(false);
}

#endif
