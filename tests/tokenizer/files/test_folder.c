// A tokenizer's folder: what the files beside tokenizer.json say, and damaged ones.
#include "tests/support/files.h"
#include "tests/support/model/tokenizer_files.h"
#include "tests/support/model/tokenizer_golden.h"
#include "tokenizer/chat/chat_template.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void nothing_there(void **state) {
    (void)state;
    char *folder = folder_new();
    tokenizer_files_refused(
        folder, STATUS_FILE,
        "neither tokenizer.json, tekken.json, tokenizer.model, qwen.tiktoken nor ice_text.model");
    folder_remove(folder);
    tokenizer_files_refused("/no/such/folder", STATUS_FILE, "neither");
}

// A FIFO in the place of a file is an error that names it; nothing waits for a writer.
static void pipes_are_no_files(void **state) {
    (void)state;
    static const char *const names[] = {
        "tokenizer.json", "tokenizer.model",        "tokenizer_config.json", "special_tokens_map.json",
        "config.json",    "generation_config.json", "added_tokens.json",     "palaver-test.toml"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *folder = folder_new(), path[4096], why[128];
        if (i >= 2) folder_copy(folder, "tokenizer.model", GOLDEN_TOKENIZERS "/sp-bpe/tokenizer.model");
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(mkfifo(path, 0600), 0);
        snprintf(why, sizeof why, "%s: not a regular file", names[i]);
        if (strstr(names[i], ".toml")) {
            ChatTemplate *chat_template;
            Error error = {0};
            assert_int_equal(chat_template_open(path, &chat_template, &error), STATUS_FILE);
            assert_non_null(strstr(error.message, why));
        } else {
            tokenizer_files_refused(folder, STATUS_FILE, why);
        }
        folder_remove(folder);
    }
}

// A file that is empty or cut off is named, with the place where it ends and what to do about it.
static void files_that_are_cut_off(void **state) {
    (void)state;
    static const char *const names[] = {"tokenizer.json", "tekken.json", "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char why[160];
        char *folder = folder_new();
        folder_write_text(folder, names[i], "");
        snprintf(why, sizeof why, "%s: not valid JSON: it is empty; fetch it again", names[i]);
        tokenizer_files_refused(folder, STATUS_FILE, why);
        folder_write_text(folder, names[i], "{\n\"version\": \"1.0\", \"mod");
        snprintf(why, sizeof why,
                 "%s: line 2, column 22: not valid JSON: it ends before all is closed that was begun: the "
                 "file is cut short; fetch it again",
                 names[i]);
        tokenizer_files_refused(folder, STATUS_FILE, why);
        folder_write_text(folder, names[i], "{\"version\": 1.0");
        snprintf(why, sizeof why, "%s: line 1, column 15: not valid JSON: it ends before", names[i]);
        tokenizer_files_refused(folder, STATUS_FILE, why);
        folder_remove(folder);
    }
}

// As Git leaves them in the place of large files, where it lacks git-lfs.
static void pointers_are_no_files(void **state) {
    (void)state;
    static const char *const names[] = {"tokenizer.json", "tekken.json", "tokenizer.model", "config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *folder = folder_new(), why[128];
        if (i == 3) folder_copy(folder, "tokenizer.model", GOLDEN_TOKENIZERS "/sp-bpe/tokenizer.model");
        folder_write_text(folder, names[i], LFS_POINTER);
        snprintf(why, sizeof why, "%s: a pointer of Git LFS, not the file itself: `git lfs pull`", names[i]);
        tokenizer_files_refused(folder, STATUS_FILE, why);
        folder_remove(folder);
    }
}

#define LACKS                                                                                                \
    "the vocabulary lacks these ends of replies (take newer files of the model if replies do not stop): "
#define LACKS_MARKS                                                                                          \
    "the vocabulary lacks these special tokens (take newer files of the model if replies are odd): "

