// `palaver --jsonl`, as a shell has it: answers, order, wrong lines, and every way in which it can be cut short.
#include "tests/support/model/prompt.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSONL BABBLER "|--device|cpu|--context|256|--seed|7|--max-tokens|12|--jsonl"
#define SHELL "$PALAVER " BABBLER " --device cpu --context 256 --seed 7 --max-tokens 12 --jsonl"

enum { MANY = 40, LINES = 128 };

// The answers of a run, each a line of JSON with its newline.
typedef struct Answers {
    json_t *each[LINES];
    int n;
} Answers;

static Answers answers_of(const Run *run) {
    Answers a = {.n = 0};
    for (const char *line = run->out, *end; line && *line; line = end + 1) {
        json_error_t why;
        end = strchr(line, '\n');
        if (!end) fail_msg("half a line: %s", line);
        assert_true(a.n < LINES);
        a.each[a.n++] = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, &why);
        if (!a.each[a.n - 1]) fail_msg("%s: %.*s", why.text, (int)(end - line), line);
    }
    return a;
}

static void answers_free(Answers *a) {
    for (int i = 0; i < a->n; i++) json_decref(a->each[i]);
}

// The one whose "id" (or else "line") is the number.
static const json_t *answer(const Answers *a, int number) {
    const json_t *found = NULL;
    for (int i = 0; i < a->n; i++) {
        const json_t *id = json_object_get(a->each[i], "id");
        const json_t *line = json_object_get(a->each[i], "line");
        if (json_integer_value(json_is_integer(id) ? id : line) != number) continue;
        if (found) fail_msg("%d is answered twice", number);
        found = a->each[i];
    }
    if (!found) fail_msg("%d is not answered", number);
    return found;
}

static const char *word(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static json_t *message(const json_t *object, size_t i) {
    return json_array_get(json_object_get(object, "messages"), i);
}

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

static void answers_have_their_form(void **state) {
    (void)state;
    Run run;
    program_run(
        &run, JSONL "|--system|Be short.",
        "{\"id\": \"a\", \"messages\": [{\"role\": \"system\", \"content\": \"Mine.\"}, {\"role\": \"user\", "
        "\"content\": \"Hé\\n\"}], \"sampling\": {\"max_tokens\": 3, \"temperature\": 0, \"ignore_eos\": "
        "true, "
        "\"logit_bias\": {\"5\": 1.5, \"6\": -2}, \"stop\": [\"never said\"], \"seed\": 11}}\n"
        "\n  \t\r\n"
        "{\"turns\": [\"one\", \"two\"], \"sampling\": {\"stop\": \"e,\"}}"); // without a newline
    expect_status(&run, 0);
    expect_err(&run, "[2 answered; ");
    Answers a = answers_of(&run);
    assert_int_equal(a.n, 2);
    const json_t *first = strcmp(word(a.each[0], "id"), "a") ? a.each[1] : a.each[0], *second = answer(&a, 4);
    assert_string_equal(word(message(first, 0), "content"), "Mine.");
    assert_string_equal(word(message(first, 1), "content"), "Hé\n");
    assert_string_equal(word(message(first, 2), "role"), "assistant");
    assert_int_equal(json_array_size(json_object_get(first, "messages")), 3);
    assert_string_equal(word(first, "finish"), "length");
    assert_int_equal(json_integer_value(json_object_get(first, "seed")), 11);
    const json_t *usage = json_object_get(first, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "reply")), 3);
    assert_true(json_integer_value(json_object_get(usage, "prompt")) > 3);
    assert_int_equal(json_integer_value(json_object_get(usage, "cached")), 0);
    assert_true(json_real_value(json_object_get(usage, "seconds")) > 0);
    static const char *const ROLES[] = {"system", "user", "assistant", "user", "assistant"};
    assert_int_equal(json_array_size(json_object_get(second, "messages")), 5);
    for (size_t i = 0; i < 5; i++) assert_string_equal(word(message(second, i), "role"), ROLES[i]);
    assert_string_equal(word(message(second, 0), "content"), "Be short.");
    assert_string_equal(word(message(second, 3), "content"), "two");
    assert_int_equal(json_integer_value(json_object_get(second, "seed")), 7);
    assert_true(json_integer_value(json_object_get(json_object_get(second, "usage"), "cached")) > 0);
    answers_free(&a);
    program_free(&run);
    program_shell(&run, "ls -d $XDG_STATE_HOME/palaver/conversations/*"); // it keeps no journal
    assert_int_equal(run.out_size, 0);
    program_free(&run);
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
            const json_t *one = answer(&a, i);
            if (k == 3) assert_ptr_equal(one, a.each[i]);
            if (k > 0 &&
                !json_equal(json_object_get(one, "messages"), json_object_get(answer(&alone, i), "messages")))
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

