// The split rules that GGUF files name, against the tokenizers package, and what splitting a text may cost.
#include "tests/support/test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/files.h"
#include "tests/support/model/tokenizer_golden.h"
#include "tokenizer/split/split_presets.h"

#define GOLDEN_SPLITS "tests/golden/splits"

// ---- names ------------------------------------------------------------------------------------------------------

static Tokenizer *open_vocab(const char *name, const char *pre) {
    GoldenVocab golden = golden_vocab(name, pre);
    Tokenizer *tokenizer;
    Error error = {0};
    if (!strcmp(golden.vocab.model, "gemma4")) golden.vocab.unk = 3;
    if (tokenizer_open_vocab(&golden.vocab, &tokenizer, &error)) fail_msg("%s: %s", pre, error.message);
    golden_vocab_free(&golden);
    return tokenizer;
}

// Texts in groups of ten, as make_splits.py records them.
static void check_rule(const GoldenTexts *texts, const char *vocabulary, const char *rule) {
    enum { GROUP = 10 };
    Tokenizer *tokenizer = open_vocab(vocabulary, rule);
    char path[256];
    size_t size;
    snprintf(path, sizeof path, GOLDEN_SPLITS "/%s.bin", rule);
    char *recorded = golden_read(path, &size);
    int64_t n = (int64_t)(size / 4), wrong = 0;
    assert_int_equal(n, (texts->n + GROUP - 1) / GROUP);
    for (int64_t i = 0; i < n; i++) {
        uint32_t expected;
        memcpy(&expected, recorded + 4 * i, sizeof expected);
        Tokens tokens = {0};
        for (int64_t k = i * GROUP; k < (i + 1) * GROUP && k < texts->n; k++) {
            const TokenText text = texts->texts[k];
            assert_int_equal(tokenizer_encode(tokenizer, text.text, text.size, false, &tokens, NULL),
                             STATUS_OK);
        }
        if (golden_hash(&tokens) != expected && wrong++ < 3)
            golden_print(rule, -1, texts->texts[i * GROUP], &tokens);
        tokens_free(&tokens);
    }
    free(recorded);
    tokenizer_close(tokenizer);
    if (wrong) fail_msg("%s: %lld of %lld groups differ", rule, (long long)wrong, (long long)n);
}

static void every_rule(void **state) {
    (void)state;
    static const char *const rules[] = {"gpt-2",        "olmo",           "smollm",
                                        "command-r",    "bloom",          "viking",
                                        "falcon",       "llama-bpe",      "dbrx",
                                        "jais-2",       "minicpm5",       "qwen2",
                                        "qwen35",       "stablelm2",      "laguna",
                                        "ufakzeka",     "seed-coder",     "spark2_5",
                                        "exaone-moe",   "bailingmoe",     "afmoe",
                                        "deepseek-llm", "deepseek-coder", "deepseek-v3",
                                        "tekken",       "gpt-4o",         "youtu",
                                        "tiny_aya",     "kimi-k2",        "superbpe",
                                        "chameleon",    "default",        "granite-embed-multi-97m"};
    GoldenTexts texts = golden_texts_of(GOLDEN_SPLITS "/texts.bin");
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) check_rule(&texts, "../splits/bytes", rules[i]);
    check_rule(&texts, "../splits/characters", "gemma4");
    golden_texts_free(&texts);
}