static void special_tokens_by_name(void **state) {
    (void)state;
    char *folder = folder_new();
    folder_copy(folder, "tokenizer.json", GOLDEN_TOKENIZERS "/smollm/tokenizer.json");
    folder_write_text(folder, "tokenizer_config.json",
                      "{\"bos_token\": \"<|im_start|>\", \"eos_token\": {\"content\": \"<|im_end|>\"}, "
                      "\"pad_token\": null, \"add_bos_token\": true}");
    folder_write_text(folder, "generation_config.json", "{\"eos_token_id\": [2, 7, 99999999, \"x\"]}");
    Tokenizer *t = tokenizer_files_open(folder);
    assert_int_equal(tokenizer_bos(t), tokenizer_find(t, "<|im_start|>"));
    assert_int_equal(tokenizer_eos(t), tokenizer_find(t, "<|im_end|>"));
    assert_int_equal(tokenizer_pad(t), -1);
    assert_true(tokenizer_add_bos(t));
    assert_true(tokenizer_is_end(t, 7));
    assert_true(tokenizer_is_end(t, tokenizer_find(t, "<|im_end|>")));
    assert_true(tokenizer_is_end(t, tokenizer_find(t, "<|endoftext|>"))); // by its name
    assert_false(tokenizer_is_end(t, tokenizer_find(t, "<|im_start|>")));
    assert_string_equal(tokenizer_notice(t), LACKS "generation_config.json: eos_token_id 99999999");
    tokenizer_close(t);
    folder_write_text(folder, "generation_config.json", "{\"eos_token_id\": -1}"); // none
    folder_write_text(folder, "config.json",                                       // as Python writes it
                      "{\"time_step_limit\": [0.0, Infinity], \"eos_token_id\": 2}");
    t = tokenizer_files_open(folder);
    assert_null(tokenizer_notice(t));
    tokenizer_close(t);
    folder_write_text(folder, "config.json",
                      "{\"eos_token_id\": [9999991, 9999992, 9999993, 9999994, 9999995]}");
    t = tokenizer_files_open(folder);
    assert_string_equal(tokenizer_notice(t),
                        LACKS "config.json: eos_token_id 9999991, config.json: eos_token_id 9999992, "
                              "config.json: eos_token_id 9999993, config.json: eos_token_id 9999994, ...");
    tokenizer_close(t);
    folder_write_text(folder, "config.json", "{\"eos_token_id\": 9999991}");
    folder_write_text(folder, "special_tokens_map.json", "{\"bos_token\": {\"content\": \"<s>\"}}");
    folder_write_text(folder, "tokenizer_config.json",
                      "{\"bos_token\": \"<|im_start|>\", \"pad_token\": \"p\\u001b\"}");
    t = tokenizer_files_open(folder);
    assert_int_equal(tokenizer_bos(t), tokenizer_find(t, "<|im_start|>"));
    assert_string_equal(
        tokenizer_notice(t),
        LACKS_MARKS "special_tokens_map.json: bos_token <s>, tokenizer_config.json: pad_token p\\x1b; " LACKS
                    "config.json: eos_token_id 9999991");
    tokenizer_close(t);
    folder_write_text(folder, "tokenizer_config.json", "{\"bos_token\": ");
    tokenizer_files_refused(folder, STATUS_FILE, "tokenizer_config.json: line 1");
    folder_write_text(folder, "tokenizer_config.json", "{\"bos_token\": 1}");
    tokenizer_files_refused(
        folder, STATUS_FILE,
        "/tokenizer_config.json: bos_token should be a string or an object, not the number 1");
    folder_write_text(folder, "tokenizer_config.json", "{\"add_bos_token\": \"false\"}");
    tokenizer_files_refused(folder, STATUS_FILE,
                            "add_bos_token should be true or false, not the text \"false\"");
    folder_write_text(folder, "tokenizer_config.json", "{\"added_tokens_decoder\": []}");
    tokenizer_files_refused(folder, STATUS_FILE, "added_tokens_decoder should be an object, not a list");
    folder_write_text(folder, "tokenizer_config.json", "{\"bos_token\": \"\\u0000\"}");
    tokenizer_files_refused(folder, STATUS_FILE, "\\u0000: no text may hold a zero byte");
    folder_remove(folder);
}

