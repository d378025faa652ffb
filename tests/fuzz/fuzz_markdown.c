// A reply of any bytes, in any pieces, in windows of any size: what is sent to the terminal moves within the last rows
// and sets styles, and does nothing else.
#include "app/markdown/markdown.h"
#include "app/terminal/text_shown.h"

#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The length of the control sequence at the beginning; 0: it is none of those that are sent.
static size_t sequence_size(const char *text, size_t n) {
    static const char link[] = "\033]8;;";
    if (n > sizeof link && !memcmp(text, link, sizeof link - 1)) {
        size_t at = sizeof link - 1;
        while (at + 1 < n && text[at] > ' ' && text[at] < 127) at++;
        return at + 1 < n && text[at] == '\033' && text[at + 1] == '\\' ? at + 2 : 0;
    }
    size_t at = 2;
    if (n < 3 || text[0] != '\033' || text[1] != '[') return 0;
    while (at < n && (strchr("0123456789;", text[at]) && text[at])) at++;
    return at < n && text[at] && strchr("ACJm", text[at]) ? at + 1 : 0;
}

static void check(const Text *out) {
    for (size_t i = 0; i < out->size;) {
        uint32_t code = 0;
        size_t used = out->bytes[i] == '\033' ? sequence_size(out->bytes + i, out->size - i)
                                              : text_decode(out->bytes + i, out->size - i, &code);
        if (!used) abort();
        if (out->bytes[i] != '\033' && text_is_control(code) && code != '\r') abort();
        i += used;
    }
}

static void take(Text *out) {
    check(out);
    text_free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Text text = {0}, out = {0};
    if (size < 4) return 0;
    setlocale(LC_CTYPE, "C.UTF-8");
    MarkdownOptions options = {
        .width = data[0],
        .height = data[1] % 64,
        .raw = data[2] % 8 == 0,
        .theme = {.inks = {"", "1", data[1] & 64 ? "" : "2", "3", "4", "5", "6", "7", "8"},
                  .base = data[2] & 16 ? "2" : "",
                  .color = data[2] & 32,
                  .links = data[2] & 64}};
    Markdown *markdown = markdown_open(&options);
    if (!markdown || !text_add_shown(&text, (const char *)data + 4, size - 4, true)) abort();
    uint32_t random = data[3];
    size_t at = data[2] & 128 ? text.size / 2 : 0; // the first half was shown before
    while (at && ((unsigned char)text.bytes[at] & 0xC0) == 0x80) at--;
    if (at && !markdown_go_on(markdown, text.bytes, at)) abort();
    for (size_t n; at < text.size; at += n) {
        random = random * 1664525u + 1013904223u;
        n = 1 + (random >> 16) % (1 + data[3] % 32);
        if (n > text.size - at) n = text.size - at;
        while (at + n < text.size && ((unsigned char)text.bytes[at + n] & 0xC0) == 0x80) n++;
        if (!markdown_push(markdown, text.bytes + at, n, &out)) abort();
        take(&out);
        if (random >> 24 == 7 && !markdown_part(markdown, &out)) abort();
        if (random >> 24 == 9)
            markdown_resize(markdown, (int)(random >> 8) % 256, (int)(random >> 4) % 64, &out);
        take(&out);
    }
    if (!markdown_end(markdown, &out)) abort();
    take(&out);
    markdown_close(markdown);
    text_free(&text);
    return 0;
}
