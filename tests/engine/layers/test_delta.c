// Layers that recur and attention behind a gate (tests/golden/make_delta.py) against Hugging Face transformers in float32: the
// logits of a text read at once, in pieces and token by token, from both kinds of files, and the tokens that it goes on with.
#include "tests/support/files.h"
#include "tests/support/model/golden_check.h"
#include "tests/support/model/refusals.h"
#include "tests/support/test.h"
#include "engine/files/checkpoint_internal.h"
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void qwen3_next(void **state) {
    (void)state;
    golden_check_model(GOLDEN_DELTA, "qwen3_next", "qwen3_next", GOLDEN_LOOPS);
}
static void qwen3_next_gguf(void **state) {
    (void)state;
    golden_check_model(GOLDEN_DELTA, "qwen3_next.gguf", "qwen3_next", GOLDEN_LOOPS + 1);
}
// As llama.cpp's first converter left it, the rows of each key's head together.
static void qwen3_next_gguf_of_yesterday(void **state) {
    (void)state;
    golden_check_model(GOLDEN_DELTA, "qwen3_next-legacy.gguf", "qwen3_next", GOLDEN_LOOPS + 1);
}
// Experts one by one and a layer without them, biases, heads of values larger than those of keys, taps over three tokens.
static void qwen3_next_apart(void **state) {
    (void)state;
    golden_check_model(GOLDEN_DELTA, "qwen3_next-apart", "qwen3_next-apart", GOLDEN_LOOPS);
}
static void qwen3_5(void **state) {
    (void)state;
    golden_check_model(GOLDEN_DELTA, "qwen3_5", "qwen3_5", GOLDEN_LOOPS);
}
// Whose heads of values lie in turn for each key's head.
static void qwen3_5_gguf(void **state) {
    (void)state;
    golden_check_model(GOLDEN_DELTA, "qwen3_5.gguf", "qwen3_5", GOLDEN_LOOPS + 1);
}
// And with a layer that predicts further tokens, which is left alone.
static void qwen3_5_gguf_with_qkv_in_one(void **state) {
    (void)state;
    golden_check_model(GOLDEN_DELTA, "qwen3_5-fused.gguf", "qwen3_5", GOLDEN_LOOPS + 1);
}
// With biases, which first stand in the fourth layer, and a tied head.
static void qwen3_5_with_as_many_values(void **state) {
    (void)state;
    golden_check_both(GOLDEN_DELTA, "qwen3_5-equal");
}
static void qwen3_5_moe(void **state) {
    (void)state;
    golden_check_model(GOLDEN_DELTA, "qwen3_5_moe", "qwen3_5_moe", GOLDEN_LOOPS);
}
static void qwen3_5_moe_gguf(void **state) {
    (void)state;
    golden_check_model(GOLDEN_DELTA, "qwen3_5_moe.gguf", "qwen3_5_moe", GOLDEN_LOOPS + 1);
}

// Held in fewer bits: the gates' weights, too.
static void weights_are_converted(void **state) {
    (void)state;
    Engine *engine = golden_check_converted(GOLDEN_DELTA, "qwen3_5", "cpu", WEIGHTS_INT8);
    assert_int_equal(engine_model(engine)->layers[0].attn_gate.type, DTYPE_W8);
    golden_check_distance(engine, GOLDEN_DELTA, "qwen3_5", "int8", 0.1);
    engine_close(engine);
    engine = golden_check_converted(GOLDEN_DELTA, "qwen3_next.gguf", "cpu:exact", WEIGHTS_F16);
    assert_int_equal(engine_model(engine)->layers[0].attn_gate.type, DTYPE_F16);
    golden_check_distance(engine, GOLDEN_DELTA, "qwen3_next", "f16", 1e-5);
    engine_close(engine);
}

// ---- what files say ------------------------------------------------------------------------------------------------

