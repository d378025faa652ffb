// What a config.json means: values, defaults and refusals, in the styles of transformers 4 and 5.
#include "tests/support/model/model_config.h"
#include "tests/support/test.h"
#include "engine/model/model.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void frequencies_equal_transformers(void **state) {
    (void)state;
    json_t *rows = json_load_file("tests/golden/models/rope.json", 0, NULL);
    assert_true(json_array_size(rows) >= 9);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *expected = json_object_get(row, "inv_freq");
        char *text = json_dumps(json_object_get(row, "config"), 0);
        Model *model;
        Error error = {0};
        if (model_from_config(text, strlen(text), NULL, 0, &model, &error) != STATUS_OK)
            fail_msg("%s", error.message);
        assert_int_equal(model->shape.rope.rotary_dim, 2 * json_array_size(expected));
        for (size_t j = 0; j < json_array_size(expected); j++) {
            double wanted = json_number_value(json_array_get(expected, j));
            if (!(fabs(model->inv_freq[j] / wanted - 1) < 2e-6)) { // theirs are float32
                fail_msg("%s: inv_freq[%zu] is %.9g, transformers has %.9g", text, j, model->inv_freq[j],
                         wanted);
            }
        }
        assert_true(fabs(model->shape.rope.magnitude - json_number_value(json_object_get(row, "magnitude"))) <
                    1e-12);
        model_close(model);
        free(text);
    }
    json_decref(rows);
}

