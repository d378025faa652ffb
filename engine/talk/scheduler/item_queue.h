// A queue of bounded length between a thread that makes items and one that works on them. It owns no item.
#ifndef PALAVER_ENGINE_ITEM_QUEUE_H
#define PALAVER_ENGINE_ITEM_QUEUE_H

#include "kernels/base/status.h"

#include <stdbool.h>

typedef struct ItemQueue ItemQueue;

typedef enum QueueState {
    QUEUE_ITEM,  // there was one
    QUEUE_EMPTY, // none came in time
    QUEUE_ENDED, // there is none, and none will come
} QueueState;

Status item_queue_open(int capacity, ItemQueue **queue, Error *error); // capacity >= 1
void item_queue_close(ItemQueue *queue); // no thread uses it any more; NULL is fine

// Appends an item, after waiting while the queue is full. False: the queue has ended, and the item is the caller's.
bool item_queue_put(ItemQueue *queue, void *item);

// The oldest item, for which it waits up to so many milliseconds.
QueueState item_queue_take(ItemQueue *queue, int milliseconds, void **item);

// Waits until the queue is empty and someone waits for an item. False: it has ended.
bool item_queue_wanted(ItemQueue *queue);

// By either side: nothing more goes in, whoever waits goes on. What is in the queue can still be taken.
void item_queue_end(ItemQueue *queue);

int item_queue_length(ItemQueue *queue);

#endif
