// What a reply in Markdown shows, against CommonMark's own renderer (libcmark) over random texts: the same words in the
// same order, whatever pieces they come in. Beyond CommonMark palaver has tables and strikethrough, and it shows
// definitions of links and raw HTML as they are written: these are left to test_markdown's golden texts. What it reads in
// another way on purpose, signs that are no Markdown in what models write, is left to test_faithful.
#include "tests/support/terminal/drawn.h"
#include "tests/support/test.h"

#include <cmark.h>
#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOCUMENTS = 2400, DOCUMENT_ROOM = 2000 };

// ---- random texts -------------------------------------------------------------------------------------------------

#define PICK(numbers, list) (list)[drawn_below(numbers, sizeof(list) / sizeof *(list))]

// What begins a line, once or several times over; NULL: the document's fence.
static const char *const BEGINNINGS[] = {"> ", ">",   "- ",   "* ",    "+ ", "1. ",  "2) ",  "12. ",
                                         "  ", "   ", "    ", "     ", "# ", "### ", "-   ", "\t",
                                         "#",  "-",   "1.",   NULL,    NULL, "> > ", "- 1. "};
// What stands in it.
static const char *const PARTS[] = {"the cat",
                                    "naïve",
                                    "日本語",
                                    "x_y_z",
                                    "**bold**",
                                    "*it*",
                                    "_it_",
                                    "***",
                                    "**",
                                    "*",
                                    "_",
                                    "__",
                                    "`code`",
                                    "``a`b``",
                                    "`` ` ``",
                                    "`",
                                    "[a](b)",
                                    "![p](q.png)",
                                    "[x](<y z> \"t\")",
                                    "[",
                                    "]",
                                    "](",
                                    ")",
                                    "(",
                                    "!",
                                    "\\*",
                                    "\\",
                                    "&amp;",
                                    "&lt;",
                                    "&#169;",
                                    "&nope;",
                                    "<http://e.org/a_b>",
                                    "#",
                                    "1.",
                                    "-",
                                    ">",
                                    "3 * 4",
                                    "don't",
                                    "\"q\"",
                                    "  ",
                                    " ",
                                    "*a **b** c*",
                                    "**a *b***",
                                    "[**b**](c)",
                                    "**[b](c)**",
                                    ":",
                                    "=",
                                    "a",
                                    "b",
                                    "c d",
                                    "!["};
static const char *const LINES[] = {"===", "---", "***", "- - -", NULL, NULL, "", "    code", "> quote", "-"};

// Which backticks a document has. Behind a run of them that nothing closes, libcmark 0.30 no longer sees code in runs
// of another length (palaver and markdown-it do, as CommonMark 6.1 has it): so a document has whole spans, or runs of
// one length.
typedef enum Ticks { TICKS_SPANS, TICKS_SINGLE, TICKS_FENCES, N_TICKS } Ticks;

static bool is_wanted(const char *part, Ticks ticks) {
    const bool loose = !strcmp(part, "`"), single = loose || !strcmp(part, "`code`");
    if (!strcmp(part, "\\")) return ticks != TICKS_SPANS; // it would open one
    if (!strchr(part, '`')) return true;
    return ticks == TICKS_SPANS ? !loose : ticks == TICKS_SINGLE && single;
}

static void add(char *text, const char *part) {
    if (strlen(text) + strlen(part) + 2 < DOCUMENT_ROOM) strcat(text, part);
}

static void add_parts(uint32_t *numbers, Ticks ticks, char *text) {
    for (uint32_t n = 1 + drawn_below(numbers, 6); n > 0; n--) {
        const char *part = PICK(numbers, PARTS);
        if (!is_wanted(part, ticks)) continue;
        if (strchr(part, '`')) add(text, " "); // so that two runs do not become one
        add(text, part);
        if (strchr(part, '`') || drawn_below(numbers, 2)) add(text, " ");
    }
}

static void make_document(uint32_t *numbers, char *text) {
    static const char *const FENCES[] = {"```", "````py", "``` c d", "~~~"};
    const Ticks ticks = (Ticks)drawn_below(numbers, N_TICKS);
    const char *fence = ticks == TICKS_FENCES ? PICK(numbers, FENCES) : "~~~ c";
    *text = 0;
    for (uint32_t line = 1 + drawn_below(numbers, 9); line > 0; line--) {
        for (uint32_t n = drawn_below(numbers, 4); n > 0; n--) {
            const char *beginning = PICK(numbers, BEGINNINGS);
            add(text, beginning ? beginning : fence);
        }
        if (drawn_below(numbers, 5)) {
            add_parts(numbers, ticks, text);
        } else {
            const char *whole = PICK(numbers, LINES);
            add(text, whole ? whole : fence);
        }
        add(text, drawn_below(numbers, 4) ? "\n" : "\n\n");
    }
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || (c & 0x80);
}

