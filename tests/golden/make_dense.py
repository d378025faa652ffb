#!/usr/bin/env python3
"""Small random models of the dense architectures of today, with known logits, in tests/golden/dense/.

As make_models.py, whose helpers this uses: each folder is a Hugging Face model with golden.json beside it. The weights
are of 16 bits (f16 and bf16 in turn), which float32 holds exactly; the logits are those of transformers in float32 and
eager attention, half_error is twice how far its own in 16 bits are from them. Cases: "prompt" at positions 0, 1, 2, …; "gap",
where no layer has a window, half of the tokens 40 positions further on. "greedy" are the tokens that transformers goes
on with after the first eight of the prompt.

NAME.gguf has the same weights under the names and in the order of llama.cpp's converter, written with the gguf package
(norms plus 1 where a file holds them less 1, Q and K permuted where it does that).

MiniCPM has no class in transformers: its logits are Granite's, whose formula with other names it has (embeddings times
scale_emb, what layers add times scale_depth over the root of their number, logits over hidden size / dim_model_base).
Those of Baichuan, XVERSE, ChatGLM and Qwen 1 are LLaMA's, GLM's and Qwen2's with weights in their files' names and order (q, k and
v in one); Baichuan 13B's LLaMA turns nothing and has ALiBi's distances in its mask.
Orion, MiMo and the text of GLM-4.1V are made of transformers' parts in further_classes.py.
usage: make_dense.py [NAME …]  (needs numpy, torch, transformers, safetensors, gguf; all of them: writes PROVENANCE.txt)
"""
import json
import math
import os
import shutil
import sys

import gguf
import numpy as np
import safetensors
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.muse_glimmer.modeling_muse_glimmer import MuseGlimmerPreTrainedModel, MuseGlimmerTextModel

import further_classes # noqa: F401: it tells transformers of classes that it does not have
from make_architectures import alibi_slopes
from make_models import N_TOKENS, SEED, finish, gguf_version, rng_of
from make_models import logits_of as rope_logits

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dense")
N_GREEDY, N_BEGIN, GAP = 64, 8, 40
BASE = dict(hidden_size=40, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=56, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
SLIDING, FULL = "sliding_attention", "full_attention"
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0)

MUSE = dict(head_dim=16, hidden_activation="silu", rms_norm_eps=1e-5, qk_scale_factor=3.0, output_multiplier=0.6,
            final_logit_softcapping=6.0, sliding_window=7, rope_parameters=dict(rope_type="default", rope_theta=20000.0),
            tie_word_embeddings=False)

