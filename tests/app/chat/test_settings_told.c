// Settings that count for less than they say, and those of a prompt that is too long: what is said of them.
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What counts for less than it says is said; what is as it was set is not.
static void test_settings_that_count_for_less_are_told(void **state) {
    static const struct {
        const char *arguments, *input, *part;
    } told[] = {
        {BABBLER "|--max-tokens=3|--context=256|--reserve=200", "Hi\n",
         "[reserve: 64 of the context's 256 tokens are kept free for a reply, a quarter, not 200]"},
        {BABBLER "|--max-tokens=3|--context=256", "/set reserve 65\n", "not 65]"},
        {BABBLER "|--max-tokens=3|--group=16", "Hi\n",
         "[group changes nothing: only int8 and int4 caches have groups]"},
        {BABBLER "|--max-tokens=3|--no-paged|--page-size=4", "Hi\n", "[page_size changes nothing: "},
        {BABBLER "|--max-tokens=3|--overflow=stop|--keep=4", "Hi\n",
         "[keep changes nothing: overflow = \"stop\""},
        {BABBLER "|--max-tokens=3|--by=token", "/set low_water 0.3\n",
         "[low_water changes nothing: by = \"token\""},
        {BABBLER "|--max-tokens=3|--dry-base=2", "Hi\n", "[dry_base changes nothing: dry_multiplier 0"},
        {BABBLER "|--max-tokens=3|--dry-allowed=2", "Hi\n", "[dry_allowed changes nothing: dry_multiplier 0"},
        {BABBLER "|--max-tokens=3|--repeat-penalty=1|--repeat-last=9", "Hi\n",
         "[repeat_last changes nothing: repeat_penalty, "},
        {BABBLER "|--max-tokens=3|--temperature=0|--top-k=9", "Hi\n",
         "[top_k changes nothing: temperature 0"},
        {BABBLER "|--max-tokens=3|--temperature=0|--top-p=0.5", "Hi\n", "[top_p changes nothing: "},
        {BABBLER "|--max-tokens=3|--temperature=0|--min-p=0.5", "Hi\n", "[min_p changes nothing: "},
        {BABBLER "|--max-tokens=3|--temperature=0|--typical-p=0.5", "Hi\n", "[typical_p changes nothing: "},
        {BABBLER "|--max-tokens=3|--seed=1", "/set temperature 0\n", "[seed changes nothing: "},
        {BABBLER "|--max-tokens=3|--thinking=on|--template-args={\"enable_thinking\": false}", "Hi\n",
         "[enable_thinking in template_args changes nothing: thinking = \"on\""},
        {BABBLER "|--max-tokens=3|--jsonl|--no-paged", "{\"turns\": [\"Hi\"]}\n",
         "[the cache is in pages all the same: conversations at once need them]"},
    };
    Run run;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        program_says(told[i].arguments, told[i].input, 0, told[i].part);
    run = program_script(
        BABBLER
        "|--max-tokens=3|--context=256|--type=int8|--group=16|--page-size=4|--by=token|--seed=1|--top-k=9"
        "|--dry-multiplier=1|--dry-base=2|--presence-penalty=1|--repeat-last=9",
        "Hi\nHo\n");
    expect_no_err(&run, "changes nothing");
    expect_no_err(&run, "reserve");
    program_free(&run);
    run = program_script(BABBLER "|--max-tokens=3|--jsonl|--temperature=0|--seed=1",
                         "{\"turns\": [\"Hi\"], \"sampling\": {\"temperature\": 1}}\n");
    expect_no_err(&run, "changes nothing"); // a line may draw
    program_free(&run);
    char arguments[200], path[100];
    snprintf(path, sizeof path, "%s/text", (char *)*state);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 100; i++) fputs("A text of some length. ", file);
    fclose(file);
    snprintf(arguments, sizeof arguments, "perplexity|" BABBLER "|%s|--context=64|--overflow=stop", path);
    program_run(&run, arguments, "");
    expect_status(&run, 0);
    expect_out(&run, "perplexity ");
    expect_out(&run, "left out   the last ");
    program_free(&run);
}

