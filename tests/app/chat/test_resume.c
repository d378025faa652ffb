// What outlives the program: the journal and --resume, exactly; signals that save first; /save and /load.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Short replies, always the same.
#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"
#define TALK_WORDS BABBLER " --seed 1 --max-tokens 6 --threads 1"

static int journals(const char *home) {
    char path[200];
    int n = 0;
    snprintf(path, sizeof path, "%s/palaver/conversations", home);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        n += entry->d_name[0] != '.' && strstr(entry->d_name, ".jsonl") != NULL;
    if (folder) closedir(folder);
    return n;
}

// A conversation that was resumed goes on exactly as the one that never stopped.
static void test_resume_is_exact(void **state) {
    Run whole, first, second;
    program_run(&whole, TALK "|--no-save",
                "/system Be brief.\nHello there.\nAnd of Italy?\n/set top_k 5\nTell me a story.\n");
    assert_int_equal(journals(*state), 0);
    program_run(&first, TALK,
                "/system Be brief.\nHello there.\nAnd of Italy?\n/set top_k 5\n/undo\nAnd of Italy?\n");
    expect_status(&first, 0);
    assert_int_equal(journals(*state), 1);
    program_free(&first);
    program_run(&first, TALK, "/system Be brief.\nHello there.\n");
    program_run(&second, TALK "|--resume|--stats", "And of Italy?\n/set top_k 5\nTell me a story.\n");
    expect_status(&second, 0);
    expect_err(&second, "[turn 3: ");
    assert_int_equal(journals(*state), 2);
    char both[2000];
    snprintf(both, sizeof both, "%s%s", first.out, second.out);
    assert_string_equal(both, whole.out);
    program_free(&second);
    program_run(&second, "--resume|--max-tokens=6",
                "/view\n/seed\n/set top_k\n"); // model and settings from the journal
    expect_status(&second, 0);
    expect_err(&second, "[system] Be brief.");
    expect_err(&second, "seed 1");
    expect_err(&second, "top_k = 5");
    program_free(&second);
    program_free(&first);
    program_free(&whole);
}

// Runs two scripts in one conversation, and as two with --resume between them: what is said is the same.
static void expect_same_when_resumed(const char *flags, const char *first, const char *second,
                                     const char *event) {
    char both[2000], arguments[300];
    Run whole, before, after;
    snprintf(both, sizeof both, "%s%s", first, second);
    snprintf(arguments, sizeof arguments, BABBLER "|%s|--no-save", flags);
    program_run(&whole, arguments, both);
    expect_status(&whole, 0);
    expect_err(&whole, event);
    snprintf(arguments, sizeof arguments, BABBLER "|%s", flags);
    program_run(&before, arguments, first);
    snprintf(arguments, sizeof arguments, "--resume|%s", flags);
    program_run(&after, arguments, second);
    expect_status(&after, 0);
    char *said;
    assert_true(asprintf(&said, "%s%s", before.out, after.out) >= 0);
    assert_string_equal(said, whole.out);
    free(said);
    program_free(&whole);
    program_free(&before);
    program_free(&after);
}

static void test_resume_is_exact_after_changes(void **state) {
    (void)state;
    expect_same_when_resumed(
        "--max-tokens=12|--ignore-eos|--threads=1|--context=128",
        "/seed 8\nTell me a story about a cat.\nAnd a king.\nAnd a fox.\n/retry 9\n/seed 4\n"
        "Hello there, how are you?\n/set top_k 3\n/continue\n/set temperature 1.5\n",
        "Please tell me more about the king.\nWhat is this?\n/retry\nAnd of Italy?\n", "[context full: turn");
}

static void test_resume_is_exact_within_long_replies(void **state) {
    (void)state;
    expect_same_when_resumed("--seed=3|--max-tokens=150|--ignore-eos|--threads=1|--context=96",
                             "Tell me a story.\nAnd a king.\n", "More?\n/continue\nWho?\n",
                             "tokens of this reply left");
}