# name: config.json beyond BASE, as files of transformers 4 or (rope_parameters) 5 have it
MODELS = {
    "gemma": dict(model_type="gemma", head_dim=16, hidden_act="gelu", rms_norm_eps=1e-6, rope_theta=10000.0),
    "gemma2": dict(model_type="gemma2", num_hidden_layers=3, head_dim=16, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
                   query_pre_attn_scalar=16, attn_logit_softcapping=5.0, final_logit_softcapping=6.0, sliding_window=7,
                   rope_theta=10000.0),
    "gemma3": dict(model_type="gemma3_text", num_hidden_layers=3, head_dim=16, hidden_activation="gelu_pytorch_tanh",
                   rms_norm_eps=1e-6, query_pre_attn_scalar=16, sliding_window=7, sliding_window_pattern=2,
                   rope_theta=300000.0, rope_local_base_freq=5000.0, rope_scaling=dict(rope_type="linear", factor=8.0)),
    "gemma3-nested": dict(model_type="gemma3_text", num_hidden_layers=3, head_dim=16, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
                          query_pre_attn_scalar=12, sliding_window=5, layer_types=[FULL, SLIDING, SLIDING],
                          rope_parameters={FULL: dict(rope_type="linear", factor=2.0, rope_theta=90000.0),
                                           SLIDING: dict(rope_type="default", rope_theta=7000.0)}),
    "smollm3": dict(model_type="smollm3", num_hidden_layers=4, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=50000.0,
                    no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=2, tie_word_embeddings=True),
    "granite": dict(model_type="granite", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0,
                    embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.11, logits_scaling=8.0,
                    tie_word_embeddings=True),
    "minicpm": dict(model_type="minicpm", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, scale_emb=12,
                    scale_depth=1.4, dim_model_base=16, tie_word_embeddings=True),
    "seed_oss": dict(model_type="seed_oss", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0, head_dim=16,
                     attention_bias=True, attention_out_bias=False, mlp_bias=False, tie_word_embeddings=False),
    "ernie4_5": dict(model_type="ernie4_5", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=50000.0, head_dim=16,
                     use_bias=False, tie_word_embeddings=True),
    "glm": dict(model_type="glm", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, head_dim=16,
                partial_rotary_factor=0.5, attention_bias=True, tie_word_embeddings=False),
    "glm4": dict(model_type="glm4", hidden_act="silu", rms_norm_eps=1e-5, head_dim=16, attention_bias=True,
                 rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5),
                 tie_word_embeddings=False),
    "olmo2": dict(model_type="olmo2", hidden_act="silu", rms_norm_eps=1e-5, rope_theta=50000.0,
                  tie_word_embeddings=False),
    "olmo3": dict(model_type="olmo3", num_hidden_layers=4, hidden_act="silu", rms_norm_eps=1e-5, sliding_window=7,
                  rope_theta=500000.0, rope_scaling=dict(attention_factor=1.2, **YARN), tie_word_embeddings=False),
    "olmo3-nested": dict(model_type="olmo3", num_hidden_layers=3, hidden_act="silu", rms_norm_eps=1e-5, sliding_window=9,
                         layer_types=[SLIDING, FULL, SLIDING],
                         rope_parameters={FULL: dict(rope_theta=20000.0, **YARN),
                                          SLIDING: dict(rope_type="default", rope_theta=3000.0)},
                         tie_word_embeddings=False),
    "exaone4": dict(model_type="exaone4", num_hidden_layers=3, hidden_act="silu", rms_norm_eps=1e-5, sliding_window=7,
                    layer_types=[SLIDING, FULL, SLIDING], sliding_window_pattern="LLLG", rope_theta=10000.0,
                    tie_word_embeddings=True),
    "exaone4-full": dict(model_type="exaone4", num_hidden_layers=2, hidden_act="silu", rms_norm_eps=1e-5, head_dim=16,
                         sliding_window=None, layer_types=[FULL, FULL], sliding_window_pattern=None, rope_theta=10000.0,
                         tie_word_embeddings=True),
    "cohere": dict(model_type="cohere", hidden_act="silu", layer_norm_eps=1e-5, rope_theta=80000.0, logit_scale=0.25,
                   use_qk_norm=False),
    "cohere2": dict(model_type="cohere2", num_hidden_layers=3, hidden_act="silu", layer_norm_eps=1e-5, rope_theta=50000.0,
                    logit_scale=0.5, sliding_window=7, sliding_window_pattern=2),
    "stablelm": dict(model_type="stablelm", hidden_size=48, num_attention_heads=3, num_key_value_heads=1, hidden_act="silu", layer_norm_eps=1e-5,
                     rope_theta=10000.0, partial_rotary_factor=0.25, use_qkv_bias=True, use_parallel_residual=False,
                     qk_layernorm=False),
    "starcoder2": dict(model_type="starcoder2", hidden_act="gelu_pytorch_tanh", norm_epsilon=1e-5, rope_theta=10000.0,
                       use_bias=True, sliding_window=9, tie_word_embeddings=True),
    "phi": dict(model_type="phi", hidden_size=48, num_attention_heads=3, num_key_value_heads=3, hidden_act="gelu_new",
                layer_norm_eps=1e-5, rope_theta=10000.0, partial_rotary_factor=0.5, qk_layernorm=False,
                tie_word_embeddings=False),
    "nemotron": dict(model_type="nemotron", hidden_act="relu2", norm_eps=1e-5, head_dim=16, partial_rotary_factor=0.5,
                     rope_theta=10000.0, attention_bias=False, mlp_bias=False, tie_word_embeddings=False),
}
MODELS.update({
    "falcon-7b": dict(model_type="falcon", num_key_value_heads=None, intermediate_size=None, alibi=False, bias=False, multi_query=True, new_decoder_architecture=False,
                      parallel_attn=True, layer_norm_epsilon=1e-5, num_kv_heads=4, rope_theta=10000.0),
    "falcon-40b": dict(model_type="falcon", num_key_value_heads=None, intermediate_size=None, alibi=False, bias=False, multi_query=True, new_decoder_architecture=True,
                       parallel_attn=True, layer_norm_epsilon=1e-5, num_kv_heads=2, rope_theta=10000.0),
    "falcon-11b": dict(model_type="falcon", num_key_value_heads=None, intermediate_size=None, alibi=False, bias=False, multi_query=True, new_decoder_architecture=True,
                       num_ln_in_parallel_attn=1, ffn_hidden_size=48, layer_norm_epsilon=1e-5, num_kv_heads=2,
                       rope_theta=10000.0),
    "baichuan": dict(model_type="baichuan", hidden_act="silu", rms_norm_eps=1e-6, num_key_value_heads=None,
                     tie_word_embeddings=False),
    "baichuan-13b": dict(model_type="baichuan", hidden_size=48, num_attention_heads=6, hidden_act="silu", rms_norm_eps=1e-6,
                         num_key_value_heads=None, max_position_embeddings=None, model_max_length=256,
                         tie_word_embeddings=False),
    "chatglm": dict(model_type="chatglm", num_layers=2, ffn_hidden_size=40, kv_channels=16, padded_vocab_size=56,
                    seq_length=256, layernorm_epsilon=1e-5, rmsnorm=True, add_bias_linear=False, add_qkv_bias=True,
                    multi_query_attention=True, multi_query_group_num=2, post_layer_norm=True, original_rope=True,
                    apply_query_key_layer_scaling=True, apply_residual_connection_post_layernorm=False, rope_ratio=5,
                    num_hidden_layers=None, intermediate_size=None, num_key_value_heads=None, vocab_size=None,
                    max_position_embeddings=None, tie_word_embeddings=False),
    "qwen": dict(model_type="qwen", intermediate_size=80, kv_channels=16, layer_norm_epsilon=1e-6, no_bias=True,
                 num_key_value_heads=None, rotary_emb_base=10000, rotary_pct=1.0, scale_attn_weights=True, seq_length=256,
                 max_position_embeddings=512, use_dynamic_ntk=True, use_logn_attn=True, tie_word_embeddings=False),
    "ministral3": dict(model_type="ministral3", hidden_act="silu", rms_norm_eps=1e-5, head_dim=16, sliding_window=None,
                       rope_parameters=dict(type="yarn", rope_type="yarn", rope_theta=10000.0, factor=16.0,
                                            original_max_position_embeddings=16, max_position_embeddings=256, beta_fast=32.0,
                                            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.5),
                       tie_word_embeddings=False),
    "hunyuan": dict(model_type="hunyuan_v1_dense", hidden_act="silu", rms_norm_eps=1e-5, head_dim=16, rope_theta=10000.0,
                    rope_scaling=dict(type="dynamic", alpha=50.0, beta_fast=32, beta_slow=1, factor=1.0, mscale=1.0,
                                      mscale_all_dim=1.0), tie_word_embeddings=True),
    "cohere-plus": dict(model_type="cohere", num_attention_heads=4, num_key_value_heads=2, hidden_act="silu", layer_norm_eps=1e-5,
                        rope_theta=80000.0, logit_scale=0.25, use_qk_norm=True),
    "stablelm-12b": dict(model_type="stablelm", hidden_size=48, num_attention_heads=6, num_key_value_heads=2, hidden_act="silu",
                         layer_norm_eps=1e-5, rope_theta=10000.0, partial_rotary_factor=0.25, use_qkv_bias=False,
                         use_parallel_residual=True, qk_layernorm=True),
    # 12B and 31B: heads of two sizes, values that are keys.
    "gemma4": dict(model_type="gemma4_text", num_hidden_layers=4, head_dim=16, global_head_dim=24, num_global_key_value_heads=1,
                   attention_k_eq_v=True, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, sliding_window=7,
                   layer_types=[SLIDING, FULL, SLIDING, FULL], hidden_size_per_layer_input=0, final_logit_softcapping=6.0,
                   enable_moe_block=False, use_double_wide_mlp=False, num_kv_shared_layers=0,
                   rope_parameters={FULL: dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=90000.0),
                                    SLIDING: dict(rope_type="default", rope_theta=7000.0)}),
    # E2B and E4B: per-layer embeddings, the last layers look at the keys of others; in today's form.
    "gemma4-e": dict(model_type="gemma4_text", num_hidden_layers=5, num_key_value_heads=1, head_dim=16, hidden_activation="gelu_pytorch_tanh",
                     rms_norm_eps=1e-6, sliding_window=5, layer_types=[SLIDING, SLIDING, FULL, SLIDING, FULL],
                     hidden_size_per_layer_input=24, vocab_size_per_layer_input=56, num_kv_shared_layers=2, use_double_wide_mlp=True,
                     attention_k_eq_v=False, per_layer_config={"2": dict(head_dim=32), "4": dict(head_dim=32)},
                     rope_parameters={FULL: dict(rope_type="proportional", partial_rotary_factor=0.25, rope_theta=90000.0),
                                      SLIDING: dict(rope_type="default", rope_theta=7000.0)}),
    "falcon-rw": dict(model_type="falcon", num_key_value_heads=None, intermediate_size=None, alibi=True, bias=True, multi_query=False,
                      new_decoder_architecture=False, parallel_attn=False, apply_residual_connection_post_layernorm=False,
                      layer_norm_epsilon=1e-5, tie_word_embeddings=True),
    # 26B-A4B: experts beside the dense part.
    "gemma4-moe": dict(model_type="gemma4_text", num_hidden_layers=3, head_dim=16, global_head_dim=24, num_global_key_value_heads=1,
                       attention_k_eq_v=True, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, sliding_window=7,
                       layer_types=[SLIDING, SLIDING, FULL], hidden_size_per_layer_input=0, final_logit_softcapping=6.0,
                       enable_moe_block=True, num_experts=6, top_k_experts=3, moe_intermediate_size=24,
                       use_double_wide_mlp=False, num_kv_shared_layers=0,
                       rope_parameters={FULL: dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=90000.0),
                                        SLIDING: dict(rope_type="default", rope_theta=7000.0)}),
})
MODELS.update({
    # Layers differ in all numbers of xIELU, also in those that its makers leave alike.
    "apertus": dict(model_type="apertus", num_hidden_layers=3, hidden_act="xielu", hidden_dropout=0.0, rms_norm_eps=1e-5,
                    rope_theta=20000.0, rope_scaling=dict(rope_type="llama3", type="llama3", factor=8.0, low_freq_factor=1.0,
                                                          high_freq_factor=4.0, original_max_position_embeddings=16),
                    qk_norm=True, post_norm=False, attention_bias=False, mlp_bias=False, tie_word_embeddings=False),
    # In today's form, with biases, and heads of another size than hidden size / heads.
    "apertus-biased": dict(model_type="apertus", hidden_act="xielu", rms_norm_eps=1e-5, head_dim=16, attention_bias=True,
                           rope_parameters=dict(rope_type="default", rope_theta=20000.0), tie_word_embeddings=True),
})
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
MODELS.update({
    # The text of Gemma 4 12B, whose files are of one class for all it reads.
    "gemma4-unified": dict(model_type="gemma4_unified_text", num_hidden_layers=3, head_dim=16, global_head_dim=24, num_global_key_value_heads=1,
                           attention_k_eq_v=True, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, sliding_window=7,
                           layer_types=[SLIDING, SLIDING, FULL], final_logit_softcapping=6.0, use_double_wide_mlp=False, num_kv_shared_layers=0,
                           rope_parameters={FULL: dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=90000.0),
                                            SLIDING: dict(rope_type="default", rope_theta=7000.0)}),
    # Of heads as large as its makers', whose attention is another kernel's.
    "gemma4-wide": dict(model_type="gemma4_text", num_attention_heads=2, num_key_value_heads=2, head_dim=256, global_head_dim=512,
                        num_global_key_value_heads=1, attention_k_eq_v=True, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
                        sliding_window=7, layer_types=[SLIDING, FULL], hidden_size_per_layer_input=0, final_logit_softcapping=6.0,
                        enable_moe_block=False, use_double_wide_mlp=False, num_kv_shared_layers=0,
                        rope_parameters={FULL: dict(rope_type="proportional", partial_rotary_factor=0.25, rope_theta=90000.0),
                                         SLIDING: dict(rope_type="default", rope_theta=7000.0)}),
    # The text of those that see images; positions in time, height and width are the same.
    "qwen2_vl": dict(model_type="qwen2_vl_text", hidden_size=48, num_attention_heads=3, num_key_value_heads=1, hidden_act="silu", rms_norm_eps=1e-6,
                     rope_theta=10000.0, rope_scaling=dict(type="mrope", mrope_section=[2, 3, 3]), use_sliding_window=False,
                     sliding_window=32, max_window_layers=2, tie_word_embeddings=False),
    "qwen3_vl": dict(model_type="qwen3_vl_text", hidden_act="silu", rms_norm_eps=1e-6, head_dim=16, attention_bias=False,
                     rope_theta=10000.0, rope_scaling=dict(rope_type="default", mrope_interleaved=True, mrope_section=[3, 3, 2]),
                     tie_word_embeddings=True),
    "arcee": dict(model_type="arcee", hidden_act="relu2", rms_norm_eps=1e-5, head_dim=16, rope_theta=10000.0, rope_scaling=dict(YARN),
                  attention_bias=False, mlp_bias=False, tie_word_embeddings=False),
    "cwm": dict(model_type="cwm", num_hidden_layers=5, hidden_act="silu", rms_norm_eps=1e-5, head_dim=16, sliding_window=7, rope_theta=20000.0,
                rope_scaling=dict(LLAMA3), mlp_bias=False, tie_word_embeddings=False),
    "ministral": dict(model_type="ministral", num_hidden_layers=3, hidden_act="silu", rms_norm_eps=1e-6, head_dim=16, sliding_window=7,
                      layer_types=[SLIDING, FULL, SLIDING], rope_theta=10000.0, tie_word_embeddings=False),
    "helium": dict(model_type="helium", hidden_size=64, head_dim=16, hidden_act="silu", rms_norm_eps=1e-8, rope_theta=10000.0,
                   attention_bias=False, mlp_bias=False, tie_word_embeddings=False),
    "jais2": dict(model_type="jais2", hidden_act="relu2", layer_norm_eps=1e-5, head_dim=16, rope_theta=10000.0, attention_bias=True,
                  mlp_bias=True, tie_word_embeddings=False),
    "vaultgemma": dict(model_type="vaultgemma", num_hidden_layers=3, head_dim=16, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
                       query_pre_attn_scalar=16, attn_logit_softcapping=5.0, final_logit_softcapping=6.0, sliding_window=7,
                       layer_types=[SLIDING, FULL, SLIDING], rope_theta=10000.0),
    "hyperclovax": dict(model_type="hyperclovax", hidden_act="silu", rms_norm_eps=1e-5, head_dim=16, rope_theta=10000.0, embedding_multiplier=3.0,
                        residual_multiplier=0.5, attention_multiplier=0.3, logits_scaling=2.0, use_post_norm=True,
                        tie_word_embeddings=False),
    # The second layer turns nothing, whether it has a window or not.
    "granite_swa": dict(model_type="granite_swa", num_hidden_layers=5, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=7,
                        layer_rope_theta=[20000.0, 0, 20000.0, 20000.0, 0], embedding_multiplier=6.0, residual_multiplier=0.4,
                        attention_multiplier=0.2, logits_scaling=4.0, tie_word_embeddings=True),
    "internlm2": dict(model_type="internlm2", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=20000.0, rope_scaling=None, bias=False,
                      tie_word_embeddings=False),
    "exaone": dict(model_type="exaone", num_hidden_layers=None, num_layers=2, activation_function="silu", layer_norm_epsilon=1e-5,
                   rope_theta=20000.0, rope_scaling=dict(LLAMA3), tie_word_embeddings=False),
    # Full attention, which turns nothing, in the first and the last of five layers; then as lists have it, and an epsilon behind
    # parts that is not small.
    "muse_glimmer": dict(model_type="muse_glimmer_text", num_hidden_layers=5, **MUSE),
    "muse_glimmer-listed": dict(model_type="muse_glimmer_text", num_hidden_layers=3, layer_types=[SLIDING, FULL, SLIDING],
                                layer_rope_theta=[20000.0, 20000.0, 0], post_norm_eps=0.2, **MUSE),
    "internlm3": dict(model_type="internlm3", hidden_act="silu", rms_norm_eps=1e-5, head_dim=16, rope_theta=20000.0, qkv_bias=False,
                      bias=False, rope_scaling=dict(rope_type="dynamic", factor=6.0), tie_word_embeddings=False),
    "iquestcoder": dict(model_type="iquestcoder", hidden_act="silu", rms_norm_eps=1e-5, head_dim=16, rope_theta=20000.0,
                        attention_bias=False, mlp_bias=False, clip_qkv=None, use_sliding_window=False, sliding_window=None,
                        tie_word_embeddings=False),
})
NAMELESS = dict.fromkeys(BASE, None) | dict(vocab_size=56, bos_token_id=1, eos_token_id=2) # of classes with names of their own for sizes
GPT = dict(NAMELESS, n_embd=40, n_layer=2, n_head=4, n_positions=256, activation_function="gelu_new", layer_norm_epsilon=1e-5)
MODELS.update({
    # Its files are saved without the head.
    "gpt2": dict(GPT, model_type="gpt2", n_inner=None, n_ctx=256, scale_attn_weights=True),
    "gpt_bigcode": dict(GPT, model_type="gpt_bigcode", n_inner=160, activation_function="gelu_pytorch_tanh", multi_query=True, pad_key_length=True,
                        attention_softmax_in_fp32=True, scale_attention_softmax_in_fp32=True, inference_runner=0, scale_attn_weights=True),
    "gpt_bigcode-heads": dict(GPT, model_type="gpt_bigcode", n_inner=56, activation_function="gelu", multi_query=False),
    # Norms without weights.
    "olmo": dict(model_type="olmo", hidden_act="silu", rope_theta=20000.0, rope_scaling=None, attention_bias=False, clip_qkv=None,
                 tie_word_embeddings=False),
    # Windows in every second layer; scores that are not scaled.
    "gpt_neo": dict(NAMELESS, model_type="gpt_neo", hidden_size=40, num_layers=4, num_heads=4, intermediate_size=None, max_position_embeddings=256,
                    window_size=7, attention_types=[[["global", "local"], 2]], attention_layers=["global", "local"] * 2,
                    activation_function="gelu_new", layer_norm_epsilon=1e-5, embed_dropout=0, resid_dropout=0),
    "xverse": dict(model_type="xverse", hidden_act="silu", rms_norm_eps=1e-6, max_tokenizer_truncation=200, rope_theta=20000.0,
                   tie_word_embeddings=False),
    "orion": dict(model_type="orion", hidden_act="silu", rms_norm_eps=1e-5, max_sequence_length=256, rope_theta=10000.0, rope_scaling=None,
                  attention_bias=False, tie_word_embeddings=False),
    "mimo": dict(model_type="mimo", hidden_act="silu", rms_norm_eps=1e-5, head_dim=16, rope_theta=20000.0, attention_bias=True,
                 num_nextn_predict_layers=1, use_sliding_window=False, sliding_window=32, max_window_layers=2, tie_word_embeddings=False),
    "glm4v": dict(model_type="glm4v_text", hidden_size=64, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, partial_rotary_factor=0.5,
                  attention_bias=True, rope_scaling=dict(type="default", mrope_section=[1, 2, 1]), tie_word_embeddings=False),
    "nanochat": dict(model_type="nanochat", hidden_act="relu2", rms_norm_eps=1e-6, final_logit_softcapping=6.0, attention_bias=False,
                     rope_parameters=dict(rope_type="default", rope_theta=20000.0), tie_word_embeddings=False),
})
CLASS_OF = {"minicpm": "granite", "baichuan": "llama", "baichuan-13b": "llama", "chatglm": "glm", "qwen": "qwen2", "internlm2": "llama",
            "exaone": "llama", "xverse": "llama", "qwen2_vl": "qwen2", "qwen2_vl_text": "qwen2", "qwen3_vl": "qwen3", "qwen3_vl_text": "qwen3"}


