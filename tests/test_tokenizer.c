// Ids against the tokenizers and sentencepiece packages, and what holds for every text.
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/tokenizer_golden.h"

static bool contains(TokenText text, const char *part) {
    return memmem(text.text, text.size, part, strlen(part));
}

// ---- ids identical to the packages ------------------------------------------------------------------------------

static void print_text(TokenText text) {
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.text[i];
        if (c >= 0x20 && c < 0x7F && c != '\\')
            fputc(c, stderr);
        else
            fprintf(stderr, "\\x%02X", c);
    }
}

// The first ids of a text as the package gives them, where they are recorded as text.
static void print_expected(const char *name, int64_t index) {
    char path[256], line[8192];
    snprintf(path, sizeof path, GOLDEN_TOKENIZERS "/%s/ids.txt", name);
    FILE *file = fopen(path, "r");
    for (int64_t i = 0; file && fgets(line, sizeof line, file); i++) {
        if (i == index) fprintf(stderr, "   expected: %s", line);
    }
    if (file) fclose(file);
}

static void print_difference(const char *name, int64_t index, TokenText text, const Tokens *tokens) {
    fprintf(stderr, "%s: text %lld '", name, (long long)index);
    print_text(text);
    fprintf(stderr, "'\n   ids:     ");
    for (int64_t i = 0; i < tokens->n; i++) fprintf(stderr, " %d", tokens->ids[i]);
    fprintf(stderr, "\n");
    print_expected(name, index);
}

// Encodes every text that the recording has and compares. Texts with any of the words in `skip` (NULL-terminated)
// are left out.
static void check_ids(const Tokenizer *tokenizer, const char *name, const char *const *skip) {
    GoldenTexts texts = golden_texts();
    char path[256];
    size_t size;
    snprintf(path, sizeof path, GOLDEN_TOKENIZERS "/%s/ids.bin", name);
    char *recorded = golden_read(path, &size);
    int64_t n = (int64_t)(size / 4), compared = 0, wrong = 0;
    assert_true(n == texts.n || n == texts.n_valid);
    for (int64_t i = 0; i < n; i++) {
        uint32_t expected;
        bool skipped = false;
        memcpy(&expected, recorded + 4 * i, sizeof expected);
        for (const char *const *word = skip; word && *word; word++)
            skipped |= contains(texts.texts[i], *word);
        if (skipped || expected == 0) continue;
        Tokens tokens = golden_encode(tokenizer, texts.texts[i], false);
        compared++;
        if (golden_hash(&tokens) != expected && wrong++ < 5)
            print_difference(name, i, texts.texts[i], &tokens);
        tokens_free(&tokens);
    }
    free(recorded);
    golden_texts_free(&texts);
    if (wrong) fail_msg("%s: %lld of %lld texts differ", name, (long long)wrong, (long long)compared);
    assert_true(compared > 10000);
}

static void check_folder(const char *name) {
    Tokenizer *tokenizer = golden_open(name);
    check_ids(tokenizer, name, NULL);
    tokenizer_close(tokenizer);
}

static void check_vocab(const char *name, const char *pre, const char *const *skip) {
    GoldenVocab golden = golden_vocab(name, pre);
    Tokenizer *tokenizer;
    Error error = {0};
    if (tokenizer_open_vocab(&golden.vocab, &tokenizer, &error)) fail_msg("%s: %s", name, error.message);
    golden_vocab_free(&golden); // nothing is borrowed any more
    assert_null(tokenizer_notice(tokenizer));
    check_ids(tokenizer, name, skip);
    tokenizer_close(tokenizer);
}

// What a GGUF file does not say: that these two have lstrip, rstrip and single_word.
static const char *const with_flags[] = {"<keep>", "##", NULL};

