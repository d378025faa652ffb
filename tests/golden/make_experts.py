#!/usr/bin/env python3
"""Small random mixtures of experts with known logits, in tests/golden/experts/.

As in make_models.py, whose helpers this uses: each folder is a Hugging Face model with golden.json beside it, one case of
token ids with the logits of transformers in float32 and eager attention, and half_error, how far transformers' own logits
in bfloat16 are from them. NAME.gguf has the same weights, written with the gguf package under the names of llama.cpp's
converter, experts stacked. Folders have their weights and config.json in the form of yesterday (each expert by itself,
rope_theta) or, NAME-packed, of today (experts packed as transformers 5 holds them, rope_parameters).

Weights are drawn so that in bfloat16 every token takes the same experts in every layer as in float32: where it did not,
the logits would differ by more than rounding. The salt that gives such weights stands in MODELS.
usage: make_experts.py [NAME …]  (needs numpy, torch, transformers, safetensors, gguf; all of them: writes PROVENANCE.txt)
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
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import further_classes # noqa: F401: it tells transformers of classes that it does not have
from make_models import (N_TOKENS, SEED, finish, gguf_version, load_model, load_model_skeleton, logits_of, make_config,
                         rng_of)

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "experts")
BASE = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=128,
            max_position_embeddings=256, rms_norm_eps=1e-5, hidden_act="silu", bos_token_id=1, eos_token_id=2,
            tie_word_embeddings=False)
OLD = dict(torch_dtype="float32", rope_theta=10000.0)
NEW = dict(dtype="float32", rope_parameters=dict(rope_type="default", rope_theta=10000.0))

# name: (config.json beyond BASE, weights after, salt)
MODELS = {
    "mixtral": (dict(model_type="mixtral", num_local_experts=5, num_experts_per_tok=2, intermediate_size=24,
                     sliding_window=None, router_aux_loss_coef=0.02, output_router_logits=False, **OLD), "mixtral"),
    "mixtral-packed": (dict(model_type="mixtral", num_local_experts=5, num_experts_per_tok=2, intermediate_size=24,
                            sliding_window=None, **NEW), "mixtral"),
    "qwen3_moe": (dict(model_type="qwen3_moe", num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16,
                       intermediate_size=40, head_dim=16, norm_topk_prob=True, decoder_sparse_step=1,
                       mlp_only_layers=[0], num_hidden_layers=2, attention_bias=False, use_sliding_window=False,
                       sliding_window=None, max_window_layers=2, **OLD), "qwen3_moe"),
    "qwen2_moe": (dict(model_type="qwen2_moe", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16,
                       shared_expert_intermediate_size=24, intermediate_size=40, norm_topk_prob=False,
                       decoder_sparse_step=1, mlp_only_layers=[], use_sliding_window=False, sliding_window=32,
                       max_window_layers=2, **OLD), "qwen2_moe"),
    "olmoe": (dict(model_type="olmoe", num_experts=6, num_experts_per_tok=3, intermediate_size=16, clip_qkv=None,
                   attention_bias=False, norm_topk_prob=True, **OLD), "olmoe"),
    "granitemoe": (dict(model_type="granitemoe", num_local_experts=5, num_experts_per_tok=2, intermediate_size=24,
                        attention_bias=False, attention_multiplier=0.25, embedding_multiplier=3.0, residual_multiplier=0.5,
                        logits_scaling=2.0, **OLD), "granitemoe"),
    "granitemoeshared": (dict(model_type="granitemoeshared", num_local_experts=5, num_experts_per_tok=2, intermediate_size=24,
                              shared_intermediate_size=32, attention_bias=False, attention_multiplier=0.25, embedding_multiplier=3.0,
                              residual_multiplier=0.5, logits_scaling=2.0, **OLD), "granitemoeshared"),
    "glm4_moe": (dict(model_type="glm4_moe", n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=16,
                      n_shared_experts=1, intermediate_size=40, first_k_dense_replace=1, norm_topk_prob=True, n_group=2,
                      topk_group=1, routed_scaling_factor=2.5, use_qk_norm=True, attention_bias=True, head_dim=16,
                      partial_rotary_factor=0.5, num_nextn_predict_layers=1, rope_scaling=None, **OLD), "glm4_moe"),
    "ernie4_5_moe": (dict(model_type="ernie4_5_moe", moe_num_experts=6, moe_k=2, moe_intermediate_size=16,
                          moe_num_shared_experts=2, intermediate_size=40, moe_layer_start_index=1, moe_layer_end_index=-1,
                          moe_layer_interval=1, use_bias=False, **OLD), "ernie4_5_moe"),
    "gpt_oss": (dict(model_type="gpt_oss", num_local_experts=5, num_experts_per_tok=2, intermediate_size=24, head_dim=16,
                     sliding_window=8, layer_types=["sliding_attention", "full_attention"], swiglu_limit=7.0,
                     attention_bias=True, dtype="float32",
                     rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0,
                                          original_max_position_embeddings=32, truncate=False)), "gpt_oss"),
    # Its own magnitude, not LongRoPE's; the trained context is not left, where transformers goes on with the short factors.
    "phimoe": (dict(model_type="phimoe", num_local_experts=5, num_experts_per_tok=2, intermediate_size=24, sliding_window=32,
                    attention_bias=True, lm_head_bias=True, input_jitter_noise=0.01, router_jitter_noise=0.2,
                    original_max_position_embeddings=100, torch_dtype="float32", rope_theta=10000.0,
                    rope_scaling=dict(type="longrope", short_factor=[1.0, 1.05, 1.1, 1.2, 1.5, 1.9], short_mscale=1.25,
                                      long_factor=[1.1, 1.6, 2.9, 4.3, 5.1, 6.7], long_mscale=1.25,
                                      original_max_position_embeddings=100)), "phimoe"),
    "llama4": (dict(model_type="llama4_text", hidden_size=32, vocab_size=96, num_hidden_layers=4, num_local_experts=5, num_experts_per_tok=2, head_dim=16,
                    intermediate_size=16, intermediate_size_mlp=40, interleave_moe_layer_step=2, no_rope_layers=[1, 0, 1, 1],
                    attention_chunk_size=7, attn_temperature_tuning=True, attn_scale=0.3, floor_scale=5, use_qk_norm=True,
                    for_llm_compression=False, torch_dtype="float32", rope_theta=5000.0,
                    rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=1.0,
                                      original_max_position_embeddings=64)), "llama4"),
    "llama4-usual": (dict(model_type="llama4_text", hidden_size=32, vocab_size=96, num_hidden_layers=4, num_local_experts=4, num_experts_per_tok=1,
                          head_dim=16, intermediate_size=16, intermediate_size_mlp=40, moe_layers=[0, 1, 2, 3], **NEW),
                     "llama4-usual"),
}
SLIDING, FULL = "sliding_attention", "full_attention"
MODELS.update({
    "minimax_m2": (dict(model_type="minimax_m2", num_local_experts=6, num_experts_per_tok=2, intermediate_size=16, head_dim=16, rotary_dim=8,
                        use_qk_norm=True, qk_norm_type="per_layer", use_routing_bias=True, scoring_func="sigmoid", shared_intermediate_size=0,
                        attn_type_list=[1, 1], sliding_window=None, **OLD), "minimax_m2"),
    "dots1": (dict(model_type="dots1", n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=2,
                   intermediate_size=40, first_k_dense_replace=1, norm_topk_prob=True, n_group=1, topk_group=1, routed_scaling_factor=2.5,
                   head_dim=16, attention_bias=False, sliding_window=None, scoring_func="noaux_tc", moe_layer_freq=1, **OLD), "dots1"),
    "hunyuan_v1_moe": (dict(model_type="hunyuan_v1_moe", num_experts=6, moe_topk=[2, 2], intermediate_size=24, moe_intermediate_size=[24, 24],
                            num_shared_expert=[1, 1], head_dim=16, use_qk_norm=True, use_mixed_mlp_moe=True, attention_bias=False,
                            rope_scaling=dict(type="dynamic", alpha=50.0, beta_fast=32, beta_slow=1, factor=1.0, mscale=1.0,
                                              mscale_all_dim=1.0), **OLD), "hunyuan_v1_moe"),
    "solar_open": (dict(model_type="solar_open", n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1,
                        norm_topk_prob=True, n_group=2, topk_group=1, routed_scaling_factor=1.5, head_dim=16, attention_bias=False,
                        **NEW), "solar_open"),
    "hy_v3": (dict(model_type="hy_v3", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=1,
                   intermediate_size=40, router_scaling_factor=2.5, mlp_layer_types=["dense", "sparse"], head_dim=16,
                   attention_bias=False, **NEW), "hy_v3"),
    "exaone_moe": (dict(model_type="exaone_moe", num_hidden_layers=3, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16,
                        num_shared_experts=1, intermediate_size=40, first_k_dense_replace=1, n_group=1, topk_group=1, norm_topk_prob=True,
                        routed_scaling_factor=2.5, head_dim=16, sliding_window=7, layer_types=[SLIDING, FULL, SLIDING],
                        sliding_window_pattern="LLLG", **OLD), "exaone_moe"),
    "mellum": (dict(model_type="mellum", num_hidden_layers=3, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16,
                    intermediate_size=40, norm_topk_prob=True, head_dim=16, sliding_window=7, layer_types=[SLIDING, FULL, SLIDING],
                    attention_bias=False, dtype="float32",
                    rope_parameters={FULL: dict(rope_type="default", rope_theta=50000.0),
                                     SLIDING: dict(rope_type="default", rope_theta=7000.0)}), "mellum"),
    "granitemoe_swa": (dict(model_type="granitemoe_swa", num_hidden_layers=3, num_local_experts=5, num_experts_per_tok=2, intermediate_size=24,
                            shared_intermediate_size=16, sliding_window=7, attention_bias=False, attention_multiplier=0.25, pad_token_id=0,
                            embedding_multiplier=3.0, residual_multiplier=0.5, logits_scaling=2.0, **OLD), "granitemoe_swa"),
    "granitemoe_swa-alone": (dict(model_type="granitemoe_swa", num_hidden_layers=2, num_local_experts=5, num_experts_per_tok=2, intermediate_size=24,
                                  sliding_window=7, attention_bias=False, attention_multiplier=0.25, pad_token_id=0, embedding_multiplier=3.0,
                                  residual_multiplier=0.5, logits_scaling=2.0, **OLD), "granitemoe_swa"),
    "afmoe": (dict(model_type="afmoe", num_hidden_layers=4, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=1,
                   intermediate_size=40, num_dense_layers=1, route_scale=2.5, route_norm=True, score_func="sigmoid", head_dim=16,
                   sliding_window=7, global_attn_every_n_layers=4, mup_enabled=True, **OLD), "afmoe"),
    "qwen3_vl_moe": (dict(model_type="qwen3_vl_moe_text", num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16, intermediate_size=40,
                          head_dim=16, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True, attention_bias=False, torch_dtype="float32",
                          rope_theta=10000.0, rope_scaling=dict(rope_type="default", mrope_interleaved=True, mrope_section=[3, 3, 2])),
                     "qwen3_vl_moe"),
    # Ling 2, whose own class transformers does not have: GLM-4.5's, with weights in its files' names and order.
    "bailing_moe": (dict(model_type="bailing_moe", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=1,
                         intermediate_size=40, first_k_dense_replace=1, norm_topk_prob=True, n_group=2, topk_group=1, routed_scaling_factor=2.5,
                         use_qk_norm=True, use_bias=False, use_qkv_bias=False, use_rmsnorm=True, head_dim=16, partial_rotary_factor=0.5,
                         score_function="sigmoid", moe_router_enable_expert_bias=True, router_dtype="fp32", rope_scaling=None, **OLD),
                    "bailing_moe"),
})
MODELS.update({
    "sarvam_moe": (dict(model_type="sarvam_moe", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=1,
                        intermediate_size=40, first_k_dense_replace=1, norm_topk_prob=True, n_group=1, topk_group=1, routed_scaling_factor=2.5,
                        use_qk_norm=True, use_qkv_bias=False, head_dim=16, rope_scaling=None, **OLD), "sarvam_moe"),
})
MODELS.update({
    "glm4v_moe": (dict(model_type="glm4v_moe_text", n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1,
                       intermediate_size=40, first_k_dense_replace=1, norm_topk_prob=True, n_group=1, topk_group=1, routed_scaling_factor=1.5,
                       head_dim=16, attention_bias=True, use_qk_norm=False, partial_rotary_factor=0.5, torch_dtype="float32", rope_theta=10000.0,
                       rope_scaling=dict(type="default", mrope_section=[1, 2, 1])), "glm4v_moe"),
    # Ling 1: DeepSeek-MoE's with weights in its files' names and order, and a head whose columns are yet to be divided by their length.
    "ling1": (dict(model_type="ling1", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=2, intermediate_size=40,
                   first_k_dense_replace=0, norm_topk_prob=True, use_bias=False, use_qkv_bias=False, norm_head=True, norm_softmax=False,
                   embedding_dropout=0.0, output_dropout=0.0, rope_scaling=None, **{**OLD, "rope_theta": 600000.0}), "ling1-a"),
    "deepseek": (dict(model_type="deepseek", n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=2,
                      intermediate_size=40, first_k_dense_replace=1, moe_layer_freq=1, norm_topk_prob=False, scoring_func="softmax",
                      aux_loss_alpha=0.001, seq_aux=True, attention_bias=False, rope_scaling=None, **OLD), "deepseek"),
})
# Of classes that are computed as another one is.
STANDS_FOR = {"ling1": "deepseek", "bailing_moe": "glm4_moe", "qwen3_vl_moe_text": "qwen3_moe"}
OWN_CLASSES = {"ling1": ["BailingMoeForCausalLM"], "glm4v_moe_text": [], "sarvam_moe": ["SarvamMoEForCausalLM"], "bailing_moe": ["BailingMoeV2ForCausalLM"], "qwen3_vl_moe_text": []}


def class_config(config_dict):
    values = dict(config_dict)
    kind = values["model_type"]
    if kind == "ling1":
        values.update(n_routed_experts=values.pop("num_experts"), n_shared_experts=values.pop("num_shared_experts"))
        for key in ("use_bias", "use_qkv_bias", "norm_head", "norm_softmax", "embedding_dropout", "output_dropout"):
            values.pop(key)
    if kind == "bailing_moe":
        values.update(n_routed_experts=values.pop("num_experts"), n_shared_experts=values.pop("num_shared_experts"), attention_bias=False)
    if kind == "hunyuan_v1_moe":
        values["moe_topk"] = values["moe_topk"][0]
        values["rope_scaling"] = dict(type="dynamic", alpha=50.0, factor=1.0)
    if kind == "qwen3_vl_moe_text":
        values.pop("rope_scaling")
    values["model_type"] = STANDS_FOR.get(kind, kind)
    return make_config(values)


def in_own_names(state, kind, config):
    """Weights of a class as the files have them that it stands for."""
    if kind == "qwen3_vl_moe_text":
        return {key: value.transpose(1, 2) if ".experts." in key else value for key, value in state.items()}
    if kind not in ("bailing_moe", "ling1"):
        return state
    renamed = {}
    if kind == "ling1":
        columns = torch.from_numpy(rng_of(kind, "columns").uniform(0.5, 3.0, state["lm_head.weight"].shape[1]).astype(np.float32))
        state = {**state, "lm_head.weight": state["lm_head.weight"] * columns}
    for key, value in state.items():
        if "self_attn.k_proj" in key or "self_attn.v_proj" in key:
            continue
        if "self_attn.q_proj" in key:
            value = torch.cat([state[key.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")])
        for old, new in (("embed_tokens", "word_embeddings"), ("self_attn.q_proj", "attention.query_key_value"), ("self_attn.o_proj", "attention.dense"),
                         ("self_attn.q_norm", "attention.query_layernorm"), ("self_attn.k_norm", "attention.key_layernorm"),
                         ("gate.e_score_correction_bias", "gate.expert_bias")):
            key = key.replace(old, new)
        if key.endswith("experts.gate_up_proj") or key.endswith("experts.down_proj"):
            stem = key.rsplit(".", 1)[0]
            for i, one in enumerate(value):
                parts = [("down_proj", one)] if key.endswith("down_proj") else zip(("gate_proj", "up_proj"), one.chunk(2))
                renamed.update({f"{stem}.{i}.{part}.weight": rows.contiguous() for part, rows in parts})
        else:
            renamed[key] = value
    return renamed


def random_weights(model, name, salt):
    """Far from a fresh model's: attention is not uniform, and every part shows in the logits."""
    state = {}
    for key, tensor in model.state_dict().items():
        rng, shape = rng_of(name, key, str(salt)), tuple(tensor.shape)
        value = rng.standard_normal(shape)
        if "norm" in key:
            value = 1 + 0.3 * value
        elif key.endswith("expert_bias"):
            value *= 0.2
        elif "sinks" in key:
            value = 1 + 2 * value
        elif "e_score_correction_bias" in key: # as large as differences of scores
            value *= 0.2
        elif key.endswith("gate_up_proj_bias"): # some gates and ups reach the limit
            value *= 4
        elif key.endswith("bias"):
            value *= 0.5
        elif name == "minicpm3" and "embed" in key: # which are multiplied by 12
            value *= 0.03
        elif name == "ling1-a" and key == "lm_head.weight": # of columns of length 1
            value *= 1 / np.linalg.norm(value, axis=0)
        elif "embed" not in key:
            gain = 2 if any(part in key for part in ("q_proj", "k_proj", "mlp.gate.weight", "router")) else 1
            fan_in = shape[1] if name.startswith(("gpt_oss", "llama4")) and len(shape) == 3 else shape[-1]
            value *= gain / math.sqrt(fan_in)
        state[key] = torch.from_numpy(value.astype(np.float32))
    if model.config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


