// White space of UTF-8 text: ASCII's, and the few characters beyond.
#include "tokenizer/chat/jinja/space.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

// Length in bytes of the white space character that begins `size` bytes, or 0. None is longer than three
// bytes.
static size_t space_at(const char *text, size_t size) {
    const unsigned char *u = (const unsigned char *)text;
    if (size >= 1 && u[0] < 0x80) return is_space(u[0]);
    if (size >= 2 && u[0] >= 0xC2 && u[0] < 0xE0 && (u[1] & 0xC0) == 0x80)
        return is_space((uint32_t)(u[0] & 0x1F) << 6 | (u[1] & 0x3F)) ? 2 : 0;
    if (size >= 3 && (u[0] & 0xF0) == 0xE0 && (u[1] & 0xC0) == 0x80 && (u[2] & 0xC0) == 0x80)
        return is_space((uint32_t)(u[0] & 0x0F) << 12 | (uint32_t)(u[1] & 0x3F) << 6 | (u[2] & 0x3F)) ? 3 : 0;
    return 0;
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
