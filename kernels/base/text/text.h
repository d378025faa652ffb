// A growing text.
#ifndef PALAVER_BASE_TEXT_H
#define PALAVER_BASE_TEXT_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// All zero is an empty one; what was added is followed by a NUL, and may hold further ones.
typedef struct Text {
    char *bytes; // to free()
    size_t size; // without the NUL
    size_t capacity;
} Text;

// Add `n` bytes; one character as UTF-8 (U+FFFD for none). False: no memory, and the text is as it was.
bool text_add(Text *text, const char *bytes, size_t n);
bool text_add_code(Text *text, uint32_t code);

// Where an Error is at hand: make room for `more` further bytes and a NUL; add `n` bytes. STATUS_MEMORY leaves the text
// as it was.
Status text_grow(Text *text, size_t more, Error *error);
Status text_append(Text *text, const char *bytes, size_t n, Error *error);

void text_free(Text *text); // and makes it an empty one

// Names from files stand in messages: printable ASCII is all that is taken for one.
bool text_is_printable(const char *text, size_t length);

// Text that will stand in messages, spelled as in all of them (utf8_spell): cut to fit, NUL-terminated.
void text_copy_printable(char *to, size_t size, const char *from, size_t length);

// Whether `name` is a word of `names`, which are set between spaces: " one two ".
bool text_is_among(const char *name, const char *names);

bool text_has_suffix(const char *text, const char *suffix);

#endif
