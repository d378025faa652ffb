// palaver list and use, and what completes names of models: what a person sees of the stores.
#include "tests/support/program.h"
#include "tests/support/stores/stores.h"
#include "tests/support/terminal/pty.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_list(void **state) {
    (void)state;
    Run run;
    program_run(&run, "list", "");
    expect_status(&run, 0);
    expect_out(&run, "acme/tiny-llama ");
    expect_out(&run, "Ollama");
    expect_out(&run, "yes");
    program_free(&run);
    program_run(&run, "list|--names|quants", "");
    expect_status(&run, 0);
    assert_string_equal(run.out, "acme/quants-GGUF:F16\nacme/quants-GGUF:Q4_K_M\nacme/quants-GGUF:Q8_0\n");
    program_free(&run);
    program_run(&run, "list|no-such-name", "");
    expect_status(&run, 0);
    expect_err(&run, "no model of such a name");
    program_free(&run);
    program_says("--names", "", 2, "--names belongs to palaver list");
}

// A name that is too long for the window loses its middle there, and nowhere else.
static void test_list_of_a_long_name(void **state) {
    char file[200], name[120];
    Run run;
    memset(name, 'q', sizeof name - 1);
    name[sizeof name - 1] = 0;
    snprintf(file, sizeof file, "palaver/models/a%s\033z.gguf", name);
    stores_put_text(*state, file, "GGUF\3");
    program_run(&run, "list|qqq", "");
    expect_out(&run, name);
    program_free(&run);
    const char *const argv[] = {program_path(), "list", "qqq", NULL};
    Pty *pty = pty_start(&(const PtyOptions){.argv = argv, .rows = 24, .cols = 110});
    pty_expect(pty, "  NAME                                                      SIZE");
    pty_expect(pty, "  aqqqqqqqqqqqqqqqqqqqqqqqqqqq…qqqqqqqqqqqqqqqqqqqqqq\\x1bz  ");
    pty_expect_exit(pty, 0);
    pty_end(pty);
    // Nor does it take the table away where all other names leave room for one.
    const char *const all[] = {program_path(), "list", NULL};
    pty = pty_start(&(const PtyOptions){.argv = all, .rows = 24, .cols = 91});
    pty_expect(pty, "  NAME                                   SIZE");
    pty_expect(pty, "  aqqqqqqqqqqqqqqqqq…qqqqqqqqqqqqq\\x1bz  ");
    pty_expect(pty, "\r\n  llama.cpp:acme_bloom-GGUF_bloom-f16    ");
    pty_expect_exit(pty, 0);
    pty_end(pty);
    pty = pty_start(&(const PtyOptions){.argv = all, .rows = 24, .cols = 70}); // they do not
    pty_expect(pty, "  aqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq…qqqqqqqqqqqqqqqqqqqqqqqqqqqq\\x1bz\r\n    ");
    pty_expect_exit(pty, 0);
    pty_end(pty);
    // Where it is cut, it does not wrap, and no sign loses a part.
    static const char *const cut[] = {"  aqqqqqqqqqqqqq…qqqqqqqq\\x1bz\r\n    ", "  aqqq…z\r\n    "};
    for (int i = 0; i < 2; i++) {
        pty = pty_start(&(const PtyOptions){.argv = argv, .rows = 24, .cols = i ? 10 : 30});
        pty_expect(pty, cut[i]);
        pty_expect_exit(pty, 0);
        pty_end(pty);
    }
}

// A window that is too narrow for the table: what the columns say stands below each name, in whole words.
static void test_list_in_a_narrow_window(void **state) {
    (void)state;
    const char *const argv[] = {program_path(), "list", "tiny-llama", NULL};
    for (int i = 0; i < 2; i++) {
        Pty *pty = pty_start(&(const PtyOptions){.argv = argv, .rows = 24, .cols = i ? 40 : 80});
        pty_expect(pty, i ? "  acme/tiny-llama\r\n    " : "  NAME            ");
        if (i) pty_expect(pty, ", Hugging Face,\r\n    parameters: ");
        if (i) pty_expect(pty, "fits: yes\r\n");
        pty_expect_exit(pty, 0);
        pty_end(pty);
    }
}

// The rest of a line of the list that begins with this name.
static const char *behind(const Run *run, const char *name) {
    const char *at = strstr(run->out, name);
    if (!at) fail_msg("'%s' is not in: %s", name, run->out);
    return at + strlen(name);
}

