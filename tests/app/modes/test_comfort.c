// What makes the prompt pleasant, as tried: a failed command is a key away, long lists are paged, keys do what they do
// elsewhere, a reply that says the same over and over is told of.
#include "tests/support/terminal/prompt.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT BABBLER "|--seed=1|--max-tokens=6|--threads=1"
#define LOOPING                                                                                              \
    BABBLER "|--temperature=0|--max-tokens=500|--ignore-eos|--threads=1|--logit-bias=\304\240the=100"

static void test_the_banner_is_narrow(void **state) {
    (void)state;
    Pty *pty = prompt_start(SHORT, &(const PtyOptions){.rows = 24, .cols = 200});
    pty_expect(pty, "> ");
    for (int row = 0; row < 4; row++) {
        char line[1300];
        vt_row(pty_screen(pty), row, line, sizeof line);
        assert_true(strlen(line) <= 80);
    }
    pty_expect_row(pty, 3, ""); // an empty line before the prompt
    prompt_leave(pty);
}

// Whatever a command failed for, the line is empty then, and the arrow brings it back.
static void test_a_failed_command_is_in_the_history(void **state) {
    (void)state;
    static const char *const failing[][2] = {{"/hlep undo", "did you mean /help?"},
                                             {"/retry", "no turn yet"},
                                             {"/load no/such/file", "No such file"},
                                             {"/model no/such/model", "no/such/model"}};
    Pty *pty = prompt_open(SHORT);
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        pty_send(pty, failing[i][0]);
        pty_send(pty, "\r");
        pty_expect(pty, failing[i][1]);
        pty_expect(pty, "> ");
        prompt_say(pty, "/tokens a", "1 token"); // nothing stands before it
        pty_send(pty, "\033[A\033[A");
        pty_expect_screen(pty, failing[i][0]);
        pty_send(pty, "\025");
    }
    pty_send(pty, "\033[A\033[A\033[A\033[A\033[A\033[A\033[A\033[A");
    pty_expect_screen(pty, "/hlep undo");
    pty_send(pty, "\001\033[C\033[3~\033[3~\033[3~\033[3~help\r");
    pty_expect(pty, "take the last turn");
    pty_expect(pty, "> ");
    pty_send(pty, "/usr/bin is what?\r"); // a path is no command
    pty_expect(pty, "/continue goes on");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

static void test_a_failed_command_and_what_was_typed_ahead(void **state) {
    (void)state;
    Pty *pty = prompt_open(BABBLER "|--seed=1|--max-tokens=300|--ignore-eos|--threads=1");
    pty_send(pty, "Hello there.\r");
    prompt_await_reply(pty);
    pty_send(pty, "/set max_tokens 4\r/hlep\rone\r");
    pty_expect(pty, "did you mean /help?");
    pty_expect(pty, "/continue goes on");
    pty_expect_screen(pty, "> one");
    pty_expect(pty, "> ");
    prompt_say(pty, "/view", "[user] one\r\n");
    prompt_leave(pty);
}

