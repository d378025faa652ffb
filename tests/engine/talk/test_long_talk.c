// Long talks through scripts: one that uses every command, journals cut off anywhere, and 200 turns in a small context,
// in which the model always sees the template over what is left.
#include "tests/support/program.h"
#include "tests/support/test.h"
#include "app/commands/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"

// Every command once or more; FOLDER stands for a folder of the test's own.
static const char EVERYTHING[] =
    "/help\n/help tree\n/time\n/model\n/system Be brief.\nOne\n/stats\n/retry "
    "7\n/undo\n/redo\n/tree\nTwo\n/continue\n/goto 1.1\n"
    "/say user Zwei\n/say assistant Deux\n/edit\nThree\n/context\n/overflow\n/overflow preview\n/overflow "
    "stop\n"
    "/overflow reevaluate\n/forget\n/view\n/view tokens\n/view diff\n/tokens some text\n/top 3\n/think hide\n"
    "/think show\n/replay\n/replay verify\n/set\n/set top_k 5\n/reset top_k\n/seed 4\n/config "
    "FOLDER/set.toml\n"
    "/file FOLDER/set.toml\nWhat is this?\n/save FOLDER/saved.jsonl\n/export md FOLDER/a.md\n"
    "/export json FOLDER/a.json\n/export jsonl FOLDER/a.jsonl\n/fork side\nOn the side\n/list\n/new third\nA "
    "third\n"
    "/switch side\n/tree\n/delete third\n/load FOLDER/saved.jsonl\n/tree\nLast\n/clear\nThe very "
    "last\n/copy\n/quit\n"
    "never asked\n";

static char *with_folder(const char *script, const char *folder) {
    char *out = calloc(1, 2 * strlen(script) + 20 * strlen(folder)), *to = out;
    for (const char *at; (at = strstr(script, "FOLDER")); script = at + 6)
        to += sprintf(to, "%.*s%s", (int)(at - script), script, folder);
    strcpy(to, script);
    return out;
}

static void test_every_command_in_one_script(void **state) {
    char command[300];
    Run run;
    size_t n;
    const ChatCommand *commands = commands_list(&n);
    for (size_t i = 0; i < n; i++) {
        snprintf(command, sizeof command, "\n/%s", commands[i].name);
        if (!strstr(EVERYTHING, command) && strncmp(EVERYTHING, command + 1, strlen(command) - 1) != 0)
            fail_msg("%s is not in the script", command + 1);
    }
    snprintf(command, sizeof command, "printf '[sampling]\nmin_p = 0.1\n' >%s/set.toml", (char *)*state);
    program_shell(&run, command);
    program_free(&run);
    setenv("EDITOR", "sed -i s/Zwei/Dos/", 1);
    char *script = with_folder(EVERYTHING, *state);
    program_run(&run, TALK "|--keep-going", script);
    expect_status(&run, 5); // /copy needs a terminal; all others do well
    int errors = 0;
    for (const char *at = run.err; (at = strstr(at, "palaver: ")); at++) errors++;
    if (errors != 1) fail_msg("%s", run.err);
    expect_err(&run, "the clipboard needs a terminal");
    expect_err(&run, "  Dos -> ");
    expect_no_err(&run, "never asked");
    program_free(&run);
    free(script);
}

// However a journal is cut, what was whole is resumed, and the talk goes on.
static void test_a_cut_journal_goes_on(void **state) {
    char command[900];
    Run run = program_script(
        TALK, "/system Be brief.\nOne\nTwo\n/retry 4\n/undo\nThree\n/forget\n/say user Four\n");
    program_free(&run);
    snprintf(command, sizeof command,
             "cd %s/palaver/conversations && mv *.jsonl ../whole && size=$(wc -c <../whole) && "
             "first=$(head -n 3 ../whole | wc -c) && echo $first $size",
             (char *)*state);
    program_shell(&run, command);
    long first = 0, size = 0;
    assert_int_equal(sscanf(run.out, "%ld %ld", &first, &size), 2);
    assert_true(first > 100 && size > 2 * first);
    program_free(&run);
    for (int i = 0; i <= 12; i++) {
        snprintf(
            command, sizeof command,
            "cd %s/palaver/conversations && rm -f * && head -c %ld ../whole >cut.jsonl && cd - >/dev/null && "
            "printf 'And now?\n/tree\n/replay verify\n' | $PALAVER --resume --max-tokens=6 --threads=1",
            (char *)*state, first + (size - first) * i / 12);
        program_shell(&run, command);
        expect_status(&run, 0);
        expect_err(&run, "  And now? -> ");
        expect_err(&run, "all as they were]");
        program_free(&run);
    }
}

static const char SHOW[] = "/think\n/tree\n/view\n/replay verify\n";

