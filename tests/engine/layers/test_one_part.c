// Layers that are one part alone, Nemotron-H's (tests/golden/make_state_space.py), against Hugging Face transformers in float32:
// the logits of a text read at once, in pieces and token by token, from both kinds of files, and the tokens that it goes on with.
#include "tests/support/files.h"
#include "tests/support/model/golden_check.h"
#include "tests/support/model/refusals.h"
#include "tests/support/test.h"
#include "engine/model/model.h"

#include <stdio.h>
#include <string.h>

// Two groups; as its makers' files have it. The last layer recurs.
static void dense(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "nemotron_h");
}
// Experts without gates, beside one that every token takes, which are the last layer.
static void with_experts(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "nemotron_h-moe");
}
// Steps of time that are cut off, in every token, those that go on with a text too; all four parts, the first one a feed-forward
// part.
static void with_a_least_step(void **state) {
    (void)state;
    golden_check_model(GOLDEN_STATE_SPACE, "nemotron_h-steps", "nemotron_h-steps", GOLDEN_LOOPS);
}
static void where_no_layer_recurs(void **state) {
    (void)state;
    golden_check_model(GOLDEN_STATE_SPACE, "nemotron_h-attends", "nemotron_h-attends", GOLDEN_LOOPS);
    golden_check_cache(GOLDEN_STATE_SPACE, "nemotron_h-attends", DTYPE_INT8, 0.05);
}

static void weights_are_converted(void **state) {
    (void)state;
    Engine *engine = golden_check_converted(GOLDEN_STATE_SPACE, "nemotron_h", "cpu", WEIGHTS_INT8);
    assert_int_equal(engine_model(engine)->layers[0].wv.type, DTYPE_W8);
    assert_int_equal(engine_model(engine)->layers[1].w_up.type, DTYPE_W8);
    golden_check_distance(engine, GOLDEN_STATE_SPACE, "nemotron_h", "int8", 0.1);
    engine_close(engine);
    engine = golden_check_converted(GOLDEN_STATE_SPACE, "nemotron_h-moe", "cpu:exact", WEIGHTS_F16);
    assert_int_equal(engine_model(engine)->layers[1].shared_up.type, DTYPE_F16);
    golden_check_distance(engine, GOLDEN_STATE_SPACE, "nemotron_h-moe", "f16", 0.01);
    engine_close(engine);
}

// ---- what files say ------------------------------------------------------------------------------------------------

static bool is_there(const Matrix *m) {
    return m->data != NULL;
}

// M recurs, * attends, - is a feed-forward part, E one of experts.
static void each_layer_has_its_part(void **state) {
    (void)state;
    static const struct {
        const char *name, *parts;
        float least_step;
    } CASES[] = {{"nemotron_h", "M-M*-M", 0.001f},     {"nemotron_h.gguf", "M-M*-M", 0},
                 {"nemotron_h-moe", "ME*EME", 0.001f}, {"nemotron_h-moe.gguf", "ME*EME", 0},
                 {"nemotron_h-steps", "-*MEM", 0.3f},  {"nemotron_h-attends", "*--*", 0}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = golden_check_file(GOLDEN_STATE_SPACE, CASES[i].name);
        const DecoderShape *s = &model->shape;
        const char *parts = CASES[i].parts;
        assert_int_equal(s->n_layers, strlen(parts));
        assert_int_equal(s->activation, ACTIVATION_RELU2);
        assert_true(s->delta.least_step == CASES[i].least_step);
        for (int l = 0; l < s->n_layers; l++) {
            const LayerHeads heads = layer_heads(s, l);
            const LayerWeights *w = &model->layers[l];
            const bool recurs = parts[l] == 'M', attends = parts[l] == '*', experts = parts[l] == 'E';
            assert_int_equal(heads.recurs, recurs);
            assert_int_equal(heads.no_mixer, !recurs && !attends);
            assert_int_equal(heads.no_ffn, recurs || attends);
            assert_int_equal(s->rope.of_layers[l], -1);
            assert_int_equal(is_there(&w->wq), recurs || attends);
            assert_int_equal(is_there(&w->attn_norm), recurs || attends);
            assert_int_equal(is_there(&w->skip), recurs);
            assert_int_equal(is_there(&w->w_up), !recurs && !attends);
            assert_int_equal(is_there(&w->ffn_norm), !recurs && !attends);
            assert_int_equal(is_there(&w->router), experts);
            assert_int_equal(is_there(&w->choice_bias), experts);
            assert_int_equal(is_there(&w->shared_up), experts);
            assert_true(!is_there(&w->w_gate) && !is_there(&w->shared_gate));
        }
        model_close(model);
    }
}