static void ids_gpt2(void **state) {
    (void)state, check_folder("gpt2");
}
static void ids_smollm(void **state) {
    (void)state, check_folder("smollm");
}
static void ids_llama3(void **state) {
    (void)state, check_folder("llama3");
}
static void ids_qwen2(void **state) {
    (void)state, check_folder("qwen2");
}
static void ids_llama2(void **state) {
    (void)state, check_folder("llama2");
}
static void ids_mistral(void **state) {
    (void)state, check_folder("mistral");
}
static void ids_sp_bpe(void **state) {
    (void)state, check_folder("sp-bpe");
}
static void ids_sp_unigram(void **state) {
    (void)state, check_folder("sp-unigram");
}
static void ids_vocab_gpt2(void **state) {
    (void)state, check_vocab("gpt2", "gpt-2", with_flags);
}
static void ids_vocab_smollm(void **state) {
    (void)state, check_vocab("smollm", "smollm", with_flags);
}
static void ids_vocab_llama3(void **state) {
    (void)state, check_vocab("llama3", "llama-bpe", with_flags);
}
static void ids_vocab_qwen2(void **state) {
    (void)state, check_vocab("qwen2", "qwen2", with_flags);
}
static void ids_vocab_sp_bpe(void **state) {
    (void)state, check_vocab("sp-bpe", NULL, NULL);
}
static void ids_vocab_sp_unigram(void **state) {
    (void)state, check_vocab("sp-unigram", NULL, NULL);
}

// ---- there and back ---------------------------------------------------------------------------------------------

// decode(encode(text)) == text for the first n texts that hold none of the words in `skip`.
static void check_round_trip(const char *name, bool broken_too, const char *const *skip) {
    GoldenTexts texts = golden_texts();
    Tokenizer *tokenizer = golden_open(name);
    for (int64_t i = 0; i < (broken_too ? texts.n : texts.n_valid); i++) {
        TokenText text = texts.texts[i];
        bool skipped = false;
        for (const char *const *word = skip; *word; word++) skipped |= contains(text, *word);
        if (skipped) continue;
        Tokens tokens = golden_encode(tokenizer, text, false);
        char *back;
        size_t size;
        assert_int_equal(tokenizer_decode(tokenizer, tokens.ids, tokens.n, false, &back, &size, NULL),
                         STATUS_OK);
        if (size != text.size || memcmp(back, text.text, size) != 0) {
            print_difference(name, i, text, &tokens);
            fail_msg("text %lld does not come back", (long long)i);
        }
        for (int64_t k = 0; k < tokens.n; k++)
            assert_int_not_equal(tokenizer_kind(tokenizer, tokens.ids[k]), TOKEN_CONTROL);
        free(back);
        tokens_free(&tokens);
    }
    tokenizer_close(tokenizer);
    golden_texts_free(&texts);
}

static void round_trip(void **state) {
    (void)state;
    static const char *const strips[] = {"<keep>", NULL}; // takes the space before it along
    static const char *const spaces[] = {"\u2581", "<keep>", NULL};
    check_round_trip("gpt2", true, strips);
    check_round_trip("smollm", true, strips);
    check_round_trip("llama3", true, strips);
    check_round_trip("llama2", true, spaces);
    check_round_trip("sp-bpe", false, spaces);
}

// ---- special tokens -----------------------------------------------------------------------------------------------

static void assert_ids(const Tokens *tokens, const int32_t *ids, int64_t n) {
    assert_int_equal(tokens->n, n);
    assert_memory_equal(tokens->ids, ids, (size_t)n * sizeof *ids);
}

static void special_only_where_marked(void **state) {
    (void)state;
    Tokenizer *t = golden_open("smollm");
    int32_t start = tokenizer_find(t, "<|im_start|>"), end = tokenizer_find(t, "<|im_end|>");
    assert_int_equal(tokenizer_kind(t, start), TOKEN_CONTROL);
    const TokenText text = {"<|im_end|>", 10};
    Tokens tokens = golden_encode(t, text, true);
    assert_ids(&tokens, &end, 1);
    tokens_free(&tokens);
    tokens = golden_encode(t, text, false);
    assert_true(tokens.n > 1);
    tokens_free(&tokens);
    // Across spans: literals join, but never with what a person typed.
    const TextSpan spans[] = {{"<|im_", 5, true},  {"start|>", 7, true}, {"<|im_end|>", 10, false},
                              {"<|im_", 5, false}, {"end|>", 5, true},   {"<|im_end|>", 10, true}};
    assert_int_equal(tokenizer_encode_spans(t, spans, 6, false, &tokens, NULL), STATUS_OK);
    assert_int_equal(tokens.ids[0], start);
    assert_int_equal(tokens.ids[tokens.n - 1], end);
    for (int64_t i = 1; i < tokens.n - 1; i++)
        assert_int_not_equal(tokenizer_kind(t, tokens.ids[i]), TOKEN_CONTROL);
    tokens_free(&tokens);
    tokenizer_close(t);
}

