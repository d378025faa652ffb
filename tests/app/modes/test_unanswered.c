// A question is on disk before its answer begins: what ends the program in between costs the answer only.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/terminal/pty.h"
#include "tests/support/test.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TALK BABBLER "|--seed=1|--threads=1"
#define ENDLESS "|--ignore-eos|--context=512"

static Pty *at_terminal(const char *arguments) {
    char **argv = program_words(arguments);
    Pty *pty = pty_start(&(PtyOptions){.argv = (const char *const *)argv});
    free(argv);
    pty_expect(pty, "> ");
    return pty;
}

// How often the only journal has `part`; -1: there is none.
static int in_journal(const char *home, const char *part) {
    char pattern[300];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/palaver/conversations/*.jsonl", home);
    if (glob(pattern, 0, NULL, &found)) return -1;
    assert_int_equal(found.gl_pathc, 1);
    Bytes journal = bytes_of_file(found.gl_pathv[0]);
    bytes_add(&journal, "", 1);
    int n = program_count((char *)journal.data, part);
    bytes_free(&journal);
    globfree(&found);
    return n;
}

static void ends_in_the_answer(const char *home, int signal, int status) {
    Pty *pty = at_terminal(TALK ENDLESS);
    pty_send(pty, "What became of this question?\r");
    pty_expect(pty, "[context full"); // well within the answer
    assert_int_equal(in_journal(home, "\"asked\""), 1);
    pty_signal(pty, signal);
    pty_expect_exit(pty, status);
    pty_end(pty);
}

static void test_killed(void **state) {
    ends_in_the_answer(*state, SIGKILL, 128 + SIGKILL);
    Run run = program_script(TALK "|--no-save", "/list\n");
    expect_err(&run, "What became of this question?");
    program_free(&run);
    Pty *pty = at_terminal("--threads=1|--max-tokens=5|--resume");
    pty_expect_screen(pty, "[the last question was not answered: Enter asks it, Ctrl-U takes it away]");
    pty_expect_screen(pty, "> What became of this question?");
    pty_send(pty, "\r");
    pty_expect(pty, "max_tokens reached");
    pty_expect(pty, "> ");
    pty_send(pty, "\004");
    pty_expect_exit(pty, 0);
    pty_end(pty);
    pty = at_terminal("--threads=1|--max-tokens=5|--resume");
    pty_expect_screen(pty, "1 turn so far");
    assert_null(strstr(pty_transcript(pty), "not answered"));
    pty_end(pty);
}

// Ctrl-\ is no way to save anything, and yet nothing that was said is lost.
static void test_quit_by_signal(void **state) {
    ends_in_the_answer(*state, SIGQUIT, 128 + SIGQUIT);
    assert_int_equal(in_journal(*state, "\"asked\""), 1);
    Pty *pty = at_terminal("--threads=1|--max-tokens=5|--resume");
    pty_expect_screen(pty, "> What became of this question?");
    pty_end(pty);
}

static void test_refused_leaves_nothing(void **state) {
    Pty *pty = at_terminal(TALK "|--context=64|--overflow=stop");
    pty_send(
        pty,
        "This is a question that is much longer than the context of sixty-four tokens that there is for it, "
        "and therefore it is refused and stands on the line again.\r");
    pty_expect(pty, "leaves no room");
    pty_expect(pty, "> ");
    pty_send(pty, "\003/quit\r");
    pty_expect_exit(pty, 0);
    pty_end(pty);
    assert_int_equal(in_journal(*state, ""), -1);
}

static void test_answered(void **state) {
    Pty *pty = at_terminal(TALK "|--max-tokens=5");
    pty_send(pty, "Hello.\r");
    pty_expect(pty, "max_tokens reached");
    pty_expect(pty, "> ");
    pty_send(pty, "\004");
    pty_expect_exit(pty, 0);
    pty_end(pty);
    assert_int_equal(in_journal(*state, "\"turn\""), 1);
    pty = at_terminal(TALK "|--resume");
    assert_null(strstr(pty_transcript(pty), "not answered"));
    pty_end(pty);
}

#define test(name) cmocka_unit_test_setup_teardown(test_##name, program_set_up, program_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {test(killed), test(quit_by_signal), test(refused_leaves_nothing),
                                       test(answered)};
    return test_main("unanswered questions", argc, argv, tests);
}