static void wrong_lines_are_told(void **state) {
    (void)state;
    static const struct {
        const char *line, *why;
    } WRONG[] = {
        {"nonsense", "expected near 'nonsense'"},
        {"{\"messages\": [", "column"},
        {"[1]", "a line is one object"},
        {"{\"id\": [], \"turns\": [\"x\"]}", "\"id\" is a string or a number"},
        {"{\"id\": 5}", "there is nothing to answer"},
        {"{\"messages\": {}}", "\"messages\" is a list"},
        {"{\"messages\": [1]}", "messages[0]: a message is"},
        {"{\"messages\": [{\"role\": \"robot\", \"content\": \"\"}]}", "messages[0]: the role is"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": 1}]}", "messages[0]: the content is a string"},
        {"{\"messages\": [{\"role\": \"user\", \"contents\": \"\"}]}",
         "\"contents\": did you mean \"content\"?"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": []}]}", "a string, or a list of text parts"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": "
         "{}}]}]}",
         "messages[0]: content[0]: a part of type \"image_url\": only \"text\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"txt\": \"a\"}]}]}",
         "content[0]: unknown key \"txt\": did you mean \"text\"?"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"name\": \"b\"}]}",
         "unknown key \"name\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\\u0000b\"}]}", "\\u0000"},
        {"{\"turns\": [\"a\"], \"temperature\": 1}", "\"temperature\" belongs into \"sampling\""},
        {"{\"turns\": [\"a\"], \"sampling\": {\"stop\": \"a\\u0000b\"}}", "\\u0000"},
        {"{\"turns\": []}", "\"turns\" is a list"},
        {"{\"turns\": [\"a\", 2]}", "turns[1] is no string"},
        {"{\"turn\": [\"a\"]}", "unknown key \"turn\": did you mean \"turns\"?"},
        {"{\"turns\": [\"a\"], \"turns\": [\"b\"]}", "duplicate"},
        {"{\"turns\": [\"a\"], \"sampling\": 1}", "\"sampling\" is"},
        {"{\"turns\": [\"a\"], \"sampling\": {\"temprature\": 1}}", "did you mean sampling.temperature?"},
        {"{\"turns\": [\"a\"], \"sampling\": {\"overflow\": \"stop\"}}", "overflow is a key of [context]"},
        {"{\"turns\": [\"a\"], \"sampling\": {\"top_p\": 2}}", "top_p"},
        {"{\"turns\": [\"a\"], \"sampling\": {\"logit_bias\": {\"99999\": 1}}}", "not in the vocabulary"},
        {"{\"turns\": [\"a\\u0000b\"]}", "turns[0] has a \\u0000"},
        {"{\"turns\": [\"\xff\"]}", "this is no text in UTF-8: byte 13 of the line is 0xff"},
    };
    enum { N = sizeof WRONG / sizeof *WRONG };
    char text[8192], *end = text;
    for (int i = 0; i < N; i++) end += sprintf(end, "%s\n", WRONG[i].line);
    sprintf(end, "{\"id\": 100, \"turns\": [\"a\"]}\n");
    Run run;
    program_run(&run, JSONL, text);
    expect_status(&run, 5);
    expect_err(&run, "[1 answered, 28 wrong; ");
    Answers a = answers_of(&run);
    assert_int_equal(a.n, N + 1);
    for (int i = 0; i < N; i++) {
        const char *why = word(answer(&a, i + 1), "error");
        if (!strstr(why, WRONG[i].why)) fail_msg("\"%s\" is not in \"%s\"", WRONG[i].why, why);
    }
    assert_string_equal(word(answer(&a, 100), "error"), "");
    answers_free(&a);
    program_free(&run);
}

