#!/usr/bin/env python3
"""What transformers makes of one key of config.json after the other, in tests/golden/keys/.

For a model of each architecture (those of make_models.py, make_architectures.py and make_dense.py, whose weights stay where they are)
keys.json lists changes to its config.json, keys that are added or replaced, or taken out ("absent"). Each row has what transformers does with the changed folder in float32 and eager attention: "fails" (it cannot be loaded, weights are
missing or of another shape, or the forward pass ends with an error), or the logits of the last of N tokens, from
number "at" of keys.logits on (float32, little-endian, "vocab" of them). "drop" is a tensor that is left out of the weights, "accepted" marks changes that files of that architecture
do have, or that mean nothing: these have to load. "moves" is how far the logits move, relative to the largest.

default.json has the configurations as the classes write them: to_dict() of transformers 5 and, with today's names put
back (torch_dtype, rope_scaling, rope_theta), the style of transformers 4.

dense_keys.json, dense_keys.logits and dense_default.json are the same for the models of make_dense.py, experts_… for those
of make_experts.py, latent_… for those of make_latent.py, convolution_… for those of make_convolution.py, delta_… for those of
make_delta.py, state_space_… for those of make_state_space.py.

usage: make_keys.py [first|dense|experts|latent|convolution|delta|state_space]   (needs numpy, torch, transformers; run it after make_models.py, make_architectures.py, make_dense.py,
make_experts.py, make_latent.py, make_convolution.py, make_delta.py, make_state_space.py)
"""
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "keys")
N = 24
MODELS = {"llama": "models/llama3", "mistral": "models/mistral", "qwen2": "models/qwen2", "qwen3": "models/qwen3",
          "phi3": "architectures/phi3", "gptj": "architectures/gptj", "gpt_neox": "architectures/gpt_neox",
          "opt": "architectures/opt", "bloom": "architectures/bloom", "mpt": "architectures/mpt"}
# Of make_dense.py: by folder, with the class's own name. Rows and logits of these are in a second pair of files.
DENSE = {name: f"dense/{name}" for name in (
    "gemma", "gemma2", "gemma3", "gemma3-nested", "smollm3", "granite", "seed_oss", "ernie4_5", "glm", "glm4", "olmo2", "olmo3",
    "olmo3-nested", "exaone4", "exaone4-full", "cohere", "cohere2", "stablelm", "starcoder2", "phi", "nemotron", "falcon-7b", "falcon-40b",
    "ministral3", "hunyuan", "cohere-plus", "stablelm-12b", "gemma4", "gemma4-e", "falcon-rw", "gemma4-moe", "apertus")}
# Of make_experts.py, likewise.
EXPERTS = {name: f"experts/{name}" for name in ("mixtral", "qwen3_moe", "qwen2_moe", "olmoe", "granitemoe", "granitemoeshared", "glm4_moe",
                                                 "ernie4_5_moe", "gpt_oss", "phimoe", "llama4")}
# Of make_latent.py, likewise.
LATENT = {name: f"latent/{name}" for name in ("deepseek_v2", "deepseek_v3", "glm4_moe_lite")}
# Of make_convolution.py, likewise.
CONVOLUTION = {name: f"convolution/{name}" for name in ("lfm2", "lfm2-own", "lfm2_moe")}
# Of make_delta.py, likewise.
DELTA = {name: f"delta/{name}" for name in ("qwen3_next", "qwen3_next-apart", "qwen3_5", "qwen3_5_moe")}
# Of make_state_space.py, likewise.
STATE_SPACE = {name: f"state_space/{name}" for name in ("granite4-h", "granite4-h-moe", "granite4-h-rope", "granite4", "nemotron_h",
                                                         "nemotron_h-moe", "nemotron_h-steps", "nemotron_h-attends", "falcon_h1", "falcon_h1-norm",
                                                         "falcon_h1-tied", "mamba2", "mamba2-tied", "mamba2-biased",
                                                         "granite4-h-none")}
GONE = "absent" # of a key that is taken out
FULL, SLIDING = "full_attention", "sliding_attention"
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LINEAR = dict(type="linear", factor=4.0)
DYNAMIC = dict(rope_type="dynamic", factor=3.0)
LONG = dict(rope_type="longrope", factor=4.0, original_max_position_embeddings=16, short_factor=[1.0] * 8, long_factor=[2.0] * 8)
# Which layers have a window, in the words of a class that does not ask.
MIXED = [(dict(layer_types=[SLIDING, FULL], sliding_window=5), True), (dict(layer_types=[FULL, SLIDING], sliding_window=5), True),
         (dict(layer_types=[FULL], sliding_window=5), False), (dict(layer_types=["other", FULL], sliding_window=5), False)]

