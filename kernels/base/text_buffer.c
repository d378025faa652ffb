#include "kernels/base/text_buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

Status text_buffer_reserve(TextBuffer *buffer, size_t more, Error *error) {
    if (more <= buffer->capacity - buffer->n) return STATUS_OK;
    if (more > SIZE_MAX / 4 - buffer->n)
        return error_set(error, STATUS_MEMORY, "text of %zu bytes is too long", more);
    size_t capacity = buffer->n + more;
    if (capacity < 2 * buffer->capacity) capacity = 2 * buffer->capacity;
    if (capacity < 64) capacity = 64;
    char *data = realloc(buffer->data, capacity);
    if (!data) return error_set(error, STATUS_MEMORY, "no memory for a text of %zu bytes", capacity);
    buffer->data = data;
    buffer->capacity = capacity;
    return STATUS_OK;
}

Status text_buffer_append(TextBuffer *buffer, const char *bytes, size_t size, Error *error) {
    if (size == 0) return STATUS_OK;
    Status status = text_buffer_reserve(buffer, size, error);
    if (status) return status;
    memcpy(buffer->data + buffer->n, bytes, size);
    buffer->n += size;
    return STATUS_OK;
}

void text_buffer_free(TextBuffer *buffer) {
    free(buffer->data);
    *buffer = (TextBuffer){0};
}