// Whose line it was that is wrong can be told wherever the line can be read at all.
static void wrong_lines_keep_their_id(void **state) {
    (void)state;
    Run run;
    program_run(&run, JSONL,
                "{\"id\": \"a\", \"turn\": []}\n{\"id\": 12}\n{\"id\": \"b\", \"turns\": [\"\xff\"]}\n"
                "{\"id\": \"c\", \"turns\": [\"x\"], \"turns\": []}\n{\"id\": \"d\", \"turns\"\n{\"id\": [7, "
                "{\"a\": 1}], \"turns\": []}\n{\"turns\": [{\"id\": 1}], \"id\" : 71, \"n\": nul}\n"
                "{\"id\": 8\n{\"id\": \"half\n{\"turns\": [{\"id\": 1}, }, \"id\": 2}\n"
                "{\"a\\\"id\": 3, \"b\": \"{\\\"id\\\": 4\", \"id\": {\"k\": null}, \"turns\": [");
    expect_status(&run, 5);
    expect_out(&run, "{\"id\": \"a\", \"line\": 1, \"error\": ");
    expect_out(&run, "{\"id\": 12, \"line\": 2, \"error\": ");
    expect_out(&run, "{\"id\": \"b\", \"line\": 3, \"error\": ");
    expect_out(&run, "{\"id\": \"c\", \"line\": 4, \"error\": ");
    expect_out(&run, "{\"id\": \"d\", \"line\": 5, \"error\": ");
    expect_out(&run, "{\"id\": [7, {\"a\": 1}], \"line\": 6, \"error\": ");
    expect_out(&run, "{\"id\": 71, \"line\": 7, \"error\": ");
    for (int line = 8; line <= 10; line++) { // what may have gone on, and what comes behind the fault
        char answer[40];
        snprintf(answer, sizeof answer, "{\"line\": %d, \"error\": ", line);
        expect_out(&run, answer);
    }
    expect_out(&run, "{\"id\": {\"k\": null}, \"line\": 11, \"error\": ");
    program_free(&run);
}

// Whatever is quoted of a wrong line is whole characters, at most 80 columns of them, and the answer is JSON.
static void wrong_lines_are_quoted_in_short(void **state) {
    (void)state;
    char many[601] = "", kept[160] = "", text[8000];
    for (int i = 0; i < 300; i++) strcat(many, "é");
    for (int i = 0; i < 79; i++) strcat(kept, i ? "é" : "");
    static const char *const FORMS[] = {
        "{\"turns\": [\"a\"], \"sampling\": {\"x%s\": 1}}\n", "{\"x%s\": 1}\n",
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"x%s\"}]}]}\n",
        "{\"turns\": [\"a\"], \"sampling\": {\"top_p\": \"x%s\"}}\n", "x%s\n"};
    enum { N = sizeof FORMS / sizeof *FORMS };
    *text = 0;
    for (int i = 0; i < N; i++) sprintf(text + strlen(text), FORMS[i], many);
    Run run;
    program_run(&run, JSONL "|--ordered", text);
    expect_status(&run, 5);
    expect_err(&run, "[0 answered, 5 wrong; ");
    Answers a = answers_of(&run);
    assert_int_equal(a.n, N);
    char wanted[200];
    snprintf(wanted, sizeof wanted, "x%s…", kept);
    for (int i = 0; i < N; i++)
        if (!strstr(word(a.each[i], "error"), wanted))
            fail_msg("line %d: %s", i + 1, word(a.each[i], "error"));
    answers_free(&a);
    program_free(&run);
}