def chosen_by(router, out):
    """Llama 4's routers give scores of all and logits, those of others what they took."""
    return out[2] if len(out) > 2 else out[1].topk(router.top_k, dim=-1).indices


def choices_of(model, ids):
    """The experts that each token takes in each layer, as sets."""
    found, hooks = [], []
    for layer in model.model.layers:
        block = getattr(layer, "mlp", None) or getattr(layer, "feed_forward", None) or layer.block_sparse_moe
        router = getattr(block, "gate", None) or getattr(block, "router", None)
        if router is not None:
            hooks.append(router.register_forward_hook(lambda r, __, out: found.append(chosen_by(r, out).sort(dim=-1).values.clone())))
    logits = logits_of(model, ids, list(range(len(ids))))
    for hook in hooks:
        hook.remove()
    return logits, found


def find_weights(config, of, ids):
    for salt in range(200):
        state = random_weights(load_model_skeleton(config), of, salt)
        logits, taken = choices_of(load_model(config, state), ids)
        half, half_taken = choices_of(load_model(config, state, torch.bfloat16), ids)
        _, f16_taken = choices_of(load_model(config, state, torch.float16), ids)
        if all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(taken, half_taken, f16_taken)):
            used = len({int(e) for layer in taken for e in layer.flatten()})
            dense = not getattr(config, "num_experts_per_tok", 0) and not taken
            assert dense or used > taken[0].shape[-1], "hardly any experts are taken"
            return state, logits, float(np.abs(half - logits).max() / np.abs(logits).max()), salt
    raise SystemExit(f"no weights for {of}")


