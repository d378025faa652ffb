// Where output goes and what a terminal may see of it; keys, turns and texts, which need no terminal.
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/terminal/screen/screen.h"
#include "app/terminal/editor/keys.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/turn_lines.h"
#include "tests/support/terminal/terminal.h"

// ---- replies ---------------------------------------------------------------------------------------------

static void expect_all(Pty *pty, const char *all, int status) {
    pty_expect_exit(pty, status);
    assert_string_equal(pty_transcript(pty), all);
    pty_end(pty);
}

static void replies_are_harmless(void **state) {
    (void)state;
    expect_all(terminal_start("reply", "a\\e[31mred\\x07\\x00", "b\\x7f\\x9b", NULL),
               "a␛[31mred␇b␡\ufffd\r\n", 0);
    expect_all(terminal_start("reply", "x\\u009b1m\\u202eabc\\u2066d\\u200fe", NULL),
               "x\\u009b1m\\u202eabc\\u2066d\u200fe\r\n", 0);
    expect_all(terminal_start("reply", "tab\tand\\nline\\n", NULL), "tab\tand\r\nline\r\n", 0);
    expect_all(terminal_start("reply", "over\\rwritten\\r\\nend\\r", NULL), "over␍written\r\nend␍\r\n", 0);
    expect_all(terminal_start("reply", "cut\\r", "\\nhere\\r", "\\rx", NULL), "cut\r\nhere␍␍x\r\n", 0);
    expect_all(terminal_start("reply", "", NULL), "", 0);
}

static void characters_are_never_halved(void **state) {
    (void)state;
    expect_all(terminal_start("reply", "\\xf0", "\\x9f\\x98", "\\x80", "\\xe6\\x97", "\\xa5", NULL),
               "😀日\r\n", 0);
    expect_all(terminal_start("reply", "a\\xe6\\x97", "b\\xff\\xc3", NULL), "a\ufffd\ufffdb\ufffd\ufffd\r\n",
               0);
}

// A file gets the bytes as they are; notices still reach the terminal, on lines of their own.
static void files_get_the_bytes(void **state) {
    (void)state;
    char path[128], got[64] = "";
    snprintf(path, sizeof path, "%s/out", terminal_folder());
    Pty *pty = terminal_start_with(&(const PtyOptions){.stdout_path = path}, "reply", "a\\e[31m\\xff",
                                   "\\xe6", NULL);
    pty_expect_exit(pty, 0);
    assert_string_equal(pty_transcript(pty), "");
    pty_end(pty);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    got[fread(got, 1, sizeof got - 1, file)] = 0;
    fclose(file);
    assert_string_equal(got, "a\033[31m\xff\xe6\n");
}