def class_config(config_dict):
    values = dict(config_dict)
    kind = values.pop("model_type")
    if kind == "minicpm":
        values.update(embedding_multiplier=values.pop("scale_emb"), logits_scaling=values["hidden_size"] / values.pop("dim_model_base"),
                      residual_multiplier=values.pop("scale_depth") / math.sqrt(values["num_hidden_layers"]),
                      attention_multiplier=(values["hidden_size"] // values["num_attention_heads"]) ** -0.5)
    if kind == "falcon":
        for key in ("num_key_value_heads", "intermediate_size"):
            values.pop(key, None)
    if kind == "baichuan":
        values.update(num_key_value_heads=values["num_attention_heads"], max_position_embeddings=256)
    if kind == "chatglm":
        values = dict(BASE, head_dim=16, rms_norm_eps=1e-5, rope_theta=50000.0, partial_rotary_factor=0.5, attention_bias=True,
                      tie_word_embeddings=False)
    if kind == "qwen":
        values = dict(BASE, head_dim=16, num_key_value_heads=4, rms_norm_eps=1e-6, rope_theta=10000.0, tie_word_embeddings=False)
    if kind in ("qwen2_vl_text", "qwen3_vl_text"):
        values.pop("rope_scaling")
    if kind == "internlm2":
        values.pop("bias")
    if kind == "xverse":
        values.pop("max_tokenizer_truncation")
    if kind == "exaone":
        values.update(num_hidden_layers=values.pop("num_layers"), hidden_act=values.pop("activation_function"),
                      rms_norm_eps=values.pop("layer_norm_epsilon"))
    if kind in GPTS:
        values = {key: value for key, value in values.items() if value is not None}
    values = json.loads(json.dumps(values))
    if "per_layer_config" in values:
        values["per_layer_config"] = {int(key): value for key, value in values["per_layer_config"].items()}
    return AutoConfig.for_model(CLASS_OF.get(kind, kind), **values)


class MuseGlimmerText(MuseGlimmerPreTrainedModel):
    """The text of MuseGlimmerForConditionalGeneration by itself."""
    config_class = transformers.MuseGlimmerTextConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = MuseGlimmerTextModel(config)
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, position_ids=None, attention_mask=None, **_):
        x = self.model(input_ids=input_ids, position_ids=position_ids, attention_mask=attention_mask).last_hidden_state
        cap = self.config.final_logit_softcapping
        return CausalLMOutputWithPast(logits=cap * torch.tanh(self.lm_head(x) * self.config.output_multiplier / cap))


AutoModelForCausalLM.register(transformers.MuseGlimmerTextConfig, MuseGlimmerText, exist_ok=True)


def is_offset(config, key=""):
    whole = config.model_type == "muse_glimmer_text" and key == "model.norm.weight"
    return config.model_type in ("gemma", "gemma2", "gemma3_text", "nemotron", "vaultgemma", "muse_glimmer_text") and not whole


GPTS = ("gpt2", "gpt_bigcode", "gpt_neo")
OWN_CLASSES = {"xverse": "XverseForCausalLM", "minicpm": "MiniCPMForCausalLM", "baichuan": "BaichuanForCausalLM", "chatglm": "ChatGLMModel",
               "qwen": "QWenLMHeadModel", "internlm2": "InternLM2ForCausalLM", "exaone": "ExaoneForCausalLM"}


def random_weights(model, name, dtype):
    """Far from a fresh model's: attention is not uniform, and every part shows in the logits."""
    state = {}
    for key, tensor in model.state_dict().items():
        rng, shape = rng_of(name, key), tuple(tensor.shape)
        value = rng.standard_normal(shape)
        if ".act_fn." in key: # the alphas before softplus, beta, eps: xIELU leaps by alpha_n·eps at 0
            value = {"beta": 0.5 + 0.2 * value, "eps": -0.002 * abs(value)}.get(key.rsplit(".", 1)[1], 0.3 + 0.7 * value)
        elif key.endswith("sinks"):
            value = 1 + 2 * value
        elif key.endswith("bias"):
            value *= 0.3
        elif key.endswith(("layer_scalar", "per_expert_scale")):
            value = 1 + 0.3 * value
        elif key.endswith("router.scale"):
            value = 3 + value
        elif ".experts." in key: # [n, out, in]
            value /= math.sqrt(shape[2])
        elif "norm" in key or "ln_" in key:
            value = (0 if is_offset(model.config, key) else 1) + 0.3 * value
        elif model.config.model_type in GPTS: # of which Conv1D's matrices are [in, out]
            value *= 1 if ".wte." in key else 0.7 if ".wpe." in key else (2 if "c_attn" in key else 1.4 if "q_proj" in key else 1) / math.sqrt(shape[model.config.model_type != "gpt2"])
        elif "embed" in key:
            value *= 0.5 if model.config.model_type.startswith(("gemma", "granite", "vaultgemma")) else 1
            if key == "model.embed_tokens_per_layer.weight":
                value *= 0.6
        else:
            value *= (2 if any(part in key for part in ("q_proj", "k_proj", "query_key_value")) else 1) / math.sqrt(shape[1])
        state[key] = torch.from_numpy(np.asarray(value, np.float32)).to(dtype).contiguous()
    if model.config.tie_word_embeddings:
        state["lm_head.weight"] = next(state[key] for key in ("model.embed_tokens.weight", "transformer.word_embeddings.weight", "transformer.wte.weight", "backbone.embeddings.weight")
                                       if key in state)
    return state


def fused(state, prefix, names, to, kind):
    if f"{prefix}{names[0]}.{kind}" in state:
        state[f"{prefix}{to}.{kind}"] = torch.cat([state.pop(f"{prefix}{name}.{kind}") for name in names])


QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
RENAMED = {
    "chatglm": (("model.embed_tokens", "transformer.embedding.word_embeddings"), ("model.layers", "transformer.encoder.layers"),
                ("model.norm", "transformer.encoder.final_layernorm"), ("lm_head", "transformer.output_layer"),
                ("self_attn.qkv", "self_attention.query_key_value"), ("self_attn.o_proj", "self_attention.dense"),
                ("mlp.gate_up_proj", "mlp.dense_h_to_4h"), ("mlp.down_proj", "mlp.dense_4h_to_h")),
    "qwen": (("model.embed_tokens", "transformer.wte"), ("model.layers", "transformer.h"), ("model.norm", "transformer.ln_f"),
             ("self_attn.qkv", "attn.c_attn"), ("self_attn.o_proj", "attn.c_proj"), ("input_layernorm", "ln_1"),
             ("post_attention_layernorm", "ln_2"), ("mlp.gate_proj", "mlp.w2"), ("mlp.up_proj", "mlp.w1"),
             ("mlp.down_proj", "mlp.c_proj")),
    "baichuan": (("self_attn.qkv", "self_attn.W_pack"),),
    "internlm2": (("model.embed_tokens", "model.tok_embeddings"), ("lm_head", "output"), ("self_attn.qkv", "attention.wqkv"),
                  ("self_attn.o_proj", "attention.wo"), ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"),
                  ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2")),
    "exaone": (("model.embed_tokens", "transformer.wte"), ("model.layers", "transformer.h"), ("model.norm", "transformer.ln_f"),
               ("self_attn.o_proj", "attn.attention.out_proj"), ("self_attn.", "attn.attention."), ("input_layernorm", "ln_1"),
               ("post_attention_layernorm", "ln_2"), ("mlp.gate_proj", "mlp.c_fc_0"), ("mlp.up_proj", "mlp.c_fc_1"),
               ("mlp.down_proj", "mlp.c_proj")),
}


def by_group(parts, config):
    """Rows of q, k and v: the queries that share a key, the key, the value, again and again."""
    groups, head = config.num_key_value_heads, config.hidden_size // config.num_attention_heads
    q, k, v = (part.reshape(groups, -1, head, *part.shape[1:]) for part in parts)
    return torch.cat([q, k, v], dim=1).reshape(-1, *parts[0].shape[1:])


def in_own_names(state, config, kind):
    """A class's weights as the files of an architecture have them that it stands for."""
    if kind not in RENAMED:
        return state
    state = dict(state)
    for layer in range(config.num_hidden_layers if kind not in ("exaone", "lfm3") else 0):
        prefix = f"model.layers.{layer}."
        if kind == "internlm2":
            state[f"{prefix}self_attn.qkv.weight"] = by_group([state.pop(f"{prefix}{name}.weight") for name in QKV], config)
        for what in ("weight", "bias"):
            fused(state, f"model.layers.{layer}.", QKV, "self_attn.qkv", what)
    renamed = {}
    for key, value in state.items():
        for old, new in RENAMED[kind]:
            key = key.replace(old, new)
        renamed[key] = value
    return renamed


class NoRope(torch.nn.Module):
    def forward(self, x, position_ids, **_):
        ones = torch.ones(1, position_ids.shape[1], 8, dtype=x.dtype)
        return ones, torch.zeros_like(ones)


def alibi_logits(model, ids, positions):
    """LLaMA without rotations, its scores less slope·distance: see make_architectures.py."""
    slopes = torch.tensor(alibi_slopes(model.config.num_attention_heads))[:, None, None]
    at = torch.tensor(positions)
    distance = (at[:, None] - at[None, :]).float()
    mask = torch.where(distance >= 0, -slopes * distance, torch.tensor(float("-inf")))[None].to(model.dtype)
    model.model.rotary_emb = NoRope()
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), attention_mask=mask, use_cache=False).logits[0].float().numpy()


