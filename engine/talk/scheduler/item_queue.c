#include "engine/talk/scheduler/item_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct ItemQueue {
    pthread_mutex_t mutex;
    pthread_cond_t changed; // an item or a taker came or went, or the end
    void **items;           // [capacity] a ring
    int capacity, first, n;
    int n_takers; // who wait for an item
    bool ended;
};

Status item_queue_open(int capacity, ItemQueue **out, Error *error) {
    *out = NULL;
    ItemQueue *q = calloc(1, sizeof *q);
    if (q) q->items = malloc((size_t)capacity * sizeof *q->items);
    if (!q || !q->items) {
        free(q);
        return error_set(error, STATUS_MEMORY, "no memory for a queue of %d items", capacity);
    }
    q->capacity = capacity;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&q->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&q->mutex, NULL);
    *out = q;
    return STATUS_OK;
}

void item_queue_close(ItemQueue *q) {
    if (!q) return;
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->mutex);
    free(q->items);
    free(q);
}

bool item_queue_put(ItemQueue *q, void *item) {
    pthread_mutex_lock(&q->mutex);
    while (q->n == q->capacity && !q->ended) pthread_cond_wait(&q->changed, &q->mutex);
    bool open = !q->ended;
    if (open) {
        q->items[(q->first + q->n++) % q->capacity] = item;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->mutex);
    return open;
}

static struct timespec time_in(int milliseconds) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += milliseconds / 1000;
    t.tv_nsec += milliseconds % 1000 * 1000000L;
    if (t.tv_nsec >= 1000000000L) t.tv_sec++, t.tv_nsec -= 1000000000L;
    return t;
}

QueueState item_queue_take(ItemQueue *q, int milliseconds, void **item) {
    struct timespec until = time_in(milliseconds);
    pthread_mutex_lock(&q->mutex);
    q->n_takers++;
    if (q->n == 0 && milliseconds > 0) pthread_cond_broadcast(&q->changed);
    while (q->n == 0 && !q->ended && milliseconds > 0)
        if (pthread_cond_timedwait(&q->changed, &q->mutex, &until) == ETIMEDOUT) break;
    q->n_takers--;
    QueueState state = q->n > 0 ? QUEUE_ITEM : q->ended ? QUEUE_ENDED : QUEUE_EMPTY;
    if (state == QUEUE_ITEM) {
        *item = q->items[q->first];
        q->first = (q->first + 1) % q->capacity;
        q->n--;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->mutex);
    return state;
}

bool item_queue_wanted(ItemQueue *q) {
    pthread_mutex_lock(&q->mutex);
    while ((q->n > 0 || q->n_takers == 0) && !q->ended) pthread_cond_wait(&q->changed, &q->mutex);
    bool wanted = !q->ended;
    pthread_mutex_unlock(&q->mutex);
    return wanted;
}

void item_queue_end(ItemQueue *q) {
    pthread_mutex_lock(&q->mutex);
    q->ended = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mutex);
}

int item_queue_length(ItemQueue *q) {
    pthread_mutex_lock(&q->mutex);
    int n = q->n;
    pthread_mutex_unlock(&q->mutex);
    return n;
}
