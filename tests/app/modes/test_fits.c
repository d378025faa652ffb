// Replies that fit, as a shell has them: by flags, by a config, and by a line's response_format.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARLEY "assets/parley-9m|--device|cpu|--context|512|--seed|3|--max-tokens|120"
#define ASKED PARLEY "|--no-save|--no-stdin|-p|Tell me of a ship."

static void by_flags(void **state) {
    (void)state;
    char *folder = folder_new(), arguments[1024];
    Run run;
    program_run(&run, ASKED "|--regex|(aye, )?[A-Z][a-z]{2}\\.", "");
    expect_status(&run, 0);
    assert_int_equal(strlen(run.out) % 5, 0); // with the newline; "aye, " is as long
    assert_string_equal(run.out + strlen(run.out) - 2, ".\n");
    program_free(&run);
    folder_write_text(folder, "g.gbnf", "root ::= item{3}\nitem ::= \"- \" [a-z ]{1,20} \"\\n\"\n");
    snprintf(arguments, sizeof arguments, ASKED "|--grammar|%s/g.gbnf", folder);
    program_run(&run, arguments, "");
    expect_status(&run, 0);
    assert_int_equal(program_count(run.out, "- "), 3);
    program_free(&run);
    folder_write_text(
        folder, "s.json",
        "{\"type\": \"object\", \"properties\": {\"mast\": {\"type\": \"integer\", \"minimum\": 1, "
        "\"maximum\": 3}, \"name\": {\"type\": \"string\", \"maxLength\": 12}}, \"required\": "
        "[\"mast\", \"name\"], \"additionalProperties\": false}");
    snprintf(arguments, sizeof arguments, ASKED "|--json-schema|%s/s.json", folder);
    program_run(&run, arguments, "");
    expect_status(&run, 0);
    json_t *json = json_loads(run.out, 0, NULL);
    json_int_t mast = json_integer_value(json_object_get(json, "mast"));
    assert_true(mast >= 1 && mast <= 3 && json_object_size(json) == 2);
    assert_true(json_is_string(json_object_get(json, "name")));
    json_decref(json);
    program_free(&run);
    // A file's mark of UTF-8, which editors leave there, is no part of it.
    folder_write_text(folder, "mark.json", "\xef\xbb\xbf{\"const\": 7}");
    snprintf(arguments, sizeof arguments, ASKED "|--json-schema|%s/mark.json", folder);
    program_run(&run, arguments, "");
    expect_status(&run, 0);
    expect_out(&run, "7\n");
    program_free(&run);
    folder_write_text(folder, "mark.gbnf", "\xef\xbb\xbfroot ::= \"aye\"\n");
    snprintf(arguments, sizeof arguments, ASKED "|--grammar|%s/mark.gbnf", folder);
    program_run(&run, arguments, "");
    expect_status(&run, 0);
    expect_out(&run, "aye\n");
    program_free(&run);
    // Half of it is told, and fails; where it may end, it may end there.
    snprintf(arguments, sizeof arguments, ASKED "|--json-schema|%s/s.json|--max-tokens|2", folder);
    program_says(arguments, "", 1, "[max_tokens reached: the reply is not yet what the grammar asks for]");
    program_run(&run, ASKED "|--regex|[0-9]+|--max-tokens|2", "");
    expect_status(&run, 0);
    expect_no_err(&run, "max_tokens");
    program_free(&run);
    snprintf(arguments, sizeof arguments, ASKED "|--json-schema|%s/s.json|--regex|a", folder);
    program_says(arguments, "", 2, "only one can be set");
    folder_remove(folder);
}

// A shell's <(…) can be read once, though every turn asks for it; and who types a schema gives it as it is.
static void from_pipes_and_as_text(void **state) {
    (void)state;
    static const char *const flags[] = {
        "--json-schema <(echo '{\"const\": \"aye\"}')",
        "--json-schema ' {\"const\": \"aye\"}'",
        "--grammar <(printf 'root ::= \"\\\\\"aye\\\\\"\"\\n')",
        "--grammar 'root ::= \"\\\"aye\\\"\"'",
    };
    char *folder = folder_new(), text[1024];
    Run run;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        snprintf(
            text, sizeof text,
            "printf 'One?\\nTwo?\\n' | $PALAVER assets/parley-9m --device cpu --context 512 --no-save %s\n",
            flags[i]);
        folder_write_text(folder, "run.sh", text);
        snprintf(text, sizeof text, "bash %s/run.sh", folder);
        program_shell(&run, text);
        expect_status(&run, 0);
        assert_string_equal(run.out, "\"aye\"\n\"aye\"\n");
        program_free(&run);
    }
    folder_write_text(folder, "run.sh", "$PALAVER assets/parley-9m --json-schema <(echo true) -p Hi\n");
    snprintf(text, sizeof text, "bash %s/run.sh", folder);
    program_shell(&run, text);
    expect_status(&run, 2);
    expect_err(&run, "json_schema: /dev/fd/");
    expect_err(&run, "begins with {");
    program_free(&run);
    folder_remove(folder);
}

static void what_is_refused(void **state) {
    (void)state;
    program_says(ASKED "|--regex|a(b", "", 2, "regex: the pattern's character 4: a ) is missing");
    Run run;
    program_run(&run, ASKED "|--grammar|/nowhere.gbnf", "");
    assert_true(run.status != 0);
    expect_err(&run, "/nowhere.gbnf");
    program_free(&run);
    program_run(&run, ASKED "|--regex|ab|--ignore-eos", "");
    assert_true(run.status != 0);
    expect_err(&run, "ignore_eos");
    program_free(&run);
}

