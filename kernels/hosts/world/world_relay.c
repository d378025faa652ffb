// Rank 0's, while several steps are under way: what one rank answers goes on to the next one as soon as it comes, in the
// middle of whatever else rank 0 does with the world; and marks, by whose answers it knows how far the last rank is.
//
// What a rank is told behind a relay stays in its WireOut until the relay has come, so that its messages keep their order.
// A rank's answers come in the order of what it was asked: its relays before anything else.
#include "kernels/base/array.h"
#include "kernels/hosts/world/world_internal.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what failed ----------------------------------------------------------------------------------------------------

// Of answers that nobody waits for in particular, the first that failed.
static void note(World *w, Status status, const Error *error) {
    if (!status || w->late) return;
    w->late = status;
    w->late_error = *error;
}

Status world_late(World *w, Error *error) {
    const Status status = w->late;
    if (status && error) *error = w->late_error;
    w->late = STATUS_OK;
    return status;
}

// ---- from rank to rank ----------------------------------------------------------------------------------------------

void world_relay(World *w, int from, int to, size_t n) {
    Link *link = &w->links[to];
    WireOut *out = &link->out;
    wire_end(out);
    if (out->failed ||
        !array_reserve(&link->relays, sizeof *link->relays, link->n_relays, 1, &link->relays_room)) {
        out->failed = true;
        return;
    }
    WireHeader header;
    memcpy(&header, out->bytes + out->begun, sizeof header);
    header.size += (uint32_t)n;
    memcpy(out->bytes + out->begun, &header, sizeof header);
    link->relays[link->n_relays++] = (Relay){from, out->n, n};
}

// The answer to what `from` was asked; NULL: it failed, which is noted.
static const char *take(World *w, const Relay *r, Status *status, Error *error) {
    WireIn in;
    Error own;
    *status = world_take_answer(w, r->from, &in, &own);
    if (*status == STATUS_FATAL) {
        *error = own;
        return NULL;
    }
    const char *bytes = *status ? NULL : wire_take_bytes(&in, r->n);
    if (!*status && (!bytes || !wire_is_over(&in))) *status = wire_damaged("x on its way", &own);
    note(w, *status, &own);
    *status = STATUS_OK;
    return bytes;
}

// The first relay to a rank, with what the rank was told before it. In the place of what failed go zeros.
static Status pass_on(World *w, int to, Error *error) {
    Link *link = &w->links[to];
    WireOut *out = &link->out, some = {0};
    const Relay r = link->relays[0];
    Status status;
    const char *bytes = take(w, &r, &status, error);
    if (status) return status;
    wire_put(&some, out->bytes, r.at);
    char *place = wire_room(&some, r.n);
    if (place && bytes) memcpy(place, bytes, r.n);
    if (place && !bytes) memset(place, 0, r.n);
    if (some.failed) pulse_lose(link, "there was no memory for a message to it");
    status = world_send(w, to, &some, error);
    free(some.bytes);
    out->n -= r.at, out->begun -= r.at;
    memmove(out->bytes, out->bytes + r.at, out->n);
    link->n_relays--;
    memmove(link->relays, link->relays + 1, link->n_relays * sizeof *link->relays);
    for (size_t i = 0; i < link->n_relays; i++) link->relays[i].at -= r.at;
    return status;
}

Status world_pass_all(World *w, int to, Error *error) {
    Status status = STATUS_OK;
    while (w->links[to].n_relays > 0 && !status) {
        status = world_flush(w, w->links[to].relays[0].from, error);
        if (!status) status = pass_on(w, to, error);
    }
    return status;
}

Status world_pump(World *w, Error *error) {
    Status status = STATUS_OK;
    for (int to = 2; to < w->options.size && !status; to++) {
        Link *link = &w->links[to];
        const bool waits = link->n_relays > 0;
        while (link->n_relays > 0 && !status && world_has_answer(w, link->relays[0].from, 0))
            status = pass_on(w, to, error);
        if (waits && link->n_relays == 0 && !status) status = world_flush(w, to, error);
    }
    return status;
}

Status world_start(World *w, int rank, Error *error) {
    return w->links[rank].n_relays > 0 ? STATUS_OK : world_flush(w, rank, error);
}

// ---- marks ----------------------------------------------------------------------------------------------------------

void world_mark(World *w, int rank) {
    WireOut *out = world_out(w, rank);
    wire_begin(out, WIRE_WAIT);
    wire_end(out);
    w->links[rank].n_marks++;
}

Status world_take_mark(World *w, int rank, Error *error) {
    WireIn in;
    Error own;
    const Status status = world_take_answer(w, rank, &in, &own);
    w->links[rank].n_marks--;
    if (status == STATUS_FATAL) *error = own;
    if (status == STATUS_FATAL) return status;
    note(w, status, &own);
    return STATUS_OK;
}

// Until something has come.
static void look(const World *w) {
    struct pollfd ready[WORLD_MOST];
    nfds_t n = 0;
    for (int i = 1; i < w->options.size; i++)
        ready[n++] = (struct pollfd){.fd = w->links[i].data, .events = POLLIN};
    (void)poll(ready, n, -1);
}

Status world_await(World *w, int rank, int most, Error *error) {
    Status status = world_start(w, rank, error);
    if (!status) status = world_pump(w, error);
    while (!status && w->links[rank].n_marks > most) {
        look(w);
        status = world_pump(w, error);
        if (!status && world_has_answer(w, rank, 0)) status = world_take_mark(w, rank, error);
    }
    return status ? status : world_late(w, error);
}
