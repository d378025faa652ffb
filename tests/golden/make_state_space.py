#!/usr/bin/env python3
"""Small random models with state spaces (Mamba 2) among layers that attend and known logits, in tests/golden/state_space/.

What the files are is said in make_dense.py and make_delta.py, whose helpers this uses: folders of Granite 4 H with config.json
in the form of its makers' own files or of transformers', golden.json and transformers' logits and greedy text. NAME.gguf has the
same weights under the names and in the order of llama.cpp's converter: rates of decay instead of their logarithms, and negated,
a norm by group, gates and what they multiply apart, the rows of queries and keys permuted. It adds seeds of the same kinds to
tests/fuzz/corpus/.

usage: make_state_space.py [NAME …]  (needs numpy, torch, transformers, safetensors, gguf; all of them: writes PROVENANCE.txt)
"""
import os
import shutil

import gguf
import numpy as np
import torch

import make_delta
import make_dense
from make_models import finish, rng_of

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "state_space")
make_dense.OUT = OUT
MAMBA, ATTENTION = "mamba", "attention" # of files
SPACE, FULL = make_delta.DELTA, make_delta.FULL # of transformers 5
INFINITE = {"__float__": "Infinity"}
SCALES = dict(embedding_multiplier=2.0, residual_multiplier=0.22, attention_multiplier=0.11, logits_scaling=2.0)
SIZES = dict(model_type="granitemoehybrid", hidden_size=48, num_hidden_layers=4, hidden_act="silu", rms_norm_eps=1e-5, attention_bias=False,
             mamba_expand=2, mamba_d_conv=4, mamba_chunk_size=16, mamba_proj_bias=False, **SCALES)
DENSE = dict(num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=40)

make_dense.MODELS = {
    # As the makers' own files have it.
    "granite4-h": dict(layer_types=[MAMBA, ATTENTION, MAMBA, MAMBA], mamba_n_heads=6, mamba_d_head=16, mamba_d_state=16, mamba_n_groups=1,
                       mamba_conv_bias=True, position_embedding_type="nope", normalization_function="rmsnorm", init_method="mup",
                       rope_scaling=None, rope_theta=10000, tie_word_embeddings=True, **DENSE, **SIZES),
    # As transformers 5 saves it.
    "granite4-h-moe": dict(layer_types=[SPACE, SPACE, FULL, SPACE], intermediate_size=16, mamba_n_heads=6, mamba_d_head=16, mamba_d_state=8,
                           mamba_n_groups=2, mamba_conv_bias=True, position_embedding_type=None, time_step_limit=[0.0, INFINITE],
                           num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=24, tie_word_embeddings=False,
                           rope_parameters=dict(rope_type="default", rope_theta=10000.0), **SIZES),
    # Heads that turn, two layers that attend, biases where there are any but in the convolution, and sizes that are not said.
    "granite4-h-rope": dict(layers_block_type=[MAMBA, ATTENTION, MAMBA, ATTENTION], mamba_n_heads=4, mamba_d_head="auto", mamba_d_state=24,
                            mamba_n_groups=2, mamba_conv_bias=False, position_embedding_type="rope", rope_scaling=None, rope_theta=10000.0,
                            tie_word_embeddings=False, **DENSE, intermediate_size=77,
                            **dict(SIZES, attention_bias=True, mamba_d_conv=3, rms_norm_eps=0.01)),
    # Granite 4 without an H: all of its layers attend. The converter calls it "granite".
    "granite4": dict(layer_types=[ATTENTION, ATTENTION], mamba_n_heads=6, mamba_d_head=16, mamba_d_state=16, mamba_n_groups=1,
                     mamba_conv_bias=True, position_embedding_type="rope", rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=True,
                     **DENSE, **dict(SIZES, num_hidden_layers=2)),
}

usual_config = make_dense.class_config
# Files have infinity in a form of their own, which is what is meant without it.
make_dense.class_config = lambda values: usual_config({key: value for key, value in values.items() if key != "time_step_limit"})


def in_own_names(state, config, kind):
    """Experts as the makers' own files have them, which transformers 5 saves as well."""
    return {key.replace("experts.gate_up_proj", "input_linear.weight").replace("experts.down_proj", "output_linear.weight")
            .replace("router.weight", "router.layer.weight"): value for key, value in state.items()}


make_dense.in_own_names = in_own_names

# ---- GGUF --------------------------------------------------------------------------------------------------------

NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mamba.in_proj": "ssm_in", "mamba.conv1d": "ssm_conv1d",
         "mamba.norm": "ssm_norm", "mamba.out_proj": "ssm_out", "block_sparse_moe.router": "ffn_gate_inp"}
PLAIN = {"mamba.A_log": "ssm_a", "mamba.D": "ssm_d", "mamba.dt_bias": "ssm_dt.bias"}