// A script's turns fit each, and the grammar may change between them.
static void turns(void **state) {
    (void)state;
    Run run = program_script(PARLEY "|--no-save|--regex|[0-9]{4}",
                             "One\n/set regex (yes|no)!\nTwo\n/set regex \"\"\n");
    expect_status(&run, 0);
    assert_true(strspn(run.out, "0123456789") == 4);
    assert_true(strstr(run.out, "yes!") || strstr(run.out, "no!"));
    program_free(&run);
}

// Nothing in a text of JSON is a quotation mark around it; null is nothing; a schema may be itself.
static void sampling_is_taken_as_it_is(void **state) {
    (void)state;
    Run run;
    program_run(
        &run, PARLEY "|--jsonl|--ordered|--regex|x{3}",
        "{\"turns\": [\"a\"], \"sampling\": {\"regex\": \"\\\"yes\\\"\"}}\n"
        "{\"turns\": [\"a\"], \"sampling\": {\"regex\": null, \"stop\": null, \"seed\": null}}\n"
        "{\"turns\": [\"a\"], \"sampling\": {\"regex\": \"\", \"json_schema\": {\"const\": [0.1]}}}\n"
        "{\"turns\": [\"a\"], \"sampling\": {\"regex\": \"(a|,|=|b){9}\", \"logit_bias\": {\",\": 100, "
        "\"=\": -100}}}\n"
        "{\"turns\": [\"a\"], \"sampling\": {\"regex\": \"( the|the){2}\", \"logit_bias\": "
        "{\" the\": 100}}}\n"
        "{\"turns\": [\"a\"], \"sampling\": {\"regex\": \"xyz\", \"stop\": \"z\", \"max_tokens\": 9.0, "
        "\"seed\": 5.0}}\n");
    expect_status(&run, 0);
    expect_out(&run, "\"content\": \"\\\"yes\\\"\"");
    expect_out(&run, "\"content\": \"xxx\"");
    expect_out(&run, "\"content\": \"[0.1]\"");
    expect_out(&run, "\"content\": \",,,,,,,,,\"");
    expect_out(&run, "\"content\": \" the the\"");
    expect_out(&run, "\"content\": \"xy\"");
    program_free(&run);
}

static void lines(void **state) {
    (void)state;
    static const char *const SCHEMAS[] = {
        "{\"enum\": [1, \"two\", null]}", "{\"enum\": [1, \"two\", null]}",
        "{\"items\": {\"type\": \"boolean\"}, \"minItems\": 2, \"maxItems\": 2}", "{\"not\": true}"};
    static const char OTHERS[] = "{\"turns\": [\"a\"], \"response_format\": {\"type\": \"text\"}}\n"
                                 "{\"turns\": [\"a\"], \"response_format\": {\"type\": \"xml\"}}\n"
                                 "{\"turns\": [\"a\"], \"sampling\": {\"regex\": \"x{3}\"}}\n";
    char input[4096];
    size_t n = 0;
    Run run;
    for (int i = 0; i < 4; i++)
        n += (size_t)snprintf(input + n, sizeof input - n,
                              "{\"turns\": [\"a\", \"b\"], \"response_format\": {\"type\": \"json_schema\", "
                              "\"json_schema\": {\"name\": \"x\", \"schema\": %s}}}\n",
                              SCHEMAS[i]);
    snprintf(input + n, sizeof input - n, "%s", OTHERS);
    program_run(&run, PARLEY "|--jsonl|--ordered", input);
    expect_status(&run, 5);
    const char *line = run.out;
    for (int i = 0; i < 7; i++) {
        json_error_t why;
        json_t *answer = json_loads(line, JSON_DISABLE_EOF_CHECK, &why);
        if (!answer) fail_msg("%s: %s", why.text, line);
        const json_t *messages = json_object_get(answer, "messages");
        const char *error = json_string_value(json_object_get(answer, "error"));
        for (size_t k = 1; k < json_array_size(messages) && i < 3; k += 2) {
            const char *said = json_string_value(json_object_get(json_array_get(messages, k), "content"));
            json_t *value = json_loads(said, JSON_DECODE_ANY, NULL);
            if (!value) fail_msg("no JSON: %s", said);
            assert_true(i < 2 ? !json_is_array(value) : json_array_size(value) == 2);
            assert_string_equal(json_string_value(json_object_get(answer, "finish")), "stop");
            json_decref(value);
        }
        if (i == 3)
            assert_string_equal(error, "response_format: #/not: palaver cannot write by this keyword");
        if (i == 5) assert_non_null(strstr(error, "\"response_format\" is"));
        if (i == 6)
            assert_string_equal(json_string_value(json_object_get(json_array_get(messages, 1), "content")),
                                "xxx");
        json_decref(answer);
        line = strchr(line, '\n') + 1;
    }
    program_free(&run);
}

// Python's jsonschema accepts what is written by schemas of each kind; more of it: see the script.
static void python_accepts(void **state) {
    (void)state;
    char command[512];
    snprintf(
        command, sizeof command,
        "python3 tests/engine/grammar/check_schemas.py --palaver '%s' --model assets/parley-9m --replies 40 "
        "--tokens 60 --parallel 8",
        getenv("PALAVER"));
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(by_flags, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(from_pipes_and_as_text, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(what_is_refused, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(sampling_is_taken_as_it_is, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(turns, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(lines, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(python_accepts, program_set_up, program_tear_down),
    };
    return test_main("fits", argc, argv, tests);
}
