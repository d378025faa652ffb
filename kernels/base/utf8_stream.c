#include "kernels/base/utf8_stream.h"

#include <string.h>

#include "kernels/base/utf8.h"

size_t utf8_stream_push(Utf8Stream *stream, const char *bytes, size_t size, char *out) {
    size_t used = 0, written = 0;
    uint32_t code;
    // A kept beginning is completed byte by byte, so that its character need not be copied together.
    while (stream->n > 0 && used < size) {
        char *tail = (char *)stream->tail;
        tail[stream->n] = bytes[used];
        int length = utf8_next(tail, (size_t)stream->n + 1, &code);
        if (length < 0) { // the new byte does not go on with it: it is looked at again below
            written += (size_t)utf8_write(UTF8_REPLACEMENT, out + written);
            stream->n = 0;
            break;
        }
        used++;
        stream->n++;
        if (length > 0) {
            memcpy(out + written, tail, (size_t)length);
            written += (size_t)length;
            stream->n = 0;
        }
    }
    while (used < size) {
        int length = utf8_next(bytes + used, size - used, &code);
        if (length == 0) {
            stream->n = (int)(size - used);
            memcpy(stream->tail, bytes + used, size - used);
            break;
        }
        if (length > 0) {
            memcpy(out + written, bytes + used, (size_t)length);
            written += (size_t)length;
        } else {
            length = -length;
            written += (size_t)utf8_write(UTF8_REPLACEMENT, out + written);
        }
        used += (size_t)length;
    }
    return written;
}

size_t utf8_stream_flush(Utf8Stream *stream, char *out) {
    if (stream->n == 0) return 0;
    stream->n = 0;
    return (size_t)utf8_write(UTF8_REPLACEMENT, out);
}
