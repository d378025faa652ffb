// Talks with a model of which no layer attends: all that is kept of a text is states, which a talk goes back to, forks, leaves
// and comes back to as with any other model.
#include "tests/support/program.h"
#include "tests/support/runs/answers.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUMBLER "tests/golden/mumbler"
#define TALK MUMBLER "|--device=cpu|--temperature=0|--max-tokens=9|--threads=1"
#define FIRST "/system Be brief, whatever anybody may say about it.\nHello there.\nAnd of Italy?\n"

// What the talk says behind FIRST.
static char *rest_of(const char *script) {
    Run first = program_script(TALK "|--no-save", FIRST), whole = program_script(TALK "|--no-save", script);
    assert_memory_equal(whole.out, first.out, first.out_size);
    char *rest = strdup(whole.out + first.out_size);
    program_free(&first), program_free(&whole);
    return rest;
}

static void expect_rest(const char *script, const char *same_as) {
    char *rest = rest_of(script), *other = rest_of(same_as);
    assert_true(strlen(other) > 4);
    assert_string_equal(rest + strlen(rest) - strlen(other), other);
    free(rest), free(other);
}

static void test_turns_are_taken_back(void **state) {
    (void)state;
    static const char STORY[] = FIRST "Tell me a story.\n";
    expect_rest(FIRST "The quick brown fox?\n/undo\nTell me a story.\n", STORY);
    expect_rest(FIRST "One two three.\nFour.\n/undo 2\nTell me a story.\n", STORY);
    expect_rest(FIRST "/retry\n/undo\nAnd of Italy?\nTell me a story.\n", STORY);
    expect_rest(FIRST "Four five.\n/goto 2.1\nTell me a story.\n", STORY);
}

static void test_forks(void **state) {
    (void)state;
    Run plain = program_script(TALK, FIRST "Tell me a story.\nOne two three.\n"),
        forked =
            program_script(TALK, FIRST "Tell me a story.\n/fork other\nA cat and a king.\n/fork third\n/undo "
                                       "1\nOne two three.\n");
    const char *last = plain.out + plain.out_size;
    for (int lines = 0; lines < 2; last--) lines += last[-1] == '\n';
    assert_string_equal(forked.out + forked.out_size - strlen(last), last);
    program_free(&plain), program_free(&forked);
}

static void test_goes_on_at_once(void **state) {
    (void)state;
    static const char *const MORE[] = {"Tell me a story.\n", "One two three.\n"};
    char *expected = rest_of(FIRST "Tell me a story.\nOne two three.\n");
    Run run = program_script(TALK, FIRST), again[2];
    program_free(&run);
    for (int i = 0; i < 2; i++) again[i] = program_script(TALK "|--resume|--stats", MORE[i]);
    expect_no_err(&again[0], "[restored "); // what was read from a pipe was not kept
    expect_err(&again[1], "[restored ");
    assert_memory_equal(again[0].out, expected, again[0].out_size);
    assert_string_equal(again[1].out, expected + again[0].out_size);
    free(expected);
    program_free(&again[0]), program_free(&again[1]);
}

static void test_a_full_context(void **state) {
    (void)state;
    static const char LONG[] = "Please tell me a story about a cat and a king.\n";
    char script[1000] = "";
    for (int i = 0; i < 9; i++) strcat(script, LONG);
    strcat(script, "/stats\n");
    Run run = program_script(TALK "|--no-save|--context=128", script);
    expect_err(&run, "[context full: ");
    expect_err(&run, "of 128 tokens, ");
    program_free(&run);
    run = program_script(TALK "|--no-save|--context=128|--overflow=shift", script);
    expect_err(&run, "cannot be shifted, its states have seen all of the text");
    expect_err(&run, "[context full: ");
    program_free(&run);
    program_run(&run, TALK "|--no-save|--context=128|--overflow=stop", script);
    expect_status(&run, 4);
    program_free(&run);
}

static void test_many_at_once(void **state) {
    (void)state;
    enum { MANY = 12 };
    static const char *const PARALLEL[] = {TALK "|--jsonl|--context=256|--parallel=1",
                                           TALK "|--jsonl|--context=256|--parallel=5"};
    char lines[MANY * 100] = "", *end = lines;
    for (int i = 0; i < MANY; i++)
        end += sprintf(end, "{\"id\": %d, \"turns\": [\"%d and %.*s\", \"more\"]}\n", i, i, i * 5 % 25,
                       "what do you say of all of this");
    Answers answers[2];
    for (int k = 0; k < 2; k++) {
        Run run = program_script(PARALLEL[k], lines);
        answers[k] = answers_of(&run);
        assert_int_equal(answers[k].n, MANY);
        program_free(&run);
    }
    for (int i = 0; i < MANY; i++)
        if (!json_equal(json_object_get(answers_find(&answers[0], i), "messages"),
                        json_object_get(answers_find(&answers[1], i), "messages")))
            fail_msg("conversation %d depends on its neighbours", i);
    answers_free(&answers[0]), answers_free(&answers[1]);
}

static void test_looked_at(void **state) {
    (void)state;
    Run run = program_script("inspect|" MUMBLER "|--device=cpu|--context=128", "");
    expect_out(&run, "architecture  mamba2: 2 layers, hidden 32, none attends or has a feed-forward part");
    expect_out(&run, "positions     by the order in which states take tokens in");
    expect_out(&run, "cache         positions alone, 4 B a token");
    expect_out(&run, "; context 128 tokens (");
    program_free(&run);
    run = program_script(TALK "|--no-save", "Hello there.\n/stats\n");
    expect_err(&run, "softmax       none: no layer attends");
    program_free(&run);
}

int main(int argc, char **argv) {
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {TEST(test_turns_are_taken_back), TEST(test_forks),
                                       TEST(test_goes_on_at_once),      TEST(test_a_full_context),
                                       TEST(test_many_at_once),         TEST(test_looked_at)};
    return test_main("talks of states alone", argc, argv, tests);
}