# (changes, accepted)
EVERY = [
    (dict(is_causal=False), False), (dict(is_causal=True), True), (dict(tie_word_embeddings=True), True),
    (dict(attention_multiplier=0.5), False), (dict(embedding_scale=3.0), False), (dict(logits_scaling=8.0), False),
    (dict(is_encoder_decoder=False, add_cross_attention=False, use_cache=False, pad_token_id=3), True),
    (dict(vocab_size=64), False), (dict(num_experts=4), False), (dict(quantization="q4"), False),
    (dict(rope_scaling=None, layer_types=None), None), (dict(unknown=None, pruned_heads={}), True),
    (dict(layer_types=[SLIDING, SLIDING], sliding_window=5), None),
    (dict(num_hidden_layers=1), None), (dict(hidden_act="relu"), None), (dict(activation_function="relu"), None),
    (dict(layer_norm_eps=0.3), None), (dict(layer_norm_epsilon=0.3), None), (dict(rms_norm_eps=0.3), None),
    (dict(rope_theta=300.0), None), (dict(rotary_emb_base=300.0), None), (dict(rotary_dim=4), None),
    (dict(partial_rotary_factor=0.5), None), (dict(rotary_pct=0.5), None), (dict(rope_scaling=LINEAR), None),
    (dict(rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=10000.0)), None),
    (dict(sliding_window=5), None), (dict(attention_bias=True), None), (dict(mlp_bias=True), None),
    (dict(use_parallel_residual=False), None),
]
ROTARY = [ # of LLaMA's family
    (dict(rope_scaling=dict(type="linear", factor=4.0, attention_factor=2.0)), False),
    (dict(rope_scaling=dict(type="linear", factor=4.0, attention_factor=1.0, finetuned=True)), True),
    (dict(rope_scaling=dict(LINEAR, rope_theta=300.0)), True),
    (dict(rope_scaling=YARN), True), (dict(rope_scaling=dict(YARN, attention_factor=1.7)), True),
    (dict(rope_scaling=dict(YARN, beta_fast=4.0, beta_slow=0.5)), True),
    (dict(rope_scaling=dict(YARN, mscale=1.0, mscale_all_dim=0.5)), True),
    (dict(rope_scaling=dict(YARN, truncate=False)), True), (dict(rope_scaling=dict(YARN, low_freq_factor=2.0)), False),
    (dict(rope_scaling=dict(YARN, original_max_position_embeddings=16), original_max_position_embeddings=64), True),
    (dict(rope_scaling=dict(rope_type="dynamic", factor=3.0), max_position_embeddings=20), True),
    (dict(rope_scaling=dict(rope_type="dynamic", factor=3.0, original_max_position_embeddings=10),
          max_position_embeddings=20), False),
    (dict(rope_scaling=dict(rope_type="default", factor=4.0)), False),
    (dict(rope_scaling=dict(rope_type="default"), rope_parameters=dict(rope_type="linear", factor=4.0)), False),
    (dict(rope_scaling=YARN, rope_parameters=dict(rope_type="default", rope_theta=300.0)), False),
    (dict(rope_scaling=LINEAR, rope_theta=300.0,
          rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=300.0)), True),
    (dict(rope_interleaved=True), False), (dict(rope_interleaved=False), True), (dict(hidden_act="gelu_fast"), True),
    (dict(rms_norm_eps=0.3), True), (dict(rope_theta=300.0), None),
]
OWN = {
    "llama": [(dict(layer_types=[FULL, FULL]), True), (dict(layer_types=[FULL, SLIDING]), False),
              (dict(sliding_window=4096, use_sliding_window=False), True), (dict(mlp_bias=False), True),
              (dict(num_key_value_heads=3), False), (dict(head_dim=16), False)],
    "mistral": [(dict(layer_types=[SLIDING, FULL]), True), (dict(layer_types=[FULL, FULL]), True),
                (dict(sliding_window=None), True), (dict(sliding_window=5), True),
                (dict(use_sliding_window=False), False), (dict(attention_bias=False, mlp_bias=False), True)] + MIXED,
    "qwen2": [(dict(use_sliding_window=True), True), (dict(use_sliding_window=True, max_window_layers=0), True),
              (dict(use_sliding_window=True, layer_types=[SLIDING, FULL]), True),
              (dict(layer_types=[SLIDING, FULL]), False), (dict(layer_types=[FULL, FULL]), True),
              (dict(use_mrope=False), True), (dict(use_mrope=True), False), (dict(attention_bias=False), True)],
    "qwen3": [(dict(use_sliding_window=False), True), (dict(max_window_layers=0), True),
              (dict(layer_types=[SLIDING, FULL]), True), (dict(layer_types=[FULL]), False)],
    "phi3": [(dict(sliding_window=5), True), (dict(layer_types=[FULL, FULL]), True),
             (dict(layer_types=[FULL, SLIDING], sliding_window=5), False), (dict(full_attn_mod=1), True),
             (dict(full_attn_mod=2), False), (dict(interpolate_factor=1, lm_head_bias=False, mlp_bias=False), True),
             (dict(original_max_position_embeddings=20), True), (dict(max_position_embeddings=200), True),
             (dict(rope_scaling=dict(type="yarn", short_factor=[1.0, 1.05, 1.1, 1.2, 1.5, 1.9],
                                     long_factor=[1.1, 1.6, 2.9, 4.3, 5.1, 6.7])), True),
             (dict(rope_scaling=dict(type="longrope", factor=2.0, short_factor=[1.0, 1.05, 1.1, 1.2, 1.5, 1.9],
                                     long_factor=[1.1, 1.6, 2.9, 4.3, 5.1, 6.7])), True),
             (dict(rope_scaling=LINEAR), False)],
    "gptj": [(dict(rotary_dim=4), True), (dict(rotary_dim=None), False), (dict(rotary=False), False),
             (dict(rotary=True, scale_attn_weights=True, n_ctx=256, summary_type="cls_index"), True),
             (dict(scale_attn_weights=False), False), (dict(activation_function="relu"), True),
             (dict(layer_norm_epsilon=0.3), True), (dict(layer_norm_eps=1e-5), True), (dict(n_head=4), True),
             (dict(tie_word_embeddings=True), True, "lm_head.weight")],
    "gpt_neox": [(dict(rotary_pct=0.5), True), (dict(rotary_emb_base=300.0), True), (dict(rope_theta=10000.0), True),
                 (dict(rotary_emb_base=300.0, rope_theta=500.0), False), (dict(partial_rotary_factor=0.25), True),
                 (dict(use_parallel_residual=False), True), (dict(hidden_act="relu"), True),
                 (dict(layer_norm_eps=0.3), True), (dict(rope_scaling=LINEAR), True), (dict(rope_scaling=YARN), True)],
    "opt": [(dict(do_layer_norm_before=False), False), (dict(_remove_final_layer_norm=True), False),
            (dict(activation_function="gelu"), True), (dict(enable_bias=False), False),
            (dict(scale_embeddings=True), False), (dict(learned_embeddings=True, scale_embeddings=False), True),
            (dict(layer_norm_elementwise_affine=False), False), (dict(num_attention_heads=6), True)],
    "bloom": [(dict(apply_residual_connection_post_layernorm=True), False), (dict(layer_norm_epsilon=0.3), True),
              (dict(attention_softmax_in_fp32=True, masked_softmax_fusion=True, offset_alibi=100, skip_bias_add=True,
                    pretraining_tp=4, unk_token_id=0), True), (dict(num_attention_heads=3), True)],
    "mpt": [(dict(attn_config=dict(alibi=True, alibi_bias_max=4)), None), (dict(attn_config=dict(clip_qkv=0.5)), None),
            (dict(attn_config=dict(softmax_scale=0.1)), None), (dict(attn_config=dict(qk_ln=True)), None),
            (dict(attn_config=dict(attn_impl="triton", attn_pdrop=0, attn_type="multihead_attention")), True),
            (dict(attn_config=dict(rope=True)), False), (dict(logit_scale=0.5), None), (dict(norm_type="rmsnorm"), None),
            (dict(layer_norm_epsilon=0.3), True), (dict(n_heads=2), True), (dict(expansion_ratio=4), True),
            (dict(init_config=dict(name="kaiming_normal_"), tokenizer_name="x", verbose=0), True)],
}
WINDOWS = [(dict(sliding_window=4), True), (dict(sliding_window=None), None), (dict(layer_types=None), None)]
OWN.update({
    "gemma": [(dict(hidden_act="gelu_pytorch_tanh"), True), (dict(hidden_act="silu"), True), (dict(rms_norm_eps=0.3), True),
              (dict(rope_theta=300.0), True), (dict(head_dim=8), False), (dict(use_bidirectional_attention=True), False),
              (dict(tie_word_embeddings=False), None), (dict(rope_scaling=LINEAR), True)],
    "gemma2": WINDOWS + [(dict(query_pre_attn_scalar=3), True), (dict(attn_logit_softcapping=None), True),
                         (dict(final_logit_softcapping=None), True), (dict(attn_logit_softcapping=1.0), True),
                         (dict(final_logit_softcapping=2.0), True), (dict(hidden_activation="silu"), True),
                         (dict(hidden_act="silu"), None), (dict(layer_types=[FULL, FULL, SLIDING]), True),
                         (dict(layer_types=[FULL, SLIDING]), False), (dict(rope_theta=300.0), True),
                         (dict(use_bidirectional_attention=True), False)],
    "gemma3": WINDOWS + [(dict(query_pre_attn_scalar=3), True), (dict(attn_logit_softcapping=1.0), None),
                         (dict(final_logit_softcapping=2.0), True), (dict(rope_local_base_freq=80.0), True),
                         (dict(rope_theta=90.0), True), (dict(rope_scaling=None), True), (dict(rope_scaling=YARN), True),
                         (dict(sliding_window_pattern=3), True), (dict(_sliding_window_pattern=3), True),
                         (dict(layer_types=[FULL, SLIDING, FULL]), True),
                         (dict(rope_scaling=DYNAMIC), True), (dict(rope_scaling=DYNAMIC, max_position_embeddings=20), True),
                         (dict(rope_scaling=LONG, max_position_embeddings=64), None),
                         (dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=50.0)), None)],
    "gemma3-nested": [(dict(rope_parameters={FULL: dict(rope_type="default", rope_theta=80.0),
                                             SLIDING: dict(rope_type="default", rope_theta=90.0)}), True),
                      (dict(rope_parameters={FULL: dict(rope_type="default", rope_theta=80.0)}), True),
                      (dict(rope_parameters={FULL: dict(rope_type="default", rope_theta=80.0, factor=3.0)}), False),
                      (dict(rope_parameters={SLIDING: dict(rope_type="linear", factor=2.0, rope_theta=80.0)}), False),
                      (dict(rope_parameters={SLIDING: dict(DYNAMIC, rope_theta=80.0)}, max_position_embeddings=20), False),
                      (dict(rope_parameters={FULL: dict(DYNAMIC, rope_theta=80.0),
                                             SLIDING: dict(rope_type="default", rope_theta=90.0)}, max_position_embeddings=20), True),
                      (dict(rope_parameters={FULL: dict(rope_type="llama3", rope_theta=8000.0, factor=8.0, low_freq_factor=1.0,
                                                        high_freq_factor=4.0, original_max_position_embeddings=16)}), True),
                      (dict(rope_scaling=LINEAR), None)],
    "smollm3": [(dict(no_rope_layers=[0, 0, 1, 1]), True), (dict(no_rope_layers=None), True),
                (dict(no_rope_layers=None, no_rope_layer_interval=3), True), (dict(no_rope_layers=[1, 1]), False),
                (dict(use_sliding_window=True, sliding_window=4), False), (dict(rope_theta=300.0), True),
                (dict(max_window_layers=2), True), (dict(rope_scaling=YARN), True)],
    "granite": [(dict(embedding_multiplier=3.0), True), (dict(residual_multiplier=0.7), True),
                (dict(attention_multiplier=0.5), True), (dict(logits_scaling=2.0), True), (dict(rope_theta=300.0), True),
                (dict(rope_scaling=LINEAR), True), (dict(residual_multiplier=0.0), False)],
    "seed_oss": [(dict(attention_out_bias=True), False), (dict(attention_bias=False), False), (dict(residual_dropout=0.1), True),
                 (dict(rope_theta=300.0), True), (dict(rope_scaling=LINEAR), True), (dict(head_dim=None), None)],
    "ernie4_5": [(dict(use_bias=True), False), (dict(rope_theta=300.0), True), (dict(head_dim=8), False)],
    "glm": [(dict(partial_rotary_factor=1.0), True), (dict(attention_bias=False), False), (dict(rope_theta=300.0), True)],
    "glm4": [(dict(rope_parameters=dict(rope_type="default", rope_theta=80.0, partial_rotary_factor=1.0)), True),
             (dict(rope_parameters=dict(rope_type="default", rope_theta=80.0)), True)],
    "olmo2": [(dict(rope_theta=300.0), True), (dict(rms_norm_eps=0.3), True), (dict(rope_scaling=LINEAR), True)],
    "olmo3": WINDOWS + [(dict(rope_scaling=None), True), (dict(rope_scaling=dict(YARN, attention_factor=2.0)), True),
                        (dict(layer_types=[FULL, SLIDING, FULL, SLIDING]), True),
                        (dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=50.0)), None)],
    "olmo3-nested": [(dict(rope_parameters={FULL: dict(rope_type="default", rope_theta=80.0),
                                            SLIDING: dict(rope_type="default", rope_theta=90.0)}), True),
                     (dict(rope_parameters={FULL: dict(YARN, rope_theta=80.0)}), True),
                     (dict(rope_parameters={FULL: dict(DYNAMIC, rope_theta=80.0)}, max_position_embeddings=20), True)],
    "exaone4": WINDOWS + [(dict(layer_types=[FULL, SLIDING, FULL]), True), (dict(sliding_window_pattern=2), True),
                          (dict(layer_types=None, sliding_window_pattern=2), True)],
    "exaone4-full": [(dict(rope_theta=300.0), True), (dict(head_dim=8), False)],
    "cohere": [(dict(logit_scale=2.0), True), (dict(use_qk_norm=True), False), (dict(layer_norm_eps=0.3), True),
               (dict(rope_theta=300.0), True)],
    "cohere2": [(dict(sliding_window=4), True), (dict(logit_scale=2.0), True), (dict(sliding_window_pattern=3), True),
                (dict(layer_types=[FULL, SLIDING, FULL]), True), (dict(sliding_window=None), None),
                (dict(order_of_interleaved_layers="local_attn_first", layer_switch=4, rotary_pct=1.0,
                      position_embedding_type="rope_gptj", use_embedding_sharing=True, use_gated_activation=True,
                      use_parallel_block=True, use_parallel_embedding=False), True)],
    "stablelm": [(dict(partial_rotary_factor=0.5), True), (dict(use_qkv_bias=False), False), (dict(qk_layernorm=True), False),
                 (dict(use_parallel_residual=True), False), (dict(layer_norm_eps=0.3), True), (dict(rope_theta=300.0), True)],
    "starcoder2": [(dict(sliding_window=4), True), (dict(sliding_window=None), True), (dict(use_bias=False), False),
                   (dict(norm_epsilon=0.3), True), (dict(hidden_act="gelu"), True), (dict(norm_type="layer_norm"), True),
                   (dict(mlp_type="default"), True)] + MIXED,
    "phi": [(dict(partial_rotary_factor=0.25), True), (dict(qk_layernorm=True), False), (dict(hidden_act="relu"), True),
            (dict(layer_norm_eps=0.3), True)],
    "falcon-7b": [(dict(alibi=True), False), (dict(bias=True), False), (dict(multi_query=False), False),
                  (dict(parallel_attn=False), False), (dict(new_decoder_architecture=True), False), (dict(rope_theta=300.0), True),
                  (dict(layer_norm_epsilon=0.3), True), (dict(activation="relu"), True), (dict(num_kv_heads=2), True),
                  (dict(rope_scaling=LINEAR), True), (dict(num_attention_heads=2), None)],
    "falcon-40b": [(dict(multi_query=False), True), (dict(parallel_attn=False), False), (dict(num_ln_in_parallel_attn=2), True),
                   (dict(num_ln_in_parallel_attn=1), False), (dict(num_kv_heads=1), False), (dict(alibi=True), False)],
    "falcon-rw": [(dict(alibi=False), False), (dict(alibi=GONE), False), (dict(bias=False), None), (dict(multi_query=True), False),
                  (dict(parallel_attn=True), None), (dict(new_decoder_architecture=True), False), (dict(num_kv_heads=4), True),
                  (dict(num_kv_heads=2), False), (dict(rope_theta=300.0), True), (dict(layer_norm_epsilon=0.3), True),
                  (dict(activation="relu"), True), (dict(num_attention_heads=2), True), (dict(ffn_hidden_size=80), False)],
    "hunyuan": [(dict(use_cla=True), False), (dict(use_qk_norm=True, use_cla=False, norm_type="rms", eod_token_id=3), True),
                (dict(rope_scaling=dict(type="dynamic", alpha=9.0, factor=4.0)), True), (dict(rope_theta=300.0), True),
                (dict(rope_scaling=dict(type="linear", factor=4.0)), True), (dict(head_dim=8), False),
                (dict(rms_norm_eps=0.3), True), (dict(rope_scaling=dict(type="dynamic", factor=4.0, alpha=-1.0)), False)],
    "ministral3": [(dict(rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=16,
                                              llama_4_scaling_beta=0.2, mscale=1.0, mscale_all_dim=1.0)), True),
                   (dict(rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=8,
                                              max_position_embeddings=256, llama_4_scaling_beta=0.2)), True),
                   (dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0)), False), (dict(sliding_window=5), True)] + MIXED,
    "nemotron": [(dict(partial_rotary_factor=0.25), True), (dict(norm_eps=0.3), True), (dict(hidden_act="relu"), True),
                 (dict(hidden_act="gelu"), True), (dict(head_dim=8), False), (dict(head_dim=None), None), (dict(head_dim=GONE), None)],
})
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
OWN["apertus"] = [
    (dict(rope_scaling=LLAMA3), True), (dict(rope_scaling=dict(LLAMA3, type="llama3"), hidden_dropout=0.1), True),
    (dict(rope_scaling=GONE, rope_parameters=dict(LLAMA3, rope_theta=300.0)), True),
    (dict(rope_scaling=GONE, rope_parameters=dict(rope_type="default", rope_theta=300.0)), True),
    (dict(rope_scaling=GONE, rope_theta=GONE), True), (dict(rope_scaling=GONE, rope_theta=12e6), True),
    (dict(rope_scaling=GONE, rope_theta=300.0), False), (dict(rope_scaling=None, rope_theta=GONE), None),
    (dict(rope_scaling={}, rope_theta=GONE), None), (dict(qk_norm=False), False), (dict(post_norm=True), False),
    (dict(mlp_bias=True), False), (dict(qk_norm=GONE, post_norm=GONE, mlp_bias=GONE), True), (dict(rms_norm_eps=0.3), True),
    (dict(hidden_act="silu"), None), (dict(hidden_act=GONE), True), (dict(head_dim=16), False), (dict(attention_bias=True), False),
    (dict(), False, "model.layers.1.mlp.act_fn.alpha_p"), (dict(), False, "model.layers.0.mlp.act_fn.alpha_n"),
    (dict(), False, "model.layers.2.mlp.act_fn.beta"), (dict(), False, "model.layers.0.mlp.act_fn.eps"),
    (dict(), False, "model.layers.0.self_attn.q_norm.weight"), (dict(), False, "model.layers.0.feedforward_layernorm.weight"),
]
FURTHER = [(dict(router_aux_loss_coef=0.5, output_router_logits=False), True), (dict(num_experts_per_tok=1), None),
           (dict(n_group=2, topk_group=1), None), (dict(routed_scaling_factor=2.5), None), (dict(scoring_func="sigmoid"), None),
           (dict(rope_theta=300.0), None), (dict(hidden_act="gelu_pytorch_tanh"), None),
           (dict(num_experts_per_tok=GONE), None),
           (dict(num_local_experts=GONE, num_experts=GONE, n_routed_experts=GONE, moe_num_experts=GONE), False),
           (dict(moe_intermediate_size=GONE), None)]