static void other_forms_of_messages(void **state) {
    (void)state;
    Run run;
    program_run(
        &run, JSONL "|--ordered|--temperature|0",
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"What is\"}, "
        "{\"type\": \"text\", \"text\": \"this?\"}]}]}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"What is\\nthis?\"}], \"model\": \"babbler\"}\n"
        "{\n \"id\": \"over\",\n\n \"messages\": [\n  {\"role\": \"user\", \"content\": \"What "
        "is\\nthis?\"}\n ]\n}\n"
        "{\"id\": \"done\", \"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
        "\"assistant\", "
        "\"content\": \"b\"}], \"model\": \"gpt\"}\n"
        "{\n  \"id\": \"torn\",\n{\"id\": \"next\", \"turns\": [\"What is\\nthis?\"]}\n{\n");
    expect_status(&run, 5);
    expect_err(&run, "[stdin:10: \"model\": \"gpt\" is not what answers");
    expect_no_err(&run, "\"babbler\" is not");
    Answers a = answers_of(&run);
    assert_int_equal(a.n, 7);
    const char *reply = word(message(a.each[0], 1), "content");
    assert_string_equal(word(message(a.each[0], 0), "content"), "What is\nthis?");
    static const char *const IDS[] = {"", "", "over", "done", "torn", "next"};
    for (int i = 0; i < 6; i++) assert_string_equal(word(a.each[i], "id"), IDS[i]);
    for (int i = 1; i < 6; i += i == 2 ? 3 : 1)
        assert_string_equal(word(message(a.each[i], 1), "content"), reply);
    assert_string_equal(word(a.each[3], "finish"), "complete");
    assert_int_equal(json_array_size(json_object_get(a.each[3], "messages")), 2);
    assert_int_equal(json_integer_value(json_object_get(a.each[4], "line")), 11);
    assert_int_equal(json_integer_value(json_object_get(a.each[6], "line")), 14);
    answers_free(&a);
    program_free(&run);
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
    assert_string_equal(word(answer(&a, 1), "finish"), "error");
    assert_non_null(strstr(word(answer(&a, 1), "error"), "leaves no room for a reply"));
    assert_int_equal(json_array_size(json_object_get(answer(&a, 1), "messages")),
                     3); // b, its reply, the refused turn
    assert_string_equal(word(answer(&a, 0), "error"), "");
    answers_free(&a);
    program_free(&run);
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
            const char *why = word(answer(&a, i), "error");
            assert_true(i == 1 ? !*why : strstr(why, "a split pattern of the tokenizer fails") != NULL);
        }
        answers_free(&a);
        program_free(&run);
    }
}

// Every line that was read is answered or named, none is both. The id of line n is n - 1.
static void check_nothing_is_lost(const Answers *a, const char *err) {
    bool known[LINES] = {false};
    for (int i = 0; i < a->n; i++) {
        int id = (int)json_integer_value(json_object_get(a->each[i], "id"));
        (void)answer(a, id);
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
    const char *in = "for i in 1 2 3 4 5 6 7 8 9; do echo '{\"turns\": [\"a\", \"b\"]}'; done | ";
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
    expect_err(&run, "not answered: lines 1-");
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
        test(answers_have_their_form),
        test(rows_change_nothing),
        test(wrong_lines_are_told),
        test(wrong_lines_keep_their_id),
        test(wrong_lines_are_quoted_in_short),
        test(other_forms_of_messages),
        test(one_refused_conversation),
        test(conversations_that_fail_at_once),
        test(signals_lose_no_answer),
        test(outputs_that_take_no_more),
        test(inputs_of_all_kinds),
        test(flags_that_do_not_go_together),
        test(at_a_terminal),
    };
    return test_main("jsonl", argc, argv, tests);
}
