#include "kernels/hosts/world/world_internal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MUCH = 1 << 20 };

Status world_open(const WorldOptions *o, World **out, Error *error) {
    *out = NULL;
    if (o->size < 2 || o->size > WORLD_MOST || o->rank < 0 || o->rank >= o->size)
        return error_set(error, STATUS_USAGE, "rank %d of a world of %d: ranks are 0 to %d of 2 to %d",
                         o->rank, o->size, o->size - 1, WORLD_MOST);
    World *w = calloc(1, sizeof *w);
    if (!w) return error_set(error, STATUS_MEMORY, "no memory for a world");
    w->options = *o;
    w->wakes[0] = w->wakes[1] = -1;
    for (int i = 0; i < WORLD_MOST; i++) w->links[i].data = w->links[i].pulse = -1;
    Status status = meeting_run(w, error);
    if (!status) status = pulse_open(w, error);
    if (!status && o->rank > 0) status = reader_open(w, error);
    for (int i = 1; i < o->size && o->rank == 0 && !status; i++) status = writer_open(&w->links[i], error);
    if (status) {
        world_close(w);
        return status;
    }
    *out = w;
    return STATUS_OK;
}

void world_close(World *w) {
    Error none;
    if (!w) return;
    atomic_store(&w->closes, true);
    for (int i = world_first(w); i < world_end(w) && w->options.rank == 0; i++) {
        if (w->links[i].data < 0 || atomic_load(&w->links[i].lost)) continue;
        w->links[i].out.n = w->links[i].n_relays = 0;
        wire_begin(&w->links[i].out, WIRE_END);
        wire_end(&w->links[i].out);
        (void)world_flush(w, i, &none);
    }
    for (int i = 0; i < w->options.size; i++) writer_close(&w->links[i]);
    reader_close(w);
    pulse_close(w);
    lobby_close(w);
    for (int i = world_first(w); i < world_end(w); i++) {
        Link *link = &w->links[i];
        socket_close(&link->data);
        socket_close(&link->pulse);
        free(link->out.bytes);
        free(link->in);
        free(link->relays);
    }
    free(w);
}

int world_size(const World *w) {
    return w->options.size;
}

const char *world_name(const World *w, int rank) {
    return w->links[rank].name;
}

// ---- messages -----------------------------------------------------------------------------------------------

static Status lose(World *w, int rank, Error *error) {
    Link *link = &w->links[rank];
    if (!atomic_load(&link->lost)) usleep(20000); // the pulse may know better
    pulse_lose(link, "its connection has ended");
    while (!atomic_load(&link->lost)) usleep(1000); // it is saying so
    atomic_store(&w->told, true);
    return error_set(error, STATUS_FATAL, "rank %d (%s) is lost: %s", rank, link->name, link->why);
}

WireOut *world_out(World *w, int rank) {
    Link *link = &w->links[rank];
    Error none; // who asks for an answer will be told
    if (link->out.n > MUCH && !link->out.failed) (void)world_start(w, rank, &none);
    return &link->out;
}

Status world_send(World *w, int rank, WireOut *out, Error *error) {
    Link *link = &w->links[rank];
    const bool sent =
        !atomic_load(&link->lost) &&
        (link->writer ? writer_send(link->writer, out) : socket_write(link->data, out->bytes, out->n));
    out->n = 0;
    return sent ? STATUS_OK : lose(w, rank, error);
}

Status world_flush(World *w, int rank, Error *error) {
    Link *link = &w->links[rank];
    if (link->out.failed) {
        link->out.failed = false, link->out.n = link->n_relays = 0;
        pulse_lose(link, "there was no memory for a message to it"); // it does not know what the others do
    }
    Status status = world_pass_all(w, rank, error);
    if (!status) status = world_send(w, rank, &link->out, error);
    link->out.n = link->n_relays = 0;
    return status;
}

static Status receive(World *w, int rank, WireHeader *header, WireIn *in, Error *error) {
    Link *link = &w->links[rank];
    if (!socket_read(link->data, header, sizeof *header)) return lose(w, rank, error);
    if (header->type < WIRE_ANSWER || header->type >= WIRE_TYPES || header->size > WIRE_MOST) {
        pulse_lose(link, "what it sent cannot be");
        return lose(w, rank, error);
    }
    if (header->size > link->in_room || !link->in) {
        free(link->in);
        link->in_room = 0;
        link->in = malloc(header->size + 1u);
        if (!link->in) {
            pulse_lose(link, "there was no memory for a message from it");
            return lose(w, rank, error);
        }
        link->in_room = header->size;
    }
    if (!socket_read(link->data, link->in, header->size)) return lose(w, rank, error);
    *in = (WireIn){link->in, header->size, false};
    return STATUS_OK;
}

bool world_has_answer(World *w, int rank, int milliseconds) {
    struct pollfd ready = {.fd = w->links[rank].data, .events = POLLIN};
    return poll(&ready, 1, milliseconds) == 1;
}

Status world_take_answer(World *w, int rank, WireIn *in, Error *error) {
    WireHeader header;
    WireAnswer answer;
    Status status = receive(w, rank, &header, in, error);
    if (status) return status;
    wire_take(in, &answer, sizeof answer);
    const char *words = wire_take_bytes(in, answer.length < 0 ? SIZE_MAX : (size_t)answer.length);
    if (header.type != WIRE_ANSWER || !words || answer.status < STATUS_OK || answer.status > STATUS_FATAL) {
        pulse_lose(&w->links[rank], "its answer is damaged");
        return lose(w, rank, error);
    }
    if (!answer.status) return STATUS_OK;
    return error_set(error, (Status)answer.status, "rank %d (%s): %.*s", rank, w->links[rank].name,
                     answer.length, words);
}

// What else it was asked before is answered before.
Status world_ask(World *w, int rank, WireIn *in, Error *error) {
    Error other;
    Status status = rank + 1 < w->options.size ? world_pass_all(w, rank + 1, error) : STATUS_OK;
    if (!status) status = world_flush(w, rank, error);
    while (!status && w->links[rank].n_marks > 0) status = world_take_mark(w, rank, error);
    if (!status) status = world_take_answer(w, rank, in, error);
    const Status late = world_late(w, status ? &other : error);
    return status ? status : late;
}

Status world_receive(World *w, WireHeader *header, WireIn *in, Error *error) {
    return reader_take(w->reader, header, in) ? STATUS_OK : lose(w, 0, error);
}
