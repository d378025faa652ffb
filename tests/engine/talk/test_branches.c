// A conversation as a tree, through scripts: undo, redo, retry, edit, goto, tree; nothing is lost, whatever happens in
// between, and each branch is as it was.
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"

static void expect_refusal(const char *input, const char *part) {
    program_says(TALK "|--no-save", input, 5, part);
}

static void expect_shown(const char *input, const char *part) {
    program_says(TALK "|--no-save", input, 0, part);
}

// The last reply of a script's stdout.
static const char *last_line(const Run *run) {
    const char *line = run->out + run->out_size;
    assert_true(run->out_size > 1 && line[-1] == '\n');
    for (line--; line > run->out && line[-1] != '\n';) line--;
    return line;
}

static void test_undo_and_redo(void **state) {
    (void)state;
    expect_shown("One\nTwo\nThree\n/undo 2\n/redo\n", "[1 turn back again, 2 in all]");
    expect_shown("One\nTwo\nThree\n/undo 3\n/redo 3\n", "[3 turns back again, 3 in all]");
    expect_refusal("One\n/redo\n", "nothing was taken back");
    expect_refusal("/redo\n", "nothing was taken back");
    expect_refusal("One\n/undo\n/redo 2\n", ", at most 1: not 2");
    expect_refusal("One\nTwo\n/undo\nZwei\n/redo\n", "nothing was taken back"); // another turn came instead
    // After undo and redo the talk goes on as if nothing had been.
    Run plain = program_script(TALK "|--no-save|--temperature=0", "One\nTwo\nThree\n");
    Run moved = program_script(TALK "|--no-save|--temperature=0", "One\nTwo\n/undo 2\n/redo 2\nThree\n");
    assert_string_equal(plain.out, moved.out);
    program_free(&plain);
    program_free(&moved);
}

static void test_goto(void **state) {
    (void)state;
    expect_shown("One\n/retry\n/goto 1.1\n/view\n", "[at 1.1: 1 turn before the next]");
    expect_shown("One\n/goto 0\n/tree\n", "* 0  <- here\n  1.1  One -> ");
    expect_refusal("One\n/goto\n", "needs a node");
    expect_refusal("One\n/goto 2.1\n", "there is no node 2.1");
    expect_refusal("One\n/goto one\n", "there is no node one");
    // Each branch is as it was: the same question there has the same answer.
    Run run = program_script(TALK "|--no-save|--temperature=0",
                             "One\nTwo\nThree\n/goto 1.1\nWhat else?\n/goto 2.1\nThree\n");
    char *third = strdup(run.out), *at = third;
    for (int i = 0; i < 2; i++) at = strchr(at, '\n') + 1;
    at[strcspn(at, "\n")] = 0;
    assert_true(*at);
    assert_memory_equal(last_line(&run), at, strlen(at));
    free(third);
    program_free(&run);
}

static void test_tree_shows_all_attempts(void **state) {
    (void)state;
    expect_refusal("/tree\n", "no turn yet");
    Run run =
        program_script(TALK "|--no-save",
                       "One\nTwo\n/retry 5\nThree\n/goto 1.1\nOther\n/retry 3\n/goto 3.1\n/undo\n/tree\n");
    const char *tree = strstr(run.err, "  1.1  One -> ");
    assert_non_null(tree);
    static const char *const lines[] = {"\n  ├ 2.1  Two -> ", "\n* ├ 2.2  Two -> ", "\n  │ 3.1  Three -> ",
                                        "\n  ├ 2.3  Other -> ", "\n  └ 2.4  Other -> "};
    for (int i = 0; i < 5 && tree; i++) {
        tree = strstr(tree, lines[i]);
        if (!tree) fail_msg("%s is not there, or too early:\n%s", lines[i], run.err);
    }
    program_free(&run);
}

