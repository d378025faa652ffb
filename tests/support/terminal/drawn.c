#include "tests/support/terminal/drawn.h"

#include "tests/support/test.h"

#include <string.h>

MarkdownOptions drawn_options(int width, bool raw) {
    return (MarkdownOptions){.width = width,
                             .height = DRAWN_ROWS,
                             .raw = raw,
                             .theme = {.base = "",
                                       .inks = {"", "35", "36", "34", "32", "2", "33", "4", "2"},
                                       .color = true,
                                       .links = true}};
}

void drawn_feed(Vt *vt, const Text *out) {
    for (size_t i = 0; i < out->size; i++) {
        if (out->bytes[i] == '\n') vt_feed(vt, "\r", 1);
        vt_feed(vt, out->bytes + i, 1);
    }
}

uint32_t drawn_below(uint32_t *numbers, uint32_t n) {
    *numbers = *numbers * 1664525u + 1013904223u;
    return (*numbers >> 8) % n;
}

void drawn_rest(Vt *vt, const char *text, size_t cut, const MarkdownOptions *options, uint32_t most,
                uint32_t *numbers) {
    Markdown *m = markdown_open(options);
    Text out = {0};
    assert_non_null(m);
    assert_true(markdown_go_on(m, text, cut));
    vt_init(vt, DRAWN_ROWS, options->width);
    text += cut;
    size_t n = strlen(text);
    while (n) {
        size_t size = most ? 1 + drawn_below(numbers, most) : n;
        if (size > n) size = n;
        while (size < n && ((unsigned char)text[size] & 0xC0) == 0x80) size++;
        assert_true(markdown_push(m, text, size, &out));
        drawn_feed(vt, &out);
        text_free(&out);
        text += size;
        n -= size;
    }
    assert_true(markdown_end(m, &out));
    drawn_feed(vt, &out);
    text_free(&out);
    markdown_close(m);
}

void drawn_show(Vt *vt, const char *text, const MarkdownOptions *options, uint32_t most, uint32_t *numbers) {
    drawn_rest(vt, text, 0, options, most, numbers);
}

static bool is_frame(const char *text, size_t *n) {
    static const char *const signs[] = {"│", "─", "┼", "•", "◦", "▪"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        *n = strlen(signs[i]);
        if (!strncmp(text, signs[i], *n)) return true;
    }
    return false;
}

void drawn_seen(const Vt *vt, bool packed, char out[DRAWN_SEEN]) {
    size_t n = 0;
    for (int row = 0; row < vt->rows; row++) {
        char line[1300];
        vt_row(vt, row, line, sizeof line);
        bool gap = true;
        for (const char *c = line; *c && n < DRAWN_SEEN - 2;) {
            size_t used;
            if (is_frame(c, &used)) {
                c += used;
                gap = true;
            } else if (*c == ' ' || *c == '\t') {
                gap = true;
                c++;
            } else {
                if (gap && n && !packed) out[n++] = ' ';
                gap = false;
                out[n++] = *c++;
            }
        }
    }
    out[n] = 0;
}