// What left in part (by token; after a kept beginning) is out of the window again when resumed.
static void test_resume_is_exact_where_parts_left(void **state) {
    (void)state;
    static const char first[] = "Tell me a story.\nAnd a king.\nAnd a fox.\nAnd a cat.\n/undo\nWell?\n";
    static const char second[] = "More?\n/retry 5\nWho?\n/continue\nAnd?\n";
    expect_same_when_resumed(
        "--seed=3|--max-tokens=30|--ignore-eos|--threads=1|--context=128|--by=token|--discard=9", first,
        second, "tokens of an older reply left");
    expect_same_when_resumed("--seed=3|--max-tokens=30|--ignore-eos|--threads=1|--context=128|--keep=5",
                             first, second, "the reply of turn 1 left");
    expect_same_when_resumed("--seed=3|--max-tokens=30|--ignore-eos|--threads=1|--context=128|--keep=30",
                             first, second, "[context full: turn 2 left");
}

// Where nothing is kept the system prompt leaves, too: /undo, /edit and --resume do not bring it back, another one comes.
static void test_a_system_prompt_that_left(void **state) {
    (void)state;
    static const char talk[] =
        "/system Talk of ships, at length.\nTell me a story.\nAnd a king.\nAnd a fox.\n";
    static const char flags[] = "--seed=3|--max-tokens=30|--ignore-eos|--threads=1|--context=128|--keep=0";
    expect_same_when_resumed(flags, talk, "More?\n/retry 5\nWho?\n/view\n",
                             "[context full: the system prompt and turn");
    char input[400];
    snprintf(input, sizeof input, "%sWell?\n/undo\nMore?\n/undo\n/say user So.\n/view\n/context\n", talk);
    Run run;
    program_run(&run, BABBLER "|--temperature=0|--max-tokens=30|--ignore-eos|--context=128|--keep=0", input);
    expect_status(&run, 0);
    expect_err(&run, "the system prompt and turn");
    expect_err(&run, "So.");
    expect_no_err(&run, "ships");
    expect_err(&run, " the system prompt has left\n");
    program_free(&run);
    program_run(&run, "--resume|--max-tokens=1|--system=Talk of ships, at length.",
                "/view\n/system Talk of ships, at length.\n/view\n");
    expect_status(&run, 0);
    assert_int_equal(program_count(run.err, "[system] Talk of ships"), 1);
    program_free(&run);
    program_run(&run, "--resume|--max-tokens=1|--system=Be odd.", "/view\n");
    expect_err(&run, "[system] Be odd.");
    program_free(&run);
}

static void test_resume_without_saving_only_reads(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK, "Hello there.\n");
    program_free(&run);
    program_run(&run, TALK "|--resume|--no-save|--stats", "And of Italy?\n");
    expect_err(&run, "[turn 2: ");
    program_free(&run);
    program_run(&run, TALK "|--resume|--stats", "And of Italy?\n");
    expect_err(&run, "[turn 2: ");
    program_free(&run);
}

static void test_resume_with_another_template_reads_text(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK, "Hello there.\n");
    program_free(&run);
    program_run(&run, TALK "|--resume|--template=llama-2|--stats", "And of Italy?\n");
    expect_status(&run, 0);
    expect_err(&run, "read again as text");
    expect_err(&run, "[turn 2: ");
    program_free(&run);
    program_run(&run, TALK "|--resume|--template=llama-2", "/stats\n");
    expect_no_err(&run, "read again as text");
    program_free(&run);
}

// Where the model went, the way on is told.
static void test_resume_without_the_model(void **state) {
    Run run;
    char command[400];
    program_run(&run, TALK, "Hello there.\n");
    program_free(&run);
    snprintf(command, sizeof command,
             "sed -i 's#golden/babbler#golden/moved#' %s/palaver/conversations/*.jsonl", (char *)*state);
    program_shell(&run, command);
    program_free(&run);
    program_says("--resume", "", 3, "(palaver MODEL --resume takes another): ");
    program_says(TALK "|--resume|--stats", "And of Italy?\n", 0, "[turn 2: ");
}

// A journal is UTF-8; the path of its model need not be.
static void test_resume_finds_a_model_of_any_name(void **state) {
    char path[300], target[400], arguments[400];
    snprintf(path, sizeof path, "%s/mod\xff\\x41", (char *)*state);
    assert_non_null(realpath(BABBLER, target));
    assert_int_equal(symlink(target, path), 0);
    snprintf(arguments, sizeof arguments, "%s/|--seed=1|--max-tokens=6|--threads=1", path);
    program_says(arguments, "Hello there.\n", 0, "");
    program_says("--resume|--max-tokens=6|--threads=1|--stats", "And of Italy?\n", 0, "[turn 2: ");
}

