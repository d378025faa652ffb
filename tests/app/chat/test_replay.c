// What a journal alone is good for: the conversation is sampled again and is the same, token by token, or the first
// difference is named. And what else the last tokens could have been.
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"
#define STORY "Please tell me a story about a cat and a king.\n"

static void expect_same(const char *flags, const char *script, const char *part) {
    char arguments[300], *input;
    snprintf(arguments, sizeof arguments, BABBLER "|--seed=1|--threads=1|%s", flags);
    assert_true(asprintf(&input, "%s/replay verify\n", script) > 0);
    Run run = program_script(arguments, input);
    expect_err(&run, part);
    program_free(&run);
    snprintf(arguments, sizeof arguments, "--resume|--threads=1|%s", flags); // from the file alone
    run = program_script(arguments, "/replay verify\n");
    expect_err(&run, part);
    program_free(&run);
    free(input);
}

static void test_verify_finds_all_as_it_was(void **state) {
    (void)state;
    expect_same("--max-tokens=6", "Hello there.\nAnd of Italy?\n", "[2 replies sampled again, ");
    expect_same("--max-tokens=6",
                "/system Be brief.\nOne\n/set top_k 3\nTwo\n/system Be odd.\n/seed 8\nThree\n/retry 9\n"
                "/set temperature 0\nFour\n/undo 2\n/set temperature 1.5\nFive\n",
                "[3 replies sampled again, 18 tokens: all as they were]");
    expect_same("--max-tokens=6",
                "One\n/continue\n/say user Two\n/continue\n/say assistant Three\n/continue\n",
                "[4 replies sampled again, 24 tokens: all as they were]");
    expect_same("--max-tokens=6|--stop=[\"e\"]", "One\nTwo\nThree\n", "[3 replies sampled again, ");
    expect_same("--max-tokens=20|--ignore-eos|--context=128", STORY STORY STORY STORY "/forget\n" STORY STORY,
                "[6 replies sampled again, 120 tokens: all as they were]");
    expect_same("--max-tokens=30|--ignore-eos|--context=128|--by=token|--discard=9",
                STORY STORY STORY "/undo\n" STORY, "[3 replies sampled again, 90 tokens: all as they were]");
    expect_same("--max-tokens=30|--ignore-eos|--context=128|--keep=5", STORY STORY STORY STORY,
                "[4 replies sampled again, 120 tokens: all as they were]");
    expect_same("--max-tokens=30|--ignore-eos|--context=128|--keep=0|--system=Be brief.",
                STORY STORY STORY STORY, "[4 replies sampled again, 120 tokens: all as they were]");
    expect_same("--max-tokens=150|--ignore-eos|--context=96", "One\n/continue\nTwo\n",
                "[3 replies sampled again, 450");
}

// Token by token there is one line and one record for all that leave, and what they say is all that left.
static void test_a_run_of_small_overflows_is_told_once(void **state) {
    char command[200];
    Run run = program_script(
        TALK "|--ignore-eos|--max-tokens=400|--context=128|--overflow=shift|--by=token|--discard=1",
        "Hello there.\nAnd of Italy?\n/replay verify\n");
    int lines = 0;
    for (const char *at = run.err; (at = strstr(at, "[context full")); at++) lines++;
    assert_in_range(lines, 2, 6);
    expect_err(&run, " times more: ");
    expect_err(&run, "[2 replies sampled again, 800 tokens: all as they were]");
    assert_true(strlen(run.err) < 2000);
    program_free(&run);
    snprintf(command, sizeof command, "grep -o '\"times\":[0-9]*' %s/palaver/conversations/*.jsonl | wc -l",
             (char *)*state);
    program_shell(&run, command);
    assert_in_range(atoi(run.out), 1, 4);
    program_free(&run);
    run = program_script("--resume|--threads=1|--context=128", "/context\n/replay verify\n");
    expect_err(&run, "[2 replies sampled again, 800 tokens: all as they were]");
    program_free(&run);
}

