// The dense architectures of today (tests/golden/make_dense.py) against Hugging Face transformers in float32: the logits of
// a text read at once, in pieces and token by token, from both kinds of files, and the tokens that it goes on with.
#include "tests/support/test.h"
#include "tests/support/model/golden_check.h"
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>

static Engine *open_engine(const char *name) {
    return golden_check_open(GOLDEN_DENSE, name, "cpu:exact", 0, DTYPE_F32);
}

// Keys that were normed behind RoPE cannot be turned to other places.
static void some_cannot_be_shifted(void **state) {
    (void)state;
    Engine *engine = open_engine("hunyuan");
    assert_string_equal(engine_cannot_shift(engine), "its keys are normed after they were turned");
    engine_close(engine);
    engine = open_engine("ministral3");
    assert_null(engine_cannot_shift(engine));
    engine_close(engine);
}

// Heads of several sizes lie in one cache, also where it has fewer bits: its rounding is all that changes.
static void heads_of_two_sizes_in_fewer_bits(void **state) {
    (void)state;
    static const char *const NAMES[] = {"gemma4", "gemma4-e", "gemma4-moe"};
    static const DType TYPES[] = {DTYPE_F16, DTYPE_INT8, DTYPE_INT4};
    static const double BOUNDS[] = {0.005, 0.04, 0.8};
    for (int i = 0; i < 9; i++) golden_check_cache(GOLDEN_DENSE, NAMES[i / 3], TYPES[i % 3], BOUNDS[i % 3]);
}

// Each runs by name.
#define FOLDER(NAME, FOLDER_NAME)                                                                            \
    static void NAME(void **state) {                                                                         \
        (void)state;                                                                                         \
        golden_check_model(GOLDEN_DENSE, FOLDER_NAME, FOLDER_NAME, GOLDEN_LOOPS);                            \
    }
#define BOTH(NAME, FOLDER_NAME)                                                                              \
    FOLDER(NAME, FOLDER_NAME)                                                                                \
    static void NAME##_gguf(void **state) {                                                                  \
        (void)state;                                                                                         \
        golden_check_model(GOLDEN_DENSE, FOLDER_NAME ".gguf", FOLDER_NAME, GOLDEN_LOOPS + 1);                \
    }
BOTH(gemma, "gemma")
BOTH(gemma2, "gemma2")
BOTH(gemma3, "gemma3")
FOLDER(gemma3_nested, "gemma3-nested")
BOTH(smollm3, "smollm3")
BOTH(granite, "granite")
BOTH(minicpm, "minicpm")
BOTH(seed_oss, "seed_oss")
BOTH(ernie4_5, "ernie4_5")
BOTH(glm, "glm")
BOTH(glm4, "glm4")
BOTH(olmo2, "olmo2")
BOTH(olmo3, "olmo3")
FOLDER(olmo3_nested, "olmo3-nested")
BOTH(exaone4, "exaone4")
FOLDER(exaone4_full, "exaone4-full")
FOLDER(cohere, "cohere")
BOTH(cohere2, "cohere2")
BOTH(stablelm, "stablelm")
FOLDER(starcoder2, "starcoder2")
BOTH(phi, "phi")
BOTH(nemotron, "nemotron")
BOTH(falcon_7b, "falcon-7b")
BOTH(falcon_40b, "falcon-40b")
FOLDER(falcon_11b, "falcon-11b")
FOLDER(falcon_rw, "falcon-rw")
BOTH(baichuan, "baichuan")
FOLDER(baichuan_13b, "baichuan-13b")
FOLDER(chatglm_1, "chatglm-1")
FOLDER(chatglm, "chatglm")
BOTH(qwen, "qwen")
FOLDER(ministral3, "ministral3")
BOTH(hunyuan, "hunyuan")
BOTH(cohere_plus, "cohere-plus")
BOTH(gemma4, "gemma4")
BOTH(gemma4_e, "gemma4-e")
BOTH(gemma4_moe, "gemma4-moe")
BOTH(stablelm_12b, "stablelm-12b")
BOTH(apertus, "apertus")
FOLDER(apertus_biased, "apertus-biased")
BOTH(gpt2, "gpt2")
BOTH(gpt_bigcode, "gpt_bigcode")
FOLDER(gpt_bigcode_heads, "gpt_bigcode-heads")
BOTH(olmo, "olmo")
FOLDER(nanochat, "nanochat")
FOLDER(gpt_neo, "gpt_neo")
BOTH(xverse, "xverse")
BOTH(orion, "orion")
FOLDER(mimo, "mimo")
BOTH(glm4v, "glm4v")

#define TESTS_OF_BOTH(NAME) cmocka_unit_test(NAME), cmocka_unit_test(NAME##_gguf)
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TESTS_OF_BOTH(gemma),
        TESTS_OF_BOTH(gemma2),
        TESTS_OF_BOTH(gemma3),
        cmocka_unit_test(gemma3_nested),
        TESTS_OF_BOTH(smollm3),
        TESTS_OF_BOTH(granite),
        TESTS_OF_BOTH(minicpm),
        TESTS_OF_BOTH(seed_oss),
        TESTS_OF_BOTH(ernie4_5),
        TESTS_OF_BOTH(glm),
        TESTS_OF_BOTH(glm4),
        TESTS_OF_BOTH(olmo2),
        TESTS_OF_BOTH(olmo3),
        cmocka_unit_test(olmo3_nested),
        TESTS_OF_BOTH(exaone4),
        cmocka_unit_test(exaone4_full),
        cmocka_unit_test(cohere),
        TESTS_OF_BOTH(cohere2),
        TESTS_OF_BOTH(stablelm),
        cmocka_unit_test(starcoder2),
        TESTS_OF_BOTH(phi),
        TESTS_OF_BOTH(nemotron),
        TESTS_OF_BOTH(falcon_7b),
        TESTS_OF_BOTH(falcon_40b),
        cmocka_unit_test(falcon_11b),
        cmocka_unit_test(falcon_rw),
        TESTS_OF_BOTH(baichuan),
        cmocka_unit_test(baichuan_13b),
        cmocka_unit_test(chatglm_1),
        cmocka_unit_test(chatglm),
        TESTS_OF_BOTH(qwen),
        cmocka_unit_test(ministral3),
        TESTS_OF_BOTH(hunyuan),
        TESTS_OF_BOTH(cohere_plus),
        TESTS_OF_BOTH(gemma4),
        TESTS_OF_BOTH(gemma4_e),
        TESTS_OF_BOTH(gemma4_moe),
        TESTS_OF_BOTH(stablelm_12b),
        TESTS_OF_BOTH(apertus),
        cmocka_unit_test(apertus_biased),
        TESTS_OF_BOTH(gpt2),
        TESTS_OF_BOTH(gpt_bigcode),
        cmocka_unit_test(gpt_bigcode_heads),
        TESTS_OF_BOTH(olmo),
        cmocka_unit_test(nanochat),
        cmocka_unit_test(gpt_neo),
        TESTS_OF_BOTH(xverse),
        TESTS_OF_BOTH(orion),
        cmocka_unit_test(mimo),
        TESTS_OF_BOTH(glm4v),
        cmocka_unit_test(some_cannot_be_shifted),
        cmocka_unit_test(heads_of_two_sizes_in_fewer_bits),
    };
    return test_main("dense", argc, argv, tests);
}
