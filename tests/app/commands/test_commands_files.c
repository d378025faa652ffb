// Commands around files, through scripts: what goes before a turn, what is exported and saved.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"
#include "app/record/attachment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1|--no-save"

static void expect_script(const char *input, const char *part) {
    program_says(TALK, input, 0, part);
}

static void expect_refusal(const char *input, const char *part) {
    program_refuses(TALK, input, part);
}

static void test_file_goes_before_the_turn(void **state) {
    char path[200], line[300];
    Run run;
    snprintf(path, sizeof path, "%s/notes.txt", (char *)*state);
    folder_write(*state, "notes.txt", "caf\xc3\xa9 notes\n", 12);
    snprintf(line, sizeof line, "/file %s\nWhat is this?\n/view\nAnd now?\n", path);
    program_run(&run, TALK "|--echo", line);
    expect_status(&run, 0);
    expect_err(&run, "12 bytes go before the next turn");
    expect_err(&run, "[user] notes.txt:\n```\ncaf\xc3\xa9 notes\n```\n\nWhat is this?");
    program_free(&run);
    folder_write(*state, "notes.txt", "bin\0ary", 7);
    snprintf(line, sizeof line, "/file %s\n", path);
    expect_refusal(line, "this is no text in UTF-8: byte ");
    folder_write(*state, "notes.txt", "lat\xe9in", 6);
    expect_refusal(line, "this is no text in UTF-8: byte ");
    folder_write(*state, "notes.txt", "", 0);
    expect_refusal(line, "empty");
    char *big = malloc((1 << 20) + 1);
    memset(big, 'x', (1 << 20) + 1);
    folder_write(*state, "notes.txt", big, (1 << 20) + 1);
    free(big);
    expect_refusal(line, "larger than");
    expect_refusal("/file /no/such/file\n", "/no/such/file");
    expect_script("/file\n", "no file waits");
}

// Names with blanks, patterns, fences within; /list and /tree show the question.
static void test_files_by_pattern(void **state) {
    char line[400];
    Run run;
    folder_write_text(*state, "my notes.md", "a\n```c\nint x;\n```\n");
    folder_write_text(*state, "b1.txt", "one");
    folder_write_text(*state, "b2.txt", "two\n");
    snprintf(line, sizeof line, "/file \"%s/my notes.md\"\n/file %s/b?.txt\nWhat is this?\n/view\n/tree\n",
             (char *)*state, (char *)*state);
    program_run(&run, TALK, line);
    expect_status(&run, 0);
    expect_err(&run, "[user] my notes.md:\n````\na\n```c\nint x;\n```\n````\n\nb1.txt:\n```\none\n```\n\n"
                     "b2.txt:\n```\ntwo\n```\n\nWhat is this?");
    expect_err(&run, "1.1  What is this? ->");
    assert_string_equal(attachment_skip("a b.txt:\n```\nx\n```\n\nb.c:\n````\n```\n````\n\nWhy?"),
                        "Why?"); // as /list does
    assert_string_equal(attachment_skip("Why:\nbecause"), "Why:\nbecause");
    assert_string_equal(attachment_skip("a:\n```\nx"), "a:\n```\nx");
    program_free(&run);
    snprintf(line, sizeof line, "/file %s/my\\ notes.md\n", (char *)*state);
    expect_script(line, "18 bytes go before");
    folder_write_text(*state, "e\033c.txt", "four"); // as it is shown
    snprintf(line, sizeof line, "/file %s/e\\x1bc.txt\n", (char *)*state);
    expect_script(line, "/e\\x1bc.txt: 4 bytes go before");
    folder_write_text(*state, "[b]1.txt", "a name"); // beside b1.txt, which it would mean as a pattern
    snprintf(line, sizeof line, "/file %s/[b]1.txt\n", (char *)*state);
    expect_script(line, "/[b]1.txt: 6 bytes go before");
    snprintf(line, sizeof line, "/file %s/c*.txt\n", (char *)*state);
    expect_refusal(line, "No such file");
    snprintf(line, sizeof line, "%s/b3", (char *)*state);
    assert_int_equal(mkdir(line, 0700), 0);
    folder_write_text(*state, "b4", "x");
    snprintf(line, sizeof line, "/file %s/b[34]\n", (char *)*state); // one of them is a folder
    expect_script(line, "/b4: 1 byte goes before the next turn]");
    snprintf(line, sizeof line, "/file %s/b[3]\n", (char *)*state);
    expect_refusal(line, "/b[3]: these are folders; name the files in them");
}

