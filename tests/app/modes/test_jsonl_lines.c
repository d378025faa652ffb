// The lines of `palaver --jsonl`: forms of conversations and of answers, and what is said of lines that are wrong.
#include "tests/support/runs/answers.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSONL BABBLER "|--device|cpu|--context|256|--seed|7|--max-tokens|12|--jsonl"

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
    const json_t *first = strcmp(answer_word(a.each[0], "id"), "a") ? a.each[1] : a.each[0],
                 *second = answers_find(&a, 4);
    assert_string_equal(answer_word(answer_message(first, 0), "content"), "Mine.");
    assert_string_equal(answer_word(answer_message(first, 1), "content"), "Hé\n");
    assert_string_equal(answer_word(answer_message(first, 2), "role"), "assistant");
    assert_int_equal(json_array_size(json_object_get(first, "messages")), 3);
    assert_string_equal(answer_word(first, "finish"), "length");
    assert_int_equal(json_integer_value(json_object_get(first, "seed")), 11);
    const json_t *usage = json_object_get(first, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "reply")), 3);
    assert_true(json_integer_value(json_object_get(usage, "prompt")) > 3);
    assert_int_equal(json_integer_value(json_object_get(usage, "cached")), 0);
    assert_true(json_real_value(json_object_get(usage, "seconds")) > 0);
    static const char *const ROLES[] = {"system", "user", "assistant", "user", "assistant"};
    assert_int_equal(json_array_size(json_object_get(second, "messages")), 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(answer_word(answer_message(second, i), "role"), ROLES[i]);
    assert_string_equal(answer_word(answer_message(second, 0), "content"), "Be short.");
    assert_string_equal(answer_word(answer_message(second, 3), "content"), "two");
    assert_true(json_integer_value(json_object_get(second, "seed")) >
                0); // one of its own, of 7 and its place
    assert_true(json_integer_value(json_object_get(json_object_get(second, "usage"), "cached")) > 0);
    answers_free(&a);
    program_free(&run);
    program_shell(&run, "ls -d $XDG_STATE_HOME/palaver/conversations/*"); // it keeps no journal
    assert_int_equal(run.out_size, 0);
    program_free(&run);
}

// The reply of the line that asks with a seed of its own, among others.
static char *seeded_reply(const char *arguments, const char *before, const char *after) {
    static const char own[] =
        "{\"id\": \"own\", \"turns\": [\"one\", \"two\"], \"sampling\": {\"seed\": 11}}\n";
    char input[1000];
    Run run;
    snprintf(input, sizeof input, "%s%s%s", before, own, after);
    program_run(&run, arguments, input);
    expect_status(&run, 0);
    Answers a = answers_of(&run);
    char *said = NULL;
    for (int i = 0; i < a.n; i++) {
        const json_t *id = json_object_get(a.each[i], "id");
        if (!json_is_string(id)) continue;
        assert_int_equal(json_integer_value(json_object_get(a.each[i], "seed")), 11);
        said = json_dumps(json_object_get(a.each[i], "messages"), JSON_COMPACT);
    }
    assert_non_null(said);
    answers_free(&a);
    program_free(&run);
    return said;
}

// A line's own seed is all that its numbers come from: not its place, nor its neighbours, nor the program's seed.
static void a_seed_of_its_own(void **state) {
    (void)state;
    static const char other[] = "{\"turns\": [\"Hello there.\"]}\n{\"turns\": [\"More?\"]}\n";
    char *first = seeded_reply(JSONL, "", other);
    static const struct {
        const char *arguments, *before, *after;
    } ELSEWHERE[] = {{JSONL, other, ""},
                     {JSONL "|--parallel|1", other, other},
                     {BABBLER "|--context|256|--max-tokens|12|--jsonl", other, ""}};
    for (size_t i = 0; i < sizeof ELSEWHERE / sizeof *ELSEWHERE; i++) {
        char *there = seeded_reply(ELSEWHERE[i].arguments, ELSEWHERE[i].before, ELSEWHERE[i].after);
        assert_string_equal(there, first);
        free(there);
    }
    free(first);
    Run run = program_script(JSONL "|--ordered", "{\"turns\": [\"one\"]}\n{\"turns\": [\"one\"]}\n");
    Answers a = answers_of(&run); // those without have one of the program's and their place
    const json_t *second = json_object_get(a.each[1], "messages");
    assert_false(json_equal(json_object_get(a.each[0], "messages"), second));
    assert_int_equal(json_integer_value(json_object_get(a.each[0], "seed")), 7);
    char again[200]; // given back, what an answer tells is its own
    snprintf(again, sizeof again, "{\"turns\": [\"one\"], \"sampling\": {\"seed\": %lld}}\n",
             (long long)json_integer_value(json_object_get(a.each[1], "seed")));
    Run other_run = program_script(JSONL, again);
    Answers b = answers_of(&other_run);
    assert_true(json_equal(json_object_get(b.each[0], "messages"), second));
    answers_free(&b), answers_free(&a);
    program_free(&other_run), program_free(&run);
}

