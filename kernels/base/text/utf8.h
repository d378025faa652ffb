// Reading UTF-8, one character at a time, without trusting it.
#ifndef PALAVER_BASE_UTF8_H
#define PALAVER_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UTF8_REPLACEMENT 0xFFFDu

// Looks at the character that begins at `text`, n >= 1 bytes. Returns its length, 1…4, and sets *code. Ill-formed:
// returns minus the length of the maximal subpart (Unicode 3.9, at least 1) and sets *code to U+FFFD. Returns 0
// if all n bytes are the beginning of a character that may still become well-formed.
int utf8_next(const char *text, size_t n, uint32_t *code);

// Bytes of the byte order mark that `text` begins with, 0: it has none. Editors put it there, nobody means it.
static inline size_t utf8_mark(const char *text, size_t n) {
    return n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

// Whether a byte goes on with a character that another one has begun.
static inline bool utf8_continues(char byte) {
    return ((unsigned char)byte & 0xC0) == 0x80;
}

// Writes `code` (a valid code point) to `out`, which has room for 4 bytes; returns the length.
int utf8_write(uint32_t code, char *out);

// Whether a terminal obeys a character instead of showing it: C0, DEL, C1, and the embeddings, overrides and isolates
// that make a text read as another one than it is.
bool utf8_is_obeyed(uint32_t code);

// How the first of n bytes' characters is spelled in names and messages, on one line, so that it can be typed: what a
// terminal obeys, line breaks and tabs among it, and what nobody sees or takes for a blank is \uNNNN, \xNN where it is one
// byte, as is a byte that belongs to no character; others are as they are. Writes *size bytes to `sign`, without a NUL, and returns how many bytes the
// character takes.
enum { UTF8_SIGN = 8 };
size_t utf8_spell(const char *text, size_t n, char sign[UTF8_SIGN], size_t *size);

// The other way round, into text [size]: what is spelled as `spelled`. False: nothing but itself is, or there is no room.
bool utf8_unspell(const char *spelled, char *text, size_t size);

// The length of the run of well-formed characters at the beginning of `text`; n if all of it is well-formed.
size_t utf8_valid_run(const char *text, size_t n);
// The length of the run of bytes at the beginning of `text` that belong to no well-formed character.
size_t utf8_invalid_run(const char *text, size_t n);

// ---- a stream: bytes of tokens in, whole characters out, so that a reply never shows half an emoji ----------------
//
// What comes out is always valid UTF-8: each maximal ill-formed piece of the input becomes one U+FFFD, as the
// Unicode standard (3.9, "substitution of maximal subparts") recommends. A code point is never split; sequences
// joined by U+200D are not held back, since a terminal draws what follows onto what it has.

typedef struct Utf8Stream {
    unsigned char tail[4]; // the beginning of a character that is not complete yet
    int n;                 // how many bytes of it, at most 3
} Utf8Stream;              // {0} is a fresh stream

// The most bytes that pushing `size` bytes, or flushing, can give.
#define UTF8_STREAM_ROOM(size) (3 * ((size) + 4))

// Takes `size` bytes and writes the characters that are complete now to `out`, which has at least
// UTF8_STREAM_ROOM(size) bytes. Returns how many bytes it wrote; no NUL is added. `out` and `bytes` do not overlap.
size_t utf8_stream_push(Utf8Stream *stream, const char *bytes, size_t size, char *out);

// At the end of a reply: a dangling beginning becomes U+FFFD. Writes at most 3 bytes, returns how many; the stream
// is fresh again.
size_t utf8_stream_flush(Utf8Stream *stream, char *out);

#endif
