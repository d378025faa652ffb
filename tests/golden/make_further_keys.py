#!/usr/bin/env python3
"""As make_recent_keys.py, of whose form and rows this is, for models that were added after it: further_keys.json,
further_keys.logits and further_default.json in tests/golden/keys/.

usage: make_further_keys.py   (needs numpy, torch, transformers; run it after make_dense.py, make_experts.py and make_latent.py; adds
a line to PROVENANCE.txt)
"""
import json
import os

from transformers import AutoConfig

import further_classes # noqa: F401: it tells transformers of classes that it does not have
import make_keys
from make_keys import EVERY, GONE, HERE, ROTARY
from make_recent_keys import ROPES, ROUTER

# What classes with GPT-2's names make of theirs and of those that others have.
GPT = [(dict(n_inner=160), True), (dict(n_inner=GONE), True), (dict(n_inner=80), False), (dict(intermediate_size=80), None), (dict(n_embd=20), False),
       (dict(n_embd=GONE, hidden_size=40), None), (dict(n_embd=GONE), False), (dict(n_layer=1), None), (dict(n_layer=3), False), (dict(n_layer=GONE), False),
       (dict(n_layer=GONE, num_hidden_layers=2), None), (dict(n_head=2), None), (dict(n_head=8), None), (dict(n_head=3), False), (dict(n_head=GONE), False),
       (dict(n_head=GONE, num_attention_heads=4), None), (dict(num_attention_heads=2), None), (dict(num_key_value_heads=2), None),
       (dict(num_key_value_heads=4), None), (dict(head_dim=20), None), (dict(n_positions=128), False), (dict(n_positions=GONE), False),
       (dict(n_positions=GONE, max_position_embeddings=256), None), (dict(max_position_embeddings=128), None), (dict(n_ctx=128), True),
       (dict(vocab_size=55), False), (dict(vocab_size=GONE), False), (dict(activation_function="gelu"), True), (dict(activation_function="relu"), True),
       (dict(activation_function="gelu_pytorch_tanh"), True), (dict(activation_function="gelu_fast"), True), (dict(activation_function=GONE), True),
       (dict(activation_function="silu"), True), (dict(activation_function="quick_gelu"), None), (dict(layer_norm_epsilon=0.3), True),
       (dict(layer_norm_epsilon=GONE), True), (dict(layer_norm_eps=1e-5), None), (dict(scale_attn_weights=False), None), (dict(scale_attn_weights=GONE), True),
       (dict(scale_attn_by_inverse_layer_idx=True), None), (dict(add_cross_attention=True), None), (dict(add_cross_attention=False), True),
       (dict(tie_word_embeddings=False), None),
       (dict(summary_type="cls_index", summary_use_proj=True, summary_activation=None, summary_first_dropout=0.1, summary_proj_to_labels=True), True),
       (dict(attn_pdrop=0.3, embd_pdrop=0.1, resid_pdrop=0.1), True), (dict(task_specific_params={"text-generation": {"do_sample": True}}), True),
       (dict(gradient_checkpointing=False), True), (dict(multi_query=True), None), (dict(alibi=True), None), (dict(position_embedding_type="rope"), None)]

BIGCODE = [(dict(multi_query=True), None), (dict(multi_query=False), None), (dict(multi_query=GONE), None), (dict(num_key_value_heads=1), None),
           (dict(attention_softmax_in_fp32=False), True), (dict(scale_attention_softmax_in_fp32=False), True),
           (dict(inference_runner=1, pre_allocate_kv_cache=True, validate_runner_input=False, max_batch_size=None), True)]

OWN = {
    "dense/gpt2": GPT + [(dict(scale_attn_by_inverse_layer_idx=False), True), (dict(reorder_and_upcast_attn=True), True)],
    "dense/gpt_bigcode": GPT + BIGCODE + [(dict(n_inner=GONE, multi_query=GONE), True)],
    "dense/gpt_bigcode-heads": [(change, None) for change, _ in GPT] + BIGCODE,
    "dense/olmo": [(dict(clip_qkv=8.0), None), (dict(clip_qkv=0.0), None), (dict(clip_qkv=0), None), (dict(clip_qkv=0.3), None), (dict(clip_qkv=GONE), True),
                   (dict(hidden_act="gelu"), True), (dict(layer_norm_eps=0.3), None), (dict(rms_norm_eps=0.3), None), (dict(num_key_value_heads=4), False),
                   (dict(layer_types=["full_attention"] * 2), None), (dict(weight_tying=True), None), (dict(head_dim=20), None)],
}
def long_rope(**change):
    return dict(rope_scaling={**dict(type="longrope", short_factor=[1.0, 1.3, 2.5, 6.0], long_factor=[1.1, 2.0, 4.0, 9.0],
                                     original_max_position_embeddings=256), **change})


