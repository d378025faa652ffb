// Files that are read whole, and written whole or not at all.
#include "kernels/base/file.h"
#include "kernels/base/path.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void in_folder(char *path, void *const *state, const char *name) {
    snprintf(path, PATH_ROOM, "%s/%s", (const char *)*state, name);
}

static void written(const char *path, const char *text, mode_t mode) {
    Error error;
    if (file_write(path, text, strlen(text), mode, &error)) fail_msg("%s", error.message);
}

static void files_are_replaced_whole_or_not_at_all(void **state) {
    char path[PATH_ROOM], *text;
    size_t size;
    Error error;
    struct stat facts;
    in_folder(path, state, "file");
    written(path, "old", 0600);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    struct rlimit before, full;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    full = before;
    full.rlim_cur = 2;
    setrlimit(RLIMIT_FSIZE, &full);
    Status status = file_write(path, "newer", 5, 0600, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, STATUS_FILE);
    assert_int_equal(file_read(path, 100, &text, &size, &error), STATUS_OK);
    assert_string_equal(text, "old");
    free(text);
    int entries = 0;
    DIR *folder = opendir(*state);
    while (readdir(folder)) entries++;
    closedir(folder);
    assert_int_equal(entries, 3); // ., .., file: no temporary file is left
    // What is no file stays what it is.
    assert_int_equal(unlink(path) || mkfifo(path, 0600), 0);
    assert_int_equal(file_write(path, "newer", 5, 0600, &error), STATUS_FILE);
    assert_true(!stat(path, &facts) && S_ISFIFO(facts.st_mode));
    assert_int_equal(file_read(*state, 2, &text, &size, &error), STATUS_FILE);
}

// A link stays one: what it leads to is written, there or not.
static void links_are_followed(void **state) {
    char path[PATH_ROOM], there[PATH_ROOM], *text;
    size_t size;
    Error error;
    struct stat facts;
    static const char *const links[][2] = {
        {"one", "folder/two"}, {"folder/two", "../three"}, {"loop", "loop"}};
    in_folder(path, state, "folder");
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < 3; i++) {
        in_folder(path, state, links[i][0]);
        assert_int_equal(symlink(links[i][1], path), 0);
    }
    in_folder(path, state, "one");
    in_folder(there, state, "three");
    for (int i = 0; i < 2; i++) {
        written(path, i ? "newer" : "new", 0600);
        assert_true(!lstat(path, &facts) && S_ISLNK(facts.st_mode));
        assert_int_equal(file_read_regular(there, 9, &text, &size, NULL, &error), STATUS_OK);
        assert_string_equal(text, i ? "newer" : "new");
        free(text);
    }
    in_folder(path, state, "loop");
    assert_int_equal(file_write(path, "x", 1, 0600, &error), STATUS_FILE);
    assert_int_equal(file_check_writable(path, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "loop: cannot be written: "));
}

// What of the path is missing is named.
static void folders_that_are_missing(void **state) {
    char path[PATH_ROOM], wanted[2 * PATH_ROOM];
    Error error;
    in_folder(path, state, "none/deeper/file");
    assert_int_equal(file_write(path, "x", 1, 0600, &error), STATUS_FILE);
    snprintf(wanted, sizeof wanted, "%s: cannot be written: there is no folder %s/none", path,
             (const char *)*state);
    assert_string_equal(error.message, wanted);
    in_folder(path, state, "file");
    written(path, "old", 0600);
    in_folder(path, state, "file/in");
    assert_int_equal(file_check_writable(path, &error), STATUS_FILE);
    snprintf(wanted, sizeof wanted, "%s: cannot be written: %s/file is no folder", path,
             (const char *)*state);
    assert_string_equal(error.message, wanted);
    assert_int_equal(file_write("none/file", "x", 1, 0600, &error), STATUS_FILE);
    assert_string_equal(error.message, "none/file: cannot be written: there is no folder none");
}

static void what_is_too_large_is_not_read(void **state) {
    char path[PATH_ROOM], *text;
    size_t size;
    bool missing;
    Error error;
    in_folder(path, state, "file");
    written(path, "old", 0600);
    assert_int_equal(file_read(path, 2, &text, &size, &error), STATUS_FILE);
    assert_int_equal(file_read_regular(path, 2, &text, &size, &missing, &error), STATUS_FILE);
    assert_int_equal(file_read_regular(path, 3, &text, &size, &missing, &error), STATUS_OK);
    assert_false(missing);
    assert_int_equal(size, 3);
    assert_string_equal(text, "old");
    free(text);
}

// A file that may be missing is asked for once; what is no file is refused at once, and not waited for.
static void regular_files_or_none(void **state) {
    char path[PATH_ROOM], *text = NULL;
    size_t size;
    bool missing;
    Error error;
    in_folder(path, state, "pipe");
    assert_int_equal(file_read_regular(path, 9, &text, &size, &missing, &error), STATUS_OK);
    assert_true(missing && !text && size == 0);
    assert_int_equal(file_read_regular(path, 9, &text, &size, NULL, &error), STATUS_FILE);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(file_read_regular(path, 9, &text, &size, &missing, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "not a regular file"));
    assert_int_equal(file_read_regular(*state, 9, &text, &size, &missing, &error), STATUS_FILE);
}

static void folders_of_a_file(void **state) {
    char path[PATH_ROOM], longer[2 * PATH_ROOM];
    struct stat facts;
    Error error;
    in_folder(path, state, "file");
    assert_int_equal(path_make_folder_of(path, 0700, &error), STATUS_OK); // it is there
    assert_int_equal(path_make_folder_of("name", 0700, &error), STATUS_OK);
    assert_int_equal(path_make_folder_of("/name", 0700, &error), STATUS_OK);
    assert_int_equal(stat("name", &facts), -1);
    written(path, "in the way", 0600);
    in_folder(path, state, "file/name");
    assert_int_equal(path_make_folder_of(path, 0700, &error),
                     STATUS_OK); // nor is it made anew: writing says why
    in_folder(path, state, "file/folder/name");
    assert_int_equal(path_make_folder_of(path, 0700, &error), STATUS_FILE);
    memset(longer, 'a', sizeof longer - 3);
    memcpy(longer + sizeof longer - 3, "/b", 3);
    assert_int_equal(path_make_folder_of(longer, 0700, &error), STATUS_USAGE);
}

#define test(name) cmocka_unit_test_setup_teardown(name, folder_set_up, folder_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(files_are_replaced_whole_or_not_at_all),
        test(links_are_followed),
        test(folders_that_are_missing),
        test(what_is_too_large_is_not_read),
        test(regular_files_or_none),
        test(folders_of_a_file),
    };
    return test_main("file", argc, argv, tests);
}
