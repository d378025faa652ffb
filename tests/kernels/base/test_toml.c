// The tree that a TOML text becomes, and how deep it may be.
#include "tests/support/test.h"

#include "kernels/base/text/toml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Error error;

static void toml_tree(void **state) {
    (void)state;
    const char *text = "b = [1, 2.5, 'x']\na = {k = true}\nd = 1979-05-27\ns = \"nul\\u0000in\"\n";
    TomlNode *root;
    assert_int_equal(toml_parse("t", text, strlen(text), &root, &error), STATUS_OK);
    assert_int_equal(root->n_children, 4);
    const TomlNode *b = &root->children[0];
    assert_string_equal(b->key, "b");
    assert_int_equal(b->n_children, 3);
    assert_int_equal(b->children[1].line, 1);
    assert_int_equal(b->children[1].column, 9);
    assert_true(b->children[1].number == 2.5 && b->children[0].integer == 1 && b->children[0].number == 1);
    assert_true(toml_child(toml_child(root, "a"), "k")->boolean);
    assert_int_equal(toml_child(root, "d")->type, TOML_DATE);
    assert_int_equal(toml_child(root, "s")->length, 6);
    assert_null(toml_child(root, "nothing"));
    toml_free(root);
    assert_int_equal(toml_parse("t", "\"a\\u0000b\" = 1", 14, &root, &error), STATUS_FILE);
    assert_null(root);
    assert_int_equal(toml_parse("t", "a = \"\xff\"", 7, &root, &error), STATUS_FILE);
    assert_int_equal(toml_parse("t",
                                "\xff\xfe"
                                "a\0",
                                4, &root, &error),
                     STATUS_FILE);
    assert_string_equal(error.message, "t: this is UTF-16: save it as UTF-8");
}

static void toml_depth_is_bounded(void **state) {
    (void)state;
    size_t size = 600000;
    char *text = malloc(size + 1);
    TomlNode *root;
    for (int kind = 0; kind < 4; kind++) {
        for (size_t i = 0; i < size; i++) text[i] = "a.[[{a=a."[kind * 2 + (kind == 2 ? i % 3 : i % 2)];
        text[size] = 0;
        assert_int_equal(toml_parse("t", text, size, &root, &error), STATUS_FILE);
    }
    // Dots that are not depth: in strings, comments and numbers.
    for (size_t i = 0; i < 300; i++) text[i] = '.';
    text[300] = 0;
    char *document = NULL;
    assert_true(asprintf(&document,
                         "# %s\na = \"%s\\\"%s\"\nb = '''%s\n%s'''\nc = \"\"\"\n%s\"\"\"\"\"\nd = 'ü'\n",
                         text, text, text, text, text, text) > 0);
    assert_int_equal(toml_parse("t", document, strlen(document), &root, &error), STATUS_OK);
    toml_free(root);
    free(document);
    size_t n = (size_t)sprintf(text, "a = {");
    for (int i = 0; i < 300; i++) n += (size_t)sprintf(text + n, "%s\"%d\" = 0.5", i ? ", " : "", i);
    n += (size_t)sprintf(text + n, "}\nb = [");
    for (int i = 0; i < 300; i++) n += (size_t)sprintf(text + n, "0.5, ");
    n += (size_t)sprintf(text + n, "]\n");
    if (toml_parse("t", text, n, &root, &error)) fail_msg("%s", error.message);
    assert_int_equal(toml_child(root, "a")->n_children, 300);
    toml_free(root);
    for (int kind = 0; kind < 2; kind++) { // a key's parts are within those of the tables around it
        n = (size_t)sprintf(text, "a = ");
        for (int i = 0; i < 100; i++) {
            n += (size_t)sprintf(text + n, "{a");
            for (int part = 0; part < 60; part++) n += (size_t)sprintf(text + n, ".a");
            n += (size_t)sprintf(text + n, kind ? "=[\n" : "=");
        }
        n += (size_t)sprintf(text + n, "1");
        for (int i = 0; i < 100; i++) n += (size_t)sprintf(text + n, kind ? "]}" : "}");
        assert_int_equal(toml_parse("t", text, n, &root, &error), STATUS_FILE);
        assert_non_null(strstr(error.message, ": not valid TOML: a key with more than 64 parts"));
    }
    free(text);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toml_tree),
        cmocka_unit_test(toml_depth_is_bounded),
    };
    return test_main("toml", argc, argv, tests);
}
