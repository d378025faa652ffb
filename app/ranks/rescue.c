#include "app/ranks/rescue.h"

#include "app/process/fatal.h"
#include "kernels/base/array.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

// One conversation is on the screen.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the following, and of the transcript
static struct {
    RescueKeep *keep; // NULL: no reply is in hand
    void *context;
    char *text; // [size]
    size_t size, room;
    bool is_short; // of memory
} reply;

void rescue_begin(RescueKeep *keep, void *context) {
    pthread_mutex_lock(&lock);
    reply.keep = keep, reply.context = context, reply.size = 0, reply.is_short = false;
    pthread_mutex_unlock(&lock);
}

void rescue_add(const char *text, size_t size) {
    pthread_mutex_lock(&lock);
    reply.is_short = reply.is_short || !array_reserve(&reply.text, 1, reply.size, size, &reply.room);
    if (!reply.is_short && size > 0) memcpy(reply.text + reply.size, text, size), reply.size += size;
    pthread_mutex_unlock(&lock);
}

void rescue_settle(void) {
    pthread_mutex_lock(&lock);
    reply.keep = NULL;
}

void rescue_done(void) {
    pthread_mutex_unlock(&lock);
}

void rescue_and_end(const char *words, bool told) {
    char line[600 + RESCUE_ROOM], kept[RESCUE_ROOM] = "what was finished before is kept";
    pthread_mutex_lock(&lock);
    if (told && !reply.keep) {
        pthread_mutex_unlock(&lock);
        return;
    }
    if (reply.keep) reply.keep(reply.context, reply.text, reply.size, kept);
    snprintf(line, sizeof line, "palaver: %s; %s\n", words, kept);
    fatal(line);
}
