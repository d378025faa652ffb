// Other programs change files that palaver has open: its model, its journal, its configuration.
#include "tests/support/files.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETTINGS "--seed=1|--threads=2|--stats|--context=1024"
#define SHORT SETTINGS "|--max-tokens=6"
#define ENDLESS SETTINGS "|--ignore-eos"

enum { ROOM = 600 };

// A copy of the model, in a folder of its own, and arguments to talk with it.
typedef struct Copy {
    char *folder, weights[ROOM], arguments[ROOM];
} Copy;

static Copy copy_model(const char *arguments) {
    static const char *const files[] = {"config.json", "generation_config.json", "model.safetensors",
                                        "tokenizer.json", "tokenizer_config.json"};
    Copy copy = {.folder = folder_new()};
    for (int i = 0; i < 5; i++) {
        char from[ROOM];
        snprintf(from, sizeof from, BABBLER "/%s", files[i]);
        folder_copy(copy.folder, files[i], from);
    }
    snprintf(copy.weights, sizeof copy.weights, "%s/model.safetensors", copy.folder);
    snprintf(copy.arguments, sizeof copy.arguments, "%s|%s", copy.folder, arguments);
    return copy;
}

static Pty *open_prompt(const Copy *copy) {
    Pty *pty = prompt_start(copy->arguments, NULL);
    pty_expect(pty, "> ");
    return pty;
}

// The only journal below the home, read as a text to free(); its path goes to `path` [ROOM].
static char *read_journal(const char *home, char *path) {
    char command[ROOM];
    Run run;
    snprintf(command, sizeof command, "ls %s/palaver/conversations/*.jsonl", home);
    program_shell(&run, command);
    expect_status(&run, 0);
    snprintf(path, ROOM, "%s", run.out);
    path[strcspn(path, "\n")] = 0;
    program_free(&run);
    Bytes bytes = bytes_of_file(path);
    bytes_add(&bytes, "", 1);
    return (char *)bytes.data;
}

static int turns_in(const char *journal) {
    int n = 0;
    for (const char *at = journal; (at = strstr(at, "{\"record\":\"turn\"")); at++) n++;
    return n;
}

static void expect_turns(const char *home, int n) {
    char path[ROOM], *journal = read_journal(home, path);
    if (turns_in(journal) != n) fail_msg("expected %d turns in:\n%s", n, journal);
    free(journal);
}

static void resumes(const char *turn) {
    Run run;
    program_run(&run, BABBLER "|--resume|" SHORT, "And now?\n");
    expect_status(&run, 0);
    expect_err(&run, turn);
    program_free(&run);
}

// ---- the model ----------------------------------------------------------------------------------------------

// The part that a reply needs is gone while it is written: no thread can go on.
static void test_a_model_that_is_cut_within_a_reply(void **state) {
    Copy copy = copy_model(ENDLESS);
    Pty *pty = open_prompt(&copy);
    prompt_say(pty, "/set max_tokens 4", "max_tokens = 4");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_say(pty, "/reset max_tokens", "max_tokens");
    pty_send(pty, "And of Italy?\r");
    prompt_await_reply(pty);
    assert_int_equal(truncate(copy.weights, 5000), 0);
    pty_expect(pty, "palaver: ");
    pty_expect(pty, "/model.safetensors: a part of this file is gone");
    pty_expect_exit(pty, 1);
    assert_true(pty_is_cooked(pty));
    pty_end(pty);
    expect_turns(*state, 1);
    resumes("[turn 2: ");
    folder_remove(copy.folder);
}

// A first turn after it finds the file cut before it is touched, and the terminal is as it was.
static void test_a_model_that_is_cut_at_the_prompt(void **state) {
    (void)state;
    Copy copy = copy_model(SHORT);
    Pty *pty = open_prompt(&copy);
    pty_send(pty, "Hello");
    assert_int_equal(truncate(copy.weights, 4096), 0);
    prompt_say(pty, " there.", "another program has changed this file");
    prompt_leave(pty);
    folder_remove(copy.folder);
}

static void test_a_model_that_is_cut_within_an_answer(void **state) {
    (void)state;
    Copy copy = copy_model("");
    char command[3 * ROOM];
    Run run;
    snprintf(command, sizeof command,
             "F=%s; (until [ -s $F/out ]; do sleep 0.01; done; truncate -s 4096 $F/model.safetensors) & "
             "$PALAVER $F -p a --ignore-eos --seed 1 --threads 2 --context 1024 < /dev/null > $F/out; "
             "echo status $? >&2",
             copy.folder);
    program_shell(&run, command);
    expect_err(&run, "model.safetensors: a part of this file is gone");
    expect_err(&run, "status 1\n");
    program_free(&run);
    folder_remove(copy.folder);
}

static void test_a_model_that_is_cut_in_a_script(void **state) {
    (void)state;
    Copy copy = copy_model("");
    char command[3 * ROOM], *program = realpath(program_path(), NULL);
    Run run;
    // The second has begun by then, and goes on for a second: one that has not would see the change at its start.
    snprintf(command, sizeof command,
             "cd %s; (until [ -s out ]; do sleep 0.01; done; sleep 0.2; : > model.safetensors) & "
             "printf '{\"turns\": [\"a\"], \"sampling\": {\"max_tokens\": 4}}\\n{\"turns\": [\"b\"]}' | "
             "%s . --jsonl --ignore-eos --threads 2 --context 1024 > out; echo status $? $(wc -l < out) >&2",
             copy.folder, program);
    program_shell(&run, command);
    free(program);
    expect_err(&run, "model.safetensors: a part of this file is gone");
    expect_err(&run, "status 1 1\n");
    program_free(&run);
    folder_remove(copy.folder);
}