// A prompt that cannot fit is refused with figures, or cut where that is wanted, in every way to talk.
static void test_a_long_prompt_is_cut_where_that_is_wanted(void **state) {
    (void)state;
    static const char CUT[] = "[the question is too long for the context: bytes 1 to ";
    char words[2000] = "", input[2100];
    for (int i = 0; i < 100; i++) strcat(words, "one word more, ");
    snprintf(input, sizeof input, "%s\n", words);
    program_says(BABBLER "|--max-tokens=3|--context=128", input, 4, "or have it cut (long_prompt)");
    program_says(BABBLER "|--max-tokens=3|--context=128|--long-prompt=cut", input, 0, CUT);
    program_says(BABBLER "|--max-tokens=3|--context=128|--long-prompt=cut|-p|And?", input, 0, CUT);
    snprintf(input, sizeof input, "/set long_prompt cut\n%s\n/set long_prompt refuse\n", words);
    program_says(BABBLER "|--max-tokens=3|--context=128", input, 0, CUT);
    snprintf(input, sizeof input, "{\"turns\": [\"Hi\", \"%s\"]}\n{\"turns\": [\"Hi\"]}\n", words);
    program_says(BABBLER "|--jsonl|--ordered|--max-tokens=3|--context=128", input, 4,
                 "1 refused by the context");
    Run run =
        program_script(BABBLER "|--jsonl|--ordered|--max-tokens=3|--context=128|--long-prompt=cut", input);
    const char *cut = strstr(run.out, "\"left_out\": ");
    assert_non_null(cut);
    assert_null(strstr(cut + 1, "\"left_out\": ")); // the other line lacks nothing
    program_free(&run);
}

// What a conversation has forgotten is in its answer, and only there.
static void test_lines_tell_what_left_the_window(void **state) {
    (void)state;
    static const char *const POLICIES[] = {"reevaluate", "shift", "shift-inplace"};
    char turns[800] = "", input[900], arguments[200];
    for (int i = 0; i < 12; i++) strcat(turns, i ? ", \"one word more, and one\"" : "\"one word more\"");
    snprintf(input, sizeof input, "{\"turns\": [\"Hi\"]}\n{\"turns\": [%s]}\n", turns);
    for (int i = 0; i < 3; i++) {
        snprintf(arguments, sizeof arguments,
                 BABBLER "|--jsonl|--ordered|--max-tokens=9|--context=128|--overflow=%s", POLICIES[i]);
        Run run = program_script(arguments, input);
        const char *evicted = strstr(run.out, "\"evicted\": ");
        assert_non_null(evicted);
        assert_true(atoi(evicted + strlen("\"evicted\": ")) > 0);
        assert_true(evicted > strchr(run.out, '\n')); // the first line has forgotten nothing
        program_free(&run);
    }
}

// A variable that begins as settings do and is none is told once, with what may be meant; one of the plug-in's is not.
static void test_variables_that_name_no_setting_are_told(void **state) {
    static const char *const variables[] = {"PALAVER_SAMPLING_TEMP", "PALAVER_UI_TOP_P", "PALAVER_X\033[31m",
                                            "PALAVER_NO_PEER",       "PALAVER_EMPTY",    "PALAVER_UI_STATS"};
    static const char *const said[] = {
        "PALAVER_SAMPLING_TEMP names no setting: unknown key \"sampling.temp\"; did you mean "
        "sampling.temperature?",
        "PALAVER_UI_TOP_P names no setting: unknown key \"ui.top_p\"; top_p belongs in [sampling]",
        "PALAVER_X\\x1b[31m names no setting: unknown key \"x\\x1b[31m\"; `palaver config` lists all "
        "keys",
    };
    (void)state;
    for (int i = 0; i < 6; i++) setenv(variables[i], i == 4 ? "" : "1", 1);
    setenv("PALAVER_UI_STATS", "on", 1);
    Run run = program_script(BABBLER "|--max-tokens=3", "Hi\n");
    for (int i = 0; i < 3; i++) assert_int_equal(program_count(run.err, said[i]), 1);
    assert_int_equal(program_count(run.err, "names no setting"), 3);
    assert_int_equal(program_count(run.err, "\n"), 2); // and the figures of the turn
    expect_no_err(&run, " more variable");
    program_free(&run);
    char more[32];
    for (int i = 1; i <= 60; i++) {
        snprintf(more, sizeof more, "PALAVER_NOSUCH_%d", i);
        setenv(more, "1", 1);
        if (i > 1 && i < 60) continue;
        run = program_script(BABBLER "|--max-tokens=3", "Hi\n");
        expect_err(&run, i == 1 ? "; 1 more variable names none]\n" : "; 60 more variables name none]\n");
        assert_int_equal(program_count(run.err, "names no setting"), 3);
        assert_int_equal(program_count(run.err, "\n"), 2); // and the figures of the turn
        program_free(&run);
    }
    for (int i = 0; i < 6; i++) unsetenv(variables[i]);
    for (int i = 1; i <= 60; i++) {
        snprintf(more, sizeof more, "PALAVER_NOSUCH_%d", i);
        unsetenv(more);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_long_prompt_is_cut_where_that_is_wanted, program_set_up,
                                        program_tear_down),
        cmocka_unit_test_setup_teardown(test_lines_tell_what_left_the_window, program_set_up,
                                        program_tear_down),
        cmocka_unit_test_setup_teardown(test_variables_that_name_no_setting_are_told, program_set_up,
                                        program_tear_down),
        cmocka_unit_test_setup_teardown(test_settings_that_count_for_less_are_told, program_set_up,
                                        program_tear_down),
    };
    return test_main("settings_told", argc, argv, tests);
}