// The names of llama.cpp that share a rule, and what goes with them.
static void every_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *rule;
        bool ignore_merges, add_bos;
    } names[] = {
        {"llama3", "llama-bpe", true, true},
        {"llama-v3", "llama-bpe", true, true},
        {"falcon3", "llama-bpe", true, true},
        {"falcon-h1", "llama-bpe", true, true},
        {"pixtral", "llama-bpe", true, true},
        {"midm-2.0", "llama-bpe", true, true},
        {"lfm2", "llama-bpe", true, true},
        {"jina-v5-nano", "llama-bpe", true, true},
        {"tekken", "tekken", true, true},
        {"chameleon", "chameleon", false, true},
        {"gpt-4", "dbrx", false, false},
        {"smaug-bpe", "dbrx", false, false},
        {"glm4", "dbrx", false, false},
        {"chatglm-bpe", "dbrx", false, false},
        {"llama4", "gpt-4o", false, false},
        {"kanana2", "gpt-4o", false, false},
        {"minimax-m2", "gpt-4o", false, false},
        {"talkie", "gpt-4o", false, false},
        {"hunyuan-dense", "deepseek-v3", false, false},
        {"joyai-llm", "deepseek-v3", false, false},
        {"hy_v4", "deepseek-v3", false, false},
        {"deepseek-r1-qwen", "qwen2", false, false},
        {"megrez", "qwen2", false, false},
        {"kormo", "qwen2", false, false},
        {"f2llmv2", "qwen2", false, false},
        {"hunyuan", "stablelm2", false, false},
        {"solar-open", "stablelm2", false, false},
        {"grok-2", "stablelm2", false, false},
        {"starcoder", "smollm", false, false},
        {"refact", "smollm", false, false},
        {"codeshell", "smollm", false, false},
        {"exaone", "smollm", false, false},
        {"minerva-7b", "smollm", false, false},
        {"mellum2", "smollm", false, false},
        {"phi-2", "gpt-2", false, false},
        {"mpt", "gpt-2", false, false},
        {"jais", "gpt-2", false, false},
        {"exaone4", "gpt-2", false, false},
        {"trillion", "gpt-2", false, false},
        {"granite-docling", "gpt-2", false, false},
        {"modern-bert", "gpt-2", false, false},
        {"gigachat", "gpt-2", false, false},
        {"poro-chat", "bloom", false, false},
        {"gpt3-finnish", "bloom", false, false},
        {"bailingmoe2", "bailingmoe", false, false},
        {"llada-moe", "bailingmoe", false, false},
        {"cohere2moe", "tiny_aya", false, false},
        {"minicpm5", "minicpm5", true, false},
        {"youtu", "youtu", true, false},
        {"sarvam-moe", "sarvam-moe", false, false},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const SplitPreset *preset = split_preset_find(names[i].name);
        if (!preset) {
            fail_msg("%s is not known", names[i].name);
            return;
        }
        assert_string_equal(preset->rule, names[i].rule);
        assert_int_equal(preset->ignore_merges, names[i].ignore_merges);
        assert_int_equal(preset->add_bos, names[i].add_bos);
    }
    assert_null(split_preset_find("gpt-2 phi-2"));
    assert_null(split_preset_find("a"));
}

static void an_unknown_name_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {"a-rule-of-tomorrow", "whitespace", "tekke", "gpt-2 phi-2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        GoldenVocab golden = golden_vocab("gpt2", names[i]);
        Tokenizer *tokenizer;
        Error error = {0};
        assert_int_equal(tokenizer_open_vocab(&golden.vocab, &tokenizer, &error), STATUS_UNSUPPORTED);
        assert_non_null(strstr(error.message, names[i]));
        assert_non_null(strstr(error.message, "tokenizer.ggml.pre"));
        golden_vocab_free(&golden);
    }
}

static void a_missing_name_is_told(void **state) {
    (void)state;
    Tokenizer *tokenizer = open_vocab("gpt2", NULL);
    assert_non_null(strstr(tokenizer_notice(tokenizer), "tokenizer.ggml.pre"));
    tokenizer_close(tokenizer);
}

static void missing_merges_are_refused(void **state) {
    (void)state;
    GoldenVocab golden = golden_vocab("gpt2", "gpt-2");
    golden.vocab.n_merges = 0;
    Tokenizer *tokenizer;
    Error error = {0};
    assert_int_equal(tokenizer_open_vocab(&golden.vocab, &tokenizer, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "tokenizer.ggml.merges"));
    golden_vocab_free(&golden);
}

// Spaces and what is no piece come back as they were.
static void characters_come_back(void **state) {
    (void)state;
    static const char text[] = " a  b\n\n\u4e00\U00020000 \xF0\x9F\xAB\xA8 x ";
    Tokenizer *tokenizer = open_vocab("../splits/characters", "gemma4");
    Tokens tokens = golden_encode(tokenizer, (TokenText){text, sizeof text - 1}, false);
    char *back;
    size_t size;
    assert_int_equal(tokenizer_decode(tokenizer, tokens.ids, tokens.n, false, &back, &size, NULL), STATUS_OK);
    assert_string_equal(back, text);
    free(back);
    tokens_free(&tokens);
    tokenizer_close(tokenizer);
}