OWN["latent/minicpm3"] = [
    (dict(scale_emb=3), True), (dict(scale_emb=GONE), True), (dict(scale_depth=0.7), True), (dict(scale_depth=GONE), True), (dict(scale_depth=None), None),
    (dict(dim_model_base=24), True), (dict(dim_model_base=GONE), True), (dict(dim_model_base=None), None), (dict(v_head_dim=12), True),
    (dict(v_head_dim=None), None), (dict(v_head_dim=16), False), (dict(q_lora_rank=None), False), (dict(q_lora_rank=GONE), False),
    (dict(kv_lora_rank=16), False), (dict(kv_lora_rank=GONE), False), (dict(qk_nope_head_dim=8), False), (dict(qk_nope_head_dim=GONE), False),
    (dict(qk_rope_head_dim=16), False), (dict(qk_rope_head_dim=GONE), False), (dict(qk_head_dim=24), True), (dict(qk_head_dim=77), None),
    (dict(rope_theta=10000.0), True), (dict(rope_scaling=None), True), (dict(rope_scaling=GONE), True), (dict(head_dim=8), True), (dict(head_dim=12), None),
    (dict(num_key_value_heads=2), None), (dict(num_key_value_heads=None), None), (dict(num_key_value_heads=GONE), None), (dict(hidden_act="gelu"), True),
    (dict(rms_norm_eps=0.3), True), (dict(rope_interleave=True), None), (dict(n_routed_experts=4), None), (dict(embedding_multiplier=3), None),
    (dict(logits_scaling=3.0), None), (dict(residual_multiplier=0.5), None), (dict(attention_multiplier=0.5), None), (dict(num_experts=0), None),
    (dict(mup_denominator=32), None), (dict(sparse_config=None), True),
    (long_rope(original_max_position_embeddings=16), True), (long_rope(original_max_position_embeddings=16, factor=4.0), None),
    (long_rope(rope_type="longrope", factor=1.0), None), (long_rope(attention_factor=1.5), None), (long_rope(short_factor=[1.0] * 3), False),
    (long_rope(long_factor=[1.0] * 5), None), (dict(**long_rope(), max_position_embeddings=512), True)]
OWN["experts/deepseek"] = [
    (dict(n_routed_experts=5), False), (dict(n_routed_experts=GONE), None), (dict(n_routed_experts=None), None), (dict(num_experts_per_tok=1), True),
    (dict(num_experts_per_tok=6), True), (dict(num_experts_per_tok=7), None), (dict(num_experts_per_tok=GONE), None), (dict(moe_intermediate_size=8), False),
    (dict(moe_intermediate_size=GONE), None), (dict(n_shared_experts=1), False), (dict(n_shared_experts=GONE), None), (dict(n_shared_experts=None), None),
    (dict(n_shared_experts=0), None), (dict(first_k_dense_replace=0), None), (dict(first_k_dense_replace=2), None), (dict(first_k_dense_replace=GONE), None),
    (dict(moe_layer_freq=2), None), (dict(moe_layer_freq=GONE), True), (dict(norm_topk_prob=True), True), (dict(norm_topk_prob=GONE), True),
    (dict(norm_topk_prob=True, num_experts_per_tok=1), True), (dict(scoring_func="sigmoid"), None), (dict(scoring_func=GONE), True), (dict(aux_loss_alpha=0.5, seq_aux=False), True),
    (dict(routed_scaling_factor=2.0), None), (dict(n_group=2, topk_group=1), None), (dict(topk_method="greedy"), None), (dict(num_local_experts=4), None),
    (dict(num_experts=4), None), (dict(intermediate_size=24), False), (dict(rms_norm_eps=0.3), True), (dict(hidden_act="gelu"), True),
    (dict(head_dim=12), True), (dict(head_dim=16), None), (dict(kv_lora_rank=16), None), (dict(num_key_value_heads=4), False)]
OWN["dense/nanochat"] = [
    (dict(final_logit_softcapping=None), True), (dict(final_logit_softcapping=15.0), True), (dict(final_logit_softcapping=GONE), True),
    (dict(hidden_act="silu"), True), (dict(hidden_act=GONE), True), (dict(rms_norm_eps=0.3), True), (dict(rms_norm_eps=GONE), True),
    (dict(num_key_value_heads=4), False), (dict(head_dim=20), None), (dict(use_qk_norm=False), None), (dict(attention_bias=True), False),
    (dict(sliding_window=4, layer_types=["sliding_attention", "full_attention"]), None), (dict(intermediate_size=80), False),
    (dict(rope_parameters=dict(rope_type="linear", rope_theta=20000.0, factor=4.0)), True),
    (dict(rope_parameters=dict(rope_type="yarn", rope_theta=20000.0, factor=4.0, original_max_position_embeddings=16)), True),
    (dict(rope_parameters=dict(rope_type="yarn", rope_theta=20000.0, factor=4.0, original_max_position_embeddings=16, attention_factor=1.7)), True),
    (dict(rope_parameters=dict(rope_type="dynamic", rope_theta=20000.0, factor=4.0), max_position_embeddings=20), True),
    (dict(rope_parameters=dict(rope_type="llama3", rope_theta=20000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                               original_max_position_embeddings=16)), True)]
