// What holds for every text: there and back, special tokens, spans, the dummy space, threads, long texts.
#include "tests/support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/model/tokenizer_golden.h"
#include "kernels/base/text/utf8.h"

// ---- several threads --------------------------------------------------------------------------------------------

typedef struct Reader {
    const Tokenizer *tokenizer;
    const GoldenTexts *texts;
    uint32_t hash;
} Reader;

static void *read_texts(void *context) {
    Reader *reader = context;
    Tokens tokens = {0};
    for (int64_t i = 0; i < 1000; i++) {
        TokenText text = reader->texts->texts[i];
        if (tokenizer_encode(reader->tokenizer, text.text, text.size, false, &tokens, NULL)) return NULL;
    }
    reader->hash = golden_hash(&tokens);
    tokens_free(&tokens);
    return NULL;
}

static void one_tokenizer_for_several_threads(void **state) {
    (void)state;
    static const char *const names[] = {"qwen2", "sp-bpe"};
    GoldenTexts texts = golden_texts();
    for (int i = 0; i < 2; i++) {
        Tokenizer *tokenizer = golden_open(names[i]);
        Reader readers[4];
        pthread_t threads[4];
        for (int k = 0; k < 4; k++) {
            readers[k] = (Reader){tokenizer, &texts, 0};
            assert_int_equal(pthread_create(&threads[k], NULL, read_texts, &readers[k]), 0);
        }
        for (int k = 0; k < 4; k++) pthread_join(threads[k], NULL);
        for (int k = 0; k < 4; k++) assert_int_equal(readers[k].hash, readers[0].hash);
        assert_int_not_equal(readers[0].hash, 0);
        tokenizer_close(tokenizer);
    }
    golden_texts_free(&texts);
}

// ---- there and back ---------------------------------------------------------------------------------------------

// Token by token through a Utf8Stream: the same text, and never a part of a character.
static void check_stream(const Tokenizer *tokenizer, const Tokens *tokens, TokenText text) {
    Utf8Stream stream = {0};
    size_t done = 0;
    for (int64_t i = 0; i < tokens->n; i++) {
        size_t size;
        char out[UTF8_STREAM_ROOM(1000)];
        const char *bytes =
            tokenizer_bytes(tokenizer, i ? tokens->ids[i - 1] : -1, tokens->ids[i], false, &size);
        assert_true(size <= 1000);
        size_t n = utf8_stream_push(&stream, bytes, size, out);
        assert_int_equal(utf8_valid_run(out, n), n);
        assert_true(done + n <= text.size);
        assert_memory_equal(text.text + done, out, n);
        done += n;
    }
    assert_int_equal(done, text.size);
    assert_int_equal(stream.n, 0);
}

// decode(encode(text)) == text for the first n texts that hold none of the words in `skip`.
static void check_round_trip(const char *name, bool broken_too, const char *const *skip) {
    GoldenTexts texts = golden_texts();
    Tokenizer *tokenizer = golden_open(name);
    for (int64_t i = 0; i < (broken_too ? texts.n : texts.n_valid); i++) {
        TokenText text = texts.texts[i];
        bool skipped = false;
        for (const char *const *word = skip; *word; word++) skipped |= golden_contains(text, *word);
        if (skipped) continue;
        Tokens tokens = golden_encode(tokenizer, text, false);
        if (i < texts.n_valid) check_stream(tokenizer, &tokens, text);
        char *back;
        size_t size;
        assert_int_equal(tokenizer_decode(tokenizer, tokens.ids, tokens.n, false, &back, &size, NULL),
                         STATUS_OK);
        if (size != text.size || memcmp(back, text.text, size) != 0) {
            golden_print(name, i, text, &tokens);
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
    static const char *const joined[] = {"\u2581", "<keep>",
                                         NULL}; // normalized: a space of its own goes with it
    static const char *const spaces[] = {"\u2581", NULL};
    check_round_trip("gpt2", true, strips);
    check_round_trip("smollm", true, strips);
    check_round_trip("llama3", true, strips);
    check_round_trip("llama2", true, joined);
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

// ---- long texts -----------------------------------------------------------------------------------------------------

// Many times `unit` must not take minutes; there and back.
static void check_long(const Tokenizer *tokenizer, const char *name, char unit, size_t size) {
    char *text = malloc(size), *back;
    memset(text, unit, size);
    clock_t start = clock();
    Tokens tokens = golden_encode(tokenizer, (TokenText){text, size}, false);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > 30) fail_msg("%s: %zu times '%c' take %.1f s", name, size, unit, seconds);
    size_t back_size;
    assert_int_equal(tokenizer_decode(tokenizer, tokens.ids, tokens.n, false, &back, &back_size, NULL),
                     STATUS_OK);
    assert_int_equal(back_size, size);
    assert_memory_equal(back, text, size);
    free(back);
    tokens_free(&tokens);
    free(text);
}

static void long_texts(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t size;
    } cases[] = {{"gpt2", 1 << 20}, {"llama3", 1 << 20}, {"llama2", 1 << 20}, {"sp-bpe", 1 << 18}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer *tokenizer = golden_open(cases[i].name);
        check_long(tokenizer, cases[i].name, 'a', cases[i].size);
        check_long(tokenizer, cases[i].name, ' ', cases[i].size);
        tokenizer_close(tokenizer);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_tokenizer_for_several_threads),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(special_only_where_marked),
        cmocka_unit_test(merges_cross_spans),
        cmocka_unit_test(dummy_space),
        cmocka_unit_test(facts),
        cmocka_unit_test(long_texts),
    };
    return test_main("tokenizer", argc, argv, tests);
}