// What a file's name could tell a terminal has one harmless spelling wherever it is shown, and that can be typed.
static void test_names_that_would_be_obeyed(void **state) {
    Run run;
    stores_put(*state, "palaver/models/es\x1b[31mc\a\nx.gguf", GGUF);
    stores_put(*state, "palaver/models/b\xffz.gguf", GGUF);
    stores_put(*state, "palaver/models/\xe6\xa8\xa1.gguf", GGUF);
    program_run(&run, "list|--names", "");
    expect_out(&run, "\nes\\x1b[31mc\\x07\\x0ax\n");
    expect_out(&run, "b\\xffz\n");
    assert_null(strchr(run.out, '\033'));
    program_free(&run);
    program_run(&run, "list", "");
    const char *escaped = behind(&run, "  es\\x1b[31mc\\x07\\x0ax"), *wide = behind(&run, "  \xe6\xa8\xa1");
    assert_int_equal(strspn(wide, " "), strspn(escaped, " ") + strlen("es\\x1b[31mc\\x07\\x0ax") - 2);
    program_free(&run);
    program_run(&run, "use|es\\x1b[31mc\\x07\\x0ax", "");
    expect_status(&run, 0);
    expect_err(&run, "es\\x1b[31mc\\x07\\x0ax is the default now");
    program_free(&run);
    program_run(&run, "inspect", "");
    expect_out(&run, "/palaver/models/es\\x1b[31mc\\x07\\x0ax.gguf (GGUF");
    program_free(&run);
    program_says("use|es\\x1b[31mc\\x07\\x0ay", "", 3, "did you mean es\\x1b[31mc\\x07\\x0ax?");
    // A file's own name will do, too.
    program_says("use|es\x1b[31mc\a\nx", "", 0, "es\\x1b[31mc\\x07\\x0ax is the default now");
    program_says("use|es\\x1b[31mc\\x07\\x0ax.gguf", "", 0, "es\\x1b[31mc\\x07\\x0ax is the default now");
    program_run(&run, "list|--names|es\x1b[31mc\a\nx", "");
    assert_string_equal(run.out, "es\\x1b[31mc\\x07\\x0ax\n");
    program_free(&run);
    // One that is called as another is shown is shown otherwise.
    stores_put(*state, "palaver/models/es\\x1b[31mc\\x07\\x0ax.gguf", GGUF);
    stores_put(*state, "palaver/models/ lead.gguf", GGUF);
    program_run(&run, "list|--names", "");
    expect_out(&run, "\nes\\x1b[31mc\\x07\\x0ax\n");
    expect_out(&run, "\nes\\x5cx1b[31mc\\x5cx07\\x5cx0ax\n");
    expect_out(&run, "\\x20lead\n");
    program_free(&run);
    program_says("use|es\\x5cx1b[31mc\\x5cx07\\x5cx0ax", "", 0,
                 "es\\x5cx1b[31mc\\x5cx07\\x5cx0ax is the default");
    program_says("use|es\\x1b[31mc\\x07\\x0ax", "", 0, "es\\x1b[31mc\\x07\\x0ax is the default");
    program_run(&run, "list|--json|es\\x1b", ""); // which of the two it is
    expect_out(&run, "es\\u001B[31mc\\u0007\\nx.gguf\"");
    expect_out(&run, "\"default\": true");
    program_free(&run);
    program_says("use|\\x20lead", "", 0, "\\x20lead is the default now");
    program_run(&run, "inspect", "");
    expect_out(&run, "/palaver/models/\\x20lead.gguf (GGUF");
    program_free(&run);
    // So do the chat's first line and its path.
    char target[4096];
    assert_non_null(realpath(BABBLER, target));
    assert_int_equal(symlink(target, stores_path(*state, "palaver/models/b\\x1bb")), 0);
    program_run(&run, "b\\x5cx1bb", "/model\n");
    expect_err(&run, "b\\x5cx1bb: llama, ");
    expect_err(&run, "/palaver/models/b\\x5cx1bb\n");
    program_free(&run);
}

// What cannot be used is no default.
static void test_use_of_what_cannot_be_used(void **state) {
    char path[4096];
    stores_put_text(*state, "palaver/models/junk.gguf", "junk");
    assert_int_equal(symlink("/nowhere/at-all.gguf", stores_path(*state, "palaver/models/broken.gguf")), 0);
    program_says("use|junk", "", 3, "junk cannot be the default: ");
    program_says("use|broken", "", 3, "broken cannot be the default: ");
    snprintf(path, sizeof path, "use|%s", stores_path(*state, "palaver/models/junk.gguf"));
    program_says(path, "", 3, "cannot be the default: ");
    char here[2048];
    snprintf(path, sizeof path, "%s/assets/parley-9m", getcwd(here, sizeof here));
    assert_int_equal(symlink(path, stores_path(*state, "m\xff")), 0);
    snprintf(path, sizeof path, "use|%s", stores_path(*state, "m\xff"));
    program_says(path, "", 1, "settings are UTF-8 and this name is not: rename it");
    snprintf(path, sizeof path, "%s", stores_path(*state, "palaver/default-model.toml"));
    assert_int_equal(access(path, F_OK), -1);
}

