// What is foreign and shown: settings of other hands are told harmlessly, and `palaver config` tells what a chat would
// use.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What a terminal would obey: ESC, a C1 CSI, and an override of the direction.
#define CSI "\xc2\x9b"
#define OVERRIDE "\xe2\x80\xae"

static void expect_harmless(const Run *run) {
    const char *texts[] = {run->out, run->err};
    for (int i = 0; i < 2; i++)
        if (strstr(texts[i], CSI) || strstr(texts[i], OVERRIDE) || strchr(texts[i], '\033'))
            fail_msg("harmful: %s", texts[i]);
}

// Runs the program in a folder whose palaver.toml is somebody else's.
static Run run_in(const char *home, const char *toml, const char *arguments) {
    char *folder = folder_new(), here[500], command[1500];
    Run run;
    (void)home;
    folder_write_text(folder, "palaver.toml", toml);
    assert_non_null(getcwd(here, sizeof here));
    snprintf(command, sizeof command, "P=$(realpath $PALAVER); cd %s && LSAN_OPTIONS=detect_leaks=0 $P %s",
             folder, arguments);
    program_shell(&run, command);
    folder_remove(folder);
    return run;
}

static void test_settings_of_other_hands(void **state) {
    Run run = run_in(*state, "[sampling]\nstop = [\"a" CSI "31m\", \"" OVERRIDE "b\"]\n", "config");
    expect_status(&run, 0);
    expect_out(&run, "[\"a\\u009B31m\", \"\\u202Eb\"]"); // TOML for the same
    expect_harmless(&run);
    program_free(&run);
    run = run_in(*state, "[sampling]\n\"temp" OVERRIDE CSI "31m\" = 1\n", "config");
    expect_status(&run, 2);
    expect_err(&run, "palaver.toml:2:1: unknown key \"sampling.temp\\u202e\\u009b31m\"");
    expect_harmless(&run);
    program_free(&run);
    run = run_in(*state, "\"a\\u001b\\nb\" = 1\n", "config");
    expect_err(&run, "palaver.toml:1:1: unknown key \"a\\x1b\\x0ab\"");
    program_free(&run);
    run = run_in(*state, "[\"\\u0007\"]\n", "config");
    expect_err(&run, "palaver.toml:1:2: unknown section [\\x07]");
    program_free(&run);
    program_run(&run, "--" OVERRIDE CSI "31m=1", "");
    expect_status(&run, 2);
    expect_harmless(&run);
    program_free(&run);
    program_run(&run, "no" OVERRIDE "such" CSI "model", "");
    expect_status(&run, 3);
    expect_harmless(&run);
    program_free(&run);
    program_run(&run, "tokenize|" BABBLER "|a" CSI OVERRIDE "\033", "");
    expect_status(&run, 0);
    expect_harmless(&run);
    program_free(&run);
}

// Names of journals and models that a terminal would obey stand on one line, in a spelling that can be typed.
static void test_names_of_other_hands(void **state) {
    char link[300], model[400], target[1000];
    Run run = program_script(BABBLER "|--seed=1|--max-tokens=3|--threads=1", "/new garden\nHello.\n");
    program_free(&run);
    snprintf(link, sizeof link, "%s/palaver/conversations", (char *)*state);
    char command[900];
    snprintf(command, sizeof command, "cd %s && cp garden.jsonl \"$(printf 'gar\\nd" CSI "en').jsonl\"",
             link);
    program_shell(&run, command);
    program_free(&run);
    assert_non_null(realpath(BABBLER, target));
    snprintf(link, sizeof link, "%s/one\ntwo", (char *)*state);
    assert_int_equal(symlink(target, link), 0);
    snprintf(model, sizeof model, "%s|--seed=1|--max-tokens=3|--threads=1", link);
    run = program_script(
        model, "/list\n/model\n/switch gar\\x0ad\\u009ben\n/stats\n/fork\n/delete gar\\x0ad\\u009ben\n");
    expect_harmless(&run);
    expect_err(&run, "one\\x0atwo: llama, ");
    expect_err(&run, "/one\\x0atwo\n");
    expect_err(&run, "  gar\\x0ad\\u009ben    20");
    expect_err(&run, "[gar\\x0ad\\u009ben: 1 turn so far]");
    expect_err(&run, "journal       gar\\x0ad\\u009ben (palaver --resume='gar\\x0ad\\u009ben')");
    expect_err(&run, "a copy; /switch gar\\x0ad\\u009ben goes back]");
    expect_err(&run, "[gar\\x0ad\\u009ben is deleted]");
    program_free(&run);
    // A path is taken as it is shown, too.
    snprintf(model, sizeof model, "%s/one\\x0atwo|--max-tokens=3|--threads=1", (char *)*state);
    program_says(model, "/model\n", 0, "/one\\x0atwo\n");
    snprintf(model, sizeof model, "use|%s/one\\x0atwo", (char *)*state);
    program_says(model, "", 0, "/one\\x0atwo is the default now");
}

// A name may be taken between /new and the first turn, and by what no list shows.
static void test_another_name_than_told(void **state) {
    Run run;
    char link[4096];
    run = program_script(BABBLER "|--seed=1|--max-tokens=3|--threads=1", "/new garden\nHello.\n");
    expect_no_err(&run, "is taken");
    program_free(&run);
    snprintf(link, sizeof link, "%s/palaver/conversations/pond.jsonl", (char *)*state);
    assert_int_equal(symlink("/nowhere/at-all", link), 0);
    run = program_script(BABBLER "|--seed=1|--max-tokens=3|--threads=1", "/new pond\nHello.\nAgain.\n");
    assert_int_equal(program_count(run.err, "[the name pond is taken: this conversation is kept as pond-2]"),
                     1);
    program_free(&run);
}

