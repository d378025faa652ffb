// Which model is found for a name, and for none.
#include "tests/support/files.h"
#include "tests/support/test.h"
#include "kernels/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PART_ROOM = 512 };

// A data folder and a program's folder of the test's own.
typedef struct Home {
    char *path;
    char models[PART_ROOM], program[PART_ROOM];
} Home;

static void make_folder(char *path, const char *base, const char *tail) {
    Error error;
    assert_true(snprintf(path, PART_ROOM, "%s/%s", base, tail) < PART_ROOM);
    assert_int_equal(path_make_folder(path, 0700, &error), STATUS_OK);
}

static int open_home(void **state) {
    Home *home = calloc(1, sizeof *home);
    assert_non_null(home);
    home->path = folder_new();
    make_folder(home->models, home->path, "data/palaver/models");
    make_folder(home->program, home->path, "build");
    char data[PART_ROOM];
    make_folder(data, home->path, "data");
    assert_int_equal(setenv("XDG_DATA_HOME", data, 1), 0);
    *state = home;
    return 0;
}

static int close_home(void **state) {
    Home *home = *state;
    folder_remove(home->path);
    free(home);
    return 0;
}

// What is found has this path below the home.
static void expect_model(const Home *home, const char *name, const char *tail) {
    char path[PATH_ROOM], expected[2 * PART_ROOM];
    Error error;
    if (path_find_model(name, home->program, path, &error)) fail_msg("%s", error.message);
    snprintf(expected, sizeof expected, "%s/%s", home->path, tail);
    assert_string_equal(path, expected);
}

static void expect_none(const Home *home, const char *program, const char *words) {
    char path[PATH_ROOM];
    Error error;
    assert_int_equal(path_find_model(NULL, program, path, &error), STATUS_FILE);
    if (!strstr(error.message, words)) fail_msg("'%s' is not in: %s", words, error.message);
    assert_non_null(strstr(error.message, home->path));
}

// A home that is there, but relative, is not said to be missing.
static void test_a_relative_home_is_named(void **state) {
    (void)state;
    const char *before = getenv("HOME");
    char *kept = before ? strdup(before) : NULL, path[PATH_ROOM];
    Error error;
    assert_int_equal(setenv("HOME", "beside", 1), 0);
    assert_int_equal(path_state("conversations", path, &error), STATUS_FILE);
    assert_string_equal(error.message,
                        "HOME is beside, a path that does not begin with /: set it to a whole one, "
                        "or XDG_STATE_HOME");
    assert_int_equal(kept ? setenv("HOME", kept, 1) : unsetenv("HOME"), 0);
    free(kept);
}

static void test_no_model_names_the_way_to_one(void **state) {
    const Home *home = *state;
    expect_none(home, home->program, "make model");
    expect_none(home, NULL, "make model");
}

// In each place beside the program where it may lie, and never in that of another program.
static void test_bundled_model_where_there_is_none(void **state) {
    const Home *home = *state;
    static const char *const places[] = {"build/assets", "assets", "share/palaver"};
    static const char *const found[] = {"build/assets/" BUNDLED_MODEL, "assets/" BUNDLED_MODEL,
                                        "share/palaver/" BUNDLED_MODEL};
    for (int i = 2; i >= 0; i--) { // the nearest comes first
        char folder[PART_ROOM], model[PART_ROOM + 40];
        make_folder(folder, home->path, places[i]);
        assert_true(snprintf(model, sizeof model, "%s/" BUNDLED_MODEL, folder) > 0);
        assert_int_equal(mkdir(model, 0700), 0);
        expect_model(home, NULL, found[i]);
        assert_true(path_is_bundled(model));
    }
    expect_none(home, NULL, "make model");
    expect_none(home, "/nonexistent", "make model");
}

static void test_fetched_models_come_first(void **state) {
    const Home *home = *state;
    char folder[PART_ROOM];
    make_folder(folder, home->path, "assets/" BUNDLED_MODEL);
    folder_write_text(home->models, "mine.gguf", "");
    folder_write_text(home->models, "mine.toml", "");
    expect_model(home, NULL, "data/palaver/models/mine.gguf");
    folder_write_text(home->models, "yours.gguf", "");
    expect_none(home, home->program, "which model?");
    folder_write_text(home->models, DEFAULT_MODEL_FILE, "");
    expect_model(home, "", "data/palaver/models/" DEFAULT_MODEL_FILE);
    expect_model(home, "yours", "data/palaver/models/yours.gguf");
    assert_false(path_is_bundled("data/palaver/models/yours.gguf"));
    assert_false(path_is_bundled("not-" BUNDLED_MODEL));
}

static void test_program_has_a_folder(void **state) {
    (void)state;
    char path[PATH_ROOM];
    struct stat info;
    assert_true(path_program(path));
    assert_int_equal(path[0], '/');
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
}

// A ~ that no shell has seen: in a file of settings, or behind --KEY=.
static void test_the_home_is_meant(void **state) {
    const Home *home = *state;
    const char *before = getenv("HOME");
    char *kept = before ? strdup(before) : NULL, whole[PATH_ROOM], path[PATH_ROOM], expected[PATH_ROOM];
    Error error;
    assert_int_equal(setenv("HOME", home->path, 1), 0);
    folder_write_text(home->path, "mine.gguf", "");
    snprintf(expected, sizeof expected, "%s/mine.gguf", home->path);
    assert_string_equal(path_in_home("~/mine.gguf", whole), expected);
    assert_string_equal(path_in_home("~mine.gguf", whole), "~mine.gguf");
    assert_string_equal(path_in_home("a/~/b", whole), "a/~/b");
    assert_int_equal(path_find_model("~/mine.gguf", NULL, path, &error), STATUS_OK);
    assert_string_equal(path, expected);
    assert_int_equal(setenv("HOME", "relative", 1), 0);
    assert_string_equal(path_in_home("~/mine.gguf", whole), "~/mine.gguf");
    assert_int_equal(kept ? setenv("HOME", kept, 1) : unsetenv("HOME"), 0);
    free(kept);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_relative_home_is_named, open_home, close_home),
        cmocka_unit_test_setup_teardown(test_no_model_names_the_way_to_one, open_home, close_home),
        cmocka_unit_test_setup_teardown(test_bundled_model_where_there_is_none, open_home, close_home),
        cmocka_unit_test_setup_teardown(test_fetched_models_come_first, open_home, close_home),
        cmocka_unit_test_setup_teardown(test_the_home_is_meant, open_home, close_home),
        cmocka_unit_test(test_program_has_a_folder),
    };
    return test_main("paths", argc, argv, tests);
}
