// How a world comes together: rank 0 listens until all others are there, who look for it. Who waits longer than a moment says
// for whom, and who has begun to join ends it or is told of within ten seconds.
#include "kernels/base/clock.h"
#include "kernels/hosts/world_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SECONDS = 120, BEGUN_SECONDS = 5, LINE = 1000 };
static const double MOMENT = 1.5; // seconds

typedef struct Meeting {
    World *world;
    int seconds;
    double since, until;
    bool has_told;
    char turned_away[LINE]; // who came last of those
    char stranger[WORLD_NAME_ROOM];
} Meeting;

static bool is_interrupted(const World *w) {
    return w->options.interrupt && *w->options.interrupt;
}

static int n_missing(const World *w, int *first) {
    int n = 0;
    for (int i = w->options.size - 1; i > 0; i--)
        if (w->links[i].data < 0 || w->links[i].pulse < 0) n++, *first = i;
    return n;
}

// ---- what is said -------------------------------------------------------------------------------------------

static void tell(const World *w, const char *words) {
    if (w->options.tell) w->options.tell(w->options.tell_context, words);
}

// "rank 1 and 2 more of 4", of those that have not come.
static void name_missing(const World *w, char words[64]) {
    int first = 0;
    const int n = n_missing(w, &first);
    char others[32] = "";
    if (n > 1) snprintf(others, sizeof others, " and %d more", n - 1);
    snprintf(words, 64, "rank %d%s of %d", first, others, w->options.size);
}

static void tell_waiting(Meeting *m) {
    const World *w = m->world;
    char who[64] = "rank 0", words[LINE];
    if (m->has_told || clock_seconds() - m->since < MOMENT) return;
    m->has_told = true;
    if (w->options.rank == 0) name_missing(w, who);
    snprintf(words, sizeof words, "waiting for %s at %s, at most %d s", who, w->options.address, m->seconds);
    tell(w, words);
}

// Once, however often it comes.
static void tell_turned_away(Meeting *m, const char *words) {
    if (strcmp(words, m->turned_away) == 0) return;
    snprintf(m->turned_away, LINE, "%s", words);
    tell(m->world, m->turned_away);
}

static Status fail_missing(const Meeting *m, Error *error) {
    char who[64];
    name_missing(m->world, who);
    return error_set(error, STATUS_DEVICE, "%s did not come to %s%s%s", who, m->world->options.address,
                     *m->stranger ? "; somebody came without the key, from " : "", m->stranger);
}

// ---- rank 0 -------------------------------------------------------------------------------------------------

// Who has come and gone again while others were awaited, or does not go on.
static Status check_there(const World *w, Error *error) {
    const double now = clock_seconds();
    char byte;
    for (int i = 1; i < w->options.size; i++) {
        const Link *link = &w->links[i];
        const bool begun = (link->data >= 0) != (link->pulse >= 0);
        const int socket = link->data >= 0 ? link->data : link->pulse;
        const ssize_t n = socket >= 0 ? recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : 1;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return error_set(error, STATUS_DEVICE, "rank %d (%s) has come and gone again", i, link->name);
        if (begun && now - link->heard > BEGUN_SECONDS)
            return error_set(error, STATUS_DEVICE,
                             "rank %d (%s) has begun to join, and has not been heard of for %d seconds", i,
                             link->name, BEGUN_SECONDS);
    }
    return STATUS_OK;
}

static Status take_caller(Meeting *m, int socket, const char *name, Error *error) {
    World *w = m->world;
    Status status;
    int rank, kind;
    if (!join_answer(w, socket, name, &rank, &kind, &status, error)) {
        if (!status) tell_turned_away(m, error->message);
        snprintf(m->stranger, sizeof m->stranger, "%s", name);
        socket_close(&socket);
        return status;
    }
    Link *link = &w->links[rank];
    if (kind == JOIN_DATA)
        link->data = socket;
    else
        link->pulse = socket;
    link->heard = clock_seconds();
    snprintf(link->name, sizeof link->name, "%s", name);
    return STATUS_OK;
}

static Status gather(Meeting *m, int listener, Error *error) {
    World *w = m->world;
    char name[WORLD_NAME_ROOM];
    int first = 0, socket;
    Status status = STATUS_OK;
    while (!status && n_missing(w, &first) > 0) {
        if (is_interrupted(w)) return error_set(error, STATUS_INTERRUPTED, "interrupted");
        if (clock_seconds() > m->until) return fail_missing(m, error);
        tell_waiting(m);
        pulse_beat(w); // who is there waits for the others, too
        if (socket_accept(listener, &socket, name))
            status = take_caller(m, socket, name, error);
        else
            status = check_there(w, error);
    }
    return status;
}

// ---- the others ---------------------------------------------------------------------------------------------

static Status connect_one(Meeting *m, int kind, int *socket, Error *error) {
    const World *w = m->world;
    const double soon = clock_seconds() + BEGUN_SECONDS;
    const bool begun = kind == JOIN_PULSE; // rank 0 was there a moment ago
    const double until = begun && soon < m->until ? soon : m->until;
    for (;;) {
        Status status = socket_connect(w->options.address, socket, m->world->links[0].name, error);
        if (!status) return join_ask(w, kind, *socket, error);
        if (status == STATUS_USAGE) return status;
        if (clock_seconds() > until) {
            error_prefix(error, begun ? "rank 0 has gone: " : "rank 0 did not come: ");
            return status;
        }
        if (is_interrupted(w)) return error_set(error, STATUS_INTERRUPTED, "interrupted");
        tell_waiting(m);
        usleep(200000);
    }
}

Status meeting_run(World *w, Error *error) {
    const int seconds = w->options.seconds > 0 ? w->options.seconds : SECONDS;
    const double now = clock_seconds();
    Meeting m = {.world = w, .seconds = seconds, .since = now, .until = now + seconds};
    int listener = -1;
    if (w->options.rank == 0) {
        Status status = socket_listen(w->options.address, &listener, error);
        if (!status) status = gather(&m, listener, error);
        socket_close(&listener);
        return status;
    }
    Status status = connect_one(&m, JOIN_DATA, &w->links[0].data, error);
    if (!status) status = connect_one(&m, JOIN_PULSE, &w->links[0].pulse, error);
    if (status) return status;
    socket_set_patience(w->links[0].data, 0, 0);
    socket_set_patience(w->links[0].pulse, 0, 0);
    return STATUS_OK;
}
