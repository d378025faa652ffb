// Time for measuring: seconds from an arbitrary beginning that never go back.
#ifndef PALAVER_BASE_CLOCK_H
#define PALAVER_BASE_CLOCK_H

#include <time.h>

static inline double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