static void test_signals_save_first(void **state) {
    (void)state;
    static const struct {
        int signal, status;
    } cases[] = {{SIGTERM, 128 + SIGTERM}, {SIGHUP, 128 + SIGHUP}, {SIGINT, 130}};
    for (int i = 0; i < 3; i++) {
        Run run, again;
        program_run_signal(&run, BABBLER "|--seed=1|--ignore-eos", "Hello there.\nnever asked\n",
                           cases[i].signal, 30);
        expect_status(&run, cases[i].status);
        program_run(&again, "--resume|--max-tokens=4|--stats", "/view\n/continue\n");
        expect_status(&again, 0);
        expect_err(&again, "[user] Hello there.");
        expect_no_err(&again, "never asked");
        expect_err(&again, "[turn 1: ");
        program_free(&again);
        program_free(&run);
    }
}

static void test_save_and_load(void **state) {
    char line[400], path[200];
    Run run, again;
    snprintf(path, sizeof path, "%s/talk.jsonl", (char *)*state);
    snprintf(line, sizeof line, "Hello there.\n/save %s\nTell me a story.\n", path);
    program_run(&run, TALK "|--no-save", line);
    expect_status(&run, 0);
    expect_err(&run, "[1 turn saved to ");
    snprintf(line, sizeof line, "/load %s\nTell me a story.\n", path);
    program_run(&again, TALK "|--no-save|--stats", line);
    expect_status(&again, 0);
    expect_err(&again, "[turn 2: ");
    assert_non_null(strstr(run.out, again.out));
    program_free(&again);
    program_free(&run);
    snprintf(path, sizeof path, "%s/notes.txt", (char *)*state);
    FILE *file = fopen(path, "w");
    fputs("not a conversation\n", file);
    fclose(file);
    snprintf(line, sizeof line, "/save %s\n", path);
    program_run(&run, TALK "|--no-save", line);
    expect_status(&run, 5);
    expect_err(&run, "choose another name");
    program_free(&run);
    snprintf(line, sizeof line, "/load %s\n", path);
    program_run(&run, TALK "|--no-save", line);
    expect_status(&run, 5);
    expect_err(&run, "notes.txt: not a conversation");
    program_free(&run);
}

// What is in a file and not in the conversation that is saved there stays: another one, more of this one, a journal.
static void test_save_keeps_what_is_there(void **state) {
    char line[600];
    const char *home = *state;
    Run run;
    snprintf(line, sizeof line, "One.\n/save %s/a.jsonl\nTwo.\n/save %s/a.jsonl\n/undo\n/save %s/a.jsonl\n",
             home, home, home);
    program_run(&run, TALK "|--no-save", line);
    expect_status(&run, 0);
    expect_err(&run, "[2 turns saved to ");
    program_free(&run);
    char path[300];
    snprintf(path, sizeof path, "%s/a.jsonl", home);
    Bytes before = bytes_of_file(path);
    snprintf(line, sizeof line, "One.\n/save %s/a.jsonl\n", home);
    program_run(&run, TALK "|--no-save", line);
    expect_status(&run, 5);
    expect_err(&run,
               "a.jsonl: is there already, and holds what this conversation has not: choose another name");
    program_free(&run);
    snprintf(
        line, sizeof line,
        "/load %s/a.jsonl\n/save %s/b.jsonl\nThree.\n/save %s/b.jsonl\n/load %s/a.jsonl\n/save %s/b.jsonl\n",
        home, home, home, home, home);
    program_run(&run, TALK "|--no-save", line);
    expect_status(&run, 5);
    expect_err(&run, "[2 turns saved to ");
    expect_err(&run, "b.jsonl: is there already");
    program_free(&run);
    Bytes after = bytes_of_file(path);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    bytes_free(&before);
    bytes_free(&after);
}

