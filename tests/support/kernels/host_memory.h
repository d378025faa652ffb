// Memory of a backend without arithmetic, for tables of operations (kernels/ops.h) that tests write: the host's own, counted.
#ifndef PALAVER_TESTS_HOST_MEMORY_H
#define PALAVER_TESTS_HOST_MEMORY_H

#include "kernels/ops.h"

extern int host_memory_allocated; // blocks that nobody has freed

// As Ops asks for them; the bytes of a block are zero at first.
Status host_memory_alloc(Backend *backend, size_t bytes, void **memory, Error *error);
void host_memory_free(Backend *backend, void *memory);
Status host_memory_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error);

#endif
