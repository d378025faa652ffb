// What the themes make of a reply with everything that Markdown has, through the program, against what tmux shows of it
// (tests/golden/make_markdown_screens.py): the colours and looks of every character.
#include "tests/support/files.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 100 };

static int row_of(Pty *pty, const char *text) {
    char line[1300];
    for (int row = ROWS - 1; row >= 0; row--) {
        vt_row(pty_screen(pty), row, line, sizeof line);
        if (!strcmp(line, text)) return row;
    }
    fail_msg("no row is: %s", text);
    return -1;
}

// The file `talk.json` of a folder, in a theme at a width, as the golden screen has it.
static void check_theme(const char *folder, const char *theme, int columns) {
    char command[300], path[200], got[2600];
    snprintf(command, sizeof command, BABBLER "|--no-save|--theme=%s|--links=always|--no-gauge", theme);
    Pty *pty = prompt_start(command, &(const PtyOptions){.rows = ROWS, .cols = columns});
    pty_expect(pty, "> ");
    snprintf(command, sizeof command, "/load %s/talk.json", folder);
    prompt_say(pty, command, "The end");
    prompt_say(pty, "/replay", "The end");
    pty_expect_screen(pty, "> /replay");
    snprintf(path, sizeof path, "tests/golden/markdown/theme-%s-%d.txt", theme, columns);
    Bytes golden = bytes_of_file(path);
    bytes_add(&golden, "", 1);
    char *rest = (char *)golden.data;
    int row = row_of(pty, "> /replay") + 1;
    for (char *line; (line = strsep(&rest, "\n")) && rest; row++) {
        vt_row_looks(pty_screen(pty), row, got, sizeof got);
        if (strcmp(got, line) != 0) print_error("%s, %d columns:\n%s\n%s\n", theme, columns, line, got);
        assert_string_equal(got, line);
    }
    bytes_free(&golden);
    prompt_leave(pty);
}

static void test_a_reply_in_each_theme(void **state) {
    static const char *const themes[] = {"dark", "light", "mono"};
    static const int widths[] = {40, 80, 120};
    Bytes reply = bytes_of_file("tests/golden/markdown/reply.md");
    json_t *talk = json_pack("{s:[{s:s, s:s}, {s:s, s:s%}]}", "messages", "role", "user", "content",
                             "Coffee?", "role", "assistant", "content", reply.data, reply.size);
    char *text = json_dumps(talk, 0);
    folder_write_text(*state, "talk.json", text);
    for (int i = 0; i < 9; i++) check_theme(*state, themes[i / 3], widths[i % 3]);
    free(text);
    json_decref(talk);
    bytes_free(&reply);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_reply_in_each_theme, program_set_up, program_tear_down),
    };
    return test_main("themes", argc, argv, tests);
}
