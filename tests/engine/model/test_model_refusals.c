// What a config.json may not say: each contradiction, missing or impossible value is named.
#include "tests/support/model/base_config.h"
#include "tests/support/test.h"

#include <string.h>

static const struct {
    const char *changes;
    Status status;
    const char *fragment;
} REFUSED[] = {
    {"{\"model_type\": \"absent\"}", STATUS_FILE, "does not name its architecture"},
    {"{\"model_type\": \"gpt9\"}", STATUS_UNSUPPORTED,
     "\"gpt9\" (model_type) is unknown to palaver; it knows gptj, and others that its README lists"},
    {"{\"model_type\": \"perceiver\"}", STATUS_UNSUPPORTED,
     "\"perceiver\" (model_type) is unknown to palaver; its README lists those that it knows"},
    {"{\"model_type\": \"a\\u001b[31mb\"}", STATUS_UNSUPPORTED, "\"a\\x1b[31mb\""},
    {"{\"model_type\": \"modèle\\u009b\\u202e\"}", STATUS_UNSUPPORTED, "\"modèle\\u009b\\u202e\""},
    {"{\"hidden_act\": \"\\u001b[31m\"}", STATUS_UNSUPPORTED, "hidden_act \"\\x1b[31m\""},
    {"{\"architectures\": [\"A\\u001bB\"]}", STATUS_UNSUPPORTED, "architectures names A\\x1bB,"},
    {"{\"model_type\": 3}", STATUS_FILE, "model_type should be a string"},
    {"{\"num_hidden_layers\": 0}", STATUS_FILE, "num_hidden_layers is 0; palaver takes 1 to 1024"},
    {"{\"num_hidden_layers\": -1}", STATUS_FILE, "num_hidden_layers is -1"},
    {"{\"num_hidden_layers\": 9223372036854775807}", STATUS_FILE, "num_hidden_layers is 9223372036854775807"},
    {"{\"num_hidden_layers\": \"absent\"}", STATUS_FILE, "num_hidden_layers is missing"},
    {"{\"hidden_size\": \"absent\"}", STATUS_FILE, "hidden_size is missing"},
    {"{\"hidden_size\": 64.0}", STATUS_FILE, "hidden_size should be an integer"},
    {"{\"hidden_size\": 4294967296}", STATUS_FILE, "hidden_size is 4294967296"},
    {"{\"vocab_size\": \"absent\"}", STATUS_FILE, "vocab_size is missing"},
    {"{\"num_attention_heads\": 5}", STATUS_FILE,
     "a hidden size of 64 (hidden_size) is no multiple of 5 heads (num_attention_heads)"},
    {"{\"num_key_value_heads\": 3}", STATUS_FILE,
     "4 attention heads (num_attention_heads) cannot share 3 key-value heads (num_key_value_heads)"},
    {"{\"num_key_value_heads\": 8}", STATUS_FILE, "cannot share 8 key-value heads (num_key_value_heads)"},
    {"{\"num_attention_heads\": 65536, \"head_dim\": 65536}", STATUS_FILE,
     "65536 heads (num_attention_heads) of 65536 elements (head_dim) are beyond every model"},
    {"{\"head_dim\": 15}", STATUS_FILE, "a head has 15 elements (head_dim); it must be an even number"},
    {"{\"hidden_act\": \"mish\"}", STATUS_UNSUPPORTED, "hidden_act \"mish\""},
    {"{\"hidden_act\": \"\"}", STATUS_UNSUPPORTED, "hidden_act \"\""},
    {"{\"model_type\": \"gptj\", \"activation_function\": \"mish\"}", STATUS_UNSUPPORTED,
     "activation_function \"mish\""},
    {"{\"model_type\": \"gptj\", \"num_hidden_layers\": \"absent\"}", STATUS_FILE, "n_layer is missing"},
    {"{\"model_type\": \"gptj\", \"rotary_dim\": 20}", STATUS_FILE,
     "rope turns 20 of a head's 16 elements (rotary_dim is 20)"},
    {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": 0.2}", STATUS_FILE,
     "rope turns 3 of a head's 16 elements (rotary_pct is 0.2)"},
    {"{\"model_type\": \"gpt_neox\", \"num_key_value_heads\": 2}", STATUS_FILE,
     "2 key-value heads (num_key_value_heads) for 4 attention heads (num_attention_heads): a gpt_neox model "
     "has as many"},
    {"{\"model_type\": \"gpt_neox\", \"layer_norm_eps\": 2}", STATUS_FILE,
     "layer_norm_eps, the norm's epsilon, is 2"},
    {"{\"model_type\": \"bloom\", \"apply_residual_connection_post_layernorm\": true}", STATUS_UNSUPPORTED,
     "asks for residuals that begin behind the norms"},
    {"{\"model_type\": \"mpt\", \"attn_config\": {\"alibi\": false}}", STATUS_UNSUPPORTED,
     "attn_config.alibi asks for positions other than ALiBi's"},
    {"{\"model_type\": \"mpt\", \"attn_config\": {\"clip_qkv\": 6}}", STATUS_UNSUPPORTED,
     "attn_config.clip_qkv asks for clipped queries"},
    {"{\"model_type\": \"mpt\", \"attn_config\": {\"alibi_bias_max\": 16}}", STATUS_UNSUPPORTED,
     "another range of slopes"},
    {"{\"model_type\": \"mpt\", \"logit_scale\": \"inv_sqrt_d_model\"}", STATUS_UNSUPPORTED,
     "logit_scale asks for scaled logits"},
    {"{\"model_type\": \"mpt\", \"no_bias\": false}", STATUS_UNSUPPORTED, "no_bias asks for biases"},
    {"{\"model_type\": \"chatglm\", \"position_encoding_2d\": true, \"num_layers\": 2, "
     "\"inner_hidden_size\": 256, "
     "\"max_sequence_length\": 2048, \"layernorm_epsilon\": 1e-5, \"num_hidden_layers\": \"absent\", "
     "\"intermediate_size\": \"absent\", \"max_position_embeddings\": \"absent\", \"num_key_value_heads\": "
     "\"absent\", "
     "\"rms_norm_eps\": \"absent\", \"hidden_act\": \"absent\", \"bos_token_id\": -1}",
     STATUS_FILE, "bos_token_id, where a prompt ends, is -1"},
    {"{\"model_type\": \"chatglm\", \"position_encoding_2d\": true, \"num_layers\": 2, "
     "\"inner_hidden_size\": 256, "
     "\"max_sequence_length\": 2048, \"layernorm_epsilon\": 1e-5, \"num_hidden_layers\": \"absent\", "
     "\"intermediate_size\": \"absent\", \"max_position_embeddings\": \"absent\", \"num_key_value_heads\": "
     "\"absent\", "
     "\"rms_norm_eps\": \"absent\", \"hidden_act\": \"absent\", \"quantization_bit\": 4}",
     STATUS_UNSUPPORTED, "quantization_bit asks for quantised weights"},
    {"{\"model_type\": \"chatglm\", \"position_encoding_2d\": true, \"num_layers\": 2, "
     "\"inner_hidden_size\": 256, "
     "\"max_sequence_length\": 2048, \"layernorm_epsilon\": 1e-5, \"num_hidden_layers\": \"absent\", "
     "\"intermediate_size\": \"absent\", \"max_position_embeddings\": \"absent\", \"num_key_value_heads\": "
     "\"absent\", "
     "\"rms_norm_eps\": \"absent\", \"hidden_act\": \"absent\", \"num_attention_heads\": 32, \"head_dim\": "
     "\"absent\"}",
     STATUS_UNSUPPORTED,
     "positions of two dimensions turn 2 of a head's 2 elements (hidden_size, num_attention_heads)"},
    {"{\"model_type\": \"opt\", \"do_layer_norm_before\": false}", STATUS_UNSUPPORTED,
     "do_layer_norm_before asks for norms after attention and feed-forward"},
    {"{\"model_type\": \"opt\", \"word_embed_proj_dim\": 32}", STATUS_UNSUPPORTED,
     "embeddings of 32 elements (word_embed_proj_dim), projected to a hidden size of 64 (hidden_size)"},
    {"{\"model_type\": \"opt\", \"_remove_final_layer_norm\": true}", STATUS_UNSUPPORTED,
     "without its last norm"},
    {"{\"model_type\": \"opt\", \"layer_norm_elementwise_affine\": \"no\"}", STATUS_UNSUPPORTED,
     "norms without weights"},
    {"{\"rms_norm_eps\": -1}", STATUS_FILE, "rms_norm_eps, the norm's epsilon, is -1"},
    {"{\"num_local_experts\": 8}", STATUS_UNSUPPORTED,
     "mixture of 8 experts (num_local_experts), which a llama model does not have"},
    {"{\"num_experts\": 4}", STATUS_UNSUPPORTED, "mixture of 4 experts (num_experts)"},
    {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 9, "
     "\"moe_intermediate_size\": 16}",
     STATUS_FILE, "num_experts_per_tok is 9; palaver takes 1 to 8"},
    {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 0, \"moe_intermediate_size\": 16}", STATUS_FILE,
     "num_experts is 0"},
    {"{\"model_type\": \"qwen3_moe\", \"num_experts\": null, \"moe_intermediate_size\": 16}", STATUS_FILE,
     "num_experts is null, which is no value of it"},
    {"{\"model_type\": \"qwen3_moe\"}", STATUS_FILE, "moe_intermediate_size is missing"},
    {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 4096, \"num_experts_per_tok\": 2, "
     "\"moe_intermediate_size\": 16}",
     STATUS_FILE, "num_experts is 4096; palaver takes 1 to 1024"},
    {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
     "\"moe_intermediate_size\": 0}",
     STATUS_FILE, "moe_intermediate_size is 0"},
    {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
     "\"moe_intermediate_size\": 16, \"n_group\": 2}",
     STATUS_UNSUPPORTED, "does not know what n_group means for a qwen3_moe model"},
    {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
     "\"moe_intermediate_size\": 16, \"routed_scaling_factor\": 2.5}",
     STATUS_UNSUPPORTED, "does not know what routed_scaling_factor means"},
    {"{\"model_type\": \"mixtral\", \"num_local_experts\": 8, \"num_experts_per_tok\": 2, "
     "\"norm_topk_prob\": false}",
     STATUS_UNSUPPORTED, "does not know what norm_topk_prob means for a mixtral model"},
    {"{\"max_position_embeddings\": 0}", STATUS_FILE, "context of 0 tokens"},
    {"{\"rope_theta\": 0}", STATUS_FILE, "rope: rope_theta is 0; it must be larger than 1"},
    {"{\"rope_theta\": \"x\"}", STATUS_FILE, "rope_theta should be a number"},
    {"{\"model_type\": \"phi3\", \"partial_rotary_factor\": 2}", STATUS_FILE, "(partial_rotary_factor is 2)"},
    {"{\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.01}", STATUS_FILE,
     "rope turns 0 of a head's 16"},
    {"{\"partial_rotary_factor\": 0.5}", STATUS_UNSUPPORTED,
     "partial_rotary_factor is 0.5: a llama model's heads are turned as a whole"},
    {"{\"rope_scaling\": {\"type\": \"dynamic\"}}", STATUS_FILE, "rope: factor is missing"},
    {"{\"rope_scaling\": {\"rope_type\": \"longrope\"}}", STATUS_FILE,
     "rope: original_max_position_embeddings is missing"},
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
    {"{\"rope_scaling\": {\"type\": \"mrope\"}}", STATUS_UNSUPPORTED,
     "rope scaling of the type \"mrope\" (type)"},
    {"{\"rope_scaling\": {\"type\": \"linear\"}}", STATUS_FILE, "rope: factor is missing"},
    {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}", STATUS_FILE,
     "rope: factor is 0; it must be positive"},
    {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": [2]}}", STATUS_FILE, "factor should be a number"},
    {"{\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8}}", STATUS_FILE,
     "low_freq_factor is 0 and high_freq_factor 0; they must be positive"},
    {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8, \"beta_slow\": 40}}", STATUS_FILE,
     "beta_slow is 40 and beta_fast 32; they must be positive"},
    {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8, \"attention_factor\": -1}}", STATUS_FILE,
     "attention_factor is -1; it must be positive"},
    {"{\"rope_scaling\": {\"type\": \"yarn\", \"original_max_position_embeddings\": -5}}", STATUS_FILE,
     "rope: original_max_position_embeddings is -5; palaver takes 1"},
    {"{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}}", STATUS_UNSUPPORTED,
     "differ by kind of layer"},
    {"{\"model_type\": \"qwen2\", \"layer_types\": [\"full_attention\"]}", STATUS_FILE,
     "layer_types should be a list of 4 kinds of layer"},
    {"{\"model_type\": \"qwen2\", \"layer_types\": [\"full_attention\", \"linear_attention\", "
     "\"full_attention\", \"full_attention\"]}",
     STATUS_UNSUPPORTED, "layer_types[1] is neither"},
    {"{\"sliding_window\": 9}", STATUS_UNSUPPORTED,
     "a sliding window of 9 tokens (sliding_window) is asked for, which a llama model does not go by"},
    {"{\"embedding_multiplier\": 12}", STATUS_UNSUPPORTED,
     "config.json: palaver does not know what embedding_multiplier means for a llama model"},
    {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"mrope_section\": [4, 4]}}",
     STATUS_UNSUPPORTED, "what rope_scaling.mrope_section means"},
    {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"weird\": 1}}", STATUS_UNSUPPORTED,
     "what rope_scaling.weird means"},
    {"{\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, \"weird\": 1}}", STATUS_UNSUPPORTED,
     "what rope_parameters.weird means"},
    {"{\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"yarn\", \"factor\": 2}}", STATUS_FILE,
     "rope_scaling: rope_type is \"yarn\", but type is \"linear\""},
    {"{\"rope_parameters\": {\"type\": \"linear\", \"rope_type\": \"default\", \"factor\": 2}}", STATUS_FILE,
     "rope_parameters: rope_type is \"default\", but type is \"linear\""},
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
    {"{\"model_type\": \"gptj\", \"activation_function\": null}", STATUS_FILE, "activation_function is null"},
    {"{\"model_type\": \"gptj\", \"rotary_dim\": null}", STATUS_FILE, "rotary_dim is null"},
    {"{\"architectures\": [\"LlamaForSequenceClassification\"]}", STATUS_UNSUPPORTED,
     "architectures names LlamaForSequenceClassification, which is not the class of a llama model"},
    {"{\"architectures\": [\"LlamaForCausalLM\", \"Qwen2ForCausalLM\"]}", STATUS_UNSUPPORTED,
     "architectures names Qwen2ForCausalLM"},
    {"{\"architectures\": [\"LlamaForCausalLMEagle\"]}", STATUS_UNSUPPORTED, "names LlamaForCausalLMEagle"},
    {"{\"architectures\": \"LlamaForCausalLM\"}", STATUS_FILE, "architectures should be a list of names"},
    {"{\"model_type\": \"mpt\", \"attn_config\": {\"kv_n_heads\": 1}}", STATUS_UNSUPPORTED,
     "what attn_config.kv_n_heads means"},
    {"{\"sliding_window\": -3}", STATUS_FILE, "sliding_window is -3; palaver takes 0 to 2147483647"},
    {"{\"model_type\": \"phi3\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
     STATUS_UNSUPPORTED, "rope_scaling.type is \"linear\": a phi3 model has longrope or none"},
    {"{\"model_type\": \"deepseek_v3\", \"kv_lora_rank\": 0}", STATUS_FILE,
     "kv_lora_rank is 0; palaver takes 1 to 65536"},
    {"{\"model_type\": \"deepseek_v3\", \"v_head_dim\": 70000}", STATUS_FILE,
     "v_head_dim is 70000; palaver takes"},
    {"{\"model_type\": \"deepseek_v3\", \"qk_rope_head_dim\": 3}", STATUS_FILE,
     "3 turned elements (qk_rope_head_dim)"},
    {"{\"model_type\": \"lfm2\", \"hidden_act\": \"absent\", \"conv_L_cache\": 9, \"full_attn_idxs\": [1]}",
     STATUS_UNSUPPORTED, "a convolution over 9 tokens (conv_L_cache)"},
    {"{\"model_type\": \"lfm2\", \"block_multiple_of\": 0}", STATUS_FILE,
     "in multiples of 0 (block_multiple_of)"},
    {"{\"model_type\": \"phimoe\", \"router_jitter_noise\": 2}", STATUS_UNSUPPORTED,
     "a router of jitter 2 (router_jitter_noise)"},
    {"{\"model_type\": \"llama4_text\", \"intermediate_size_mlp\": 128, \"attention_chunk_size\": 0}",
     STATUS_FILE, "attention_chunk_size is 0; palaver takes 1 to"},
    {"{\"model_type\": \"deepseek_v3\", \"num_key_value_heads\": 4, \"moe_intermediate_size\": 16, "
     "\"n_shared_experts\": 65}",
     STATUS_FILE, "n_shared_experts is 65; palaver takes 0 to 64"},
    {"{\"model_type\": \"gemma4_text\", \"vocab_size_per_layer_input\": 100, \"global_head_dim\": 3}",
     STATUS_FILE, "heads of 3 without a window (global_head_dim)"},
    {"{\"model_type\": \"gemma4_text\", \"vocab_size_per_layer_input\": 100, \"num_kv_shared_layers\": 9}",
     STATUS_FILE, "9 of 4 layers share keys and values (num_kv_shared_layers)"},
    {"{\"eos_token_id\": \"</s>\"}", STATUS_FILE, "eos_token_id should be an id or a list of ids"},
    {"{\"eos_token_id\": [1, null]}", STATUS_FILE, "eos_token_id should be an id or a list of ids"},
};

static void refuses_bad_configs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        Model *model;
        Error error = {0};
        Status status = base_config_with(REFUSED[i].changes, NULL, &model, &error);
        if (status != REFUSED[i].status || strstr(error.message, REFUSED[i].fragment) == NULL) {
            fail_msg("%s: status %d, \"%s\"", REFUSED[i].changes, status, error.message);
        }
        assert_null(model);
        assert_non_null(strstr(error.message, "config.json: "));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(refuses_bad_configs)};
    return test_main("model_refusals", argc, argv, tests);
}