OWN.update({
    "mixtral": FURTHER + MIXED + [(dict(num_experts_per_tok=None), False), (dict(num_local_experts=None), False),
                                  (dict(sliding_window=5), True), (dict(norm_topk_prob=False), None), (dict(num_experts_per_tok=5), True),
                          (dict(router_jitter_noise=0.5), True), (dict(num_local_experts=4), False),
                          (dict(intermediate_size=16), False)],
    "qwen3_moe": FURTHER + [(dict(num_experts_per_tok=None), False), (dict(num_experts=None), False),
                            (dict(norm_topk_prob=False), True), (dict(mlp_only_layers=[]), False),
                            (dict(mlp_only_layers=[1]), False), (dict(decoder_sparse_step=2, mlp_only_layers=[]), True),
                            (dict(decoder_sparse_step=3), False), (dict(moe_intermediate_size=8), False),
                            (dict(num_experts_per_tok=6), True), (dict(use_sliding_window=True, sliding_window=5), False)],
    "qwen2_moe": FURTHER + [(dict(norm_topk_prob=True), True), (dict(mlp_only_layers=[0]), False),
                            (dict(shared_expert_intermediate_size=16), False), (dict(qkv_bias=False), False),
                            (dict(use_sliding_window=True), False), (dict(num_local_experts=6), None)],
    "olmoe": FURTHER + [(dict(norm_topk_prob=False), True), (dict(clip_qkv=0.5), False), (dict(clip_qkv=None), True)],
    "granitemoeshared": FURTHER + [(dict(shared_intermediate_size=16), False), (dict(shared_intermediate_size=0), None), (dict(shared_intermediate_size=GONE), None),
                                   (dict(intermediate_size=16), False), (dict(embedding_multiplier=2.0), True), (dict(residual_multiplier=0.7), True),
                                   (dict(attention_multiplier=0.4), True), (dict(logits_scaling=3.0), True), (dict(num_experts_per_tok=1), True)],
    "granitemoe": FURTHER + [(dict(embedding_multiplier=2.0), True), (dict(residual_multiplier=0.7), True),
                             (dict(attention_multiplier=0.5), True), (dict(logits_scaling=3.0), True),
                             (dict(norm_topk_prob=False), None)],
    "glm4_moe": FURTHER + [(dict(n_group=1, topk_group=1), True), (dict(n_group=3, topk_group=2), True),
                           (dict(routed_scaling_factor=1.0), True), (dict(norm_topk_prob=False), True),
                           (dict(first_k_dense_replace=0), False), (dict(first_k_dense_replace=2), False),
                           (dict(n_shared_experts=2), False), (dict(use_qk_norm=False), False),
                           (dict(attention_bias=False), False), (dict(partial_rotary_factor=1.0), True),
                           (dict(num_nextn_predict_layers=0), True)],
    "ernie4_5_moe": FURTHER + [(dict(moe_k=3), True), (dict(moe_k=GONE), True), (dict(moe_num_shared_experts=1), False), (dict(use_bias=True), False),
                               (dict(moe_layer_start_index=0), False), (dict(moe_layer_interval=2), True),
                               (dict(moe_layer_end_index=1), True), (dict(moe_layer_end_index=0), False),
                               (dict(moe_norm_min=1e-9), True)],
    "gpt_oss": FURTHER + [(dict(swiglu_limit=3.0), False), (dict(swiglu_alpha=1.0), False), (dict(sliding_window=5), True),
                          (dict(layer_types=[FULL, SLIDING]), True), (dict(layer_types=None), True),
                          (dict(attention_bias=False), False), (dict(experts_per_token=2, initial_context_length=4096), True),
                          (dict(rope_parameters=None), True), (dict(rope_parameters=GONE), True), (dict(rope_parameters=None, rope_theta=77.0), True),
                          (dict(rope_parameters=None, rope_scaling=None), True), (dict(rope_parameters={}), True),
                          (dict(rope_parameters=None, rope_scaling={}), True), (dict(rope_parameters={}, rope_theta=77.0), True),
                          (dict(rope_parameters=None, original_max_position_embeddings=64), None),
                          (dict(rope_parameters=None, rope_scaling=LINEAR), True), (dict(rope_parameters=dict(rope_theta=77.0)), True),
                          (dict(head_dim=None), False),
                          (dict(rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=8.0, beta_fast=32.0,
                                                     beta_slow=1.0, original_max_position_embeddings=32)), True)],
})
SIZES = [(dict(kv_lora_rank=24 + 8), False), (dict(q_lora_rank=GONE), None), (dict(q_lora_rank=16), False), (dict(qk_nope_head_dim=4), False),
         (dict(qk_rope_head_dim=4), False), (dict(v_head_dim=GONE), None), (dict(v_head_dim=8), False), (dict(num_key_value_heads=1), False),
         (dict(num_key_value_heads=None), None), (dict(head_dim=8, qk_head_dim=24), None), (dict(n_shared_experts=3), False),
         (dict(first_k_dense_replace=0), False), (dict(first_k_dense_replace=2), False), (dict(first_k_dense_replace=GONE), None),
         (dict(norm_topk_prob=False), None), (dict(norm_topk_prob=True), None), (dict(routed_scaling_factor=0.7), True),
         (dict(rope_interleave=False), None), (dict(rope_interleave=True), None), (dict(moe_layer_freq=2), None),
         (dict(topk_method="group_limited_greedy"), None), (dict(topk_method="greedy"), None), (dict(topk_method="noaux_tc"), None),
         (dict(scoring_func="softmax"), None), (dict(rope_theta=300.0), None), (dict(partial_rotary_factor=1.0), None),
         (dict(num_nextn_predict_layers=0), None), (dict(mlp_layer_types=["dense", "sparse"]), None),
         (dict(mlp_layer_types=["sparse", "sparse"]), False), (dict(ep_size=2, aux_loss_alpha=0.1, seq_aux=False), True),
         (dict(rope_scaling=None), None), (dict(rope_scaling=dict(YARN, mscale=1.0, mscale_all_dim=0.5)), True),
         (dict(rope_scaling=dict(YARN, mscale_all_dim=0.5)), True), (dict(rope_scaling=dict(YARN, mscale=0.5)), True), (dict(rope_scaling=YARN), True),
         (dict(rope_scaling=dict(YARN, attention_factor=1.3, mscale_all_dim=1.0)), True),
         (dict(rope_scaling=dict(type="linear", factor=4.0, mscale_all_dim=1.0)), None), (dict(rope_scaling=DYNAMIC), None)]
