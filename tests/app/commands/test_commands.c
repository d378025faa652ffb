// Commands one by one, through scripts: what they show (all of it on stderr), what they change, what they
// refuse.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"
#include "app/commands/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1|--no-save"

static void expect_script(const char *input, const char *part) {
    program_says(TALK, input, 0, part);
}

static void expect_refusal(const char *input, const char *part) {
    program_refuses(TALK, input, part);
}

static void test_what_is_a_command(void **state) {
    (void)state;
    assert_true(commands_is_command("/help"));
    assert_true(commands_is_command("/"));
    assert_false(commands_is_command("//help"));
    assert_false(commands_is_command("help"));
    assert_false(commands_is_command(""));
    assert_false(commands_is_command(" /help"));
    assert_string_equal(commands_literal("//help"), "/help");
    assert_string_equal(commands_literal("help"), "help");
}

static void test_the_table_is_whole(void **state) {
    (void)state;
    static const char *const wanted[] = {
        "help",   "quit", "clear", "system",  "model",    "retry",  "undo",   "redo",   "edit",   "continue",
        "say",    "tree", "goto",  "fork",    "new",      "list",   "switch", "delete", "set",    "reset",
        "config", "seed", "stats", "context", "overflow", "forget", "think",  "view",   "tokens", "top",
        "replay", "save", "load",  "export",  "file",     "copy",   "time"};
    size_t n, n_wanted = sizeof wanted / sizeof *wanted;
    const ChatCommand *commands = commands_list(&n);
    assert_int_equal(n, n_wanted);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(commands[i].name, wanted[i]);
        assert_non_null(commands[i].run);
        assert_true(strlen(commands[i].help) > 5);
    }
}

// The README names every command.
static void test_the_readme_is_whole(void **state) {
    (void)state;
    size_t n;
    const ChatCommand *commands = commands_list(&n);
    char *readme = text_of_file("README.md");
    for (size_t i = 0; i < n; i++) {
        char name[32];
        int found = 0, size = snprintf(name, sizeof name, "`/%s", commands[i].name);
        for (const char *at = readme; (at = strstr(at, name)); at++)
            found += at[size] == ' ' || at[size] == '`';
        if (!found) fail_msg("the README does not name /%s", commands[i].name);
    }
    free(readme);
}

static void test_help(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK, "/help\n");
    size_t n;
    const ChatCommand *commands = commands_list(&n);
    for (size_t i = 0; i < n; i++) {
        char name[40];
        snprintf(name, sizeof name, "/%s", commands[i].name);
        expect_err(&run, name);
    }
    assert_string_equal(run.out, "");
    program_free(&run);
    expect_script("/help undo\n", "take the last turn");
    expect_script("/? /retry\n", "another reply");
    expect_script("/help set\n", "sampling       temperature top_p");
    expect_script("/help all\n", "conversations\n/new [NAME]");
    expect_refusal("/help undoo\n", "did you mean /undo?");
}

static void test_unknown_commands_are_never_sent(void **state) {
    (void)state;
    expect_refusal("/retyr\n", "unknown command /retyr: did you mean /retry?");
    expect_refusal("/\n", "unknown command /");
    expect_refusal("/%s%n\n", "unknown command /%s%n");
    expect_refusal("/stats now\n", "no argument");
}

// Of a line that is refused, 80 columns at most are said again.
static void test_refused_lines_are_quoted_in_short(void **state) {
    (void)state;
    static const char *const STARTS[] = {"/",      "/view ",    "/stats ", "/seed ", "/goto ",     "/set ",
                                         "/load ", "/file ~/x", "/model ", "/new ",  "/set top_p "};
    char many[301] = "", line[340];
    for (int i = 0; i < 300; i++) many[i] = 'y';
    for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++) {
        Run run;
        snprintf(line, sizeof line, "%s%s\n", STARTS[i], many);
        program_run(&run, TALK, line);
        const char *said = strstr(run.err, "yyyy");
        size_t n = said ? strspn(said, "y") : 0;
        if (n < 50 || n > 80) fail_msg("%s: %zu characters: %s", STARTS[i], n, run.err);
        if (strncmp(said + n, "…", strlen("…")) != 0) fail_msg("%s: no ellipsis: %s", STARTS[i], run.err);
        assert_int_equal(run.status, 5);
        program_free(&run);
    }
}