// A script of turns and of commands that move, change and forget, by a seed. 40 lines.
static char *random_script(unsigned seed) {
    static const char *const lines[] = {"One two",
                                        "Tell me a story about a cat.",
                                        "And of Italy?",
                                        "How are you today? I am fine.",
                                        "x",
                                        "Hello there.",
                                        "What is the capital of France?",
                                        "/undo",
                                        "/undo 2",
                                        "/undo 3",
                                        "/redo",
                                        "/redo 2",
                                        "/retry",
                                        "/retry 5",
                                        "/continue",
                                        "/edit",
                                        "/edit 1",
                                        "/edit reply",
                                        "/forget",
                                        "/forget 2",
                                        "/goto 0",
                                        "/goto 1.1",
                                        "/goto 2.1",
                                        "/goto 2.2",
                                        "/goto 3.1",
                                        "/say user hm hm",
                                        "/say assistant well well",
                                        "/say system be odd",
                                        "/system Be brief.",
                                        "/system \"\"",
                                        "/set top_k 3",
                                        "/set temperature 1.2",
                                        "/seed 9",
                                        "/top 2",
                                        "/replay verify",
                                        "/view diff",
                                        "/context",
                                        "/overflow preview",
                                        "/overflow shift",
                                        "/overflow reevaluate",
                                        "/set by token",
                                        "/set by turn",
                                        "/set keep 20",
                                        "/set keep system"};
    char *script = calloc(1, 4000), *to = script;
    for (int i = 0; i < 40; i++) {
        seed = seed * 1103515245u + 12345u;
        size_t n = sizeof lines / sizeof *lines, k = seed >> 16;
        to += sprintf(to, "%s\n", lines[k & 1 ? k / 2 % 7 : k / 2 % n]);
    }
    strcpy(to, SHOW);
    return script;
}

// What a run shows of SHOW, without where the cache ends: that is not the conversation's.
static char *last_shown(const Run *run) {
    static const char mark[] = "\xe2\x9f\xa8"
                               "cache ends here\xe2\x9f\xa9";
    const char *last = run->err;
    for (const char *at = last; (at = strstr(at, "think show")); at++) last = at;
    char *text = strdup(last);
    for (char *at; (at = strstr(text, mark));)
        memmove(at, at + sizeof mark - 1, strlen(at + sizeof mark - 1) + 1);
    return text;
}

// Whatever is done in whatever order: sampled again it is the same, and resumed it is the same.
static void test_random_talks(void **state) {
    static const char *const flags[] = {"--ignore-eos",
                                        "--by=token|--discard=9",
                                        "--keep=12|--ignore-eos",
                                        "--by=token|--keep=30|--ignore-eos",
                                        "--overflow=stop",
                                        "--overflow=shift|--ignore-eos",
                                        "--overflow=shift-inplace",
                                        "--overflow=shift|--by=token|--discard=9|--no-paged"};
    setenv("EDITOR", "sed -i s/o/0/", 1);
    for (unsigned seed = 8; seed < 16; seed++) {
        char arguments[300], command[200];
        Run live, resumed;
        char *script = random_script(seed);
        snprintf(arguments, sizeof arguments,
                 BABBLER "|--seed=1|--threads=1|--keep-going|--context=128|--max-tokens=25|%s",
                 flags[seed - 8]);
        program_run(&live, arguments, script);
        snprintf(arguments, sizeof arguments,
                 "--resume|--threads=1|--keep-going|--context=128|--max-tokens=25|%s", flags[seed - 8]);
        program_run(&resumed, arguments, SHOW);
        expect_status(&resumed, 0);
        expect_err(&resumed, ": all as they were]");
        expect_no_err(&live, "diverges");
        char *before = last_shown(&live), *after = last_shown(&resumed);
        assert_string_equal(before, after);
        free(before);
        free(after);
        free(script);
        program_free(&live);
        program_free(&resumed);
        snprintf(command, sizeof command, "rm %s/palaver/conversations/*", (char *)*state);
        program_shell(&live, command);
        program_free(&live);
    }
}

// The numbers of "A of B tokens are in the cache" that a run says last.
static void last_cached(const Run *run, long *cached, long *seen) {
    const char *last = NULL;
    for (const char *at = run->err; (at = strstr(at, " tokens are in the cache")); at++) last = at;
    *cached = *seen = -1;
    while (last && last > run->err && last[-1] != '\n') last--;
    if (last) (void)sscanf(last, "%ld of %ld", cached, seen);
}

// `turns` turns, a multiple of 40, in a context of `size` tokens.
static void talk_on(int turns, int size, const char *policy) {
    static const char *const questions[] = {"Tell me a story about a cat.", "And of Italy?",
                                            "How are you today?",
                                            "What is the capital of France? And how many foxes live there?"};
    char arguments[200], *input = calloc(1, 40000), *to = input;
    to += sprintf(to, "/system You are a small model that babbles.\n");
    for (int i = 0; i < turns; i++) {
        to += sprintf(to, "%s\n", questions[i * 7 % 4]);
        if (i % 40 == 39) to += sprintf(to, "/view diff\n");
    }
    sprintf(to, "/view diff\n/view\n/stats\n/replay\n");
    snprintf(arguments, sizeof arguments,
             BABBLER "|--seed=1|--max-tokens=8|--ignore-eos|--threads=1|--no-save|--context=%d|%s", size,
             policy);
    Run run = program_script(arguments, input);
    long cached, seen;
    last_cached(&run, &cached, &seen);
    assert_true(seen > size / 5 && seen <= size);
    assert_true(cached >= seen - 4); // all but what closes the last reply
    expect_err(&run, "[context full: turn");
    expect_err(&run, "[system] You are a small model that babbles.");
    snprintf(arguments, sizeof arguments, "conversation  %d turns", turns);
    expect_err(&run, arguments);
    program_free(&run);
    free(input);
}

static void test_200_turns_in_1024_tokens(void **state) {
    (void)state;
    talk_on(200, 1024, "--overflow=reevaluate");
}

static void test_by_token(void **state) {
    (void)state;
    talk_on(80, 256, "--overflow=reevaluate|--by=token|--discard=60");
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_every_command_in_one_script),
        WITH_HOME(test_a_cut_journal_goes_on),
        WITH_HOME(test_random_talks),
        WITH_HOME(test_200_turns_in_1024_tokens),
        WITH_HOME(test_by_token),
    };
    return test_main("long_talk", argc, argv, tests);
}
