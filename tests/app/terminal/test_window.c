// What a person is told about the context window, and what leaves it: /context, /overflow, /forget, the line and the
// record of each overflow, the warnings.
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALK BABBLER "|--seed=1|--max-tokens=6|--ignore-eos|--threads=1"
#define STORY "Please tell me a story about a cat and a king.\n"

static void expect_shown(const char *input, const char *part) {
    program_says(TALK "|--no-save", input, 0, part);
}

static void expect_refusal(const char *input, const char *part) {
    program_says(TALK "|--no-save", input, 5, part);
}

// The number that follows `label` in the last /context of a run.
static long shown(const Run *run, const char *label) {
    const char *last = NULL;
    for (const char *at = run->err; (at = strstr(at, label)); at++) last = at;
    if (!last) fail_msg("no %s in %s", label, run->err);
    return last ? strtol(last + strlen(label), NULL, 10) : 0;
}

// What is told makes up the window.
static void check_sum(const Run *run) {
    assert_int_equal(shown(run, "window"), shown(run, "\nkept") + shown(run, "\nturns") +
                                               shown(run, "\nreserve") + shown(run, "\nfree"));
}

static void test_context_adds_up(void **state) {
    (void)state;
    Run run = program_script(TALK "|--no-save", "/system Be brief.\nHello there.\n" STORY "/context\n");
    expect_err(&run, "  Hello there.\nturn 2");
    expect_err(&run, "in 2 turns\n");
    check_sum(&run);
    assert_int_equal(shown(&run, "\nturns"), shown(&run, "\nturn 1") + shown(&run, "\nturn 2"));
    assert_int_equal(shown(&run, "\nreserve"), 6); // no reply is longer
    assert_true(shown(&run, "\nleft     about") > 10);
    expect_err(&run, "  the system prompt\n");
    program_free(&run);
    run = program_script(BABBLER "|--seed=1|--max-tokens=30|--ignore-eos|--threads=1|--no-save|--context=64|"
                                 "--reserve=40|--system=Be odd.",
                         "Hello there.\n/context\n");
    expect_err(&run, "  for the reply, of "); // what room there is
    check_sum(&run);
    program_free(&run);
    expect_shown("/context\n", "turns           0  in 0 turns\n");
    char many[2000] = "";
    for (int i = 0; i < 25; i++) strcat(many, "Hello there.\n");
    strcat(many, "/context\n");
    run = program_script(TALK "|--no-save", many);
    expect_err(&run, "  in 5 more\nturn 10");
    assert_int_equal(program_count(run.err, "  Hello there.\n"), 20);
    program_free(&run);
}

// No turn fits then, and nothing that leaves would help; the bar ends where the window does.
static void test_a_system_prompt_that_is_too_long(void **state) {
    char words[3000] = "", input[3200];
    (void)state;
    for (int i = 0; i < 100; i++) strcat(words, "Be brief and kind. ");
    snprintf(input, sizeof input, "/system %s\n/context\n", words);
    Run run = program_script(TALK "|--no-save|--context=128|--long-prompt=cut", input);
    expect_err(&run, "\nfree            0\n");
    expect_err(&run, "next     the next turn does not fit: the system prompt is too long\n");
    assert_int_equal(program_count(run.err, "█") + program_count(run.err, "#"), 72 + 1); // and in the legend
    program_free(&run);
    snprintf(input, sizeof input, "/system %s\nHello there.\n", words);
    program_run(&run, TALK "|--no-save|--context=128|--long-prompt=cut", input);
    expect_status(&run, 4);
    expect_err(&run, "the system prompt of ");
    expect_err(&run, "in the context of 128; shorten it (/system), or use a larger --context");
    program_free(&run);
}

static void test_overflow_is_told_and_recorded_once(void **state) {
    char input[2000] = "", command[300];
    for (int i = 0; i < 20; i++) strcat(input, STORY);
    Run run = program_script(TALK "|--context=128", input), journal;
    int lines = program_count(run.err, "[context full: turn");
    assert_true(lines >= 3);
    expect_err(&run, "[context full: turns 1-3 left (");
    expect_err(&run, " tokens), ");
    expect_err(&run, " kept, ");
    expect_err(&run, " re-evaluated, ");
    expect_err(&run, " ms]\n");
    snprintf(command, sizeof command, "cat %s/palaver/conversations/*.jsonl", (char *)*state);
    program_shell(&journal, command);
    assert_int_equal(program_count(journal.out, "\"discarded\":"), lines);
    assert_int_equal(program_count(journal.out, "\"overflow\":[{\"first\":1,\"last\":3,"), 1);
    program_free(&journal);
    program_free(&run);
}

