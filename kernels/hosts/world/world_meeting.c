// How a world comes together: rank 0 listens until all others are there, who look for it. Who waits longer than a moment says
// for whom; who has come, or begun to, and is gone or silent is told of at once or within ten seconds, and waited for again.
#include "kernels/base/clock.h"
#include "kernels/hosts/world/world_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SECONDS = 120, BEGUN_SECONDS = 5, LOOK_MS = 200, MOST_TOLD = 20, LINE = 1000 };
static const double MOMENT = 1.5, BEAT = 0.5; // seconds

typedef struct Meeting {
    World *world;
    int seconds;
    double since, until;
    bool has_told;
    char turned_away[LINE]; // who came last of those
    int n_turned_away;
    char left[LINE / 2]; // who left last of those that had come
    char stranger[WORLD_NAME_ROOM];
    Error refused; // who knows the key and can be none of this world
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

// Once, however often it comes; and not without end, whoever calls.
static void tell_turned_away(Meeting *m, const char *words) {
    if (strcmp(words, m->turned_away) == 0 || m->n_turned_away++ >= MOST_TOLD) return;
    snprintf(m->turned_away, LINE, "%s", words);
    tell(m->world, m->turned_away);
}

static Status fail_missing(const Meeting *m, Error *error) {
    char who[64];
    name_missing(m->world, who);
    return error_set(error, STATUS_DEVICE, "%s did not come to %s%s%s%s%s", who, m->world->options.address,
                     *m->left ? "; " : "", m->left,
                     *m->stranger ? "; somebody came without the key, from " : "", m->stranger);
}

// ---- rank 0 -------------------------------------------------------------------------------------------------

// Who has come and is not there any more is waited for again: it may be started anew.
static void part_from(Meeting *m, int rank, const char *why) {
    const World *w = m->world;
    Link *link = &m->world->links[rank];
    char words[LINE];
    socket_close(&link->data);
    socket_close(&link->pulse);
    const double left = m->until - clock_seconds();
    snprintf(m->left, sizeof m->left, "rank %d (%s) %s", rank, link->name, why);
    snprintf(words, sizeof words, "%s; waiting for rank %d again, at most %.0f s", m->left, rank,
             left > 0 ? left : 0);
    tell(w, words);
}

// Who is there sends beats; whose other connection has not come sends nothing.
static bool has_gone(Link *link, double now) {
    char beats[256];
    bool gone = false;
    const int sockets[] = {link->data, link->pulse};
    for (int i = 0; i < 2; i++) {
        const ssize_t n = sockets[i] < 0 ? -1
                                         : recv(sockets[i], beats, sizeof beats,
                                                i == 0 ? MSG_PEEK | MSG_DONTWAIT : MSG_DONTWAIT);
        if (sockets[i] < 0) continue;
        if (n > 0) link->heard = now;
        gone = gone || n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
    }
    return gone;
}

static void check_there(Meeting *m) {
    World *w = m->world;
    const double now = clock_seconds();
    char why[80];
    for (int i = 1; i < w->options.size; i++) {
        Link *link = &w->links[i];
        const bool by_half = (link->data >= 0) != (link->pulse >= 0);
        const int patience = by_half ? BEGUN_SECONDS : WORLD_PATIENCE;
        if (link->data < 0 && link->pulse < 0) continue;
        snprintf(why, sizeof why, "has %s, and has not been heard of for %d seconds",
                 by_half ? "begun to join" : "come", patience);
        if (has_gone(link, now))
            part_from(m, i, "has come and gone again");
        else if (now - link->heard > patience)
            part_from(m, i, why);
    }
}

static void take_caller(void *context, JoinResult result, const Caller *c, const Error *error) {
    Meeting *m = context;
    if (result == JOIN_IN) {
        Link *link = &m->world->links[c->its.rank];
        if (c->its.kind == JOIN_DATA)
            link->data = c->socket;
        else
            link->pulse = c->socket;
        link->heard = clock_seconds();
        snprintf(link->name, sizeof link->name, "%s", c->name);
    } else if (result == JOIN_DIFFERS) {
        if (!m->refused.status) m->refused = *error;
    } else {
        tell_turned_away(m, error->message);
        if (result == JOIN_AWAY) snprintf(m->stranger, sizeof m->stranger, "%s", c->name);
    }
}

// Until something comes, or somebody who has come closes.
static void look(const World *w) {
    struct pollfd ready[LOBBY_MOST + 1 + 2 * WORLD_MOST];
    nfds_t n = (nfds_t)lobby_sockets(w, ready);
    for (int i = 1; i < w->options.size; i++) { // poll() passes over sockets that are not there
        ready[n++] = (struct pollfd){.fd = w->links[i].data, .events = POLLRDHUP};
        ready[n++] = (struct pollfd){.fd = w->links[i].pulse, .events = POLLRDHUP};
    }
    (void)poll(ready, n, LOOK_MS);
}

static Status gather(Meeting *m, Error *error) {
    World *w = m->world;
    int first = 0;
    double beaten = 0;
    while (n_missing(w, &first) > 0) {
        if (is_interrupted(w)) return error_set(error, STATUS_INTERRUPTED, "interrupted");
        if (clock_seconds() > m->until) return fail_missing(m, error);
        tell_waiting(m);
        if (clock_seconds() - beaten > BEAT) pulse_beat(w), beaten = clock_seconds(); // they wait, too
        look(w);
        check_there(m); // before callers are: it may be the same rank, started again
        lobby_turn(w, take_caller, m);
        if (!m->refused.status) continue;
        *error = m->refused;
        return error->status;
    }
    for (int i = 1; i < w->options.size; i++) {
        socket_set_waiting(w->links[i].data, true);
        socket_set_waiting(w->links[i].pulse, true);
    }
    return STATUS_OK;
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
    if (w->options.rank == 0) {
        Status status = lobby_open(w, error);
        return status ? status : gather(&m, error);
    }
    Status status = connect_one(&m, JOIN_DATA, &w->links[0].data, error);
    if (!status) status = connect_one(&m, JOIN_PULSE, &w->links[0].pulse, error);
    if (status) return status;
    socket_set_patience(w->links[0].data, 0, 0);
    socket_set_patience(w->links[0].pulse, 0, 0);
    return STATUS_OK;
}
