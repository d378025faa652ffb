// Addresses that stand for memory elsewhere: of a backend that is several ones, whose memory lies on each of them.
#ifndef PALAVER_KERNELS_BASE_ADDRESSES_H
#define PALAVER_KERNELS_BASE_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>

// So many, of which nobody reads or writes one; NULL: there are none left. Given back by addresses_release().
void *addresses_reserve(size_t bytes);
void addresses_release(void *addresses, size_t bytes);

// Whether [memory, memory + bytes) is in the `size` of them from `addresses` on.
bool addresses_have(const void *addresses, size_t size, const void *memory, size_t bytes);

#endif
