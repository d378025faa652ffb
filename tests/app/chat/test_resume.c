// What outlives the program: the journal and --resume, exactly; signals that save first; /save and /load.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/model/prompt.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Short replies, always the same.
#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"
#define TALK_WORDS BABBLER " --seed 1 --max-tokens 6 --threads 1"

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

static int journals(const char *home) {
    char path[200];
    int n = 0;
    snprintf(path, sizeof path, "%s/palaver/conversations", home);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) n += entry->d_name[0] != '.';
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

static void newest_journal(const char *home, char *path, size_t size) {
    char folder[200];
    snprintf(folder, sizeof folder, "%s/palaver/conversations", home);
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.') snprintf(path, size, "%s/%s", folder, entry->d_name);
    closedir(directory);
}

// The file of the journal called `name`, or its end replaced.
static Bytes journal_bytes(const char *home, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/palaver/conversations/%s", home, name);
    return bytes_of_file(path);
}

static void write_journal(const char *home, const char *name, const Bytes *bytes) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s/palaver/conversations", home);
    folder_write(folder, name, bytes->data, bytes->size);
}

// A talk of four turns, called "garden", one of them with two attempts.
static Bytes make_garden(const char *home) {
    Run run = program_script(
        TALK, "/new garden\nFirst words.\nSecond words.\n/retry 5\nThird words.\nFourth words.\n");
    program_free(&run);
    return journal_bytes(home, "garden.jsonl");
}

static size_t find(const Bytes *bytes, const char *part) {
    const uint8_t *at = memmem(bytes->data, bytes->size, part, strlen(part));
    assert_non_null(at);
    return (size_t)(at - bytes->data);
}

// One bad byte costs no more than it has to; what is whole is there, the loss is told, the file is as it was.
static void test_damaged_journals(void **state) {
    static const struct {
        const char *at; // the byte that is hit
        size_t offset;
        unsigned char byte;
        const char *told, *seen[4], *lost;
    } HITS[] = {
        {"First words",
         2,
         0xff,
         "mended with U+FFFD: 1",
         {"Fi\xef\xbf\xbdst words.", "Second words.", "Third words.", "Fourth words."},
         "First"},
        {"\"user\":\"First",
         0,
         '#',
         "records lost: 1",
         {"Second words.", "Third words.", "Fourth words.", "Second"},
         "First words"},
        {"\"user\":\"Third",
         6,
         '#',
         "records lost: 1",
         {"First words.", "Second words.", "Fourth words.", "First"},
         "Third words"},
        {"{\"record\":\"palaver\"",
         0,
         '#',
         "records lost: 1",
         {"First words.", "Second words.", "Third words.", "Fourth words."},
         "#"},
    };
    char *home = *state;
    for (int i = 0; i < 4; i++) {
        Bytes whole = make_garden(home);
        whole.data[find(&whole, HITS[i].at) + HITS[i].offset] = HITS[i].byte;
        write_journal(home, "garden.jsonl", &whole);
        Run run = program_script(TALK "|--resume=garden|--stats", "And of Italy?\n/view\n");
        expect_err(&run, "garden.jsonl:");
        expect_err(&run, HITS[i].told);
        expect_err(&run, "It goes on in garden-mended; the file stays as it is]");
        for (int k = 0; k < 4; k++) expect_err(&run, HITS[i].seen[k]);
        const char *view = strstr(run.err, "[user] ");
        assert_non_null(view);
        if (strstr(view, HITS[i].lost)) fail_msg("%s", run.err);
        program_free(&run);
        Bytes after = journal_bytes(home, "garden.jsonl");
        assert_int_equal(after.size, whole.size);
        assert_memory_equal(after.data, whole.data, whole.size);
        bytes_free(&after);
        bytes_free(&whole);
        run = program_script("--resume=garden-mended|--max-tokens=6|--stats",
                             "/view\nMore?\n"); // and is whole there
        expect_no_err(&run, "mended with");
        expect_err(&run, "[user] And of Italy?");
        program_free(&run);
        run = program_script(TALK "|--no-save", "/delete garden\n/delete garden-mended\n");
        program_free(&run);
    }
}