N_PROMPT, N_GREEDY = 8, 64


def greedy_text(model, ids):
    """What follows the prompt's first tokens, and the smallest lead of a token over the next likely, of the largest logit."""
    text, lead = list(ids[:N_PROMPT]), 1.0
    while len(text) < N_PROMPT + N_GREEDY:
        last = logits_of(model, text, list(range(len(text))))[-1]
        best = np.argsort(last)[::-1]
        lead = min(lead, float((last[best[0]] - last[best[1]]) / np.abs(last).max()))
        text.append(int(best[0]))
    return text[N_PROMPT:], lead


def make_model(name, extra, of, report):
    folder = os.path.join(OUT, name)
    os.makedirs(folder)
    config_dict = {**BASE, **extra}
    config = class_config(config_dict)
    kind = config_dict["model_type"]
    ids = [1] + rng_of(of, "prompt").integers(4, config.vocab_size, N_TOKENS - 1).tolist()
    state, logits, half_error, salt = find_weights(config, of, ids)
    model = load_model(config, state)
    if kind in STANDS_FOR:
        save_file({k: v.contiguous() for k, v in in_own_names(state, kind, config).items()}, os.path.join(folder, "model.safetensors"),
                  metadata={"format": "pt"})
    elif name.endswith("-packed"):
        save_file({k: v.contiguous() for k, v in state.items()}, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    else:
        model.save_pretrained(folder)
        for file in os.listdir(folder):
            if file.endswith("config.json"):
                os.remove(os.path.join(folder, file))
    if config_dict.get("num_nextn_predict_layers"): # tensors of a layer behind the last, as the makers' files have them
        file, behind = os.path.join(folder, "model.safetensors"), f"model.layers.{config.num_hidden_layers}."
        save_file({**load_file(file), f"{behind}eh_proj.weight": torch.ones(8, 16), f"{behind}enorm.weight": torch.ones(8)},
                  file, metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as f:
        named = {**config_dict, "model_type": "bailing_moe"} if kind == "ling1" else config_dict
        json.dump({"architectures": OWN_CLASSES.get(kind, [type(model).__name__]), **named}, f, indent=1)
    logits.astype("<f4").tofile(os.path.join(folder, "prompt.logits"))
    greedy, lead = greedy_text(model, ids)
    assert lead > 5e-5, f"{name}: two tokens are nearly alike ({lead})"
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump(dict(vocab_size=config.vocab_size, n_prompt=N_PROMPT, greedy=greedy, cases=[
            {"name": "prompt", "ids": ids, "positions": list(range(N_TOKENS)), "from": 0, "logits": "prompt.logits",
             "half_error": round(half_error, 6)}]), f)
    if kind in STANDS_FOR or kind == "hunyuan_v1_moe": # whose lists its class does not take
        again = model
    else:
        again = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    assert np.allclose(logits_of(again, ids, list(range(N_TOKENS))), logits, atol=1e-5), name
    report.append(f"{name}: |logits| <= {np.abs(logits).max():.3f}, salt {salt}, in bfloat16 they move by {half_error:.2g}; "
                  f"greedy tokens lead by {lead:.1e}, {len(set(greedy))} different ones")
    return config, state


# ---- GGUF --------------------------------------------------------------------------------------------------------

STEMS = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate": "ffn_gate_inp",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
         "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
         "block_sparse_moe.router": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
         "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
         "mlp.shared_experts.down_proj": "ffn_down_shexp", "feed_forward.router": "ffn_gate_inp",
         "feed_forward.shared_expert.gate_proj": "ffn_gate_shexp", "feed_forward.shared_expert.up_proj": "ffn_up_shexp",
         "feed_forward.shared_expert.down_proj": "ffn_down_shexp", "shared_mlp.output_linear": "ffn_down_shexp",
         "mlp.gate.wg": "ffn_gate_inp", "mlp.router.gate": "ffn_gate_inp", "mlp.shared_mlp.gate_proj": "ffn_gate_shexp",
         "mlp.shared_mlp.up_proj": "ffn_up_shexp", "mlp.shared_mlp.down_proj": "ffn_down_shexp",
         "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm", "self_attn.gate_proj": "attn_gate",
         "pre_mlp_layernorm": "ffn_norm", "post_mlp_layernorm": "post_ffw_norm", "self_attn.qkv": "attn_qkv"}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def permuted(value, n_heads):
    """LLaMA's pairs side by side, as its converter puts them."""
    return value.reshape(n_heads, 2, -1, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def gguf_tensors(config, key, value, plain=False):
    """plain: of the usual names, whatever those of the class are."""
    if key.startswith("model.layers."):
        _, _, layer, rest = key.split(".", 3)
        rest = rest.replace("block_sparse_moe.experts", "mlp.experts").replace("feed_forward.experts", "mlp.experts")
        if config.model_type == "llama4_text" and rest.startswith("mlp.experts"):
            value = value.swapaxes(1, 2)
        if rest.endswith(("e_score_correction_bias", "expert_bias")):
            yield f"blk.{layer}.exp_probs_b.bias", value.reshape(-1)
            return
        if config.model_type == "gpt_oss" and rest.startswith("mlp.experts.gate_up_proj"):
            kind = "bias" if rest.endswith("_bias") else "weight"
            turned = value if kind == "bias" else value.swapaxes(1, 2)
            yield f"blk.{layer}.ffn_gate_exps.{kind}", turned[:, 0::2]
            yield f"blk.{layer}.ffn_up_exps.{kind}", turned[:, 1::2]
        elif config.model_type == "gpt_oss" and rest.startswith("mlp.experts.down_proj"):
            kind = "bias" if rest.endswith("_bias") else "weight"
            yield f"blk.{layer}.ffn_down_exps.{kind}", value if kind == "bias" else value.swapaxes(1, 2)
        elif rest == "shared_mlp.input_linear.weight":
            gate, up = np.split(value, 2)
            yield f"blk.{layer}.ffn_gate_shexp.weight", gate
            yield f"blk.{layer}.ffn_up_shexp.weight", up
        elif rest == "self_attn.sinks":
            yield f"blk.{layer}.attn_sinks.weight", value
        elif rest == "mlp.experts.gate_up_proj":
            half = value.shape[1] // 2
            yield f"blk.{layer}.ffn_gate_exps.weight", value[:, :half]
            yield f"blk.{layer}.ffn_up_exps.weight", value[:, half:]
        elif rest == "mlp.experts.down_proj":
            yield f"blk.{layer}.ffn_down_exps.weight", value
        else:
            stem, kind = rest.rsplit(".", 1)
            if config.model_type in ("mixtral", "granitemoe", "granitemoeshared", "deepseek") and stem in ("self_attn.q_proj", "self_attn.k_proj"):
                value = permuted(value, config.num_attention_heads if "q_proj" in stem else config.num_key_value_heads)
            name = "post_attention_norm" if stem == "post_attention_layernorm" and config.model_type in ("gpt_oss", "glm4_moe", "glm4v_moe_text", "afmoe") and not plain else STEMS[stem]
            yield f"blk.{layer}.{name}.{kind}", value[0] if stem == "mlp.shared_expert_gate" else value
    else:
        stem, kind = key.rsplit(".", 1)
        yield f"{WHOLE[stem]}.{kind}", value


GGUF = {"mixtral": "llama", "qwen3_moe": "qwen3moe", "qwen2_moe": "qwen2moe", "olmoe": "olmoe", "granitemoe": "granitemoe",
        "granitemoeshared": "granitemoe",
        "gpt_oss": "gpt-oss", "glm4_moe": "glm4moe", "ernie4_5_moe": "ernie4_5-moe", "llama4-usual": "llama4",
        "minimax_m2": "minimax-m2", "dots1": "dots1", "hunyuan_v1_moe": "hunyuan-moe", "hy_v3": "hy_v3", "exaone_moe": "exaone-moe",
        "mellum": "mellum", "afmoe": "afmoe", "qwen3_vl_moe": "qwen3vlmoe", "bailing_moe": "bailingmoe2",
        "deepseek": "deepseek", "glm4v_moe": "glm4moe", "ling1": "bailingmoe"}


OLDER = ("mixtral", "qwen3_moe", "qwen2_moe", "olmoe", "granitemoe", "granitemoeshared", "gpt_oss", "glm4_moe", "ernie4_5_moe",
         "llama4-usual")


def add_sigmoid(writer, config, scale, dense=None, shared=None):
    """What converters say of routers that score by sigmoids."""
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_weights_norm(True)
    writer.add_expert_weights_scale(scale)
    if dense is not None:
        writer.add_leading_dense_block_count(dense)
    if shared is not None:
        writer.add_expert_shared_count(shared)


def add_recent(writer, name, config):
    """Of those whose converters came later."""
    slides = [kind == SLIDING for kind in getattr(config, "layer_types", None) or []]
    if name in ("exaone_moe", "mellum", "afmoe"):
        writer.add_sliding_window(config.sliding_window)
    if name in ("exaone_moe", "mellum"):
        writer.add_sliding_window_pattern(slides)
    if name == "minimax_m2":
        writer.add_rope_dimension_count(config.rotary_dim)
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    elif name == "dots1":
        add_sigmoid(writer, config, config.routed_scaling_factor, config.first_k_dense_replace, config.n_shared_experts)
    elif name == "hunyuan_v1_moe":
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_expert_shared_feed_forward_length(config.intermediate_size)
        writer.add_expert_shared_count(1)
    elif name == "hy_v3":
        add_sigmoid(writer, config, config.router_scaling_factor)
        writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.num_shared_experts)
    elif name == "exaone_moe":
        add_sigmoid(writer, config, config.routed_scaling_factor, 1, config.num_shared_experts)
        writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.num_shared_experts)
        writer.add_nextn_predict_layers(0)
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    elif name == "afmoe":
        add_sigmoid(writer, config, config.route_scale, config.num_dense_layers, config.num_shared_experts)
    elif name == "mellum":
        writer.add_rope_freq_base_swa(config.rope_parameters[SLIDING]["rope_theta"])
    elif name == "glm4v_moe":
        add_sigmoid(writer, config, config.routed_scaling_factor, config.first_k_dense_replace, config.n_shared_experts)
        writer.add_rope_dimension_count(8)
        writer.add_rope_dimension_sections([1, 2, 1, 0])
    elif name == "ling1":
        writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
        writer.add_leading_dense_block_count(config.first_k_dense_replace)
        writer.add_vocab_size(config.vocab_size)
        writer.add_expert_weights_scale(1.0)
        writer.add_expert_shared_count(config.n_shared_experts)
        writer.add_expert_weights_norm(config.norm_topk_prob)
    elif name == "deepseek":
        writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
        writer.add_leading_dense_block_count(config.first_k_dense_replace)
        writer.add_vocab_size(config.vocab_size)
        writer.add_expert_weights_scale(1.0)
        writer.add_expert_shared_count(config.n_shared_experts)
    elif name == "qwen3_vl_moe":
        writer.add_rope_dimension_sections([3, 3, 2, 0])
        writer.add_num_deepstack_layers(3)
    elif name == "bailing_moe":
        add_sigmoid(writer, config, config.routed_scaling_factor, config.first_k_dense_replace, config.n_shared_experts)
        writer.add_rope_dimension_count(8)
        writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.n_shared_experts)
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)
        writer.add_vocab_size(config.vocab_size)
        writer.add_nextn_predict_layers(0)


