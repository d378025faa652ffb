#!/usr/bin/env python3
"""What transformers makes of one key of config.json after the other, for the architectures of 2025 and 2026: recent_keys.json,
recent_keys.logits and recent_default.json in tests/golden/keys/, in the form that make_keys.py describes.

The models are those of make_dense.py, make_experts.py, make_latent.py and make_convolution.py that transformers has a class for by
the name in their config.json. Every one is changed by the rows of all models and of LLaMA's family, of which none has to load, and by
its own, of which those that files of it have do.

usage: make_recent_keys.py   (needs numpy, torch, transformers; run it after those; adds a line to PROVENANCE.txt)
"""
import json
import os
import sys

from transformers import AutoConfig

import make_dense # noqa: F401: it tells transformers of a class for the text of Muse Glimmer
import make_keys
import make_latent # noqa: F401: likewise of Mistral 4
from make_keys import EVERY, FULL, GONE, HERE, ROTARY, SLIDING

CONV = "conv"
TYPES = "layer_types"
WINDOWS = [(dict(sliding_window=3), True), (dict(sliding_window=1), None), (dict(sliding_window=100), True), (dict(sliding_window=None), None),
           (dict(sliding_window=GONE), None), (dict(layer_types=GONE), None), (dict(layer_types=None), None)]
ROUTER = [(dict(num_experts_per_tok=1), None), (dict(num_experts_per_tok=6), None), (dict(num_experts_per_tok=7), False),
          (dict(norm_topk_prob=False), None), (dict(norm_topk_prob=GONE), None), (dict(routed_scaling_factor=3.0), None),
          (dict(routed_scaling_factor=GONE), None), (dict(n_group=2, topk_group=1), None), (dict(n_group=3, topk_group=2), None),
          (dict(first_k_dense_replace=0), None), (dict(first_k_dense_replace=GONE), None), (dict(n_shared_experts=0), None),
          (dict(moe_intermediate_size=8), False), (dict(scoring_func="softmax"), None), (dict(mlp_layer_types=["sparse", "dense"]), None),
          (dict(num_local_experts=4), None), (dict(n_routed_experts=4), None), (dict(rms_norm_eps=0.3), True)]
ROPES = [(dict(rope_theta=GONE), None), (dict(rope_parameters=GONE), None),
         (dict(head_dim=GONE), None), (dict(head_dim=8), None), (dict(num_key_value_heads=GONE), None), (dict(partial_rotary_factor=GONE), None)]