static void wrong_lines_are_told(void **state) {
    (void)state;
    static const struct {
        const char *line, *why;
    } WRONG[] = {
        {"nonsense", "a line is one object: {\"messages\": [ \u2026 ]}, and this is none: nonsense"},
        {"{\"messages\": [", "column 14: it ends before all is closed that was begun, in: {"},
        {"[1]", "a line is one object"},
        {"{\"id\": [], \"turns\": [\"x\"]}", "\"id\" is a string or a number"},
        {"{\"id\": 5}", "there is nothing to answer"},
        {"\"x\"", "a line is one object"},
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
        {"{\"turns\": [\"a\"], \"sampling\": {\"logit_bias\": {\"5\": \"x\"}}}",
         "logit_bias = \"x\": allowed is"},
        {"{\"turns\": [\"a\"], \"sampling\": {\"logit_bias\": {\"5\": null}}}",
         "logit_bias: a null stands in it"},
        {"{\"turns\": [\"a\"], \"sampling\": {\"logit_bias\": {\"5=1,6\": 2}}}", "\"5=1,6\" is"},
        {"{\"turns\": [\"a\"], \"sampling\": {\"stop\": 5}}", "stop = 5: allowed is"},
        {"{\"turns\": [\"a\"], \"sampling\": {\"regex\": 5}}", "regex = 5: allowed is a text of up to 4096"},
        {"{\"turns\": [\"a\"], \"sampling\": {\"json_schema\": true}}", "json_schema = true: allowed is"},
        {"{\"turns\": [\"a\"], \"sampling\": {\"top_p\": 1, \"sampling.top-p\": 1}}",
         "\"top_p\" and \"sampling.top-p\" are one key"},
        {"{\"turns\": [\"a\"], \"response_format\": {\"type\": \"json_object\", \"strict\": true}}",
         "response_format: unknown key \"strict\""},
        {"{\"turns\": [\"a\"], \"response_format\": {\"type\": \"json_schema\", \"json_schema\": "
         "{\"shema\": {}}}}",
         "response_format: json_schema: unknown key \"shema\": did you mean \"schema\"?"},
        {"{\"turns\": [\"a\"], \"response_format\": {\"type\": \"json_object\", \"json_schema\": "
         "{\"schema\": {}}}}",
         "\"json_schema\" belongs to \"type\": \"json_schema\""},
        {"{\"turns\": [\"a\"], \"response_format\": {\"type\": \"json_object\"}, \"sampling\": "
         "{\"regex\": \"a\"}}",
         "of \"response_format\" and sampling.regex only one can be set"},
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
    expect_err(&run, "[1 answered, 40 wrong; ");
    Answers a = answers_of(&run);
    assert_int_equal(a.n, N + 1);
    for (int i = 0; i < N; i++) {
        const char *why = answer_word(answers_find(&a, i + 1), "error");
        if (!strstr(why, WRONG[i].why)) fail_msg("\"%s\" is not in \"%s\"", WRONG[i].why, why);
    }
    assert_string_equal(answer_word(answers_find(&a, 100), "error"), "");
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

// A number that is no whole one is the same to who parses it, in the fewest digits.
static void ids_are_given_back_exactly(void **state) {
    (void)state;
    static const char *const IDS[] = {"1700000000.123456",      "0.30000000000000004", "123456789.0", "0.1",
                                      "1.7976931348623157e308", "9223372036854775807"};
    static const char *const LONG[] = {"123456789012345678901", "-98765432109876543210", "1e999"};
    enum { N = sizeof IDS / sizeof *IDS, N_LONG = sizeof LONG / sizeof *LONG };
    char text[1000] = "", wanted[80];
    for (int i = 0; i < N; i++)
        sprintf(text + strlen(text), "{\"id\": %s, \"messages\": []}\n{\"id\": [%s]}\n", IDS[i], IDS[i]);
    for (int i = 0; i < N_LONG; i++) // which no answer is given to
        sprintf(text + strlen(text), "{\"id\": %s, \"turns\": [\"a\"]}\n{\"id\": [%s]}\n", LONG[i], LONG[i]);
    sprintf(text + strlen(text), "{\"id\": 5555555555555555555555"); // and more of it, perhaps
    Run run;
    program_run(&run, JSONL, text);
    expect_status(&run, 5);
    for (int i = 0; i < N; i++) {
        snprintf(wanted, sizeof wanted, "{\"id\": %s, \"messages\"", IDS[i]);
        expect_out(&run, wanted);
        snprintf(wanted, sizeof wanted, "{\"id\": [%s], \"line\"", IDS[i]);
        expect_out(&run, wanted);
    }
    for (int i = 0; i < N_LONG; i++) {
        snprintf(wanted, sizeof wanted, "{\"id\": %s, \"line\": %d, \"error\"", LONG[i], 2 * N + 2 * i + 1);
        expect_out(&run, wanted);
    }
    expect_out(&run, "{\"line\": 19, \"error\"");
    program_free(&run);
}

// Every line is answered; that two have one id is said, once, and also where it is a line's number.
static void an_id_that_comes_twice_is_told(void **state) {
    (void)state;
    Run run;
    program_run(&run, JSONL,
                "{\"id\": 7, \"messages\": []}\n{\"id\": \"7\", \"messages\": []}\n{\"messages\": []}\n"
                "{\"id\": 7, \"messages\": []}\n{\"id\": 3, \"messages\": []}\n");
    expect_status(&run, 0);
    expect_err(&run, "[stdin:4: its id, 7, is that of line 1, too; every line is answered, but");
    expect_err(&run, "[5 answered; ");
    assert_int_equal(program_count(run.err, "is that of line"), 1);
    assert_int_equal(program_count(run.out, "{\"id\": 7, "), 2);
    program_free(&run);
    program_run(&run, JSONL, "\n{\"messages\": []}\n{\"id\": 2, \"turn\": []}\n{\"turn\": []}\n");
    expect_err(&run, "[stdin:3: its id, 2, is that of line 2, too; ");
    program_free(&run);
    char lines[60000] = "", *end = lines; // more than the first table holds
    for (int i = 0; i < 1500; i++) end += sprintf(end, "{\"id\": %d, \"messages\": []}\n", 2 * i + 100000);
    sprintf(end, "{\"id\": 100040, \"messages\": []}\n");
    program_run(&run, JSONL, lines);
    expect_status(&run, 0);
    expect_err(&run, "[stdin:1501: its id, 100040, is that of line 21, too; ");
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
        if (!strstr(answer_word(a.each[i], "error"), wanted))
            fail_msg("line %d: %s", i + 1, answer_word(a.each[i], "error"));
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
    const char *reply = answer_word(answer_message(a.each[0], 1), "content");
    assert_string_equal(answer_word(answer_message(a.each[0], 0), "content"), "What is\nthis?");
    static const char *const IDS[] = {"", "", "over", "done", "torn", "next"};
    for (int i = 0; i < 6; i++) assert_string_equal(answer_word(a.each[i], "id"), IDS[i]);
    for (int i = 1; i < 6; i += i == 2 ? 3 : 1)
        assert_string_equal(answer_word(answer_message(a.each[i], 1), "content"), reply);
    assert_string_equal(answer_word(a.each[3], "finish"), "complete");
    assert_int_equal(json_array_size(json_object_get(a.each[3], "messages")), 2);
    assert_int_equal(json_integer_value(json_object_get(a.each[4], "line")), 11);
    assert_int_equal(json_integer_value(json_object_get(a.each[6], "line")), 14);
    answers_free(&a);
    program_free(&run);
}

// What a terminal would obey goes out as \uNNNN, and is the same to who parses it.
static void answers_are_harmless(void **state) {
    static const char SAID[] = "a\xc2\x9b"
                               "31m\xe2\x80\xae \xe2\x81\xa9 \x7f \xc3\xa9 \xd8\x9c\xe2\x80\x8f";
    char line[200];
    (void)state;
    Run run;
    snprintf(line, sizeof line,
             "{\"id\": \"%s\", \"messages\": [{\"role\": \"assistant\", \"content\": \"%s\"}]}\n", SAID,
             SAID);
    program_run(&run, JSONL, line);
    expect_status(&run, 0);
    expect_out(&run, "\"content\": \"a\\u009b31m\\u202e \\u2069 \\u007f \xc3\xa9 \\u061c\\u200f\"");
    Answers a = answers_of(&run);
    assert_string_equal(answer_word(a.each[0], "id"), SAID);
    assert_string_equal(answer_word(answer_message(a.each[0], 0), "content"), SAID);
    answers_free(&a);
    program_free(&run);
}

#define test(name) cmocka_unit_test_setup_teardown(name, program_set_up, program_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(answers_have_their_form),
        test(a_seed_of_its_own),
        test(wrong_lines_are_told),
        test(wrong_lines_keep_their_id),
        test(wrong_lines_are_quoted_in_short),
        test(other_forms_of_messages),
        test(answers_are_harmless),
        test(ids_are_given_back_exactly),
        test(an_id_that_comes_twice_is_told),
    };
    return test_main("jsonl_lines", argc, argv, tests);
}
