// Layers beside each other, Falcon-H1's (tests/golden/make_state_space.py), against Hugging Face transformers in float32: the logits
// of a text read at once, in pieces and token by token, from both kinds of files, and the tokens that it goes on with.
#include "tests/support/model/golden_check.h"
#include "tests/support/model/refusals.h"
#include "tests/support/test.h"
#include "engine/model/model.h"

// A state space that is not normed; everything is multiplied.
static void as_its_makers_have_it(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "falcon_h1");
}
// One that is, in two groups, with a large epsilon, which residuals that are kept divided leave as it is.
static void with_norms_of_the_state(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "falcon_h1-norm");
}
// A tied head, sizes that follow, numbers that are not said.
static void with_a_tied_head(void **state) {
    (void)state;
    golden_check_model(GOLDEN_STATE_SPACE, "falcon_h1-tied", "falcon_h1-tied", GOLDEN_LOOPS);
}

// One head of a state, whose rate is a matrix of one row, which is multiplied all the same.
static void with_one_head_of_a_state(void **state) {
    (void)state;
    golden_check_model(GOLDEN_STATE_SPACE, "falcon_h1-one", "falcon_h1-one", GOLDEN_LOOPS);
}

static void weights_are_converted(void **state) {
    (void)state;
    Engine *engine = golden_check_converted(GOLDEN_STATE_SPACE, "falcon_h1", "cpu", WEIGHTS_INT8);
    assert_int_equal(engine_model(engine)->layers[0].wv.type, DTYPE_W8);
    golden_check_distance(engine, GOLDEN_STATE_SPACE, "falcon_h1", "int8", 0.1);
    engine_close(engine);
    engine = golden_check_converted(GOLDEN_STATE_SPACE, "falcon_h1.gguf", "cpu:exact", WEIGHTS_F16);
    assert_int_equal(engine_model(engine)->layers[1].wv.type, DTYPE_F16);
    golden_check_distance(engine, GOLDEN_STATE_SPACE, "falcon_h1", "f16", 0.01);
    engine_close(engine);
}

// ---- what files say ------------------------------------------------------------------------------------------------

// The first of two recurs and lacks a feed-forward part, the second attends beside it; their norm is one, in folders times numbers.
static void a_layer_of_files_is_two(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int heads, dim;
        bool normed, multiplied;
    } CASES[] = {{"falcon_h1", 5, 16, false, true},
                 {"falcon_h1.gguf", 5, 16, false, false},
                 {"falcon_h1-norm", 6, 16, true, true},
                 {"falcon_h1-norm.gguf", 6, 16, true, false},
                 {"falcon_h1-tied", 4, 24, false, true}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = golden_check_file(GOLDEN_STATE_SPACE, CASES[i].name);
        const DecoderShape *s = &model->shape;
        assert_int_equal(s->n_layers, 4);
        assert_int_equal(s->delta.n_value_heads, CASES[i].heads);
        assert_int_equal(s->delta.value_dim, CASES[i].dim);
        assert_int_equal(s->delta.scale != 0, CASES[i].multiplied);
        assert_true(s->delta.adds && s->delta.least_step == 0);
        assert_true(decoder_ffn_width(s) >= decoder_pass_width(s));
        for (int l = 0; l < s->n_layers; l++) {
            const LayerHeads heads = layer_heads(s, l);
            const LayerWeights *w = &model->layers[l];
            const bool first = l % 2 == 0;
            assert_true(heads.recurs == first && heads.no_ffn == first && heads.beside == !first);
            assert_int_equal(layer_has_beside(s, l), first);
            assert_int_equal(layer_of_files(s, l), l / 2);
            assert_int_equal(s->rope.of_layers[l], first ? -1 : 0);
            assert_int_equal(w->skip.data != NULL, first);
            assert_int_equal(w->state_norm.data != NULL, first && CASES[i].normed);
            assert_int_equal(w->w_up.data != NULL, !first);
            assert_int_equal(w->ffn_norm.data != NULL, !first);
            assert_non_null(w->attn_norm.data);
            assert_non_null(w->wo.data);
        }
        assert_int_equal(model->multiplied != NULL, CASES[i].multiplied);
        assert_int_equal(model->layers[0].attn_norm.data == model->layers[1].attn_norm.data,
                         !CASES[i].multiplied);
        model_close(model);
    }
}