OWN.update({
    "deepseek_v2": FURTHER + SIZES + [(dict(q_lora_rank=None), True), (dict(topk_method="greedy", n_group=3, topk_group=1), True),
                                      (dict(topk_method="group_limited_greedy", n_group=3, topk_group=1), True),
                                      (dict(topk_method="group_limited_greedy", n_group=3, topk_group=2), True),
                                      (dict(n_group=None, topk_group=None), True)],
    "deepseek_v3": FURTHER + SIZES + [(dict(rope_interleave=False), True), (dict(n_group=1, topk_group=1), True),
                                      (dict(n_group=3, topk_group=2), True), (dict(num_nextn_predict_layers=0), True),
                                      (dict(norm_topk_prob=False), True), (dict(num_local_experts=6), None)],
    "glm4_moe_lite": FURTHER + SIZES + [(dict(rope_interleave=False), True), (dict(n_group=3, topk_group=1), True),
                                        (dict(mlp_layer_types=["dense", "sparse"]), True), (dict(rms_norm_eps=0.3), True)],
})
TAPS = [ # of layers that convolve
    (dict(conv_L_cache=2), False), (dict(conv_L_cache=9), False), (dict(conv_bias=True), None), (dict(conv_bias=False), None),
    (dict(norm_eps=0.3), True), (dict(block_norm_eps=0.3), None), (dict(num_key_value_heads=4), False),
    (dict(num_attention_heads=8), False), (dict(head_dim=20), False), (dict(conv_dim=8), None), (dict(num_heads=2), None),
    (dict(tie_embedding=True), True), (dict(theta=3.0), None), (dict(conv_use_xavier_init=False), None), (dict(use_pos_enc=False), None),
    (dict(block_use_swiglu=False), None), (dict(full_attn_idxs=[0]), None), (dict(layer_types=["conv"]), False), (dict(conv_L_cache=GONE), None)]
OWN.update({
    "lfm2": TAPS + [(dict(layer_types=["full_attention"] * 5), False), (dict(layer_types=["conv", "other", "conv", "conv", "conv"]), False),
                    (dict(block_auto_adjust_ff_dim=False), False), (dict(block_auto_adjust_ff_dim=False, intermediate_size=88), True),
                    (dict(block_multiple_of=11), True), (dict(block_multiple_of=16), False), (dict(block_ffn_dim_multiplier=1.0), False),
                    (dict(block_ffn_dim_multiplier=None), None), (dict(block_ffn_dim_multiplier=None, intermediate_size=132), None),
                    (dict(block_ff_dim=100, intermediate_size=7), True), (dict(intermediate_size=101), True)],
    "lfm2-own": TAPS + [(dict(full_attn_idxs=[1, 2]), False), (dict(full_attn_idxs=[4]), None), (dict(intermediate_size=7), True),
                        (dict(block_auto_adjust_ff_dim=True), False), (dict(layer_types=["conv", "full_attention", "conv", "conv"]), True),
                        (dict(block_ff_dim=40), False)],
    "lfm2_moe": FURTHER + TAPS + [(dict(num_dense_layers=0), False), (dict(num_dense_layers=2), False), (dict(num_dense_layers=GONE), False),
                                  (dict(use_expert_bias=False), False), (dict(use_expert_bias=GONE), True), (dict(norm_topk_prob=False), True),
                                  (dict(routed_scaling_factor=0.5), True), (dict(routed_scaling_factor=GONE), True),
                                  (dict(num_experts=4), False), (dict(moe_intermediate_size=8), False)],
})
LINEAR_KIND = "linear_attention"
PART = dict(rope_type="default", rope_theta=20000.0, partial_rotary_factor=0.25)
STATES = [ # of layers that recur
    (dict(linear_num_key_heads=1), False), (dict(linear_num_key_heads=3), False), (dict(linear_num_key_heads=0), False),
    (dict(linear_num_value_heads=2), False), (dict(linear_num_value_heads=5), False), (dict(linear_key_head_dim=4), False),
    (dict(linear_value_head_dim=8), False), (dict(linear_key_head_dim=512), False), (dict(linear_conv_kernel_dim=2), False),
    (dict(linear_conv_kernel_dim=9), False), (dict(linear_conv_kernel_dim=0), False), (dict(linear_num_key_heads=GONE), False),
    (dict(linear_num_value_heads=GONE), False), (dict(linear_key_head_dim=GONE), False), (dict(linear_num_key_heads=None), False),
    (dict(attn_output_gate=True), True), (dict(attn_output_gate=False), None), (dict(attn_output_gate=GONE), True),
    (dict(output_gate_type="swish"), True), (dict(output_gate_type="sigmoid"), None), (dict(mamba_ssm_dtype="float32"), True),
    (dict(mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False), True), (dict(hidden_act="gelu"), None), (dict(hidden_act=GONE), True),
    (dict(head_dim=8), False), (dict(head_dim=GONE), False), (dict(head_dim=None), None), (dict(rms_norm_eps=0.3), True),
    (dict(use_sliding_window=True, sliding_window=5), None), (dict(use_sliding_window=False), True), (dict(sliding_window=5), None),
    (dict(rope_parameters=dict(PART, rope_theta=300.0)), True), (dict(rope_parameters=dict(PART, partial_rotary_factor=0.5)), True),
    (dict(rope_parameters=dict(rope_type="default", rope_theta=20000.0), partial_rotary_factor=GONE), True),
    (dict(rope_parameters=dict(rope_type="default", rope_theta=20000.0), partial_rotary_factor=1.0), True),
    (dict(rope_parameters=dict(PART, mrope_interleaved=True, mrope_section=[1, 1, 0])), None),
    (dict(rope_parameters=dict(PART, rope_type="yarn", factor=4.0, original_max_position_embeddings=16)), None),
    (dict(rope_parameters=dict(PART, something=3)), None), (dict(rope_parameters=GONE), None), (dict(full_attention_interval=0), None),
    (dict(mrope_section=[1, 1, 0]), None)]