// One that is refused, by name: none of a pattern's files is taken, and what waited before waits on.
static void test_a_pattern_is_taken_whole_or_not_at_all(void **state) {
    char line[600];
    folder_write_text(*state, "a1.txt", "one");
    folder_write_text(*state, "a2.txt", "two");
    folder_write(*state, "a3.txt", "bin\0ary", 7);
    folder_write_text(*state, "before.txt", "zero");
    snprintf(line, sizeof line, "/file %s/before.txt\n/file %s/a?.txt\nWhat is this?\n/view\n",
             (char *)*state, (char *)*state);
    Run run;
    program_run(&run, TALK "|--keep-going", line);
    expect_status(&run, 5);
    expect_err(&run, "none of the 3 files is taken: ");
    expect_err(&run, "/a3.txt:1: this is no text in UTF-8");
    expect_no_err(&run, "/a1.txt: 3 bytes go");
    expect_err(&run, "[user] before.txt:\n```\nzero\n```\n\nWhat is this?");
    program_free(&run);
}

static void test_export(void **state) {
    char path[3][200], line[1000];
    static const char *const forms[] = {"md", "json", "jsonl"};
    Run run;
    int n = sprintf(line, "/system Be brief.\nHello \"you\".\n/retry 3\n/say user More?\n");
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/talk.%s", (char *)*state, forms[i]);
        n += sprintf(line + n, "/export %s %s\n", forms[i], path[i]);
    }
    program_run(&run, TALK, line);
    expect_status(&run, 0);
    expect_err(&run, "[branch 2.1, 2 turns of 3 in the tree, written to ");
    program_free(&run);
    char *md = text_of_file(path[0]), *json = text_of_file(path[1]), *jsonl = text_of_file(path[2]);
    assert_non_null(strstr(md, "- branch: 2.1, 2 turns of 3 in the tree\n"));
    assert_non_null(
        strstr(md, "\n## system\n\nBe brief.\n\n## user 1.2\n\nHello \"you\".\n\n## assistant 1.2\n"));
    assert_non_null(strstr(json, "\"branch\": \"2.1\""));
    assert_non_null(strstr(json, "\"content\": \"Be brief.\""));
    assert_non_null(strstr(jsonl, "\"branch\":\"2.1\""));
    assert_non_null(
        strstr(jsonl, "{\"role\":\"user\",\"content\":\"Hello \\\"you\\\".\"},{\"role\":\"assistant\""));
    assert_ptr_equal(strchr(jsonl, '\n') + 1, jsonl + strlen(jsonl)); // one line
    free(md);
    free(json);
    free(jsonl);
    snprintf(line, sizeof line, "/export md %s\n", path[0]);
    expect_refusal(line, "is there already");
    expect_refusal("/export html x\n", "md, json or jsonl");
    expect_refusal("/export md\n", "needs a file");
    expect_refusal("/export md /no/such/folder/x\n", "/no/such/folder/x");
    // A journal's name may be any bytes, the export is UTF-8.
    program_run(&run, BABBLER "|--max-tokens=2|--threads=1", "Hello there.\n");
    program_free(&run);
    snprintf(line, sizeof line,
             "(cd %s/palaver/conversations && mv *.jsonl $(printf 'b\\377').jsonl); "
             "echo '/export json %s/odd.json' | $PALAVER --resume=b --threads=1",
             (char *)*state, (char *)*state);
    program_shell(&run, line);
    expect_status(&run, 0);
    program_free(&run);
}