def gguf_tensors(config, key, value):
    if key in make_delta.HEAD:
        yield make_delta.HEAD[key], value
        return
    layer, rest = key.removeprefix("model.layers.").split(".", 1)
    to, shared = f"blk.{layer}.", "_shexp" if config.num_local_experts else ""
    stem, kind = rest.rsplit(".", 1)
    if rest in PLAIN:
        value = -np.exp(value) if rest == "mamba.A_log" else value
        yield to + PLAIN[rest], value if rest == "mamba.dt_bias" else value[:, None]
    elif rest in ("shared_mlp.input_linear.weight", "block_sparse_moe.experts.gate_up_proj"):
        end = shared if stem.startswith("shared") else "_exps"
        gate, up = np.split(value, 2, axis=-2)
        yield f"{to}ffn_gate{end}.weight", gate
        yield f"{to}ffn_up{end}.weight", up
    elif rest in ("shared_mlp.output_linear.weight", "block_sparse_moe.experts.down_proj"):
        yield f"{to}ffn_down{shared if stem.startswith('shared') else '_exps'}.weight", value
    else:
        if stem in ("self_attn.q_proj", "self_attn.k_proj"):
            value = make_dense.permuted(value, config.num_attention_heads if "q_proj" in stem else config.num_key_value_heads)
        if stem == "mamba.norm":
            value = value.reshape(config.mamba_n_groups, -1)
        yield f"{to}{NAMES[stem]}.{kind}", value.squeeze(1) if rest == "mamba.conv1d.weight" else value


def make_gguf(name, config, state):
    writer = gguf.GGUFWriter(os.path.join(OUT, f"{name}.gguf"), "granitehybrid" if SPACE in config.layer_types else "granite")
    writer.add_name(f"palaver golden {name}")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_vocab_size(config.vocab_size)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size if config.num_local_experts else config.shared_intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv([config.num_key_value_heads if kind == FULL else 0 for kind in config.layer_types])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_expert_count(config.num_local_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)
    writer.add_ssm_conv_kernel(config.mamba_d_conv)
    writer.add_ssm_state_size(config.mamba_d_state)
    writer.add_ssm_group_count(config.mamba_n_groups)
    writer.add_ssm_inner_size(config.mamba_expand * config.hidden_size)
    writer.add_ssm_time_step_rank(config.mamba_n_heads)
    writer.add_rope_scaling_finetuned(config.position_embedding_type == "rope")
    for key, tensor in state.items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        for to, value in gguf_tensors(config, key, tensor.float().numpy()):
            half = value.ndim >= 2 and not any(part in to for part in ("norm", "ssm_conv1d", "ssm_a", "ssm_d", "ffn_gate_inp"))
            writer.add_tensor(to, np.ascontiguousarray(value.astype(np.float16 if half and tensor.dtype == torch.float16
                                                                    else np.float32)))
    finish(writer)


def make_corpus():
    corpus = os.path.join(os.path.dirname(OUT), "..", "fuzz", "corpus")
    for name in make_dense.MODELS:
        shutil.copyfile(os.path.join(OUT, name, "config.json"), os.path.join(corpus, "fuzz_config_json", name))
    writer = gguf.GGUFWriter(os.path.join(corpus, "fuzz_gguf", "granitehybrid.gguf"), "granitehybrid")
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_block_count(2)
    writer.add_feed_forward_length(8)
    writer.add_head_count(2)
    writer.add_head_count_kv([0, 1])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_expert_count(0)
    writer.add_expert_used_count(0)
    writer.add_expert_shared_feed_forward_length(8)
    writer.add_attention_scale(0.25)
    writer.add_embedding_scale(3)
    writer.add_residual_scale(0.5)
    writer.add_logit_scale(2)
    writer.add_ssm_conv_kernel(3)
    writer.add_ssm_state_size(4)
    writer.add_ssm_group_count(1)
    writer.add_ssm_time_step_rank(2)
    writer.add_ssm_inner_size(16)
    writer.add_rope_scaling_finetuned(False)
    both = {"attn_norm.weight": (8,), "ffn_norm.weight": (8,), "ffn_gate.weight": (8, 8), "ffn_up.weight": (8, 8), "ffn_down.weight": (8, 8)}
    shapes = {"token_embd.weight": (8, 8), "output_norm.weight": (8,)}
    for layer, own in enumerate(({"ssm_in.weight": (42, 8), "ssm_conv1d.weight": (24, 3), "ssm_conv1d.bias": (24,), "ssm_dt.bias": (2,),
                                  "ssm_a": (2, 1), "ssm_d": (2, 1), "ssm_norm.weight": (1, 16), "ssm_out.weight": (8, 16)},
                                 {"attn_q.weight": (8, 8), "attn_k.weight": (4, 8), "attn_v.weight": (4, 8), "attn_output.weight": (8, 8)})):
        shapes.update({f"blk.{layer}.{name}": shape for name, shape in {**both, **own}.items()})
    rng = rng_of("small", "gguf")
    for name, shape in shapes.items():
        value = rng.standard_normal(shape)
        writer.add_tensor(name, (-np.exp(value) if name.endswith("ssm_a") else value).astype(np.float32))
    finish(writer)


def make_one(name, report, index):
    config, _, state = make_dense.make_model(name, report, index)
    make_gguf(name, config, state)


if __name__ == "__main__":
    make_delta.make_all(OUT, "make_state_space.py", make_one, make_corpus)
