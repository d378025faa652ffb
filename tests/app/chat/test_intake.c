// Text that enters is taken as it is or refused, wherever it comes from; and what -p makes of stdin.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Short replies, always the same.
#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"
#define ASK "$PALAVER " BABBLER " --seed 1 --max-tokens 6 --threads 1 --echo -p"

static void write_file(char *path, const char *home, const char *name, const char *text, size_t size) {
    sprintf(path, "%s/%s", home, name);
    FILE *file = fopen(path, "w");
    assert_int_equal(fwrite(text, 1, size, file), size);
    fclose(file);
}

static void test_what_is_no_utf8_is_refused(void **state) {
    char path[200], arguments[400];
    Run run;
    static const char bad[] = "first\nse\xe9"
                              "cond\n",
                      zero[] = "first\nse\0cond\n";
    program_run(&run, TALK "|--keep-going", "Hello there.\nna\xefve\nnever asked\n");
    expect_status(&run, 5);
    expect_err(&run, "palaver: stdin:2: this is no text in UTF-8: byte 3 of the line is 0xef");
    expect_no_err(&run, "stdin:3");
    program_free(&run);
    program_says(TALK, "\"\"\"\nna\xefve\n\"\"\"\n", 5, "stdin:2: this is no text in UTF-8");
    program_says(TALK "|-p|na\xefve", "", 2, "-p:1: this is no text in UTF-8: byte 3 of the line is 0xef");
    program_says(TALK "|-p|What is this?", bad, 1,
                 "stdin:2: this is no text in UTF-8: byte 3 of the line is 0xe9");
    program_says(TALK "|-s|na\xefve", "Hello\n", 2, "--system:1: this is no text in UTF-8");
    program_says("tokenize|" BABBLER "|na\xefve", "", 2,
                 "the text:1: this is no text in UTF-8: byte 3 of the line");
    program_says("tokenize|" BABBLER, bad, 1,
                 "stdin:2: this is no text in UTF-8: byte 3 of the line is 0xe9");
    program_says(TALK "|--jsonl", "{\"id\": 7, \"turns\": [\"na\xefve\"]}\n", 5, "1 wrong");
    for (int i = 0; i < 2; i++) {
        write_file(path, *state, "text", i ? zero : bad, i ? sizeof zero - 1 : sizeof bad - 1);
        const char *part = i ? "text:2: this is no text in UTF-8: byte 3 of the line is 0x00"
                             : "text:2: this is no text in UTF-8: byte 3 of the line is 0xe9";
        snprintf(arguments, sizeof arguments, TALK "|-s|@%s", path);
        program_says(arguments, "Hello\n", 1, part);
        snprintf(arguments, sizeof arguments, BABBLER "|--jsonl|-s|@%s", path);
        program_says(arguments, "{\"turns\": [\"Hello\"]}\n", 1, part);
        snprintf(arguments, sizeof arguments, "perplexity|" BABBLER "|%s", path);
        program_says(arguments, "", 1, part);
        snprintf(arguments, sizeof arguments, "/system @%s\n/view\n", path);
        program_refuses(TALK, arguments, part);
        snprintf(arguments, sizeof arguments, "/file %s\nHello\n", path);
        program_refuses(TALK, arguments, part);
    }
}

// What a person wrote in an editor of another encoding is not lost with its file.
static void test_an_editor_of_another_encoding(void **state) {
    char path[200], at[300], command[600];
    Run run;
    static const char script[] = "#!/bin/sh\nprintf 'one\\nna\\357ve\\n' > \"$1\"\n";
    write_file(path, *state, "editor", script, sizeof script - 1);
    chmod(path, 0700);
    snprintf(command, sizeof command,
             "printf 'Hello.\\n/edit\\n' | XDG_RUNTIME_DIR=%s VISUAL=%s $PALAVER " BABBLER " --max-tokens 4",
             (char *)*state, path);
    program_shell(&run, command);
    expect_status(&run, 5);
    expect_err(&run, "stdin:2: it is kept: ");
    expect_err(&run, ".md:2: this is no text in UTF-8: byte 3 of the line is 0xef");
    const char *kept = strstr(run.err, "it is kept: ") + strlen("it is kept: ");
    snprintf(at, sizeof at, "%.*s", (int)strcspn(kept, ":"), kept);
    FILE *file = fopen(at, "r");
    assert_non_null(file);
    fclose(file);
    program_free(&run);
}

