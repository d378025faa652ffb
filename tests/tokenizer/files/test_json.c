// A tokenizer.json that is wrong, or odd but allowed.
#include "tests/support/files.h"
#include "tests/support/model/tokenizer_files.h"
#include "tests/support/model/tokenizer_golden.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuses_json(const char *json, Status status, const char *why) {
    char *folder = folder_new();
    folder_write_text(folder, "tokenizer.json", json);
    tokenizer_files_refused(folder, status, why);
    folder_remove(folder);
}

#define MODEL(rest) "{\"model\": {\"type\": \"BPE\", " rest "}}"
#define VOCAB "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}"
#define LEVEL "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
#define AROUND(rest) "{" rest ", \"model\": {\"type\": \"BPE\", " VOCAB ", \"merges\": []}}"
#define SPLIT(pattern)                                                                                       \
    AROUND("\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": "  \
           "\"" pattern "\"}}")

static void wrong_json(void **state) {
    (void)state;
    static const struct {
        const char *json;
        Status status;
        const char *why;
    } cases[] = {
        {"", STATUS_FILE, "tokenizer.json: not valid JSON: it is empty; fetch it again"},
        {"[]", STATUS_UNSUPPORTED, "model type ''"},
        {"{\"model\": 7}", STATUS_UNSUPPORTED, "model type"},
        {MODEL("\"vocab\": []"), STATUS_FILE, "no vocab or no merges"},
        {MODEL("\"vocab\": {}, \"merges\": []"), STATUS_FILE, "vocabulary of 0 pieces"},
        {MODEL("\"vocab\": {\"a\": -1}, \"merges\": []"), STATUS_FILE, "piece 'a' has the id -1"},
        {MODEL("\"vocab\": {\"a\": 0.5}, \"merges\": []"), STATUS_FILE, "piece 'a'"},
        {MODEL("\"vocab\": {\"a\": 2147483647}, \"merges\": []"), STATUS_FILE, "id 2147483647"},
        {MODEL("\"vocab\": {\"a\": 9223372036854775807}, \"merges\": []"), STATUS_FILE,
         "id 9223372036854775807"},
        {MODEL(VOCAB ", \"merges\": [\"a c\"]"), STATUS_FILE, "merge 0 needs the piece 'c'"},
        {MODEL(VOCAB ", \"merges\": [\"a b\", [\"b\", \"a\"]]"), STATUS_FILE, "merge 1 needs the piece 'ba'"},
        {MODEL(VOCAB ", \"merges\": [\"ab\"]"), STATUS_FILE, "merge 0 is no pair"},
        {MODEL(VOCAB ", \"merges\": [[\"a\"]]"), STATUS_FILE, "merge 0 is no pair"},
        {MODEL(VOCAB ", \"merges\": [\"a b c\"]"), STATUS_FILE, "merge 0 is no pair"},
        {MODEL(VOCAB ", \"merges\": [[1, 2]]"), STATUS_FILE, "merge 0 is no pair"},
        {MODEL(VOCAB ", \"merges\": [], \"unk_token\": \"<unk>\""), STATUS_FILE,
         "unknown token '<unk>' is no piece"},
        {MODEL(VOCAB ", \"merges\": [], \"end_of_word_suffix\": \"</w>\""), STATUS_UNSUPPORTED,
         "end_of_word_suffix"},
        {MODEL(VOCAB ", \"merges\": [], \"dropout\": 0.1"), STATUS_UNSUPPORTED, "dropout"},
        {AROUND("\"normalizer\": {\"type\": \"Lowercase\"}"), STATUS_UNSUPPORTED, "normalizer 'Lowercase'"},
        {AROUND(
             "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a\"}, \"content\": \"\"}"),
         STATUS_UNSUPPORTED, "normalizer Replace"},
        {AROUND("\"pre_tokenizer\": {\"type\": \"Whitespace\"}"), STATUS_UNSUPPORTED,
         "pre-tokenizer 'Whitespace'"},
        {AROUND("\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Sideways\"}"), STATUS_UNSUPPORTED,
         "'Sideways'"},
        {AROUND("\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\"}"), STATUS_UNSUPPORTED,
         "Metaspace"},
        {SPLIT("a(b"), STATUS_UNSUPPORTED, "'a(b' cannot be used"},
        {SPLIT("[a&&b]"), STATUS_UNSUPPORTED, "intersection"},
        {SPLIT("[a[^b]]"), STATUS_UNSUPPORTED, "class within a class"},
        {SPLIT("[a[]b]]"), STATUS_UNSUPPORTED, "class within a class"},
        {SPLIT("[a[b[c]]]"), STATUS_UNSUPPORTED, "class within a class"},
        {SPLIT("[a-[b]]"), STATUS_UNSUPPORTED, "class within a class"},
        {SPLIT("[[a]-b]"), STATUS_UNSUPPORTED, "class within a class"},
        {SPLIT("[a["), STATUS_UNSUPPORTED, "class within a class"},
        {SPLIT("a{1,3}+"), STATUS_UNSUPPORTED, "{…}+"},
        {SPLIT("(?R)"), STATUS_UNSUPPORTED, "unusual group"},
        {SPLIT("(*COMMIT)a"), STATUS_UNSUPPORTED, "verb"},
        {SPLIT("\\\\C"), STATUS_UNSUPPORTED, "\\C"},
        {SPLIT("\\\\p{Klingon}"), STATUS_UNSUPPORTED, "cannot be used"},
        {SPLIT("\\\\"), STATUS_UNSUPPORTED, "backslash"},
        {SPLIT(""), STATUS_UNSUPPORTED, "0 bytes"},
        {AROUND("\"added_tokens\": [{\"id\": 1000000, \"content\": \"x\"}]"), STATUS_FILE,
         "piece 'x' has the id 1000000"},
        {AROUND("\"added_tokens\": [{\"id\": 3, \"content\": \"\"}]"), STATUS_FILE,
         "added token 3 has no text"},
        {AROUND("\"added_tokens\": [7]"), STATUS_FILE, "has the id -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses_json(cases[i].json, cases[i].status, cases[i].why);
}

// Arrays in arrays, a million deep, end in an error and not in the stack.
static void deep_json(void **state) {
    (void)state;
    size_t n = 1000000;
    char *deep = malloc(n + 1);
    memset(deep, '[', n);
    deep[n] = 0;
    refuses_json(deep, STATUS_FILE, "line 1");
    free(deep);
    Bytes nested = {0};
    bytes_text(&nested, "{\"pre_tokenizer\": ");
    for (int i = 0; i < 60; i++) bytes_text(&nested, "{\"type\": \"Sequence\", \"pretokenizers\": [");
    for (int i = 0; i < 60; i++) bytes_text(&nested, "]}");
    bytes_text(&nested, ", \"model\": {\"type\": \"BPE\", " VOCAB ", \"merges\": []}}");
    bytes_zeros(&nested, 1);
    refuses_json((const char *)nested.data, STATUS_UNSUPPORTED, "'Sequence'");
    bytes_free(&nested);
}

// A pattern that backtracks without end is stopped; the tokenizer stays usable.
static void endless_pattern(void **state) {
    (void)state;
    char *folder = folder_new();
    folder_write_text(folder, "tokenizer.json", SPLIT("(?:a+)+[bc]"));
    Tokenizer *t = tokenizer_files_open(folder);
    Tokens tokens = {0};
    Error error = {0};
    char text[64];
    memset(text, 'a', sizeof text);
    assert_int_equal(tokens_push(&tokens, 1, NULL), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, text, sizeof text, false, &tokens, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "split pattern of the tokenizer fails on this text"));
    assert_int_equal(tokens.n, 1); // as it was
    assert_int_equal(tokenizer_encode(t, "ab", 2, false, &tokens, &error), STATUS_OK);
    assert_int_equal(tokens.n, 3);
    tokens_free(&tokens);
    tokenizer_close(t);
    folder_remove(folder);
}

// What the packages take, palaver takes, and a byte order mark: a pair listed twice, merges that lead nowhere, two texts for an id.
static void odd_but_allowed(void **state) {
    (void)state;
    char *folder = folder_new();
    folder_write_text(
        folder, "tokenizer.json",
        "\xef\xbb\xbf{\"added_tokens\": [{\"id\": 2, \"content\": \"<x>\", \"special\": true}], \"model\": "
        "{\"vocab\": "
        "{\"a\": 0, \"b\": 1, \"ab\": 2, \"ba\": 3}, \"merges\": [\"b a\", \"a b\", \"b a\"]}}");
    folder_write_text(folder, "tokenizer_config.json", "\xef\xbb\xbf{}");
    Tokenizer *t = tokenizer_files_open(folder);
    Tokens tokens = golden_encode(t, (TokenText){"aba", 3}, false);
    assert_int_equal(tokens.n, 2);
    assert_int_equal(tokens.ids[0], 2); // "a b" comes before the second "b a"
    assert_string_equal(tokenizer_piece(t, 2, NULL), "<x>");
    tokens_free(&tokens);
    tokenizer_close(t);
    folder_remove(folder);
}

static void expect_ids(const char *config, const char *text, const char *expected) {
    char *folder = folder_new(), ids[200] = "";
    folder_copy(folder, "tokenizer.json", GOLDEN_TOKENIZERS "/gpt2/tokenizer.json");
    folder_write_text(folder, "tokenizer_config.json", config);
    Tokenizer *t = tokenizer_files_open(folder);
    Tokens tokens = golden_encode(t, (TokenText){text, strlen(text)}, true);
    for (int64_t i = 0; i < tokens.n; i++) {
        const int32_t id = tokens.ids[i];
        snprintf(ids + strlen(ids), sizeof ids - strlen(ids), id < 1000 ? "%s%s" : "%s[%s]", i ? "|" : "",
                 tokenizer_piece(t, id, NULL));
    }
    assert_string_equal(ids, expected);
    tokens_free(&tokens);
    tokenizer_close(t);
    folder_remove(folder);
}

// transformers takes what tokenizer_config.json says of added tokens and, in classes of its own, of the space before a text.
static void config_beside(void **state) {
    (void)state;
#define DECODER(entry) "{\"added_tokens_decoder\": {" entry "}}"
    static const char TEXT[] = "x <keep> <new> y##";
    expect_ids("{}", TEXT, "x|[<keep>]|<|ne|w|>|\xc4\xa0|y|#|#");
    expect_ids(DECODER("\"1003\": {\"content\": \"<new>\", \"lstrip\": true}"), TEXT,
               "x|[<keep>]|[<new>]|\xc4\xa0|y|#|#");
    expect_ids(DECODER("\"1001\": {\"content\": \"<keep>\", \"lstrip\": true, \"normalized\": true}"), TEXT,
               "x|[<keep>]|\xc4\xa0<|ne|w|>|\xc4\xa0|y|#|#");
    expect_ids(DECODER("\"1002\": {\"content\": \"##\", \"single_word\": false}"), TEXT,
               "x|[<keep>]|<|ne|w|>|\xc4\xa0|y|[##]");
    expect_ids("{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_prefix_space\": true}", "a",
               "\xc4\xa0"
               "a");
    expect_ids("{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"add_prefix_space\": true}", "a", "a");
    static const struct {
        const char *config, *why;
    } WRONG[] = {{DECODER("\"1007\": {\"content\": \"<new>\"}"),
                  "added_tokens_decoder: '<new>' has the id 1007, but is not in tokenizer.json, and "
                  "transformers would give it 1003"},
                 {DECODER("\"x\": {\"content\": \"<new>\"}"), "'x' should be an id"},
                 {DECODER("\"7\": {}"), "'7' should be an id"}};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        char *folder = folder_new();
        folder_copy(folder, "tokenizer.json", GOLDEN_TOKENIZERS "/gpt2/tokenizer.json");
        folder_write_text(folder, "tokenizer_config.json", WRONG[i].config);
        tokenizer_files_refused(folder, i ? STATUS_FILE : STATUS_UNSUPPORTED, WRONG[i].why);
        folder_remove(folder);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_json),      cmocka_unit_test(config_beside),   cmocka_unit_test(deep_json),
        cmocka_unit_test(endless_pattern), cmocka_unit_test(odd_but_allowed),
    };
    return test_main("tokenizer_json", argc, argv, tests);
}
