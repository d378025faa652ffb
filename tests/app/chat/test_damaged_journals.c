// Journals that are damaged, torn, empty or on a full disk: what is whole is read, and which one --resume takes.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Short replies, always the same.
#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"
#define TALK_WORDS BABBLER " --seed 1 --max-tokens 6 --threads 1"

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

// The copy in which it goes on has its name from the beginning, also where another one is there.
static void test_a_copy_has_its_name_at_once(void **state) {
    static const char *const copies[] = {"garden-mended", "garden-mended-2", "garden-mended-3"};
    char told[200];
    Bytes whole = make_garden(*state);
    whole.data[find(&whole, "First words") + 2] = 0xff;
    write_journal(*state, "garden.jsonl", &whole);
    bytes_free(&whole);
    for (int i = 0; i < 3; i++) {
        Run run = program_script(TALK "|--resume=garden", "/list\n/stats\nMore?\n/list\n");
        expect_err(&run, "journal       begins with the next turn");
        snprintf(told, sizeof told, "It goes on in %s;", copies[i]);
        expect_err(&run, told);
        snprintf(told, sizeof told, "\n* %s  (kept from its next turn on)\n", copies[i]);
        expect_err(&run, told);
        snprintf(told, sizeof told, "\n* %s ", copies[i]);
        assert_int_equal(program_count(run.err, told), 2);
        if (i) snprintf(told, sizeof told, "(--resume=%s)]", copies[i - 1]), expect_err(&run, told);
        program_free(&run);
    }
    program_says(TALK, "/switch garden\n", 0, "[garden-mended-4: 4 turns so far]");
}