static void a_config_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const ConfigRefusal DENSE[] = {
        {"{\"hybrid_override_pattern\": \"M-M*-\"}",
         "hybrid_override_pattern should name 6 layers, and names 5"},
        {"{\"hybrid_override_pattern\": \"M-M*-X\"}",
         "hybrid_override_pattern: layer 5 is none of \"mamba\" (M), \"attention\" (*), \"mlp\" (-) and "
         "\"moe\" (E)"},
        {"{\"hybrid_override_pattern\": \"------\"}",
         "none of 6 layers attends or recurs (hybrid_override_pattern)"},
        {"{\"hybrid_override_pattern\": \"E-M*-M\"}", "moe_intermediate_size is missing"},
        {"{\"hybrid_override_pattern\": null}", "layers_block_type should name 6 layers, and names 0"},
        {"{\"layers_block_type\": [\"mamba\", \"mlp\", \"mamba\", \"attention\", \"mlp\", \"conv\"]}",
         "layers_block_type: layer 5 is none of"},
        {"{\"layers_block_type\": [\"mamba\", \"attention\"]}",
         "layers_block_type should name 6 layers, and names 2"},
        {"{\"layers_block_type\": [\"mamba\", \"mlp\", \"mamba\", \"attention\", \"mlp\", \"mamba\"], "
         "\"layer_types\": []}",
         "layer_types should name 6 layers, and names 0"},
        {"{\"n_groups\": 4}", "6 heads of values (mamba_num_heads) cannot share 4 of keys (n_groups) evenly"},
        {"{\"mamba_head_dim\": 0}", "mamba_head_dim is 0; palaver runs 1 to 256"},
        {"{\"ssm_state_size\": 257}", "ssm_state_size is 257; palaver runs 1 to 256"},
        {"{\"conv_kernel\": 9}", "conv_kernel is 9; palaver runs 1 to 8"},
        {"{\"use_bias\": true}", "use_bias asks for biases of layers that recur"},
        {"{\"mamba_proj_bias\": true}", "mamba_proj_bias asks for biases of layers that recur"},
        {"{\"mlp_bias\": true}", "mlp_bias asks for biases of the feed-forward part"},
        {"{\"attention_bias\": true}", "attention_bias asks for biases of attention"},
        {"{\"mamba_hidden_act\": \"gelu\"}", "mamba_hidden_act asks for another activation"},
        {"{\"mlp_hidden_act\": \"mish\"}", "mlp_hidden_act \"mish\""},
        {"{\"sliding_window\": 8}", "sliding_window asks for windows"},
        {"{\"moe_latent_size\": 16}", "moe_latent_size asks for experts of latents"},
        {"{\"n_shared_experts\": 2}", "n_shared_experts asks for another number of experts"},
        {"{\"layer_norm_epsilon\": -1}", "layer_norm_epsilon, the norm's epsilon, is -1"},
        {"{\"attention_head_dim\": 15}", "a head has 15 elements (attention_head_dim)"},
        {"{\"time_step_min\": -1}", "time_step_min is -1; it must not be negative"},
        {"{\"time_step_limit\": [0.0, 100.0]}", "time_step_limit asks for other limits"},
        {"{\"mamba_d_state\": 17}", "does not know what mamba_d_state means for a nemotron_h model"},
        {"{\"full_attention_interval\": 4}", "does not know what full_attention_interval means"},
    };
    static const ConfigRefusal MOE[] = {
        {"{\"n_group\": 4}",
         "2 (num_experts_per_tok) of 6 experts (n_routed_experts) in 1 (topk_group) of 4 groups (n_group)"},
    };
    refuse_configs(GOLDEN_STATE_SPACE "/nemotron_h", DENSE, sizeof DENSE / sizeof *DENSE);
    refuse_configs(GOLDEN_STATE_SPACE "/nemotron_h-moe", MOE, sizeof MOE / sizeof *MOE);
}

