// ALiBi's slope of a head (Press et al., arXiv:2108.12409): with n heads, the largest power of two m <= n, head h < m
// has 2^(-8(h+1)/m); where n is no power of two, the heads after them take every second slope of 2m heads.
#ifndef PALAVER_KERNELS_ALIBI_H
#define PALAVER_KERNELS_ALIBI_H

#include "kernels/philox.h" // PALAVER_SHARED

#include <math.h>

PALAVER_SHARED float alibi_slope(int head, int n_heads) {
    int m = 1;
    while (2 * m <= n_heads) m *= 2;
    double exponent = head < m ? -8.0 * (head + 1) / m : -4.0 * (2 * (head - m) + 1) / m;
    return (float)exp2(exponent);
}

#endif
