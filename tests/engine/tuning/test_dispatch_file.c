// What `palaver tune` keeps: written and read again, and refused down to each key and number where it is anything else.
#include "tests/support/test.h"
#include "tests/support/files.h"
#include "engine/tuning/dispatch_file.h"
#include "engine/model/shape/model_shape.h"
#include "kernels/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const CardFacts CARD = {"NVIDIA H200", 90, 13000, 13000, 0};

static const char GOOD[] = "version = 2\ncard = \"NVIDIA H200\"\ncompute = 90\ndriver = 13000\ncuda = 13000\n"
                           "date = \"2026-11-22\"\nread_gb_s = 4554.0\n"
                           "[[linear]]\nn_out = 12288\nn_in = 4096\ntype = \"q4_0\"\nflat_from = 3\n"
                           "library_from = 65\n"
                           "[[linear]]\nn_out = 4096\nn_in = 4096\ntype = \"q4_0\"\nflat_from = 1\n"
                           "library_from = 1\n";

static void must(Status status, const Error *error) {
    if (status) fail_msg("%s", error->message);
}

static Status parse(const char *text, DispatchFile *file, Error *error) {
    return dispatch_file_parse("FILE", text, strlen(text), &CARD, file, error);
}

static void a_good_file_is_read(void **state) {
    (void)state;
    DispatchFile file;
    Error error;
    must(parse(GOOD, &file, &error), &error);
    assert_int_equal(file.table.n, 2);
    const DispatchRow *row = &file.table.rows[0];
    assert_int_equal(row->n_out, 12288);
    assert_int_equal(row->n_in, 4096);
    assert_int_equal(row->type, DTYPE_Q4_0);
    assert_int_equal(row->flat_from, 3);
    assert_int_equal(row->library_from, 65);
    assert_string_equal(file.date, "2026-11-22");
    assert_true(file.read_speed == 4554e9);
}

// GOOD with one piece replaced.
static char *with(const char *piece, const char *other) {
    const char *at = strstr(GOOD, piece);
    char *text = NULL;
    assert_non_null(at);
    assert_true(asprintf(&text, "%.*s%s%s", (int)(at - GOOD), GOOD, other, at + strlen(piece)) > 0);
    return text;
}

static void anything_else_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *piece, *other, *why;
    } CASES[] = {
        {"version = 2\n", "", "version is missing"},
        {"version = 2", "version = 1", "version: of another version"},
        {"version = 2", "version = 1\nnew_key = 1", "version: of another version"}, // said first
        {"version = 2", "version = \"2\"", "version: expected an integer"},
        {"card = \"NVIDIA H200\"", "card = \"NVIDIA H100\"", "card: another card"},
        {"card = \"NVIDIA H200\"", "card = \"NVIDIA H200\\u0000\"", "card: another card"},
        {"card = \"NVIDIA H200\"", "card = 7", "card: another card"},
        {"compute = 90", "compute = 80", "compute: code of another kind"},
        {"driver = 13000", "driver = -1", "driver: expected"},
        {"driver = 13000\n", "", "driver is missing"},
        {"date = \"2026-11-22\"", "date = 2026-11-22", "date: expected a date"},
        {"date = \"2026-11-22\"", "date = \"yesterday!\"", "date: expected a date"},
        {"read_gb_s = 4554.0", "read_gb_s = nan", "read_gb_s: expected a speed"},
        {"read_gb_s = 4554.0", "read_gb_s = -4.0", "read_gb_s: expected a speed"},
        {"read_gb_s = 4554.0", "read_gb_s = inf", "read_gb_s: expected a speed"},
        {"read_gb_s = 4554.0", "read_gb_s = true", "read_gb_s: expected a speed"},
        {"read_gb_s = 4554.0", "read_gb_s = 4554.0\nwrite_gb_s = 1", "write_gb_s: no key of such a file"},
        {"n_out = 12288", "n_out = 0", "n_out: expected"},
        {"n_out = 12288", "n_out = 12288.0", "n_out: expected"},
        {"n_in = 4096", "n_in = 9223372036854775807", "n_in: expected"},
        {"type = \"q4_0\"", "type = \"q4_7\"", "type: no such type"},
        {"type = \"q4_0\"", "type = \"q4_0\\u0000\"", "type: no such type"},
        {"flat_from = 3", "flat_from = 6", "flat_from: expected an integer from 1 to 5"},
        {"flat_from = 3", "flat_from = 0", "flat_from: expected"},
        {"library_from = 65", "library_from = 2", "library_from: expected an integer from 3"},
        {"library_from = 65", "library_from = 1048577", "library_from: expected"},
        {"library_from = 65\n", "", "library_from is missing"},
        {"library_from = 65", "library_from = 65\nrows = 1", "rows: no key of such a file"},
        {"n_out = 4096\n", "n_out = 12288\n", "stands there twice"},
        {"[[linear]]", "[[other]]\n[[linear]]", "other: no key"},
        {"[[linear]]\nn_out = 12288", "[linear]\nn_out = 12288", ""},
        {"version = 2", "version = = 2", ""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        DispatchFile file;
        Error error = {0};
        char *text = with(CASES[i].piece, CASES[i].other);
        if (parse(text, &file, &error) != STATUS_FILE || !strstr(error.message, CASES[i].why))
            fail_msg("case %zu: %s", i, error.message);
        free(text);
    }
}

