// State spaces among layers that attend (tests/golden/make_state_space.py) against Hugging Face transformers in float32: the
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

// A group, biases in the convolution, and a tied head.
static void dense(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "granite4-h");
}
// Two groups, experts beside one that every token takes.
static void with_experts(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "granite4-h-moe");
}
// Heads that turn, with biases; no biases in the convolution, and a large epsilon, which residuals that are kept divided leave
// as it is.
static void with_rope(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "granite4-h-rope");
}
static void where_all_layers_attend(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "granite4");
}

// Held in fewer bits, the slices of one matrix by themselves.
static void weights_are_converted(void **state) {
    (void)state;
    Engine *engine = golden_check_converted(GOLDEN_STATE_SPACE, "granite4-h", "cpu", WEIGHTS_INT8);
    assert_int_equal(engine_model(engine)->layers[0].wv.type, DTYPE_W8);
    golden_check_distance(engine, GOLDEN_STATE_SPACE, "granite4-h", "int8", 0.1);
    engine_close(engine);
    engine = golden_check_converted(GOLDEN_STATE_SPACE, "granite4-h.gguf", "cpu:exact", WEIGHTS_F16);
    assert_int_equal(engine_model(engine)->layers[0].wv.type, DTYPE_F16);
    golden_check_distance(engine, GOLDEN_STATE_SPACE, "granite4-h", "f16", 1e-5);
    engine_close(engine);
}

// ---- what files say ------------------------------------------------------------------------------------------------

static void both_kinds_of_files_say_the_same(void **state) {
    (void)state;
    static const struct {
        const char *name;
        DeltaRule rule;
        unsigned attending; // a bit of each layer
        bool turns;
    } CASES[] = {
        {"granite4-h", {1, 6, 16, 16, 4, false, true, 1e-5f, 0, 0}, 2, false},
        {"granite4-h-moe", {2, 6, 8, 16, 4, false, true, 1e-5f, 0, 0}, 4, false},
        {"granite4-h-rope", {2, 4, 24, 24, 3, false, true, 0.01f, 0, 0}, 2 + 8, true},
    };
    for (int i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", CASES[i / 2].name, i % 2 ? ".gguf" : "");
        Model *model = golden_check_file(GOLDEN_STATE_SPACE, name);
        const DecoderShape *s = &model->shape;
        const DeltaRule *d = &s->delta, *rule = &CASES[i / 2].rule;
        assert_int_equal(d->n_key_heads, rule->n_key_heads);
        assert_int_equal(d->n_value_heads, rule->n_value_heads);
        assert_int_equal(d->key_dim, rule->key_dim);
        assert_int_equal(d->value_dim, rule->value_dim);
        assert_int_equal(d->taps, rule->taps);
        assert_true(d->adds && !d->keys_alternate);
        assert_true(d->norm_eps > 0.999f * rule->norm_eps && d->norm_eps < 1.001f * rule->norm_eps);
        assert_true(s->norm_eps > 20 * d->norm_eps); // where residuals are kept divided by 0.22
        for (int l = 0; l < s->n_layers; l++) {
            const LayerHeads heads = layer_heads(s, l);
            const LayerWeights *w = &model->layers[l];
            assert_int_equal(heads.recurs, !(CASES[i / 2].attending >> l & 1));
            assert_int_equal(heads.n_kv_heads, 2);
            assert_int_equal(s->rope.of_layers[l], heads.recurs || !CASES[i / 2].turns ? -1 : 0);
            assert_int_equal(w->skip.data != NULL, heads.recurs);
            assert_int_equal(w->attn_gate.data != NULL, heads.recurs);
            assert_int_equal(w->conv_bias.data != NULL, heads.recurs && rule->taps == 4);
            assert_null(w->w_beta.data);
        }
        model_close(model);
    }
}

