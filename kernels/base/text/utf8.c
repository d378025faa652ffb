#include "kernels/base/text/utf8.h"

#include <stdio.h>
#include <string.h>

int utf8_next(const char *text, size_t n, uint32_t *code) {
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    *code = UTF8_REPLACEMENT;
    // The first continuation byte has a narrower range after E0, ED, F0 and F4: no overlong forms, no surrogates,
    // nothing beyond U+10FFFF (Unicode table 3-7).
    int length = s[0] >= 0xC2 && s[0] <= 0xDF   ? 2
                 : (s[0] & 0xF0) == 0xE0        ? 3
                 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4
                                                : 0;
    if (length == 0) return -1;
    unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    uint32_t c = s[0] & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= n) return 0;
        if (s[i] < low || s[i] > high) return -i;
        c = c << 6 | (s[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    *code = c;
    return length;
}

int utf8_write(uint32_t code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)((0xF0u << (4 - length)) | code);
    return length;
}

bool utf8_is_obeyed(uint32_t code) {
    bool bidi = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || bidi;
}

// Blanks that look like the usual one, and characters that nobody sees (Unicode's default ignorable ones and separators,
// up to U+FFFF). Not the ideographic blank, nor joiners and selectors, which show in what stands beside them.
static bool is_unseen(uint32_t code) {
    static const uint32_t RANGES[][2] = {
        {0xA0, 0xA0},     {0xAD, 0xAD},     {0x34F, 0x34F},   {0x61C, 0x61C},   {0x180E, 0x180E},
        {0x2000, 0x200B}, {0x200E, 0x200F}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x2065},
        {0x206A, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}};
    for (size_t i = 0; i < sizeof RANGES / sizeof *RANGES; i++)
        if (code >= RANGES[i][0] && code <= RANGES[i][1]) return true;
    return false;
}

size_t utf8_spell(const char *text, size_t n, char sign[UTF8_SIGN], size_t *size) {
    uint32_t code;
    const int length = utf8_next(text, n, &code);
    if (length <= 0) code = (unsigned char)*text;
    const size_t used = length > 0 ? (size_t)length : 1;
    if (length <= 0 || utf8_is_obeyed(code) || is_unseen(code))
        *size = (size_t)snprintf(sign, UTF8_SIGN, used == 1 ? "\\x%02x" : "\\u%04x", (unsigned)code);
    else
        memcpy(sign, text, *size = used);
    return used;
}

// Blanks, backslashes and quotation marks are spelled both ways: of names some are \x20, \x5c, \x22 and \x27.
static bool is_spelled_as(const char *text, size_t n, const char *spelled) {
    for (size_t i = 0, size; i < n; spelled += size) {
        char sign[UTF8_SIGN];
        char other[UTF8_SIGN];
        const size_t length = (size_t)snprintf(other, sizeof other, "\\x%02x", (unsigned char)text[i]);
        const bool both = strchr(" \\\"'", text[i]);
        i += utf8_spell(text + i, n - i, sign, &size);
        if (both && !strncmp(spelled, other, length)) memcpy(sign, other, size = length);
        if (strncmp(sign, spelled, size) != 0) return false;
    }
    return !*spelled;
}

bool utf8_unspell(const char *spelled, char *text, size_t size) {
    size_t n = 0;
    int used;
    for (const char *at = spelled; *at; at += used) {
        unsigned code;
        if (n + 5 > size) return false;
        if (sscanf(at, "\\x%2x%n", &code, &used) == 1)
            text[n++] = (char)code;
        else if (sscanf(at, "\\u%4x%n", &code, &used) == 1)
            n += (size_t)utf8_write(code, text + n);
        else
            text[n++] = *at, used = 1;
    }
    text[n] = 0;
    return strcmp(text, spelled) != 0 && strlen(text) == n && is_spelled_as(text, n, spelled);
}

size_t utf8_valid_run(const char *text, size_t n) {
    size_t i = 0;
    uint32_t code;
    while (i < n) {
        int length = utf8_next(text + i, n - i, &code);
        if (length <= 0) break;
        i += (size_t)length;
    }
    return i;
}

size_t utf8_invalid_run(const char *text, size_t n) {
    size_t i = 0;
    uint32_t code;
    while (i < n) {
        int length = utf8_next(text + i, n - i, &code);
        if (length > 0) break;
        if (length == 0) return n;
        i += (size_t)-length;
    }
    return i;
}

// ---- a stream ---------------------------------------------------------------------------------------------

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
