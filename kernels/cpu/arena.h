// Many arrays in one allocation: laid out twice, first to count the bytes, then from where they are.
#ifndef PALAVER_KERNELS_CPU_ARENA_H
#define PALAVER_KERNELS_CPU_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Arena {
    char *base; // 64-byte aligned; NULL: only count
    int64_t used;
    bool overflow;
} Arena;

// The next `count` elements of `size` bytes, 64-byte aligned; NULL while counting.
static inline void *arena_take(Arena *arena, int64_t count, int64_t size) {
    int64_t bytes, start = arena->used;
    arena->overflow |= __builtin_mul_overflow(count, size, &bytes);
    arena->overflow |= __builtin_add_overflow(bytes, 63, &bytes);
    arena->overflow |= __builtin_add_overflow(start, bytes & ~INT64_C(63), &arena->used);
    return arena->base ? arena->base + start : NULL;
}

#endif