static void broken_outputs(void **state) {
    (void)state;
    Pty *pty = terminal_start_with(&(const PtyOptions){.stdout_path = "/dev/full"}, "reply", "abc", NULL);
    pty_expect(pty, "palaver: \033[0mstdout: No space left on device\r\n");
    pty_expect_exit(pty, 1);
    pty_end(pty);
    int fds[2], status; // a pipe that nobody reads
    assert_int_equal(pipe(fds), 0);
    close(fds[0]);
    pid_t child = fork();
    if (child == 0) {
        dup2(fds[1], STDOUT_FILENO);
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        execl(terminal_program(), "test", "--child", "reply", "a", "b", (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

// ---- notices ---------------------------------------------------------------------------------------------

static void notices_have_lines(void **state) {
    (void)state;
    Pty *pty = terminal_start("notices", NULL);
    pty_expect(pty, "banner 1\r\na reply\r\n\033[2ma notice\033[0m\r\n goes on\r\n");
    pty_expect(pty, "\033[1;31mpalaver: \033[0mbad ␛[31mname\r\nof two lines\r\n\033[33mcareful\033[0m\r\n");
    pty_expect(
        pty,
        "<><><\033[2m[50%]\033[0m ><\033[2m[62%]\033[0m ><\033[33m[80%]\033[0m ><\033[33m[100%]\033[0m ><>");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

static void assert_no_escapes(Pty *pty) {
    pty_expect(pty, "banner 1\r\na reply\r\na notice\r\n goes on\r\npalaver: bad ␛[31mname\r\n");
    pty_expect(pty, "<><><[50%] ><[62%] ><[80%] ><[100%] ><>");
    pty_expect_exit(pty, 0);
    assert_null(strchr(pty_transcript(pty), '\033'));
    pty_end(pty);
}

static void colours_are_respected(void **state) {
    (void)state;
    const char *const no_color[] = {"NO_COLOR=1", NULL}, *const dumb[] = {"TERM=dumb", NULL};
    const char *const empty[] = {"NO_COLOR=", NULL};
    assert_no_escapes(terminal_start_with(&(const PtyOptions){.env = no_color}, "notices", NULL));
    assert_no_escapes(terminal_start_with(&(const PtyOptions){.env = dumb}, "notices", NULL));
    assert_no_escapes(terminal_start("--color=never", "notices", NULL));
    assert_no_escapes(terminal_start("--plain", "--color=always", "notices", NULL));
    Pty *pty = terminal_start_with(&(const PtyOptions){.env = no_color}, "--color=always", "notices", NULL);
    pty_expect(pty, "\033[2ma notice");
    pty_end(pty);
    pty = terminal_start_with(&(const PtyOptions){.env = empty}, "notices", NULL); // empty means not set
    pty_expect(pty, "\033[2ma notice");
    pty_end(pty);
    pty = terminal_start("--quiet", "notices", NULL);
    pty_expect(pty, "a reply goes on\r\n");
    pty_end(pty);
}

static void without_utf8(void **state) {
    (void)state;
    const char *const latin[] = {"LC_ALL=C", NULL}; // names no character set: UTF-8 it is
    Pty *pty = terminal_start_with(&(const PtyOptions){.env = latin}, "reply", "\\e\\u65e5", NULL);
    expect_all(pty, "␛日\r\n", 0);
    Text out = {0};
    for (const char *c = "a\033\177\n"; *c; c++)
        assert_true(text_add_harmless(&out, (unsigned char)*c, false));
    assert_true(text_add_harmless(&out, 0x9B, false));
    assert_string_equal(out.bytes, "a^[^?\n<9b>");
    text_free(&out);
}

// What stands within a line, and what is too long for it.
static void escaped_text(void **state) {
    (void)state;
    char longer[TEXT_ESCAPED_ROOM];
    assert_string_equal(text_escaped("a\n\xff\xc2\x9b\xe2\x80\xae\xe6\x97\xa5").text,
                        "a\\x0a\\xff\\u009b\\u202e\xe6\x97\xa5");
    memset(longer, '\n', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    const TextEscaped escaped = text_escaped(longer);
    const size_t size = strlen(escaped.text);
    assert_true(size > TEXT_ESCAPED_ROOM - 20 && size < TEXT_ESCAPED_ROOM);
    assert_string_equal(escaped.text + size - 7, "\\x0a…");

    assert_string_equal(text_shell_word("2026-11-28_a.b\xc3\xa9").text, "2026-11-28_a.b\xc3\xa9");
    assert_string_equal(text_shell_word("a$(id)'b\n").text, "'a$(id)'\\''b\\x0a'");
    assert_string_equal(text_shell_word("").text, "''");
}

static void progress_bar(void **state) {
    (void)state;
    Pty *pty = terminal_start_with(&(const PtyOptions){.cols = 100}, "progress", NULL);
    pty_expect(pty, "loading model.gguf ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░   0%  0 B of 100 MB");
    pty_expect(pty, "loading model.gguf ████████████████████░░░░░░░░░░░░░░░░░░░░  50%  50 MB of 100 MB  ");
    pty_expect_row(pty, 0, "in between"); // the bar is gone
    pty_expect_screen(pty, "loaded");
    pty_expect_exit(pty, 0);
    // 401 calls at once are one drawing; 8 in 160 ms at most four more.
    int drawings = 0;
    for (const char *at = pty_transcript(pty); (at = strstr(at, "loading")) != NULL; at++) drawings++;
    assert_in_range(drawings, 2, 40);
    pty_end(pty);
    pty = terminal_start_with(&(const PtyOptions){.cols = 50}, "progress", NULL); // no room: no bar, one row
    pty_expect_screen(pty, "loaded");
    pty_expect_row(pty, 0, "in between");
    pty_end(pty);
    pty = terminal_start("--plain", "progress", NULL);
    pty_expect(pty, "loading model.gguf: 25% of 100 MB\r\n");
    pty_expect(pty, "loading model.gguf: 50% of 100 MB\r\nloading model.gguf: 75% of 100 MB\r\n");
    pty_expect(pty, "loading model.gguf: 100% of 100 MB\r\n");
    pty_expect_exit(pty, 0);
    assert_null(strchr(pty_transcript(pty), '\033'));
    pty_end(pty);
}

static void widths(void **state) {
    (void)state;
    Pty *pty = terminal_start_with(&(const PtyOptions){.cols = 123}, "width", NULL);
    pty_expect_exit(pty, 123);
    pty_end(pty);
    char command[4200];
    snprintf(command, sizeof command, "COLUMNS=77 %s --child width 2>/dev/null", terminal_program());
    assert_int_equal(WEXITSTATUS(system(command)), 77);
}

// ---- turns -------------------------------------------------------------------------------------------------

// Adds lines (separated by \n) until the turn is whole.
static void expect_lines(const char *lines, const char *turn) {
    TurnLines all = {0};
    bool more = true;
    while (more && *lines) {
        size_t n = strcspn(lines, "\n");
        n += lines[n] == '\n';
        assert_true(turn_add_line(&all, lines, n));
        lines += n;
        more = all.open;
    }
    assert_string_equal(all.text, turn);
    assert_int_equal(all.size, strlen(turn));
    assert_false(*lines);
    turn_clear(&all);
}

static void lines_make_turns(void **state) {
    (void)state;
    expect_lines("one\n", "one");
    expect_lines("one\\\ntwo\n", "one\ntwo");
    expect_lines("one \\  \r\ntwo\r\n", "one \ntwo");
    expect_lines("one\\\\\n", "one\\\\");
    expect_lines("\\\n\\\n\n", "\n\n");
    expect_lines("\"\"\"one\"\"\"\n", "one");
    expect_lines("\"\"\"\"\"\"\n", "");
    expect_lines("\"\"\"\none\n\n two\\\n\"\"\"\n", "one\n\n two\\");
    expect_lines("\"\"\"one\ntwo\"\"\" \n", "one\ntwo");
    expect_lines("\"\"\"\n\n\none\n\n\"\"\"\n", "\n\none\n");
    expect_lines("\"\"\"\n\"\"\"\n", "");
    expect_lines(" \"\"\"one\n", " \"\"\"one");
    expect_lines("a\\\n\"\"\"b\n", "a\n\"\"\"b"); // a block begins a turn, or is none
    TurnLines open = {0};
    assert_true(turn_add_line(&open, "\"\"\"a", 4));
    assert_true(open.open && open.block);
    turn_clear(&open);
    assert_false(open.open);
}

static void ends_of_typed_texts(void **state) {
    (void)state;
    assert_int_equal(turn_end(""), TURN_DONE);
    assert_int_equal(turn_end("a\\"), TURN_MORE_LINE);
    assert_int_equal(turn_end("a\\\\"), TURN_DONE);
    assert_int_equal(turn_end("a\\\nb"), TURN_DONE);
    assert_int_equal(turn_end("a\nb\\ "), TURN_MORE_LINE);
    assert_int_equal(turn_end("\"\"\""), TURN_MORE_BLOCK);
    assert_int_equal(turn_end("\"\"\"a\\"), TURN_MORE_BLOCK);
    assert_int_equal(turn_end("\"\"\"a\"\"\""), TURN_DONE);
    assert_int_equal(turn_end("\"\"\"doc\"\"\"\nimport x"), TURN_DONE);
    assert_int_equal(turn_end("\"\"\"doc\"\"\"\nimport \\"), TURN_MORE_LINE);
    char text[] = "\"\"\"doc\"\"\"\nimport x"; // pasted code: no block
    turn_unblock(text);
    assert_string_equal(text, "\"\"\"doc\"\"\"\nimport x");
    char open[] = "\"\"\"doc";
    turn_unblock(open);
    assert_string_equal(open, "\"\"\"doc");
}

// ---- keys and texts ------------------------------------------------------------------------------------------

static void keys_survive_any_bytes(void **state) {
    (void)state;
    Keys keys = {0};
    uint32_t random = 1;
    for (int i = 0; i < 2000000; i++) {
        random = random * 1664525u + 1013904223u;
        // Every other byte from those that sequences are made of.
        static const unsigned char likely[] = "\033[O~;0123u200201M?\r\n\003";
        unsigned char byte = (unsigned char)(random >> 24);
        if (random & 0x8000) byte = likely[byte % (sizeof likely - 1)];
        wchar_t character = 0;
        Key key = keys_feed(&keys, byte, &character);
        assert_in_range(key, KEY_NONE, KEY_COUNT - 1);
        if (key == KEY_CHAR) assert_false(text_is_control((uint32_t)character));
        if (key == KEY_PASTE) text_free(&keys.paste);
    }
    keys_free(&keys);
}

static void pastes_have_a_limit(void **state) {
    (void)state;
    Keys keys = {0};
    wchar_t character;
    for (const char *c = "\033[200~"; *c; c++)
        assert_int_equal(keys_feed(&keys, (unsigned char)*c, &character), KEY_NONE);
    for (size_t i = 0; i < KEYS_MAX_PASTE + 1000; i++) keys_feed(&keys, 'x', &character);
    Key key = KEY_NONE;
    for (const char *c = "\033[201~"; *c; c++) key = keys_feed(&keys, (unsigned char)*c, &character);
    assert_int_equal(key, KEY_PASTE);
    assert_true(keys.paste_lost);
    assert_in_range(keys.paste.size, KEYS_MAX_PASTE - 16, KEYS_MAX_PASTE);
    keys_free(&keys);
}

static void utf8_is_decoded_strictly(void **state) {
    (void)state;
    const char *const bad[] = {"\x80",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x9F\xBF",
                               "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
                               "\xFF",         "\xE6\x97z"};
    uint32_t code;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(text_decode(bad[i], strlen(bad[i]), &code), 1);
        assert_int_equal(code, TEXT_REPLACEMENT);
    }
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        if (c == 0xD800) c = 0xE000;
        char out[4];
        size_t n = text_encode(c, out);
        assert_int_equal(text_decode(out, n, &code), n);
        assert_int_equal(code, c);
        for (size_t cut = 1; cut < n; cut++) assert_int_equal(text_decode(out, cut, &code), 0);
    }
    size_t dropped;
    char *clean = text_clean("a\r\nb\rc\0d\x1b\t\xC2\x85\xF0\x9F", 14, &dropped);
    assert_string_equal(clean, "a\nb\ncd\t\uFFFD");
    assert_int_equal(dropped, 3);
    free(clean);
}

// What says that there is no memory must not need any. The sanitizer tells of each allocation (its header does not come
// with every compiler); without one all libraries call the program's own malloc, where it has one.
static int n_allocations;
#ifdef __SANITIZE_ADDRESS__
int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void *, size_t),
                                              void (*released)(const volatile void *));

static void note_allocation(const volatile void *memory, size_t size) {
    (void)memory, (void)size;
    n_allocations++;
}

static void note_release(const volatile void *memory) {
    (void)memory;
}

static bool count_allocations(void) {
    return __sanitizer_install_malloc_and_free_hooks(note_allocation, note_release);
}
#else
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size) {
    n_allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
    n_allocations++;
    return __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size) {
    n_allocations++;
    return __libc_realloc(memory, size);
}

static bool count_allocations(void) {
    return true;
}
#endif

static void saying_something_takes_no_memory(void **state) {
    (void)state;
    Screen *screen;
    Error error;
    assert_int_equal(screen_open(&(ScreenOptions){0}, &screen, &error), STATUS_OK);
    assert_true(count_allocations());
    int before = n_allocations;
    screen_error(screen, "out of memory: %s, %d, %.1f", "a\033[31mb", 42, 1.5);
    screen_warn(screen, "[%lld tokens]", 7LL);
    screen_notice(screen, "[noticed]\n");
    assert_int_equal(n_allocations, before);
    void *volatile memory = malloc(1); // they are counted
    free(memory);
    assert_true(n_allocations > before);
    screen_close(screen);
}

// A notice of any length is said whole.
static void long_notices_are_whole(void **state) {
    (void)state;
    char path[] = "/tmp/palaver-notice-XXXXXX";
    const size_t size = 50000;
    char *text = malloc(size + 1), *got = calloc(1, 2 * size);
    for (size_t i = 0; i < size; i++) text[i] = (char)('a' + i % 26);
    text[size] = 0;
    int file = mkstemp(path), held = dup(STDERR_FILENO);
    Screen *screen;
    Error error;
    dup2(file, STDERR_FILENO);
    assert_int_equal(screen_open(&(ScreenOptions){0}, &screen, &error), STATUS_OK);
    screen_say(screen, "%s", text);
    screen_close(screen);
    dup2(held, STDERR_FILENO);
    assert_int_equal(pread(file, got, 2 * size - 1, 0), size + 1);
    assert_memory_equal(got, text, size);
    assert_int_equal(got[size], '\n');
    close(file), close(held), remove(path);
    free(text), free(got);
}

static int run(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_are_harmless),
        cmocka_unit_test(characters_are_never_halved),
        cmocka_unit_test(files_get_the_bytes),
        cmocka_unit_test(escaped_text),
        cmocka_unit_test(broken_outputs),
        cmocka_unit_test(notices_have_lines),
        cmocka_unit_test(saying_something_takes_no_memory),
        cmocka_unit_test(long_notices_are_whole),
        cmocka_unit_test(colours_are_respected),
        cmocka_unit_test(without_utf8),
        cmocka_unit_test(progress_bar),
        cmocka_unit_test(widths),
        cmocka_unit_test(lines_make_turns),
        cmocka_unit_test(ends_of_typed_texts),
        cmocka_unit_test(keys_survive_any_bytes),
        cmocka_unit_test(pastes_have_a_limit),
        cmocka_unit_test(utf8_is_decoded_strictly),
    };
    return test_main("screen", argc, argv, tests);
}

int main(int argc, char **argv) {
    return terminal_main(argc, argv, run);
}
