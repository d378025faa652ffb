// What comes from rank 0, by a thread of its own: while this rank computes, the next messages arrive, so that rank 0 goes on
// with the next step. How many steps it may be ahead, rank 0 sees to (world_await).
#include "kernels/hosts/world/world_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef struct Message {
    struct Message *next;
    WireHeader header;
    char bytes[];
} Message;

struct Reader {
    World *world;
    pthread_t thread;
    pthread_mutex_t lock; // of the following
    pthread_cond_t comes;
    Message *first, **last; // not yet taken
    bool ended;             // nothing else will come
    Message *taken;         // by the caller's thread
};

// NULL: the connection is of no use any more.
static Message *read_one(Link *link) {
    WireHeader header;
    if (!socket_read(link->data, &header, sizeof header)) return NULL;
    if (header.type < WIRE_ANSWER || header.type >= WIRE_TYPES || header.size > WIRE_MOST) {
        pulse_lose(link, "what it sent cannot be");
        return NULL;
    }
    Message *m = malloc(sizeof *m + header.size);
    if (!m) {
        pulse_lose(link, "there was no memory for a message from it");
        return NULL;
    }
    m->next = NULL, m->header = header;
    if (socket_read(link->data, m->bytes, header.size)) return m;
    free(m);
    return NULL;
}

static void *run(void *context) {
    Reader *r = context;
    for (bool goes_on = true; goes_on;) {
        Message *m = read_one(&r->world->links[0]);
        goes_on = m && m->header.type != WIRE_END;
        pthread_mutex_lock(&r->lock);
        if (m) *r->last = m, r->last = &m->next;
        r->ended = !goes_on;
        pthread_cond_signal(&r->comes);
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

Status reader_open(World *w, Error *error) {
    Reader *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, STATUS_MEMORY, "no memory for what rank 0 says");
    r->world = w, r->last = &r->first;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->comes, NULL);
    if (pthread_create(&r->thread, NULL, run, r)) {
        free(r);
        return error_set(error, STATUS_MEMORY, "no thread for what rank 0 says");
    }
    w->reader = r;
    return STATUS_OK;
}

bool reader_take(Reader *r, WireHeader *header, WireIn *in) {
    free(r->taken);
    pthread_mutex_lock(&r->lock);
    while (!r->first && !r->ended) pthread_cond_wait(&r->comes, &r->lock);
    Message *m = r->taken = r->first;
    if (m) r->first = m->next;
    if (!r->first) r->last = &r->first;
    pthread_mutex_unlock(&r->lock);
    if (!m) return false;
    *header = m->header;
    *in = (WireIn){m->bytes, m->header.size, false};
    return true;
}

void reader_close(World *w) {
    Reader *r = w->reader;
    if (!r) return;
    shutdown(w->links[0].data, SHUT_RDWR); // it may wait there
    pthread_join(r->thread, NULL);
    while (r->first) {
        Message *next = r->first->next;
        free(r->first);
        r->first = next;
    }
    free(r->taken);
    pthread_cond_destroy(&r->comes);
    pthread_mutex_destroy(&r->lock);
    free(r);
    w->reader = NULL;
}