// ---- words --------------------------------------------------------------------------------------------------------

typedef struct Words {
    char text[512]; // with | between words
} Words;

static Status take_word(void *context, const char *word, size_t size, Error *error) {
    (void)error;
    Words *words = context;
    size_t n = strlen(words->text);
    snprintf(words->text + n, sizeof words->text - n, "%s%.*s", n ? "|" : "", (int)size, word);
    return STATUS_OK;
}

static Status split_with(const char *pattern, SplitBehavior behavior, const SplitText *text, Words *words,
                         Error *error) {
    SplitRules *rules;
    assert_int_equal(split_rules_open(&rules, NULL), STATUS_OK);
    *words = (Words){0};
    Status status = split_rules_add_regex(rules, pattern, strlen(pattern), behavior, false, error);
    assert_int_equal(status, STATUS_OK);
    split_budget_add(text->budget, text->size);
    status = split_rules_run(rules, text, take_word, words, error);
    split_rules_close(rules);
    return status;
}

// What tokenizers 0.23.3 gives: pre_tokenizers.Split(Regex(pattern), behavior).pre_tokenize_str(text).
static void matches_as_the_package_has_them(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        SplitBehavior behavior;
        const char *text, *words;
    } cases[] = {
        {"(?=b)", SPLIT_ISOLATED, "aabab", "aa|ba|b"},
        {"(?=(\\d{3})+(?!\\d))", SPLIT_ISOLATED, "1234567 89", "1|234|567 89"},
        {"x*", SPLIT_ISOLATED, "aaxxa", "a|a|xx|a"},
        {"x*", SPLIT_REMOVED, "aaxxa", "a|a|a"},
        {"x*", SPLIT_MERGED_WITH_PREVIOUS, "aaxxa", "a|axx|a"},
        {"x*", SPLIT_MERGED_WITH_NEXT, "aaxxa", "a|a|xxa"},
        {"x*", SPLIT_CONTIGUOUS, "aaxxa", "a|a|xx|a"},
        {"x*|b", SPLIT_ISOLATED, "xxb", "xx|b"},
        {"\\w+", SPLIT_ISOLATED, "x\u00b2 y\u00bd-z", "x\u00b2| |y\u00bd|-|z"},
        {"[\\w]+", SPLIT_ISOLATED, "x\u00b2y", "x|\u00b2|y"},
        {"\\W", SPLIT_ISOLATED, "x\u00b2-y", "x\u00b2|-|y"},
        {"a\\b", SPLIT_ISOLATED, "aa a\u00b2a", "a|a| a\u00b2|a"},
        {"\\B", SPLIT_ISOLATED, "abc d", "a|b|c d"},
        {"[\\p{L}&&[^\\p{Han}]]+", SPLIT_ISOLATED, "ab\u4e00c", "ab|\u4e00|c"},
        {"[\\p{L}&&[a-c]]+", SPLIT_ISOLATED, "abcd", "abc|d"},
        {"\\v", SPLIT_ISOLATED, "a\vb\nc", "a|\v|b\nc"},
        {"[[:punct:]]", SPLIT_ISOLATED, "a\u20acb+", "a|\u20ac|b|+"},
        {"[[:alpha:]]+", SPLIT_ISOLATED, "a\u0345b1", "a\u0345b|1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Words words;
        SplitBudget budget = split_budget(NULL);
        const SplitText text = {cases[i].text, strlen(cases[i].text), SPLIT_AT_START, &budget};
        Status status = split_with(cases[i].pattern, cases[i].behavior, &text, &words, NULL);
        assert_int_equal(status, STATUS_OK);
        if (strcmp(words.text, cases[i].words) != 0)
            fail_msg("%s on '%s': '%s'", cases[i].pattern, cases[i].text, words.text);
    }
}

// ---- what it may cost ---------------------------------------------------------------------------------------------

static const struct {
    const char *pattern;
    bool passes; // on 20,000 times 'a'
} costly[] = {{"(?:a*a*b|a)", false}, {"a*+b|a", false}, {"(?:a+)+[bc]", false}, {"a+", true}, {"a", true}};