OWN = {
    "dense/gemma4-unified": [(dict(final_logit_softcapping=2.0), True), (dict(attention_k_eq_v=False), None), (dict(hidden_activation="silu"), True),
                             (dict(num_kv_shared_layers=1), None), (dict(use_bidirectional_attention="vision"), True)] + WINDOWS,
    "dense/arcee": [(dict(hidden_act="relu2"), True), (dict(hidden_act="silu"), None), (dict(hidden_act=GONE), None)],
    "dense/cwm": [(dict(layer_types=[SLIDING, FULL]), None)] + WINDOWS,
    "dense/ministral": [(dict(layer_types=[FULL, SLIDING, FULL]), True), (dict(use_sliding_window=False), None)] + WINDOWS,
    "dense/helium": [(dict(attention_bias=False), True)],
    "dense/jais2": [(dict(hidden_act="relu2"), True), (dict(mlp_bias=False), None), (dict(layer_norm_eps=0.3), True)],
    "dense/vaultgemma": [(dict(final_logit_softcapping=2.0), True), (dict(attn_logit_softcapping=2.0), True), (dict(query_pre_attn_scalar=3), True),
                         (dict(final_logit_softcapping=None), None)] + WINDOWS,
    "dense/hyperclovax": [(dict(logits_scaling=2.0), True), (dict(embedding_multiplier=2.0), True), (dict(residual_multiplier=0.5), True),
                          (dict(attention_multiplier=0.3), True), (dict(use_post_norm=False), None), (dict(logits_scaling=GONE), None),
                          (dict(attention_multiplier=GONE), None)],
    "dense/granite_swa": [(dict(layer_rope_theta=[20000.0] * 5), True), (dict(layer_rope_theta=[0, 20000.0, 0, 0, 0]), True),
                          (dict(layer_rope_theta=[300.0, 20000.0, 0, 0, 0]), False), (dict(layer_rope_theta=GONE), None),
                          (dict(layer_rope_theta=[0, 1]), False), (dict(residual_multiplier=0.7), True), (dict(logits_scaling=3.0), True)] + WINDOWS,
    "dense/muse_glimmer": [(dict(post_norm_eps=0.3), True), (dict(rms_norm_eps=0.3), True), (dict(qk_scale_factor=1.3), True),
                           (dict(qk_scale_factor=GONE), True), (dict(output_multiplier=GONE), True), (dict(output_multiplier=2.0), True),
                           (dict(final_logit_softcapping=2.0), True), (dict(final_logit_softcapping=GONE), True), (dict(final_logit_softcapping=None), None),
                           (dict(layer_types=[FULL] + [SLIDING] * 4), True), (dict(layer_rope_theta=[20000.0, 0, 0, 0, 20000.0]), True),
                           (dict(layer_rope_theta=[300.0, 0, 0, 0, 300.0]), None), (dict(layer_types=[SLIDING] * 5, layer_rope_theta=GONE), True),
                           (dict(hidden_activation="gelu_pytorch_tanh"), True), (dict(query_pre_attn_scalar=3), None),
                           (dict(attn_logit_softcapping=3.0), None), (dict(use_bidirectional_attention=True), None)] + WINDOWS,
    "dense/internlm3": [(dict(qkv_bias=True, bias=True), False), (dict(qkv_bias=True), False), (dict(bias=GONE, qkv_bias=GONE), True)],
    "dense/iquestcoder": [(dict(clip_qkv=3.0), False), (dict(use_sliding_window=True, sliding_window=3), False), (dict(clip_qkv=GONE), True)],
    "experts/minimax_m2": [(dict(use_qk_norm=False), None), (dict(rotary_dim=8), None), (dict(rotary_dim=GONE), None), (dict(use_routing_bias=False), None),
                           (dict(scoring_func="sigmoid"), True), (dict(attn_type_list=[0, 1]), None), (dict(qk_norm_type="per_head"), None)] + ROUTER,
    "experts/dots1": [(dict(layer_types=[SLIDING, FULL], sliding_window=3), None)] + ROUTER + WINDOWS,
    "experts/hunyuan_v1_moe": [(dict(moe_topk=[1, 1]), None), (dict(moe_topk=[1, 2]), None), (dict(num_shared_expert=[2, 2]), None), (dict(use_qk_norm=False), None),
                               (dict(num_experts=4), None), (dict(use_mixed_mlp_moe=False), None), (dict(use_cla=True), None), (dict(cla_share_factor=2), None)] + ROUTER,
    "experts/solar_open": [(dict(use_qk_norm=True), None), (dict(rope_scaling=None), None)] + ROUTER,
    "experts/hy_v3": [(dict(qk_norm=False), None), (dict(route_norm=False), None), (dict(router_scaling_factor=2.0), None), (dict(enable_attention_fp32_softmax=True), None),
                      (dict(enable_lm_head_fp32=True), None), (dict(enable_moe_fp32_combine=True), None), (dict(moe_router_use_sigmoid=False), None),
                      (dict(expert_hidden_dim=8), None), (dict(num_shared_experts=2), None)] + ROUTER,
    "experts/exaone_moe": [(dict(sliding_window_pattern="LLLG"), None), (dict(is_moe_layer=[False, True]), None)] + ROUTER + WINDOWS,
    "experts/mellum": [(dict(use_sliding_window=False), None), (dict(max_window_layers=1), None), (dict(decoder_sparse_step=2), None),
                       (dict(mlp_only_layers=[0]), None)] + ROUTER + WINDOWS,
    "experts/granitemoe_swa": [(dict(layer_rope_theta=GONE), None), (dict(residual_multiplier=0.7), True), (dict(logits_scaling=3.0), True),
                               (dict(embedding_multiplier=2.0), True), (dict(shared_intermediate_size=0), None)] + ROUTER + WINDOWS,
    "experts/afmoe": [(dict(mup_enabled=False), True), (dict(mup_enabled=GONE), None), (dict(global_attn_every_n_layers=2), True), (dict(route_scale=1.0), True),
                      (dict(route_scale=GONE), True), (dict(route_norm=False), None), (dict(score_func="softmax"), None), (dict(num_dense_layers=2), False),
                      (dict(num_dense_layers=GONE), None), (dict(num_shared_experts=0), None), (dict(layer_types=[FULL, SLIDING, FULL, SLIDING]), True),
                      (dict(num_limited_groups=2), None), (dict(num_expert_groups=2), None)] + ROUTER + WINDOWS,
    "experts/sarvam_moe": [(dict(num_experts=4), None), (dict(use_qk_norm=False), None), (dict(use_qkv_bias=True), None), (dict(score_function="softmax"), None),
                           (dict(num_shared_experts=2), None), (dict(partial_rotary_factor=0.5), True), (dict(rope_theta=GONE), True)] + ROUTER,
    "latent/mistral4": [(dict(q_lora_rank=None), None), (dict(kv_lora_rank=16), None), (dict(rope_interleave=False), True), (dict(rope_interleave=GONE), True),
                        (dict(head_dim=GONE), True), (dict(head_dim=16), None), (dict(qk_rope_head_dim=8), None), (dict(v_head_dim=GONE), None)] + ROUTER,
    "latent/youtu": [(dict(rope_interleave=False), True), (dict(rope_interleave=GONE), True), (dict(q_lora_rank=None), None), (dict(kv_lora_rank=16), None),
                     (dict(rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=1.0)), True),
                     (dict(embedding_initializer_range=0.3), True), (dict(n_routed_experts=4), None)],
    "convolution/lfm3": [(dict(layer_types=[CONV, FULL, SLIDING, CONV, FULL]), False), (dict(layer_types=GONE), None), (dict(layer_types=[CONV] * 4), False),
                         (dict(sliding_window=2), True), (dict(sliding_window=GONE), True), (dict(sliding_window=None), None), (dict(norm_eps=0.3), True),
                         (dict(use_sandwich_norm=False), None), (dict(use_attention_gate=False), None), (dict(conv_L_cache=GONE), None), (dict(conv_bias=True), None),
                         (dict(head_dim=GONE), None), (dict(intermediate_size=24), None), (dict(block_auto_adjust_ff_dim=True), None),
                         (dict(rope_parameters=GONE), None), (dict(full_attn_idxs=[2]), None),
                         (dict(rope_parameters={FULL: dict(rope_type="default", rope_theta=300.0), SLIDING: dict(rope_type="default", rope_theta=70.0)}), True),
                         (dict(rope_parameters={FULL: dict(rope_type="proportional", rope_theta=300.0), SLIDING: dict(rope_type="default", rope_theta=70.0)}), True)],
}
for temperature in (dict(llama_4_scaling_beta=0.1), dict(llama_4_scaling_beta=0.0), dict(original_max_position_embeddings=8), dict(factor=2.0), dict(mscale=0.5),
                    dict(mscale_all_dim=0.5), dict(partial_rotary_factor=0.25), dict(rope_theta=300.0)):
    with open(os.path.join(HERE, "latent/mistral4/config.json")) as f:
        parameters = json.load(f)["rope_parameters"]
    OWN["latent/mistral4"].append((dict(rope_parameters={**parameters, **temperature}), None))