def falcon_logits(model, ids, positions):
    """Falcon's own ALiBi goes by the number of a token in its mask; its products are exact up to 256 positions."""
    falcon = sys.modules[type(model).__module__]
    usual = falcon.build_alibi_tensor

    def build(attention_mask, num_heads, dtype):
        slopes = usual(torch.ones(1, 2, dtype=torch.long), num_heads, dtype)[:, :, 1:]
        return slopes * torch.tensor(positions, dtype=dtype)

    if positions == list(range(len(ids))):
        return rope_logits(model, ids, positions)
    falcon.build_alibi_tensor = build
    logits = rope_logits(model, ids, positions)
    falcon.build_alibi_tensor = usual
    return logits


def logits_of(model, ids, positions):
    alibi = getattr(model, "is_alibi", False)
    if getattr(model.config, "alibi", False):
        return falcon_logits(model, ids, positions)
    return alibi_logits(model, ids, positions) if alibi else rope_logits(model, ids, positions)


def attention_of(config):
    """Falcon with ALiBi adds its distances twice in transformers' eager attention; its makers, and SDPA, once."""
    return "sdpa" if getattr(config, "alibi", False) else "eager"


def load(config, state, dtype):
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention_of(config), dtype=dtype)
    model.load_state_dict({key: value.to(dtype) for key, value in state.items()}, strict=True)
    return model.eval()


