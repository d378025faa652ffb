// A growable run of bytes.
#ifndef PALAVER_TOKENIZER_TEXT_BUFFER_H
#define PALAVER_TOKENIZER_TEXT_BUFFER_H

#include <stddef.h>

#include "kernels/base/status.h"

typedef struct TextBuffer {
    char *data; // [capacity], the first n are set; never NUL-terminated
    size_t n, capacity;
} TextBuffer; // {0} is empty

// Makes room for `more` further bytes; STATUS_MEMORY leaves the buffer as it was.
Status text_buffer_reserve(TextBuffer *buffer, size_t more, Error *error);
Status text_buffer_append(TextBuffer *buffer, const char *bytes, size_t size, Error *error);
void text_buffer_free(TextBuffer *buffer);

#endif
