// White space of UTF-8 text: ASCII's, and the few characters beyond.
#include "tokenizer/chat/jinja/space.h"

#include "kernels/base/text/utf8.h"
#include "tokenizer/split/character.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// Python's: Unicode's White_Space and the four separators of ASCII.
static bool is_space(uint32_t c) {
    return character_is_space(c) || (c >= 0x1C && c <= 0x1F);
}

// Length in bytes of the white space character that begins `size` bytes, or 0. None is longer than three
// bytes.
static size_t space_at(const char *text, size_t size) {
    uint32_t code;
    int length = size ? utf8_next(text, size, &code) : 0;
    return length > 0 && is_space(code) ? (size_t)length : 0;
}

size_t space_before(const char *text, size_t size) {
    size_t at = 0, length;
    while ((length = space_at(text + at, size - at)) > 0) at += length;
    return at;
}

size_t space_after(const char *text, size_t size) {
    size_t end = size;
    for (bool found = true; found;) {
        found = false;
        for (size_t length = 1; length <= 3 && length <= end && !found; length++)
            if (space_at(text + end - length, length) == length) {
                end -= length;
                found = true;
            }
    }
    return size - end;
}