static void test_list_json(void **state) {
    Run run;
    stores_put_text(*state, "palaver/models/cut.gguf", "GGUF\3");
    stores_put_text(*state, "palaver/models/cu\xff.gguf", "GGUF\3");
    program_run(&run, "list|--json", "");
    expect_status(&run, 0);
    json_t *rows = json_loads(run.out, 0, NULL);
    assert_int_equal(json_array_size(rows), 16); // with the one that comes with palaver, and these
    json_t *odd = json_array_get(rows, 0), *cut = json_array_get(rows, 1), *one = json_array_get(rows, 2);
    assert_string_equal(json_string_value(json_object_get(cut, "name")), "cut");
    assert_true(json_is_false(json_object_get(cut, "fits")));
    assert_non_null(strstr(json_string_value(json_object_get(cut, "problem")), "damaged"));
    assert_string_equal(json_string_value(json_object_get(odd, "name")), "cu\\xff");
    const json_t *bytes = json_object_get(odd, "path"); // it is no UTF-8
    char *path = stores_path(*state, "palaver/models/cu\xff.gguf");
    assert_int_equal(json_array_size(bytes), strlen(path));
    for (size_t i = 0; path[i]; i++)
        assert_int_equal(json_integer_value(json_array_get(bytes, i)), (unsigned char)path[i]);
    assert_string_equal(json_string_value(json_object_get(one, "where")), "palaver");
    assert_true(json_is_true(json_object_get(one, "fits")));
    assert_true(json_integer_value(json_object_get(one, "parameters")) > 1000);
    assert_true(json_integer_value(json_object_get(one, "context")) > 0);
    assert_true(json_integer_value(json_object_get(one, "bytes")) > 1000);
    json_decref(rows);
    program_free(&run);
}

static void test_use(void **state) {
    char path[4096];
    Run run;
    program_says("use|quants", "", 2, "may mean 3 models");
    program_run(&run, "use|tiny-llama@old", "");
    expect_status(&run, 0);
    expect_err(&run, "acme/tiny-llama@old is the default now");
    program_free(&run);
    program_run(&run, "list|--json|tiny-llama", "");
    json_t *rows = json_loads(run.out, 0, NULL);
    assert_true(json_is_false(json_object_get(json_array_get(rows, 0), "default")));
    assert_true(json_is_true(json_object_get(json_array_get(rows, 1), "default")));
    json_decref(rows);
    program_free(&run);
    program_run(&run, "inspect", "");
    expect_out(&run, OTHER);
    program_free(&run);
    program_run(&run, "config", "");
    expect_out(&run, "default-model.toml:3");
    program_free(&run);
    stores_put_text(*state, "palaver/palaver.toml", "[model]\npath = \"one\"\n");
    program_run(&run, "use|two", "");
    expect_status(&run, 0);
    expect_err(&run, "palaver.toml:2 says model.path = \"one\", which counts more");
    program_free(&run);
    snprintf(path, sizeof path, "%s/palaver/palaver.toml", (char *)*state);
    assert_int_equal(unlink(path), 0);
    stores_put_text(*state, "palaver/default-model.toml", "[model]\npath = \"gone\"\n");
    program_says("inspect", "", 3, "the default model (model.path of ");
}

// What bash would offer for the line so far, one a line.
static void completes(const char *line, const char *expected) {
    char command[1000];
    Run run;
    snprintf(command, sizeof command,
             "bash -c '. assets/completion/palaver.bash; COMP_LINE=\"palaver %s\"; COMP_POINT=${#COMP_LINE}; "
             "COMP_WORDS=(palaver \"%s\"); COMP_CWORD=1; _palaver \"$PALAVER\"; printf \"%%s\\n\" "
             "\"${COMPREPLY[@]}\"'",
             line, line);
    program_shell(&run, command);
    assert_string_equal(run.out, expected);
    program_free(&run);
}

static void test_completion(void **state) {
    (void)state;
    completes("lmst", "lmstudio:acme/Phi-GGUF:Q4_0\n");
    completes("ollama:llama3.2:", "3b\nlatest\n");
    completes("li", "list\n");
    completes("--no-sa", "--no-save\n");
}

static void test_tab_in_the_chat(void **state) {
    (void)state;
    char **argv = program_words("tests/golden/babbler|--threads=1");
    Pty *pty = pty_start(&(PtyOptions){.argv = (const char *const *)argv});
    free(argv);
    pty_expect(pty, "> ");
    pty_send(pty, "/model acme/quants-GGUF:Q4\t");
    pty_expect_screen(pty, "/model acme/quants-GGUF:Q4_K_M");
    pty_end(pty);
}

#define test(name) cmocka_unit_test_setup_teardown(test_##name, stores_set_up, program_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(list),
        test(list_of_a_long_name),
        test(list_in_a_narrow_window),
        test(names_that_would_be_obeyed),
        test(use_of_what_cannot_be_used),
        test(list_json),
        test(use),
        test(completion),
        test(tab_in_the_chat),
    };
    return test_main("list of models", argc, argv, tests);
}