OWN.update({
    "qwen3_next": FURTHER + STATES + [(dict(layer_types=[LINEAR_KIND] * 4), False), (dict(layer_types=[FULL, LINEAR_KIND]), False),
                                      (dict(layer_types=[LINEAR_KIND, "other", LINEAR_KIND, LINEAR_KIND]), False),
                                      (dict(layer_types=GONE), False), (dict(full_attention_interval=3), True), (dict(norm_topk_prob=False), True),
                                      (dict(norm_topk_prob=GONE), True), (dict(mlp_only_layers=[1]), False), (dict(decoder_sparse_step=2), False),
                                      (dict(mlp_only_layers=GONE, decoder_sparse_step=GONE), True), (dict(num_experts_per_tok=3), True),
                                      (dict(moe_intermediate_size=8), False), (dict(shared_expert_intermediate_size=16), False),
                                      (dict(attention_bias=True), False), (dict(intermediate_size=77), True)],
    "qwen3_next-apart": FURTHER + STATES + [(dict(full_attention_interval=3), False), (dict(full_attention_interval=GONE), False),
                                            (dict(layer_types=[LINEAR_KIND, FULL, LINEAR_KIND]), True),
                                            (dict(layer_types=[LINEAR_KIND, FULL, LINEAR_KIND], full_attention_interval=GONE), True),
                                            (dict(norm_topk_prob=True), True), (dict(mlp_only_layers=[]), False),
                                            (dict(partial_rotary_factor=0.25), True), (dict(partial_rotary_factor=GONE), True),
                                            (dict(attention_bias=False), False), (dict(rope_scaling=dict(LINEAR)), None)],
    "qwen3_5": STATES + [(dict(layer_types=GONE), False), (dict(layer_types=[LINEAR_KIND, LINEAR_KIND, FULL]), False),
                         (dict(layer_types=GONE, full_attention_interval=3), True), (dict(full_attention_interval=GONE), True),
                         (dict(layer_types=[SLIDING, LINEAR_KIND, FULL, LINEAR_KIND]), False), (dict(mlp_only_layers=[]), True),
                         (dict(num_experts=0), None), (dict(attention_bias=True), False)],
    "qwen3_5_moe": FURTHER + STATES + [(dict(norm_topk_prob=True), True), (dict(norm_topk_prob=False), None), (dict(mlp_only_layers=[]), True),
                                       (dict(mlp_only_layers=[0]), None), (dict(decoder_sparse_step=1), True), (dict(decoder_sparse_step=2), None),
                                       (dict(intermediate_size=77), True), (dict(num_experts=5), False), (dict(num_experts_per_tok=3), True),
                                       (dict(shared_expert_intermediate_size=GONE), None)],
})
MAMBA, ATTENTION = "mamba", "attention"
INFINITE = {"__float__": "Infinity"}
SPACES = [ # of state spaces
    (dict(mamba_n_heads=3), False), (dict(mamba_n_heads=5), False), (dict(mamba_n_heads=0), False), (dict(mamba_n_heads=GONE), False),
    (dict(mamba_n_groups=3), False), (dict(mamba_n_groups=0), False), (dict(mamba_n_groups=None), False), (dict(mamba_n_groups=GONE), None),
    (dict(mamba_d_state=4), False), (dict(mamba_d_state=512), False), (dict(mamba_d_state=GONE), None), (dict(mamba_d_head=8), False),
    (dict(mamba_d_head="auto"), True), (dict(mamba_d_head=GONE), True), (dict(mamba_d_head=None), None), (dict(mamba_d_head="other"), None),
    (dict(mamba_d_conv=2), None), (dict(mamba_d_conv=9), False), (dict(mamba_d_conv=GONE), None), (dict(mamba_expand=1), False),
    (dict(mamba_expand=GONE), True), (dict(mamba_expand=2.0), None), (dict(mamba_expand=None), None), (dict(mamba_chunk_size=3), True),
    (dict(mamba_chunk_size=GONE), True), (dict(mamba_conv_bias=False), None), (dict(mamba_conv_bias=True), None), (dict(mamba_conv_bias=GONE), None),
    (dict(mamba_conv_bias=None), None), (dict(mamba_proj_bias=True), None), (dict(mamba_proj_bias=GONE), True),
    (dict(time_step_limit=[0.0, INFINITE]), True), (dict(time_step_limit=[0.0, 0.05]), None), (dict(time_step_limit=[0.9, INFINITE]), None),
    (dict(time_step_limit=None), None), (dict(time_step_limit=[]), None),
    (dict(time_step_limit=GONE), True), (dict(time_step_min=0.1), None), (dict(layer_types=GONE, layers_block_type=GONE), None),
    (dict(layer_types=[MAMBA] * 4), None), (dict(layer_types=[ATTENTION] * 4), None), (dict(layer_types=[ATTENTION, MAMBA, MAMBA, MAMBA]), None),
    (dict(layer_types=[MAMBA, "other", MAMBA, MAMBA]), None), (dict(layers_block_type=[MAMBA, ATTENTION, MAMBA, MAMBA]), None),
    (dict(layers_block_type=[LINEAR_KIND, FULL, MAMBA, ATTENTION], layer_types=GONE), None), (dict(full_attention_interval=2), None),
    (dict(position_embedding_type="rope"), True), (dict(position_embedding_type="nope"), True), (dict(position_embedding_type=None), True),
    (dict(position_embedding_type=GONE), True), (dict(position_embedding_type="alibi"), None), (dict(position_embedding_type=3), None),
    (dict(position_embedding_type="rope", rope_theta=300.0), True), (dict(position_embedding_type="nope", rope_scaling=LINEAR), None),
    (dict(position_embedding_type="rope", rope_scaling=LINEAR), None), (dict(position_embedding_type="rope", rope_scaling=YARN), None),
    (dict(position_embedding_type="rope", rope_parameters=dict(rope_type="default", rope_theta=300.0)), None),
    (dict(position_embedding_type="rope", partial_rotary_factor=0.5), None), (dict(rms_norm_eps=0.3), True), (dict(rms_norm_eps=GONE), True),
    (dict(embedding_multiplier=3.0), True), (dict(embedding_multiplier=GONE), True), (dict(embedding_multiplier=None), None),
    (dict(residual_multiplier=1.0), True), (dict(residual_multiplier=GONE), True), (dict(residual_multiplier=0.0), None),
    (dict(attention_multiplier=0.5), True), (dict(attention_multiplier=GONE), True), (dict(attention_multiplier=None), None),
    (dict(logits_scaling=8.0), True), (dict(logits_scaling=GONE), True), (dict(logits_scaling=None), None), (dict(hidden_act="gelu"), None),
    (dict(hidden_act=GONE), True), (dict(normalization_function="rmsnorm"), True), (dict(normalization_function="layernorm"), None),
    (dict(init_method="mup"), True), (dict(attention_bias=True), None), (dict(attention_bias=False), None), (dict(attention_bias=GONE), None),
    (dict(head_dim=12), None), (dict(head_dim=8), False), (dict(head_dim=None), None), (dict(num_key_value_heads=4), False),
    (dict(num_local_experts=GONE), None), (dict(num_local_experts=None), None), (dict(num_experts=0), None), (dict(num_experts_per_tok=1), True),
    (dict(num_experts_per_tok=GONE), None), (dict(shared_intermediate_size=16), False), (dict(shared_intermediate_size=GONE), False),
    (dict(router_aux_loss_coef=0.5, output_router_logits=False), True)]
OWN.update({
    "granite4-h": SPACES + [(dict(layer_types=[LINEAR_KIND, FULL, LINEAR_KIND, LINEAR_KIND]), True), (dict(intermediate_size=77), True),
                            (dict(layers_block_type=[MAMBA, ATTENTION, MAMBA, MAMBA], layer_types=GONE), True),
                            (dict(num_local_experts=6, num_experts_per_tok=2), False)],
    "granite4-h-moe": FURTHER + SPACES + [(dict(layer_types=[MAMBA, MAMBA, ATTENTION, MAMBA]), True), (dict(num_local_experts=0), None),
                                          (dict(num_local_experts=5), False), (dict(num_experts_per_tok=3), True), (dict(intermediate_size=8), False),
                                          (dict(norm_topk_prob=False), None)],
    "granite4-h-rope": SPACES + [(dict(layers_block_type=[MAMBA, ATTENTION, ATTENTION, MAMBA]), False), (dict(intermediate_size=GONE), True)],
    "granite4": [(dict(position_embedding_type="nope"), True), (dict(position_embedding_type=GONE), True), (dict(layer_types=GONE), None),
                 (dict(layer_types=[FULL, FULL]), True), (dict(layer_types=[MAMBA, ATTENTION]), False), (dict(mamba_n_heads=3), None),
                 (dict(mamba_d_conv=0), None), (dict(mamba_conv_bias=False), True), (dict(rope_theta=300.0), True)],
})
# Of Nemotron-H.
PARTS = [
    (dict(n_groups=1), False), (dict(n_groups=4), False), (dict(n_groups=0), False), (dict(n_groups=GONE), None), (dict(n_groups=None), None),
    (dict(mamba_n_groups=1), None), (dict(mamba_num_heads=2), False), (dict(mamba_num_heads=0), False), (dict(mamba_num_heads=GONE), None),
    (dict(mamba_n_heads=5), None), (dict(mamba_head_dim=8), False), (dict(mamba_head_dim=GONE), None), (dict(mamba_head_dim="auto"), None),
    (dict(mamba_d_head=8), None), (dict(ssm_state_size=4), False), (dict(ssm_state_size=GONE), None), (dict(mamba_d_state=4), None),
    (dict(conv_kernel=2), None), (dict(conv_kernel=9), False), (dict(conv_kernel=GONE), None), (dict(mamba_d_conv=2), None), (dict(expand=1), True),
    (dict(expand=GONE), True), (dict(mamba_expand=5), True), (dict(chunk_size=3), True), (dict(mamba_chunk_size=7), True), (dict(use_conv_bias=None), None),
    (dict(use_conv_bias=True), None), (dict(use_conv_bias=False), None), (dict(mamba_conv_bias=True), None), (dict(mamba_conv_bias=False), None),
    (dict(use_bias=True), None), (dict(use_bias=False), True), (dict(mamba_proj_bias=True), None), (dict(mamba_proj_bias=GONE), True),
    (dict(mamba_hidden_act="gelu"), None), (dict(mamba_hidden_act="silu"), True), (dict(mlp_hidden_act="silu"), True), (dict(mlp_hidden_act="gelu"), True),
    (dict(mlp_hidden_act=GONE), True), (dict(mlp_hidden_act="mish"), None), (dict(hidden_act="silu"), None), (dict(layer_norm_epsilon=0.3), True),
    (dict(layer_norm_epsilon=GONE), True), (dict(rms_norm_eps=0.3), True), (dict(time_step_min=0.5), True), (dict(time_step_min=0.0), True),
    (dict(time_step_min=GONE), True), (dict(time_step_min=-1.0), None), (dict(time_step_min=None), None), (dict(mamba_dt_min=0.5), None),
    (dict(time_step_max=0.2), True), (dict(time_step_floor=0.2), True), (dict(time_step_limit=[0.0, INFINITE]), True), (dict(time_step_limit=[0.9, 1.0]), None),
    (dict(head_dim=8), False), (dict(head_dim=GONE), None), (dict(attention_head_dim=8), None), (dict(num_key_value_heads=4), False),
    (dict(num_key_value_heads=None), None), (dict(sliding_window=5), None), (dict(sliding_window=None), True), (dict(attention_bias=True), None),
    (dict(mlp_bias=True), None), (dict(num_logits_to_keep=3), True), (dict(use_mamba_kernels=False), True), (dict(residual_in_fp32=True), True),
    (dict(rescale_prenorm_residual=False), True), (dict(mamba_ssm_cache_dtype="float32"), True), (dict(num_query_groups=2), True),
    (dict(num_nextn_predict_layers=1, mtp_layers_block_type=["attention", "moe"]), True), (dict(mtp_hybrid_override_pattern="*E"), True),
    (dict(intermediate_size=8), None), (dict(intermediate_size=GONE), None), (dict(partial_rotary_factor=0.5), None), (dict(max_position_embeddings=GONE), True),
    (dict(moe_latent_size=16), None), (dict(moe_latent_size=None), True), (dict(n_shared_experts=2), None), (dict(n_shared_experts=1), True),
    (dict(layers_block_type=["other"] * 6), None), (dict(layers_block_type=["mlp"]), None), (dict(layers_block_type=None), None),
    (dict(layers_block_type=3), None), (dict(layer_types=["mlp"]), None)]