// --seed is that of the conversation that is loaded, too, also when it is resumed.
static void test_a_loaded_conversation_takes_the_seed(void **state) {
    char line[300];
    Run run;
    snprintf(line, sizeof line, "Hello there.\n/save %s/talk.jsonl\n", (char *)*state);
    program_run(&run, BABBLER "|--seed=7|--max-tokens=6|--threads=1|--no-save", line);
    expect_status(&run, 0);
    program_free(&run);
    snprintf(line, sizeof line, "/load %s/talk.jsonl\nAnd of Italy?\n", (char *)*state);
    program_run(&run, TALK, line);
    expect_status(&run, 0);
    program_free(&run);
    program_run(&run, BABBLER "|--resume|--threads=1", "/seed\n");
    expect_err(&run, "seed 1\n");
    program_free(&run);
}

// A conversation that is not on the disk as it is in memory is only left once /save has it.
static void test_what_is_only_in_memory_is_not_left(void **state) {
    static const char *const leave[] = {"/clear", "/new other", "/load $HOME/talk.jsonl"};
    char command[600];
    Run run;
    snprintf(command, sizeof command, "%s/talk.jsonl", (char *)*state);
    FILE *file = fopen(command, "w");
    fputs("{\"record\":\"palaver\",\"format\":2,\"model\":{}}\n", file);
    fclose(file);
    for (size_t i = 0; i < sizeof leave / sizeof *leave; i++) {
        snprintf(command, sizeof command,
                 "HOME=%s; ulimit -f 1; printf \"One\nTwo\nThree\nFour\n%s\n\" | $PALAVER " TALK_WORDS,
                 (char *)*state, leave[i]);
        program_shell(&run, command);
        expect_status(&run, 5);
        expect_err(&run, "this conversation would be lost; /save FILE keeps it: the journal ");
        program_free(&run);
    }
    snprintf(command, sizeof command,
             "umask 0; XDG_STATE_HOME=/dev/null; printf 'One\n/save %s/kept.jsonl\n/clear\n' | "
             "$PALAVER " TALK_WORDS,
             (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 0);
    expect_err(&run, "no journal of this conversation");
    expect_err(&run, "[a new conversation; the one before is kept]");
    program_free(&run);
}

// A model with more rows than its tokenizer has pieces draws ids that say nothing: a reply with one of them is whole.
static void test_ids_of_padded_rows(void **state) {
    Run run;
    char command[1500];
    snprintf(
        command, sizeof command,
        "cd %s && cp -r \"$OLDPWD/tests/golden/models/llama3\" padded && cd \"$OLDPWD\" && M=%s/padded && "
        "sed -i 's/, \"\304\240wha\": 319//; s/, \"\304\240wh a\"//' $M/tokenizer.json && "
        "T=\"$PALAVER $M --device cpu --threads 1 --template chatml --max-tokens 4\" && "
        "printf 'Hi\\n' | $T --ignore-eos --logit-bias '{\"318\" = 100}' && "
        "sed -i 's/318,318,318/318,319,318/; s/ wh wh wh wh/ wh wh wh/' %s/palaver/conversations/*.jsonl && "
        "grep -c 318,319,318 %s/palaver/conversations/*.jsonl && printf '/view\\n' | $T --resume",
        (char *)*state, (char *)*state, (char *)*state, (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 0);
    expect_err(&run, "[assistant]  wh wh wh");
    expect_no_err(&run, "damaged");
    expect_no_err(&run, "not what its tokens say");
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_resume_is_exact),
        WITH_HOME(test_resume_is_exact_after_changes),
        WITH_HOME(test_resume_is_exact_within_long_replies),
        WITH_HOME(test_resume_is_exact_where_parts_left),
        WITH_HOME(test_a_system_prompt_that_left),
        WITH_HOME(test_resume_without_saving_only_reads),
        WITH_HOME(test_resume_with_another_template_reads_text),
        WITH_HOME(test_resume_without_the_model),
        WITH_HOME(test_signals_save_first),
        WITH_HOME(test_save_and_load),
        WITH_HOME(test_resume_finds_a_model_of_any_name),
        WITH_HOME(test_save_keeps_what_is_there),
        WITH_HOME(test_a_loaded_conversation_takes_the_seed),
        WITH_HOME(test_what_is_only_in_memory_is_not_left),
        WITH_HOME(test_ids_of_padded_rows),
    };
    return test_main("resume", argc, argv, tests);
}
