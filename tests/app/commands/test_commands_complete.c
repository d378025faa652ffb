// Tab behind a command: what is put in is what the command reads.
#include "tests/support/files.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHORT BABBLER "|--seed=1|--max-tokens=6|--threads=1|--stats"

static void test_commands_keys_and_words(void **state) {
    (void)state;
    Pty *pty = prompt_open(SHORT);
    prompt_say(pty, "/set overf\tre\t", "context.overflow = \"reevaluate\"  (/set)");
    prompt_say(pty, "/set context.ov\tst\t", "context.overflow = \"stop\"  (/set)");
    prompt_say(pty, "/reset context.ov\t", "context.overflow = ");
    prompt_say(pty, "/view tok\t\r/help und\t", "take the last turn");
    prompt_leave(pty);
}

// Who changes the model mostly means one that is here; files stand behind these, and folders have a slash.
static void test_models_come_before_files(void **state) {
    (void)state;
    Pty *pty = prompt_open(SHORT);
    pty_send(pty, "/model \t\t");
    pty_expect(pty, "\rparley-9m ");
    pty_expect(pty, "Makefile ");
    pty_expect(pty, "tests/");
    pty_send(pty, "\025");
    prompt_leave(pty);
}

// A file of n bytes in the test's home.
static void make_file(const char *home, const char *name, int n) {
    char text[100];
    snprintf(text, sizeof text, "%0*d", n, 0);
    folder_write_text(home, name, n ? text : "");
}

// The line, with the home for its %s, is sent as it is typed; the answer is waited for, and the prompt.
static void typed(Pty *pty, const char *home, const char *format, const char *answer) {
    char line[400];
    snprintf(line, sizeof line, format, home);
    prompt_say(pty, line, answer);
}

static void test_files(void **state) {
    make_file(*state, "unusual-name.txt", 4);
    Pty *pty = prompt_open(SHORT);
    typed(pty, *state, "/file %s/unus\t", "4 bytes go before the next turn");
    typed(pty, *state, "/system @%s/unus\t", "[system prompt set]");
    prompt_leave(pty);
}

// Each file has its own number of bytes, by which it is known.
static void test_names_that_need_care(void **state) {
    static const struct {
        const char *name, *line; // behind "/file "
    } CASES[] = {{"two words.txt", "%s/two wo\t"},       {"three more words", "%s/three more w\t"},
                 {"four\\ words", "%s/fou\t"},           {"blank at end ", "%s/blank a\t"},
                 {" blank before", "%s/\\x20blank b\t"}, {"a\\x41b", "%s/a\t"},
                 {"marked one", "\"%s/marked o\t"},      {"lastly marked ", "'%s/lastly m\t"},
                 {"spelled blank", "%s/spelled\\ b\t"},  {"dir\xff/c\\x41d ", "\"%s/di\tc\t"},
                 {"e\\x41f/g\xff ", "'%s/e\tg\t"}};
    enum { N = sizeof CASES / sizeof *CASES };
    const char *const folders[] = {"dir\xff", "e\\x41f"};
    for (int i = 0; i < 2; i++) {
        char folder[400];
        snprintf(folder, sizeof folder, "%s/%s", (char *)*state, folders[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
    for (int i = 0; i < N; i++) make_file(*state, CASES[i].name, 11 + i);
    Pty *pty = prompt_open(SHORT);
    for (int i = 0; i < N; i++) {
        char line[100], answer[40];
        snprintf(line, sizeof line, "/file %s", CASES[i].line);
        snprintf(answer, sizeof answer, ": %d bytes go before", 11 + i);
        typed(pty, *state, line, answer);
    }
    typed(pty, *state, "/system @%s/two wo\t", "[system prompt set]");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    make_file(*state, "empty one", 0);
    typed(pty, *state, "/export md %s/empty o\t", "written to");
    prompt_leave(pty);
}

// A mark at its beginning is the name's own.
static void test_marks_of_a_name(void **state) {
    char folder[400], program[400], model[400];
    snprintf(folder, sizeof folder, "%s/sub", (char *)*state);
    assert_int_equal(mkdir(folder, 0700), 0);
    make_file(folder, "'quoted'", 7);
    assert_non_null(realpath(program_path(), program));
    assert_non_null(realpath(BABBLER, model));
    const char *argv[] = {"sh",  "-c", "cd \"$1\" && exec \"$2\" \"$3\" --threads=1", "sh", folder, program,
                          model, NULL};
    Pty *pty = pty_start(&(PtyOptions){.argv = argv});
    pty_expect(pty, "> ");
    prompt_say(pty, "/file \t", ": 7 bytes go before");
    prompt_say(pty, "/file ''q\t", ": 7 bytes go before");
    pty_end(pty);
}

// Also in a folder, and from the home folder on.
static void test_models(void **state) {
    char path[300], target[400];
    snprintf(path, sizeof path, "%s/my models ", (char *)*state);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_non_null(realpath(BABBLER, target));
    snprintf(path, sizeof path, "%s/my models /tiny one", (char *)*state);
    assert_int_equal(symlink(target, path), 0);
    Pty *pty = prompt_open(SHORT);
    typed(pty, *state, "/model %s/my mo\ttiny o\t", "/my models\\x20/tiny one");
    prompt_say(pty, "/model ~/my mo\ttiny o\t", "/my models\\x20/tiny one");
    prompt_say(pty, "/model \"~/my mo\ttiny o\t\"", "/my models\\x20/tiny one");
    prompt_leave(pty);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {WITH_HOME(test_commands_keys_and_words),
                                       WITH_HOME(test_models_come_before_files),
                                       WITH_HOME(test_files),
                                       WITH_HOME(test_names_that_need_care),
                                       WITH_HOME(test_marks_of_a_name),
                                       WITH_HOME(test_models)};
    return test_main("commands_complete", argc, argv, tests);
}
