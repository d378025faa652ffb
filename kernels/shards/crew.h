// A thread for each of several devices, of which the caller's is the first: what a device was opened by stays its own.
#ifndef PALAVER_KERNELS_SHARDS_CREW_H
#define PALAVER_KERNELS_SHARDS_CREW_H

#include "kernels/base/status.h"

typedef struct Crew Crew;

// One thread's share, of rank 0 … n-1.
typedef Status (*CrewTask)(void *context, int rank, Error *error);

Status crew_open(int n, Crew **crew, Error *error);
void crew_close(Crew *crew); // NULL is fine

// Runs the task on all threads at once and returns when all are done: OK, or what the first rank that failed says. That a
// rank cannot do it (STATUS_UNSUPPORTED) counts least.
Status crew_run(Crew *crew, CrewTask task, void *context, Error *error);

#endif