static void both_kinds_of_files_say_the_same(void **state) {
    (void)state;
    static const char *const NAMES[] = {"qwen3_next", "qwen3_next.gguf", "qwen3_5", "qwen3_5.gguf"};
    for (int i = 0; i < 4; i++) {
        Model *model = golden_check_file(GOLDEN_DELTA, NAMES[i]);
        const DecoderShape *s = &model->shape;
        const DeltaRule *d = &s->delta;
        assert_int_equal(d->n_key_heads, 2);
        assert_int_equal(d->n_value_heads, 4);
        assert_int_equal(d->key_dim, 16);
        assert_int_equal(d->value_dim, 16);
        assert_int_equal(d->taps, 4);
        assert_int_equal(d->keys_alternate, i == 3);
        assert_int_equal(decoder_recurring(s), 3);
        for (int l = 0; l < s->n_layers; l++) {
            const LayerHeads heads = layer_heads(s, l);
            const LayerWeights *w = &model->layers[l];
            assert_int_equal(heads.recurs, l != (i < 2 ? 1 : 2));
            assert_int_equal(heads.n_kv_heads, 2);
            assert_int_equal(heads.lender, l);
            assert_int_equal(s->rope.of_layers[l], heads.recurs ? -1 : 0);
            assert_int_equal(w->attn_gate.rows, 64);
            assert_int_equal(w->decay_rate.data != NULL, heads.recurs);
            assert_int_equal(w->q_norm.data != NULL, !heads.recurs);
        }
        model_close(model);
    }
}

// The folder's config.json with changes.
static void a_config_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const ConfigRefusal CASES[] = {
        {"{\"linear_num_value_heads\": 5}",
         "5 heads of values (linear_num_value_heads) cannot share 2 of keys (linear_num_key_heads) evenly"},
        {"{\"linear_num_key_heads\": 0}", "linear_num_key_heads is 0; palaver runs 1 to 4096"},
        {"{\"linear_num_key_heads\": null}", "linear_num_key_heads is null"},
        {"{\"linear_key_head_dim\": 257}", "linear_key_head_dim is 257; palaver runs 1 to 256"},
        {"{\"linear_value_head_dim\": -1}", "linear_value_head_dim is -1; palaver runs 1 to 256"},
        {"{\"linear_conv_kernel_dim\": 9}", "linear_conv_kernel_dim is 9; palaver runs 1 to 8"},
        {"{\"linear_conv_kernel_dim\": \"4\"}", "linear_conv_kernel_dim should be an integer"},
        {"{\"hidden_act\": \"gelu\"}", "hidden_act asks for another activation"},
        {"{\"attn_output_gate\": false}", "attn_output_gate asks for attention without a gate"},
        {"{\"output_gate_type\": \"sigmoid\"}", "output_gate_type asks for another gate of what recurs"},
        {"{\"use_sliding_window\": true}", "use_sliding_window asks for windows"},
        {"{\"layer_types\": [\"linear_attention\"]}", "layer_types should name 4 layers"},
        {"{\"layer_types\": [\"full_attention\", \"linear_attention\", \"conv\", \"linear_attention\"]}",
         "layer_types should name 4 layers, \"linear_attention\" or \"full_attention\""},
        {"{\"layer_types\": null, \"full_attention_interval\": 0}", "full_attention_interval is 0"},
        {"{\"rope_parameters\": {\"rope_theta\": 10000, \"mrope_width\": 3}}",
         "does not know what rope_parameters.mrope_width means"},
        {"{\"mrope_section\": [1, 1]}", "does not know what mrope_section means"},
        {"{\"linear_num_heads\": 3}", "does not know what linear_num_heads means for a qwen3_5_text model"},
    };
    refuse_configs(GOLDEN_DELTA "/qwen3_5", CASES, sizeof CASES / sizeof *CASES);
}