static const char BASE[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4, \"vocab_size\": 100, \"max_position_embeddings\": 512}";

// BASE with changes; a value of "absent" removes the key.
static Status with(const char *changes, const char *generation, Model **model, Error *error) {
    json_t *config = json_loads(BASE, 0, NULL), *changed = json_loads(changes, 0, NULL);
    if (changed == NULL) fail_msg("no JSON: %s", changes);
    const char *key;
    json_t *value;
    json_object_update(config, changed);
    json_object_foreach(changed, key, value) {
        if (json_is_string(value) && strcmp(json_string_value(value), "absent") == 0)
            json_object_del(config, key);
    }
    char *text = json_dumps(config, 0);
    Status status = model_from_config(text, strlen(text), generation,
                                      generation != NULL ? strlen(generation) : 0, model, error);
    free(text);
    json_decref(config);
    json_decref(changed);
    return status;
}

static Model *with_ok(const char *changes, const char *generation) {
    Model *model;
    Error error = {0};
    if (with(changes, generation, &model, &error) != STATUS_OK) fail_msg("%s: %s", changes, error.message);
    return model;
}

static void refuses_bad_configs(void **state) {
    (void)state;
    static const struct {
        const char *changes;
        Status status;
        const char *fragment;
    } CASES[] = {
        {"{\"model_type\": \"absent\"}", STATUS_FILE, "does not name its architecture"},
        {"{\"model_type\": \"gpt9\"}", STATUS_UNSUPPORTED,
         "\"gpt9\" is unknown to palaver; it knows llama, mistral, qwen2, qwen3, phi3, gptj, gpt_neox, "
         "opt, bloom, mpt"},
        {"{\"model_type\": \"a\\u001b[31mb\"}", STATUS_UNSUPPORTED, "\"a?[31mb\""},
        {"{\"model_type\": 3}", STATUS_FILE, "model_type should be a string"},
        {"{\"num_hidden_layers\": 0}", STATUS_FILE, "num_hidden_layers is 0; palaver takes 1 to 1024"},
        {"{\"num_hidden_layers\": -1}", STATUS_FILE, "num_hidden_layers is -1"},
        {"{\"num_hidden_layers\": 9223372036854775807}", STATUS_FILE,
         "num_hidden_layers is 9223372036854775807"},
        {"{\"num_hidden_layers\": \"absent\"}", STATUS_FILE, "num_hidden_layers is missing"},
        {"{\"hidden_size\": \"absent\"}", STATUS_FILE, "hidden_size is missing"},
        {"{\"hidden_size\": 64.0}", STATUS_FILE, "hidden_size should be an integer"},
        {"{\"hidden_size\": 4294967296}", STATUS_FILE, "hidden_size is 4294967296"},
        {"{\"vocab_size\": \"absent\"}", STATUS_FILE, "vocab_size is missing"},
        {"{\"num_attention_heads\": 5}", STATUS_FILE, "hidden size 64 is no multiple of 5 heads"},
        {"{\"num_key_value_heads\": 3}", STATUS_FILE, "4 attention heads cannot share 3"},
        {"{\"num_key_value_heads\": 8}", STATUS_FILE, "4 attention heads cannot share 8"},
        {"{\"num_attention_heads\": 65536, \"head_dim\": 65536}", STATUS_FILE, "beyond every model"},
        {"{\"head_dim\": 15}", STATUS_FILE, "15 elements; it must be an even number"},
        {"{\"hidden_act\": \"mish\"}", STATUS_UNSUPPORTED, "hidden_act \"mish\""},
        {"{\"model_type\": \"gptj\", \"activation_function\": \"mish\"}", STATUS_UNSUPPORTED,
         "activation_function \"mish\""},
        {"{\"model_type\": \"gptj\", \"num_hidden_layers\": \"absent\"}", STATUS_FILE, "n_layer is missing"},
        {"{\"model_type\": \"gptj\", \"rotary_dim\": 20}", STATUS_FILE, "rope turns 20 of a head's 16"},
        {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": 0.2}", STATUS_FILE, "rope turns 3 of a head's 16"},
        {"{\"model_type\": \"gpt_neox\", \"num_key_value_heads\": 2}", STATUS_FILE,
         "2 key-value heads for 4 attention heads: a gpt_neox model has as many"},
        {"{\"model_type\": \"gpt_neox\", \"layer_norm_eps\": 2}", STATUS_FILE, "epsilon"},
        {"{\"model_type\": \"bloom\", \"apply_residual_connection_post_layernorm\": true}",
         STATUS_UNSUPPORTED, "asks for residuals that begin behind the norms"},
        {"{\"model_type\": \"mpt\", \"attn_config\": {\"alibi\": false}}", STATUS_UNSUPPORTED,
         "attn_config.alibi asks for positions other than ALiBi's"},
        {"{\"model_type\": \"mpt\", \"attn_config\": {\"clip_qkv\": 6}}", STATUS_UNSUPPORTED,
         "attn_config.clip_qkv asks for clipped queries"},
        {"{\"model_type\": \"mpt\", \"attn_config\": {\"alibi_bias_max\": 16}}", STATUS_UNSUPPORTED,
         "another range of slopes"},
        {"{\"model_type\": \"mpt\", \"logit_scale\": \"inv_sqrt_d_model\"}", STATUS_UNSUPPORTED,
         "logit_scale asks for scaled logits"},
        {"{\"model_type\": \"mpt\", \"no_bias\": false}", STATUS_UNSUPPORTED, "no_bias asks for biases"},
        {"{\"model_type\": \"opt\", \"do_layer_norm_before\": false}", STATUS_UNSUPPORTED,
         "do_layer_norm_before asks for norms after attention and feed-forward"},
        {"{\"model_type\": \"opt\", \"word_embed_proj_dim\": 32}", STATUS_UNSUPPORTED,
         "embeddings of 32 elements, projected to a hidden size of 64"},
        {"{\"model_type\": \"opt\", \"_remove_final_layer_norm\": true}", STATUS_UNSUPPORTED,
         "without its last norm"},
        {"{\"model_type\": \"opt\", \"layer_norm_elementwise_affine\": \"no\"}", STATUS_UNSUPPORTED,
         "norms without weights"},
        {"{\"rms_norm_eps\": -1}", STATUS_FILE, "epsilon"},
        {"{\"num_local_experts\": 8}", STATUS_UNSUPPORTED, "mixture of 8 experts"},
        {"{\"quantization_config\": {\"quant_method\": \"gptq\"}}", STATUS_UNSUPPORTED, "quantised by gptq"},
        {"{\"max_position_embeddings\": 0}", STATUS_FILE, "context of 0 tokens"},
        {"{\"rope_theta\": 0}", STATUS_FILE, "the base must be larger than 1"},
        {"{\"rope_theta\": \"x\"}", STATUS_FILE, "rope_theta should be a number"},
        {"{\"model_type\": \"phi3\", \"partial_rotary_factor\": 2}", STATUS_FILE, "rope turns"},
        {"{\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.01}", STATUS_FILE,
         "rope turns 0 of a head's 16"},
        {"{\"partial_rotary_factor\": 0.5}", STATUS_UNSUPPORTED,
         "partial_rotary_factor is 0.5: a llama model's heads are turned as a whole"},
        {"{\"rope_scaling\": {\"type\": \"dynamic\"}}", STATUS_FILE, "the factor is missing"},
        {"{\"rope_scaling\": {\"rope_type\": \"longrope\"}}", STATUS_FILE, "the original context is missing"},
        {"{\"original_max_position_embeddings\": 64, \"rope_scaling\": {\"type\": \"su\"}}", STATUS_FILE,
         "rope: short_factor is missing"},
        {"{\"original_max_position_embeddings\": 64, \"rope_scaling\": {\"type\": \"su\", \"short_factor\": "
         "[1]}}",
         STATUS_FILE, "rope: short_factor should be a list of 8 numbers"},
        {"{\"original_max_position_embeddings\": 64, \"rope_scaling\": {\"type\": \"su\", "
         "\"short_factor\": [1, 1, 1, 1, 1, 1, 1, 0]}}",
         STATUS_FILE, "short_factor[7] is 0; it must be between"},
        {"{\"original_max_position_embeddings\": 64, \"rope_scaling\": {\"type\": \"su\", "
         "\"short_factor\": [1, 1, 1, 1, 1, 1, 1, 2], \"long_factor\": 2}}",
         STATUS_FILE, "long_factor should be a list"},
        {"{\"rope_scaling\": {\"type\": \"mrope\"}}", STATUS_UNSUPPORTED, "rope scaling \"mrope\""},
        {"{\"rope_scaling\": {\"type\": \"linear\"}}", STATUS_FILE, "the factor is missing"},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}", STATUS_FILE,
         "the factor is missing or not positive"},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": [2]}}", STATUS_FILE,
         "factor should be a number"},
        {"{\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8}}", STATUS_FILE, "low_freq_factor"},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8, \"beta_slow\": 40}}", STATUS_FILE,
         "beta_slow"},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8, \"attention_factor\": -1}}", STATUS_FILE,
         "attention factor"},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"original_max_position_embeddings\": -5}}", STATUS_FILE,
         "rope: "},
        {"{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}}", STATUS_UNSUPPORTED,
         "differ by kind of layer"},
        {"{\"model_type\": \"qwen2\", \"layer_types\": [\"full_attention\"]}", STATUS_FILE,
         "layer_types should be a list of 4 kinds of layer"},
        {"{\"model_type\": \"qwen2\", \"layer_types\": [\"full_attention\", \"linear_attention\", "
         "\"full_attention\", \"full_attention\"]}",
         STATUS_UNSUPPORTED, "layer_types[1] is neither"},
        {"{\"sliding_window\": 9}", STATUS_UNSUPPORTED,
         "a sliding window of 9 tokens is asked for, which a llama model does not go by"},
        {"{\"model_type\": \"mistral\", \"sliding_window\": 9, \"use_sliding_window\": false}",
         STATUS_UNSUPPORTED, "a sliding window of 9 tokens is switched off"},
        {"{\"embedding_multiplier\": 12}", STATUS_UNSUPPORTED,
         "config.json: palaver does not know what embedding_multiplier means for a llama model"},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"mrope_section\": [4, 4]}}",
         STATUS_UNSUPPORTED, "what rope_scaling.mrope_section means"},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"weird\": 1}}", STATUS_UNSUPPORTED,
         "what rope_scaling.weird means"},
        {"{\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, \"weird\": 1}}",
         STATUS_UNSUPPORTED, "what rope_parameters.weird means"},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"yarn\", \"factor\": 2}}", STATUS_FILE,
         "rope_scaling: rope_type is \"yarn\", but type is \"linear\""},
        {"{\"rope_parameters\": {\"type\": \"linear\", \"rope_type\": \"default\", \"factor\": 2}}",
         STATUS_FILE, "rope_parameters: rope_type is \"default\", but type is \"linear\""},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"rope_parameters\": {\"rope_type\": "
         "\"linear\", \"factor\": 2, \"rope_theta\": 7000}}",
         STATUS_UNSUPPORTED, "rope_parameters.rope_theta contradicts rope_scaling, which is read"},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"rope_parameters\": {\"rope_type\": "
         "\"yarn\", \"factor\": 2}}",
         STATUS_UNSUPPORTED, "rope_parameters.rope_type contradicts rope_scaling"},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"rope_theta\": null}}", STATUS_FILE,
         "rope_scaling.rope_theta is null"},
        {"{\"rope_parameters\": {\"rope_type\": null}}", STATUS_FILE, "rope_parameters.rope_type is null"},
        {"{\"hidden_act\": null}", STATUS_FILE, "hidden_act is null, which is no value of it"},
        {"{\"rope_theta\": null}", STATUS_FILE, "rope_theta is null"},
        {"{\"rms_norm_eps\": null}", STATUS_FILE, "rms_norm_eps is null"},
        {"{\"max_position_embeddings\": null}", STATUS_FILE, "max_position_embeddings is null"},
        {"{\"vocab_size\": null}", STATUS_FILE, "vocab_size is null"},
        {"{\"intermediate_size\": null}", STATUS_FILE, "intermediate_size is null"},
        {"{\"attention_bias\": null}", STATUS_FILE, "attention_bias is null"},
        {"{\"tie_word_embeddings\": null}", STATUS_FILE, "tie_word_embeddings is null"},
        {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": null}", STATUS_FILE, "rotary_pct is null"},
        {"{\"model_type\": \"gptj\", \"activation_function\": null}", STATUS_FILE,
         "activation_function is null"},
        {"{\"model_type\": \"gptj\", \"rotary_dim\": null}", STATUS_FILE, "rotary_dim is null"},
        {"{\"architectures\": [\"LlamaForSequenceClassification\"]}", STATUS_UNSUPPORTED,
         "architectures names LlamaForSequenceClassification, which is not the class of a llama model"},
        {"{\"architectures\": [\"LlamaForCausalLM\", \"Qwen2ForCausalLM\"]}", STATUS_UNSUPPORTED,
         "architectures names Qwen2ForCausalLM"},
        {"{\"architectures\": [\"LlamaForCausalLMEagle\"]}", STATUS_UNSUPPORTED,
         "names LlamaForCausalLMEagle"},
        {"{\"architectures\": \"LlamaForCausalLM\"}", STATUS_FILE, "architectures should be a list of names"},
        {"{\"model_type\": \"mpt\", \"attn_config\": {\"kv_n_heads\": 1}}", STATUS_UNSUPPORTED,
         "what attn_config.kv_n_heads means"},
        {"{\"sliding_window\": -3}", STATUS_FILE, "sliding window of -3"},
        {"{\"eos_token_id\": \"</s>\"}", STATUS_FILE, "eos_token_id should be an id or a list of ids"},
        {"{\"eos_token_id\": [1, null]}", STATUS_FILE, "eos_token_id should be an id or a list of ids"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model;
        Error error = {0};
        Status status = with(CASES[i].changes, NULL, &model, &error);
        if (status != CASES[i].status || strstr(error.message, CASES[i].fragment) == NULL) {
            fail_msg("%s: status %d, \"%s\"", CASES[i].changes, status, error.message);
        }
        assert_null(model);
        assert_non_null(strstr(error.message, "config.json: "));
    }
}

