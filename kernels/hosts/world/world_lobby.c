// Who calls rank 0: all callers are heard side by side, so that who says nothing keeps nobody from joining. They are at most
// LOBBY_MOST; of more the one that came first gives way, which has had its time.
#include "kernels/base/clock.h"
#include "kernels/hosts/world/world_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Lobby {
    int listener, n;
    Caller callers[LOBBY_MOST]; // [n] in the order they came
};

Status lobby_open(World *w, Error *error) {
    w->lobby = calloc(1, sizeof *w->lobby);
    if (!w->lobby) return error_set(error, STATUS_MEMORY, "no memory for who calls");
    w->lobby->listener = -1;
    return socket_listen(w->options.address, &w->lobby->listener, error);
}

void lobby_close(World *w) {
    Lobby *l = w->lobby;
    if (!l) return;
    socket_close(&l->listener);
    for (int i = 0; i < l->n; i++) socket_close(&l->callers[i].socket);
    free(l);
    w->lobby = NULL;
}

int lobby_sockets(const World *w, struct pollfd *to) {
    const Lobby *l = w->lobby;
    if (!l) return 0;
    to[0] = (struct pollfd){.fd = l->listener, .events = POLLIN};
    for (int i = 0; i < l->n; i++) to[i + 1] = (struct pollfd){.fd = l->callers[i].socket, .events = POLLIN};
    return l->n + 1;
}

static void remove_caller(Lobby *l, int i) {
    l->n--;
    memmove(&l->callers[i], &l->callers[i + 1], (size_t)(l->n - i) * sizeof *l->callers);
}

static void turn_away_first(Lobby *l, LobbyTake *take, void *context) {
    Caller first = l->callers[0];
    Error error;
    error_set(&error, STATUS_DEVICE, "a caller from %s was turned away: too many call at once", first.name);
    remove_caller(l, 0);
    socket_close(&first.socket);
    take(context, JOIN_AWAY, &first, &error);
}

static void take_new(Lobby *l, LobbyTake *take, void *context) {
    for (int i = 0; i < LOBBY_MOST; i++) {
        Caller c = {.since = clock_seconds()};
        if (!socket_accept(l->listener, &c.socket, c.name)) {
            // Where the process has no descriptor left, the listener stays ready.
            if ((errno == EMFILE || errno == ENFILE) && l->n > 0) turn_away_first(l, take, context);
            return;
        }
        if (l->n == LOBBY_MOST) turn_away_first(l, take, context);
        l->callers[l->n++] = c;
    }
}

void lobby_turn(World *w, LobbyTake *take, void *context) {
    Lobby *l = w->lobby;
    if (!l) return;
    take_new(l, take, context);
    for (int i = 0; i < l->n;) {
        Error error;
        const JoinResult result = join_go_on(w, &l->callers[i], &error);
        if (result == JOIN_WAITS) {
            i++;
            continue;
        }
        Caller c = l->callers[i];
        remove_caller(l, i);
        if (result != JOIN_IN) socket_close(&c.socket);
        take(context, result, &c, &error);
    }
}
