// What a reply in Markdown shows, against markdown-it (tests/golden/make_markdown.py), whatever pieces it comes in, and
// against what tmux shows of it.
#include "tests/support/terminal/drawn.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t numbers = 1;

static uint32_t below(uint32_t n) {
    return drawn_below(&numbers, n);
}

static void show(Vt *vt, const char *text, const MarkdownOptions *options, uint32_t most) {
    drawn_show(vt, text, options, most, &numbers);
}

static void pack(char *text) {
    char *to = text;
    for (; *text; text++)
        if (*text != ' ') *to++ = *text;
    *to = 0;
}

static int by_byte(const void *a, const void *b) {
    return *(const unsigned char *)a - *(const unsigned char *)b;
}

static char *read_all(const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    Text text = {0};
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;) assert_true(text_add(&text, block, n));
    fclose(file);
    return text.bytes;
}

static bool same_screens(const Vt *a, const Vt *b) {
    for (int row = 0; row < DRAWN_ROWS; row++)
        if (memcmp(a->cells[row], b->cells[row], sizeof a->cells[row]) != 0) return false;
    return true;
}

static void print_screen(const char *name, const Vt *vt) {
    print_error("%s:\n", name);
    for (int row = 0; row <= vt->row; row++) {
        char line[1300];
        vt_row(vt, row, line, sizeof line);
        print_error("%s\n", line);
    }
}

static int check_words(const char *text, const char *wanted) {
    static Vt vt;
    char seen[DRAWN_SEEN], want[DRAWN_SEEN];
    MarkdownOptions options = drawn_options(VT_MAX_COLS, false);
    show(&vt, text, &options, 7);
    snprintf(want, sizeof want, "%s", wanted);
    drawn_seen(&vt, false, seen);
    if (!strcmp(seen, want)) return 0;
    print_error("---- markdown:\n%s\n---- wanted: %s\n---- seen:   %s\n", text, want, seen);
    print_screen("screen", &vt);
    return 1;
}

// Narrow: no character is lost or comes twice, and pieces show what the whole shows.
static int check_narrow(const char *text, const char *wanted, int width) {
    static Vt pieces, whole;
    char seen[DRAWN_SEEN], want[DRAWN_SEEN];
    MarkdownOptions options = drawn_options(width, false);
    show(&pieces, text, &options, 1 + below(12));
    show(&whole, text, &options, 0);
    snprintf(want, sizeof want, "%s", wanted);
    pack(want);
    drawn_seen(&pieces, true, seen);
    qsort(seen, strlen(seen), 1, by_byte);
    qsort(want, strlen(want), 1, by_byte);
    if (!strcmp(seen, want) && same_screens(&pieces, &whole)) return 0;
    print_error("---- width %d, markdown:\n%s\n", width, text);
    if (!same_screens(&pieces, &whole)) print_screen("whole", &whole);
    print_screen("pieces", &pieces);
    return 1;
}

// A reply that was cut somewhere and goes on: the rest reads as the end of the whole. A table has its head again, and
// is left to test_rows.
static int check_cut(const char *text, const char *wanted, size_t cut) {
    static Vt vt;
    char seen[DRAWN_SEEN], want[DRAWN_SEEN];
    size_t n = strlen(text), size;
    const bool table = strstr(text, "|-") || strstr(text, "|:") || strstr(text, "| -");
    // What looks like code at the cut, and is none, may have shown half of a reference as it is written.
    if (table || (strchr(text, '`') && strchr(text, '&'))) return 0;
    while (cut < n && ((unsigned char)text[cut] & 0xC0) == 0x80) cut++;
    MarkdownOptions options = drawn_options(VT_MAX_COLS, false);
    drawn_rest(&vt, text, cut, &options, 7, &numbers);
    snprintf(want, sizeof want, "%s", wanted);
    pack(want);
    drawn_seen(&vt, true, seen);
    size = strlen(seen);
    if (size <= strlen(want) && !strcmp(seen, want + strlen(want) - size)) return 0;
    print_error("---- markdown, cut at %zu:\n%.*s<CUT>%s\n", cut, (int)cut, text, text + cut);
    print_screen("rest", &vt);
    return 1;
}

static void test_golden(void **state) {
    (void)state;
    char *lines = read_all("tests/golden/markdown/cases.jsonl"), *rest = lines;
    int failed = 0, n = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line && failed < 5; n++) {
        json_t *it = json_loads(line, 0, NULL);
        assert_non_null(it);
        const char *text = json_string_value(json_object_get(it, "markdown"));
        const char *seen = json_string_value(json_object_get(it, "seen"));
        failed += check_words(text, seen) || check_narrow(text, seen, 40 + 40 * (int)below(3)) ||
                  check_cut(text, seen, below((uint32_t)strlen(text) + 1)) ||
                  check_cut(text, seen, below((uint32_t)strlen(text) + 1));
        json_decref(it);
    }
    free(lines);
    assert_int_equal(failed, 0);
    assert_true(n >= 600);
}

// ---- screens --------------------------------------------------------------------------------------------------------

static void test_golden_screens(void **state) {
    (void)state;
    static const int widths[] = {40, 80, 120};
    char *text = read_all("tests/golden/markdown/reply.md");
    static Vt vt;
    for (int i = 0; i < 3; i++) {
        char path[80], got[1300];
        snprintf(path, sizeof path, "tests/golden/markdown/reply-%d.txt", widths[i]);
        char *screen = read_all(path), *rest = screen, *line;
        MarkdownOptions options = drawn_options(widths[i], false);
        show(&vt, text, &options, 5);
        for (int row = 0; (line = strsep(&rest, "\n")) && rest; row++) {
            vt_row(&vt, row, got, sizeof got);
            if (strcmp(got, line) != 0)
                print_error("%d columns, row %d:\n%s\n%s\n", widths[i], row, line, got);
            assert_string_equal(got, line);
        }
        free(screen);
    }
    free(text);
}

// Shows a file in a terminal, for make_markdown_screens.py.
static int show_file(const char *path, int width) {
    MarkdownOptions options = drawn_options(width, false);
    Markdown *m = markdown_open(&options);
    char *text = read_all(path);
    Text out = {0};
    for (const char *c = text; *c;) {
        size_t n = 1;
        while (((unsigned char)c[n] & 0xC0) == 0x80) n++;
        markdown_push(m, c, n, &out);
        c += n;
    }
    markdown_end(m, &out);
    fwrite(out.bytes, 1, out.size, stdout);
    fflush(stdout);
    text_free(&out);
    markdown_close(m);
    free(text);
    return 0;
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "C.UTF-8");
    if (argc > 3 && !strcmp(argv[1], "--show")) return show_file(argv[2], (int)strtol(argv[3], NULL, 10));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_golden_screens),
    };
    return test_main("markdown", argc, argv, tests);
}
