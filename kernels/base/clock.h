// Time for measuring, from an arbitrary beginning, that never goes back.
#ifndef PALAVER_BASE_CLOCK_H
#define PALAVER_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline double clock_seconds(void) {
    return 1e-9 * (double)clock_nanoseconds();
}

#endif