// A pattern of as many layers that are not the file's.
static void tensors_that_are_missing_are_named(void **state) {
    (void)state;
    static const char OWN[] = "M-M*-M";
    static const struct {
        const char *pattern, *fragment;
    } CASES[] = {{"*-M*-M", "tensor backbone.layers.0.mixer.q_proj.weight is missing"},
                 {"MMM*-M", "tensor backbone.layers.1.mixer.in_proj.weight is missing"},
                 {"M-M*--", "tensor backbone.layers.5.mixer.up_proj.weight is missing"},
                 {"M-M*-M", NULL}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *folder = folder_new(), text[4096];
        Bytes config = bytes_of_file(GOLDEN_STATE_SPACE "/nemotron_h/config.json");
        snprintf(text, sizeof text, "%.*s", (int)config.size, (const char *)config.data);
        memcpy(strstr(text, OWN), CASES[i].pattern, strlen(OWN));
        folder_write_text(folder, "config.json", text);
        folder_copy(folder, "model.safetensors", GOLDEN_STATE_SPACE "/nemotron_h/model.safetensors");
        Model *model = NULL;
        Error error = {0};
        const Status status = model_open(folder, &model, &error);
        if (CASES[i].fragment ? !status || !strstr(error.message, CASES[i].fragment) : status)
            fail_msg("%s: status %d, \"%s\"", CASES[i].pattern, status, error.message);
        model_close(model);
        bytes_free(&config);
        folder_remove(folder);
    }
}

static void a_gguf_file_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const GgufRefusal DENSE[] = {
        {"nemotron_h.attention.head_count_kv", GGUF_FIRST, 2, "tensor blk.0.attn_q.weight is missing"},
        {"nemotron_h.feed_forward_length", GGUF_FIRST, 40, "tensor blk.0.ffn_up.weight is missing"},
        {"nemotron_h.feed_forward_length", 0, 0, "nemotron_h.feed_forward_length is missing"},
        {"nemotron_h.ssm.inner_size", 0, 0, "nemotron_h.ssm.inner_size is missing"},
        {"blk.0.ssm_a", 0, 0, "layer 0: tensor ssm_a is missing"},
        {"blk.0.attn_norm.weight", 0, 0, "tensor blk.0.attn_norm.weight is missing"},
        {"blk.1.attn_norm.weight", 0, 0, "tensor blk.1.attn_norm.weight is missing"},
        {"blk.1.ffn_down.weight", 0, 0, "tensor blk.1.ffn_down.weight is missing"},
        {"blk.3.attn_q.weight", 0, 0, "tensor blk.3.attn_q.weight is missing"},
    };
    static const GgufRefusal MOE[] = {
        {"blk.1.ffn_gate_inp.weight", 0, 0, "tensor blk.1.ffn_up.weight is missing"},
        {"blk.1.exp_probs_b.bias", 0, 0, "tensor blk.1.exp_probs_b.biat has no place"},
        {"blk.1.ffn_up_exps.weight", 0, 0, "ffn_up"},
        {"blk.1.ffn_up_shexp.weight", 0, 0, "tensor ffn_up_shexp is missing"},
    };
    refuse_ggufs(GOLDEN_STATE_SPACE "/nemotron_h.gguf", DENSE, sizeof DENSE / sizeof *DENSE);
    refuse_ggufs(GOLDEN_STATE_SPACE "/nemotron_h-moe.gguf", MOE, sizeof MOE / sizeof *MOE);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense),
        cmocka_unit_test(with_experts),
        cmocka_unit_test(with_a_least_step),
        cmocka_unit_test(where_no_layer_recurs),
        cmocka_unit_test(weights_are_converted),
        cmocka_unit_test(each_layer_has_its_part),
        cmocka_unit_test(a_config_that_cannot_be_is_refused),
        cmocka_unit_test(tensors_that_are_missing_are_named),
        cmocka_unit_test(a_gguf_file_that_cannot_be_is_refused),
    };
    return test_main("layers of one part", argc, argv, tests);
}
