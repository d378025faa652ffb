// Bytes of tokens in, whole characters out: a reply never shows half an emoji.
//
// What comes out is always valid UTF-8: each maximal ill-formed piece of the input becomes one U+FFFD, as the
// Unicode standard (3.9, "substitution of maximal subparts") recommends. A code point is never split; sequences
// joined by U+200D are not held back, since a terminal draws what follows onto what it has.
#ifndef PALAVER_TOKENIZER_UTF8_STREAM_H
#define PALAVER_TOKENIZER_UTF8_STREAM_H

#include <stddef.h>

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
