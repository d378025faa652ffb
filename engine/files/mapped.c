#include "engine/files/mapped.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

// Entries are never freed, only used again: a handler in another thread may be looking at one.
typedef struct Entry {
    _Atomic(uintptr_t) begin; // 0: free; written last
    size_t size;
    const char *path;
    struct Entry *next;
} Entry;

static _Atomic(Entry *) entries;
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static Entry *find(uintptr_t begin) {
    Entry *entry = atomic_load(&entries);
    while (entry && atomic_load(&entry->begin) != begin) entry = entry->next;
    return entry;
}

bool mapped_enter(const void *data, size_t size, const char *path) {
    pthread_mutex_lock(&changing);
    Entry *entry = find(0);
    if (!entry && (entry = calloc(1, sizeof *entry))) {
        entry->next = atomic_load(&entries);
        atomic_store(&entries, entry);
    }
    if (entry) {
        entry->size = size;
        entry->path = path;
        atomic_store(&entry->begin, (uintptr_t)data);
    }
    pthread_mutex_unlock(&changing);
    return entry != NULL;
}

void mapped_leave(const void *data) {
    pthread_mutex_lock(&changing);
    Entry *entry = find((uintptr_t)data);
    if (entry) atomic_store(&entry->begin, 0);
    pthread_mutex_unlock(&changing);
}

const char *mapped_path(const void *address) {
    for (const Entry *entry = atomic_load(&entries); entry; entry = entry->next) {
        uintptr_t begin = atomic_load(&entry->begin);
        if (begin && (uintptr_t)address - begin < entry->size) return entry->path;
    }
    return NULL;
}