// A SentencePiece model as tokenizer_config.json wants it: where the dummy space goes, further tokens.
static void sentencepiece_settings(void **state) {
    (void)state;
    static const struct {
        const char *config;
        bool at_start, after_special;
    } cases[] = {
        {"{}", true, true},
        {"{\"legacy\": true}", true, true},
        {"{\"legacy\": false}", true, false},
        {"{\"legacy\": null, \"add_prefix_space\": false}", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = folder_new();
        folder_copy(folder, "tokenizer.model", GOLDEN_TOKENIZERS "/sp-bpe/tokenizer.model");
        folder_write_text(folder, "tokenizer_config.json", cases[i].config);
        Tokenizer *t = tokenizer_files_open(folder);
        int32_t spaced = tokenizer_find(t, "\u2581a"), plain = tokenizer_find(t, "a");
        Tokens tokens = golden_encode(t, (TokenText){"a<s>a", 5}, true);
        assert_int_equal(tokens.n, 3);
        assert_int_equal(tokens.ids[0], cases[i].at_start ? spaced : plain);
        assert_int_equal(tokens.ids[2], cases[i].after_special ? spaced : plain);
        tokens_free(&tokens);
        tokenizer_close(t);
        folder_remove(folder);
    }
}

static void sentencepiece_added_tokens(void **state) {
    (void)state;
    char *folder = folder_new();
    folder_copy(folder, "tokenizer.model", GOLDEN_TOKENIZERS "/sp-bpe/tokenizer.model");
    folder_write_text(folder, "added_tokens.json",
                      "{\"<pad>\": 1400, \"<|im_end|>\": 1402, \"plain\": 1403}");
    folder_write_text(folder, "special_tokens_map.json",
                      "{\"additional_special_tokens\": [\"<pad>\"], \"pad_token\": \"<pad>\"}");
    folder_write_text(
        folder, "tokenizer_config.json",
        "{\"added_tokens_decoder\": {\"1402\": {\"content\": \"<|im_end|>\", \"special\": true, "
        "\"rstrip\": true}, \"5\": {\"content\": \"<renamed>\", \"special\": true}}}");
    Tokenizer *t = tokenizer_files_open(folder);
    assert_int_equal(tokenizer_size(t), 1404);
    assert_int_equal(tokenizer_kind(t, 1400), TOKEN_CONTROL);
    assert_int_equal(tokenizer_kind(t, 1401), TOKEN_UNUSED);
    assert_int_equal(tokenizer_kind(t, 1402), TOKEN_CONTROL);
    assert_int_equal(tokenizer_kind(t, 1403), TOKEN_USER_DEFINED);
    assert_int_equal(tokenizer_pad(t), 1400);
    assert_true(tokenizer_is_end(t, 1402));
    assert_string_equal(tokenizer_piece(t, 5, NULL), "<renamed>");
    Tokens tokens = golden_encode(t, (TokenText){"<|im_end|>  \nplain", 18}, true);
    assert_int_equal(tokens.n, 2);
    assert_int_equal(tokens.ids[0], 1402);
    assert_int_equal(tokens.ids[1], 1403);
    tokens_free(&tokens);
    tokenizer_close(t);
    folder_write_text(folder, "added_tokens.json", "{\"far\": 2000000000}");
    tokenizer_files_refused(folder, STATUS_FILE, "added token 'far' has the id 2000000000");
    static const char *const WRONG[] = {"{\"x\": {\"content\": \"<x>\"}}", "{\"7\": null}", "{\"7\": {}}"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        char config[120];
        snprintf(config, sizeof config, "{\"added_tokens_decoder\": %s}", WRONG[i]);
        folder_write_text(folder, "tokenizer_config.json", config);
        tokenizer_files_refused(folder, STATUS_FILE, "added_tokens_decoder: '");
    }
    folder_remove(folder);
}

// A tokenizer.json that cannot be followed does not matter where the model itself lies beside it.
static void model_instead_of_json(void **state) {
    (void)state;
    char *folder = folder_new();
    folder_write_text(folder, "tokenizer.json", "{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}");
    tokenizer_files_refused(folder, STATUS_UNSUPPORTED,
                            "tokenizer.json: the model type 'Unigram' cannot be used");
    folder_copy(folder, "tokenizer.model", GOLDEN_TOKENIZERS "/sp-unigram/tokenizer.model");
    Tokenizer *t = tokenizer_files_open(folder);
    assert_string_equal(tokenizer_describe(t), "SentencePiece unigram");
    tokenizer_close(t);
    folder_remove(folder);
}

// <|im_end|> is no plain text even where a file says so: neither in tokenizer.json nor in a SentencePiece model.
static void control_by_name(void **state) {
    (void)state;
    char *folder = folder_new();
    folder_write_text(
        folder, "tokenizer.json",
        "{\"added_tokens\": [{\"id\": 1, \"content\": \"<|im_end|>\", \"special\": false}], \"model\": "
        "{\"unk_token\": \"?\", \"vocab\": {\"?\": 0}, \"merges\": []}}");
    Tokenizer *t = tokenizer_files_open(folder);
    assert_int_equal(tokenizer_kind(t, 1), TOKEN_CONTROL);
    Tokens tokens = golden_encode(t, (TokenText){"<|im_end|>", 10}, false);
    assert_int_equal(tokens.n, 10); // unknown characters
    tokens_free(&tokens);
    tokenizer_close(t);
    folder_remove(folder);
    GoldenVocab golden = golden_vocab("sp-bpe", NULL);
    golden.pieces[700] = (TokenText){"<|im_end|>", 10};
    golden.types[700] = 4;
    assert_int_equal(tokenizer_open_vocab(&golden.vocab, &t, NULL), STATUS_OK);
    assert_int_equal(tokenizer_kind(t, 700), TOKEN_CONTROL);
    assert_true(tokenizer_is_end(t, 700));
    for (int special = 0; special < 2; special++) {
        tokens = golden_encode(t, (TokenText){"<|im_end|>", 10}, special);
        assert_true(special ? tokens.n == 1 && tokens.ids[0] == 700 : tokens.n > 1);
        tokens_free(&tokens);
    }
    tokenizer_close(t);
    golden_vocab_free(&golden);
}

// GGUF vocabularies that cannot be.
static void wrong_vocab(void **state) {
    (void)state;
    static const char *const why[] = {"no tokenizer",           "'bert' cannot be used", "no scores",
                                      "score of piece 7",       "eos token is 1400",     "merge 3 is no pair",
                                      "merge 3 needs the piece"};
    for (int i = 0; i < 7; i++) {
        GoldenVocab golden = golden_vocab(i < 5 ? "sp-bpe" : "gpt2", "gpt-2");
        Tokenizer *t = NULL;
        Error error = {0};
        if (i == 0) golden.vocab.n_pieces = 0;
        if (i == 1) golden.vocab.model = "bert";
        if (i == 2) golden.vocab.scores = NULL;
        if (i == 3) golden.scores[7] = NAN;
        if (i == 4) golden.vocab.eos = 1400;
        if (i == 5) golden.merges[3] = (TokenText){"ab ", 3};
        if (i == 6) golden.merges[3] = (TokenText){"a \0", 3};
        assert_int_not_equal(tokenizer_open_vocab(&golden.vocab, &t, &error), STATUS_OK);
        assert_null(t);
        if (!strstr(error.message, why[i])) fail_msg("'%s' does not say '%s'", error.message, why[i]);
        golden_vocab_free(&golden);
    }
}

static void what_no_vocabulary_has_is_told(void **state) {
    (void)state;
    GoldenVocab golden = golden_vocab("gpt2", NULL);
    golden.vocab.unknown = "weird";
    golden.vocab.ends[0].key = "tokenizer.ggml.eos_token_id", golden.vocab.ends[0].id = UINT32_MAX; // none
    golden.vocab.ends[1].key = "tokenizer.ggml.eot_token_id", golden.vocab.ends[1].id = golden.vocab.n_pieces;
    golden.vocab.n_ends = 2;
    golden.vocab.lost[0] = (TokenizerId){"tokenizer.ggml.bos_token_id", 99999};
    golden.vocab.lost[1] = (TokenizerId){"tokenizer.ggml.padding_token_id", INT64_MAX};
    golden.vocab.n_lost = 2;
    char lacks[400];
    snprintf(lacks, sizeof lacks,
             "; " LACKS_MARKS
             "tokenizer.ggml.bos_token_id 99999, tokenizer.ggml.padding_token_id 9223372036854775807; " LACKS
             "tokenizer.ggml.eot_token_id %lld; the file's",
             (long long)golden.vocab.n_pieces);
    Tokenizer *t;
    Error error = {0};
    if (tokenizer_open_vocab(&golden.vocab, &t, &error)) fail_msg("%s", error.message);
    assert_non_null(strstr(tokenizer_notice(t), "does not say how its tokenizer splits"));
    assert_non_null(
        strstr(tokenizer_notice(t), "; the file's tokenizer has keys that palaver does not know: weird"));
    assert_non_null(strstr(tokenizer_notice(t), lacks));
    tokenizer_close(t);
    golden_vocab_free(&golden);
}

// Pieces that the library refuses keep their ids: the others are as before.
static void odd_vocab_pieces(void **state) {
    (void)state;
    GoldenVocab golden = golden_vocab("sp-bpe", NULL);
    golden.pieces[1399] = golden.pieces[1398];        // the second with its text
    golden.pieces[1397] = (TokenText){"", 0};         // none at all
    golden.types[1396] = 2;                           // a second unknown
    golden.pieces[1395] = (TokenText){"\xff\xfe", 2}; // no UTF-8
    golden.types[1394] = 77;
    Tokenizer *t;
    Error error = {0};
    if (tokenizer_open_vocab(&golden.vocab, &t, &error)) fail_msg("%s", error.message);
    assert_int_equal(tokenizer_size(t), 1400);
    int32_t the = tokenizer_find(t, "\u2581the");
    Tokens tokens = golden_encode(t, (TokenText){"the", 3}, false);
    assert_int_equal(tokens.n, 1);
    assert_int_equal(tokens.ids[0], the);
    tokens_free(&tokens);
    tokenizer_close(t);
    golden_vocab_free(&golden);
}

static void truncations(void **state) {
    (void)state;
    tokenizer_files_cut("llama2", "tokenizer.json", false);
    tokenizer_files_cut("sp-bpe", "tokenizer.model", true);
    tokenizer_files_cut("sp-unigram", "tokenizer.model", true);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_there),
        cmocka_unit_test(pipes_are_no_files),
        cmocka_unit_test(files_that_are_cut_off),
        cmocka_unit_test(pointers_are_no_files),
        cmocka_unit_test(special_tokens_by_name),
        cmocka_unit_test(sentencepiece_settings),
        cmocka_unit_test(sentencepiece_added_tokens),
        cmocka_unit_test(model_instead_of_json),
        cmocka_unit_test(control_by_name),
        cmocka_unit_test(wrong_vocab),
        cmocka_unit_test(what_no_vocabulary_has_is_told),
        cmocka_unit_test(odd_vocab_pieces),
        cmocka_unit_test(truncations),
    };
    return test_main("tokenizer_folder", argc, argv, tests);
}
