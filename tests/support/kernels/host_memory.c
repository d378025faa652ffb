#include "tests/support/kernels/host_memory.h"

#include <stdlib.h>
#include <string.h>

int host_memory_allocated;

Status host_memory_alloc(Backend *backend, size_t bytes, void **memory, Error *error) {
    (void)backend, (void)error;
    host_memory_allocated++;
    *memory = calloc(1, bytes);
    return STATUS_OK;
}

void host_memory_free(Backend *backend, void *memory) {
    (void)backend;
    host_memory_allocated--;
    free(memory);
}

Status host_memory_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error) {
    (void)backend, (void)error;
    memcpy(memory, host, bytes);
    return STATUS_OK;
}
