// White space as Python's str.strip() and Jinja's trim filter know it. Inner header of the room.
#ifndef PALAVER_TOKENIZER_CHAT_JINJA_SPACE_H
#define PALAVER_TOKENIZER_CHAT_JINJA_SPACE_H

#include <stddef.h>

// Bytes of white space at the beginning, and at the end, of `size` bytes of UTF-8.
size_t space_before(const char *text, size_t size);
size_t space_after(const char *text, size_t size);

#endif
