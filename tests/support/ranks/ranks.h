// Ranks other than 0, as threads of this process, on the CPU.
#ifndef PALAVER_TESTS_RANKS_H
#define PALAVER_TESTS_RANKS_H

#include "engine/engine.h"

#include <pthread.h>

enum { RANKS_MOST = 4 };

typedef struct Ranks {
    int n; // with rank 0
    char address[64];
    pthread_t threads[RANKS_MOST];
    struct RanksOne {
        EngineOptions options;
        Status status;
        Error error;
    } ones[RANKS_MOST];
} Ranks;

// Begins to serve a model (a folder or a file) with n - 1 threads, each on a device (NULL: rank 0's); `options` gets what
// rank 0 is to be opened with.
void ranks_begin(Ranks *ranks, const char *model, int n, const char *device, EngineOptions *options);
// Once rank 0 is closed, or was not opened. Each has ended well.
void ranks_end(Ranks *ranks);

// An address of this host at which nobody listens.
void ranks_address(char address[64]);

#endif
