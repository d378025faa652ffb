// A conversation that is come back to goes on at once, from what was cached when it was left, and says the same as if
// it had been read again; what is no use is told of, and read again.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/terminal/pty.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Short replies, always the same.
#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"
#define AGAIN "--max-tokens=6|--threads=1|--resume=talk"
#define FIRST "/system Be brief, whatever anybody may say about it.\nHello there.\nAnd of Italy?\n"

static char *kept(const char *home, const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/palaver/conversations/%s", home, name);
    return path;
}

// A conversation called "talk" of three turns that has a snapshot.
static void begin(const char *home) {
    Run run;
    program_run(&run, TALK, FIRST);
    expect_status(&run, 0);
    program_free(&run);
    DIR *folder = opendir(kept(home, ""));
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.') {
            char from[300];
            snprintf(from, sizeof from, "%s", kept(home, entry->d_name));
            assert_int_equal(rename(from, kept(home, "talk.jsonl")), 0);
            break;
        }
    closedir(folder);
    program_run(&run, AGAIN, "A third one.\n");
    expect_status(&run, 0);
    expect_no_err(&run, "[restored");
    program_free(&run);
    struct stat facts;
    assert_int_equal(stat(kept(home, "talk.kv"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
}

// What is said from here on by a talk that was never left.
static char *as_if_never_left(const char *more) {
    char script[400];
    Run run;
    snprintf(script, sizeof script, FIRST "A third one.\n%s", more);
    program_run(&run, TALK "|--no-save", script);
    expect_status(&run, 0);
    char *rest = run.out;
    for (int line = 0; line < 3; line++) rest = strchr(rest, '\n') + 1;
    rest = strdup(rest);
    program_free(&run);
    return rest;
}

// Goes on with the conversation, which says `part` on stderr and the right thing on stdout.
static void goes_on(const char *arguments, const char *part) {
    Run run;
    char *expected = as_if_never_left("Tell me a story.\n");
    program_run(&run, arguments, "Tell me a story.\n");
    expect_status(&run, 0);
    expect_err(&run, part);
    assert_string_equal(run.out, expected);
    free(expected);
    program_free(&run);
}

static void test_goes_on_at_once(void **state) {
    begin(*state);
    goes_on(AGAIN "|--stats", "[restored ");
    Run run;
    program_run(&run, AGAIN "|--stats", "One more.\nAnd one.\n");
    expect_no_err(&run, "[restored 0");
    assert_int_equal(program_count(run.err, "[restored "), 1); // said once
    program_free(&run);
}

// Frees `before`, what the file held.
static void expect_unchanged(const char *path, Bytes *before) {
    Bytes after = bytes_of_file(path);
    assert_int_equal(before->size, after.size);
    assert_memory_equal(before->data, after.data, after.size);
    bytes_free(before);
    bytes_free(&after);
}

// What is only read has the snapshot as well, and leaves it as it is.
static void test_without_saving(void **state) {
    Run run;
    begin(*state);
    Bytes before = bytes_of_file(kept(*state, "talk.kv"));
    goes_on(AGAIN "|--stats|--no-save", "[restored ");
    program_run(&run, BABBLER "|--no-save|--max-tokens=6|--threads=1", "/switch talk\nTell me a story.\n");
    expect_status(&run, 0);
    expect_err(&run, "[restored ");
    program_free(&run);
    expect_unchanged(kept(*state, "talk.kv"), &before);
}

static void test_undo_and_another_branch(void **state) {
    Run run;
    begin(*state);
    program_run(&run, AGAIN, "/undo\nA third one.\n");
    expect_status(&run, 0);
    expect_err(&run, "[restored ");
    char *expected = as_if_never_left("/undo\nA third one.\n");
    assert_string_equal(run.out, strchr(expected, 0) - strlen(run.out));
    free(expected);
    program_free(&run);
}

static void test_what_is_no_use(void **state) {
    begin(*state);
    Bytes whole = bytes_of_file(kept(*state, "talk.kv"));
    Bytes journal = bytes_of_file(kept(*state, "talk.jsonl"));
    char folder[300];
    snprintf(folder, sizeof folder, "%s/palaver/conversations", (char *)*state);
    for (size_t at = 3; at < whole.size; at += whole.size / 4) {
        whole.data[at] ^= 16;
        folder_write(folder, "talk.kv", whole.data, whole.size);
        folder_write(folder, "talk.jsonl", journal.data, journal.size);
        goes_on(AGAIN, "[the snapshot of this conversation is not used, all is read again: it is damaged]");
        whole.data[at] ^= 16;
    }
    folder_write(folder, "talk.kv", whole.data, whole.size);
    folder_write(folder, "talk.jsonl", journal.data, journal.size);
    Run run;
    program_run(&run, AGAIN "|--type=int8", "Tell me a story.\n");
    expect_status(&run, 0);
    expect_err(&run, "it is of another type or layout of cache");
    program_free(&run);
    folder_write(folder, "talk.kv", whole.data, whole.size);
    folder_write(folder, "talk.jsonl", journal.data, journal.size);
    program_run(&run, "--max-tokens=6|--threads=1|assets/parley-9m|--resume=talk", "Tell me a story.\n");
    expect_status(&run, 0);
    expect_err(&run, "it is of another model");
    program_free(&run);
    // What the plain loops say is compared with, so that it has to be theirs from the beginning.
    folder_write(folder, "talk.kv", whole.data, whole.size);
    folder_write(folder, "talk.jsonl", journal.data, journal.size);
    program_run(&run, AGAIN "|--device=cpu:reference", "Tell me a story.\n");
    expect_status(&run, 0);
    expect_err(&run, "it is of another model, type of weights, or device");
    program_free(&run);
    bytes_free(&whole);
    bytes_free(&journal);
}

static void test_limits(void **state) {
    Run run;
    begin(*state);
    // One that was left longer ago goes; with this limit there is room for no second.
    struct stat facts;
    char limit[100];
    assert_int_equal(stat(kept(*state, "talk.kv"), &facts), 0);
    FILE *old = fopen(kept(*state, "old.kv"), "w");
    assert_non_null(old);
    for (off_t i = 0; i < facts.st_size; i++) fputc('x', old);
    fclose(old);
    assert_int_equal(
        utimensat(AT_FDCWD, kept(*state, "old.kv"), (struct timespec[2]){{1000, 0}, {1000, 0}}, 0), 0);
    snprintf(limit, sizeof limit, AGAIN "|--snapshots=%lld", (long long)facts.st_size * 3 / 2);
    program_run(&run, limit, "One more.\n");
    expect_status(&run, 0);
    assert_int_equal(access(kept(*state, "old.kv"), F_OK), -1);
    assert_int_equal(access(kept(*state, "talk.kv"), F_OK), 0);
    program_free(&run);
    program_run(&run, AGAIN "|--snapshots=1 kB", "One more.\n");
    expect_status(&run, 0);
    expect_err(&run, "[no snapshot of this conversation, it will be read again: it would take ");
    expect_err(&run,
               "[older snapshots of conversations are removed, "); // what was there is beyond the limit, too
    assert_int_equal(access(kept(*state, "talk.kv"), F_OK), -1);
    program_free(&run);
    program_run(&run, AGAIN, "One more.\n");
    expect_status(&run, 0);
    assert_int_equal(access(kept(*state, "talk.kv"), F_OK), 0);
    program_free(&run);
    program_run(&run, AGAIN "|--snapshots=off", "One more.\n");
    expect_status(&run, 0);
    expect_err(&run, "[older snapshots of conversations are removed, ");
    expect_err(&run, "[cache] snapshots = \"off\"]");
    assert_int_equal(access(kept(*state, "talk.kv"), F_OK), -1);
    program_free(&run);
    program_run(&run, AGAIN "|--snapshots=off", "One more.\n");
    expect_no_err(&run, "are removed");
    program_free(&run);
    program_says(AGAIN "|--snapshots=lots", "", 2, "an amount such as \"2 GB\"");
}

// A snapshot under another's name is of use as far as the words are the same, and says so.
static void test_of_other_words(void **state) {
    Run run;
    begin(*state);
    Bytes journal = bytes_of_file(kept(*state, "talk.jsonl"));
    Bytes snapshot = bytes_of_file(kept(*state, "talk.kv"));
    char folder[300];
    snprintf(folder, sizeof folder, "%s/palaver/conversations", (char *)*state);
    char *said = memmem(journal.data, journal.size, "Be brief", 8);
    assert_non_null(said);
    for (int i = 0; i < 8; i++) said[i] = "Be quick"[i];
    folder_write(folder, "talk.jsonl", journal.data, journal.size);
    folder_write(folder, "talk.kv", snapshot.data, snapshot.size);
    program_run(&run, AGAIN "|--stats", "Tell me a story.\n");
    expect_status(&run, 0);
    expect_err(&run, " tokens are of another text; read ");
    program_free(&run);
    bytes_free(&journal);
    bytes_free(&snapshot);
}

static void test_full_disk(void **state) {
    Run run;
    begin(*state);
    Bytes before = bytes_of_file(kept(*state, "talk.kv"));
    program_shell(&run, "ulimit -f 16; echo 'One more.' | $PALAVER --max-tokens=6 --threads=1 --resume=talk");
    expect_status(&run, 0);
    expect_err(&run, "[no snapshot of this conversation, it will be read again: ");
    program_free(&run);
    expect_unchanged(kept(*state, "talk.kv"), &before);
    program_run(&run, AGAIN, "One more.\n"); // the older one is a beginning of the talk
    expect_err(&run, "[restored ");
    program_free(&run);
}

static off_t size_of(const char *home, const char *name) {
    struct stat facts;
    return stat(kept(home, name), &facts) ? -1 : facts.st_size;
}

// How many snapshots there are.
static int count(const char *home) {
    DIR *folder = opendir(kept(home, ""));
    int n = 0;
    for (struct dirent *entry; (entry = readdir(folder));) n += strstr(entry->d_name, ".kv") != NULL;
    closedir(folder);
    return n;
}

// What a script has read for long is not read again, and takes no room from what people left.
static void test_of_scripts(void **state) {
    static char text[6000], input[6100];
    const char *slow = BABBLER "|--seed=1|--max-tokens=4|--threads=1|--context=4000|--device=cpu:reference";
    Run run;
    begin(*state);
    for (int i = 0, n = 0; i < 400; i++) n += sprintf(text + n, "zq ");
    snprintf(input, sizeof input, "/new slow\n%s\n", text);
    program_run(&run, slow, input);
    expect_status(&run, 0);
    program_free(&run);
    assert_int_equal(count(*state), 2);
    assert_true(size_of(*state, "slow.kv") > size_of(*state, "talk.kv"));
    char arguments[300], folder[300];
    Bytes whole = bytes_of_file(kept(*state, "slow.kv"));
    // With room for one it goes first, though it is the later one; and there is none for the next.
    snprintf(arguments, sizeof arguments, AGAIN "|--snapshots=%lld", (long long)size_of(*state, "slow.kv"));
    program_run(&run, arguments, "One more.\n");
    expect_status(&run, 0);
    program_free(&run);
    assert_int_equal(size_of(*state, "slow.kv"), -1);
    snprintf(arguments, sizeof arguments, "%s|--snapshots=%lld", slow,
             (long long)size_of(*state, "talk.kv") + 1000);
    snprintf(input, sizeof input, "/new more\n%s\n", text);
    program_run(&run, arguments, input);
    expect_status(&run, 0);
    expect_no_err(&run, "snapshot");
    program_free(&run);
    assert_int_equal(count(*state), 1);
    char one[7000];
    snprintf(one, sizeof one, "%s|-p|%s", slow, text);
    program_run(&run, one, ""); // a single question leaves none
    expect_status(&run, 0);
    program_free(&run);
    assert_int_equal(count(*state), 1);
    assert_true(size_of(*state, "talk.kv") > 0);
    snprintf(folder, sizeof folder, "%s/palaver/conversations", (char *)*state);
    folder_write(folder, "slow.kv", whole.data, whole.size);
    bytes_free(&whole);
    snprintf(arguments, sizeof arguments, "%s|--resume=slow", slow);
    program_run(&run, arguments, "And then?\n");
    expect_err(&run, "[restored ");
    program_free(&run);
}

static void test_delete(void **state) {
    Run run;
    begin(*state);
    program_run(&run, TALK, "/delete talk\n");
    expect_status(&run, 0);
    assert_int_equal(access(kept(*state, "talk.kv"), F_OK), -1);
    program_free(&run);
}

// ---- at a terminal ------------------------------------------------------------------------------------------------

static Pty *at_terminal(const char *arguments) {
    char **argv = program_words(arguments);
    Pty *pty = pty_start(&(PtyOptions){.argv = (const char *const *)argv});
    free(argv);
    return pty;
}

static void test_leaving_and_switching(void **state) {
    Pty *pty = at_terminal(TALK);
    pty_expect(pty, "> ");
    pty_send(pty, "Hello there, whoever you are, wherever you may come from.\r");
    pty_expect(pty, "> ");
    pty_send(pty, "/new other\r");
    pty_expect(pty, "> ");
    pty_send(pty, "Something quite different from what was before.\r");
    pty_expect(pty, "> ");
    pty_send(pty, "\004");
    pty_expect_exit(pty, 0);
    pty_end(pty);
    assert_int_equal(access(kept(*state, "other.kv"), F_OK), 0);
    pty = at_terminal(AGAIN "|--resume=other");
    pty_expect(pty, "> ");
    pty_send(pty, "And then?\r");
    pty_expect(pty, "[restored ");
    pty_send(pty, "/switch 20\r");
    pty_expect(pty, "1 turn so far");
    pty_send(pty, "And what about this one?\r");
    pty_expect(pty, "[restored ");
    pty_send(pty, "/quit\r");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

#define test(name) cmocka_unit_test_setup_teardown(test_##name, program_set_up, program_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(goes_on_at_once),
        test(without_saving),
        test(undo_and_another_branch),
        test(what_is_no_use),
        test(limits),
        test(of_other_words),
        test(full_disk),
        test(delete),
        test(of_scripts),
        test(leaving_and_switching),
    };
    return test_main("snapshots of conversations", argc, argv, tests);
}
