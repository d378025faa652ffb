#include "kernels/base/machine/threads.h"

#include "kernels/base/clock.h"
#include "kernels/base/machine/memory.h"
#include "kernels/base/spin.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define SPIN_NANOSECONDS 200000 // how long a worker spins before it sleeps
#define SPINS_PER_LOOK 64       // pauses between two looks at the clock

typedef struct Worker {
    Threads *threads;
    int index;
    pthread_t id;
} Worker;

struct Threads {
    // What all threads write has cache lines of its own.
    _Alignas(64) atomic_ullong ticket;  // the current loop: see below
    _Alignas(64) atomic_llong finished; // parts of it that are done
    _Alignas(64) pthread_mutex_t lock;
    pthread_cond_t wake;
    Worker *workers; // [n_threads - 1]
    ThreadsTask task;
    void *context;
    int n_threads;
    atomic_int sleepers; // workers that wait on `wake`
    atomic_bool closing;
};

// A ticket is the loop's number, its parts, and the next part to take, in one word: whoever adds one to it has
// got a part of that very loop, or learns that there is none left. A loop ends when its parts are done, so a
// worker that the system holds up delays nobody, unless it has a part in hand; and task and context stay as they
// are until the holder of the last part has said so.
#define PART_BITS 20
#define PART_MASK ((1u << PART_BITS) - 1)
#define MAX_PARTS ((1 << PART_BITS) - 1 - MAX_THREADS) // each thread asks once in vain

static unsigned long long ticket_make(unsigned long long round, int64_t n_parts) {
    return round << 2 * PART_BITS | (unsigned long long)n_parts << PART_BITS;
}

static unsigned long long ticket_round(unsigned long long ticket) {
    return ticket >> 2 * PART_BITS;
}

static void take_parts(Threads *threads, int thread) {
    for (int64_t done = 0;; done++) {
        unsigned long long ticket = atomic_fetch_add_explicit(&threads->ticket, 1, memory_order_acquire);
        int64_t part = ticket & PART_MASK, n_parts = ticket >> PART_BITS & PART_MASK;
        if (part >= n_parts) {
            if (done > 0) atomic_fetch_add_explicit(&threads->finished, done, memory_order_release);
            return;
        }
        threads->task(threads->context, part, thread);
    }
}

// Returns the round's number when it differs from `seen`: spinning first, then asleep.
static unsigned long long wait_for_round(Threads *threads, unsigned long long seen) {
    unsigned long long round;
    int64_t start = clock_nanoseconds();
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            round = ticket_round(atomic_load_explicit(&threads->ticket, memory_order_acquire));
            if (round != seen) return round;
            spin_pause();
        }
    } while (clock_nanoseconds() - start < SPIN_NANOSECONDS);
    // The caller changes the ticket before it looks at `sleepers`, this thread the other way round: one of them
    // sees the other.
    pthread_mutex_lock(&threads->lock);
    atomic_fetch_add(&threads->sleepers, 1);
    while ((round = ticket_round(atomic_load(&threads->ticket))) == seen)
        pthread_cond_wait(&threads->wake, &threads->lock);
    atomic_fetch_sub(&threads->sleepers, 1);
    pthread_mutex_unlock(&threads->lock);
    return round;
}

static void start_round(Threads *threads, int64_t n_parts) {
    unsigned long long round = ticket_round(atomic_load_explicit(&threads->ticket, memory_order_relaxed)) + 1;
    atomic_store(&threads->ticket, ticket_make(round, n_parts));
    if (atomic_load(&threads->sleepers) == 0) return;
    pthread_mutex_lock(&threads->lock);
    pthread_cond_broadcast(&threads->wake);
    pthread_mutex_unlock(&threads->lock);
}

static void *worker_main(void *argument) {
    Worker *worker = argument;
    Threads *threads = worker->threads;
    for (unsigned long long round = 0;;) {
        round = wait_for_round(threads, round);
        if (atomic_load(&threads->closing)) return NULL;
        take_parts(threads, worker->index);
    }
}

Status threads_open(int n_threads, Threads **out, Error *error) {
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return error_set(error, STATUS_USAGE, "threads: %d is not between 1 and %d", n_threads, MAX_THREADS);
    Threads *threads = aligned_alloc(64, sizeof *threads);
    Worker *workers = calloc((size_t)n_threads, sizeof *workers);
    if (threads == NULL || workers == NULL) {
        free(threads), free(workers);
        return error_set(error, STATUS_MEMORY, "threads: not enough memory for %d of them", n_threads);
    }
    *threads = (Threads){.n_threads = 1, .workers = workers};
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->wake, NULL);
    for (int i = 1; i < n_threads; i++) {
        Worker *worker = &workers[i - 1];
        *worker = (Worker){.threads = threads, .index = i};
        if (pthread_create(&worker->id, NULL, worker_main, worker) != 0) {
            threads_close(threads);
            return error_set(error, STATUS_MEMORY, "threads: the system gave %d of %d; ask for fewer", i,
                             n_threads);
        }
        threads->n_threads = i + 1;
    }
    *out = threads;
    return STATUS_OK;
}

void threads_close(Threads *threads) {
    if (threads == NULL) return;
    atomic_store(&threads->closing, true);
    start_round(threads, 0);
    for (int i = 1; i < threads->n_threads; i++) pthread_join(threads->workers[i - 1].id, NULL);
    pthread_cond_destroy(&threads->wake);
    pthread_mutex_destroy(&threads->lock);
    free(threads->workers);
    free(threads);
}

int threads_count(const Threads *threads) {
    return threads->n_threads;
}

void threads_run(Threads *threads, int64_t n_parts, ThreadsTask task, void *context) {
    if (n_parts <= 1 || n_parts > MAX_PARTS || threads->n_threads == 1) {
        for (int64_t part = 0; part < n_parts; part++) task(context, part, 0);
        return;
    }
    threads->task = task;
    threads->context = context;
    atomic_store_explicit(&threads->finished, 0, memory_order_relaxed);
    start_round(threads, n_parts);
    take_parts(threads, 0);
    for (int spins = 1; atomic_load_explicit(&threads->finished, memory_order_acquire) < n_parts; spins++) {
        spin_pause();
        if (spins % 1024 == 0) sched_yield(); // more threads than cores: let the others run
    }
}

int threads_available(void) {
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, quota = cpu_quota("");
    if (quota > 0 && quota < cores) cores = quota;
    return cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : cores;
}
