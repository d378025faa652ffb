// `palaver --jsonl`, as a shell has it: many lines, their order, and every way in which it can be cut short.
#include "tests/support/runs/answers.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSONL BABBLER "|--device|cpu|--context|256|--seed|7|--max-tokens|12|--jsonl"
#define SHELL "$PALAVER " BABBLER " --device cpu --context 256 --seed 7 --max-tokens 12 --jsonl"

enum { MANY = 40 };

// Conversations with the ids 0 … n-1: long and short, some of two turns.
static char *make_lines(int n) {
    char *text = calloc((size_t)n + 1, 200), *end = text;
    for (int i = 0; i < n; i++)
        end += sprintf(
            end,
            i % 4 == 3 ? "{\"id\": %d, \"turns\": [\"%d and %.*s\", \"more\"]}\n"
                       : "{\"id\": %d, \"messages\": [{\"role\": \"user\", \"content\": \"%d and %.*s\"}]}\n",
            i, i, i * 7 % 30, "what do you say of all of this");
    return text;
}

// A8 for the program: the same messages whatever the rows, and in the input's order where that is asked for.
static void rows_change_nothing(void **state) {
    (void)state;
    static const char *const PARALLEL[] = {JSONL "|--parallel|1", JSONL "|--parallel|7", JSONL,
                                           JSONL "|--parallel|32|--ordered"};
    char *lines = make_lines(MANY);
    Answers alone = {.n = 0};
    for (int k = 0; k < 4; k++) {
        Run run;
        program_run(&run, PARALLEL[k], lines);
        expect_status(&run, 0);
        Answers a = answers_of(&run);
        assert_int_equal(a.n, MANY);
        for (int i = 0; i < MANY; i++) {
            const json_t *one = answers_find(&a, i);
            if (k == 3) assert_ptr_equal(one, a.each[i]);
            if (k > 0 && !json_equal(json_object_get(one, "messages"),
                                     json_object_get(answers_find(&alone, i), "messages")))
                fail_msg("conversation %d depends on its neighbours", i);
        }
        if (k == 0)
            alone = a;
        else
            answers_free(&a);
        program_free(&run);
    }
    answers_free(&alone);
    free(lines);
}

// A turn that cannot fit is that conversation's error.
static void one_refused_conversation(void **state) {
    (void)state;
    char text[4096], many[1500];
    memset(many, 'x', sizeof many);
    sprintf(text,
            "{\"id\": 0, \"turns\": [\"a\"]}\n{\"id\": 1, \"turns\": [\"b\", \"%.1400s\", \"c\"]}\n{\"id\": "
            "2, \"turns\": [\"d\"]}\n",
            many);
    Run run;
    program_run(&run, JSONL, text);
    expect_status(&run, 4);
    expect_err(&run, "[2 answered, 1 refused by the context; ");
    Answers a = answers_of(&run);
    assert_int_equal(a.n, 3);
    assert_string_equal(answer_word(answers_find(&a, 1), "finish"), "error");
    assert_non_null(strstr(answer_word(answers_find(&a, 1), "error"), "leaves no room for a reply"));
    assert_int_equal(json_array_size(json_object_get(answers_find(&a, 1), "messages")),
                     3); // b, its reply, the refused turn
    assert_string_equal(answer_word(answers_find(&a, 0), "error"), "");
    answers_free(&a);
    program_free(&run);
}

// A turn of megabytes is refused when it comes, and none of it is split into tokens but what shows that it cannot fit.
static void one_turn_of_megabytes(void **state) {
    (void)state;
    enum { SIZE = 4 << 20 };
    char *text = malloc(SIZE + 200), *end = text;
    end += sprintf(end, "{\"id\": 1, \"turns\": [\"b\", \"");
    memset(end, 'x', SIZE);
    strcpy(end + SIZE, "\"], \"sampling\": {\"max_tokens\": 3}}\n{\"id\": 2, \"turns\": [\"d\"]}\n");
    Run run;
    program_run(&run, JSONL, text);
    expect_status(&run, 4);
    Answers a = answers_of(&run);
    assert_int_equal(a.n, 2);
    assert_non_null(strstr(answer_word(answers_find(&a, 1), "error"), "the prompt of more than 512 tokens"));
    assert_int_equal(json_array_size(json_object_get(answers_find(&a, 1), "messages")), 3);
    assert_string_equal(answer_word(answers_find(&a, 2), "error"), "");
    answers_free(&a);
    program_free(&run);
    free(text);
}