static void a_text_has_one_budget(void **state) {
    (void)state;
    static char text[20000];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof costly / sizeof *costly; i++) {
        Words words;
        Error error = {0};
        SplitBudget budget = split_budget(NULL);
        const SplitText whole = {text, sizeof text, SPLIT_AT_START, &budget};
        Status status = split_with(costly[i].pattern, SPLIT_ISOLATED, &whole, &words, &error);
        assert_int_equal(status, costly[i].passes ? STATUS_OK : STATUS_UNSUPPORTED);
        if (status) assert_non_null(strstr(error.message, "too many steps"));
    }
}

// No more than a flag that is looked at: nothing may depend on the clock.
static void an_interrupt_ends_a_long_split(void **state) {
    (void)state;
    static char text[20000];
    memset(text, 'a', sizeof text);
    const atomic_int flag = 1;
    SplitBudget budget = split_budget(&flag);
    const SplitText whole = {text, sizeof text, SPLIT_AT_START, &budget},
                    part = {text, 100, SPLIT_AT_START, &budget};
    Words words;
    Error error = {0};
    assert_int_equal(split_with("(?:a*a*b|a)", SPLIT_ISOLATED, &whole, &words, &error), STATUS_INTERRUPTED);
    assert_int_equal(split_with("a", SPLIT_ISOLATED, &part, &words, &error), STATUS_OK);
}

// Every rule on long runs of one kind, which passes in time that is linear.
static void long_runs_pass(void **state) {
    (void)state;
    static const char *const rules[] = {"gpt-2",  "llama-bpe", "tekken", "gpt-4o",         "deepseek-llm",
                                        "qwen35", "kimi-k2",   "falcon", "deepseek-coder", "exaone-moe"};
    static const char *const units[] = {"a", "A", " ", "\n", "1", "\u4e00", "\u0301", "!", "a ", " \n"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        Tokenizer *tokenizer = open_vocab("../splits/bytes", rules[i]);
        for (size_t k = 0; k < sizeof units / sizeof *units; k++) {
            size_t unit = strlen(units[k]), size = 30000 * unit;
            char *text = malloc(size + 3); // no NUL behind it
            for (size_t at = 0; at < size + 3; at++)
                text[at] = at < size ? units[k][at % unit] : "\u4e00"[at - size];
            Tokens tokens = golden_encode(tokenizer, (TokenText){text, size + 3}, false);
            tokens_free(&tokens);
            free(text);
        }
        tokenizer_close(tokenizer);
    }
}

// A normalizer that makes a thousand bytes of one, four times.
static void a_normalizer_is_bounded(void **state) {
    (void)state;
    char *folder = folder_new();
    Bytes json = {0};
    bytes_text(&json, "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [");
    for (int i = 0; i < 4; i++) {
        bytes_text(&json, i ? ", " : "");
        bytes_text(&json, "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"");
        for (int k = 0; k < 1000; k++) bytes_text(&json, "a");
        bytes_text(&json, "\"}");
    }
    bytes_text(&json, "]}, \"model\": {\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}");
    folder_write(folder, "tokenizer.json", json.data, json.size);
    bytes_free(&json);
    Tokenizer *tokenizer;
    Error error = {0};
    assert_int_equal(tokenizer_open_folder(folder, &tokenizer, &error), STATUS_OK);
    Tokens tokens = {0};
    assert_int_equal(tokenizer_encode(tokenizer, "aaaaaa", 6, false, &tokens, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "normalizer of the tokenizer's file"));
    assert_int_equal(tokenizer_encode(tokenizer, "bbb", 3, false, &tokens, &error), STATUS_OK);
    assert_int_equal(tokens.n, 3);
    tokens_free(&tokens);
    tokenizer_close(tokenizer);
    folder_remove(folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule),
        cmocka_unit_test(every_name),
        cmocka_unit_test(an_unknown_name_is_refused),
        cmocka_unit_test(a_missing_name_is_told),
        cmocka_unit_test(missing_merges_are_refused),
        cmocka_unit_test(characters_come_back),
        cmocka_unit_test(matches_as_the_package_has_them),
        cmocka_unit_test(a_text_has_one_budget),
        cmocka_unit_test(an_interrupt_ends_a_long_split),
        cmocka_unit_test(long_runs_pass),
        cmocka_unit_test(a_normalizer_is_bounded),
    };
    return test_main("splits", argc, argv, tests);
}
