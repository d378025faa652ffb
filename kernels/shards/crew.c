#include "kernels/shards/crew.h"

#include "kernels/base/clock.h"
#include "kernels/base/spin.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

// A member looks for its next task so long before it sleeps: steps of a small model follow each other that fast.
#define SPIN_NANOSECONDS 2000000
enum { LOOKS_A_TURN = 64 };

typedef struct Member {
    struct Crew *crew;
    int rank;
    pthread_t id;
    Status status;
    Error error;
} Member;

struct Crew {
    int n;           // members, the caller counted
    int n_started;   // threads
    Member *members; // [n]
    pthread_mutex_t lock;
    pthread_cond_t wake;
    CrewTask task;
    void *context;
    atomic_uint round;     // of the task in hand
    atomic_int unfinished; // threads that are still at it
    atomic_int sleepers;
    atomic_bool closing;
};

// The round behind `seen`: looked for, then slept for. The caller changes the round before it looks at `sleepers`, a
// member the other way round: one of them sees the other.
static unsigned next_round(Crew *crew, unsigned seen) {
    unsigned round;
    const int64_t start = clock_nanoseconds();
    do {
        for (int i = 0; i < LOOKS_A_TURN; i++) {
            if ((round = atomic_load_explicit(&crew->round, memory_order_acquire)) != seen) return round;
            spin_pause();
        }
        sched_yield(); // more threads than cores: let the others run
    } while (clock_nanoseconds() - start < SPIN_NANOSECONDS);
    pthread_mutex_lock(&crew->lock);
    atomic_fetch_add(&crew->sleepers, 1);
    while ((round = atomic_load(&crew->round)) == seen) pthread_cond_wait(&crew->wake, &crew->lock);
    atomic_fetch_sub(&crew->sleepers, 1);
    pthread_mutex_unlock(&crew->lock);
    return round;
}

static void *member_main(void *argument) {
    Member *member = argument;
    Crew *crew = member->crew;
    for (unsigned round = 0;;) {
        round = next_round(crew, round);
        if (atomic_load(&crew->closing)) return NULL;
        member->status = crew->task(crew->context, member->rank, &member->error);
        atomic_fetch_sub_explicit(&crew->unfinished, 1, memory_order_release);
    }
}

static void begin_round(Crew *crew) {
    atomic_fetch_add(&crew->round, 1);
    if (atomic_load(&crew->sleepers) == 0) return;
    pthread_mutex_lock(&crew->lock);
    pthread_cond_broadcast(&crew->wake);
    pthread_mutex_unlock(&crew->lock);
}

Status crew_open(int n, Crew **out, Error *error) {
    *out = NULL;
    Crew *crew = calloc(1, sizeof *crew);
    Member *members = calloc((size_t)n, sizeof *members);
    if (!crew || !members) {
        free(crew), free(members);
        return error_set(error, STATUS_MEMORY, "no memory for %d devices", n);
    }
    crew->n = n, crew->members = members;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->wake, NULL);
    for (int i = 0; i < n; i++) members[i].crew = crew, members[i].rank = i;
    for (int i = 1; i < n; i++, crew->n_started++)
        if (pthread_create(&members[i].id, NULL, member_main, &members[i]) != 0) {
            crew_close(crew);
            return error_set(error, STATUS_MEMORY, "the system gave no thread for device %d of %d", i + 1, n);
        }
    *out = crew;
    return STATUS_OK;
}

void crew_close(Crew *crew) {
    if (!crew) return;
    atomic_store(&crew->closing, true);
    begin_round(crew);
    for (int i = 1; i <= crew->n_started; i++) pthread_join(crew->members[i].id, NULL);
    pthread_cond_destroy(&crew->wake);
    pthread_mutex_destroy(&crew->lock);
    free(crew->members);
    free(crew);
}

Status crew_run(Crew *crew, CrewTask task, void *context, Error *error) {
    crew->task = task, crew->context = context;
    atomic_store_explicit(&crew->unfinished, crew->n - 1, memory_order_relaxed);
    begin_round(crew);
    crew->members[0].status = task(context, 0, &crew->members[0].error);
    for (int spins = 1; atomic_load_explicit(&crew->unfinished, memory_order_acquire) > 0; spins++) {
        spin_pause();
        if (spins % 1024 == 0) sched_yield();
    }
    const Member *failed = NULL;
    for (int i = 0; i < crew->n; i++) {
        const Member *m = &crew->members[i];
        if (m->status && (!failed || failed->status == STATUS_UNSUPPORTED)) failed = m;
    }
    if (!failed) return STATUS_OK;
    *error = failed->error;
    return failed->status;
}