static void test_warnings_come_once(void **state) {
    (void)state;
    static const char script[] = STORY STORY STORY STORY STORY STORY "/undo\n" STORY "/undo\n" STORY;
    Run run = program_script(TALK "|--no-save|--context=256|--overflow=stop", script);
    assert_int_equal(program_count(run.err, "[86% of the context is used]"), 1);
    assert_int_equal(program_count(run.err, "the next turn may be refused"), 1);
    program_free(&run);
    run = program_script(TALK "|--no-save|--context=256", script);
    assert_int_equal(program_count(run.err, "% of the context is used]"), 1);
    assert_int_equal(program_count(run.err, "[the next turn may discard turns 1-"), 1);
    program_free(&run);
}

static void test_overflow_command(void **state) {
    (void)state;
    expect_shown("/overflow\n", "policy   \"reevaluate\"");
    expect_shown("/overflow\n", "leaves   the oldest turns, until 512 tokens are used");
    expect_shown("/set discard 100\n/overflow\n", "and at least 100\n");
    expect_shown("/set by token\n/overflow\n",
                 "leaves   the oldest tokens, at least 50% of what may leave\n");
    expect_shown("/overflow shift\n/overflow\n", "policy   \"shift\"\n");
    expect_shown("/overflow stop\n/overflow\n", "what does not fit is refused");
    expect_shown("/overflow stop\n/set overflow\n", "context.overflow = \"stop\"");
    expect_refusal("/overflow shfit\n", "allowed is");
    expect_shown("Hello\n/overflow preview\n", "nothing leaves with the next turn; after about ");
    expect_shown("Hello\n/overflow preview\n", "turns of the size so far, turns 1-");
    expect_shown("/overflow stop\nHello\n/overflow preview\n", "turns of the size so far, turns are refused");
    expect_refusal("/overflow preview\n", "no turn yet");
    expect_shown("A\nBig cats\nThe quick brown fox\n/overflow preview\n",
                 " of the size so far, turns 1-"); // uneven ones
    // What is foretold is what comes.
    Run run = program_script(TALK "|--no-save|--context=256", STORY STORY STORY STORY
                             "/overflow preview\n" STORY STORY "/overflow preview\n/context\n" STORY STORY);
    const char *later = strstr(run.err, "after about 2 turns of the size so far, turns 1-");
    const char *foretold = strstr(run.err, "with the next turn, turns 1-");
    const char *next = strstr(run.err, "the next turn may discard turns 1-");
    const char *came = strstr(run.err, "[context full: turns 1-");
    if (!later || !foretold || !next || !came)
        fail_msg("%s", run.err);
    else
        assert_int_equal(atoi(foretold + strlen("with the next turn, turns 1-")),
                         atoi(next + strlen("the next turn may discard turns 1-")));
    program_free(&run);
}

// At every distance from the next discard what is left and what comes next are said alike.
static void test_what_is_left_and_what_is_next_agree(void **state) {
    (void)state;
    int n_room = 0, n_full = 0;
    for (int size = 108; size <= 180; size += 8) {
        char arguments[200];
        snprintf(arguments, sizeof arguments, TALK "|--no-save|--context=%d", size);
        Run run = program_script(arguments, STORY STORY "/context\n/overflow preview\n");
        bool none_left = strstr(run.err, "left     about 0 turns") != NULL,
             leaves = strstr(run.err, "next     the next turn may discard turns 1") != NULL;
        if (none_left != leaves) fail_msg("--context=%d: %s", size, run.err);
        assert_int_equal(strstr(run.err, "nothing leaves with the next turn; after about 0") != NULL, 0);
        none_left ? n_full++ : n_room++;
        program_free(&run);
    }
    assert_true(n_room > 1 && n_full > 1);
}

// A reply that left before its question counts no more: what is foretold begins where what comes begins.
static void test_foretold_after_a_part_left(void **state) {
    (void)state;
    Run run = program_script(TALK "|--no-save|--max-tokens=30|--context=256|--keep=20",
                             STORY STORY STORY STORY STORY STORY STORY);
    expect_err(&run, "[context full: turns 2-3 left, the reply of turn 1 left (");
    expect_err(&run, "[the next turn may discard turns 4-");
    expect_err(&run, "[context full: turns 4-");
    program_free(&run);
}