// Texts that the tokenizer gives up on, with more lines of them than rows: each is its own conversation's error.
static void conversations_that_fail_at_once(void **state) {
    Run run;
    program_shell(&run, "cp -r tests/golden/models/llama3 \"$HOME/m\" && chmod -R u+w \"$HOME/m\" && sed -i "
                        "'s/\"pre_tokenizer\": {[^}]*}/\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
                        "{\"Regex\": \"(x+x+)+[yz]\"}, \"behavior\": \"Isolated\", \"invert\": false}/' "
                        "\"$HOME/m/tokenizer.json\"");
    expect_status(&run, 0);
    program_free(&run);
    char arguments[512], lines[2048] = "";
    snprintf(arguments, sizeof arguments, "%s/m|--template|chatml|--jsonl|--parallel|2",
             (const char *)*state);
    for (int n = 1; n <= 5; n++) {
        sprintf(lines + strlen(lines),
                "{\"id\": %d, \"turns\": [\"%s\"], \"sampling\": {\"max_tokens\": 3}}\n", n - 1,
                n == 2 ? "hello" : "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
        if (n != 1 && n != 5) continue;
        program_run(&run, arguments, lines);
        expect_status(&run, 1);
        expect_no_err(&run, "not answered");
        Answers a = answers_of(&run);
        assert_int_equal(a.n, n);
        for (int i = 0; i < n; i++) {
            const char *why = answer_word(answers_find(&a, i), "error");
            assert_true(i == 1 ? !*why : strstr(why, "a split pattern of the tokenizer fails") != NULL);
        }
        answers_free(&a);
        program_free(&run);
    }
}

// Every line that was read is answered or named, none is both. The id of line n is n - 1.
static void check_nothing_is_lost(const Answers *a, const char *err) {
    bool known[ANSWERS_MOST] = {false};
    for (int i = 0; i < a->n; i++) {
        int id = (int)json_integer_value(json_object_get(a->each[i], "id"));
        (void)answers_find(a, id);
        known[id + 1] = true;
    }
    const char *at = strstr(err, "not answered: line");
    assert_non_null(at);
    at += strcspn(at, "0123456789");
    int last = 0, first, n;
    for (; sscanf(at, "%d%n", &first, &n) == 1; at += strspn(at, ", ")) {
        at += n;
        last = first;
        if (sscanf(at, "-%d%n", &last, &n) == 1) at += n;
        for (int line = first; line <= last; line++) {
            if (known[line]) fail_msg("line %d is answered and said not to be", line);
            known[line] = true;
        }
    }
    for (int line = 1; line <= last; line++)
        if (!known[line]) fail_msg("line %d is lost; %s", line, err);
}

// Whatever ends it, each answer that was finished is a whole line, and the lines that have none are named.
static void signals_lose_no_answer(void **state) {
    (void)state;
    static const int SIGNALS[] = {SIGTERM, SIGINT}, STATUS[] = {128 + SIGTERM, 130};
    char *lines = make_lines(MANY);
    for (int k = 0; k < 4; k++) {
        Run run;
        program_run_signal(&run, k < 2 ? JSONL "|--parallel|3" : JSONL "|--parallel|3|--ordered", lines,
                           SIGNALS[k % 2], 400);
        expect_status(&run, STATUS[k % 2]);
        Answers a = answers_of(&run);
        assert_in_range(a.n, 2, MANY - 1);
        check_nothing_is_lost(&a, run.err);
        expect_err(&run, "palaver: interrupted");
        answers_free(&a);
        program_free(&run);
    }
    free(lines);
}

// A reader that leaves, a disk that is full.
static void outputs_that_take_no_more(void **state) {
    (void)state;
    Run run;
    // All lines in one write: a busy machine would run the first one before the second is there.
    const char *in = "printf '{\"turns\": [\"a\", \"b\"]}\\n%.0s' 1 2 3 4 5 6 7 8 9 | ";
    char command[1000];
    snprintf(command, sizeof command, "%s{ " SHELL " --parallel 2; echo status $? >&2; } | head -n 1", in);
    program_shell(&run, command);
    expect_err(&run, "palaver: stdout: Broken pipe");
    expect_err(&run, "not answered: line");
    expect_err(&run, "status 1");
    program_free(&run);
    snprintf(command, sizeof command, "%s" SHELL " --parallel 2 >/dev/full", in);
    program_shell(&run, command);
    expect_status(&run, 1);
    expect_err(&run, "palaver: stdout: No space left on device");
    expect_err(&run, "not answered: line");
    // All are named, or, where the shell is slower than the answers, that others follow.
    assert_true(strstr(run.err, "lines 1-9\n") || strstr(run.err, ", and what follows"));
    expect_err(&run, "[0 answered; ");
    program_free(&run);
}

static void inputs_of_all_kinds(void **state) {
    (void)state;
    Run run;
    program_run(&run, JSONL, "");
    expect_status(&run, 0);
    expect_err(&run, "[0 answered; 0 tokens");
    program_free(&run);
    // slower than the rows, and in pieces
    program_shell(
        &run,
        "(printf '{\"id\": 1, \"tu'; sleep 0.3; printf 'rns\": [\"a\"]}\\n{\"id\": 2,'; sleep 0.3; echo "
        "'\"turns\": [\"b\"]}') | " SHELL);
    expect_status(&run, 0);
    Answers a = answers_of(&run);
    assert_int_equal(a.n, 2);
    answers_free(&a);
    program_free(&run);
    program_shell(&run, SHELL " < /");
    expect_status(&run, 1);
    expect_err(&run, "palaver: stdin: Is a directory");
    program_free(&run);
    // a byte order mark, lines as Windows ends them
    program_run(&run, JSONL,
                "\xef\xbb\xbf{\"id\": 1, \"turns\": [\"a\"]}\r\n\r\n{\"id\": 3, \"turns\": [\"a\"]}\r\n");
    expect_status(&run, 0);
    a = answers_of(&run);
    assert_int_equal(a.n, 2);
    answers_free(&a);
    program_free(&run);
    // a line beyond the limit, and one after it
    program_shell(
        &run,
        "(head -c 70000000 /dev/zero | tr '\\0' 'a'; echo; echo '{\"id\": 2, \"turns\": [\"b\"]}') | " SHELL);
    expect_status(&run, 5);
    expect_out(&run, "{\"line\": 1, \"error\": \"the line is longer than 64 MB\"}\n");
    expect_out(&run, "{\"id\": 2, ");
    program_free(&run);
}

static void flags_that_do_not_go_together(void **state) {
    (void)state;
    program_says(JSONL "|-p|x", "", 2, "--prompt has no meaning with --jsonl");
    program_says(JSONL "|--echo", "", 2, "--echo has no meaning with --jsonl");
    program_says(BABBLER "|--parallel|2", "", 2, "--parallel belongs to --jsonl and to palaver bench");
    program_says(BABBLER "|--ordered", "", 2, "--ordered belongs to --jsonl");
    program_says(JSONL "|--parallel|257", "", 2, "allowed is 1 to 256");
}

// At a terminal: lines as they are typed, how it stands on one line that is rewritten, Ctrl-C while nothing is to be
// done.
static void at_a_terminal(void **state) {
    (void)state;
    const PtyOptions wide = {.rows = 30, .cols = 100};
    Pty *pty = prompt_start(JSONL, &wide);
    pty_send(pty, "{\"id\": 1, \"turns\": [\"a\"]}\n");
    pty_expect(pty, "{\"id\": 1, \"messages\": [");
    pty_expect(pty, "\r\033[K1 done, 0 running, 0 waiting, ");
    pty_send(pty, "nonsense\n");
    pty_expect(pty, "{\"line\": 2, \"error\": ");
    pty_send(pty, "\004");
    pty_expect(pty, "[1 answered, 1 wrong; ");
    pty_expect_exit(pty, 5);
    pty_end(pty);
    pty = prompt_start(JSONL "|--plain", &wide);
    pty_send(pty, "{\"id\": 1, \"turns\": [\"a\"]}\n");
    pty_expect(pty, "{\"id\": 1, \"messages\": [");
    pty_send(pty, "\003");
    pty_expect(pty, "palaver: interrupted");
    pty_expect(pty, "[1 answered; ");
    pty_expect_exit(pty, 130);
    assert_null(strchr(pty_transcript(pty), '\033'));
    pty_end(pty);
}

#define test(name) cmocka_unit_test_setup_teardown(name, program_set_up, program_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(rows_change_nothing),    test(one_refused_conversation),
        test(one_turn_of_megabytes),  test(conversations_that_fail_at_once),
        test(signals_lose_no_answer), test(outputs_that_take_no_more),
        test(inputs_of_all_kinds),    test(flags_that_do_not_go_together),
        test(at_a_terminal),
    };
    return test_main("jsonl", argc, argv, tests);
}