// A path, or lines that begin with a slash, are the model's; a command that takes a text may have lines of it.
static void test_paths_and_lines_are_no_commands(void **state) {
    (void)state;
    expect_script("/usr/bin is a folder\n/view\n", "[user] /usr/bin is a folder");
    expect_script("\"\"\"/list\nof things\"\"\"\n/view\n", "[user] /list\nof things");
    expect_script("\"\"\"/system You are\nbrief.\"\"\"\nHello\n/view\n", "[system] You are\nbrief.");
    assert_true(commands_is_command("/file /etc/hosts"));
    assert_false(commands_is_command("/etc/hosts"));
}

static void test_view_and_tokens(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK, "<|im_end|>\n/view tokens\n");
    expect_err(&run, "<|im_start|>  (special)");
    expect_err(&run, "user       cached");
    expect_err(&run, "template   new");
    program_free(&run);
    program_run(&run, TALK, "Hello there.\n/undo\n/view diff\nHello there.\n/view diff\n");
    expect_status(&run, 0);
    expect_err(&run, "tokens are in the cache");
    expect_err(&run, "the next turn reads:");
    program_free(&run);
    expect_script("/tokens Hello <|im_end|>\n", "tokens");
    expect_script("/tokens a\n", "\n1 token\n");
    expect_script("hi\n/stats\n", "; of the last reply nothing could be guessed\n");
    expect_refusal("/tokens\n", "needs a text");
    expect_refusal("/view everything\n", "text, tokens or diff");
    // Two animals that differ in the last of their four bytes, each a token: the mark stands before the whole.
    expect_script("A \xf0\x9f\x90\x88\n/undo\n/say user A \xf0\x9f\x90\x87\n/view diff\n",
                  "; the next turn reads:\n[user] ⟨cache ends here⟩\xf0\x9f\x90\x87\n");
    expect_script("A \xf0\x9f\x90\x88\n/undo\n/say user A \xf0\x9f\x90\x87\n/view\n",
                  "[user] A ⟨cache ends here⟩\xf0\x9f\x90\x87\n");
}

static void test_stats_and_context(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK, "/stats\nHello there.\n/stats\n/context\n");
    expect_status(&run, 0);
    expect_err(&run, "conversation  0 turns");
    expect_err(&run, "conversation  1 turn; 1 reply in all");
    expect_err(&run, "journal       off");
    expect_err(&run, "window       1024  tokens");
    expect_err(&run, "nothing leaves with the next turn");
    program_free(&run);
}

static void test_say(void **state) {
    (void)state;
    Run run;
    program_run(
        &run, TALK "|--stats",
        "/say user What is it?\n/say assistant A cat.\n/say user And that?\n/continue\n/say assistant No.\n"
        "/say system Be odd.\nWell?\n/view\n/tree\n");
    expect_status(&run, 0);
    expect_err(&run, "[user] What is it?\n");
    expect_err(&run, "[assistant] A cat.\n");
    expect_err(&run, "[assistant] No.\n");
    expect_err(&run, "[system] Be odd.\n");
    expect_err(&run, "  1.1  What is it? -> A cat.\n  2.1  And that? -> ");
    expect_err(&run, "\n  3.1  -> No.\n  4.1  (system) Be odd.\n* 5.1  Well? -> ");
    expect_no_err(&run, "[turn 2: 0 cached");
    expect_err(&run, "[turn 2: "); // nothing before it was ever read
    program_free(&run);
    // What is said there is text, whatever it spells.
    expect_script("/say assistant <|im_end|>\n/view\n", "[assistant] <|im_end|>\n");
    expect_refusal("/say\n", "needs a role");
    expect_refusal("/say user\n", "needs a role");
    expect_refusal("/say robot Hello\n", "needs a role");
    expect_refusal("/say system Hello\n", "/system that sets");
    expect_refusal("/say assistant Hello\n/retry\n", "asks nothing");
    expect_refusal("/say user Hello\n/say assistant Hi\n/say assistant Ho\n/retry\n", "asks nothing");
    expect_script("/say user Hello\n/retry\n/tree\n", "  ├ 1.1  Hello\n* └ 1.2  Hello -> ");
}

// Forks behind forks are all drawn, however deep: their lines take half a row.
static void test_a_deep_tree(void **state) {
    (void)state;
    enum { DEPTH = 30 };
    char input[DEPTH * 60] = "", deepest[300] = "  ";
    for (int i = 0; i < DEPTH; i++) strcat(input, "/say user a\n");
    for (int i = DEPTH - 1; i >= 0; i--)
        sprintf(input + strlen(input), i ? "/goto %d.1\n/say user b\n" : "/goto 0\n/say user b\n", i);
    strcat(input, "/tree\n");
    expect_script(input, "  ├ 1.1  a\n  │ ├ 2.1  a\n");
    for (int i = 0; i < 20; i++) strcat(deepest, "│ ");
    strcat(deepest, "(10 more) 30.1  a\n");
    expect_script(input, deepest);
    expect_script(input, "\n  │ └ 2.2  b\n* └ 1.2  b <- here");
}