# Of Mamba 2.
ALONE = [
    (dict(n_groups=1), None), (dict(n_groups=4), False), (dict(n_groups=0), False), (dict(n_groups=GONE), None), (dict(n_groups=None), None),
    (dict(mamba_n_groups=1), None), (dict(num_heads=2), False), (dict(num_heads=0), False), (dict(num_heads=GONE), False), (dict(num_heads=None), None),
    (dict(mamba_num_heads=2), None), (dict(num_attention_heads=3), None), (dict(num_key_value_heads=3), None), (dict(head_dim=8), False),
    (dict(head_dim=GONE), None), (dict(head_dim=None), None), (dict(head_dim="auto"), None), (dict(num_heads=12, head_dim=8), None),
    (dict(state_size=4), False), (dict(state_size=GONE), False), (dict(ssm_state_size=4), None), (dict(conv_kernel=2), None), (dict(conv_kernel=9), False),
    (dict(conv_kernel=GONE), None), (dict(mamba_d_conv=2), None), (dict(expand=1), False), (dict(expand=GONE), True), (dict(expand=2.0), None),
    (dict(expand=None), None), (dict(mamba_expand=1), None), (dict(chunk_size=3), True), (dict(chunk_size=GONE), True), (dict(use_conv_bias=None), None),
    (dict(use_conv_bias=True), None), (dict(use_conv_bias=False), None), (dict(use_conv_bias=GONE), None), (dict(mamba_conv_bias=False), None),
    (dict(use_bias=True), None), (dict(use_bias=False), None), (dict(use_bias=None), None), (dict(use_bias=GONE), None), (dict(mamba_proj_bias=True), None),
    (dict(bias=True), None), (dict(hidden_act="silu"), True), (dict(hidden_act="gelu"), None), (dict(hidden_act=GONE), True), (dict(hidden_act=None), None),
    (dict(activation="relu"), None), (dict(layer_norm_epsilon=0.3), True), (dict(layer_norm_epsilon=GONE), True), (dict(layer_norm_epsilon=None), None),
    (dict(rms_norm=True), True), (dict(rms_norm=False), None), (dict(norm_before_gate=True), True), (dict(norm_before_gate=False), True),
    (dict(residual_in_fp32=False), True), (dict(residual_in_fp32=GONE), True), (dict(rescale_prenorm_residual=True), None), (dict(time_step_rank="auto"), True),
    (dict(time_step_rank=5), True), (dict(time_step_min=0.9), True), (dict(time_step_max=0.01), True), (dict(time_step_floor=0.5), True),
    (dict(time_step_limit=[0.0, INFINITE]), True), (dict(time_step_limit=[0.0, 0.05]), None), (dict(time_step_limit=[0.9, INFINITE]), None),
    (dict(time_step_limit=None), None), (dict(time_step_limit=[]), None), (dict(time_step_limit=GONE), True), (dict(time_step_scale=2.0), True),
    (dict(time_step_init_scheme="constant"), True), (dict(intermediate_size=77), True), (dict(max_position_embeddings=64), None),
    (dict(layer_types=["mamba"] * 3), None), (dict(layers_block_type=["mamba"] * 3), None), (dict(layer_types=None), None), (dict(layer_types=[]), None),
    (dict(hybrid_override_pattern="MMM"), None), (dict(hidden_size=GONE), False), (dict(hidden_size=40), False), (dict(vocab_size=GONE), False),
    (dict(num_hidden_layers=GONE), False), (dict(num_hidden_layers=2), None), (dict(num_hidden_layers=4), False), (dict(d_state=4), None),
    (dict(mamba_hidden_act="gelu"), None), (dict(ssm_cfg=dict(layer="Mamba2")), None), (dict(moe_intermediate_size=8), None),
    (dict(attention_dropout=0.1), None), (dict(sliding_window=4), None), (dict(position_embedding_type="rope"), None)]
OWN.update({
    "mamba2": ALONE, "mamba2-tied": ALONE, "mamba2-biased": ALONE,
    "granite4-h-none": [(dict(layer_types=[MAMBA] * 2), True), (dict(layer_types=[LINEAR_KIND] * 2), True), (dict(layer_types=[MAMBA, ATTENTION]), False),
                        (dict(layers_block_type=[MAMBA] * 2), True), (dict(layer_types=[ATTENTION] * 2), None), (dict(num_key_value_heads=4), True),
                        (dict(position_embedding_type="rope"), None), (dict(attention_multiplier=0.5), None), (dict(head_dim=8), None)],
})
LETTERS = {"M": MAMBA, "*": ATTENTION, "-": "mlp", "E": "moe"}
OWN.update({
    "nemotron_h": PARTS + [(dict(hybrid_override_pattern=GONE, layers_block_type=[LETTERS[part] for part in "M-M*-M"]), True),
                           (dict(hybrid_override_pattern=GONE, layer_types=[LETTERS[part] for part in "M-M*-M"]), True),
                           (dict(layers_block_type=[LETTERS[part] for part in "M-M*-M"], num_hidden_layers=GONE), True),
                           (dict(num_hidden_layers=GONE), True), (dict(num_hidden_layers=9), None), (dict(num_hidden_layers=None), None),
                           (dict(hybrid_override_pattern="M-M*-"), None), (dict(hybrid_override_pattern="M-M*-X"), None),
                           (dict(hybrid_override_pattern="MEM*-M"), False), (dict(hybrid_override_pattern="M*M*-M"), False),
                           (dict(hybrid_override_pattern=GONE), None), (dict(hybrid_override_pattern=""), None), (dict(hybrid_override_pattern=None), None),
                           (dict(n_routed_experts=4, num_experts_per_tok=2, norm_topk_prob=False, routed_scaling_factor=2.0, n_group=2, topk_group=1,
                                 moe_intermediate_size=8, moe_shared_expert_intermediate_size=8), True)],
    "nemotron_h-moe": PARTS + [(dict(n_routed_experts=5), False), (dict(n_routed_experts=GONE), None), (dict(num_experts_per_tok=3), True),
                               (dict(num_experts_per_tok=GONE), True), (dict(num_experts_per_tok=0), None), (dict(norm_topk_prob=False), True),
                               (dict(norm_topk_prob=GONE), True), (dict(routed_scaling_factor=1.5), True), (dict(routed_scaling_factor=GONE), True),
                               (dict(n_group=2, topk_group=1), True), (dict(n_group=GONE, topk_group=GONE), True), (dict(n_group=4), None),
                               (dict(n_group=2, topk_group=2), True), (dict(moe_intermediate_size=8), False), (dict(moe_intermediate_size=GONE), None),
                               (dict(moe_shared_expert_intermediate_size=8), False), (dict(moe_shared_expert_intermediate_size=GONE), None),
                               (dict(moe_shared_expert_overlap=False), True), (dict(hybrid_override_pattern="MMMM*"), True),
                               (dict(layers_block_type=GONE, hybrid_override_pattern="ME*EME"), True), (dict(num_local_experts=6), None)],
    "nemotron_h-steps": PARTS + [(dict(norm_topk_prob=True), True), (dict(n_group=1), True), (dict(topk_group=2), True)],
    "nemotron_h-attends": PARTS,
})
# Of Falcon-H1.
MULTIPLIERS = ("embedding_multiplier", "lm_head_multiplier", "key_multiplier", "attention_in_multiplier", "attention_out_multiplier", "ssm_in_multiplier",
               "ssm_out_multiplier")