// A record that speaks of what is not there, and ids of no vocabulary.
static void test_journals_that_contradict(void **state) {
    char path[600];
    Run run = program_script(TALK, "Hello there.\n");
    program_free(&run);
    newest_journal(*state, path, sizeof path);
    FILE *file = fopen(path, "a");
    fputs("{\"record\":\"turn\",\"node\":\"2.1\",\"parent\":\"1.1\",\"user\":\"q\",\"reply\":\"r\",\"ids\":["
          "999999]}\n",
          file);
    fclose(file);
    run = program_script(TALK "|--resume|--stats", "And of Italy?\n/view\n");
    expect_err(&run, "[the conversation is damaged: token 999999 of 2.1 is not in the vocabulary");
    expect_err(&run, "[assistant] r");
    expect_err(&run, "[turn 3: ");
    program_free(&run);
    file = fopen(path, "a");
    fputs("{\"record\":\"head\",\"node\":\"7.1\"}\n", file);
    fclose(file);
    run = program_script(TALK "|--resume|--stats", "And of Italy?\n");
    expect_err(&run, "\"node\": there is no node 7.1");
    expect_err(&run, "[turn 4: ");
    program_free(&run);
}

// What a crash left of a record is put aside.
static void test_a_torn_record_is_kept(void **state) {
    char *home = *state;
    Bytes whole = make_garden(home);
    bytes_text(&whole, "{\"record\":\"turn\",\"user\":\"precious");
    write_journal(home, "garden.jsonl", &whole);
    Run run = program_script(TALK "|--resume=garden", "And of Italy?\n");
    expect_err(&run, "[the last record of garden was not written whole: its 33 bytes are in garden.torn]");
    program_free(&run);
    Bytes torn = journal_bytes(home, "garden.torn");
    assert_memory_equal(torn.data + torn.size - 9, "precious\n", 9);
    bytes_free(&torn);
    bytes_free(&whole);
}

// An empty journal is no conversation, and in nobody's way.
static void test_empty_journals_are_passed_over(void **state) {
    char *home = *state;
    Bytes garden = make_garden(home);
    write_journal(home, "2999-01-01-000000.jsonl", &(Bytes){.data = (uint8_t *)""});
    Run run = program_script(TALK "|--resume|--stats", "/view\n");
    expect_err(&run, "[1 empty journal is passed over]");
    expect_err(&run, "[user] First words.");
    program_free(&run);
    bytes_free(&garden);
    program_shell(&run, "ulimit -f 0; printf 'One\n' | $PALAVER " TALK_WORDS); // leaves none
    program_free(&run);
    run = program_script(TALK "|--resume", "/view\n");
    expect_err(&run, "[1 empty journal is passed over]");
    program_free(&run);
}

// --resume is for talks: what scripts and questions leave is resumed by its name, or where there is no talk.
static void test_resume_takes_the_last_talk(void **state) {
    char name[300], arguments[400];
    Run run;
    Pty *pty = prompt_open(TALK "|--stats");
    prompt_ask(pty, "Talked in.", "[turn 1: ");
    prompt_leave(pty);
    run = program_script(TALK "|-p|A question.", "");
    program_free(&run);
    run = program_script(TALK, "/new listed\nA script.\n");
    program_free(&run);
    run = program_script(TALK "|--resume|--stats", "/view\n");
    expect_err(&run, "[user] Talked in.");
    program_free(&run);
    run = program_script(TALK "|--resume=listed", "/view\n");
    expect_err(&run, "[user] A script.");
    program_free(&run);
    static const char *const BY_NAME[] = {TALK "|--resume|listed", "--resume|listed|" TALK,
                                          "-r|listed|--max-tokens=6", "--resume|liste"};
    for (int i = 0; i < 4; i++) {
        run = program_script(BY_NAME[i], "/view\n");
        expect_err(&run, "[user] A script.");
        program_free(&run);
    }
    run = program_script("--resume|" TALK, "/view\n"); // a model
    expect_err(&run, "[user] Talked in.");
    program_free(&run);
    program_says("--resume|nobody", "", 3, "there is no conversation of this name, nor a model: nobody: ");
    snprintf(name, sizeof name, "%s/listed", (char *)*state);
    FILE *file = fopen(name, "w");
    fclose(file);
    char command[700];
    snprintf(command, sizeof command, "P=$(realpath $PALAVER); cd %s && $P --resume listed", (char *)*state);
    program_shell(&run, command);
    expect_status(&run, 2);
    expect_err(&run, "listed is a conversation and a model: --resume=listed");
    program_free(&run);
    // Once somebody talks in it, it is a talk.
    snprintf(arguments, sizeof arguments, TALK "|--stats|--resume=listed");
    pty = prompt_start(arguments, NULL);
    pty_expect(pty, "the last:]");
    pty_expect(pty, "> ");
    pty_expect(pty, "> ");
    prompt_ask(pty, "Talked on.", "[turn 2: ");
    prompt_leave(pty);
    run = program_script(TALK "|--resume", "/view\n");
    expect_err(&run, "[user] Talked on.");
    program_free(&run);
}

