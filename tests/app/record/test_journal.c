// The journal's files: when they are made, their modes, torn ends, a full disk, and which one --resume means.
#include "tests/support/test.h"
#include "tests/support/talk/transcripts.h"
#include "app/record/journal.h"
#include "app/record/journal_list.h"
#include "kernels/base/file.h"
#include "kernels/base/path.h"
#include "kernels/base/text/utf8.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_LINE "{\"record\":\"palaver\",\"format\":1,\"model\":{}}\n"

typedef struct Home {
    char path[64];
} Home;

static int remove_entry(const char *path, const struct stat *facts, int type, struct FTW *walk) {
    (void)facts, (void)type, (void)walk;
    return remove(path);
}

static int set_up(void **state) {
    Home *home = calloc(1, sizeof *home);
    strcpy(home->path, "/tmp/palaver-test-XXXXXX");
    if (!mkdtemp(home->path)) {
        free(home);
        return 1;
    }
    setenv("XDG_STATE_HOME", home->path, 1);
    *state = home;
    return 0;
}

static int tear_down(void **state) {
    Home *home = *state;
    nftw(home->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(home);
    return 0;
}

static void path_of(const Home *home, const Journal *journal, char *path) {
    snprintf(path, PATH_ROOM, "%s/palaver/conversations/%s.jsonl", home->path, journal_name(journal));
}

static mode_t mode_of(const char *path) {
    struct stat facts;
    if (stat(path, &facts)) fail_msg("%s is missing", path);
    return facts.st_mode & 0777;
}

static void test_a_journal_begins_with_the_first_turn(void **state) {
    Home *home = *state;
    Transcript *t = transcript_fresh();
    Journal *journal;
    char path[PATH_ROOM];
    ok(journal_new(NULL, &journal, error));
    ok(journal_sync(journal, t, error));
    assert_string_equal(journal_name(journal), "");
    transcript_say(t, TREE_START, "ask", "q", "r");
    umask(0);
    ok(journal_sync(journal, t, error));
    path_of(home, journal, path);
    assert_int_equal(mode_of(path), 0600);
    snprintf(path, sizeof path, "%s/palaver/conversations", home->path);
    assert_int_equal(mode_of(path), 0700);
    journal_close(journal);
    transcript_free(t);
}

static void test_resume_goes_on_behind_the_log(void **state) {
    (void)state;
    Transcript *t = transcript_fresh(), *again;
    Journal *journal;
    char name[256];
    ok(journal_new(NULL, &journal, error));
    transcript_say(t, TREE_START, "ask", "q", "r");
    ok(journal_sync(journal, t, error));
    snprintf(name, sizeof name, "%s", journal_name(journal));
    Error locked;
    Journal *second;
    assert_int_equal(journal_resume(NULL, &second, &again, &locked), STATUS_FILE);
    assert_non_null(strstr(locked.message, "another palaver"));
    journal_close(journal);
    transcript_free(t);

    ok(journal_resume(NULL, &journal, &again, error));
    assert_string_equal(journal_name(journal), name);
    assert_int_equal(tree_depth(transcript_tree(again)), 1);
    transcript_say(again, 0, "ask", "q2", "r2");
    ok(journal_sync(journal, again, error));
    journal_close(journal);
    transcript_free(again);

    ok(journal_resume(name, &journal, &again, error));
    assert_int_equal(tree_depth(transcript_tree(again)), 2);
    journal_close(journal);
    transcript_free(again);
}

// Makes a journal of one turn, called `name` (NULL: by the time); into path [PATH_ROOM] where it is.
static void talk_once(const Home *home, const char *name, char *path) {
    Transcript *t = transcript_fresh();
    Journal *journal;
    ok(journal_new(name, &journal, error));
    transcript_say(t, TREE_START, "ask", "q", "r");
    ok(journal_sync(journal, t, error));
    path_of(home, journal, path);
    journal_close(journal);
    transcript_free(t);
}

// The last journal, of one turn, goes on by another, and has both when it is read again. Its note, if one is expected, and into
// name [PATH_ROOM] its name.
static void goes_on(const char *note, char *name) {
    Transcript *t;
    Journal *journal;
    ok(journal_resume(NULL, &journal, &t, error));
    if (note) assert_string_equal(journal_note(journal), note);
    assert_int_equal(tree_depth(transcript_tree(t)), 1);
    transcript_say(t, 0, "ask", "q2", "r2");
    ok(journal_sync(journal, t, error));
    journal_close(journal);
    transcript_free(t);
    ok(journal_resume(NULL, &journal, &t, error));
    assert_int_equal(tree_depth(transcript_tree(t)), 2);
    snprintf(name, PATH_ROOM, "%s", journal_name(journal));
    journal_close(journal);
    transcript_free(t);
}

static void test_a_torn_end_is_cut_off(void **state) {
    char path[PATH_ROOM], name[PATH_ROOM];
    talk_once(*state, NULL, path);
    FILE *file = fopen(path, "ab");
    fputs("{\"record\":\"turn\",\"no", file);
    fclose(file);
    goes_on(NULL, name);
    ok(journal_torn_path(name, path, error));
    assert_int_equal(access(path, F_OK), 0);
    ok(journal_delete(name, error)); // and with it what was torn off
    assert_int_equal(access(path, F_OK), -1);
}

// A name that is too long for a number, or for what a mended copy is called, ends with a whole character.
static void test_no_name_is_cut_within_a_character(void **state) {
    char name[JOURNAL_NAME_ROOM] = "x", made[JOURNAL_NAME_ROOM];
    (void)state;
    for (int i = 0; i < 124; i++) strcat(name, "é");
    journal_mended_name(name, made);
    assert_int_equal(utf8_valid_run(made, strlen(made)), 235 + strlen("-mended"));
    assert_string_equal(made + 235, "-mended");
    journal_numbered_name(name, 2, made);
    assert_int_equal(utf8_valid_run(made, strlen(made)), 243 + strlen("-2"));
    assert_string_equal(made + 243, "-2");
    journal_numbered_name(name, 1, made);
    assert_string_equal(made, name);
}

// An editor has taken the last line break: nothing is lost for that, nor what is said behind it.
static void test_an_end_without_its_line_break_is_whole(void **state) {
    char path[PATH_ROOM], name[PATH_ROOM];
    struct stat facts;
    talk_once(*state, NULL, path);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(truncate(path, facts.st_size - 1), 0);
    goes_on("", name);
}

// One whose first question was never whole says nothing that could be gone on with.
static void test_a_journal_in_which_nothing_is_said_is_passed_over(void **state) {
    Home *home = *state;
    Transcript *again;
    Journal *journal;
    char folder[PATH_ROOM], path[PATH_ROOM + 32];
    talk_once(home, "first", path);
    snprintf(folder, sizeof folder, "%s/palaver/conversations", home->path);
    snprintf(path, sizeof path, "%s/second.jsonl", folder);
    ok(file_write(path, HEADER_LINE, strlen(HEADER_LINE), 0600, error));
    ok(journal_resume(NULL, &journal, &again, error));
    assert_string_equal(journal_name(journal), "first");
    assert_string_equal(journal_note(journal), "1 empty journal is passed over");
    journal_close(journal);
    transcript_free(again);
}

static void test_resume_by_name(void **state) {
    Home *home = *state;
    char folder[PATH_ROOM], path[PATH_ROOM + 32];
    Error error;
    Journal *journal;
    Transcript *t;
    assert_int_equal(journal_resume(NULL, &journal, &t, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "no conversation to resume"));
    snprintf(folder, sizeof folder, "%s/palaver/conversations", home->path);
    ok(path_make_folder(folder, 0700, error));
    static const char *const names[] = {"garden", "gardens", "travel"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s.jsonl", folder, names[i]);
        ok(file_write(path, HEADER_LINE, strlen(HEADER_LINE), 0600, error));
    }
    ok(journal_resume("garden", &journal, &t, error));
    assert_string_equal(journal_name(journal), "garden");
    journal_close(journal);
    transcript_free(t);
    ok(journal_resume("tra", &journal, &t, error));
    assert_string_equal(journal_name(journal), "travel");
    journal_close(journal);
    transcript_free(t);
    assert_int_equal(journal_resume("gard", &journal, &t, &error), STATUS_USAGE);
    assert_int_equal(journal_resume("travle", &journal, &t, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "did you mean travel?"));
    assert_int_equal(journal_resume("../../etc/passwd", &journal, &t, &error), STATUS_FILE);
}

// A disk that is full: told, nothing half written, and complete again as soon as there is room.
static void test_a_full_disk_is_an_error_and_passes(void **state) {
    Home *home = *state;
    Transcript *t = transcript_fresh();
    Journal *journal;
    char path[PATH_ROOM];
    struct stat facts;
    signal(SIGXFSZ, SIG_IGN);
    ok(journal_new(NULL, &journal, error));
    transcript_say(t, TREE_START, "ask", "q", "r");
    ok(journal_sync(journal, t, error));
    path_of(home, journal, path);
    stat(path, &facts);
    struct rlimit before, full;
    getrlimit(RLIMIT_FSIZE, &before);
    full = before;
    full.rlim_cur = (rlim_t)facts.st_size + 10;
    setrlimit(RLIMIT_FSIZE, &full);
    transcript_say(t, 0, "ask", "q2", "r2");
    Error error = {0};
    Status status = journal_sync(journal, t, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, STATUS_FILE);
    assert_non_null(strstr(error.message, "/save"));
    struct stat after;
    stat(path, &after);
    assert_int_equal(after.st_size, facts.st_size);
    ok(journal_sync(journal, t, error));
    journal_close(journal);
    transcript_free(t);
    ok(journal_resume(NULL, &journal, &t, error));
    assert_int_equal(tree_depth(transcript_tree(t)), 2);
    journal_close(journal);
    transcript_free(t);
}

int main(int argc, char **argv) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_a_journal_begins_with_the_first_turn),
        WITH_FOLDER(test_resume_goes_on_behind_the_log),
        WITH_FOLDER(test_a_torn_end_is_cut_off),
        WITH_FOLDER(test_no_name_is_cut_within_a_character),
        WITH_FOLDER(test_an_end_without_its_line_break_is_whole),
        WITH_FOLDER(test_a_journal_in_which_nothing_is_said_is_passed_over),
        WITH_FOLDER(test_resume_by_name),
        WITH_FOLDER(test_a_full_disk_is_an_error_and_passes),
    };
    return test_main("journal", argc, argv, tests);
}