// Between turns it is seen before it is touched, and the talk goes on once the model is opened again.
static void test_a_model_that_is_changed_between_turns(void **state) {
    (void)state;
    Copy copy = copy_model(SHORT);
    Bytes weights = bytes_of_file(copy.weights);
    Pty *pty = open_prompt(&copy);
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    assert_int_equal(truncate(copy.weights, (off_t)weights.size - 1), 0);
    prompt_say(pty, "And of Italy?", "another program has changed this file");
    folder_write(copy.folder, "model.safetensors", weights.data, weights.size);
    prompt_say(pty, "And of Italy?", "another program has changed this file");
    char command[ROOM + 20];
    snprintf(command, sizeof command, "/model %s", copy.folder);
    prompt_say(pty, command, "context 1024");
    prompt_ask(pty, "And of Italy?", "[turn 2: ");
    prompt_leave(pty);
    bytes_free(&weights);
    folder_remove(copy.folder);
}

// What was opened is still there where another file takes the name, or nobody has it any more.
static void test_a_model_that_is_replaced_or_removed(void **state) {
    (void)state;
    Copy copy = copy_model(SHORT);
    Pty *pty = open_prompt(&copy);
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    folder_write_text(copy.folder, "other", "not a model");
    char other[ROOM];
    snprintf(other, sizeof other, "%s/other", copy.folder);
    assert_int_equal(rename(other, copy.weights), 0);
    prompt_ask(pty, "And of Italy?", "[turn 2: ");
    assert_int_equal(unlink(copy.weights), 0);
    prompt_ask(pty, "And of Spain?", "[turn 3: ");
    prompt_leave(pty);
    folder_remove(copy.folder);
}

// ---- the journal --------------------------------------------------------------------------------------------

static void change_journal(const char *home, const char *how) {
    char command[ROOM];
    Run run;
    snprintf(command, sizeof command, "cd %s/palaver/conversations && %s", home, how);
    program_shell(&run, command);
    expect_status(&run, 0);
    program_free(&run);
}

// Whatever becomes of the file: after the next turn it is whole.
static void test_a_journal_that_is_changed(void **state) {
    static const char *const ways[] = {"rm *.jsonl",
                                       "rm -r ../conversations",
                                       "rm -r ../../palaver",
                                       ": > $(ls *.jsonl)",
                                       "truncate -s 100 *.jsonl",
                                       "echo x > other && mv other $(ls *.jsonl) && rm *.jsonl",
                                       "chmod 400 *.jsonl"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        Pty *pty = prompt_open(BABBLER "|" SHORT);
        prompt_ask(pty, "Hello there.", "[turn 1: ");
        change_journal(*state, ways[i]);
        prompt_ask(pty, "And of Italy?", "[turn 2: ");
        prompt_leave(pty);
        expect_turns(*state, 2);
        change_journal(*state, "chmod 600 *.jsonl");
        resumes("[turn 3: ");
        change_journal(*state, "rm *.jsonl");
    }
}

// Where it cannot be made again, that is told, and so it is at the end.
static void test_a_journal_that_cannot_be_made_again(void **state) {
    Pty *pty = prompt_open(BABBLER "|" SHORT);
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    change_journal(*state, "cd ..; rm -r conversations; touch conversations");
    pty_send(pty, "And of Italy?\r");
    pty_expect(pty, "palaver: no journal of this conversation");
    pty_expect(pty, "> ");
    pty_send(pty, "/quit\r");
    pty_expect(pty, "could not be kept");
    pty_expect_exit(pty, 1);
    pty_end(pty);
}

// ---- the configuration ----------------------------------------------------------------------------------------

// It is read at the start: nobody is surprised in the middle of a talk.
static void test_a_configuration_that_is_changed(void **state) {
    char folder[ROOM];
    snprintf(folder, sizeof folder, "%s/palaver", (char *)*state);
    assert_int_equal(mkdir(folder, 0700), 0);
    folder_write_text(folder, "palaver.toml", "[sampling]\ntop_k = 5\n");
    Pty *pty = prompt_open(BABBLER "|" SHORT);
    folder_write_text(folder, "palaver.toml", "[sampling\ntop_k = 'none'\n");
    prompt_ask(pty, "Hello there.", "[turn 1: ");
    prompt_say(pty, "/set top_k", "top_k = 5");
    prompt_leave(pty);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_a_model_that_is_cut_within_a_reply),
        WITH_HOME(test_a_model_that_is_cut_at_the_prompt),
        WITH_HOME(test_a_model_that_is_cut_within_an_answer),
        WITH_HOME(test_a_model_that_is_cut_in_a_script),
        WITH_HOME(test_a_model_that_is_changed_between_turns),
        WITH_HOME(test_a_model_that_is_replaced_or_removed),
        WITH_HOME(test_a_journal_that_is_changed),
        WITH_HOME(test_a_journal_that_cannot_be_made_again),
        WITH_HOME(test_a_configuration_that_is_changed),
    };
    return test_main("changed files", argc, argv, tests);
}