static void a_config_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const ConfigRefusal CASES[] = {
        {"{\"mamba_d_ssm\": 96}", "5 heads of 16 (mamba_n_heads, mamba_d_head) are not 96 (mamba_d_ssm)"},
        {"{\"mamba_d_ssm\": 0}", "mamba_d_ssm is 0"},
        {"{\"mamba_n_groups\": 2}", "5 heads of values (mamba_n_heads) cannot share 2 of keys"},
        {"{\"mamba_rms_norm\": true, \"mamba_norm_before_gate\": true}",
         "mamba_norm_before_gate asks for norms of the state before its gates"},
        {"{\"mamba_proj_bias\": true}", "mamba_proj_bias asks for biases"},
        {"{\"projectors_bias\": true}", "projectors_bias asks for biases"},
        {"{\"attention_bias\": true}", "attention_bias asks for biases of attention"},
        {"{\"mlp_bias\": true}", "mlp_bias asks for biases of the feed-forward part"},
        {"{\"hidden_act\": \"gelu\"}", "hidden_act asks for another activation"},
        {"{\"mamba_use_mlp\": false}", "mamba_use_mlp asks for layers without a feed-forward part"},
        {"{\"attn_layer_indices\": [0]}", "attn_layer_indices asks for layers that do not attend"},
        {"{\"key_multiplier\": 0}",
         "key_multiplier is 0; palaver runs models whose multipliers are positive"},
        {"{\"ssm_out_multiplier\": -0.5}", "ssm_out_multiplier is -0.5"},
        {"{\"attention_in_multiplier\": null}", "attention_in_multiplier is null"},
        {"{\"lm_head_multiplier\": 0}", "lm_head_multiplier is 0"},
        {"{\"mlp_multipliers\": [1.0]}", "mlp_multipliers should be a list of 2 numbers"},
        {"{\"ssm_multipliers\": [1.0, 1.0, 1.0, 1.0, 0.0]}", "ssm_multipliers is 0"},
        {"{\"ssm_multipliers\": 3}", "ssm_multipliers should be a list of 5 numbers"},
        {"{\"ssm_multipliers\": [1.0, null, 1.0, 1.0, 1.0]}",
         "ssm_multipliers should be a list of 5 numbers"},
        {"{\"time_step_limit\": [0.001, 0.1]}", "time_step_limit asks for other limits"},
        {"{\"num_hidden_layers\": 600}",
         "600 layers of two parts each (num_hidden_layers); palaver takes 512"},
        {"{\"mamba_dt_rank\": 4}", "does not know what mamba_dt_rank means for a falcon_h1 model"},
    };
    refuse_configs(GOLDEN_STATE_SPACE "/falcon_h1", CASES, sizeof CASES / sizeof *CASES);
}

static void a_gguf_file_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const GgufRefusal CASES[] = {
        {"falcon-h1.ssm.inner_size", 0, 0, "falcon-h1.ssm.inner_size is missing"},
        {"falcon-h1.ssm.time_step_rank", GGUF_VALUE, 3, "falcon-h1.ssm.inner_size is 80, for 3 heads"},
        {"blk.1.ssm_a", 0, 0, "layer 1: tensor ssm_a is missing"},
        {"blk.1.ssm_in.weight", 0, 0, "tensor blk.1.ssm_in.weight is missing"},
        {"blk.1.attn_q.weight", 0, 0, "tensor blk.1.attn_q.weight is missing"},
        {"blk.1.attn_norm.weight", 0, 0, "tensor blk.1.attn_norm.weight is missing"},
        {"blk.1.ffn_norm.weight", 0, 0, "tensor blk.1.ffn_norm.weight is missing"},
        {"blk.0.ffn_gate.weight", 0, 0, "tensor blk.0.ffn_gate.weight is missing"},
        {"blk.0.ssm_conv1d.bias", 0, 0, "tensor blk.0.ssm_conv1d.bias is missing"},
    };
    refuse_ggufs(GOLDEN_STATE_SPACE "/falcon_h1.gguf", CASES, sizeof CASES / sizeof *CASES);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_its_makers_have_it),
        cmocka_unit_test(with_norms_of_the_state),
        cmocka_unit_test(with_a_tied_head),
        cmocka_unit_test(with_one_head_of_a_state),
        cmocka_unit_test(weights_are_converted),
        cmocka_unit_test(a_layer_of_files_is_two),
        cmocka_unit_test(a_config_that_cannot_be_is_refused),
        cmocka_unit_test(a_gguf_file_that_cannot_be_is_refused),
    };
    return test_main("layers beside each other", argc, argv, tests);
}
