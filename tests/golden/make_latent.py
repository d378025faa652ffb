#!/usr/bin/env python3
"""Small random models with latent attention and known logits, in tests/golden/latent/.

What the files are is said in make_experts.py, whose helpers this uses: folders with config.json in the form of yesterday or
of today, golden.json and transformers' logits and greedy text; NAME.gguf has the same weights under the names of llama.cpp's
converter: deepseek_v2.gguf as it wrote them until 2025 (attn_kv_b, keys by expanded heads), the others as since (attn_k_b
transposed, attn_v_b, keys by what is cached). Sizes are uneven: heads of 16 + 8 elements with values of 24, latents of 40 …

usage: make_latent.py [NAME …]  (needs numpy, torch, transformers, safetensors, gguf; all of them: writes PROVENANCE.txt)
"""
import json
import os
import shutil
import sys

import gguf
import numpy as np
import safetensors
import torch
import transformers

import make_experts
from make_models import N_TOKENS, SEED, finish, gguf_version, load_model, logits_of, rng_of

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "latent")
make_experts.OUT = OUT
EXPERTS = dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, intermediate_size=40,
               attention_bias=False, num_key_value_heads=4)
YARN = dict(factor=8.0, beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=32)

# name: (config.json beyond make_experts.BASE, weights after)
MODELS = {
    "deepseek_v2": (dict(model_type="deepseek_v2", **{**EXPERTS, "num_attention_heads": 3, "num_key_value_heads": 3},
                         q_lora_rank=None, kv_lora_rank=40, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=24,
                         n_shared_experts=2, first_k_dense_replace=1, moe_layer_freq=1, n_group=1, topk_group=1,
                         topk_method="greedy", scoring_func="softmax", norm_topk_prob=False, routed_scaling_factor=1.0,
                         aux_loss_alpha=0.001, seq_aux=True, ep_size=1,
                         rope_scaling=dict(type="yarn", mscale=0.707, mscale_all_dim=0.707, **YARN),
                         torch_dtype="float32", rope_theta=10000.0), "deepseek_v2"),
    "deepseek_v3": (dict(model_type="deepseek_v3", **EXPERTS, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=8,
                         qk_rope_head_dim=16, v_head_dim=16, n_shared_experts=1, first_k_dense_replace=1, moe_layer_freq=1,
                         n_group=2, topk_group=1, topk_method="noaux_tc", scoring_func="sigmoid", norm_topk_prob=True,
                         routed_scaling_factor=2.5, num_nextn_predict_layers=1, ep_size=1,
                         rope_scaling=dict(type="yarn", mscale=1.0, mscale_all_dim=1.0, **YARN),
                         torch_dtype="float32", rope_theta=10000.0), "deepseek_v3"),
    "deepseek_v3-packed": (dict(model_type="deepseek_v3", **EXPERTS, q_lora_rank=None, kv_lora_rank=32,
                                qk_nope_head_dim=8, qk_rope_head_dim=16, v_head_dim=8, n_shared_experts=1,
                                first_k_dense_replace=0, n_group=1, topk_group=1, norm_topk_prob=True,
                                routed_scaling_factor=1.5, rope_interleave=False, dtype="float32",
                                rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, mscale=0.8, mscale_all_dim=1.2,
                                                     **YARN)), "deepseek_v3-packed"),
    # Kimi K2's files are DeepSeek V3's by another name: no groups, YaRN between two equal borders.
    "kimi_k2": (dict(model_type="deepseek_v3", **EXPERTS, q_lora_rank=24, kv_lora_rank=24, qk_nope_head_dim=16,
                     qk_rope_head_dim=8, v_head_dim=8, n_shared_experts=1, first_k_dense_replace=1, moe_layer_freq=1,
                     n_group=1, topk_group=1, topk_method="noaux_tc", scoring_func="sigmoid", norm_topk_prob=True,
                     routed_scaling_factor=2.827, num_nextn_predict_layers=0, ep_size=1,
                     rope_scaling=dict(type="yarn", mscale=1.0, mscale_all_dim=1.0, **{**YARN, "beta_fast": 1.0}),
                     torch_dtype="float32", rope_theta=50000.0), "kimi_k2"),
    "glm4_moe_lite": (dict(model_type="glm4_moe_lite", **EXPERTS, q_lora_rank=24, kv_lora_rank=24, qk_nope_head_dim=24,
                           qk_rope_head_dim=8, v_head_dim=32, n_shared_experts=1, first_k_dense_replace=1, n_group=1,
                           topk_group=1, topk_method="noaux_tc", norm_topk_prob=True, routed_scaling_factor=1.8,
                           num_nextn_predict_layers=1, partial_rotary_factor=1.0, rope_scaling=None,
                           torch_dtype="float32", rope_theta=10000.0), "glm4_moe_lite"),
    # Queries sharper far into a text: beyond 16 tokens here.
    "mistral4": (dict(model_type="mistral4", **EXPERTS, q_lora_rank=24, kv_lora_rank=24, qk_nope_head_dim=16,
                      qk_rope_head_dim=16, v_head_dim=24, n_shared_experts=1, first_k_dense_replace=0, n_group=1,
                      topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.0, head_dim=32, rope_interleave=True,
                      rope_parameters=dict(type="yarn", rope_type="yarn", rope_theta=10000.0, mscale=1.0, mscale_all_dim=1.0,
                                           llama_4_scaling_beta=0.5, partial_rotary_factor=0.5,
                                           max_position_embeddings=256,
                                           **{**YARN, "original_max_position_embeddings": 16}),
                      dtype="float32"), "mistral4"),
    # Dense, its scales those that GGUF files leave unsaid; queries at 1 and beyond by the first of LongRoPE's factors.
    "minicpm3": (dict(model_type="minicpm3", num_attention_heads=4, num_key_value_heads=4, intermediate_size=40, q_lora_rank=24,
                      kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, scale_emb=12, scale_depth=1.4, dim_model_base=256,
                      rope_scaling=dict(type="longrope", short_factor=[1.0, 1.3, 2.5, 6.0], long_factor=[1.1, 2.0, 4.0, 9.0],
                                        original_max_position_embeddings=256),
                      tie_word_embeddings=True, torch_dtype="float32"), "minicpm3"),
    # Dense.
    "youtu": (dict(model_type="youtu", num_attention_heads=4, num_key_value_heads=4, intermediate_size=40,
                   attention_bias=False, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8,
                   v_head_dim=24, embedding_initializer_range=None, rope_interleave=True, rope_scaling=None,
                   tie_word_embeddings=False, torch_dtype="float32", rope_theta=1600000.0), "youtu"),
}
ALONE = ("mistral4", "youtu") # no .gguf; minicpm3's is of another kind
transformers.AutoModelForCausalLM.register(
    transformers.Mistral4Config, transformers.models.mistral4.modeling_mistral4.Mistral4ForCausalLM, exist_ok=True)

