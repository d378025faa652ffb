// What a thread does between two looks at something that is to change at once.
#ifndef PALAVER_BASE_SPIN_H
#define PALAVER_BASE_SPIN_H

#include <sched.h>

static inline void spin_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    sched_yield();
#endif
}

#endif