BESIDE = [
    (dict(mamba_n_heads=2), None), (dict(mamba_n_heads=0), False), (dict(mamba_n_heads=GONE), None), (dict(mamba_n_groups=4), None),
    (dict(mamba_n_groups=0), False), (dict(mamba_n_groups=GONE), None), (dict(mamba_d_state=4), False), (dict(mamba_d_state=GONE), None),
    (dict(mamba_d_head=8), None), (dict(mamba_d_head="auto"), True), (dict(mamba_d_head=GONE), True), (dict(mamba_d_head=None), None),
    (dict(mamba_d_ssm=48), None), (dict(mamba_d_ssm=GONE), None), (dict(mamba_d_ssm=None), None), (dict(mamba_d_ssm=0), None), (dict(mamba_d_conv=2), None),
    (dict(mamba_d_conv=GONE), None), (dict(mamba_expand=5), None), (dict(mamba_expand=GONE), None), (dict(mamba_chunk_size=3), True),
    (dict(mamba_conv_bias=False), None), (dict(mamba_conv_bias=True), None), (dict(mamba_conv_bias=GONE), None), (dict(mamba_proj_bias=True), None),
    (dict(projectors_bias=True), None), (dict(projectors_bias=GONE), True), (dict(mamba_rms_norm=True), None), (dict(mamba_rms_norm=False), None),
    (dict(mamba_rms_norm=GONE), None), (dict(mamba_norm_before_gate=True), None), (dict(mamba_norm_before_gate=False), True),
    (dict(mamba_norm_before_gate=GONE), None), (dict(time_step_limit=[0.0, INFINITE]), True), (dict(time_step_limit=[0.5, INFINITE]), None),
    (dict(time_step_limit=None), None), (dict(time_step_min=0.5), None), (dict(attention_bias=True), None), (dict(mlp_bias=True), None),
    (dict(hidden_act="gelu"), None), (dict(hidden_act=GONE), True), (dict(rms_norm_eps=0.3), True), (dict(rms_norm_eps=GONE), True),
    (dict(head_dim=8), None), (dict(head_dim=None), None), (dict(num_key_value_heads=4), False), (dict(num_key_value_heads=None), None),
    (dict(layer_types=[FULL, FULL]), None), (dict(layers_block_type=["hybrid", "hybrid"]), None), (dict(attn_layer_indices=[0]), None),
    (dict(mamba_use_mlp=True, mlp_expansion_factor=4, num_logits_to_keep=2), True), (dict(intermediate_size=8), None), (dict(intermediate_size=GONE), None),
    (dict(mlp_multipliers=None), True), (dict(mlp_multipliers=GONE), True), (dict(mlp_multipliers=[2.0, 3.0]), True), (dict(mlp_multipliers=[1.0]), None),
    (dict(mlp_multipliers=[0.0, 1.0]), None), (dict(mlp_multipliers=[1.0, -1.0]), None), (dict(mlp_multipliers=1.0), None),
    (dict(ssm_multipliers=None), True), (dict(ssm_multipliers=GONE), True), (dict(ssm_multipliers=[2.0, 0.5, 3.0, 1.5, 0.25]), True),
    (dict(ssm_multipliers=[1.0] * 5), True), (dict(ssm_multipliers=[1.0] * 4), None), (dict(ssm_multipliers=[1.0] * 6), None),
    (dict(ssm_multipliers=[-1.0] * 5), None), (dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=300.0)), None),
    (dict(attention_multiplier=0.5), None), (dict(logits_scaling=3.0), None), (dict(residual_multiplier=0.5), None)]
for name in MULTIPLIERS:
    BESIDE += [({name: 2.5}, True), ({name: 1.0}, True), ({name: GONE}, True), ({name: None}, None), ({name: 0.0}, None), ({name: -1.0}, None)]
OWN.update({name: BESIDE for name in ("falcon_h1", "falcon_h1-norm", "falcon_h1-tied")})
CHUNKED = "chunked_attention"
LONG_MSCALE = dict(type="longrope", short_factor=[1.0, 1.05, 1.1, 1.2, 1.5, 1.9], long_factor=[1.1, 1.6, 2.9, 4.3, 5.1, 6.7],
                   original_max_position_embeddings=100)
OWN.update({
    "cohere-plus": [(dict(use_qk_norm=False), False), (dict(use_qk_norm=GONE), False), (dict(layer_norm_eps=0.3), True),
                    (dict(logit_scale=0.5), True), (dict(rope_theta=300.0), True), (dict(num_key_value_heads=4), False)],
    "stablelm-12b": [(dict(qk_layernorm=False), False), (dict(qk_layernorm=GONE), False), (dict(use_parallel_residual=False), False),
                     (dict(use_parallel_residual=GONE), False), (dict(layer_norm_eps=0.3), True), (dict(use_qkv_bias=True), False),
                     (dict(partial_rotary_factor=0.5), True), (dict(rope_theta=300.0), True)],
    "phimoe": FURTHER + [(dict(router_jitter_noise=0.01), True), (dict(router_jitter_noise=GONE), True),
                         (dict(router_jitter_noise=0.9), True), (dict(lm_head_bias=False), False), (dict(lm_head_bias=GONE), False),
                         (dict(attention_bias=False), False), (dict(num_experts_per_tok=3), None), (dict(input_jitter_noise=0.5), True),
                         (dict(rms_norm_eps=0.3), True), (dict(sliding_window=5), True), (dict(sliding_window=None), True),
                         (dict(rope_scaling=dict(LONG_MSCALE, short_mscale=1.5, long_mscale=1.5)), True),
                         (dict(rope_scaling=dict(LONG_MSCALE, short_mscale=1.5, long_mscale=1.25)), False),
                         (dict(rope_scaling=dict(LONG_MSCALE, short_mscale=1.5)), False), (dict(rope_scaling=LONG_MSCALE), False),
                         (dict(rope_scaling=dict(LONG_MSCALE, short_mscale=1.5, long_mscale=1.5, attention_factor=3.0)), False),
                         (dict(rope_scaling=None), True), (dict(rope_scaling=dict(LINEAR, short_mscale=1.5, long_mscale=1.5)), False)],
    "llama4": FURTHER + [(dict(attention_chunk_size=5), True), (dict(attention_chunk_size=GONE), True),
                         (dict(attention_chunk_size=None), False), (dict(no_rope_layers=[1, 1, 0, 1]), True),
                         (dict(no_rope_layers=GONE), True), (dict(no_rope_layers=GONE, no_rope_layer_interval=3), True),
                         (dict(layer_types=[CHUNKED, CHUNKED, FULL, CHUNKED]), True), (dict(layer_types=[FULL] * 4), True),
                         (dict(layer_types=[SLIDING] * 4), False), (dict(layer_types=[CHUNKED]), False),
                         (dict(attn_temperature_tuning=False), True), (dict(attn_temperature_tuning=GONE), True),
                         (dict(attn_scale=0.7), True), (dict(floor_scale=3), True), (dict(attn_scale=GONE, floor_scale=GONE), True),
                         (dict(use_qk_norm=False), True), (dict(use_qk_norm=GONE), True), (dict(rms_norm_eps=0.3), True),
                         (dict(interleave_moe_layer_step=1), False), (dict(interleave_moe_layer_step=4), False),
                         (dict(moe_layers=[1, 3]), True), (dict(moe_layers=[0, 1]), False), (dict(num_local_experts=4), False),
                         (dict(intermediate_size=8), False), (dict(intermediate_size_mlp=16), False), (dict(head_dim=8), False),
                         (dict(num_experts_per_tok=1), True), (dict(sliding_window=5), None), (dict(attention_bias=True), False),
                         (dict(rope_scaling=dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                 original_max_position_embeddings=32)), True),
                         (dict(rope_scaling=None), True)],
})
OWN.update({
    "gemma4": [(dict(sliding_window=4), True), (dict(layer_types=[SLIDING, SLIDING, SLIDING, FULL]), False),
               (dict(layer_types=[SLIDING, FULL, FULL, SLIDING]), False), (dict(layer_types=[SLIDING, FULL]), False),
               (dict(global_head_dim=16), False), (dict(global_head_dim=GONE), False), (dict(num_global_key_value_heads=2), False),
               (dict(num_global_key_value_heads=GONE), False), (dict(attention_k_eq_v=False), False), (dict(attention_k_eq_v=GONE), False),
               (dict(final_logit_softcapping=None), True), (dict(final_logit_softcapping=2.0), True), (dict(hidden_activation="silu"), True),
               (dict(hidden_act="silu"), None), (dict(rms_norm_eps=0.3), True), (dict(head_dim=24), False),
               (dict(hidden_size_per_layer_input=12), False), (dict(hidden_size_per_layer_input=GONE), False),
               (dict(enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=8), False),
               (dict(num_kv_shared_layers=2), None), (dict(num_kv_shared_layers=4), False), (dict(use_double_wide_mlp=True), True),
               (dict(use_double_wide_mlp=True, num_kv_shared_layers=2), False), (dict(use_bidirectional_attention="vision"), True),
               (dict(use_bidirectional_attention="all"), False), (dict(attention_logit_softcapping=5.0), None),
               (dict(per_layer_config={"1": dict(head_dim=24, num_key_value_heads=1), "3": dict(head_dim=24, num_key_value_heads=1)}), True),
               (dict(per_layer_config={"1": dict(head_dim=24, num_key_value_heads=1)}), False),
               (dict(per_layer_config={"1": dict(head_dim=24, num_key_value_heads=1, sliding_window=3),
                                       "3": dict(head_dim=24, num_key_value_heads=1)}), None),
               (dict(rope_parameters={FULL: dict(rope_type="proportional", partial_rotary_factor=0.25, rope_theta=90000.0),
                                      SLIDING: dict(rope_type="default", rope_theta=7000.0)}), True),
               (dict(rope_parameters={FULL: dict(rope_type="proportional", rope_theta=90000.0, factor=2.0),
                                      SLIDING: dict(rope_type="default", rope_theta=700.0)}), True),
               (dict(rope_parameters={FULL: dict(rope_type="default", rope_theta=90000.0),
                                      SLIDING: dict(rope_type="default", rope_theta=7000.0)}), True),
               (dict(rope_parameters={FULL: dict(rope_type="default", partial_rotary_factor=0.5, rope_theta=90000.0),
                                      SLIDING: dict(rope_type="default", rope_theta=7000.0)}), None),
               (dict(rope_parameters=GONE), None), (dict(rope_parameters=None), None), (dict(query_pre_attn_scalar=3), None)],
    "gemma4-e": [(dict(num_kv_shared_layers=0), False), (dict(num_kv_shared_layers=1), None), (dict(hidden_size_per_layer_input=8), False),
                 (dict(use_double_wide_mlp=False), False), (dict(vocab_size_per_layer_input=40), None),
                 (dict(num_hidden_layers=4), False), (dict(sliding_window=3), True), (dict(rms_norm_eps=0.3), True),
                 (dict(per_layer_config=GONE, global_head_dim=32), True), (dict(per_layer_config=GONE), False)],
    "gemma4-moe": [(dict(enable_moe_block=False), None), (dict(enable_moe_block=GONE), None), (dict(num_experts=5), False),
                   (dict(num_experts=GONE), False), (dict(top_k_experts=1), True), (dict(top_k_experts=GONE), False), (dict(top_k_experts=6), True),
                   (dict(top_k_experts=7), False), (dict(moe_intermediate_size=20), False), (dict(moe_intermediate_size=GONE), False),
                   (dict(intermediate_size=24), False), (dict(rms_norm_eps=0.3), True), (dict(hidden_activation="silu"), True),
                   (dict(norm_topk_prob=False), None), (dict(num_experts_per_tok=1), None), (dict(routed_scaling_factor=2.0), None),
                   (dict(num_kv_shared_layers=1), None), (dict(use_double_wide_mlp=True, num_kv_shared_layers=1), False)],
})
NOT_ROTARY = ("phi3", "gptj", "gpt_neox", "opt", "bloom", "mpt")


