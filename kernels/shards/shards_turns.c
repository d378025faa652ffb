// Several backends over the same devices (two engines, each over cuda:0,1; two programs): whose turn it is.
//
// Devices that hold one decoder wait for each other in the middle of an op. Were ops of two such backends under way at the
// same time, each could take one device and wait there for the other: forever in one process, and among processes, which
// share a device by slices of time, for so long that neither comes anywhere. So what one asks its devices for is there on
// all of them before another one asks, and that one first waits until it is done. A backend that is alone waits for
// nobody, and steps ahead stay ahead.
//
// Among processes a turn is the locks of shards_locks.c. Who has them keeps them from op to op; a thread of the process
// gives them away where another wants them and the turn is over, or nothing was asked for in a while.
#include "kernels/base/clock.h"
#include "kernels/shards/shards_internal.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define LOOK_SECONDS 0.001  // between two looks of the thread
#define PAUSE_SECONDS 0.001 // without an op: who has the turn does something else
#define TURN_SECONDS 0.004  // that others wait for, at least

// Devices are the process's, and the machine's: who else uses them is nobody's argument.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t held = PTHREAD_COND_INITIALIZER;
static Shards *entered;
static bool keeper_started;

static bool share_a_device(const Shards *a, const Shards *b) {
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            if (!strcmp(a->devices.names[i], b->devices.names[j])) return true;
    return false;
}

static void finish(Shards *s) {
    if (s->busy)
        for (int i = 0; i < s->n; i++) rank_ops(s)->shards->finish(s->ranks[i].backend);
    s->busy = false;
    shards_leave_locks(s);
}

// ---- the thread that gives turns away ------------------------------------------------------------------------

static bool is_over(const Shards *s) {
    const double now = clock_seconds(), idle = now - s->asked;
    if (idle > s->locks.idle) return true;
    return (idle > PAUSE_SECONDS || now - s->locks.taken > TURN_SECONDS) && shards_locks_wanted(s);
}

static void *keep(void *unused) {
    const struct timespec look = {.tv_nsec = (long)(LOOK_SECONDS * 1e9)};
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        bool any = false;
        for (Shards *s = entered; s; s = s->next) {
            if (s->locks.held && is_over(s)) finish(s);
            any = any || s->locks.held;
        }
        if (!any) {
            pthread_cond_wait(&held, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        nanosleep(&look, NULL);
        pthread_mutex_lock(&lock);
    }
    return NULL;
}

// Once; it ends with the process. Whether there is one.
static bool start_keeper(void) {
    pthread_t thread;
    if (!keeper_started && pthread_create(&thread, NULL, keep, NULL) == 0) {
        pthread_detach(thread);
        keeper_started = true;
    }
    return keeper_started;
}

// ---- turns ---------------------------------------------------------------------------------------------------

void shards_enter_turns(Shards *s) {
    pthread_mutex_lock(&lock);
    shards_open_locks(s);
    if (!start_keeper()) shards_close_locks(s);
    s->next = entered;
    entered = s;
    pthread_mutex_unlock(&lock);
}

void shards_leave_turns(Shards *s) {
    pthread_mutex_lock(&lock);
    for (Shards **at = &entered; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    shards_close_locks(s);
    pthread_mutex_unlock(&lock);
}

static void finish_others(const Shards *s, bool all) {
    for (Shards *other = entered; other; other = other->next)
        if (other != s && (all || share_a_device(s, other))) finish(other);
}

static Status take_turn(Shards *s, Error *error) {
    Status status = STATUS_OK;
    finish_others(s, false);
    if (!shards_try_locks(s)) {
        finish_others(s, true); // another process may wait for those before it gives these
        status = shards_await_locks(s, error);
    }
    if (s->joined) rank_ops(s)->shards->use(s->ranks[0].backend); // whose thread this is from here on
    return status;
}

// A prompt's ops follow each other without a pause in which the thread would come to it.
static void look_up(Shards *s) {
    if (!s->locks.held || s->asked - s->locks.looked < LOOK_SECONDS) return;
    s->locks.looked = s->asked;
    if (is_over(s)) finish(s);
}

Status shards_run_in_turn(Shards *s, CrewTask task, void *context, Error *error) {
    pthread_mutex_lock(&lock);
    Status status = take_turn(s, error);
    if (!status) {
        if (s->locks.held && !s->busy) pthread_cond_signal(&held);
        s->busy = s->joined;
        status = crew_run(s->crew, task, context, error);
        s->asked = clock_seconds();
        look_up(s);
    }
    pthread_mutex_unlock(&lock);
    return shards_lost(s, status, error);
}

void shards_offer_turn(Shards *s) {
    pthread_mutex_lock(&lock);
    if (s->locks.held && shards_locks_wanted(s)) finish(s);
    pthread_mutex_unlock(&lock);
}
