// /continue at a terminal: a reply that was cut within a block of Markdown goes on in that block, also in another run of
// the program. A grammar of one text says what the model says.
#include "tests/support/files.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARLEY                                                                                               \
    "assets/parley-9m|--device|cpu|--threads=1|--context|1024|--temperature=0|--no-gauge|--links=never"

// The text as a grammar's only one, in a file of the test's own folder.
static void write_grammar(const char *home, const char *text) {
    char grammar[2000] = "root ::= \"", *to = grammar + strlen(grammar);
    for (; *text; text++) {
        const char sign = *text == '\n' ? 'n' : *text;
        if (strchr("\n\"\\", *text)) *to++ = '\\';
        *to++ = sign;
    }
    snprintf(to, 4, "\"\n");
    folder_write_text(home, "g.gbnf", grammar);
}

static Pty *start(const char *home, const char *flags) {
    char arguments[600];
    snprintf(arguments, sizeof arguments, PARLEY "|--grammar|%s/g.gbnf|%s", home, flags);
    Pty *pty = prompt_start(arguments, &(const PtyOptions){.rows = 60, .cols = 80});
    pty_expect(pty, "> ");
    return pty;
}

// The rows behind /continue are, once the screen has the last of them.
static void expect_rows(Pty *pty, const char *const *rows) {
    char line[1300];
    int n = 0, row = 59;
    while (rows[n]) n++;
    pty_expect_screen(pty, rows[n - 1]);
    for (; row >= 0; row--) {
        vt_row(pty_screen(pty), row, line, sizeof line);
        if (!strcmp(line, "> /continue")) break;
    }
    assert_true(row >= 0);
    for (int i = 0; i < n; i++) {
        vt_row(pty_screen(pty), row + 2 + i, line, sizeof line); // behind an empty one
        assert_string_equal(line, rows[i]);
    }
}

// Cut behind some tokens, and gone on with in the same run or (`again`) in another; rows: what comes then.
static void check(const char *home, const char *text, int n_tokens, bool again, const char *const *rows) {
    char flags[60], command[40];
    write_grammar(home, text);
    snprintf(flags, sizeof flags, "--max-tokens=%d", again ? n_tokens : 600);
    Pty *pty = start(home, flags);
    snprintf(command, sizeof command, "/set max_tokens %d", n_tokens);
    prompt_say(pty, command, "max_tokens");
    prompt_say(pty, "Hello.", "/continue goes on");
    if (again) {
        prompt_leave(pty);
        pty = start(home, "--resume");
    }
    prompt_say(pty, "/set max_tokens 600", "max_tokens");
    pty_send(pty, "/continue\r");
    expect_rows(pty, rows);
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

static void test_code(void **state) {
    static const char text[] =
        "So:\n\n```python\ndef __init__(self):\n    # a comment\n    return __name__ * 2 * "
        "3\n```\n\nThe **end**.";
    static const char *const rows[] = {
        "nit__(self):", "    # a comment", "    return __name__ * 2 * 3", "", "The end.", NULL};
    check(*state, text, 20, false, rows);
    check(*state, text, 20, true, rows);
}

// Its head is told again, and so is the line in which it was cut.
static void test_a_table(void **state) {
    static const char text[] =
        "| a | b |\n|---|--:|\n| one | 1 |\n| two | 2 |\n| three | 3 |\n\nThe **end**.";
    static const char *const rows[] = {"a     │ b", "──────┼──", "two   │ 2", "three │ 3",
                                       "",          "The end.",  NULL};
    check(*state, text, 32, false, rows);
    check(*state, text, 32, true, rows);
}

static void test_a_list(void **state) {
    static const char text[] =
        "1. One\n   - a *sub item\n     of two lines*\n   - another\n\n2. Two\n\nThe **end**.";
    static const char *const rows[] = {
        "     ub item", "     of two lines", "   • another", "", "2. Two", "", "The end.", NULL};
    check(*state, text, 14, false, rows);
    check(*state, text, 14, true, rows);
}

// What is complete says nothing twice.
static void test_nothing_is_left(void **state) {
    write_grammar(*state, "| a |\n|---|\n| 1 |");
    Pty *pty = start(*state, "--max-tokens=600");
    prompt_say(pty, "Hello.", "─");
    pty_send(pty, "/continue\r");
    expect_rows(pty, (const char *const[]){"[the reply is complete: there is nothing to go on with]", NULL});
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_code),
        WITH_HOME(test_a_table),
        WITH_HOME(test_a_list),
        WITH_HOME(test_nothing_is_left),
    };
    return test_main("gone_on", argc, argv, tests);
}