def rows_of(kind):
    return EVERY + (ROTARY if kind not in NOT_ROTARY and kind not in DENSE and kind not in EXPERTS and kind not in LATENT and kind not in CONVOLUTION and kind not in DELTA and kind not in STATE_SPACE else []) + OWN[kind]


def logits_of(folder, ids):
    """None: transformers cannot do it, or not with the weights that are there."""
    try:
        with open(os.path.join(folder, "config.json")) as f:
            attention = "sdpa" if json.load(f).get("alibi") else "eager" # see make_dense.py
        model, info = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attention, dtype=torch.float32,
                                                           output_loading_info=True)
        if info["missing_keys"] or info["mismatched_keys"]:
            return None
        with torch.no_grad():
            logits = model.eval()(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].float().numpy()
    except Exception: # whatever it is, this is no configuration that it knows
        return None
    return logits if np.isfinite(logits).all() else None


def run(kind, folder, rows, out):
    with open(os.path.join(HERE, folder, "config.json")) as f:
        config = json.load(f)
    with open(os.path.join(HERE, folder, "golden.json")) as f:
        ids = json.load(f)["cases"][0]["ids"][:N]
    plain = logits_of(os.path.join(HERE, folder), ids)
    with tempfile.TemporaryDirectory() as changed:
        for file in os.listdir(os.path.join(HERE, folder)):
            if file.endswith("safetensors"):
                shutil.copy(os.path.join(HERE, folder, file), changed)
        weights = {file: load_file(os.path.join(changed, file)) for file in os.listdir(changed)}
        for change, accepted, *drop in rows_of(kind):
            for file, state in weights.items():
                save_file({key: value for key, value in state.items() if key not in drop}, os.path.join(changed, file),
                          metadata={"format": "pt"})
            if change.get("rope_scaling") and "rope_parameters" not in change and "rope_theta" in config.get("rope_parameters", {}):
                # Not beside the other one: rope_parameters is what a file of today has instead.
                change = {**change, "rope_parameters": {"rope_theta": config["rope_parameters"]["rope_theta"],
                                                        **change["rope_scaling"]}}
                del change["rope_scaling"]
            with open(os.path.join(changed, "config.json"), "w") as f:
                json.dump({key: value for key, value in {**config, **change}.items() if value != GONE}, f)
            logits = logits_of(changed, ids)
            row = dict(model=folder, change=change, drop=drop[0] if drop else None, accepted=accepted is True, fails=logits is None)
            if logits is not None:
                same = [i for i, other in enumerate(out) if np.array_equal(other, logits)]
                row.update(at=sum(map(len, out[:same[0]] if same else out)), vocab=len(logits),
                           moves=float("%.2g" % (np.abs(logits - plain).max() / np.abs(plain).max())))
                if not same:
                    out.append(logits.astype("<f4"))
            assert not (row["accepted"] and row["fails"]), (kind, change)
            rows.append(row)


def defaults(kinds):
    """[(style, config)]"""
    found = []
    for kind in kinds:
        today = json.loads(AutoConfig.for_model(kind).to_json_string(use_diff=False))
        if kind == "glm4_moe": # which has no head size that fits
            today.update(head_dim=128)
        if kind == "deepseek_v2": # which has no number of experts for a token
            today.update(num_experts_per_tok=6)
        found.append(("5", today))
        if kind in ("ministral3", "gemma4_text"): # of today
            continue
        before = dict(today, torch_dtype="float16")
        for key in ("dtype", "rope_parameters"):
            before.pop(key, None)
        if kind == "gemma3_text":
            before.update(rope_local_base_freq=10000.0, sliding_window_pattern=6)
        if "rope_parameters" in today and kind != "gpt_neox":
            before.update(rope_theta=500000.0 if kind == "olmo3" else 10000.0, rope_scaling=None)
        if kind == "gpt_neox": # it wrote both names
            before.update(rotary_emb_base=10000, rope_theta=10000, rotary_pct=0.25, partial_rotary_factor=0.25, rope_scaling=None)
        if kind == "apertus": # a scaling that its class means without one
            scaling = dict(today["rope_parameters"])
            before.update(rope_theta=scaling.pop("rope_theta"), rope_scaling=scaling)
        found.append(("4", before))
    return found


def write_set(name, models, kinds):
    rows, logits = [], []
    for kind, folder in models.items():
        run(kind, folder, rows, logits)
    with open(os.path.join(OUT, f"{name}keys.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    np.concatenate(logits).tofile(os.path.join(OUT, f"{name}keys.logits"))
    with open(os.path.join(OUT, f"{name}default.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(dict(style=style, config=config)) for style, config in defaults(kinds)) + "\n]\n")
    print(f"{len(rows)} rows, {sum(row['fails'] for row in rows)} fail")


def write_others(name, folders, of_folder, configs):
    """NAME_keys.json, .logits and NAME_default.json of models that no table above has: of_folder(folder) gives a folder's changes, as
    rows_of() does; `configs` are configurations as classes of transformers 5 write them."""
    global rows_of
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)
    rows_of = of_folder
    rows, logits = [], []
    for folder in folders:
        run(folder, folder, rows, logits)
    with open(os.path.join(OUT, f"{name}_keys.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    np.concatenate(logits).tofile(os.path.join(OUT, f"{name}_keys.logits"))
    with open(os.path.join(OUT, f"{name}_default.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(dict(style="5", config=config)) for config in configs) + "\n]\n")
    print(f"{len(rows)} rows, {sum(row['fails'] for row in rows)} fail")


def main():
    wanted = sys.argv[1:]
    os.makedirs(OUT, exist_ok=True)
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)
    dense = sorted({"gemma3_text" if name.startswith("gemma3") else "gemma4_text" if name.startswith("gemma4") else "hunyuan_v1_dense" if name == "hunyuan" else name.split("-")[0] for name in DENSE})
    for name, models, kinds in (("", MODELS, MODELS), ("dense_", DENSE, dense), ("experts_", EXPERTS, ["llama4_text" if name == "llama4" else name for name in EXPERTS]),
                                ("latent_", LATENT, LATENT), ("convolution_", CONVOLUTION, ["lfm2", "lfm2_moe"]),
                                ("delta_", DELTA, ["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"]),
                                ("state_space_", STATE_SPACE, ["granitemoehybrid", "nemotron_h", "falcon_h1", "mamba2"])):
        if not wanted or (name or "first").rstrip("_") in wanted:
            write_set(name, models, kinds)
    with open(os.path.join(OUT, "PROVENANCE.txt"), "w") as f:
        f.write("Made by tests/golden/make_keys.py with\nPython %s, numpy %s, torch %s, transformers %s.\nThe weights are "
                "those of tests/golden/models, tests/golden/architectures, tests/golden/dense, tests/golden/experts, tests/golden/latent,\ntests/golden/convolution, tests/golden/delta and tests/golden/state_space.\n"
                % (sys.version.split()[0], np.__version__, torch.__version__, transformers.__version__))


if __name__ == "__main__":
    main()