// However long a name is, all of what is told of it is told.
static void test_notes_of_long_names(void **state) {
    char name[260], told[600], resume[400];
    Bytes whole = make_garden(*state);
    whole.data[find(&whole, "First words") + 2] = 0xff;
    memset(name, 'n', 240);
    strcpy(name + 240, ".jsonl");
    write_journal(*state, name, &whole);
    bytes_free(&whole);
    snprintf(resume, sizeof resume, TALK "|--resume=%.240s", name);
    for (int i = 0; i < 2; i++) {
        Run run = program_script(resume, "More?\n");
        expect_err(&run, "mended with U+FFFD: 1");
        if (i)
            snprintf(told, sizeof told, "is in %.236s-mended (--resume=%.236s-mended)]", name, name);
        else
            snprintf(told, sizeof told, "It goes on in %.236s-mended; the file stays as it is]", name);
        expect_err(&run, told);
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

// Replaces every `from` of the journal by `to`.
static void change_journal(const char *home, const char *name, const char *from, const char *to) {
    Bytes whole = journal_bytes(home, name), changed = {0};
    bytes_add(&whole, "", 1);
    const char *at = (const char *)whole.data;
    for (const char *hit; (hit = strstr(at, from)); at = hit + strlen(from)) {
        bytes_add(&changed, at, (size_t)(hit - at));
        bytes_text(&changed, to);
    }
    bytes_text(&changed, at);
    write_journal(home, name, &changed);
    bytes_free(&whole);
    bytes_free(&changed);
}

// Token ids, figures and evictions that cannot be are no reason to lose a text, not even where every turn has them.
static void test_only_texts_are_whole(void **state) {
    static const char *const CHANGES[][2] = {
        {"\"ids\":[", "\"ids\":[99999999999,"}, {"\"ids\":[", "\"ids\":[-1,"},
        {"\"ids\":[", "\"ids\":[\"x\","},       {"\"tokens\":{\"cached\":", "\"tokens\":{\"cached\":-"},
        {"\"next\":", "\"next\":-1,\"was\":"},
    };
    char *home = *state;
    for (size_t i = 0; i < sizeof CHANGES / sizeof *CHANGES; i++) {
        Bytes whole = make_garden(home);
        change_journal(home, "garden.jsonl", CHANGES[i][0], CHANGES[i][1]);
        Run run = program_script(TALK "|--resume=garden", "And of Italy?\n/view\n");
        expect_status(&run, 0);
        expect_err(&run, "records lost: 0, mended with U+FFFD: 0, kept as texts only: ");
        expect_err(&run, "It goes on in garden-mended; the file stays as it is]");
        expect_err(&run, "[user] First words.");
        expect_err(&run, "[user] Fourth words.");
        program_free(&run);
        run = program_script(TALK "|--no-save", "/delete garden\n/delete garden-mended\n");
        program_free(&run);
        bytes_free(&whole);
    }
}

// A person's text has no zero bytes, which everything else would take for its end.
static void test_zeros_in_what_was_said(void **state) {
    static const char *const SAID[][3] = {
        {"First words", "Fi\\u0000st words", "[user] Fi\xef\xbf\xbdst words."},
        {"Be short", "Be\\u0000short", "[system] Be\xef\xbf\xbdshort."}};
    for (int i = 0; i < 2; i++) {
        Run run = program_script(TALK, "/new garden\n/system Be short.\nFirst words.\n");
        program_free(&run);
        change_journal(*state, "garden.jsonl", SAID[i][0], SAID[i][1]);
        run = program_script(TALK "|--resume=garden", "/view\n");
        expect_err(&run, "expected a text without \\u0000: what is whole is here, 1 turn; ");
        expect_err(&run, "records lost: 0, mended with U+FFFD: 1, kept as texts only: 0");
        expect_err(&run, SAID[i][2]);
        program_free(&run);
        run = program_script(TALK "|--no-save", "/delete garden\n");
        program_free(&run);
    }
}

// A reply whose text somebody has changed in the file is what it says there, not what its ids are.
static void test_texts_that_are_not_their_ids(void **state) {
    Run run = program_script(TALK, "/new garden\nFirst words.\n/continue\nSecond words.\n");
    program_free(&run);
    run = program_script(TALK "|--resume=garden", "/view\n");
    expect_no_err(&run, "what its tokens say");
    program_free(&run);
    change_journal(*state, "garden.jsonl", "\"reply\":\"", "\"reply\":\"Changed: ");
    run = program_script(TALK "|--resume=garden", "/view\n");
    expect_err(&run, "[the text of 1.1 is not what its tokens say: it is read again as text]");
    expect_err(&run, "the text of 2.1 is not what its tokens say");
    assert_int_equal(program_count(run.err, "[assistant] Changed: "), 2);
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

// Nor is one of which nothing can be read.
static void test_lost_journals_are_passed_over(void **state) {
    char *home = *state;
    uint8_t zeros[3000] = {0};
    Bytes garden = make_garden(home);
    write_journal(home, "2999-01-01-000000.jsonl",
                  &(Bytes){.data = (uint8_t *)"{\"record\":\"pala", .size = 15});
    Run run = program_script(TALK "|--resume", "/view\n");
    expect_err(&run, "[2999-01-01-000000 is passed over: nothing in it can be read; /delete removes it]");
    expect_err(&run, "[user] First words.");
    program_free(&run);
    write_journal(home, "2999-01-01-000001.jsonl", &(Bytes){.data = zeros, .size = sizeof zeros});
    run = program_script(TALK "|--resume", "/view\n");
    expect_err(&run, "[2 journals are passed over, 2999-01-01-000001 the last: nothing in them can be read]");
    expect_err(&run, "[user] First words.");
    program_free(&run);
    bytes_free(&garden);
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
    program_says(TALK "|--resume=plot", "Once more.\n", 0, "is in plot-mended (--resume=plot-mended)");
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
    assert_int_equal(program_count(run.err, "cannot be written"), 1);
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_damaged_journals),
        WITH_HOME(test_a_copy_has_its_name_at_once),
        WITH_HOME(test_notes_of_long_names),
        WITH_HOME(test_journals_that_contradict),
        WITH_HOME(test_only_texts_are_whole),
        WITH_HOME(test_zeros_in_what_was_said),
        WITH_HOME(test_texts_that_are_not_their_ids),
        WITH_HOME(test_a_torn_record_is_kept),
        WITH_HOME(test_empty_journals_are_passed_over),
        WITH_HOME(test_lost_journals_are_passed_over),
        WITH_HOME(test_resume_takes_the_last_talk),
        WITH_HOME(test_resume_takes_the_mended_talk),
        WITH_HOME(test_a_full_disk_does_not_end_the_talk),
    };
    return test_main("damaged_journals", argc, argv, tests);
}