// What an editor leaves: too much is kept as well; what is no file is not waited for; a byte order mark is nobody's.
static void what_an_editor_leaves(void **state) {
    static const struct {
        const char *script, *says;
    } LEFT[] = {
        {"#!/bin/sh\nrm $1; mkfifo $1\n", ".md: the editor left no regular file there"},
        {"#!/bin/sh\nrm $1; mkdir $1\n", ".md: the editor left no regular file there"},
        {"#!/bin/sh\ntruncate -s 17M $1\n", "stdin:2: it is kept: "},
        {"#!/bin/sh\nprintf '\\357\\273\\277Why?\\n' >$1\n", "[user] Why?\n"},
    };
    Run run;
    char path[200], command[600];
    for (size_t i = 0; i < sizeof LEFT / sizeof *LEFT; i++) {
        write_file(path, *state, "editor", LEFT[i].script, strlen(LEFT[i].script));
        chmod(path, 0700);
        snprintf(command, sizeof command,
                 "printf 'Hello.\\n/edit\\n/view\\n' | XDG_RUNTIME_DIR=$HOME VISUAL=%s timeout 60 "
                 "$PALAVER " BABBLER " --max-tokens 4 --keep-going >$HOME/said; find $HOME -type f -name "
                 "'*.md' | wc -l; rm -rf $HOME/*.md",
                 path);
        program_shell(&run, command);
        expect_err(&run, LEFT[i].says);
        expect_out(&run, i == 2 ? "1\n" : "0\n");
        program_free(&run);
    }
}

static void expect_question(const char *command, const char *question) {
    Run run;
    char wanted[200];
    program_shell(&run, command);
    expect_status(&run, 0);
    snprintf(wanted, sizeof wanted, "> %s\n", question);
    expect_out(&run, wanted);
    expect_no_err(&run, "palaver: ");
    program_free(&run);
}

// Latin-1 where that is asked for, by a flag, a file of settings or /set; the questions are in UTF-8 then.
static void test_latin1_where_asked(void **state) {
    static const char text[] = "na\xefve \xdf\xa7\n", cp1252[] = "one\na \x93word\x94\n";
    char path[200], line[500];
    Run run;
    write_file(path, *state, "text", text, sizeof text - 1);
    snprintf(line, sizeof line,
             "/set encoding latin1\n/system @%s\n/file %s\nWhat?\n/set encoding utf-8\n/view\n", path, path);
    program_run(&run, TALK, line);
    expect_status(&run, 0);
    expect_err(&run, "[system] naïve ß§\n");
    expect_err(&run, "```\nnaïve ß§\n```\n\nWhat?");
    program_free(&run);
    program_run(&run, TALK "|--encoding=latin1|--echo", text); // a script
    expect_status(&run, 0);
    expect_out(&run, "> naïve ß§\n");
    program_free(&run);
    expect_question("printf 'na\\357ve' | " ASK " What? --encoding latin1", "What?\n\nnaïve");
    program_run(&run, "tokenize|" BABBLER "|--encoding=latin1", "\xdf");
    expect_status(&run, 0);
    Run other;
    program_run(&other, "tokenize|" BABBLER, "ß");
    assert_string_equal(run.out, other.out);
    program_free(&run);
    program_free(&other);
    snprintf(line, sizeof line, "perplexity|" BABBLER "|--encoding=latin1|%s", path);
    program_says(line, "", 0, "");
    // Bytes that are no characters of Latin-1 are another encoding's.
    write_file(path, *state, "text", cp1252, sizeof cp1252 - 1);
    snprintf(line, sizeof line, "/file %s\n", path);
    program_refuses(TALK "|--encoding=latin1", line,
                    "text:2: this is no text in Latin-1: byte 3 of the line is 0x93; iconv converts");
    program_says(TALK "|--encoding=latin1", "a\nb\x93\n", 5,
                 "stdin:2: this is no text in Latin-1: byte 2 of");
    program_refuses(TALK, line, "and encoding = \"latin1\" reads Latin-1");
    program_says(TALK "|--jsonl|--encoding=latin1", "", 2, "--encoding has no meaning");
}