static void merges_cross_spans(void **state) {
    (void)state;
    Tokenizer *t = golden_open("gpt2");
    const TextSpan spans[] = {{"wat", 3, true}, {"", 0, false}, {"er peo", 6, false}, {"ple", 3, true}};
    Tokens whole = golden_encode(t, (TokenText){"water people", 12}, false), parts = {0};
    assert_int_equal(tokenizer_encode_spans(t, spans, 4, false, &parts, NULL), STATUS_OK);
    assert_ids(&parts, whole.ids, whole.n);
    tokens_free(&whole);
    tokens_free(&parts);
    tokenizer_close(t);
}

// "▁a" or "a" first, after BOS, and in the middle of a sequence.
static void check_dummy_space(const char *name, bool first, bool after_special, bool continues) {
    Tokenizer *t = golden_open(name);
    int32_t spaced = tokenizer_find(t, "\u2581a"), plain = tokenizer_find(t, "a"), bos = tokenizer_bos(t);
    assert_int_equal(bos, 1);
    Tokens tokens = golden_encode(t, (TokenText){"a", 1}, true);
    assert_int_equal(tokens.ids[0], first ? spaced : plain);
    char *back;
    size_t size;
    assert_int_equal(tokenizer_decode(t, tokens.ids, tokens.n, false, &back, &size, NULL), STATUS_OK);
    assert_string_equal(back, "a");
    free(back);
    tokens_free(&tokens);
    tokens = golden_encode(t, (TokenText){"<s>a", 4}, true);
    const int32_t with_bos[] = {bos, after_special ? spaced : plain};
    assert_ids(&tokens, with_bos, 2);
    assert_int_equal(tokenizer_decode(t, tokens.ids, tokens.n, true, &back, &size, NULL), STATUS_OK);
    assert_string_equal(back, "<s>a");
    free(back);
    tokens_free(&tokens);
    const TextSpan span = {"a", 1, false};
    assert_int_equal(tokenizer_encode_spans(t, &span, 1, true, &tokens, NULL), STATUS_OK);
    assert_int_equal(tokens.ids[0], continues ? spaced : plain);
    tokens_free(&tokens);
    tokenizer_close(t);
}

static void dummy_space(void **state) {
    (void)state;
    check_dummy_space("llama2", true, true, true);    // Prepend
    check_dummy_space("mistral", true, false, false); // Metaspace, first
    check_dummy_space("sp-bpe", true, true, true);    // tokenizer.model, legacy
}

