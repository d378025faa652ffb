// What rank 0 sends, by a thread for each other rank: while much is on its way, x of a piece of a prompt, rank 0 computes the
// next one. Little goes at once, by the caller's thread, where nothing is waiting.
#include "kernels/hosts/world/world_internal.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LITTLE = 1 << 16 };

typedef struct Load {
    struct Load *next;
    char *bytes; // its own
    size_t n, room;
} Load;

struct Writer {
    Link *link;
    pthread_t thread;
    pthread_mutex_t lock; // of the following
    pthread_cond_t comes;
    Load *first, **last; // the first one is on its way
    char *spare;         // memory of one that has gone, for the next
    size_t spare_room;
    bool closes;
    atomic_bool failed;
};

static Load *await_load(Writer *w) {
    pthread_mutex_lock(&w->lock);
    while (!w->first && !w->closes) pthread_cond_wait(&w->comes, &w->lock);
    Load *load = w->first;
    pthread_mutex_unlock(&w->lock);
    return load;
}

static void *run(void *context) {
    Writer *w = context;
    for (Load *load; (load = await_load(w)) != NULL;) {
        const bool sent = !atomic_load(&w->failed) && socket_write(w->link->data, load->bytes, load->n);
        if (!sent) atomic_store(&w->failed, true);
        if (!sent) shutdown(w->link->data, SHUT_RDWR); // whoever waits for an answer is told
        pthread_mutex_lock(&w->lock);
        w->first = load->next;
        if (!w->first) w->last = &w->first;
        char *spare = w->spare;
        w->spare = load->bytes, w->spare_room = load->room;
        pthread_mutex_unlock(&w->lock);
        free(spare);
        free(load);
    }
    return NULL;
}

Status writer_open(Link *link, Error *error) {
    Writer *w = calloc(1, sizeof *w);
    if (!w) return error_set(error, STATUS_MEMORY, "no memory for what a rank is told");
    w->link = link, w->last = &w->first;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->comes, NULL);
    if (pthread_create(&w->thread, NULL, run, w)) {
        free(w);
        return error_set(error, STATUS_MEMORY, "no thread for what a rank is told");
    }
    link->writer = w;
    return STATUS_OK;
}

static bool is_idle(Writer *w) {
    pthread_mutex_lock(&w->lock);
    const bool idle = !w->first;
    pthread_mutex_unlock(&w->lock);
    return idle;
}

bool writer_send(Writer *w, WireOut *out) {
    if (out->n == 0) return true;
    if (atomic_load(&w->failed)) return false;
    if (is_idle(w) && out->n <= LITTLE) { // nobody else gives the thread anything to do
        const bool sent = socket_write(w->link->data, out->bytes, out->n);
        out->n = 0;
        return sent;
    }
    Load *load = malloc(sizeof *load);
    if (!load) return false;
    *load = (Load){.bytes = out->bytes, .n = out->n, .room = out->room};
    pthread_mutex_lock(&w->lock);
    *out = (WireOut){.bytes = w->spare, .room = w->spare_room};
    w->spare = NULL, w->spare_room = 0;
    *w->last = load, w->last = &load->next;
    pthread_cond_signal(&w->comes);
    pthread_mutex_unlock(&w->lock);
    return true;
}

void writer_close(Link *link) {
    enum { TURN_MS = 5 };
    Writer *w = link->writer;
    if (!w) return;
    for (int i = 0; i < WORLD_PATIENCE * 1000 / TURN_MS && !is_idle(w); i++) usleep(TURN_MS * 1000);
    if (!is_idle(w)) shutdown(link->data, SHUT_RDWR); // nobody reads there
    pthread_mutex_lock(&w->lock);
    w->closes = true;
    pthread_cond_signal(&w->comes);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    free(w->spare);
    pthread_cond_destroy(&w->comes);
    pthread_mutex_destroy(&w->lock);
    free(w);
    link->writer = NULL;
}
