// Vocabularies of ranks, as tiktoken and tekken have them: wrong ones, odd ones, their special tokens.
#include "tests/support/files.h"
#include "tests/support/model/tokenizer_files.h"
#include "tests/support/model/tokenizer_golden.h"
#include "tests/support/test.h"

#include <string.h>

static void refuses_file(const char *name, const char *text, Status status, const char *why) {
    char *folder = folder_new();
    folder_write_text(folder, name, text);
    folder_write_text(folder, "tokenizer_config.json", "{\"tokenizer_class\": \"QWenTokenizer\"}");
    tokenizer_files_refused(folder, status, why);
    folder_remove(folder);
}

static void wrong_ranks(void **state) {
    (void)state;
    static const char NAME[] = "qwen.tiktoken";
    refuses_file(NAME, "AA== 0\nAQ== 1\nAg== 2\n", STATUS_FILE, "byte 3 has no piece");
    refuses_file(NAME, "AA== 0\nAQ== 1\nAA== 2\n", STATUS_FILE, "piece 2 is there twice");
    refuses_file(NAME, "AA== 0\nAQ== 3\nAg== 2\n", STATUS_FILE, "the rank 3 is beyond the 3 pieces");
    refuses_file(NAME, "AA== 0\nAQ= 1\n", STATUS_FILE, "piece 1 is no base64");
    refuses_file(NAME, "AA== 0\nAQ==\n", STATUS_FILE, "byte 7 begins no line of base64 and a rank");
    refuses_file(NAME, "", STATUS_FILE, "begins no line");
    char *folder = folder_new();
    folder_copy(folder, NAME, GOLDEN_TOKENIZERS "/qwen/qwen.tiktoken");
    tokenizer_files_refused(folder, STATUS_UNSUPPORTED, "the rule of the tokenizer_class '' is not known");
    folder_remove(folder);
    tokenizer_files_cut("tekken", "tekken.json", false);
}

static void wrong_tekken(void **state) {
    (void)state;
    static const char NAME[] = "tekken.json";
    refuses_file(NAME, "{}", STATUS_FILE, "tekken.json: there is no config.pattern, or no vocab");
    refuses_file(NAME,
                 "{\"config\": {\"pattern\": \"a\", \"default_vocab_size\": 9, "
                 "\"default_num_special_tokens\": 2}, \"vocab\": []}",
                 STATUS_FILE, "9 ids of which 2 are special do not suit a vocab of 0 pieces");
    refuses_file(NAME,
                 "{\"config\": {\"pattern\": \"(\", \"default_vocab_size\": 2, "
                 "\"default_num_special_tokens\": 1}, \"vocab\": [{}]}",
                 STATUS_UNSUPPORTED, "pattern");
    refuses_file(NAME, "{\"config\": {\"pattern\": \"a\\u0000\"}, \"vocab\": [{}]}", STATUS_FILE,
                 "tekken.json: config.pattern: \\u0000: no text may hold a zero byte");
    refuses_file(NAME,
                 "{\"config\": {\"pattern\": \"a\", \"default_vocab_size\": 2, "
                 "\"default_num_special_tokens\": 1}, \"vocab\": [{\"rank\": 0, \"token_bytes\": "
                 "\"AA==\\u0000\", \"token_str\": \"\\u0000\"}]}",
                 STATUS_FILE, "piece 0: token_bytes: \\u0000: no text may hold a zero byte");
}

// A copy of the golden tekken.json in which `to`, of the same length, stands for `from`; folder_remove() it.
static char *changed_tekken(const char *from, const char *to) {
    static const char NAME[] = "tekken.json";
    Bytes bytes = bytes_of_file(GOLDEN_TOKENIZERS "/tekken/tekken.json");
    uint8_t *at = memmem(bytes.data, bytes.size, from, strlen(from));
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    for (size_t i = 0; to[i] != '\0'; i++) at[i] = (uint8_t)to[i];
    char *folder = folder_new();
    folder_write(folder, NAME, bytes.data, bytes.size);
    bytes_free(&bytes);
    return folder;
}

// One text is one id, and keys that palaver does not know are told.
static void odd_tekken(void **state) {
    (void)state;
    char *folder = changed_tekken("\"[INST]\"", "\"[/INST\"");
    Tokenizer *t;
    Error error = {0};
    if (tokenizer_open_folder(folder, &t, &error)) fail_msg("%s", error.message);
    assert_null(tokenizer_notice(t));
    tokenizer_close(t);
    folder_remove(folder);
    folder = changed_tekken("\"<unk>\"", "\"</s>\" ");
    tokenizer_files_refused(folder, STATUS_FILE, "the special token '</s>' has two ids, the second is 2");
    folder_remove(folder);
    folder = changed_tekken("\"[INST]\"", "\"\\u0000\"");
    tokenizer_files_refused(folder, STATUS_FILE, "special token 3: token_str: \\u0000: no text may hold a");
    folder_remove(folder);
    folder = changed_tekken("\"num_vocab_tokens\":1000", "\"\\u0000\":1,\"num_v\":1000");
    tokenizer_files_refused(folder, STATUS_FILE, ": \\u0000: no text may hold a zero byte");
    folder_remove(folder);
    folder = changed_tekken("\"num_vocab_tokens\":1000", "\"\\u001b[31m\":1,\"type\":2");
    if (tokenizer_open_folder(folder, &t, &error)) fail_msg("%s", error.message);
    assert_string_equal(tokenizer_notice(t),
                        "tekken.json has keys that palaver does not know: config.\\x1b[31m, config.type");
    tokenizer_close(t);
    folder_remove(folder);
}

// What is spelled like a special token is text where a person wrote it, and the tokens are named all the same.
static void special_tokens_of_tekken(void **state) {
    (void)state;
    Tokenizer *tokenizer = golden_open("tekken");
    assert_int_equal(tokenizer_bos(tokenizer), 1);
    assert_int_equal(tokenizer_eos(tokenizer), 2);
    assert_int_equal(tokenizer_pad(tokenizer), 11);
    assert_true(tokenizer_add_bos(tokenizer));
    assert_true(tokenizer_is_end(tokenizer, 2));
    assert_string_equal(tokenizer_piece(tokenizer, 20, NULL), "[THINK]");
    assert_string_equal(tokenizer_piece(tokenizer, 39, NULL), "<SPECIAL_39>");
    assert_int_equal(tokenizer_kind(tokenizer, 39), TOKEN_CONTROL);
    assert_string_equal(tokenizer_describe(tokenizer), "byte-level BPE, tekken v7");
    Tokens tokens = golden_encode(tokenizer, (TokenText){"[INST]", 6}, false);
    for (int64_t i = 0; i < tokens.n; i++)
        assert_int_equal(tokenizer_kind(tokenizer, tokens.ids[i]), TOKEN_NORMAL);
    tokens_free(&tokens);
    tokenizer_close(tokenizer);
    tokenizer = golden_open("qwen");
    assert_true(tokenizer_is_end(tokenizer, tokenizer_find(tokenizer, "<|im_end|>")));
    assert_int_equal(tokenizer_eos(tokenizer), tokenizer_find(tokenizer, "<|endoftext|>"));
    assert_int_equal(tokenizer_bos(tokenizer), -1);
    tokenizer_close(tokenizer);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_ranks),
        cmocka_unit_test(wrong_tekken),
        cmocka_unit_test(odd_tekken),
        cmocka_unit_test(special_tokens_of_tekken),
    };
    return test_main("tokenizer_ranks", argc, argv, tests);
}
