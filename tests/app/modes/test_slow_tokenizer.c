// A model whose tokenizer takes its time: the program ends when it is asked to, and a short text ends by itself.
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/files.h"
#include "tests/support/program.h"

// The babbler with a split pattern that looks at a run of n letters n times from each of them.
static char *slow_folder(void) {
    static const char *const files[] = {"config.json", "generation_config.json", "model.safetensors",
                                        "tokenizer_config.json"};
    char *folder = folder_new(), path[256];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, BABBLER "/%s", files[i]);
        folder_copy(folder, files[i], path);
    }
    json_t *tokenizer = json_load_file(BABBLER "/tokenizer.json", 0, NULL);
    json_t *steps = json_pack("{s:s, s:[{s:s, s:s, s:{s:s}}, {s:s, s:b, s:b}]}", "type", "Sequence",
                              "pretokenizers", "type", "Split", "behavior", "Isolated", "pattern", "Regex",
                              "(?:a*a*b|a)", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
    assert_int_equal(json_object_set_new(tokenizer, "pre_tokenizer", steps), 0);
    char *text = json_dumps(tokenizer, 0);
    folder_write_text(folder, "tokenizer.json", text);
    free(text);
    json_decref(tokenizer);
    return folder;
}

static void signals_end_it(void **state) {
    (void)state;
    static const struct {
        const char *signal, *command;
        int status;
    } cases[] = {{"INT", "tokenize", 130}, {"TERM", "tokenize", 143}, {"HUP", "", 129}, {"INT", "", 130}};
    char *folder = slow_folder();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[600];
        snprintf(
            command, sizeof command,
            "head -c 30000000 /dev/zero | tr '\\0' a | timeout --preserve-status --foreground -k 60 -s %s 1 "
            "$PALAVER %s %s",
            cases[i].signal, cases[i].command, folder);
        Run run;
        program_shell(&run, command);
        expect_status(&run, cases[i].status);
        program_free(&run);
    }
    folder_remove(folder);
}

static void a_text_that_takes_too_much_is_refused(void **state) {
    (void)state;
    char *folder = slow_folder(), command[600];
    snprintf(command, sizeof command, "head -c 20000 /dev/zero | tr '\\0' a | $PALAVER tokenize %s", folder);
    Run run;
    program_shell(&run, command);
    expect_err(&run, "a split pattern of the tokenizer fails on this text: it takes too many steps");
    program_free(&run);
    folder_remove(folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(signals_end_it, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(a_text_that_takes_too_much_is_refused, program_set_up,
                                        program_tear_down),
    };
    return test_main("slow_tokenizer", argc, argv, tests);
}