static void test_the_tree_is_resumed_whole(void **state) {
    (void)state;
    static const char script[] = "One\nTwo\n/retry 5\nThree\n/undo 2\nOther\n/goto 3.1\n/undo\n";
    Run whole =
        program_script(TALK "|--no-save|--temperature=0",
                       "One\nTwo\n/retry 5\nThree\n/undo 2\nOther\n/goto 3.1\n/undo\n/tree\n/redo\nFour\n");
    Run first = program_script(TALK "|--temperature=0", script);
    Run second = program_script("--resume|--temperature=0|--max-tokens=6", "/tree\n/redo\nFour\n");
    expect_err(&whole, strstr(second.err, "  1.1  One -> "));
    assert_string_equal(last_line(&whole), last_line(&second));
    program_free(&whole);
    program_free(&first);
    program_free(&second);
}

static void test_edit_in_a_script(void **state) {
    (void)state;
    Run run;
    unsetenv("VISUAL");
    setenv("EDITOR", "sed -i s/Two/Zwei/", 1);
    run = program_script(TALK "|--no-save", "One\nTwo\nThree\n/edit 2\n/tree\n");
    expect_err(&run, "  ├ 2.1  Two -> ");
    expect_err(&run, "* └ 2.2  Zwei -> ");
    program_free(&run);
    // What stands in the script after it is not the editor's to read.
    setenv("EDITOR", "cat >/dev/null; sed -i s/One/Eins/", 1);
    run = program_script(TALK "|--no-save|--stats", "One\n/edit\nTwo\n");
    expect_err(&run, "[turn 2: ");
    program_free(&run);
    setenv("EDITOR", "echo Forty-two. >", 1);
    run = program_script(TALK "|--no-save|--stats", "One\n/edit reply\nTwo\n/view\n/tree\n");
    expect_err(&run, "[the reply is replaced; ");
    expect_err(&run, "[assistant] Forty-two.\n");
    expect_err(&run, "  ├ 1.1  One -> ");
    expect_err(&run, "  └ 1.2  One -> Forty-two.\n*   2.1  Two -> ");
    program_free(&run);
    setenv("EDITOR", "true", 1);
    expect_shown("One\n/edit\n", "[nothing was changed]");
    setenv("EDITOR", "false", 1);
    expect_refusal("One\n/edit\n", "nothing was taken over");
    expect_refusal("/edit\n", "no turn yet");
    expect_refusal("One\n/edit 2\n", ", at most 1: not 2");
    unsetenv("EDITOR");
    expect_refusal("One\n/edit\n", "needs EDITOR");
}

// An attempt that was made when the window was not yet full sees again what had left since.
static void test_a_branch_from_before_the_overflow(void **state) {
    (void)state;
    char input[2000] = "The very first.\n", turns[1200] = "";
    for (int i = 0; i < 12; i++) strcat(turns, "Please tell me a story about a cat and a king.\n");
    strcat(input, turns);
    strcat(input, "/view\n/goto 2.1\n/view\n");
    Run run = program_script(TALK "|--no-save|--context=128", input);
    expect_err(&run, "[context full: turn");
    const char *moved = strstr(run.err, "[at 2.1: ");
    assert_non_null(moved);
    assert_non_null(strstr(moved, "[user] The very first."));
    char *before = strndup(run.err, (size_t)(moved - run.err));
    assert_null(strstr(before, "[user] The very first."));
    free(before);
    program_free(&run);
}

// What was left stays in the cache: to come back is to read only what is new, and /view diff tells so before.
static void test_branches_stay_in_the_cache(void **state) {
    (void)state;
    static const char talk[] =
        "One\nPlease tell me a story about a cat and a king.\nAnd one about a fox.\n/undo 2\n"
        "Two\n/goto 3.1\n/view diff\nThree\n";
    Run run = program_script(TALK "|--no-save|--stats|--ignore-eos", talk);
    expect_err(&run, "[turn 2: 26 cached + 10 read");
    expect_err(&run,
               "\n85 of 88 tokens are in the cache, where the conversation has been before; the next turn");
    expect_err(&run, "[turn 4: 85 cached + 18 read");
    program_free(&run);
    run = program_script(TALK "|--no-save|--stats|--ignore-eos|--no-paged", talk);
    expect_err(&run, "\n26 of 88 tokens are in the cache; at 26 it holds");
    expect_err(&run, "[turn 4: 26 cached + 77 read");
    program_free(&run);
}

