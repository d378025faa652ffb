// The pulse of a world: a thread that tells the others that this process is there, and hears the same of them.
#include "kernels/base/clock.h"
#include "kernels/hosts/world/world_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Seconds. GRACE: mpirun ends the others, too, and kills those that are still there after one second.
static const double BEAT = 1, GRACE = 0.5, STOPPED = 2;

void pulse_lose(Link *link, const char *why) {
    if (atomic_exchange(&link->loses, true)) return;
    snprintf(link->why, sizeof link->why, "%s", why);
    atomic_store(&link->lost, true);
    shutdown(link->data, SHUT_RDWR); // whoever waits there is told
}

// What has come; it may be that the other side has closed.
static void hear(Link *link, double now) {
    char beats[256];
    for (;;) {
        const ssize_t n = recv(link->pulse, beats, sizeof beats, MSG_DONTWAIT);
        if (n > 0) {
            link->heard = now;
            continue;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) pulse_lose(link, "its process has ended");
        return;
    }
}

void pulse_beat(World *w) {
    for (int i = world_first(w); i < world_end(w); i++)
        if (w->links[i].pulse >= 0 && !atomic_load(&w->links[i].lost))
            (void)!send(w->links[i].pulse, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT); // its silence will tell
}

static void listen_to(World *w, double now) {
    for (int i = world_first(w); i < world_end(w); i++) {
        Link *link = &w->links[i];
        char why[64];
        if (atomic_load(&link->lost)) continue;
        hear(link, now);
        snprintf(why, sizeof why, "it has not been heard of for %d seconds", WORLD_PATIENCE);
        if (now - link->heard > WORLD_PATIENCE) pulse_lose(link, why);
    }
}

static void tell(World *w) {
    char words[400];
    for (int i = world_first(w); i < world_end(w); i++) {
        const Link *link = &w->links[i];
        if (!atomic_load(&link->lost)) continue;
        snprintf(words, sizeof words, "rank %d (%s) is lost: %s", i, link->name, link->why);
        if (!atomic_load(&w->closes)) w->options.lost(words, atomic_load(&w->told));
        return;
    }
}

static bool any_lost(const World *w) {
    for (int i = world_first(w); i < world_end(w); i++)
        if (atomic_load(&w->links[i].lost)) return true;
    return false;
}

// Who calls now comes too late, and is told so; the screen is another thread's.
static void take_late(void *context, JoinResult result, const Caller *caller, const Error *error) {
    (void)context, (void)error;
    int socket = caller->socket;
    if (result == JOIN_IN) socket_close(&socket); // all are there: it cannot be
}

static void *run(void *context) {
    World *w = context;
    double beaten = 0, since = 0, looked = clock_seconds(); // since: when somebody is lost
    struct pollfd ready[1 + WORLD_MOST + LOBBY_MOST + 1] = {{.fd = w->wakes[0], .events = POLLIN}};
    for (;;) {
        nfds_t n = 1;
        for (int i = world_first(w); i < world_end(w); i++)
            if (!atomic_load(&w->links[i].lost))
                ready[n++] = (struct pollfd){.fd = w->links[i].pulse, .events = POLLIN};
        n += (nfds_t)lobby_sockets(w, ready + n);
        (void)poll(ready, n, since > 0 ? 50 : 250);
        if (ready[0].revents || atomic_load(&w->closes)) return NULL;
        const double now = clock_seconds();
        // Who was stopped, and all with it (Ctrl-Z, a lid), has heard nobody.
        for (int i = world_first(w); i < world_end(w) && now - looked > STOPPED; i++) w->links[i].heard = now;
        looked = now;
        if (now - beaten >= BEAT) pulse_beat(w), beaten = now;
        listen_to(w, now);
        lobby_turn(w, take_late, NULL);
        if (since == 0 && any_lost(w)) since = now;
        if (since > 0 && now - since > GRACE && w->options.lost) tell(w), since = now;
    }
}

Status pulse_open(World *w, Error *error) {
    const double now = clock_seconds();
    for (int i = world_first(w); i < world_end(w); i++) w->links[i].heard = now;
    if (pipe(w->wakes)) return error_set(error, STATUS_MEMORY, "no pipe: %s", strerror(errno));
    w->has_thread = !pthread_create(&w->thread, NULL, run, w);
    return w->has_thread ? STATUS_OK : error_set(error, STATUS_MEMORY, "no thread for the pulse of a world");
}

void pulse_close(World *w) {
    atomic_store(&w->closes, true);
    if (w->has_thread) {
        (void)!write(w->wakes[1], "", 1);
        pthread_join(w->thread, NULL);
    }
    socket_close(&w->wakes[0]);
    socket_close(&w->wakes[1]);
}