def with_fused_heads(state, config):
    """q, k and v of a layer in one."""
    fused = dict(state)
    for layer in range(config.num_hidden_layers):
        parts = [fused.pop(f"model.layers.{layer}.self_attn.{part}.weight") for part in ("q_proj", "k_proj", "v_proj")]
        fused[f"model.layers.{layer}.self_attn.qkv.weight"] = torch.cat(parts)
    return fused


def add_further(writer, config):
    if config.model_type == "granitemoeshared":
        writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
    if config.model_type.startswith("granitemoe"):
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if config.model_type == "gpt_oss":
        rope = config.rope_parameters
        writer.add_sliding_window(config.sliding_window)
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if config.model_type == "glm4_moe":
        writer.add_rope_dimension_count(int(config.head_dim * config.rope_parameters["partial_rotary_factor"]))
        writer.add_expert_shared_count(config.n_shared_experts)
        writer.add_leading_dense_block_count(config.first_k_dense_replace)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)
        writer.add_nextn_predict_layers(1)
        behind = config.num_hidden_layers
        writer.add_tensor(f"blk.{behind}.nextn.eh_proj.weight", np.ones((8, 16), np.float32))
        writer.add_tensor(f"blk.{behind}.nextn.enorm.weight", np.ones(8, np.float32))
    if config.model_type == "ernie4_5_moe":
        writer.add_interleave_moe_layer_step(config.moe_layer_interval)
        writer.add_leading_dense_block_count(config.moe_layer_start_index)
        writer.add_expert_shared_count(config.moe_num_shared_experts)
        writer.add_expert_shared_feed_forward_length(config.moe_num_shared_experts * config.moe_intermediate_size)
    if config.model_type == "llama4_text":
        writer.add_interleave_moe_layer_step(config.interleave_moe_layer_step)
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_rope_dimension_count(config.head_dim)
    if config.model_type == "olmoe" and config.norm_topk_prob:
        writer.add_expert_weights_norm(True)