// NUL bytes before a journal, as a crash of the machine leaves them.
static void put_zeros_before(const char *home, const char *name) {
    Bytes bytes = {0}, log = journal_bytes(home, name);
    static const uint8_t zeros[4096];
    bytes_add(&bytes, zeros, sizeof zeros);
    bytes_add(&bytes, log.data, log.size);
    write_journal(home, name, &bytes);
    bytes_free(&log);
    bytes_free(&bytes);
}

static void expect_resumed(const char *user) {
    Run run = program_script(TALK "|--resume|--stats", "/view\n");
    expect_err(&run, user);
    expect_no_err(&run, "goes on in");
    program_free(&run);
}

// What was said last is what --resume opens: a damaged journal stays, but the talk is in its mended copy.
static void test_resume_takes_the_mended_talk(void **state) {
    Run run = program_script(TALK, "/new plot\nA script.\n");
    program_free(&run);
    put_zeros_before(*state, "plot.jsonl");
    program_says(TALK "|--resume", "Scripted on.\n", 0, "It goes on in plot-mended; the file stays");
    expect_resumed("[user] Scripted on.");
    Pty *pty = prompt_open(TALK "|--stats");
    prompt_ask(pty, "Talked in.", "[turn 1: ");
    prompt_leave(pty);
    program_says(TALK "|--resume=plot", "Once more.\n", 0, "It goes on in plot-mended; the file stays");
    expect_resumed("[user] Talked in."); // a script's is a script's, mended or not
    pty = prompt_start(TALK "|--stats|--resume=plot", NULL);
    pty_expect(pty, "the last:]");
    pty_expect(pty, "> ");
    pty_expect(pty, "> ");
    prompt_ask(pty, "Talked on.", "[turn 2: ");
    prompt_leave(pty);
    expect_resumed("[user] Talked on.");
}

// A full disk is said once, and the talk goes on; what could not be kept in the end is a failure.
static void test_a_full_disk_does_not_end_the_talk(void **state) {
    (void)state;
    Run run;
    program_shell(&run, "ulimit -f 1; printf 'One\nTwo\nThree\nFour\n' | $PALAVER " TALK_WORDS " --stats");
    expect_status(&run, 1);
    expect_err(&run, "the end of this conversation could not be kept");
    expect_err(&run, "[turn 4: ");
    assert_int_equal(count(run.err, "cannot be written"), 1);
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
    expect_err(&run, "notes.txt:1: ");
    program_free(&run);
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

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_resume_is_exact),
        WITH_HOME(test_resume_is_exact_after_changes),
        WITH_HOME(test_resume_is_exact_within_long_replies),
        WITH_HOME(test_resume_is_exact_where_parts_left),
        WITH_HOME(test_resume_without_saving_only_reads),
        WITH_HOME(test_damaged_journals),
        WITH_HOME(test_journals_that_contradict),
        WITH_HOME(test_a_torn_record_is_kept),
        WITH_HOME(test_empty_journals_are_passed_over),
        WITH_HOME(test_resume_takes_the_last_talk),
        WITH_HOME(test_resume_takes_the_mended_talk),
        WITH_HOME(test_a_full_disk_does_not_end_the_talk),
        WITH_HOME(test_resume_with_another_template_reads_text),
        WITH_HOME(test_resume_without_the_model),
        WITH_HOME(test_signals_save_first),
        WITH_HOME(test_save_and_load),
        WITH_HOME(test_a_loaded_conversation_takes_the_seed),
        WITH_HOME(test_what_is_only_in_memory_is_not_left),
    };
    return test_main("resume", argc, argv, tests);
}