static void reads_windows(void **state) {
    (void)state;
    static const struct {
        const char *changes;
        int windows[4];
    } CASES[] = {
        {"{\"sliding_window\": 512}", {0, 0, 0, 0}}, // LLaMA has none, and none is seen within its context
        {"{\"sliding_window\": 9, \"use_sliding_window\": false}", {0, 0, 0, 0}},
        {"{\"model_type\": \"mistral\", \"sliding_window\": 9, \"layer_types\": [\"full_attention\", "
         "\"sliding_attention\", \"full_attention\", \"sliding_attention\"]}",
         {0, 9, 0, 9}}, // as transformers' AutoConfig takes it
        {"{\"model_type\": \"mistral\", \"sliding_window\": 9}", {9, 9, 9, 9}},
        {"{\"model_type\": \"mistral\", \"sliding_window\": null}", {0, 0, 0, 0}},
        {"{\"model_type\": \"mistral\"}", {4096, 4096, 4096, 4096}},
        {"{\"model_type\": \"qwen2\", \"sliding_window\": 9, \"max_window_layers\": 2}", {0, 0, 0, 0}},
        {"{\"model_type\": \"qwen2\", \"sliding_window\": 9, \"use_sliding_window\": true}", {0, 0, 0, 0}},
        {"{\"model_type\": \"qwen3\", \"sliding_window\": 9, \"use_sliding_window\": true, "
         "\"max_window_layers\": 2}",
         {0, 0, 9, 9}},
        {"{\"model_type\": \"qwen3\", \"sliding_window\": 9, \"use_sliding_window\": true, \"layer_types\": "
         "[\"full_attention\", \"sliding_attention\", \"full_attention\", \"sliding_attention\"]}",
         {0, 9, 0, 9}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = with_ok(CASES[i].changes, NULL);
        for (int layer = 0; layer < 4; layer++) {
            if (model->attention_windows[layer] != CASES[i].windows[layer]) {
                fail_msg("%s: layer %d has window %d", CASES[i].changes, layer,
                         model->attention_windows[layer]);
            }
        }
        model_close(model);
    }
}

static void reads_contexts_and_defaults(void **state) {
    (void)state;
    static const struct {
        const char *changes;
        int64_t context;
        double base;
        int head_dim, rotary_dim;
    } CASES[] = {
        {"{}", 512, 10000, 16, 16},
        {"{\"max_position_embeddings\": \"absent\"}", 2048, 10000, 16, 16},
        {"{\"model_type\": \"qwen3\"}", 512, 10000, 128, 128},
        {"{\"model_type\": \"phi3\", \"head_dim\": 32, \"partial_rotary_factor\": 0.25}", 512, 10000, 32, 8},
        {"{\"architectures\": [\"LLaMAForCausalLM\"], \"num_key_value_heads\": null, \"head_dim\": null, "
         "\"rope_scaling\": null, \"rope_parameters\": null, \"sliding_window\": null, \"pad_token_id\": "
         "null, "
         "\"bos_token_id\": null, \"eos_token_id\": null, \"layer_types\": null, \"quantization_config\": "
         "null}",
         512, 10000, 16, 16},
        {"{\"architectures\": null, \"rope_scaling\": {\"rope_type\": \"yarn\", \"type\": \"yarn\", "
         "\"factor\": 4, "
         "\"attention_factor\": null, \"beta_fast\": null}}",
         512, 10000, 16, 16},
        {"{\"model_type\": \"gptj\", \"architectures\": [\"GPTJForCausalLM\"], \"n_inner\": null, "
         "\"rotary_dim\": "
         "8}",
         512, 10000, 16, 8},
        {"{\"model_type\": \"gpt_neox\", \"architectures\": [\"GPTNeoXForCausalLM\"]}", 512, 10000, 16, 4},
        {"{\"rope_theta\": 5000, \"rope_parameters\": {\"rope_theta\": 7000}}", 512, 7000, 16, 16},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}", 512, 10000, 16, 16},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}", 512, 10000, 16, 16},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 512}}",
         2048, 10000, 16, 16},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"original_max_position_embeddings\": 128}}", 512, 10000,
         16, 16},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = with_ok(CASES[i].changes, NULL);
        assert_int_equal(model->context_length, CASES[i].context);
        assert_true(model->rope_base == CASES[i].base);
        assert_int_equal(model->shape.head_dim, CASES[i].head_dim);
        assert_int_equal(model->shape.rope.rotary_dim, CASES[i].rotary_dim);
        assert_true(model->shape.n_kv_heads == 4 && model->bos_id == -1 && model->n_eos == 0);
        model_close(model);
    }
    Model *model =
        with_ok("{\"rope_scaling\": {\"type\": \"yarn\", \"original_max_position_embeddings\": 128}}", NULL);
    assert_true(model->rope_factor == 4); // the lengths' ratio where no factor is given
    model_close(model);
}

