// Shifting on real structures: every way that positions enter attention, after tokens left the middle of the context.
//
// One layer of a model is taken: its keys and values depend on token and position alone, so what is left gives the same
// logits whether it was shifted, in either way, or read again (requirement C9; with more layers they differ by design).
// As a negative control the same tokens are read again at the places they had: that must differ.
#include "tests/support/model/golden_model.h"
#include "tests/support/engine/shift_stream.h"
#include "tests/support/test.h"

#include <math.h>

static void check_model(const char *root, const char *name, const char *golden_of, bool sees_the_kept) {
    static const char *const DEVICES[] = {"cpu:reference", "cpu"};
    GoldenSet set;
    Error error = {0};
    if (golden_model_read(root, golden_of, &set, &error)) fail_msg("%s", error.message);
    for (int i = 0; i < 4; i++) {
        const char *device = DEVICES[i / 2];
        bool in_place = i % 2;
        double control;
        ShiftStream s = shift_stream_open(root, name, device);
        assert_null(engine_cannot_shift(s.engine));
        double worst = shift_stream_text(&s, set.cases[0].ids, set.cases[0].n, in_place, &control);
        print_message("%s, %s, %s: %.1e, unshifted %.1e\n", name, device, in_place ? "in place" : "shift",
                      worst, control);
        if (!(worst <= 1e-5)) fail_msg("%s, %s: %g from reading again", name, device, worst);
        if (sees_the_kept && !(control >= 1e-2)) fail_msg("%s: the control is as close as %g", name, control);
        shift_stream_close(&s);
    }
    golden_model_free(&set);
}

#define SHIFT_TEST(root, test, name, golden_of, sees_the_kept)                                               \
    static void test(void **state) {                                                                         \
        (void)state;                                                                                         \
        check_model(root, name, golden_of, sees_the_kept);                                                   \
    }
SHIFT_TEST(GOLDEN_MODELS, llama, "llama", "llama", true)
SHIFT_TEST(GOLDEN_MODELS, linear_scaling, "llama-linear", "llama-linear", true)
SHIFT_TEST(GOLDEN_MODELS, llama3_scaling, "llama3", "llama3", true)
SHIFT_TEST(GOLDEN_MODELS, interleaved, "llama3.gguf", "llama3", true)
SHIFT_TEST(GOLDEN_MODELS, yarn, "llama-yarn", "llama-yarn", true)
SHIFT_TEST(GOLDEN_MODELS, sliding_window, "mistral", "mistral", false) // of 7 tokens
SHIFT_TEST(GOLDEN_MODELS, qk_norm, "qwen3", "qwen3", true)
SHIFT_TEST(GOLDEN_ARCHITECTURES, gptj_interleaved_part, "gptj", "gptj", true)
SHIFT_TEST(GOLDEN_ARCHITECTURES, gpt_neox_half_split_part, "gpt_neox", "gpt_neox", true)
SHIFT_TEST(GOLDEN_ARCHITECTURES, gpt_neox_linear_part, "gpt_neox-sequential", "gpt_neox-sequential", true)
SHIFT_TEST(GOLDEN_ARCHITECTURES, bloom_alibi, "bloom", "bloom", true)
SHIFT_TEST(GOLDEN_ARCHITECTURES, mpt_alibi, "mpt", "mpt", true)

SHIFT_TEST(GOLDEN_EXPERTS, mixtral, "mixtral", "mixtral", true)
SHIFT_TEST(GOLDEN_EXPERTS, qwen2_moe, "qwen2_moe", "qwen2_moe", true)
SHIFT_TEST(GOLDEN_EXPERTS, gpt_oss_learned_sinks, "gpt_oss", "gpt_oss", false) // a window of 8 tokens
SHIFT_TEST(GOLDEN_LATENT, deepseek_v2_latent, "deepseek_v2", "deepseek_v2", true)
SHIFT_TEST(GOLDEN_LATENT, deepseek_v3_latent, "deepseek_v3-packed", "deepseek_v3-packed", true) // half-split

SHIFT_TEST(GOLDEN_EXPERTS, phimoe, "phimoe", "phimoe", false) // a window of 32 tokens
SHIFT_TEST(GOLDEN_DENSE, norms_of_heads, "cohere-plus", "cohere-plus", true)
SHIFT_TEST(GOLDEN_DENSE, norms_of_heads_side_by_side, "stablelm-12b", "stablelm-12b", true)

static void learned_positions_cannot(void **state) {
    (void)state;
    ShiftStream s = shift_stream_open(GOLDEN_ARCHITECTURES, "opt", "cpu");
    assert_string_equal(engine_cannot_shift(s.engine), "its positions are learned, each by itself");
    shift_stream_close(&s);
}

static void chunks_cannot(void **state) {
    (void)state;
    ShiftStream s = shift_stream_open(GOLDEN_EXPERTS, "llama4", "cpu");
    assert_string_equal(engine_cannot_shift(s.engine), "its layers see chunks of the text");
    shift_stream_close(&s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama),
        cmocka_unit_test(linear_scaling),
        cmocka_unit_test(llama3_scaling),
        cmocka_unit_test(interleaved),
        cmocka_unit_test(yarn),
        cmocka_unit_test(sliding_window),
        cmocka_unit_test(qk_norm),
        cmocka_unit_test(gptj_interleaved_part),
        cmocka_unit_test(gpt_neox_half_split_part),
        cmocka_unit_test(gpt_neox_linear_part),
        cmocka_unit_test(bloom_alibi),
        cmocka_unit_test(mpt_alibi),
        cmocka_unit_test(mixtral),
        cmocka_unit_test(qwen2_moe),
        cmocka_unit_test(gpt_oss_learned_sinks),
        cmocka_unit_test(deepseek_v2_latent),
        cmocka_unit_test(deepseek_v3_latent),
        cmocka_unit_test(phimoe),
        cmocka_unit_test(norms_of_heads),
        cmocka_unit_test(norms_of_heads_side_by_side),
        cmocka_unit_test(learned_positions_cannot),
        cmocka_unit_test(chunks_cannot),
    };
    return test_main("shift models", argc, argv, tests);
}