static void test_stdin_of_a_question(void **state) {
    char path[200], command[600];
    Run run;
    write_file(path, *state, "list", "one\ntwo\nthree\n", 14);
    expect_question("printf 'a\\ntext\\n' | " ASK " What?", "What?\n\na\ntext");
    expect_question(ASK " What? < /dev/null", "What?");
    snprintf(command, sizeof command, ASK " What? < %s", path);
    expect_question(command, "What?\n\none\ntwo\nthree");
    snprintf(command, sizeof command, ASK " What? --no-stdin < %s", path);
    expect_question(command, "What?");
    expect_question("printf text | " ASK " What? --no-stdin", "What?");
    snprintf(command, sizeof command, "{ read l; " ASK " What? --stdin; } < %s", path);
    expect_question(command, "What?\n\ntwo\nthree");
    // A list in a loop: each line is asked, and none is swallowed.
    snprintf(command, sizeof command, "while read l; do " ASK " \"$l?\"; done < %s", path);
    program_shell(&run, command);
    expect_out(&run, "> one?\n");
    expect_out(&run, "> two?\n");
    expect_out(&run, "> three?\n");
    assert_null(strstr(run.out, "\n\n"));
    program_free(&run);
    // A pipe does not say whose it is: what was taken is told.
    snprintf(command, sizeof command, "cat %s | while read l; do " ASK " \"$l?\"; done", path);
    program_shell(&run, command);
    expect_out(&run, "> one?\n\ntwo\nthree\n");
    expect_err(&run,
               "[stdin, 10 bytes, went into the question; who started palaver reads it as well: --no-stdin");
    program_free(&run);
    snprintf(command, sizeof command, "cat %s | while read l; do " ASK " \"$l?\" --no-stdin; done", path);
    program_shell(&run, command);
    expect_out(&run, "> three?\n");
    program_free(&run);
    program_run(&run, "--help", "");
    expect_out(&run, "while read l");
    program_free(&run);
}

// stdin is read where it is open already: a FIFO whose writer has gone would be waited for at its path.
static void test_stdin_is_not_opened_again(void **state) {
    char command[300];
    Run run;
    snprintf(command, sizeof command,
             "mkfifo %s/f && { printf 'Hello there.' >%s/f & } && timeout 20 $PALAVER tokenize " BABBLER
             " <%s/f",
             (char *)*state, (char *)*state, (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 0);
    expect_out(&run, "Hell");
    program_free(&run);
}

// What editors put at a file's beginning is nothing that anybody says.
static void byte_order_marks_are_left_out(void **state) {
    const char *home = *state;
    char arguments[500], line[500];
    folder_write_text(home, "notes", "\xef\xbb\xbfone");
    folder_write_text(home, "empty", "\xef\xbb\xbf");
    folder_write_text(home, "talk",
                      "\xef\xbb\xbf{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n");
    folder_write_text(home, "schema", "\xef\xbb\xbf{\"const\": 7}");
    folder_write_text(home, "gbnf", "\xef\xbb\xbfroot ::= \"7\"");
    snprintf(line, sizeof line, "/file %s/notes\n/system @%s/notes\nHi\n/view\n/load %s/talk\n", home, home,
             home);
    Run run = program_script(TALK, line);
    expect_err(&run, "/notes: 3 bytes go before");
    expect_err(&run, "[system] one\n");
    expect_err(&run, "\n```\none\n```\n");
    expect_err(&run, "[1 turn loaded from ");
    program_free(&run);
    snprintf(line, sizeof line, "/file %s/empty\n", home);
    program_refuses(TALK, line, "/empty: empty");
    static const char *const flags[] = {"--json-schema", "--grammar"}, *const files[] = {"schema", "gbnf"};
    for (int i = 0; i < 2; i++) {
        snprintf(arguments, sizeof arguments, TALK "|%s|%s/%s", flags[i], home, files[i]);
        run = program_script(arguments, "Hi\n");
        assert_string_equal(run.out, "7\n");
        program_free(&run);
    }
    run = program_script(TALK "|--echo|-p|Say:", "\xef\xbb\xbfHi\n");
    expect_out(&run, "> Say:\n\nHi\n");
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_what_is_no_utf8_is_refused),
        WITH_HOME(test_latin1_where_asked),
        WITH_HOME(test_an_editor_of_another_encoding),
        WITH_HOME(test_stdin_of_a_question),
        WITH_HOME(what_an_editor_leaves),
        WITH_HOME(test_stdin_is_not_opened_again),
        WITH_HOME(byte_order_marks_are_left_out),
    };
    return test_main("intake", argc, argv, tests);
}