// Why a turn comes back is seen above it, however long it is.
static void test_a_tall_turn_comes_back_below_the_reason(void **state) {
    (void)state;
    char pasted[2000] = "\033[200~";
    for (int i = 0; i < 60; i++) snprintf(pasted + strlen(pasted), 32, "row %d of many\n", i);
    strcat(pasted, "\033[201~");
    Pty *pty = prompt_start(SHORT "|--context=64", &(const PtyOptions){.rows = 24, .cols = 80});
    pty_expect(pty, "> ");
    pty_send(pty, pasted);
    pty_expect(pty, "row 59 of many");
    pty_send(pty, "\r");
    pty_expect(pty, "leaves no room");
    pty_expect(pty, " of 60) ");
    pty_expect_screen(pty, "row 59 of many");
    pty_expect_screen(pty, "leaves no room for a reply");
    pty_resize(pty, 20, 80);
    pty_send(pty, "!");
    pty_expect_screen(pty, "!");
    pty_send(pty, "\003");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

static void test_help_fits_and_lists_are_paged(void **state) {
    (void)state;
    Pty *pty = prompt_start(SHORT, &(const PtyOptions){.rows = 24, .cols = 80});
    pty_expect(pty, "> ");
    pty_send(pty, "/help\r");
    pty_expect(pty, "/set /reset /config /seed");
    pty_expect(pty, "> ");
    pty_expect_row(pty, 23, "");
    pty_send(pty, "/set\r");
    pty_expect(pty, "[sampling]");
    pty_expect_screen(pty, "[Space: more, q: enough]");
    assert_null(strstr(pty_transcript(pty), "[colors]"));
    pty_expect(pty, "[Space: more, q: enough]");
    pty_send(pty, " ");
    pty_expect(pty, "[cache]");
    pty_expect(pty, "[Space: more, q: enough]");
    pty_send(pty, "q");
    pty_expect(pty, "> ");
    assert_null(strstr(pty_transcript(pty), "[colors]"));
    pty_send(pty, "/set\r");
    pty_expect(pty, "[Space: more, q: enough]");
    pty_send(pty, "\003"); // as good as q
    pty_expect(pty, "> ");
    // Who goes on typing has seen enough, and nothing of it is lost.
    pty_send(pty, "/set\r");
    pty_expect(pty, "[Space: more, q: enough]");
    pty_send(pty, "/time\r");
    pty_expect(pty, "answering");
    pty_expect(pty, "> ");
    pty_send(pty, "/set\r");
    pty_expect(pty, "[Space: more, q: enough]");
    pty_send(pty, "\033[200~/tokens a\033[201~");
    pty_expect_screen(pty, "> /tokens a");
    pty_send(pty, "\r");
    pty_expect(pty, "1 token");
    pty_expect(pty, "> ");
    prompt_leave(pty);
    // A command that fills its column has a second one none the less.
    pty = prompt_start(SHORT, &(const PtyOptions){.rows = 140, .cols = 60});
    pty_expect(pty, "> ");
    pty_send(pty, "/help all\r");
    pty_expect(pty, "/export md|json|jsonl FILE  write this branch: md to be\r\n"
                    "                            read, json");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

static void test_escape_leaves_a_search(void **state) {
    (void)state;
    Pty *pty = prompt_open(SHORT);
    prompt_ask(pty, "Hello there.", "/continue goes on");
    pty_send(pty, "\022ther");
    pty_expect_screen(pty, "(search: ther) Hello there.");
    pty_send(pty, "\033");
    pty_expect_screen(pty, "> Hello there.");
    pty_send(pty, "\005!\r");
    pty_expect(pty, "/continue goes on");
    pty_expect(pty, "> ");
    prompt_say(pty, "/view", "[user] Hello there.!");
    prompt_leave(pty);
}

static void test_an_unknown_terminal(void **state) {
    (void)state;
    static const char *const unknown[] = {"TERM=nobodys-terminal", NULL};
    Pty *pty = prompt_start(SHORT, &(const PtyOptions){.env = unknown, .rows = 24, .cols = 80});
    pty_expect(pty, "> ");
    pty_send(pty, "Hello\r");
    pty_expect(pty, "/continue goes on");
    pty_expect(pty, "> ");
    assert_null(strstr(pty_transcript(pty), "terminal type"));
    prompt_leave(pty);
}

static void test_a_tall_paste_stays(void **state) {
    (void)state;
    Pty *pty = prompt_start(SHORT "|--context=8000", &(const PtyOptions){.rows = 12, .cols = 60});
    pty_expect(pty, "> ");
    pty_send(pty, "\033[200~");
    char line[40];
    for (int i = 1; i <= 200; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        pty_send(pty, line);
    }
    pty_send(pty, "end\033[201~");
    pty_expect_screen(pty, "end");
    pty_send(pty, "\r");
    pty_expect(pty, "line 1\033[K"); // all of it is written once more, from its beginning
    for (int i = 2; i <= 200; i++) {
        snprintf(line, sizeof line, "line %d\033[K", i);
        pty_expect(pty, line);
    }
    pty_expect(pty, "/continue goes on");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

static void test_the_edited_question_is_shown(void **state) {
    char *editor = prompt_make_editor(*state, "EDITOR", "sed -i '1s/^/Edited: /' \"$1\"");
    const char *environment[] = {editor, "VISUAL", "NO_COLOR=1", NULL};
    Pty *pty = prompt_start(SHORT, &(const PtyOptions){.env = environment, .rows = 40, .cols = 100});
    pty_expect(pty, "> ");
    prompt_ask(pty, "Hello there.", "/continue goes on");
    pty_send(pty, "/edit\r");
    pty_expect(pty, "> Edited: Hello there.\r\n");
    pty_expect(pty, "/continue goes on");
    pty_expect(pty, "> ");
    prompt_leave(pty);
    free(editor);
}

static void test_nothing_to_go_on_with(void **state) {
    (void)state;
    // The end of a turn is all that this model says.
    program_says(BABBLER "|--temperature=0|--max-tokens=9|--threads=1|--logit-bias=2=100",
                 "Hello\n/continue\n", 0, "[the reply is complete: there is nothing to go on with]");
    program_refuses(BABBLER "|--threads=1", "/continue\n", "there is no reply to go on with");
}

static void test_loops(void **state) {
    (void)state;
    static const char told[] = "[the same over and over; Ctrl-C stops it";
    Run run;
    program_run(&run, LOOPING, "Hello\n");
    expect_status(&run, 0);
    expect_err(&run, told);
    assert_true(strlen(run.out) == 500 * strlen(" the") + 1);
    program_free(&run);
    program_run(&run, LOOPING "|--loops=stop", "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_err(&run, "[stopped: the same over and over");
    assert_true(strlen(run.out) < 1200);
    expect_err(&run, "conversation  1 turn"); // and the script goes on
    program_free(&run);
    program_run(&run, LOOPING "|--loops=off", "Hello\n");
    assert_null(strstr(run.err, "over and over"));
    program_free(&run);
}

static void test_the_speed_is_seen(void **state) {
    (void)state;
    Pty *pty = prompt_open(BABBLER "|--seed=1|--ignore-eos|--threads=1|--live-speed|--context=1024");
    pty_send(pty, "Hello there.\r");
    pty_expect(pty, " tok/s, ");
    pty_expect(pty, "\033[A\r"); // and back to where the reply goes on
    pty_send(pty, "\003");
    pty_expect(pty, "/continue goes on");
    pty_expect(pty, "> ");
    prompt_leave(pty);
}

// How full the context is: the prompt says what the line of figures says.
static void test_the_gauge_is_the_figures(void **state) {
    (void)state;
    char question[900] = "", gauge[40];
    int n = 0;
    Pty *pty = prompt_open(SHORT "|--stats|--context=256|--reserve=16");
    for (int i = 0; i < 5; i++) {
        for (int word = 0; word < 6; word++) strcat(question, "again ");
        pty_send(pty, question);
        pty_send(pty, "\r");
        pty_expect(pty, "| context ");
        pty_expect(pty, "> ");
        const char *told = pty_transcript(pty), *last = told;
        for (const char *at = told; (at = strstr(at, "| context ")); at++) last = at + strlen("| context ");
        long percent = strtol(last, NULL, 10);
        snprintf(gauge, sizeof gauge, "[%ld%%] >", percent);
        if (percent >= 50) pty_expect_screen(pty, gauge), n++;
    }
    assert_true(n > 0);
    prompt_leave(pty);
}

// /stats tells how to go on only where something was written.
static void test_stats_tell_of_a_journal(void **state) {
    (void)state;
    Pty *pty = prompt_open(SHORT);
    pty_send(pty, "/stats\r");
    pty_expect(pty, "conversation  0 turns");
    pty_expect(pty, "> ");
    assert_null(strstr(pty_transcript(pty), "--resume="));
    prompt_ask(pty, "Hello there.", "/continue goes on");
    prompt_say(pty, "/stats", "(palaver --resume=");
    prompt_leave(pty);
}

// The window becomes wider while a reply streams: no word of it is lost, broken, or there twice.
static void test_a_window_that_grows(void **state) {
    (void)state;
    Pty *pty =
        prompt_start(LOOPING "|--loops=off|--max-tokens=300", &(const PtyOptions){.rows = 90, .cols = 22});
    char row[1300];
    int n = 0, widest = 0;
    pty_expect(pty, "> ");
    pty_send(pty, "Hello\r");
    for (int cols = 22; cols < 70; cols += 12) {
        pty_resize(pty, 90, cols);
        pty_expect(pty, "the the the the");
    }
    pty_expect(pty, "/continue goes on");
    pty_expect(pty, "> ");
    for (int i = 0; i < 90; i++) {
        vt_row(pty_screen(pty), i, row, sizeof row);
        if (strncmp(row, "the", 3) != 0) continue;
        assert_int_equal(strspn(row, "the "), strlen(row));
        widest = (int)strlen(row) > widest ? (int)strlen(row) : widest;
        for (char *word = strtok(row, " "); word; word = strtok(NULL, " "), n++)
            assert_string_equal(word, "the");
    }
    assert_int_equal(n, 300);
    assert_true(widest > 22);
    prompt_leave(pty);
}

// What was said before looks as it did: a conversation that goes on, /replay, and `/set markdown off`.
static void test_old_replies_are_drawn(void **state) {
    (void)state;
    const PtyOptions in_colour = {.rows = 60, .cols = 100};
    Pty *pty = prompt_start(SHORT, &in_colour);
    pty_expect(pty, "> ");
    prompt_ask(pty, "Hello there.", "/continue goes on");
    prompt_say(pty, "/undo", "taken back");
    prompt_say(pty, "/say user Hello", "said");
    prompt_say(pty, "/say assistant a **bold** word", "said");
    prompt_leave(pty);
    pty = prompt_start(SHORT "|--resume", &in_colour);
    pty_expect(pty, "a \033[0;1mbold\033[0m word");
    pty_expect(pty, "> ");
    prompt_say(pty, "/replay", "a \033[0;1mbold\033[0m word");
    prompt_say(pty, "/set markdown off", "ui.markdown = false");
    prompt_say(pty, "/replay", "a **bold** word");
    prompt_leave(pty);
}

// Lines for programs stay lines for programs, also where a person looks at them.
static void test_json_at_a_terminal(void **state) {
    char path[200], arguments[500];
    snprintf(path, sizeof path, "%s/many.jsonl", (char *)*state);
    FILE *file = fopen(path, "w");
    fputs("{\"id\": \"**1**\", \"turns\": [\"Hello\"]}\n", file);
    fclose(file);
    snprintf(arguments, sizeof arguments, "%s " BABBLER " --jsonl --seed 1 --max-tokens 4 < %s",
             program_path(), path);
    const char *const argv[] = {"sh", "-c", arguments, NULL};
    Pty *pty = pty_start(&(const PtyOptions){.argv = argv, .rows = 24, .cols = 40});
    pty_expect(pty, "{\"id\": \"**1**\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}, ");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

// -p shows how far a long question is read, where somebody sees it, and for how long still.
static void test_reading_is_seen(void **state) {
    char path[200], arguments[400];
    snprintf(path, sizeof path, "%s/long.txt", (char *)*state);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 40000; i++) fputs("zq ", file);
    fclose(file);
    snprintf(arguments, sizeof arguments,
             BABBLER "|--seed=1|--max-tokens=2|--threads=1|--context=200000|--system=@%s|-p|Hello", path);
    Pty *pty = prompt_start(arguments, NULL);
    pty_expect(pty, "reading ");
    pty_expect(pty, " tok/s  ");
    pty_expect(pty, " left");
    pty_send(pty, "\003");
    pty_expect_exit(pty, 130);
    pty_end(pty);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_the_banner_is_narrow),
        WITH_HOME(test_a_failed_command_is_in_the_history),
        WITH_HOME(test_a_failed_command_and_what_was_typed_ahead),
        WITH_HOME(test_a_tall_turn_comes_back_below_the_reason),
        WITH_HOME(test_help_fits_and_lists_are_paged),
        WITH_HOME(test_escape_leaves_a_search),
        WITH_HOME(test_an_unknown_terminal),
        WITH_HOME(test_a_tall_paste_stays),
        WITH_HOME(test_the_edited_question_is_shown),
        WITH_HOME(test_nothing_to_go_on_with),
        WITH_HOME(test_loops),
        WITH_HOME(test_the_speed_is_seen),
        WITH_HOME(test_the_gauge_is_the_figures),
        WITH_HOME(test_stats_tell_of_a_journal),
        WITH_HOME(test_a_window_that_grows),
        WITH_HOME(test_old_replies_are_drawn),
        WITH_HOME(test_json_at_a_terminal),
        WITH_HOME(test_reading_is_seen),
    };
    return test_main("comfort", argc, argv, tests);
}