// What was left out of a question that is too long is left out again, in a replay and when the conversation is resumed.
static void test_a_question_that_was_cut_is_cut_again(void **state) {
    (void)state;
    char script[3000] = "Hello there.\n";
    for (int i = 0; i < 100; i++) strcat(script, "one word more, ");
    strcat(script, "and an end\nAnd of Italy?\n/replay verify\n");
    Run run = program_script(TALK "|--context=128|--long-prompt=cut", script);
    expect_err(&run, "[the question is too long for the context: bytes 1 to ");
    expect_err(&run, "[3 replies sampled again, 18 tokens: all as they were]");
    program_free(&run);
    run = program_script("--resume|--threads=1|--context=128", "/undo\n/view\n/replay verify\n");
    expect_err(&run, "one word more, and an end");
    expect_no_err(
        &run, "one word more, one word more, one word more, one word more, one word more, one word more, "
              "one word more, one word more, one word more, one word more, one word more, one word more, "
              "one word more, one word more, one word more, one word more, one word more, one word more, ");
    expect_err(&run, "[2 replies sampled again, 12 tokens: all as they were]");
    program_free(&run);
}

// A shift leaves tokens in the cache that have seen what left: neither a replay nor a new conversation begins with
// them.
static void test_nothing_shifted_is_begun_with(void **state) {
    (void)state;
    static const char full[] = STORY "Hello there.\nAnd of Italy?\nAnd of Italy?\n";
    static const char *const policies[] = {"shift", "shift-inplace"};
    char arguments[300], script[400];
    for (int i = 0; i < 2; i++)
        for (int paged = 0; paged < 2; paged++) {
            snprintf(arguments, sizeof arguments, TALK "|--no-save|--context=96|--overflow=%s%s", policies[i],
                     paged ? "|--page-size=4" : "|--no-paged");
            snprintf(script, sizeof script, "/clear\n/new\n%s/replay verify\n", full);
            program_says(arguments, script, 0, "[4 replies sampled again, ");
            snprintf(script, sizeof script, "%s/new\n/say user Hm\n/view diff\n", full);
            // What the template begins with stood before all that left.
            program_says(arguments, script, 0, "4 of 8 tokens are in the cache");
        }
}

// What a shifted cache holds depends on all that went through it: on turns that were left for others, on turns that
// were forgotten, and on where the conversation was resumed with an empty cache. A replay goes the same way.
static void test_a_shifted_cache_is_made_again(void **state) {
    (void)state;
    static const char *const
        policies[] = {"shift", "shift-inplace"},
        *const parts[] = {STORY STORY STORY STORY "One\n", "Two\n" STORY "Three\n/replay verify\n",
                          "/goto 3.1\nX\nFour\nFive\n/goto 8.1\nSix\n/retry 8\nSeven\n/replay verify\n",
                          "/goto 9.2\n/replay verify\n/goto 6.1\nNine\n/forget 1\nTen\n/undo\n"
                          "Eleven\n/replay verify\n"},
        *const results[] = {"[context full: ", "[8 replies sampled again, 96 tokens: all",
                            "[10 replies sampled again, 120 tokens: all",
                            "[8 replies sampled again, 96 tokens: all"};
    for (int i = 0; i < 4; i++)
        for (int part = 0; part < 4; part++) {
            char arguments[300];
            snprintf(arguments, sizeof arguments,
                     "%s|--threads=1|--max-tokens=12|--ignore-eos|--context=96|--overflow=%s%s",
                     part ? "--resume" : BABBLER "|--seed=1", policies[i / 2],
                     i % 2 ? "|--page-size=4" : "|--no-paged");
            program_says(arguments, parts[part], 0, results[part]);
        }
}

// A model may draw the byte 0: such a reply is sampled again as others are, and its question is the topic in /list.
static void test_a_reply_of_zero_bytes_is_replayed(void **state) {
    (void)state;
    Run run = program_script(TALK "|--logit-bias={\"Ā\"=100}", "One\nTwo\n/replay verify\n/list\n");
    assert_non_null(memchr(run.out, 0, run.out_size));
    expect_err(&run, "[2 replies sampled again, 12 tokens: all as they were]");
    expect_err(&run, "  One\n");
    program_free(&run);
}