static void a_config_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const ConfigRefusal CASES[] = {
        {"{\"mamba_n_groups\": 4}",
         "6 heads of values (mamba_n_heads) cannot share 4 of keys (mamba_n_groups) evenly"},
        {"{\"mamba_n_heads\": 5}",
         "5 heads of 16 (mamba_n_heads, mamba_d_head) are not 2 times the hidden size of 48 (mamba_expand)"},
        {"{\"mamba_n_heads\": 5, \"mamba_d_head\": \"auto\"}", "5 heads of 19 (mamba_n_heads, mamba_d_head)"},
        {"{\"mamba_expand\": 3}", "are not 3 times the hidden size of 48"},
        {"{\"mamba_expand\": 0}", "mamba_expand is 0; palaver runs 1 to 64"},
        {"{\"mamba_d_head\": null}", "mamba_d_head is null"},
        {"{\"mamba_d_head\": \"wide\"}", "mamba_d_head should be an integer"},
        {"{\"mamba_d_head\": 0}", "mamba_d_head is 0; palaver runs 1 to 256"},
        {"{\"mamba_d_state\": 257}", "mamba_d_state is 257; palaver runs 1 to 256"},
        {"{\"mamba_d_conv\": 9}", "mamba_d_conv is 9; palaver runs 1 to 8"},
        {"{\"mamba_conv_bias\": 3}", "mamba_conv_bias should be true or false"},
        {"{\"mamba_proj_bias\": true}", "mamba_proj_bias asks for biases of layers that recur"},
        {"{\"hidden_act\": \"gelu\"}", "hidden_act asks for another activation"},
        {"{\"normalization_function\": \"layernorm\"}", "normalization_function asks for another norm"},
        {"{\"position_embedding_type\": \"alibi\"}",
         "position_embedding_type \"alibi\"; palaver knows \"rope\" and \"nope\""},
        {"{\"time_step_limit\": [0.001, {\"__float__\": \"Infinity\"}]}",
         "time_step_limit asks for other limits than 0 and infinity"},
        {"{\"time_step_limit\": [0.0, 100.0]}", "time_step_limit asks for other limits"},
        {"{\"time_step_limit\": [0.0, {\"__float__\": \"-Infinity\"}]}",
         "time_step_limit asks for other limits"},
        {"{\"time_step_limit\": null}", "time_step_limit is null"},
        {"{\"layer_types\": [\"mamba\", \"attention\"]}",
         "layer_types should name 4 layers, \"mamba\" or \"attention\""},
        {"{\"layer_types\": [\"mamba\", \"attention\", \"sliding_attention\", \"mamba\"]}",
         "layer_types should name 4 layers"},
        {"{\"layers_block_type\": [\"mamba\", \"attention\", \"mamba\", \"attention\"], \"layer_types\": []}",
         "layer_types should name 4 layers, and names 0"},
        {"{\"layers_block_type\": [\"mamba\", \"attention\", \"mamba\", \"attention\"]}",
         "does not know what layer_types means"},
        {"{\"num_local_experts\": null}", "num_local_experts is null"},
        {"{\"full_attention_interval\": 4}", "does not know what full_attention_interval means"},
        {"{\"mamba_dt_rank\": 4}", "does not know what mamba_dt_rank means for a granitemoehybrid model"},
    };
    refuse_configs(GOLDEN_STATE_SPACE "/granite4-h", CASES, sizeof CASES / sizeof *CASES);
}

