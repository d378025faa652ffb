// Reading UTF-8, one character at a time, without trusting it.
#ifndef PALAVER_TOKENIZER_UTF8_H
#define PALAVER_TOKENIZER_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT 0xFFFDu

// Looks at the character that begins at `text`, n >= 1 bytes. Returns its length, 1…4, and sets *code. Ill-formed:
// returns minus the length of the maximal subpart (Unicode 3.9, at least 1) and sets *code to U+FFFD. Returns 0
// if all n bytes are the beginning of a character that may still become well-formed.
int utf8_next(const char *text, size_t n, uint32_t *code);

// Writes `code` (a valid code point) to `out`, which has room for 4 bytes; returns the length.
int utf8_write(uint32_t code, char *out);

// Whether a terminal obeys a character instead of showing it: C0, DEL, C1, and the embeddings, overrides and isolates that
// make a text read as another one than it is.
bool utf8_is_obeyed(uint32_t code);

// The length of the run of well-formed characters at the beginning of `text`; n if all of it is well-formed.
size_t utf8_valid_run(const char *text, size_t n);
// The length of the run of bytes at the beginning of `text` that belong to no well-formed character.
size_t utf8_invalid_run(const char *text, size_t n);

#endif
