// Memory that goes as a whole, and the way out of a failure.
#include "tokenizer/chat/jinja/jinja_internal.h"

#include <stdarg.h>
#include <stdio.h>

struct ArenaBlock {
    ArenaBlock *next;
    size_t used, size;
    max_align_t data[];
};

enum { BLOCK = 16 << 10 };

void *jinja_alloc(Arena *arena, size_t size) {
    size = (size + !size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
    if (size > arena->left) jinja_fail(arena, STATUS_MEMORY, "it takes too much memory");
    ArenaBlock *block = arena->blocks;
    if (!block || block->size - block->used < size) {
        size_t room = size > BLOCK ? size : BLOCK;
        block = calloc(1, sizeof *block + room);
        if (!block) jinja_fail(arena, STATUS_MEMORY, "there is not enough memory");
        block->size = room;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *data = (char *)block->data + block->used;
    block->used += size;
    arena->left -= size;
    return data;
}

void *jinja_grow(Arena *arena, void *items, size_t n, size_t item_size) {
    if (n && (n < 8 || (n & (n - 1)))) return items;
    size_t room = n ? 2 * n : 8;
    if (room > SIZE_MAX / item_size) jinja_fail(arena, STATUS_MEMORY, "it takes too much memory");
    void *grown = jinja_alloc(arena, room * item_size);
    if (n) memcpy(grown, items, n * item_size);
    return grown;
}

void jinja_arena_free(Arena *arena) {
    for (ArenaBlock *block = arena->blocks; block;) {
        ArenaBlock *next = block->next;
        free(block);
        block = next;
    }
    arena->blocks = NULL;
}

void jinja_fail(Arena *arena, Status status, const char *format, ...) {
    char message[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    arena->status = error_set(arena->error, status, "chat template, line %d: %s", arena->line, message);
    longjmp(arena->failed, 1);
}