// What a journal is called in one place is what it is called in all, and what is taken where one is typed.
static void test_names_that_no_line_holds(void **state) {
    static const char *const shown[] = {"\\x20lead",  "trail\\x20",  "\\x5c",    "a\\\\x5c",  "a\\x1bb",
                                        "a\\x5cx1bb", "gar\\x0aden", "del\\x7f", "c\\u009bd", "c\\x9bd"};
    Run run = program_script(BABBLER "|--seed=1|--max-tokens=3|--threads=1", "/new garden\nHello.\n");
    program_free(&run);
    char command[900], line[200], part[200];
    snprintf(command, sizeof command,
             "cd %s/palaver/conversations && for n in ' lead' 'trail ' '\\' 'a\\\\' \"$(printf 'a\\033b')\" "
             "'a\\x1bb' \"$(printf 'gar\\nden')\" \"$(printf 'del\\177')\" \"$(printf 'c\\302\\233d')\" "
             "\"$(printf 'c\\233d')\"; do cp garden.jsonl \"$n.jsonl\"; done",
             (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 0);
    program_free(&run);
    for (int i = 0; i < 10; i++) {
        snprintf(line, sizeof line, "/switch %s\n/stats\n/fork\n/list\n", shown[i]);
        run = program_script("--resume=garden", line);
        snprintf(part, sizeof part, "[%s: 1 turn so far]", shown[i]);
        expect_err(&run, part);
        snprintf(part, sizeof part, "journal       %s (palaver --resume='%s')\n", shown[i], shown[i]);
        expect_err(&run, part);
        snprintf(part, sizeof part, "/switch %s goes back]", shown[i]);
        expect_err(&run, part);
        snprintf(part, sizeof part, "  %s ", shown[i]);
        expect_err(&run, part);
        program_free(&run);
        snprintf(line, sizeof line, "--resume=%s", shown[i]);
        snprintf(part, sizeof part, "%s is the conversation you are in", shown[i]);
        snprintf(command, sizeof command, "/delete %s\n", shown[i]);
        program_says(line, command, 5, part);
    }
    program_says("--resume=\\x20l", "/stats\n", 0, "journal       \\x20lead");
    program_says("--resume=garden", "/switch gar\\x0adex\n", 5, "did you mean gar\\x0aden?");
    program_says("--resume=garden", "/new del\\x7f\n", 5, "there is a conversation del\\x7f already");
    snprintf(command, sizeof command, "sed -i 1d %s/palaver/conversations/gar*den.jsonl", (char *)*state);
    program_shell(&run, command);
    program_free(&run);
    program_says("--resume=gar\\x0aden", "/stats\n", 0, "/conversations/gar\\x0aden.jsonl:1: ");
    for (int i = 0; i < 10; i++) {
        snprintf(line, sizeof line, "/delete %s\n", shown[i]);
        snprintf(part, sizeof part, "[%s is deleted]", shown[i]);
        program_says("--resume=garden", line, 0, part);
    }
}

// A model with recommendations beside it, alone in the models folder: what a chat takes without being told.
static void test_config_tells_what_a_chat_uses(void **state) {
    char path[400], target[1000];
    Run run, chat;
    snprintf(path, sizeof path,
             "mkdir -p %s/palaver/models/babbler && cp " BABBLER "/* %s/palaver/models/babbler/",
             (char *)*state, (char *)*state);
    assert_int_equal(system(path), 0);
    snprintf(path, sizeof path, "%s/palaver/models/babbler/palaver.toml", (char *)*state);
    FILE *file = fopen(path, "w");
    fputs("[sampling]\ntemperature = 0.25\n", file);
    fclose(file);
    for (int i = 0; i < 3; i++) {
        static const char *const configs[] = {"config", "config|babbler", "config|--top-k=7"};
        program_run(&run, configs[i], "");
        expect_status(&run, 0);
        expect_out(&run, "temperature       = 0.25 ");
        expect_out(&run, "models/babbler/palaver.toml:2");
        program_free(&run);
    }
    program_run(&chat, "--threads=1", "/set temperature\n");
    expect_err(&chat, "temperature = 0.25  (");
    expect_err(&chat, "models/babbler/palaver.toml:2)");
    program_free(&chat);
    program_run(&run, "config|--temperature=0.75", "");
    expect_out(&run, "temperature       = 0.75 ");
    program_free(&run);
    program_run(&run, "config|no-such-model", "");
    expect_status(&run, 3);
    program_free(&run);
    assert_int_equal(remove(path), 0); // what is there by that name and cannot be read is told
    assert_int_equal(mkdir(path, 0700), 0);
    program_run(&run, "--threads=1", "");
    expect_status(&run, 3);
    expect_err(&run, "models/babbler/palaver.toml: not a regular file");
    program_free(&run);
    assert_int_equal(rmdir(path), 0);
    assert_non_null(realpath(BABBLER, target)); // another one, asked for by the settings
    setenv("PALAVER_MODEL_PATH", target, 1);
    program_run(&run, "config", "");
    expect_status(&run, 0);
    expect_out(&run, target);
    assert_null(strstr(run.out, "0.25"));
    program_free(&run);
    setenv("PALAVER_MODEL_PATH", "/nowhere", 1);
    program_run(&run, "config", "");
    expect_status(&run, 0);
    expect_err(&run, "[what a model recommends is not in here: ");
    expect_err(&run, "/nowhere: ");
    program_free(&run);
    unsetenv("PALAVER_MODEL_PATH");
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_settings_of_other_hands),       WITH_HOME(test_names_of_other_hands),
        WITH_HOME(test_another_name_than_told),        WITH_HOME(test_names_that_no_line_holds),
        WITH_HOME(test_config_tells_what_a_chat_uses),
    };
    return test_main("shown", argc, argv, tests);
}