OWN["dense/exaone"] = [(dict(rope_theta=GONE, rope_scaling=GONE), True), (dict(rope_theta=GONE), True), (dict(layer_norm_epsilon=0.3), True),
                       (dict(activation_function="gelu"), True), (dict(num_key_value_heads=GONE), None)]
OUTSIDE = [dict(rope_theta=700.0), dict(partial_rotary_factor=0.25), dict(rope_local_base_freq=500.0), dict(rope_scaling={}), dict(rope_scaling=None)]
for kinds in ("dense/gemma4-unified", "experts/mellum", "convolution/lfm3"):
    OWN[kinds] += [({**change, "rope_parameters": none}, None) for change in OUTSIDE for none in (GONE, None)]
    OWN[kinds] += [(dict(rope_parameters={FULL: dict(full), SLIDING: dict(sliding)}), None)
                   for full in (dict(rope_type="default", rope_theta=700.0, partial_rotary_factor=0.5), dict(rope_theta=700.0, partial_rotary_factor=0.5),
                                dict(rope_type="default"), dict(rope_type="proportional", partial_rotary_factor=0.5))
                   for sliding in (dict(rope_type="default", rope_theta=70.0), dict(rope_type="default"), dict(rope_theta=70.0, partial_rotary_factor=0.5))]
OWN["experts/minimax_m2"] += [(dict(rotary_dim=8, partial_rotary_factor=part), None) for part in (0.25, 0.5, 1.0, 0.0, -0.5)]
OWN["experts/minimax_m2"] += [(dict(rotary_dim=8, rope_theta=GONE, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=part)), None)
                              for part in (0.25, 0.5, 1.0)]
OWN["experts/dots1"] += [(dict(sliding_window=5, max_window_layers=layers, use_sliding_window=used), None) for layers in (0, 1, 2) for used in (False, True, GONE)]
# What these and older ones make of a period that stands in the file, and of a window of 0.
PERIODS = ("dense/gemma2", "dense/gemma3", "dense/gemma3-nested", "dense/olmo3", "dense/olmo3-nested", "dense/exaone4", "dense/exaone4-full", "dense/cohere2",
           "dense/gemma4", "dense/gemma4-e", "experts/gpt_oss", "dense/ministral3", "models/mistral", "models/qwen2", "models/qwen3")
OF_PERIODS = [({**types, "sliding_window_pattern": period}, None) for period in (1, 2, 3) for types in (dict(layer_types=GONE), dict(layer_types=None), {})]
OF_PERIODS += [(dict(sliding_window=0), None), (dict(sliding_window=0, layer_types=GONE), None)]
for folder in OWN:
    OWN[folder] += OF_PERIODS


def rows_of(folder):
    if folder in PERIODS:
        return OF_PERIODS
    # Mellum's class cannot take null for rope_scaling beside rope_parameters, which no file has.
    every = [change for change, _ in EVERY + ROTARY + ROPES if folder != "experts/mellum" or "rope_scaling" not in change or change["rope_scaling"]]
    return [(change, None) for change in every] + OWN[folder]


def defaults():
    """What the classes write, but for Sarvam's, whose makers' files have other names."""
    for folder in OWN:
        with open(os.path.join(HERE, folder, "config.json")) as f:
            kind = json.load(f)["model_type"]
        config = json.loads(AutoConfig.for_model(kind).to_json_string(use_diff=False))
        if kind == "dots1": # which has no number of experts
            config.update(n_routed_experts=128, num_experts_per_tok=6, n_shared_experts=2)
        if kind != "sarvam_moe":
            yield config


if __name__ == "__main__":
    make_keys.write_others("recent", sys.argv[1:] or (*OWN, *PERIODS), rows_of, defaults())
