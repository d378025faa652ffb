#include "kernels/base/addresses.h"

#include <stdint.h>
#include <sys/mman.h>

void *addresses_reserve(size_t bytes) {
    void *address = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return address == MAP_FAILED ? NULL : address;
}

void addresses_release(void *addresses, size_t bytes) {
    munmap(addresses, bytes);
}

bool addresses_have(const void *addresses, size_t size, const void *memory, size_t bytes) {
    const uintptr_t at = (uintptr_t)memory, start = (uintptr_t)addresses;
    return at >= start && at - start <= size && bytes <= size - (at - start);
}