// ---- several conversations --------------------------------------------------------------------------------

static void test_new_list_switch(void **state) {
    (void)state;
    Run run = program_script(TALK, "/new\n/new first\n");
    expect_err(&run, "[a new conversation]\n[a new conversation: first]\n"); // there was none before
    program_free(&run);
    run = program_script(
        TALK, "/list\nOne\n/new second\nA question there\n/list\n/switch 20\n/view\n/switch sec\n/view\n"
              "/new\n/list\n");
    expect_err(&run,
               "* (new: kept from its first turn on)\n[a new conversation: second; the one before is kept]");
    expect_err(&run, "* second  ");
    expect_err(&run, "  One\n[20");
    expect_err(&run, "  A question there\n  20"); // the newest first
    expect_err(&run, ": 1 turn so far]\n[template] ");
    expect_err(&run, "[second: 1 turn so far]");
    program_free(&run);
    run = program_script("--resume=second|--max-tokens=4|--stats", "And?\n/switch second\n");
    expect_err(&run, "[turn 2: ");
    expect_err(&run, "[already in second: 2 turns so far]");
    program_free(&run);
    static const char *const wrong[][2] = {{"/switch\n", "needs a name"},
                                           {"/switch secnod\n", "did you mean second?"},
                                           {"/new second\n", "there is a conversation second already"},
                                           {"/new a/b\n", "none of them /"},
                                           {"/new ../b\n", "none of them /"},
                                           {"/new .hidden\n", "begins with no ."},
                                           {"/list all\n", "no argument"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) expect_refusal(wrong[i][0], wrong[i][1]);
    char name[200];
    memset(name, 'x', 199);
    memcpy(name, "/new ", 5);
    name[198] = '\n', name[199] = 0;
    expect_refusal(name, "1 to 100 bytes");
}

// What a conversation says does not depend on what was said in others meanwhile.
static void test_switching_keeps_both_conversations(void **state) {
    (void)state;
    Run alone = program_script(TALK "|--no-save|--temperature=0", "One thing\nAnother thing\n");
    Run both = program_script(TALK "|--temperature=0",
                              "/new a\n/new b\nOne thing\n/new c\nOther\n/switch b\nAnother thing\n");
    assert_string_equal(last_line(&alone), last_line(&both));
    program_free(&both);
    both = program_script("--resume=b|--max-tokens=6", "/retry 3\n");
    Run again = program_script("--resume=b|--max-tokens=6", "/tree\n");
    expect_err(&again, "  1.1  One thing -> ");
    expect_err(&again, "  ├ 2.1  Another thing -> ");
    expect_err(&again, "* └ 2.2  Another thing -> ");
    expect_no_err(&again, "Other ->");
    program_free(&alone);
    program_free(&both);
    program_free(&again);
}

// What is set by hand belongs to the conversation, and comes back with it: as --resume finds it.
static void test_settings_belong_to_their_conversation(void **state) {
    char load[200];
    Run run = program_script(
        TALK, "/new a\n/set top_k 3\nOne\n/set min_p 0.25\n/new b\n/reset top_k\nTwo\n/set min_p 0.5\n"
              "/switch a\n/set top_k\n/set min_p\n/switch b\n/set top_k\n/set min_p\n");
    const char *a = strstr(run.err, "[a: 1 turn so far]\nsampling.top_k = 3  "),
               *b = strstr(run.err, "[b: 1 turn so far]\nsampling.top_k = 40  ");
    if (a && b) {
        a = strstr(a, "sampling.min_p = 0.25  "); // set after its last turn
        assert_non_null(strstr(b, "sampling.min_p = 0.5  "));
    }
    if (!a || !b || a > b) fail_msg("%s", run.err);
    program_free(&run);
    run = program_script("--resume=b|--top-k=7", "/set min_p\n/switch a\n/set top_k\n/set min_p\n");
    expect_err(&run, "sampling.min_p = 0.5  ");
    expect_err(&run, "[a: 1 turn so far]\nsampling.top_k = 7  ");
    expect_err(&run, "sampling.min_p = 0.25  ");
    program_free(&run);
    snprintf(load, sizeof load, "/load %s/palaver/conversations/a.jsonl\n/set top_k\n", (char *)*state);
    expect_shown(load, "sampling.top_k = 3  ");
}

static void test_fork_goes_on_in_a_copy(void **state) {
    (void)state;
    Run run = program_script(
        TALK, "/new trunk\nOne\nTwo\n/retry 9\n/fork side\n/tree\nThree on the side\n/switch trunk\n/tree\n"
              "/switch side\n/tree\n/fork\n/list\n");
    expect_err(&run, "[in side now, a copy; /switch trunk goes back]");
    const char *back = strstr(run.err, "[trunk: 2 turns so far]"),
               *side = strstr(run.err, "[side: 3 turns so far]");
    assert_true(back && side && back < side);
    char *trunk = strndup(back, (size_t)(side - back));
    assert_non_null(strstr(trunk, "├ 2.1  Two -> "));
    assert_null(strstr(trunk, "Three"));
    assert_non_null(strstr(side, "*   3.1  Three on the side -> "));
    free(trunk);
    program_free(&run);
    // The cache stays: the fork's first turn reads only what is new.
    run = program_script(TALK "|--stats", "One\n/fork other\nTwo\n");
    expect_err(&run, " cached + ");
    program_free(&run);
    expect_refusal("One\n/fork x\n", "--no-save");
    expect_refusal("/fork\n", "no turn yet");
    program_run(&run, TALK, "One\n/fork side\n");
    expect_status(&run, 5);
    expect_err(&run, "there is a conversation side already");
    program_free(&run);
}

static void test_delete(void **state) {
    (void)state;
    Run run = program_script(TALK, "/new a\nOne\n/new b\nTwo\n/delete a\n/list\n");
    expect_err(&run, "[a is deleted]\n* b  ");
    program_free(&run);
    static const char *const wrong[][2] = {{"One\n/delete\n", "needs a whole name"},
                                           {"One\n/delete c\n", "there is no conversation c"},
                                           {"One\n/delete ../x\n", "there is no conversation ../x"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) expect_refusal(wrong[i][0], wrong[i][1]);
    program_run(&run, TALK, "/switch b\n/delete b\n");
    expect_status(&run, 5);
    expect_err(&run, "b is the conversation you are in");
    program_free(&run);
    program_run(&run, TALK, "/new c\nOne\n/new d\nTwo\n/delete \n");
    expect_status(&run, 5);
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_undo_and_redo),
        WITH_HOME(test_goto),
        WITH_HOME(test_tree_shows_all_attempts),
        WITH_HOME(test_the_tree_is_resumed_whole),
        WITH_HOME(test_edit_in_a_script),
        WITH_HOME(test_a_branch_from_before_the_overflow),
        WITH_HOME(test_branches_stay_in_the_cache),
        WITH_HOME(test_new_list_switch),
        WITH_HOME(test_switching_keeps_both_conversations),
        WITH_HOME(test_settings_belong_to_their_conversation),
        WITH_HOME(test_fork_goes_on_in_a_copy),
        WITH_HOME(test_delete),
    };
    return test_main("branches", argc, argv, tests);
}