# ---- GGUF --------------------------------------------------------------------------------------------------------

make_experts.STEMS.update({
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp"})
OLD = ("deepseek_v2", "deepseek_v3-q8_0")


def gguf_tensors(config, name, key, value):
    if key.endswith("e_score_correction_bias"):
        yield f"blk.{key.split('.')[2]}.exp_probs_b.bias", value
        return
    for to, tensor in make_experts.gguf_tensors(config, key, value):
        if name in OLD or "attn_kv_b" not in to:
            yield to, tensor
            continue
        heads = tensor.reshape(config.num_attention_heads, config.qk_nope_head_dim + config.v_head_dim, -1)
        yield to.replace("attn_kv_b", "attn_k_b"), heads[:, :config.qk_nope_head_dim].swapaxes(1, 2)
        yield to.replace("attn_kv_b", "attn_v_b"), heads[:, config.qk_nope_head_dim:]


def add_lengths(writer, config, name):
    head = config.qk_nope_head_dim + config.qk_rope_head_dim
    if name in OLD:
        writer.add_head_count_kv(config.num_attention_heads)
        writer.add_key_length(head)
        writer.add_value_length(config.v_head_dim)
        return
    writer.add_head_count_kv(1)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(head)
    writer.add_value_length_mla(config.v_head_dim)


def make_gguf(name, config, state):
    writer = gguf.GGUFWriter(os.path.join(OUT, f"{name}.gguf"), "deepseek2")
    rope, sigmoid = config.rope_parameters, name != "deepseek_v2"
    writer.add_name(f"palaver golden {name}")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    add_lengths(writer, config, name)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    writer.add_vocab_size(config.vocab_size)
    if config.q_lora_rank:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_leading_dense_block_count(1)
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(sigmoid)
    if sigmoid:
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
    for key, tensor in state.items():
        for to, value in gguf_tensors(config, name, key, tensor.float().numpy()):
            value = np.ascontiguousarray(value)
            if name.endswith("-q8_0") and "attn_kv_b" in to:
                kind = gguf.GGMLQuantizationType.Q8_0
                writer.add_tensor(to, gguf.quants.quantize(value, kind), raw_dtype=kind)
            else:
                writer.add_tensor(to, value)
    finish(writer)


def make_minicpm3(config, state):
    """Of which llama.cpp's converter says few numbers."""
    writer = gguf.GGUFWriter(os.path.join(OUT, "minicpm3.gguf"), "minicpm3")
    writer.add_name("palaver golden minicpm3")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_key_length(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    for length in ("long", "short"):
        writer.add_tensor(f"rope_factors_{length}.weight", np.array(config.rope_parameters[f"{length}_factor"], np.float32))
    for key, tensor in state.items():
        if key != "lm_head.weight":
            for to, value in make_experts.gguf_tensors(config, key, tensor.float().numpy()):
                writer.add_tensor(to, np.ascontiguousarray(value))
    finish(writer)


def make_quantised(of, config, state):
    """OF-q8_0.gguf, as it was written until 2025, with the matrix that expands latents in Q8_0, and the logits by what
    that stands for."""
    name = f"{of}-q8_0"
    folder = os.path.join(OUT, name)
    os.makedirs(folder)
    rounded = dict(state)
    for key in state:
        if "kv_b_proj" in key:
            blocks = gguf.quants.quantize(state[key].numpy(), gguf.GGMLQuantizationType.Q8_0)
            rounded[key] = torch.from_numpy(gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q8_0))
    ids = [1] + rng_of(of, "prompt").integers(4, config.vocab_size, N_TOKENS - 1).tolist()
    logits = logits_of(load_model(config, rounded), ids, list(range(N_TOKENS)))
    logits.astype("<f4").tofile(os.path.join(folder, "prompt.logits"))
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump(dict(vocab_size=config.vocab_size, cases=[{"name": "prompt", "ids": ids, "positions": list(range(N_TOKENS)),
                                                             "from": 0, "logits": "prompt.logits"}]), f)
    make_gguf(name, config, state)


def rename(name):
    """A config.json as the model's makers have it, whose model_type transformers does not know."""
    path = os.path.join(OUT, name, "config.json")
    with open(path) as f:
        config = json.load(f)
    config["model_type"] = name
    with open(path, "w") as f:
        json.dump(config, f, indent=1)


def main():
    names = sys.argv[1:] or list(MODELS)
    if len(names) == len(MODELS):
        shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT, exist_ok=True)
    report = []
    for name in names:
        shutil.rmtree(os.path.join(OUT, name), ignore_errors=True)
        extra, of = MODELS[name]
        config, state = make_experts.make_model(name, extra, of, report)
        if name == "minicpm3":
            make_minicpm3(config, state)
        elif not name.endswith("-packed") and name not in ALONE:
            make_gguf(name, config, state)
        if name == "deepseek_v3":
            make_quantised(name, config, state)
        if name == "kimi_k2":
            rename(name)
    with open(os.path.join(OUT, "PROVENANCE.txt"), "w") if len(names) == len(MODELS) else sys.stdout as f:
        f.write(f"Made by tests/golden/make_latent.py (seed {SEED}) with\n"
                f"Python {sys.version.split()[0]}, numpy {np.__version__}, torch {torch.__version__}, "
                f"transformers {transformers.__version__}, safetensors {safetensors.__version__}, gguf {gguf_version()}.\n"
                "Random weights, no one's data; what the files are is said at its top.\n" + "\n".join(report) + "\n")


if __name__ == "__main__":
    main()