static void a_gguf_file_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const GgufRefusal CASES[] = {
        {"qwen35.ssm.group_count", GGUF_VALUE, 3,
         "4 heads of values (ssm.time_step_rank) cannot share 3 of keys (ssm.group_count) evenly"},
        {"qwen35.ssm.time_step_rank", GGUF_VALUE, 5,
         "qwen35.ssm.inner_size is 64, for 5 heads of values (ssm.time_step_rank)"},
        {"qwen35.ssm.state_size", GGUF_VALUE, 300, "qwen35.ssm.state_size is 300; palaver runs 1 to 256"},
        {"qwen35.ssm.conv_kernel", GGUF_VALUE, 9, "qwen35.ssm.conv_kernel is 9; palaver runs 1 to 8"},
        {"qwen35.ssm.inner_size", GGUF_VALUE, 1028, "qwen35.ssm.inner_size is 1028; palaver runs 1 to 1024"},
        {"qwen35.ssm.inner_size", 0, 0, "qwen35.ssm.inner_size is missing"},
        {"qwen35.ssm.conv_kernel", 0, 0, "qwen35.ssm.conv_kernel is missing"},
        {"qwen35.full_attention_interval", 0, 0, "does not know what qwen35.full_attention_intervam means"},
        {"qwen35.rope.dimension_sections", GGUF_FIRST, 0,
         "leaves some of 2 pairs of a head without a position"},
        {"qwen35.rope.dimension_sections", GGUF_FIRST, 0xffffffffu, "leaves some of 2 pairs"},
        {"blk.0.ssm_a", 0, 0, "layer 0: tensor ssm_a is missing"},
        {"blk.1.ssm_dt.bias", 0, 0, "layer 1: tensor ssm_dt.bias is missing"},
        {"blk.1.ssm_conv1d.weight", 0, 0, "tensor blk.1.ssm_conv1d.weight is missing"},
        {"blk.3.attn_gate.weight", 0, 0, "tensor blk.3.attn_gate.weight is missing"},
        {"blk.3.ssm_norm.weight", 0, 0, "tensor blk.3.ssm_norm.weight is missing"},
        {"blk.2.attn_q.weight", 0, 0, "tensor blk.2.attn_q.weight is missing"},
    };
    refuse_ggufs(GOLDEN_DELTA "/qwen3_5.gguf", CASES, sizeof CASES / sizeof *CASES);
}

// Rates of decay are above 0, and negated in GGUF files.
static void a_state_that_grows_is_refused(void **state) {
    (void)state;
    Bytes bytes = bytes_of_file(GOLDEN_DELTA "/qwen3_5.gguf");
    Checkpoint *checkpoint;
    Model *model = NULL;
    Error error = {0};
    if (checkpoint_from_gguf("a.gguf", bytes.data, bytes.size, &checkpoint, &error))
        fail_msg("%s", error.message);
    const float *rates = checkpoint_find(checkpoint, "blk.1.ssm_a")->data;
    const float growing = 0.5f;
    memcpy(bytes.data + ((const uint8_t *)(rates + 2) - bytes.data), &growing, sizeof growing);
    assert_int_equal(model_from_checkpoint(checkpoint, &model, &error), STATUS_FILE);
    if (!strstr(error.message, "layer 1: ssm_a[2] is 0.5, by which no state decays"))
        fail_msg("%s", error.message);
    bytes_free(&bytes);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3_next),
        cmocka_unit_test(qwen3_next_gguf),
        cmocka_unit_test(qwen3_next_gguf_of_yesterday),
        cmocka_unit_test(qwen3_next_apart),
        cmocka_unit_test(qwen3_5),
        cmocka_unit_test(qwen3_5_gguf),
        cmocka_unit_test(qwen3_5_gguf_with_qkv_in_one),
        cmocka_unit_test(qwen3_5_with_as_many_values),
        cmocka_unit_test(qwen3_5_moe),
        cmocka_unit_test(qwen3_5_moe_gguf),
        cmocka_unit_test(weights_are_converted),
        cmocka_unit_test(both_kinds_of_files_say_the_same),
        cmocka_unit_test(a_config_that_cannot_be_is_refused),
        cmocka_unit_test(a_gguf_file_that_cannot_be_is_refused),
        cmocka_unit_test(a_state_that_grows_is_refused),
    };
    return test_main("layers that recur", argc, argv, tests);
}
