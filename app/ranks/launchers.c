#include "app/ranks/launchers.h"

#include "kernels/base/hash.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_PORT = 20000, PORTS = 10000, HOST_ROOM = 256 };

typedef struct Launcher {
    const char *name, *size, *rank;
    bool may_have_rank; // also where it has started nothing: Slurm's batch scripts
    const char *local;  // processes on this host
    const char *job;    // what tells this start from others
    const char *hosts;  // of which rank 0's is the first
} Launcher;

enum { OPEN_MPI, MPICH, SRUN, LAUNCHERS };

// The hosts of a job are what mpirun fills from the first one on. Of Slurm the numbers of a step: those of a job are also
// there where nobody has called srun.
static const Launcher ALL[LAUNCHERS] = {
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", false, "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE", "SLURM_JOB_NODELIST"},
    {"mpiexec (MPICH)", "PMI_SIZE", "PMI_RANK", false, "MPI_LOCALNRANKS", "PMI_JOBID", "SLURM_JOB_NODELIST"},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", true, NULL, "SLURM_JOB_ID", "SLURM_STEP_NODELIST"},
};

// ---- numbers ------------------------------------------------------------------------------------------------

static bool number_of(const char *name, int *value) {
    const char *text = name ? getenv(name) : NULL;
    if (!text || !*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 6) return false;
    *value = atoi(text);
    return true;
}

static Status refuse(const Launcher *l, const char *why, Error *error) {
    const char *size = getenv(l->size), *rank = getenv(l->rank);
    return error_set(error, STATUS_USAGE,
                     "%s: %s=%.20s and %s=%.20s: %s; --world 1 talks alone, --world N --rank R --join "
                     "HOST:PORT say it themselves",
                     l->name, l->size, size ? size : "(unset)", l->rank, rank ? rank : "(unset)", why);
}

// *size 0: it has started nothing.
static Status numbers_of(const Launcher *l, int *size, int *rank, Error *error) {
    *size = *rank = 0;
    const bool has_size = getenv(l->size) != NULL, has_rank = getenv(l->rank) != NULL;
    if (!has_size && (!has_rank || l->may_have_rank)) return STATUS_OK;
    if (!has_size || !has_rank) return refuse(l, "one of the two is missing", error);
    if (!number_of(l->size, size) || !number_of(l->rank, rank))
        return refuse(l, "not both are numbers", error);
    return *rank < *size ? STATUS_OK : refuse(l, "ranks count from 0 on", error);
}

// ---- where rank 0 is ----------------------------------------------------------------------------------------

// The first of "node[003-007,9]-ib,other": "node003-ib".
static void first_host(const char *list, char host[HOST_ROOM]) {
    size_t n = 0;
    while (*list && *list != ',' && n + 1 < HOST_ROOM) {
        if (*list != '[') {
            host[n++] = *list++;
            continue;
        }
        for (list++; *list >= '0' && *list <= '9' && n + 1 < HOST_ROOM; list++) host[n++] = *list;
        list += strcspn(list, "]");
        list += *list == ']';
    }
    host[n] = 0;
}

// The same for all processes that one mpiexec has started on this host: it gives each a session, whose leader it has
// started, or none. A leader that is no more, or that another namespace hides, led all of them: its session's number.
static uint64_t starter(void) {
    char path[40], text[400] = "";
    int parent = (int)getsid(0);
    snprintf(path, sizeof path, "/proc/%d/stat", parent);
    FILE *file = fopen(path, "r");
    if (file) {
        const size_t n = fread(text, 1, sizeof text - 1, file);
        text[n] = 0;
        fclose(file);
        const char *behind = strrchr(text, ')'); // a name may have any characters
        if (behind && strlen(behind) > 4) parent = atoi(behind + 4);
    }
    return (uint64_t)parent;
}

static bool are_all_here(const Launcher *l, int size) {
    int n;
    if (l == &ALL[SRUN]) return number_of("SLURM_STEP_NUM_NODES", &n) && n == 1;
    return number_of(l->local, &n) && n == size;
}

static void find_join(const Launcher *l, Launched *found) {
    const char *job = getenv(l->job), *step = getenv("SLURM_STEP_ID"), *hosts = getenv(l->hosts);
    const bool here = are_all_here(l, found->size);
    char host[HOST_ROOM] = "";
    if (!job && !here) job = getenv("SLURM_JOB_ID");
    *found->join = 0;
    if (!here && (!job || !hosts)) return;
    uint64_t hash = job ? hash_bytes(HASH_START, job, strlen(job)) : starter();
    if (l == &ALL[SRUN] && step) hash = hash_bytes(hash, step, strlen(step));
    if (!here) first_host(hosts, host);
    snprintf(found->join, sizeof found->join, "%s:%d",
             here               ? "127.0.0.1"
             : found->rank == 0 ? "0.0.0.0"
                                : host,
             FIRST_PORT + (int)(hash % PORTS));
}

// ---- which of them ------------------------------------------------------------------------------------------

// The innermost: daemons of mpirun are srun's, and PMI_* may be srun's own.
static const Launcher *choose(const int size[LAUNCHERS], const int rank[LAUNCHERS]) {
    const bool is_sruns = size[SRUN] == size[MPICH] && rank[SRUN] == rank[MPICH];
    if (size[OPEN_MPI] > 0) return &ALL[OPEN_MPI];
    if (size[MPICH] > 0 && !is_sruns) return &ALL[MPICH];
    return size[SRUN] > 0 ? &ALL[SRUN] : NULL;
}

Status launchers_find(Launched *found, Error *error) {
    int size[LAUNCHERS], rank[LAUNCHERS];
    *found = (Launched){.size = 1};
    for (int i = 0; i < LAUNCHERS; i++) {
        Status status = numbers_of(&ALL[i], &size[i], &rank[i], error);
        if (status) return status;
    }
    const Launcher *l = choose(size, rank);
    if (!l && getenv("PMIX_RANK"))
        return error_set(
            error, STATUS_USAGE,
            "PMIX_RANK=%.20s, but nothing says of how many: --world N --rank R --join HOST:PORT do",
            getenv("PMIX_RANK"));
    if (!l) return STATUS_OK;
    if (l == &ALL[OPEN_MPI] && size[MPICH] > 0 &&
        (size[MPICH] != size[OPEN_MPI] || rank[MPICH] != rank[OPEN_MPI]))
        return error_set(
            error, STATUS_USAGE,
            "%s says rank %d of %d, and %s rank %d of %d: which of them is meant, --world and --rank "
            "say",
            l->name, rank[OPEN_MPI], size[OPEN_MPI], ALL[MPICH].name, rank[MPICH], size[MPICH]);
    found->size = size[l - ALL], found->rank = rank[l - ALL];
    if (found->size > 1) find_join(l, found);
    return STATUS_OK;
}