def greedy(model, ids):
    """Over the whole text each time: no cache of transformers' has a say in it."""
    text = list(ids)
    while len(text) < len(ids) + N_GREEDY:
        text.append(int(logits_of(model, text, list(range(len(text))))[-1].argmax()))
    return text[len(ids):]


def make_model(name, report, index):
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    config_dict = {**BASE, **MODELS[name]}
    config = class_config(config_dict)
    dtype = torch.bfloat16 if index % 2 else torch.float16
    state = random_weights(AutoModelForCausalLM.from_config(config, dtype=torch.float32), name, dtype)
    model, half = load(config, state, torch.float32), load(config, state, dtype)
    model.is_alibi = half.is_alibi = name == "baichuan-13b"
    saved = in_own_names(state, config, config_dict["model_type"])
    if config.tie_word_embeddings:
        saved = {key: value for key, value in saved.items() if key != "lm_head.weight"}
    if name == "mimo":
        saved.update({"model.mtp_layers.0.input_proj.weight": torch.ones(8, 16), "model.mtp_layers.0.token_layernorm.weight": torch.ones(8)})
    if name == "gpt2":
        saved = {key.removeprefix("transformer."): value for key, value in saved.items()}
    save_file(saved, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    classes = [] if name in CLASS_OF or isinstance(model, (MuseGlimmerText, *(text for _, text in further_classes.TEXTS))) else [type(model).__name__]
    config_dict["dtype" if "rope_parameters" in config_dict else "torch_dtype"] = str(dtype).removeprefix("torch.")
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"architectures": classes or [own for own in [OWN_CLASSES.get(config_dict["model_type"])] if own],
                   **{key: value for key, value in config_dict.items() if value is not None or key not in BASE}}, f, indent=1)
    ids = [1] + rng_of(name, "prompt").integers(4, config.vocab_size, N_TOKENS - 1).tolist()
    near, first = list(range(N_TOKENS)), N_TOKENS // 2
    cases = [("prompt", near, 0)]
    if not (getattr(config, "sliding_window", None) and SLIDING in (getattr(config, "layer_types", None) or [SLIDING])) and not hasattr(config, "window_size"):
        cases.append(("gap", near[:first] + [GAP + p for p in near[first:]], first))
    described = []
    for case, where, begin in cases:
        logits = logits_of(model, ids, where)
        # Twice what is seen in these few tokens: it is a bound for those of another program.
        error = 2 * np.abs(logits_of(half, ids, where) - logits).max() / np.abs(logits).max()
        logits[begin:].astype("<f4").tofile(os.path.join(folder, f"{case}.logits"))
        described.append({"name": case, "ids": ids, "positions": where, "from": begin, "logits": f"{case}.logits",
                          "half_error": round(float(error), 6)})
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump(dict(vocab_size=config.vocab_size, cases=described, greedy=greedy(model, ids[:N_BEGIN])), f)
    plain = logits_of(model, ids, near)
    if name not in CLASS_OF: # the files as they lie there, read again by transformers, give the same logits
        again = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attention_of(config), dtype=torch.float32).eval()
        assert np.array_equal(logits_of(again, ids, near), plain), name
    report.append(f"{name}: |logits| <= {np.abs(plain).max():.3f}, in 16 bits off by "
                  + ", ".join(str(case["half_error"]) for case in described))
    return config, config_dict, state