// Stars within a word, backslashes that may be a path's or mathematics.
static bool is_read_otherwise(const char *text) {
    for (const char *c = text; *c; c++) {
        if (*c == '\\' && (is_word(c[1]) || strchr("([", c[1]))) return true;
        if (*c != '*') continue;
        const size_t n = strspn(c, "*");
        if (n < 3 && c > text && is_word(c[-1]) && is_word(c[n])) return true;
        c += n - 1;
    }
    return false;
}

// ---- what cmark has of it -----------------------------------------------------------------------------------------

// Where a node is written.
static const char *source_of(const char *text, cmark_node *node) {
    for (int line = cmark_node_get_start_line(node); line > 1; line--) text = strchr(text, '\n') + 1;
    return text + cmark_node_get_start_column(node) - 1;
}

static void add_word(const char *text, size_t n, char *seen) {
    strcat(seen, " ");
    strncat(seen, text, n);
    strcat(seen, " ");
}

// The mark of an item with a number, as it is written.
static void add_number(const char *text, cmark_node *item, char *seen) {
    if (cmark_node_get_list_type(cmark_node_parent(item)) != CMARK_ORDERED_LIST) return;
    text = source_of(text, item);
    add_word(text, strspn(text, "0123456789") + 1, seen);
}

// The language of a fence, likewise.
static void add_language(const char *text, cmark_node *code, char *seen) {
    if (!*cmark_node_get_fence_info(code)) return;
    text = source_of(text, code);
    text += strspn(text, " \t");
    text += strspn(text, *text == '`' ? "`" : "~");
    text += strspn(text, " \t");
    add_word(text, strcspn(text, " \t\n"), seen);
}

// The words of all blocks. False: the text has HTML.
static bool see(const char *text, char seen[DRAWN_SEEN]) {
    cmark_node *document = cmark_parse_document(text, strlen(text), CMARK_OPT_DEFAULT);
    cmark_iter *iter = cmark_iter_new(document);
    bool fine = true;
    *seen = 0;
    for (cmark_event_type event; (event = cmark_iter_next(iter)) != CMARK_EVENT_DONE;) {
        cmark_node *node = cmark_iter_get_node(iter);
        const cmark_node_type type = cmark_node_get_type(node);
        const bool is_block = type >= CMARK_NODE_FIRST_BLOCK && type <= CMARK_NODE_LAST_BLOCK;
        if (is_block || type == CMARK_NODE_SOFTBREAK || type == CMARK_NODE_LINEBREAK) strcat(seen, " ");
        fine = fine && type != CMARK_NODE_HTML_BLOCK && type != CMARK_NODE_HTML_INLINE;
        if (event == CMARK_EVENT_ENTER && type == CMARK_NODE_ITEM) add_number(text, node, seen);
        if (type == CMARK_NODE_CODE_BLOCK) add_language(text, node, seen);
        if (type == CMARK_NODE_TEXT || type == CMARK_NODE_CODE || type == CMARK_NODE_CODE_BLOCK)
            strcat(seen, cmark_node_get_literal(node));
    }
    cmark_iter_free(iter);
    cmark_node_free(document);
    return fine;
}

// Words with one blank between two.
static void normalise(char *text) {
    char *to = text;
    for (const char *from = text; *from;) {
        size_t n = strcspn(from, " \t\n");
        if (n && to > text) *to++ = ' ';
        memmove(to, from, n);
        to += n;
        from += n + strspn(from + n, " \t\n");
    }
    *to = 0;
}

static void test_random_texts(void **state) {
    (void)state;
    static Vt vt;
    static char text[DOCUMENT_ROOM], wanted[DRAWN_SEEN], seen[DRAWN_SEEN];
    MarkdownOptions options = drawn_options(VT_MAX_COLS, false);
    uint32_t numbers = 20261122;
    int compared = 0, failed = 0;
    for (int i = 0; i < DOCUMENTS && failed < 5; i++) {
        make_document(&numbers, text);
        if (!see(text, wanted) || strstr(text, "]:") || is_read_otherwise(text)) continue;
        normalise(wanted);
        drawn_show(&vt, text, &options, 7, &numbers);
        drawn_seen(&vt, false, seen);
        compared++;
        if (!strcmp(seen, wanted)) continue;
        failed++;
        print_error("---- markdown:\n%s\n---- cmark: %s\n---- seen:  %s\n", text, wanted, seen);
    }
    assert_int_equal(failed, 0);
    assert_true(compared > DOCUMENTS * 3 / 4);
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_texts),
    };
    return test_main("commonmark", argc, argv, tests);
}