// Where frequencies go by the length of the text, a shift is refused and said, once; what is left is read again, as the
// whole is where the text outgrows a length; and the same comes of it again.
static void test_a_model_that_cannot_be_shifted(void **state) {
    char command[900], arguments[300];
    Run run;
    snprintf(
        command, sizeof command,
        "cp -r " BABBLER
        " %s/dynamic && sed -i 's/\"max_position_embeddings\": 1024/\"max_position_embeddings\": 64/; "
        "s/\"rope_type\": \"default\"/\"rope_type\": \"dynamic\", \"factor\": 4.0/' %s/dynamic/config.json",
        (char *)*state, (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 0);
    program_free(&run);
    snprintf(
        arguments, sizeof arguments,
        "%s/dynamic|--seed=1|--max-tokens=20|--ignore-eos|--threads=1|--stats|--context=200|--overflow=shift",
        (char *)*state);
    run = program_script(arguments, "Hello there.\n" STORY STORY STORY STORY "/replay verify\n/overflow\n");
    expect_err(&run,
               "[this model cannot be shifted, its rotary frequencies go by the length of the text: when the "
               "context is full, the rest is read again]\n");
    assert_int_equal(program_count(run.err, "[this model cannot be shifted"), 1);
    expect_err(&run, "[turn 2: 67 read, ");  // 67 tokens are more than 64
    expect_err(&run, "[turn 4: 169 read, "); // of another length than the turn before
    expect_err(&run, "[context full: turns 1-3 left (140 tokens), 0 kept, 48 re-evaluated, ");
    expect_err(&run, "[5 replies sampled again, 100 tokens: all as they were]");
    expect_err(&run, "policy   \"reevaluate\", not \"shift\": this model cannot be shifted, its rotary ");
    program_free(&run);
    snprintf(command, sizeof command, "%s/dynamic|--threads=1|--context=64|--overflow=shift", (char *)*state);
    run = program_script(command, STORY);
    expect_no_err(&run, "cannot be shifted"); // there they are always the same
    program_free(&run);
}

// Every policy, over every kind of cache: the talk goes on, and what a shift reads again is nothing.
static void test_policies_and_caches(void **state) {
    (void)state;
    static const char *const caches[] = {"--type=f32", "--type=int8|--layout=1|--no-paged",
                                         "--type=int4|--page-size=16"};
    static const char *const policies[] = {"reevaluate", "shift", "shift-inplace"};
    for (int i = 0; i < 3; i++) {
        char arguments[200];
        snprintf(arguments, sizeof arguments, TALK "|--no-save|--context=256|--overflow=%s|%s", policies[i],
                 caches[i]);
        Run run = program_script(arguments, "/system Be brief.\n/set max_tokens 30\n" STORY STORY STORY STORY
                                            "/retry\n/undo\n" STORY STORY STORY
                                            "/set by token\n/set discard 10\n" STORY STORY "/view\n/stats\n");
        assert_in_range(program_count(run.err, "[context full: turn"), 1, 6);
        expect_err(&run, " tokens of an older reply left");
        expect_err(&run, "[system] Be brief.");
        const char *first = strstr(run.err, "[context full"), *end = strchr(first, '\n');
        const char *nothing = strstr(first, " 0 re-evaluated");
        assert_int_equal(nothing && nothing<end, i> 0); // a shift reads nothing again
        program_free(&run);
    }
    Run run;
    program_run(&run, TALK "|--no-save|--type=int8|--group=12", "Hello\n");
    expect_status(&run, 2);
    expect_err(&run, "divides the head size, 16");
    program_free(&run);
}

static void test_forget(void **state) {
    (void)state;
    Run run =
        program_script(TALK "|--no-save", "One\nTwo\nThree\nFour\n/forget 2\n/context\n/tree\n/view\nFive\n");
    expect_err(&run, "[turns 1-2 left (");
    expect_err(&run, "in 2 turns; 2 older ones have left");
    expect_err(&run, "\n- 1.1  One -> ");
    expect_err(&run, "\n- 2.1  Two -> ");
    expect_err(&run, "\n  3.1  Three -> ");
    expect_no_err(&run, "[user] Two");
    expect_err(&run, "[user] Three");
    program_free(&run);
    expect_shown("One\nTwo\n/forget\n", "[turn 1 left (");
    expect_refusal("One\n/forget\n", "no older turn");
    expect_refusal("/forget\n", "no older turn");
    expect_refusal("One\nTwo\nThree\n/forget 3\n", "1 to 2");
    expect_refusal("One\nTwo\nThree\n/forget 1\n/forget 2\n",
                   "/forget takes a number of turns, at most 1: not 2");
    // A shift keeps in the cache what stays: of the three turns' 80 tokens 61 are seen after the first has left.
    static const char *const policies[] = {"reevaluate", "shift", "shift-inplace"},
                             *const cached[] = {"\n15 of 64 tokens are in the cache", "\n61 of 64",
                                                "\n61 of 64"};
    for (int i = 0; i < 3; i++) {
        char script[200];
        snprintf(script, sizeof script,
                 "/set overflow %s\n/system Be brief.\nHello there.\nAnd of Italy?\nOne two "
                 "three\n/forget\n/view diff\n",
                 policies[i]);
        program_says(TALK "|--no-save", script, 0, cached[i]);
    }
    // It holds for another attempt and after an undo, until one goes back there.
    run = program_script(TALK "|--no-save", "One\nTwo\nThree\nFour\n/forget 2\n/retry 5\n/undo\n/view\n");
    expect_no_err(&run, "[user] Two");
    program_free(&run);
    expect_shown("One\nTwo\nThree\n/forget 2\n/goto 2.1\n/view\n", "[user] Two");
}

static void test_what_was_forgotten_is_so_when_resumed(void **state) {
    (void)state;
    Run whole = program_script(TALK "|--no-save|--temperature=0", "One\nTwo\nThree\n/forget 2\nFour\n");
    Run first = program_script(TALK "|--temperature=0", "One\nTwo\nThree\n/forget 2\n");
    Run second = program_script("--resume|--temperature=0|--max-tokens=6|--ignore-eos", "/view\nFour\n");
    expect_no_err(&second, "[user] Two");
    expect_err(&second, "[user] Three");
    size_t n = first.out_size;
    assert_int_equal(whole.out_size, n + second.out_size);
    assert_memory_equal(whole.out + n, second.out, second.out_size);
    program_free(&whole);
    program_free(&first);
    program_free(&second);
}

static void test_stats_tell_the_bytes(void **state) {
    (void)state;
    Run run = program_script(TALK "|--no-save", "Hello\n/stats\n");
    const char *cache = strstr(run.err, "cache         ");
    assert_non_null(cache);
    assert_non_null(strstr(cache, " of 1024 tokens, "));
    assert_non_null(strstr(cache, "kB of "));
    assert_non_null(strstr(cache, "(f16)\n"));
    expect_err(&run, " GB/s), first after ");
    expect_err(&run, "\nsoftmax       running maxima\n");
    program_free(&run);
}

// The babbler's weights are made up for greedy loops: its scores reach further than any model's that was trained.
static void test_stats_tell_what_fell_back(void **state) {
    (void)state;
    Run run =
        program_script("assets/parley-9m|--seed=1|--max-tokens=6|--threads=1|--no-save|--softmax=unified",
                       "Hello\n/stats\n");
    expect_err(&run, "\nsoftmax       7 of 7 layers by bases; 0 of ");
    expect_err(&run, " parts taken again (0.00%)\n");
    program_free(&run);
    run = program_script(TALK "|--no-save|--softmax=unified", "Hello\n/stats\n");
    expect_err(&run,
               "\nsoftmax       0 of 2 layers by bases, the others' scores reach too far; 0 of 0 parts");
    program_free(&run);
    program_run(&run, TALK "|--no-save|--softmax=fixed", "Hello\n");
    expect_err(&run, "allowed is \"auto\", \"unified\" or \"running\"");
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_context_adds_up),
        WITH_HOME(test_overflow_is_told_and_recorded_once),
        WITH_HOME(test_warnings_come_once),
        WITH_HOME(test_overflow_command),
        WITH_HOME(test_what_is_left_and_what_is_next_agree),
        WITH_HOME(test_foretold_after_a_part_left),
        WITH_HOME(test_a_model_that_cannot_be_shifted),
        WITH_HOME(test_policies_and_caches),
        WITH_HOME(test_a_system_prompt_that_is_too_long),
        WITH_HOME(test_forget),
        WITH_HOME(test_what_was_forgotten_is_so_when_resumed),
        WITH_HOME(test_stats_tell_the_bytes),
        WITH_HOME(test_stats_tell_what_fell_back),
    };
    return test_main("window", argc, argv, tests);
}