# ---- GGUF --------------------------------------------------------------------------------------------------------

ARCHES = {"glm4v_text": "glm4", "gpt_bigcode": "starcoder", "gemma4_unified_text": "gemma4", "qwen2_vl_text": "qwen2vl", "qwen3_vl_text": "qwen3vl", "gemma3_text": "gemma3", "olmo3": "olmo2", "cohere": "command-r", "phi": "phi2", "glm": "chatglm",
          "hunyuan_v1_dense": "hunyuan-dense", "gemma4_text": "gemma4", "ministral3": "mistral3", "muse_glimmer_text": "muse-glimmer"}
MODULES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
           "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.dense": "attn_output",
           "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm",
           "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm",
           "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
           "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm",
           "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate_up_proj": "ffn_up",
           "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
           "attention_layernorm": "attn_norm", "feedforward_layernorm": "ffn_norm", "self_attn.sinks": "attn_sinks",
           "self_attn.gate_proj": "attn_gate"}
GEMMA4 = {"per_layer_input_gate": "inp_gate", "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
          "layer_scalar": "layer_output_scale", "router.proj": "ffn_gate_inp", "experts.gate_up_proj": "ffn_gate_up_exps",
          "experts.down_proj": "ffn_down_exps", "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
          "post_feedforward_layernorm_1": "post_ffw_norm_1", "post_feedforward_layernorm_2": "post_ffw_norm_2"}
GEMMA4_WHOLE = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale"}
GEMMA4_HEAD = {"model.embed_tokens_per_layer": "per_layer_token_embd", "model.per_layer_model_projection": "per_layer_model_proj",
               "model.per_layer_projection_norm": "per_layer_proj_norm"}
BEHIND = ("gemma4_text", "gemma4_unified_text", "gemma2", "gemma3_text", "olmo2", "olmo3", "exaone4", "seed_oss", "muse_glimmer_text") # whose post_attention_layernorm is just that
PERMUTED = ("smollm3", "granite", "granite_swa", "minicpm", "baichuan", "arcee", "internlm2", "ministral3", "olmo", "xverse")
FALCON = {"self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output", "ln_attn": "attn_norm_2",
          "ln_mlp": "attn_norm", "input_layernorm": "attn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
          "transformer.word_embeddings": "token_embd", "transformer.ln_f": "output_norm", "lm_head": "output"}


GPT_NAMES = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
             "mlp.c_proj": "ffn_down", "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm"}


