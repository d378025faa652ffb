// A pool of threads for short parallel loops.
//
// A decoded token is some hundred loops of 10 to 100 µs, so a worker waits for the next one by spinning
// for a moment before it sleeps: a loop starts in well under a microsecond, and an idle prompt costs nothing.
#ifndef PALAVER_KERNELS_BASE_MACHINE_THREADS_H
#define PALAVER_KERNELS_BASE_MACHINE_THREADS_H

#include "kernels/base/status.h"

#include <stdint.h>

typedef struct Threads Threads;

// One part of a loop: `part` in [0, n_parts), run on thread `thread` in [0, n_threads).
typedef void (*ThreadsTask)(void *context, int64_t part, int thread);

#define MAX_THREADS 512

// Cores that this process may use: its affinity mask, and its control group's CPU quota rounded up.
int threads_available(void);

// n_threads in 1..MAX_THREADS, the caller's own counted.
Status threads_open(int n_threads, Threads **threads, Error *error);
void threads_close(Threads *threads); // NULL is fine

int threads_count(const Threads *threads);

// Runs task for each part and returns when all are done. Parts are taken in order by whichever thread is
// free. One caller at a time.
void threads_run(Threads *threads, int64_t n_parts, ThreadsTask task, void *context);

#endif
