// Who has started this process as one of several: what mpirun and srun put into the environment.
//
//   Open MPI 4, 5    OMPI_COMM_WORLD_SIZE, _RANK, _LOCAL_SIZE; PMIX_NAMESPACE, the same for all processes of a start
//   MPICH, Intel     PMI_SIZE, PMI_RANK, MPI_LOCALNRANKS
//   srun             SLURM_STEP_NUM_TASKS, SLURM_PROCID, SLURM_STEP_NODELIST, SLURM_STEP_NUM_NODES; by --mpi=pmi2 also
//                    PMI_SIZE, PMI_RANK, PMI_JOBID, and by --mpi=pmix PMIX_RANK and PMIX_NAMESPACE
//
// mpirun inside a Slurm job starts a daemon on each host by srun, whose numbers its processes inherit: they count hosts.
#ifndef PALAVER_APP_RANKS_LAUNCHERS_H
#define PALAVER_APP_RANKS_LAUNCHERS_H

#include "kernels/base/status.h"

#include <stddef.h>

typedef struct Launched {
    int size, rank; // size 1: alone
    char join[280]; // HOST:PORT of rank 0; "": it cannot be known
} Launched;

// STATUS_USAGE: half of it is missing, it is no number, or it contradicts itself.
Status launchers_find(Launched *found, Error *error);

#endif