def qkv_by_part(value, config):
    """The queries that share a key, and key and value, again and again, to all of each."""
    groups = config.num_kv_heads if config.new_decoder_architecture else 1
    rows = value.reshape(groups, config.num_attention_heads // groups + 2, -1, *value.shape[1:])
    return np.concatenate([part.reshape(-1, *value.shape[1:]) for part in (rows[:, :-2], rows[:, -2], rows[:, -1])])


def permuted(value, n_heads):
    """Rows (i, i + d/2) of each head become neighbours, as the converter does for LLaMA."""
    rows = value.reshape(n_heads, 2, value.shape[0] // n_heads // 2, *value.shape[1:])
    return rows.swapaxes(1, 2).reshape(value.shape)


def in_halves(value, config):
    """Of the part of each head that turns, the first of every pair before all second ones."""
    head = config.hidden_size // config.num_attention_heads
    heads = value.reshape(-1, head, *value.shape[1:])
    turned = int(head * config.rope_parameters["partial_rotary_factor"])
    return np.concatenate([heads[:, :turned:2], heads[:, 1:turned:2], heads[:, turned:]], axis=1).reshape(value.shape)


def gguf_name(kind, key):
    if kind.startswith("gemma4") and "layers." in key:
        layer, rest = key.removeprefix("model.layers.").split(".", 1)
        if rest in GEMMA4_WHOLE:
            return f"blk.{layer}.{GEMMA4_WHOLE[rest]}"
        if rest.removesuffix(".weight") in GEMMA4:
            return f"blk.{layer}.{GEMMA4[rest.removesuffix('.weight')]}.weight"
    if key.endswith(".sinks"):
        key += ".weight"
    stem, what = key.rsplit(".", 1)
    if stem in GEMMA4_HEAD:
        return f"{GEMMA4_HEAD[stem]}.{what}"
    if kind == "falcon":
        layer, _, rest = stem.removeprefix("transformer.h.").partition(".")
        return f"blk.{layer}.{FALCON[rest]}.{what}" if "transformer.h." in stem else f"{FALCON[stem]}.{what}"
    if kind in GPTS:
        layer, _, rest = stem.removeprefix("transformer.h.").partition(".")
        return f"blk.{layer}.{GPT_NAMES[rest]}.{what}" if "transformer.h." in stem else f"{GPT_NAMES[stem]}.{what}"
    if kind == "qwen" and "qkv" in key:
        return f"blk.{stem.split('.')[2]}.attn_qkv.{what}"
    if not key.startswith("model.layers."):
        return {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "model.final_layernorm": "output_norm",
                "lm_head": "output"}[stem] + "." + what
    layer, rest = stem.removeprefix("model.layers.").split(".", 1)
    rest = rest.replace("q_layernorm", "q_norm").replace("k_layernorm", "k_norm")
    module = "post_attention_norm" if rest == "post_attention_layernorm" and kind in BEHIND else MODULES[rest]
    return f"blk.{layer}.{module}.{what}"


def add_numbers(writer, kind, config):
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    wide = 4 * config.hidden_size if kind == "falcon" else config.intermediate_size * (2 if kind == "qwen" else 1)
    shared = 1 if kind == "falcon" and not config.new_decoder_architecture else getattr(config, "num_kv_heads", None)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(wide)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(shared or config.num_key_value_heads)
    if head * config.num_attention_heads != config.hidden_size:
        writer.add_key_length(head)
        writer.add_value_length(head)
    for name in ("layer_norm_eps", "norm_eps", "norm_epsilon", "layer_norm_epsilon"):
        if hasattr(config, name):
            writer.add_layer_norm_eps(getattr(config, name))
    if kind == "olmo":
        writer.add_layer_norm_eps(1e-5)
    if kind == "orion": # nothing of its rope
        writer.add_layer_norm_eps(config.rms_norm_eps)
        return
    if hasattr(config, "rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    rope = rope.get(FULL, rope)
    base = max(getattr(config, "layer_rope_theta", None) or [rope["rope_theta"]])
    writer.add_rope_freq_base(base * rope.get("alpha", 1) ** (head / (head - 2)))
    if rope.get("partial_rotary_factor", 1) != 1:
        writer.add_rope_dimension_count(int(head * rope["partial_rotary_factor"]))
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "attention_factor" in rope: # over the usual one
            writer.add_rope_scaling_attn_factors(rope["attention_factor"] / (0.1 * math.log(rope["factor"]) + 1))
    if kind == "ministral3":
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if getattr(config, "sliding_window", None) and kind != "starcoder2":
        writer.add_sliding_window(config.sliding_window)
    if kind == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if kind in ("granite", "granite_swa", "minicpm"):
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
        if kind != "minicpm":
            writer.add_attention_scale(config.attention_multiplier)
    if kind == "stablelm":
        writer.add_parallel_residual(config.use_parallel_residual)
    if kind.startswith("cohere"):
        writer.add_logit_scale(config.logit_scale)


def add_gpt(writer, config):
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(4 * config.n_embd)
    writer.add_block_count(config.n_layer)
    writer.add_head_count(config.n_head)
    if config.model_type == "gpt_bigcode":
        writer.add_head_count_kv(1)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)


def add_gemma4(writer, config_dict):
    """Heads of two sizes, what is shared, and the experts; the lengths without "_swa" are of layers without a window."""
    slides = [kind == SLIDING for kind in config_dict["layer_types"]]
    heads, shared = config_dict["num_key_value_heads"], config_dict["num_kv_shared_layers"]
    per_layer = config_dict.get("per_layer_config", {})
    whole = config_dict.get("global_head_dim") or next(own["head_dim"] for own in per_layer.values())
    n, wide = len(slides), config_dict["intermediate_size"]
    writer.add_context_length(config_dict["max_position_embeddings"])
    writer.add_embedding_length(config_dict["hidden_size"])
    writer.add_block_count(n)
    writer.add_feed_forward_length([wide] * (n - shared) + [2 * wide] * shared if config_dict["use_double_wide_mlp"] else wide)
    writer.add_head_count(config_dict["num_attention_heads"])
    few = config_dict.get("num_global_key_value_heads")
    writer.add_head_count_kv([heads if slide else few for slide in slides] if few else heads)
    writer.add_layer_norm_rms_eps(config_dict["rms_norm_eps"])
    writer.add_key_length(whole)
    writer.add_value_length(whole)
    writer.add_key_length_swa(config_dict["head_dim"])
    writer.add_value_length_swa(config_dict["head_dim"])
    rope = config_dict["rope_parameters"]
    writer.add_rope_freq_base(rope[FULL]["rope_theta"])
    writer.add_rope_freq_base_swa(rope[SLIDING]["rope_theta"])
    writer.add_rope_dimension_count(whole)
    writer.add_rope_dimension_count_swa(config_dict["head_dim"])
    writer.add_sliding_window(config_dict["sliding_window"])
    writer.add_sliding_window_pattern(slides)
    writer.add_shared_kv_layers(shared)
    writer.add_embedding_length_per_layer_input(config_dict.get("hidden_size_per_layer_input", 0))
    if "final_logit_softcapping" in config_dict:
        writer.add_final_logit_softcapping(config_dict["final_logit_softcapping"])
    if config_dict.get("enable_moe_block"):
        writer.add_expert_count(config_dict["num_experts"])
        writer.add_expert_used_count(config_dict["top_k_experts"])
        writer.add_expert_feed_forward_length(config_dict["moe_intermediate_size"])
    turning = int(whole * rope[FULL]["partial_rotary_factor"] / 2)
    writer.add_tensor("rope_freqs.weight", np.array([1.0] * turning + [1e30] * (whole // 2 - turning), np.float32))


# Not of the others: a second of a kind, or settings that no GGUF file can have.
GGUF_OF = ("gemma2", "gemma3", "smollm3", "granite", "minicpm", "seed_oss", "glm", "glm4", "olmo3", "exaone4", "cohere2",
           "nemotron", "falcon-40b", "baichuan", "qwen", "hunyuan", "gemma", "ernie4_5", "olmo2", "phi", "falcon-7b",
           "stablelm", "cohere-plus", "stablelm-12b", "gemma4", "gemma4-e", "gemma4-moe", "apertus", "gemma4-unified", "gemma4-wide", "qwen2_vl",
           "qwen3_vl", "arcee", "jais2", "granite_swa", "internlm2", "exaone", "ministral3", "muse_glimmer", "gpt2", "gpt_bigcode", "olmo", "xverse", "orion",
           "glm4v")


def add_apertus(writer, config, state):
    """As its converter has them: xIELU's numbers as they are in the tensors, a list of each; LLaMA 3's scheme as divisors."""
    for name, add in (("alpha_p", writer.add_xielu_alpha_p), ("alpha_n", writer.add_xielu_alpha_n), ("beta", writer.add_xielu_beta),
                      ("eps", writer.add_xielu_eps)):
        keys = [f"model.layers.{layer}.mlp.act_fn.{name}" for layer in range(config.num_hidden_layers)]
        add([state[key].float().item() for key in keys])
    add_divisors(writer, config)


def add_divisors(writer, config):
    rope, head = config.rope_parameters, config.hidden_size // config.num_attention_heads
    turns = rope["original_max_position_embeddings"] / (2 * math.pi * rope["rope_theta"] ** (np.arange(0, head, 2) / head))
    smooth = np.clip((turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"]), 0, 1)
    writer.add_tensor("rope_freqs.weight", (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32))


def with_stacked_norms(state):
    """Norms of each head by itself, as StableLM has them, in one [n_heads, head_dim]."""
    stacked = {}
    for key, tensor in state.items():
        stem, _, rest = key.partition(".norms.")
        if rest:
            stacked[f"{stem}.weight"] = torch.stack([t for k, t in state.items() if k.startswith(f"{stem}.norms.")])
        else:
            stacked[key] = tensor
    return stacked


def make_gguf(name, config, config_dict, state):
    kind = config_dict["model_type"]
    writer = gguf.GGUFWriter(os.path.join(OUT, f"{name}.gguf"), ARCHES.get(kind, kind))
    writer.add_name(f"palaver golden {name}")
    if kind.startswith("gemma4"):
        add_gemma4(writer, config_dict)
    elif kind in GPTS:
        add_gpt(writer, config)
    else:
        add_numbers(writer, kind, config)
    if kind == "qwen":
        for layer in range(config.num_hidden_layers):
            for what in ("weight", "bias"):
                fused(state, f"model.layers.{layer}.", QKV, "self_attn.qkv", what)
    if kind == "apertus":
        add_apertus(writer, config, state)
        state = {key: tensor for key, tensor in state.items() if ".act_fn." not in key}
    if kind == "exaone":
        add_divisors(writer, config)
    if kind == "muse_glimmer_text":
        writer.add_sliding_window_pattern([kind == SLIDING for kind in config.layer_types])
        writer.add_logit_scale(config.output_multiplier)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
        for layer in range(config.num_hidden_layers):
            writer.add_tensor(f"blk.{layer}.attn_q_norm.weight", np.full(config.head_dim, config.qk_scale_factor, np.float32))
            writer.add_tensor(f"blk.{layer}.attn_k_norm.weight", np.ones(config.head_dim, np.float32))
    if kind.endswith(("_vl_text", "4v_text")):
        writer.add_rope_dimension_sections(config_dict["rope_scaling"]["mrope_section"] + [0])
    if kind == "qwen3_vl_text":
        writer.add_num_deepstack_layers(3)
    if kind == "granite_swa":
        writer.add_sliding_window_pattern([kind == SLIDING for kind in config.layer_types])
        writer.add_array("granite_swa.attention.rope_pattern", [base != 0 for base in config.layer_rope_theta])
    if name in ("gemma3", "cohere2"): # the period; else llama.cpp's own
        writer.add_sliding_window_pattern(2)
    if name == "gemma3":
        writer.add_rope_freq_base_swa(5000.0)
    if name == "exaone4":
        writer.add_sliding_window_pattern([kind == SLIDING for kind in config.layer_types])
    for key, tensor in with_stacked_norms(state).items():
        value = tensor.float().numpy()
        if kind == "falcon" and "query_key_value" in key:
            value = qkv_by_part(value, config)
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if "norm" in key and key.endswith("weight") and is_offset(config, key):
            value = value + 1
        if kind in PERMUTED and ("q_proj" in key or "k_proj" in key):
            value = permuted(value, config.num_attention_heads if "q_proj" in key else config.num_key_value_heads)
        if kind == "glm4v_text" and ("q_proj" in key or "k_proj" in key):
            value = in_halves(value, config)
        if kind == "gpt2" and ".c_" in key and value.ndim == 2:
            value = value.T
        half = value.ndim >= 2 and "norm" not in key and "router" not in key
        if half and tensor.dtype == torch.bfloat16:
            writer.add_tensor(gguf_name(kind, key), gguf.quants.quantize(value, gguf.GGMLQuantizationType.BF16),
                              raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(gguf_name(kind, key), np.ascontiguousarray(value.astype(np.float16 if half else np.float32)))
    finish(writer)


def make_small_gguf(path):
    """A seed for the fuzzer of GGUF: Gemma 4 with heads of two sizes, borrowed keys, and rows of tokens for each layer."""
    numbers = dict(layer_types=[SLIDING, FULL, FULL], num_key_value_heads=2, num_global_key_value_heads=1,
                   num_kv_shared_layers=1, global_head_dim=4, head_dim=2, intermediate_size=8, use_double_wide_mlp=True,
                   max_position_embeddings=64, hidden_size=8, num_attention_heads=2, rms_norm_eps=1e-6, sliding_window=4,
                   hidden_size_per_layer_input=2, final_logit_softcapping=30.0,
                   rope_parameters={FULL: dict(rope_theta=1e6, partial_rotary_factor=0.5), SLIDING: dict(rope_theta=1e4)})
    writer = gguf.GGUFWriter(path, "gemma4")
    add_gemma4(writer, numbers)
    rng = rng_of("small", "gguf")
    shapes = {"token_embd": (8, 8), "output_norm": (8,), "per_layer_token_embd": (8, 6), "per_layer_model_proj": (6, 8),
              "per_layer_proj_norm": (2,)}
    for layer, (head, kv, wide) in enumerate(((2, 4, 8), (4, 4, 8), (4, 4, 16))):
        own = {"attn_norm": (8,), "attn_q": (2 * head, 8), "attn_k": (kv, 8), "attn_v": (kv, 8), "attn_output": (8, 2 * head),
               "attn_q_norm": (head,), "attn_k_norm": (head,), "post_attention_norm": (8,), "ffn_norm": (8,),
               "ffn_gate": (wide, 8), "ffn_up": (wide, 8), "ffn_down": (8, wide), "post_ffw_norm": (8,), "inp_gate": (2, 8),
               "proj": (8, 2), "post_norm": (8,), "layer_output_scale": (1,)}
        shapes.update({f"blk.{layer}.{name}": shape for name, shape in own.items()})
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.standard_normal(shape).astype(np.float32))
    finish(writer)


def make_corpus():
    """Seeds for the fuzzer of config.json, one of them of a model that does more than write text."""
    corpus = os.path.join(os.path.dirname(OUT), "..", "fuzz", "corpus", "fuzz_config_json")
    for name in ("gemma2", "gemma3", "gemma3-nested", "smollm3", "granite", "minicpm", "olmo3", "cohere2", "falcon-40b",
                 "baichuan-13b", "chatglm", "qwen", "gemma4", "gemma4-e", "falcon-rw", "gemma4-moe", "apertus", "gpt2", "gpt_bigcode-heads", "gpt_neo", "olmo", "nanochat",
                 "glm4v"):
        shutil.copyfile(os.path.join(OUT, name, "config.json"), os.path.join(corpus, name))
    make_small_gguf(os.path.join(corpus, "..", "fuzz_gguf", "gemma4.gguf"))
    with open(os.path.join(OUT, "gemma3", "config.json")) as f:
        text = json.load(f)
    del text["architectures"]
    with open(os.path.join(corpus, "gemma3-whole"), "w") as f:
        json.dump(dict(model_type="gemma3", architectures=["Gemma3ForConditionalGeneration"], text_config=text,
                       vision_config=dict(hidden_size=32), image_token_index=70), f, indent=1)


def main():
    names = sys.argv[1:] or list(MODELS)
    os.makedirs(OUT, exist_ok=True)
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)
    report = []
    for name in names:
        config, config_dict, state = make_model(name, report, list(MODELS).index(name))
        if name in GGUF_OF:
            make_gguf(name, config, config_dict, state)
    text = ("Made by tests/golden/make_dense.py (seed %d) with\nPython %s, numpy %s, torch %s, transformers %s, safetensors "
            "%s, gguf %s.\nRandom weights, no one's data; what the files are is said at its top.\n  %s\n"
            % (SEED, sys.version.split()[0], np.__version__, torch.__version__, transformers.__version__,
               safetensors.__version__, gguf_version(), "\n  ".join(report)))
    if not sys.argv[1:]:
        make_corpus()
        with open(os.path.join(OUT, "PROVENANCE.txt"), "w") as f:
            f.write(text)
    print(text)


if __name__ == "__main__":
    main()