// An export calls a model as all else does, also where a journal does not name it, and in UTF-8 where its folder is not.
static void test_the_model_of_an_export(void **state) {
    char command[1200];
    Run run;
    snprintf(command, sizeof command,
             "cd %s && cp -r \"$OLDPWD\"/" BABBLER " m && mv m \"$(printf 'n\\377')\" && cd - && "
             "printf 'Hello\\n/export json %s/odd.json\\n/export md %s/odd.md\\n' | "
             "$PALAVER \"$(printf '%s/n\\377')/\" --max-tokens=3 --threads=1 && "
             "printf 'Hello\\n/new nameless\\nHello\\n' | $PALAVER " BABBLER
             "/ --max-tokens=3 --threads=1 && "
             "sed -i 's/\"name\":\"[^\"]*\"/\"name\":\"\"/' %s/palaver/conversations/nameless.jsonl && "
             "echo '/export md %s/nameless.md' | $PALAVER --resume=nameless --threads=1",
             (char *)*state, (char *)*state, (char *)*state, (char *)*state, (char *)*state, (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 0);
    program_free(&run);
    snprintf(command, sizeof command, "%s/odd.json", (char *)*state);
    char *text = text_of_file(command);
    assert_non_null(strstr(text, "\"model\": \"n\\\\xff\""));
    free(text);
    snprintf(command, sizeof command, "%s/odd.md", (char *)*state);
    text = text_of_file(command);
    assert_non_null(strstr(text, "- model: n\\xff\n"));
    free(text);
    snprintf(command, sizeof command, "%s/nameless.md", (char *)*state);
    text = text_of_file(command);
    assert_non_null(strstr(text, "- model: babbler\n"));
    free(text);
}

// A turn with a file whose name is no UTF-8, or has lines, can be kept, and its question be told.
static void test_names_of_files_in_a_turn(void **state) {
    char line[600];
    folder_write_text(*state, "n\xff.txt", "one");
    folder_write_text(*state, "two\nlines", "two");
    snprintf(line, sizeof line, "/file %s/n\\xff.txt\n/file %s/two\\x0alines\nWhat is this?\n/view\n/tree\n",
             (char *)*state, (char *)*state);
    Run run = program_script(TALK, line);
    expect_no_err(&run, "palaver: ");
    expect_err(&run, "[user] n\\xff.txt:\n```\none\n```\n\ntwo\\x0alines:\n```\ntwo\n```\n\nWhat is this?");
    expect_err(&run, "1.1  What is this? ->");
    program_free(&run);
}

// What notices call a file is what the next command can take.
static void test_paths_in_notices_can_be_typed(void **state) {
    char line[600];
    const char *home = *state;
    folder_write_text(home, "notes ", "four");
    snprintf(
        line, sizeof line,
        "/file \"%s/notes \"\nHello\n/save \"%s/talk \"\n/load %s/talk\\x20\n/export md \"%s/talk.md \"\n",
        home, home, home, home);
    Run run = program_script(TALK, line);
    expect_err(&run, "/notes\\x20: 4 bytes go before");
    expect_err(&run, "saved to ");
    expect_err(&run, "/talk\\x20]\n[1 turn loaded from ");
    expect_err(&run, "/talk\\x20]\n[branch 1.1, ");
    expect_err(&run, "/talk.md\\x20]");
    program_free(&run);
}

// A conversation is saved to a file, not to what would be waited for: a pipe, which /dev/stdout may be.
static void test_save_waits_for_no_pipe(void **state) {
    Run run;
    char command[600];
    snprintf(command, sizeof command,
             "mkfifo %s/pipe && echo '/save %s/pipe' | timeout 60 $PALAVER " BABBLER " --threads=1",
             (char *)*state, (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 5);
    expect_err(&run, "not a regular file");
    program_free(&run);
}

// A quotation mark that is never closed is an error, not a part of a name.
static void test_marks_that_are_missing(void **state) {
    static const char *const commands[] = {"save ",  "load ",      "file ",   "config ",
                                           "model ", "export md ", "system @"};
    char line[600];
    const char *home = *state;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(line, sizeof line, "/%s\"%s/x\n", commands[i], home);
        expect_refusal(line,
                       "/x: the closing quotation mark \" is missing (\\\" begins a name that has the mark");
        snprintf(line, sizeof line, "/%s'%s/x\n", commands[i], home);
        expect_refusal(line, "/x: the closing quotation mark ' is missing");
    }
    expect_refusal("/save \"\n", "\": the closing quotation mark \" is missing");
    expect_refusal("/save \"a\" b\n", "\"a\" b: there is more behind the closing quotation mark \"");
    expect_refusal("/save \"\"\n", "/save needs a file");
    expect_refusal("/save ~\n", "not a regular file"); // the home folder, not a file of that name
}

// A name may have marks, in others, behind a backslash, or as notices show it.
static void test_marks_in_names(void **state) {
    Run run;
    folder_write_text(*state, "it's", "four");
    folder_write_text(*state, "'t\\\"is", "seven..");
    folder_write_text(*state, "script",
                      "Hello\n/save \\\"x\n/save '\"y'\n/load \"\"x\"\n/load \\x22y\n/load \\\"y\n"
                      "/file it's\n/file it\\'s\n/file \"'t\\\"is\"\n/file \\x27t\\x5c\"is\n");
    program_shell(&run, "P=$(realpath $PALAVER) M=$(realpath " BABBLER ") && cd $HOME && "
                        "$P $M --max-tokens=3 --threads=1 --no-save <script && ls '\"x' '\"y'");
    expect_status(&run, 0);
    expect_err(&run, "[1 turn saved to \\x22x]\n[1 turn saved to \\x22y]\n[1 turn loaded from \\x22x]\n"
                     "[1 turn loaded from \\x22y]\n[1 turn loaded from \\x22y]\n"
                     "[it's: 4 bytes go before the next turn]\n[it's: 4 bytes go before the next turn]\n"
                     "[\\x27t\\x5c\"is: 7 bytes go before the next turn]\n"
                     "[\\x27t\\x5c\"is: 7 bytes go before the next turn]\n");
    program_free(&run);
}

// A pipe that nobody writes to is waited for, and Ctrl-C ends that; what is written to it is taken.
static void test_pipes_are_read(void **state) {
    (void)state;
    static const char *const flags[] = {"-s @$HOME/pipe", "--grammar $HOME/pipe", "--json-schema $HOME/pipe"};
    Run run;
    char command[600];
    program_shell(&run, "mkfifo $HOME/pipe");
    program_free(&run);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        snprintf(command, sizeof command,
                 "echo Hello | timeout -s INT 3 $PALAVER " BABBLER " %s; test $? = 124", flags[i]);
        program_shell(&run, command);
        expect_status(&run, 0);
        expect_err(&run, "/pipe: interrupted: nobody has begun to write to this pipe");
        program_free(&run);
    }
    program_shell(&run,
                  "echo /file $HOME/pipe | timeout -s INT 3 $PALAVER " BABBLER " --no-save; test $? = 124");
    expect_status(&run, 0);
    assert_string_equal(run.err, "");
    program_free(&run);
    program_shell(&run,
                  "{ sleep 1; printf Be\\ brief. >$HOME/pipe; } & echo /view | $PALAVER " BABBLER
                  " --no-save -s @$HOME/pipe && printf \"/file $HOME/pipe\\n/file /dev/fd/3\\n\" | "
                  "{ printf four >$HOME/pipe & $PALAVER " BABBLER " --no-save; } 3<<END\nseven.\nEND\n");
    expect_status(&run, 0);
    expect_err(&run, "[system] Be brief.");
    expect_err(&run, "/pipe: 4 bytes go before");
    expect_err(&run, "/dev/fd/3: 7 bytes go before");
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_file_goes_before_the_turn),
        WITH_HOME(test_files_by_pattern),
        WITH_HOME(test_a_pattern_is_taken_whole_or_not_at_all),
        WITH_HOME(test_export),
        WITH_HOME(test_the_model_of_an_export),
        WITH_HOME(test_names_of_files_in_a_turn),
        WITH_HOME(test_paths_in_notices_can_be_typed),
        WITH_HOME(test_save_waits_for_no_pipe),
        WITH_HOME(test_marks_that_are_missing),
        WITH_HOME(test_marks_in_names),
        WITH_HOME(test_pipes_are_read),
    };
    return test_main("commands around files", argc, argv, tests);
}