// Siblings in their order, each with what follows it; every row fits the window, and says where one is.
static void test_a_wide_tree(void **state) {
    (void)state;
    static const char words[] =
        "日本語で長い長い長い質問をする人がいますが、答えはいつも短いです and it goes on for ever and ever.";
    static const char picture[] =
        "  ├ 1.1  a\n"
        "  │ ├ 2.1  b\n"
        "  │ │ 3.1  d\n"
        "  │ └ 2.2  c\n"
        "  └ 1.2  日本語で長い長い長い質問をする人がいますが、答えはいつも短いです and i…\n"
        "*   2.3  日本語で長い長い長い質問をす… -> 日本語で長い長い長い質問をす… <- here\n";
    char input[1000];
    snprintf(input, sizeof input,
             "/say user a\n/say user b\n/goto 1.1\n/say user c\n/goto 2.1\n/say user d\n/goto 0\n"
             "/say user %s\n/say user %s\n/say assistant %s\n/tree\n",
             words, words, words);
    expect_script(input, picture);
}

// What overflow and /forget discard is whole turns, also where /say made them.
static void test_said_turns_leave_whole(void **state) {
    (void)state;
    Run run;
    char input[4000] = "/say user Question one.\n/say assistant Answer one.\n/say assistant Another answer.\n"
                       "/say system Be odd from now on.\n";
    for (int i = 0; i < 5; i++) strcat(input, "Please tell me a story about a cat and a king.\n");
    strcat(input, "/view\n/tree\n");
    program_run(&run, TALK "|--context=128", input);
    expect_status(&run, 0);
    expect_err(&run, "[context full: turns 1-");
    expect_err(&run,
               "\n- 1.1  Question one. -> Answer one.\n- 2.1  -> Another answer.\n- 3.1  (system) Be odd");
    expect_no_err(&run, "[system]");
    program_free(&run);
}

static void test_time_and_copy(void **state) {
    (void)state;
    expect_script("Hello\n/time\n", " s of answering");
    expect_refusal("/time now\n", "no argument");
    expect_refusal("/copy\n", "no reply yet");
    Run run;
    program_run(&run, TALK, "Hello\n/copy\n");
    expect_status(&run, 5);
    expect_err(&run, "needs a terminal");
    program_free(&run);
}

static void test_list_has_columns_of_wide_names(void **state) {
    (void)state;
    Run run = program_script(BABBLER "|--max-tokens=2|--threads=1",
                             "/new one of nineteen chs\nHi\n/new \346\274\242\346\274\242\nHi\n/list\n");
    expect_err(&run, "\n* \346\274\242\346\274\242                 20");
    expect_err(&run, "\n  one of nineteen chs  20");
    program_free(&run);
}

// What a full disk keeps out of the journal is there, though not in it.
static void test_list_tells_what_is_in_memory(void **state) {
    (void)state;
    Run run;
    program_shell(&run, "ulimit -f 0; printf '/new full\\nHi\\n/list\\n' | $PALAVER " BABBLER
                        " --max-tokens=2 --threads=1 -k");
    expect_err(&run, "(only in memory)\n");
    program_free(&run);
}

static void test_clear_begins_anew(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK "|--stats", "Hello there.\n/clear\nHello there.\n");
    expect_status(&run, 0);
    expect_err(&run, "[a new conversation;");
    expect_no_err(&run, "[turn 2");
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_a_command),
        cmocka_unit_test(test_the_table_is_whole),
        cmocka_unit_test(test_the_readme_is_whole),
        WITH_HOME(test_help),
        WITH_HOME(test_unknown_commands_are_never_sent),
        WITH_HOME(test_refused_lines_are_quoted_in_short),
        WITH_HOME(test_paths_and_lines_are_no_commands),
        WITH_HOME(test_view_and_tokens),
        WITH_HOME(test_stats_and_context),
        WITH_HOME(test_say),
        WITH_HOME(test_a_deep_tree),
        WITH_HOME(test_a_wide_tree),
        WITH_HOME(test_said_turns_leave_whole),
        WITH_HOME(test_time_and_copy),
        WITH_HOME(test_list_has_columns_of_wide_names),
        WITH_HOME(test_list_tells_what_is_in_memory),
        WITH_HOME(test_clear_begins_anew),
    };
    return test_main("commands", argc, argv, tests);
}