static void facts(void **state) {
    (void)state;
    Tokenizer *t = golden_open("sp-bpe");
    size_t size;
    assert_int_equal(tokenizer_size(t), 1400);
    assert_string_equal(tokenizer_describe(t), "SentencePiece BPE");
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(tokenizer_eos(t), 2);
    assert_int_equal(tokenizer_unk(t), 0);
    assert_int_equal(tokenizer_pad(t), -1);
    assert_true(tokenizer_add_bos(t));
    assert_false(tokenizer_add_eos(t));
    assert_true(tokenizer_is_end(t, 2));
    assert_false(tokenizer_is_end(t, 1));
    assert_false(tokenizer_is_end(t, -1));
    assert_false(tokenizer_is_end(t, 1400));
    assert_int_equal(tokenizer_kind(t, 0), TOKEN_UNKNOWN);
    assert_int_equal(tokenizer_kind(t, tokenizer_find(t, "<0x0A>")), TOKEN_BYTE);
    assert_int_equal(tokenizer_kind(t, tokenizer_find(t, "<keep>")), TOKEN_USER_DEFINED);
    assert_int_equal(tokenizer_kind(t, 1400), TOKEN_UNUSED);
    assert_memory_equal(tokenizer_bytes(t, 5, tokenizer_find(t, "<0x0A>"), false, &size), "\n", 1);
    assert_int_equal(size, 1);
    assert_memory_equal(tokenizer_bytes(t, 5, tokenizer_find(t, "\u2581the"), false, &size), " the", 4);
    assert_int_equal(size, 4);
    tokenizer_bytes(t, -1, 2, false, &size);
    assert_int_equal(size, 0);
    assert_string_equal(tokenizer_bytes(t, -1, 2, true, &size), "</s>");
    assert_string_equal(tokenizer_piece(t, 1400, &size), "");
    assert_int_equal(tokenizer_find(t, "no such piece"), -1);
    assert_int_equal(tokenizer_find(t, ""), -1);
    tokenizer_close(t);
}

static void unknown_split_rule_is_told(void **state) {
    (void)state;
    GoldenVocab golden = golden_vocab("gpt2", "a-rule-of-tomorrow");
    Tokenizer *tokenizer;
    assert_int_equal(tokenizer_open_vocab(&golden.vocab, &tokenizer, NULL), STATUS_OK);
    assert_non_null(strstr(tokenizer_notice(tokenizer), "a-rule-of-tomorrow"));
    tokenizer_close(tokenizer);
    golden_vocab_free(&golden);
}

// ---- long texts -----------------------------------------------------------------------------------------------------

// A text of a mebibyte of `unit` over and over must not take minutes; there and back.
static void check_long(const Tokenizer *tokenizer, const char *name, const char *unit, double limit) {
    size_t n = strlen(unit), size = ((size_t)1 << 20) / n * n;
    char *text = malloc(size);
    for (size_t i = 0; i < size; i++) text[i] = unit[i % n];
    clock_t start = clock();
    Tokens tokens = golden_encode(tokenizer, (TokenText){text, size}, false);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > limit) fail_msg("%s: 1 MiB of '%s' takes %.1f s", name, unit, seconds);
    if (strcmp(name, "sp-unigram") != 0) {
        char *back;
        assert_int_equal(tokenizer_decode(tokenizer, tokens.ids, tokens.n, false, &back, &n, NULL),
                         STATUS_OK);
        assert_int_equal(n, size);
        assert_memory_equal(back, text, size);
        free(back);
    }
    tokens_free(&tokens);
    free(text);
}

static void long_texts(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "llama3", "llama2", "sp-bpe"};
    static const char *const units[] = {"a", " "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Tokenizer *tokenizer = golden_open(names[i]);
        for (size_t k = 0; k < sizeof units / sizeof *units; k++)
            check_long(tokenizer, names[i], units[k], 20);
        tokenizer_close(tokenizer);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_gpt2),
        cmocka_unit_test(ids_smollm),
        cmocka_unit_test(ids_llama3),
        cmocka_unit_test(ids_qwen2),
        cmocka_unit_test(ids_llama2),
        cmocka_unit_test(ids_mistral),
        cmocka_unit_test(ids_sp_bpe),
        cmocka_unit_test(ids_sp_unigram),
        cmocka_unit_test(ids_vocab_gpt2),
        cmocka_unit_test(ids_vocab_smollm),
        cmocka_unit_test(ids_vocab_llama3),
        cmocka_unit_test(ids_vocab_qwen2),
        cmocka_unit_test(ids_vocab_sp_bpe),
        cmocka_unit_test(ids_vocab_sp_unigram),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(special_only_where_marked),
        cmocka_unit_test(merges_cross_spans),
        cmocka_unit_test(dummy_space),
        cmocka_unit_test(facts),
        cmocka_unit_test(unknown_split_rule_is_told),
        cmocka_unit_test(long_texts),
    };
    return test_main("tokenizer", argc, argv, tests);
}