OWN["dense/gpt_neo"] = [
    (dict(attention_layers=GONE), True), (dict(attention_layers=["local", "global"] * 2), None), (dict(attention_layers=["global"] * 3), None),
    (dict(attention_layers=None), None), (dict(attention_types=GONE), None), (dict(attention_types=None), None), (dict(attention_types=[]), None),
    (dict(attention_types=[[["global", "local"], 1]]), None), (dict(attention_types=[[["global"], 4]], attention_layers=GONE), True),
    (dict(attention_types=[[["local"], 1], [["global"], 3]], attention_layers=GONE), True), (dict(attention_types=[[["local"], 5]], attention_layers=GONE), None),
    (dict(attention_types=[[["other"], 4]], attention_layers=GONE), None), (dict(window_size=3), True), (dict(window_size=1), True),
    (dict(window_size=300), True), (dict(window_size=GONE), True), (dict(window_size=0), None), (dict(sliding_window=3), None),
    (dict(intermediate_size=160), True), (dict(intermediate_size=80), False), (dict(num_heads=2), True), (dict(num_heads=GONE, num_attention_heads=4), None),
    (dict(num_layers=GONE, num_hidden_layers=4), None), (dict(num_layers=3), None), (dict(num_key_value_heads=2), None), (dict(head_dim=20), None),
    (dict(max_position_embeddings=128), False), (dict(activation_function="gelu"), True), (dict(layer_norm_epsilon=0.3), True),
    (dict(layer_norm_eps=1e-5), None), (dict(scale_attn_weights=True), None), (dict(tie_word_embeddings=False), None),
    (dict(gradient_checkpointing=False, attention_dropout=0, summary_type="cls_index"), True)]
OWN["dense/orion"] = [(dict(rms_norm_eps=0.3), True), (dict(layer_norm_eps=0.3), None), (dict(attention_bias=True), False), (dict(mlp_bias=True), None),
                      (dict(hidden_act="gelu"), True), (dict(num_key_value_heads=4), False), (dict(max_sequence_length=100), True), (dict(norm_head=True), None)]
OWN["dense/mimo"] = [
    (dict(use_sliding_window=True, sliding_window=5), None), (dict(use_sliding_window=True, sliding_window=5, max_window_layers=1), True),
    (dict(use_sliding_window=True, sliding_window=5, max_window_layers=0), True), (dict(attention_bias=False), True), (dict(head_dim=GONE), False),
    (dict(num_nextn_predict_layers=0), True), (dict(num_nextn_predict_layers=GONE), True), (dict(rms_norm_eps=0.3), True),
    (dict(num_hidden_layers=1), None), (dict(layer_types=["sliding_attention", "full_attention"]), None), (dict(qkv_bias=False), None)]
OWN["dense/glm4v"] = [
    (dict(partial_rotary_factor=1.0, rope_scaling=dict(type="default", mrope_section=[2, 3, 3])), True), (dict(partial_rotary_factor=GONE), None),
    (dict(rope_scaling=dict(type="default", mrope_section=[2, 1, 1])), True), (dict(rope_scaling=dict(rope_type="default", mrope_section=[1, 2, 1])), True),
    (dict(attention_bias=False), None), (dict(head_dim=16), True), (dict(head_dim=8), None), (dict(rms_norm_eps=0.3), True), (dict(hidden_act="gelu"), True),
    (dict(num_key_value_heads=4), False), (dict(rope_theta=300.0), True), (dict(rope_theta=GONE), None)]
OWN["experts/glm4v_moe"] = ROUTER + [
    (dict(partial_rotary_factor=1.0, rope_scaling=dict(type="default", mrope_section=[2, 3, 3])), True), (dict(partial_rotary_factor=GONE), True),
    (dict(rope_scaling=dict(rope_type="default", mrope_section=[1, 2, 1])), True), (dict(rope_scaling=dict(mrope_section=[1, 2])), None),
    (dict(attention_bias=False), None), (dict(attention_bias=GONE), True), (dict(use_qk_norm=True), None), (dict(num_nextn_predict_layers=1), True),
    (dict(head_dim=GONE), None), (dict(first_k_dense_replace=2), None), (dict(num_key_value_heads=4), False)]
OWN["experts/olmoe"] = [(dict(clip_qkv=0), None), (dict(clip_qkv=0.0), None), (dict(clip_qkv=0.3), None), (dict(clip_qkv=None), True)]


def rows_of(folder):
    if folder == "experts/olmoe": # whose other rows are make_keys.py's
        return OWN[folder]
    return [(change, None) for change, _ in EVERY + ROTARY + ROPES] + OWN[folder]


def defaults():
    kinds = []
    for folder in OWN:
        with open(os.path.join(HERE, folder, "config.json")) as f:
            kinds.append(json.load(f)["model_type"])
    for kind in dict.fromkeys(kinds):
        if kind in ("deepseek", "orion", "mimo"): # of no class of transformers'
            continue
        config = json.loads(AutoConfig.for_model(kind).to_json_string(use_diff=False))
        if kind in ("glm4v_text", "glm4v_moe_text"): # whose classes cannot run what they write
            config["rope_parameters"]["partial_rotary_factor"], config["head_dim"] = 0.5, 128
        yield config


if __name__ == "__main__":
    make_keys.write_others("further", OWN, rows_of, defaults())
