#include "kernels/base/text/text.h"

#include "kernels/base/array.h"
#include "kernels/base/text/utf8.h"

static bool reserve(Text *text, size_t more) {
    return more < SIZE_MAX && array_reserve(&text->bytes, 1, text->size, more + 1, &text->capacity);
}

bool text_add(Text *text, const char *bytes, size_t n) {
    if (!reserve(text, n)) return false;
    if (n) memcpy(text->bytes + text->size, bytes, n);
    text->size += n;
    text->bytes[text->size] = 0;
    return true;
}

bool text_add_code(Text *text, uint32_t code) {
    char out[4];
    bool none = code > 0x10FFFF || (code >= 0xD800 && code < 0xE000);
    return text_add(text, out, (size_t)utf8_write(none ? UTF8_REPLACEMENT : code, out));
}

Status text_grow(Text *text, size_t more, Error *error) {
    if (reserve(text, more)) return STATUS_OK;
    return error_set(error, STATUS_MEMORY, "no memory for a text of %zu bytes", text->size + more);
}

Status text_append(Text *text, const char *bytes, size_t n, Error *error) {
    if (text_add(text, bytes, n)) return STATUS_OK;
    return error_set(error, STATUS_MEMORY, "no memory for a text of %zu bytes", text->size + n);
}

void text_free(Text *text) {
    free(text->bytes);
    *text = (Text){0};
}

bool text_is_printable(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] < ' ' || text[i] > '~') return false;
    }
    return true;
}

void text_copy_printable(char *to, size_t size, const char *from, size_t length) {
    size_t at = 0;
    for (size_t i = 0, n; i < length; at += n) {
        char sign[UTF8_SIGN];
        i += utf8_spell(from + i, length - i, sign, &n);
        if (at + n >= size) break;
        memcpy(to + at, sign, n);
    }
    to[at] = '\0';
}

bool text_is_among(const char *name, const char *names) {
    const size_t n = strlen(name);
    if (n == 0 || strchr(name, ' ') != NULL) return false;
    for (const char *at = names; (at = strstr(at, name)) != NULL; at++)
        if (at > names && at[-1] == ' ' && at[n] == ' ') return true;
    return false;
}

bool text_has_suffix(const char *text, const char *suffix) {
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}