static void a_gguf_file_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const GgufRefusal CASES[] = {
        {"granitehybrid.ssm.group_count", GGUF_VALUE, 4,
         "6 heads of values (ssm.time_step_rank) cannot share 4 of keys (ssm.group_count) evenly"},
        {"granitehybrid.ssm.time_step_rank", GGUF_VALUE, 5,
         "granitehybrid.ssm.inner_size is 96, for 5 heads of values (ssm.time_step_rank)"},
        {"granitehybrid.ssm.inner_size", 0, 0, "granitehybrid.ssm.inner_size is missing"},
        {"granitehybrid.ssm.state_size", 0, 0, "granitehybrid.ssm.state_size is missing"},
        {"granitehybrid.attention.head_count_kv", GGUF_FIRST, 1,
         "granitehybrid.attention.head_count_kv should have a number for each of 4 layers, 0 or 1"},
        {"granitehybrid.rope.scaling.finetuned", 0, 0,
         "does not know what granitehybrid.rope.scaling.finetunee"},
        {"granitehybrid.feed_forward_length", GGUF_VALUE, 39, "blk.0.ffn_gate.weight: expected [39, 48]"},
        {"blk.0.ssm_a", 0, 0, "layer 0: tensor ssm_a is missing"},
        {"blk.2.ssm_d", 0, 0, "layer 2: tensor ssm_d is missing"},
        {"blk.2.ssm_dt.bias", 0, 0, "layer 2: tensor ssm_dt.bias is missing"},
        {"blk.2.ssm_in.weight", 0, 0, "tensor blk.2.ssm_in.weight is missing"},
        {"blk.3.ssm_conv1d.weight", 0, 0, "tensor blk.3.ssm_conv1d.weight is missing"},
        {"blk.3.ssm_conv1d.bias", 0, 0, "tensor blk.3.ssm_conv1d.bias is missing"},
        {"blk.3.ssm_norm.weight", 0, 0, "tensor blk.3.ssm_norm.weight is missing"},
        {"blk.3.ssm_out.weight", 0, 0, "tensor blk.3.ssm_out.weight is missing"},
        {"blk.1.attn_q.weight", 0, 0, "tensor blk.1.attn_q.weight is missing"},
        {"blk.1.ffn_gate.weight", 0, 0, "tensor blk.1.ffn_gate.weight is missing"},
    };
    refuse_ggufs(GOLDEN_STATE_SPACE "/granite4-h.gguf", CASES, sizeof CASES / sizeof *CASES);
}

// Infinity, as JSON has none: bare, as Python writes it.
static void infinity_is_read(void **state) {
    (void)state;
    static const struct {
        const char *limit, *fragment; // NULL: it is taken
    } CASES[] = {{"[0.0, Infinity]", NULL},
                 {"[0.0, -Infinity]", "time_step_limit asks for other limits"},
                 {"[NaN, Infinity]", "time_step_limit asks for other limits"},
                 {"[0.0, Infinit]", "not valid JSON"},
                 {"[0.0, \"Infinity\"]", "time_step_limit asks for other limits"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *folder = folder_new(), text[4096];
        Bytes config = bytes_of_file(GOLDEN_STATE_SPACE "/granite4-h/config.json");
        snprintf(text, sizeof text, "{\"_name_or_path\": \"to Infinity\", \"time_step_limit\": %s, %.*s",
                 CASES[i].limit, (int)config.size - 1, (const char *)config.data + 1);
        folder_write_text(folder, "config.json", text);
        folder_copy(folder, "model.safetensors", GOLDEN_STATE_SPACE "/granite4-h/model.safetensors");
        Model *model = NULL;
        Error error = {0};
        const Status status = model_open(folder, &model, &error);
        if (CASES[i].fragment ? !status || !strstr(error.message, CASES[i].fragment) : status)
            fail_msg("%s: status %d, \"%s\"", CASES[i].limit, status, error.message);
        if (model) assert_string_equal(model->name, "to Infinity");
        model_close(model);
        bytes_free(&config);
        folder_remove(folder);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense),
        cmocka_unit_test(with_experts),
        cmocka_unit_test(with_rope),
        cmocka_unit_test(where_all_layers_attend),
        cmocka_unit_test(weights_are_converted),
        cmocka_unit_test(both_kinds_of_files_say_the_same),
        cmocka_unit_test(a_config_that_cannot_be_is_refused),
        cmocka_unit_test(a_gguf_file_that_cannot_be_is_refused),
        cmocka_unit_test(infinity_is_read),
    };
    return test_main("state spaces", argc, argv, tests);
}
