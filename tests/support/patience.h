// How long tests wait for what ought to come. A limit is there so that a test of what never comes ends: it is generous for
// sanitized programs on a busy machine, and where programs are slower still, under an emulator, TEST_PATIENCE in the
// environment says how many times as long it is.
#ifndef PALAVER_TESTS_PATIENCE_H
#define PALAVER_TESTS_PATIENCE_H

#include <stdlib.h>

static inline int patience(int seconds) {
    const char *times = getenv("TEST_PATIENCE");
    const long n = times ? strtol(times, NULL, 10) : 1;
    return seconds * (n > 1 && n <= 1000 ? (int)n : 1);
}

#endif