// What distinguishes architectures, by their own keys and defaults.
static void reads_architectures(void **state) {
    (void)state;
    enum { QKV = 1, O = 2, FFN = 4, NORM = 8, OUTPUT = 16, TIED = 32, PARALLEL = 64, ALIBI = 128 };
    static const struct {
        const char *changes;
        int hidden, layers, intermediate, rotary, n_positions, flags;
        NormKind norm;
        Activation activation;
        RopeKind rope;
        double base;
    } CASES[] = {
        {"{\"hidden_act\": \"relu\", \"mlp_bias\": true}", 64, 4, 128, 16, 0, FFN, NORM_RMS, ACTIVATION_RELU,
         ROPE_HALF_SPLIT, 10000},
        {"{\"attention_bias\": true, \"tie_word_embeddings\": true}", 64, 4, 128, 16, 0, QKV | O | TIED,
         NORM_RMS, ACTIVATION_SILU, ROPE_HALF_SPLIT, 10000},
        {"{\"model_type\": \"qwen2\", \"attention_bias\": false}", 64, 4, 128, 16, 0, QKV, NORM_RMS,
         ACTIVATION_SILU, ROPE_HALF_SPLIT, 10000},
        {"{\"model_type\": \"gptj\", \"hidden_size\": \"absent\", \"n_embd\": 512, \"intermediate_size\": "
         "\"absent\", \"n_inner\": null, \"num_hidden_layers\": \"absent\", \"n_layer\": 3}",
         512, 3, 2048, 64, 0, FFN | NORM | OUTPUT | PARALLEL, NORM_LAYER, ACTIVATION_GELU_TANH,
         ROPE_INTERLEAVED, 10000},
        {"{\"model_type\": \"gptj\", \"rotary_dim\": 8, \"activation_function\": \"relu\"}", 64, 4, 128, 8, 0,
         FFN | NORM | OUTPUT | PARALLEL, NORM_LAYER, ACTIVATION_RELU, ROPE_INTERLEAVED, 10000},
        {"{\"model_type\": \"gpt_neox\", \"rotary_emb_base\": 25000}", 64, 4, 128, 4, 0,
         QKV | O | FFN | NORM | PARALLEL, NORM_LAYER, ACTIVATION_GELU, ROPE_HALF_SPLIT, 25000},
        {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": 1.0, \"attention_bias\": false, "
         "\"use_parallel_residual\": false, \"hidden_act\": \"gelu_fast\"}",
         64, 4, 128, 16, 0, FFN | NORM, NORM_LAYER, ACTIVATION_GELU_TANH, ROPE_HALF_SPLIT, 10000},
        {"{\"model_type\": \"opt\", \"intermediate_size\": \"absent\", \"ffn_dim\": 99}", 64, 4, 99, 0, 512,
         QKV | O | FFN | NORM | TIED, NORM_LAYER, ACTIVATION_RELU, ROPE_HALF_SPLIT, 0},
        {"{\"model_type\": \"bloom\", \"n_embed\": 96, \"hidden_size\": \"absent\", \"intermediate_size\": "
         "\"absent\", \"max_position_embeddings\": \"absent\", \"seq_length\": 99}",
         96, 4, 384, 0, 0, QKV | O | FFN | NORM | TIED | ALIBI, NORM_LAYER, ACTIVATION_GELU_TANH,
         ROPE_HALF_SPLIT, 0},
        {"{\"model_type\": \"mpt\", \"d_model\": 128, \"hidden_size\": \"absent\", \"attn_config\": "
         "{\"alibi\": "
         "true, \"alibi_bias_max\": 8, \"clip_qkv\": null}, \"tie_word_embeddings\": false}",
         128, 4, 128, 0, 0, ALIBI, NORM_LAYER, ACTIVATION_GELU, ROPE_HALF_SPLIT, 0},
        {"{\"model_type\": \"opt\", \"enable_bias\": false, \"activation_function\": \"gelu\"}", 64, 4, 128,
         0, 512, NORM | TIED, NORM_LAYER, ACTIVATION_GELU, ROPE_HALF_SPLIT, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = with_ok(CASES[i].changes, NULL);
        const DecoderShape *s = &model->shape;
        assert_int_equal(s->hidden_size, CASES[i].hidden);
        assert_int_equal(s->n_layers, CASES[i].layers);
        assert_int_equal(s->intermediate_size, CASES[i].intermediate);
        assert_int_equal(s->rope.rotary_dim, CASES[i].rotary);
        assert_int_equal(s->n_positions, CASES[i].n_positions);
        int flags = (model->qkv_bias ? QKV : 0) | (model->o_bias ? O : 0) | (model->ffn_bias ? FFN : 0) |
                    (model->norm_bias ? NORM : 0) | (model->output_bias ? OUTPUT : 0) |
                    (model->tied_head ? TIED : 0) | (s->parallel_residual ? PARALLEL : 0) |
                    (s->alibi ? ALIBI : 0);
        if (flags != CASES[i].flags) fail_msg("%s: flags %d", CASES[i].changes, flags);
        assert_int_equal(s->norm, CASES[i].norm);
        assert_int_equal(s->activation, CASES[i].activation);
        assert_int_equal(s->rope.kind, CASES[i].rope);
        assert_true(model->rope_base == CASES[i].base);
        assert_true(s->rope.magnitude == 1 && model->rope_factor == 1);
        model_close(model);
    }
}

// Sets of frequencies for texts of different lengths; tests/engine/test_forward.c compares what they do with transformers.
static void reads_frequencies_by_length(void **state) {
    (void)state;
    Model *model = with_ok("{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.5}}", NULL);
    const Rope *rope = &model->shape.rope;
    assert_int_equal(model->rope_scaling, ROPE_SCALING_DYNAMIC);
    assert_int_equal(model->context_length, 1280);
    assert_true(model->rope_factor == 2.5 && rope->magnitude == 1);
    assert_int_equal(rope->n_sets, 1); // until it is known how far they have to go
    Error error = {0};
    assert_int_equal(model_reach_context(model, 1000, &error), STATUS_OK);
    assert_int_equal(rope->n_sets, 489); // up to 512, for 513, for 514, …
    for (int set = 0; set < 489; set++) {
        int64_t length = 512 + set;
        double base = 10000 * pow(2.5 * (double)length / 512 - 1.5, 16.0 / 14);
        for (int i = 0; i < 8; i++)
            assert_true(fabs(rope->inv_freq[set * 8 + i] * pow(base, i / 8.0) - 1) < 1e-12);
        assert_int_equal(model_rope_set(model, length), set);
    }
    assert_true(model_rope_holds(model, 0, 512) && !model_rope_holds(model, 0, 513));
    assert_true(model_rope_holds(model, 4, 520) &&
                !model_rope_holds(model, 4, 521)); // it covers 2·4 tokens more
    assert_true(model_rope_holds(model, 288, 900) && !model_rope_holds(model, 288, 901)); // an eighth more
    assert_false(model_rope_holds(model, 288, 799));
    assert_int_equal(model_reach_context(model, 1 << 24, &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "with dynamic NTK this model goes up to 2097663"));
    assert_int_equal(model_rope_set(model, 0), 0);
    model_close(model);

    static const char SU[] =
        "{\"model_type\": \"phi3\", \"max_position_embeddings\": 512, \"original_max_position_embeddings\": "
        "64, \"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1, 2, 1, 1, 1, 1, 1, 1], "
        "\"long_factor\": [4, 4, 4, 4, 4, 4, 4, 9]%s}}";
    static const struct {
        const char *more;
        double magnitude;
    } CASES[] = {{"", 1.224744871391589}, // (1 + ln 8 / ln 64)^½
                 {", \"attention_factor\": 1.25", 1.25},
                 {", \"factor\": 1", 1}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[512];
        snprintf(text, sizeof text, SU, CASES[i].more);
        model = with_ok(text, NULL);
        rope = &model->shape.rope;
        assert_int_equal(model->rope_scaling, ROPE_SCALING_LONGROPE);
        assert_int_equal(model->context_length, 512);
        assert_int_equal(rope->n_sets, 2);
        assert_true(fabs(rope->magnitude - CASES[i].magnitude) < 1e-12);
        assert_true(fabs(rope->inv_freq[1] * 2 * pow(10000, 1 / 8.0) - 1) < 1e-12);
        assert_true(fabs(rope->inv_freq[15] * 9 * pow(10000, 7 / 8.0) - 1) < 1e-12);
        assert_int_equal(model_rope_set(model, 64), 0);
        assert_int_equal(model_rope_set(model, 65), 1);
        model_close(model);
    }
}

static void reads_generation_settings(void **state) {
    (void)state;
    Model *model =
        with_ok("{\"bos_token_id\": 7, \"eos_token_id\": 5}",
                "{\"eos_token_id\": [6, 5, 100, -1], \"temperature\": 0.6, \"top_p\": 0.9, \"top_k\": 20, "
                "\"min_p\": 0.02, \"typical_p\": 0.5, \"repetition_penalty\": 1.05, \"do_sample\": true}");
    assert_int_equal(model->bos_id, 7);
    assert_int_equal(model->n_eos, 2); // ids beyond the vocabulary are none
    assert_true(model_is_eos(model, 5) && model_is_eos(model, 6) && !model_is_eos(model, 7) &&
                !model_is_eos(model, -1));
    assert_true(model_recommended(model, "temperature") == 0.6 && model_recommended(model, "top_p") == 0.9);
    assert_true(model_recommended(model, "top_k") == 20 && model_recommended(model, "min_p") == 0.02);
    assert_true(model_recommended(model, "typical_p") == 0.5);
    assert_true(model_recommended(model, "repeat_penalty") == 1.05);
    model_close(model);
    model = with_ok("{\"bos_token_id\": 100, \"temperature\": 3}",
                    "{\"temperature\": -1, \"top_p\": 7, \"top_k\": -1}");
    assert_int_equal(model->bos_id, -1);
    assert_true(isnan(model_recommended(model, "temperature")) && isnan(model_recommended(model, "top_p")));
    assert_true(isnan(model_recommended(model, "repeat_penalty")) &&
                isnan(model_recommended(model, "top_k")));
    assert_true(isnan(model_recommended(model, "seed")));
    model_close(model);
    model = with_ok("{}", "{\"do_sample\": false, \"temperature\": 0.6}");
    assert_true(model_recommended(model, "temperature") == 0); // greedy
    model_close(model);
    Error error = {0};
    assert_int_equal(with("{}", "{\"temperature\": \"hot\"}", &model, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "generation_config.json: temperature should be a number"));
    assert_int_equal(with("{}", "{", &model, &error), STATUS_FILE);
}

// What generation_config.json asks for and palaver does not do is named; values that ask for nothing are not.
static void names_what_is_not_followed(void **state) {
    (void)state;
    static const struct {
        const char *generation, *expected;
    } CASES[] = {
        {"{}", ""},
        {"{\"temperature\": 0.6, \"eos_token_id\": [5], \"do_sample\": true, \"num_return_sequences\": 1}",
         ""},
        {"{\"no_repeat_ngram_size\": 0, \"num_beams\": 1, \"bad_words_ids\": null, \"suppress_tokens\": [], "
         "\"max_new_tokens\": null, \"guidance_scale\": 1.0, \"sequence_bias\": {}, \"forced_bos_token_id\": "
         "null}",
         ""},
        {"{\"no_repeat_ngram_size\": 3}", "no_repeat_ngram_size"},
        {"{\"forced_bos_token_id\": 0, \"num_beams\": 4, \"max_new_tokens\": 512, \"bad_words_ids\": [[5]], "
         "\"suppress_tokens\": [7], \"guidance_scale\": 1.5}",
         "max_new_tokens, num_beams, bad_words_ids, suppress_tokens, forced_bos_token_id, guidance_scale"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = with_ok("{}", CASES[i].generation);
        assert_string_equal(model->unfollowed, CASES[i].expected);
        model_close(model);
    }
    static const char LONG[] =
        "{\"exponential_decay_length_penalty\": [1, 2], \"encoder_no_repeat_ngram_size\": 2, \"max_time\": "
        "2, "
        "\"encoder_repetition_penalty\": 2, \"no_repeat_ngram_size\": 2, \"begin_suppress_tokens\": [1], "
        "\"forced_decoder_ids\": [[1, 2]], \"forced_eos_token_id\": 1, \"watermarking_config\": {\"a\": 1}, "
        "\"forced_bos_token_id\": 1, \"diversity_penalty\": 1, \"max_new_tokens\": 1, \"num_beam_groups\": "
        "2}";
    Model *model = with_ok("{}", LONG);
    size_t n = strlen(model->unfollowed);
    assert_true(n > 200 && strcmp(model->unfollowed + n - 5, ", ...") == 0);
    model_close(model);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_equal_transformers),
        cmocka_unit_test(refuses_bad_configs),
        cmocka_unit_test(reads_windows),
        cmocka_unit_test(reads_contexts_and_defaults),
        cmocka_unit_test(reads_architectures),
        cmocka_unit_test(reads_frequencies_by_length),
        cmocka_unit_test(reads_generation_settings),
        cmocka_unit_test(names_what_is_not_followed),
    };
    return test_main("model config", argc, argv, tests);
}