def make_gguf(name, config, state):
    writer = gguf.GGUFWriter(os.path.join(OUT, f"{name}.gguf"), GGUF[name])
    writer.add_name(f"palaver golden {name}")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    further = 1 if name == "glm4_moe" else 0 # a layer behind the last, as the converter takes it over
    writer.add_block_count(config.num_hidden_layers + further)
    writer.add_feed_forward_length(getattr(config, "intermediate_size_mlp", None) or config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters.get(FULL, config.rope_parameters)
    size = getattr(config, "head_dim", None) or 1
    writer.add_rope_freq_base(rope["rope_theta"] * (rope.get("alpha") or 1) ** (size / (size - 2)))
    head = getattr(config, "head_dim", None)
    if head:
        writer.add_key_length(head)
        writer.add_value_length(head)
    writer.add_expert_count(next(getattr(config, key) for key in ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
                                 if hasattr(config, key)))
    if name in ("bailing_moe", "qwen3_vl_moe") or name not in OLDER:
        add_recent(writer, name, config)
    else:
        add_further(writer, config)
    writer.add_expert_used_count(next(getattr(config, key) for key in ("num_experts_per_tok", "moe_topk", "moe_k")
                                      if getattr(config, key, None)))
    if hasattr(config, "moe_intermediate_size") and name != "hunyuan_v1_moe":
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if hasattr(config, "shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if name == "bailing_moe":
        state = with_fused_heads(state, config)
    for key, tensor in state.items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        for to, value in gguf_tensors(config, key, tensor.float().numpy(), name == "bailing_moe"):
            writer.add_tensor(to, np.ascontiguousarray(value))
    finish(writer)


def main():
    wanted = sys.argv[1:]
    if not wanted:
        shutil.rmtree(OUT, ignore_errors=True)
        os.makedirs(OUT)
    report = []
    for name, (extra, of) in MODELS.items():
        if wanted and name not in wanted:
            continue
        shutil.rmtree(os.path.join(OUT, name), ignore_errors=True)
        config, state = make_model(name, extra, of, report)
        if name in GGUF: # gpt_oss.gguf: its window begins with the first layer and is in every other one
            make_gguf(name, config, state)
    if wanted:
        print("\n".join(report))
        return
    with open(os.path.join(OUT, "PROVENANCE.txt"), "w") as f:
        f.write(f"Made by tests/golden/make_experts.py (seed {SEED}) with\n"
                f"Python {sys.version.split()[0]}, numpy {np.__version__}, torch {torch.__version__}, "
                f"transformers {transformers.__version__}, safetensors {safetensors.__version__}, gguf {gguf_version()}.\n"
                "Random weights, no one's data; what the files are is said at its top.\n" + "\n".join(report) + "\n")


if __name__ == "__main__":
    main()
