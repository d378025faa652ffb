// The queue between a producer and the scheduler: nothing lost, nothing twice, nobody left waiting. Built with the
// thread sanitizer besides (make check).
#include "engine/talk/scheduler/item_queue.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 5000, THREADS = 3 };

typedef struct Producer {
    ItemQueue *queue;
    int *items; // [N]
    int pause;  // after every 64th, in microseconds
    int n_put;
} Producer;

static void *produce(void *context) {
    Producer *p = context;
    for (int i = 0; i < N; i++) {
        if (p->pause && i % 64 == 0) usleep((useconds_t)p->pause);
        p->items[i] = i;
        if (!item_queue_put(p->queue, &p->items[i])) break;
        p->n_put++;
    }
    return NULL;
}

static ItemQueue *queue_open(int capacity) {
    ItemQueue *queue;
    Error error = {0};
    assert_int_equal(item_queue_open(capacity, &queue, &error), STATUS_OK);
    assert_int_equal(item_queue_length(queue), 0);
    return queue;
}

// Several producers, one consumer who is slower or faster; of each producer the order stays.
static void all_come_once_and_in_order(void **state) {
    (void)state;
    static const int CAPACITIES[] = {1, 7, 20000}, PRODUCER[] = {0, 300, 0}, CONSUMER[] = {0, 0, 200};
    int *items = malloc(THREADS * N * sizeof *items);
    for (int k = 0; k < 3; k++) {
        ItemQueue *queue = queue_open(CAPACITIES[k]);
        Producer producers[THREADS];
        pthread_t threads[THREADS];
        int next[THREADS] = {0}, n = 0;
        for (int t = 0; t < THREADS; t++) {
            producers[t] = (Producer){queue, items + t * N, PRODUCER[k], 0};
            assert_int_equal(pthread_create(&threads[t], NULL, produce, &producers[t]), 0);
        }
        for (void *item; n < THREADS * N; n++) {
            if (CONSUMER[k] && n % 64 == 0) usleep((useconds_t)CONSUMER[k]);
            assert_int_equal(item_queue_take(queue, 10000, &item), QUEUE_ITEM);
            long at = (int *)item - items;
            assert_int_equal(at % N, next[at / N]++);
            assert_int_equal(*(int *)item, at % N);
        }
        for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
        void *none;
        assert_int_equal(item_queue_take(queue, 0, &none), QUEUE_EMPTY);
        item_queue_end(queue);
        assert_int_equal(item_queue_take(queue, 10000, &none), QUEUE_ENDED);
        item_queue_close(queue);
    }
    free(items);
}

// Who waits in front of a full queue goes on when it ends, and what is in it can still be taken.
static void an_end_wakes_the_producer(void **state) {
    (void)state;
    int *items = malloc(N * sizeof *items);
    ItemQueue *queue = queue_open(4);
    Producer producer = {queue, items, 0, 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, &producer), 0);
    while (item_queue_length(queue) < 4) usleep(1000);
    usleep(20000); // it waits
    item_queue_end(queue);
    pthread_join(thread, NULL);
    assert_int_equal(producer.n_put, 4);
    void *item;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(item_queue_take(queue, 0, &item), QUEUE_ITEM);
        assert_int_equal(*(int *)item, i);
    }
    assert_int_equal(item_queue_take(queue, 0, &item), QUEUE_ENDED);
    assert_false(item_queue_put(queue, items));
    item_queue_close(queue);
    free(items);
}

static void *end_later(void *queue) {
    usleep(30000);
    item_queue_end(queue);
    return NULL;
}

static void an_end_wakes_the_consumer(void **state) {
    (void)state;
    ItemQueue *queue = queue_open(4);
    pthread_t thread;
    void *item;
    assert_int_equal(item_queue_take(queue, 20, &item), QUEUE_EMPTY); // in time
    assert_int_equal(pthread_create(&thread, NULL, end_later, queue), 0);
    assert_int_equal(item_queue_take(queue, 600000, &item), QUEUE_ENDED);
    pthread_join(thread, NULL);
    item_queue_close(queue);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_come_once_and_in_order),
        cmocka_unit_test(an_end_wakes_the_producer),
        cmocka_unit_test(an_end_wakes_the_consumer),
    };
    return test_main("item_queue", argc, argv, tests);
}