// Of a table without rows, and of one with more than there is room for.
static void the_number_of_rows_is_bounded(void **state) {
    (void)state;
    DispatchFile file;
    Error error;
    size_t head = (size_t)(strstr(GOOD, "[[") - GOOD);
    char *text = malloc(head + 200 * 100);
    sprintf(text, "%.*slinear = []\n", (int)head, GOOD);
    assert_int_equal(parse(text, &file, &error), STATUS_FILE);
    int n = sprintf(text, "%.*s", (int)head, GOOD);
    for (int i = 0; i <= DISPATCH_MOST_ROWS; i++)
        n += sprintf(text + n,
                     "[[linear]]\nn_out = %d\nn_in = 8\ntype = \"f16\"\nflat_from = 1\nlibrary_from = 1\n",
                     i + 1);
    assert_int_equal(parse(text, &file, &error), STATUS_FILE);
    free(text);
}

static void what_is_written_is_read_again(void **state) {
    (void)state;
    char *folder = folder_new(), path[PATH_ROOM];
    DispatchFile file, again;
    Error error;
    bool missing;
    Model *model;
    setenv("XDG_CACHE_HOME", folder, 1);
    must(model_of_shape("llama2-7b", DTYPE_Q4_0, DTYPE_Q4_0, &model, &error), &error);
    must(dispatch_file_path(&CARD, model, path, &error), &error);
    assert_string_equal(path + strlen(folder),
                        "/palaver/dispatch/NVIDIA-H200-90.h4096-i11008-q32-kv32-d128-v32000.q4_0.toml");
    model_close(model);
    must(dispatch_file_read(path, &CARD, &again, &missing, &error), &error);
    assert_true(missing);
    must(parse(GOOD, &file, &error), &error);
    for (int i = 0; i < 2; i++) { // anew, and over the old one
        must(dispatch_file_write(path, &file, &error), &error);
        must(dispatch_file_read(path, &CARD, &again, &missing, &error), &error);
        assert_false(missing);
        assert_int_equal(again.table.n, file.table.n);
        assert_memory_equal(again.table.rows, file.table.rows, 2 * sizeof *file.table.rows);
        assert_true(again.read_speed == file.read_speed);
    }
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0700), 0); // a folder in its place
    assert_int_equal(dispatch_file_read(path, &CARD, &again, &missing, &error), STATUS_FILE);
    folder_remove(folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(the_number_of_rows_is_bounded),
        cmocka_unit_test(what_is_written_is_read_again),
    };
    return test_main("dispatch_file", argc, argv, tests);
}