// What stands behind a zero byte of a reply is shown, and is there to be edited; the byte itself has a sign.
static void test_what_follows_a_zero_byte_is_shown(void **state) {
    char command[400], forget[400];
    Run run = program_script(TALK, "/say user One\n/say assistant firstXsecond\n");
    program_free(&run);
    snprintf(command, sizeof command, "sed -i 's/firstX/first\\\\u0000/' %s/palaver/conversations/*.jsonl",
             (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 0);
    program_free(&run);
    setenv("EDITOR", "grep -q first␀second", 1);
    run = program_script("--resume|--threads=1", "/replay\n/edit reply\n");
    expect_err(&run, "> One\nfirst␀second\n");
    expect_err(&run, "[nothing was changed]");
    program_free(&run);
    static const char *const looks[] = {"/view\n", "/view diff\n", "/tree\n", "/list\n", "/context\n"};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        program_says("--resume|--threads=1", looks[i], 0, i < 3 ? "first␀second" : "One");
    // Of a conversation that nobody asked anything in, the reply is the topic. Of two that sed writes again the last is not
    // always the later one.
    snprintf(forget, sizeof forget, "rm %s/palaver/conversations/*", (char *)*state);
    program_shell(&run, forget);
    expect_status(&run, 0);
    program_free(&run);
    run = program_script(TALK, "/say assistant firstXsecond\n/say assistant third\n");
    program_free(&run);
    program_shell(&run, command);
    program_free(&run);
    program_says("--resume|--threads=1", "/list\n", 0, "first␀second");
    program_says("--resume|--threads=1", "/context\n", 0, "first␀second");
    setenv("EDITOR", "sed -i s/second/last/", 1);
    run = program_script("--resume|--threads=1", "/undo\n/edit reply\n/replay\n");
    expect_err(&run, "first␀last\n");
    program_free(&run);
    unsetenv("EDITOR");
}

// Looking leaves no trace: the talk goes on as without it.
static void test_the_talk_goes_on_after_a_replay(void **state) {
    (void)state;
    Run plain = program_script(TALK "|--no-save", "One\n/set top_k 3\nTwo\nThree\n/retry 5\nFour\n");
    Run looked = program_script(
        TALK "|--no-save",
        "One\n/set top_k 3\nTwo\n/replay verify\nThree\n/top\n/replay\n/retry 5\n/replay verify\nFour\n"
        "/set top_k\n/seed\n");
    assert_string_equal(plain.out, looked.out);
    expect_err(&looked, "top_k = 3");
    expect_err(&looked, "seed 1\n");
    program_free(&plain);
    program_free(&looked);
}

static void test_an_interrupted_reply_is_replayed_as_far_as_it_came(void **state) {
    (void)state;
    Run run;
    program_run_signal(&run, BABBLER "|--seed=1|--ignore-eos|--threads=1", "Hello there.\n", 2, 30);
    expect_status(&run, 130);
    program_free(&run);
    run = program_script("--resume|--ignore-eos|--threads=1", "/replay verify\n");
    expect_err(&run, "[1 reply sampled again, ");
    program_free(&run);
}

static void test_the_first_difference_is_named(void **state) {
    char command[600];
    Run run = program_script(TALK "|--ignore-eos", "One\nTwo\nThree\n");
    program_free(&run);
    // The third token of the second reply becomes another.
    snprintf(command, sizeof command,
             "sed -i '/\"node\":\"2.1\"/s/\"ids\":\\[\\([0-9]*\\),\\([0-9]*\\),[0-9]*/\"ids\":[\\1,\\2,77/' "
             "%s/palaver/conversations/*.jsonl",
             (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 0);
    program_free(&run);
    program_run(&run, "--resume|--max-tokens=6|--ignore-eos|--threads=1", "/replay verify\n");
    expect_status(&run, 5);
    expect_err(&run, "2.1 diverges at token 3 of its reply: it was ");
    expect_err(&run, " (77), now it is ");
    program_free(&run);
    // One token more than was sampled.
    snprintf(command, sizeof command,
             "sed -i -e '/\"node\":\"2.1\"/d' -e '/\"node\":\"3.1\"/d' "
             "-e '/\"node\":\"1.1\"/s/\\(\"ids\":\\[[0-9,]*\\)\\]/\\1,77]/' %s/palaver/conversations/*.jsonl",
             (char *)*state);
    program_shell(&run, command);
    program_free(&run);
    program_run(&run, "--resume|--max-tokens=6|--ignore-eos|--threads=1", "/replay verify\n");
    expect_status(&run, 5);
    expect_err(&run, "1.1 diverges at token 7 of its reply: it was ");
    expect_err(&run, "now it is the end (-1)");
    program_free(&run);
}

static void test_replay_shows_the_branch(void **state) {
    (void)state;
    Run run = program_script(TALK "|--no-save",
                             "One\n/say user Two\n/say assistant Second.\nThree\n/undo\n/replay\n");
    expect_err(&run, "> One\n");
    expect_err(&run, "> Two\nSecond.\n");
    expect_no_err(&run, "> Three");
    program_free(&run);
    program_run(&run, TALK "|--no-save", "/replay\n");
    expect_status(&run, 5);
    program_free(&run);
    program_run(&run, TALK "|--no-save", "One\n/replay loudly\n");
    expect_status(&run, 5);
    expect_err(&run, "expected verify");
    program_free(&run);
}

// The percentages of the first alternative that a line of /top shows after `from`.
static void first_percentages(const char *from, double *raw, double *final) {
    const char *line = strchr(strchr(from, '\n') + 1, '\n') + 1; // behind the headings and the token itself
    assert_int_equal(sscanf(line, "%*[> ]%lf%%%lf%%", raw, final), 2);
}

static void test_top(void **state) {
    (void)state;
    double raw, final;
    Run run = program_script(TALK "|--no-save|--temperature=0", "Hello there.\n/top 1\n");
    const char *table = strstr(run.err, "       raw   final\n");
    assert_non_null(table);
    first_percentages(table, &raw, &final);
    assert_true(final == 100); // greedy
    assert_true(raw > 0 && raw < 100);
    assert_non_null(strstr(table, "  > "));
    program_free(&run);
    run = program_script(TALK "|--no-save|--temperature=1|--top-k=0|--top-p=1|--min-p=0|--ignore-eos",
                         "Hello there.\n/top 4\n");
    table = strstr(run.err, "       raw   final\n");
    assert_non_null(table);
    first_percentages(table, &raw, &final);
    assert_true(raw - final < 0.5 && final - raw < 0.5); // nothing but the end is taken out
    int places = 0;
    for (const char *at = table; (at = strstr(at, "  > ")); at++) places++;
    assert_int_equal(places, 4);
    program_free(&run);
    run = program_script(TALK "|--no-save", "/say user Hi\n/say assistant typed\n/top\nMore\n/top 32\n");
    program_free(&run);
    static const char *const wrong[][2] = {{"/top\n", "no reply whose tokens"},
                                           {"/say user Hi\n/top\n", "no reply whose tokens"},
                                           {"/top 0\n", "1 to 32"},
                                           {"/top 33\n", "1 to 32"}};
    for (int i = 0; i < 4; i++) {
        program_run(&run, TALK "|--no-save", wrong[i][0]);
        expect_status(&run, 5);
        expect_err(&run, wrong[i][1]);
        program_free(&run);
    }
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_verify_finds_all_as_it_was),
        WITH_HOME(test_a_question_that_was_cut_is_cut_again),
        WITH_HOME(test_a_run_of_small_overflows_is_told_once),
        WITH_HOME(test_nothing_shifted_is_begun_with),
        WITH_HOME(test_a_shifted_cache_is_made_again),
        WITH_HOME(test_a_reply_of_zero_bytes_is_replayed),
        WITH_HOME(test_what_follows_a_zero_byte_is_shown),
        WITH_HOME(test_the_talk_goes_on_after_a_replay),
        WITH_HOME(test_an_interrupted_reply_is_replayed_as_far_as_it_came),
        WITH_HOME(test_the_first_difference_is_named),
        WITH_HOME(test_replay_shows_the_branch),
        WITH_HOME(test_top),
    };
    return test_main("replay", argc, argv, tests);
}
