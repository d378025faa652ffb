#!/usr/bin/env python3
"""Small random models with state spaces (Mamba 2) among layers that attend and known logits, in tests/golden/state_space/.

What the files are is said in make_dense.py and make_delta.py, whose helpers this uses: folders of Granite 4 H with config.json
in the form of its makers' own files or of transformers', golden.json and transformers' logits and greedy text. NAME.gguf has the
same weights under the names and in the order of llama.cpp's converter: rates of decay instead of their logarithms, and negated,
a norm by group, gates and what they multiply apart, the rows of queries and keys permuted. It adds seeds of the same kinds to
tests/fuzz/corpus/. Layers of Nemotron-H are one part alone each, in folders and in GGUF; into the matrices of Falcon-H1's GGUF files
its numbers are multiplied. Mamba 2 has nothing but state spaces, and one model of Granite's nothing that attends.

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

# Nemotron-H. Layers are named by a pattern, as its makers' own files have it, or in a list.
NEMOTRON = dict(model_type="nemotron_h", hidden_size=48, num_hidden_layers=None, head_dim=16, mamba_num_heads=6, mamba_head_dim=16, n_groups=2,
                ssm_state_size=16, conv_kernel=4, mlp_hidden_act="relu2", layer_norm_epsilon=1e-5, tie_word_embeddings=False)
EXPERTS = dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, moe_shared_expert_intermediate_size=24, n_shared_experts=1,
               norm_topk_prob=True, routed_scaling_factor=2.5)
make_dense.MODELS.update({
    "nemotron_h": dict(hybrid_override_pattern="M-M*-M", attention_bias=False, chunk_size=16, expand=2, mamba_hidden_act="silu", mamba_proj_bias=False,
                       mlp_bias=False, num_logits_to_keep=1, num_query_groups=2, rescale_prenorm_residual=True, residual_in_fp32=False, rms_norm_eps=1e-5,
                       sliding_window=None, time_step_floor=0.0001, time_step_limit=[0.0, INFINITE], time_step_max=0.1, time_step_min=0.001, use_bias=False,
                       use_conv_bias=True, use_mamba_kernels=True, **dict(NEMOTRON, num_hidden_layers=6)),
    # As transformers 5 saves it.
    "nemotron_h-moe": dict(layers_block_type=[SPACE, "moe", FULL, "moe", SPACE, "moe"], n_group=1, topk_group=1, time_step_min=0.001,
                           moe_latent_size=None, moe_shared_expert_overlap=True, num_nextn_predict_layers=0, mtp_layers_block_type=[FULL, "moe"],
                           **NEMOTRON, **EXPERTS),
    # All parts, experts in groups, steps of time of which many are cut off, no biases in the convolution, numbers that are not said, and
    # tensors of layers that predict further tokens.
    "nemotron_h-steps": dict(layers_block_type=["mlp", ATTENTION, MAMBA, "moe", MAMBA], n_group=2, topk_group=1, time_step_min=0.3, use_conv_bias=False,
                             num_nextn_predict_layers=1, mtp_hybrid_override_pattern="*E",
                             **dict(NEMOTRON, mamba_num_heads=3, mamba_head_dim=24, n_groups=3, ssm_state_size=8, conv_kernel=3, intermediate_size=56),
                             **dict(EXPERTS, norm_topk_prob=False)),
    # None of its layers recurs.
    "nemotron_h-attends": dict(hybrid_override_pattern="*--*", **dict(NEMOTRON, num_hidden_layers=4)),
})

# Falcon-H1: both in each layer, and numbers that multiply nearly everything.
FALCON = dict(model_type="falcon_h1", hidden_size=48, head_dim=16, mamba_n_heads=5, mamba_d_head=16, mamba_d_ssm=80, mamba_n_groups=1, mamba_d_state=16,
              mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=16, mamba_conv_bias=True, mamba_proj_bias=False, projectors_bias=False, attention_bias=False,
              mlp_bias=False, hidden_act="silu", rms_norm_eps=1e-5, mamba_rms_norm=False, mamba_norm_before_gate=False, tie_word_embeddings=False,
              num_logits_to_keep=1, embedding_multiplier=1.7, lm_head_multiplier=0.6, key_multiplier=0.4, attention_in_multiplier=0.8,
              attention_out_multiplier=0.7, ssm_in_multiplier=1.2, ssm_out_multiplier=0.5, mlp_multipliers=[0.9, 0.35],
              ssm_multipliers=[0.8, 0.6, 1.3, 0.7, 1.1])
make_dense.MODELS.update({
    # As its makers' own files have it.
    "falcon_h1": dict(rope_theta=100000000000.0, rope_scaling=None, attn_layer_indices=None, mamba_use_mlp=True, mlp_expansion_factor=8, **FALCON),
    # As transformers 5 saves it; with norms of the state, in two groups.
    "falcon_h1-norm": dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0), time_step_limit=[0.0, INFINITE],
                           **dict(FALCON, mamba_rms_norm=True, mamba_n_groups=2, mamba_n_heads=6, mamba_d_ssm=96, mamba_d_state=8, mamba_d_conv=3,
                                  rms_norm_eps=0.01)),
    # Sizes that are not said, no biases in the convolution, a tied head, and of numbers that multiply only some.
    "falcon_h1-tied": dict(rope_theta=10000.0, rope_scaling=None, tie_word_embeddings=True, mamba_d_ssm=None, mamba_d_head="auto", mamba_conv_bias=False,
                           mlp_multipliers=None, lm_head_multiplier=0.3, ssm_out_multiplier=1.5,
                           **{key: value for key, value in FALCON.items() if key in ("model_type", "hidden_size", "hidden_act", "mamba_d_state",
                                                                                     "mamba_d_conv", "ssm_multipliers")}, mamba_n_heads=4),
    # One head of a state, whose rate is a matrix of one row.
    "falcon_h1-one": dict(rope_theta=10000.0, rope_scaling=None, **dict(FALCON, num_hidden_layers=1, mamba_n_heads=1, mamba_d_head=80, mamba_d_conv=2)),
})

# Granite 4 H whose files do not say which layers attend: none does.
make_dense.MODELS["granite4-h-none"] = dict(mamba_n_heads=6, mamba_d_head=16, mamba_d_state=8, mamba_n_groups=2, mamba_conv_bias=True,
                                            position_embedding_type="nope", tie_word_embeddings=True, **DENSE, **dict(SIZES, num_hidden_layers=2))

# Mamba 2: layers are state spaces alone.
NO_HEADS = dict(num_attention_heads=None, num_key_value_heads=None, intermediate_size=None, max_position_embeddings=None)
MAMBA2 = dict(model_type="mamba2", hidden_size=48, num_hidden_layers=3, num_heads=6, head_dim=16, n_groups=2, state_size=16, conv_kernel=4, expand=2,
              chunk_size=16, layer_norm_epsilon=1e-5, hidden_act="silu", use_bias=False, use_conv_bias=True, tie_word_embeddings=False)
make_dense.MODELS.update({
    # As its makers' own files have it, with what its class does not look at.
    "mamba2": {**NO_HEADS, **MAMBA2, "intermediate_size": 96, "norm_before_gate": True, "rms_norm": True, "rescale_prenorm_residual": False,
               "residual_in_fp32": True, "time_step_floor": 0.0001, "time_step_init_scheme": "random", "time_step_limit": [0.0, INFINITE],
               "time_step_max": 0.1, "time_step_min": 0.3, "time_step_rank": 256, "time_step_scale": 1.0},
    # As transformers 5 saves it; one group, a tied head, and a large epsilon.
    "mamba2-tied": {**NO_HEADS, **MAMBA2, "num_heads": 4, "head_dim": 24, "n_groups": 1, "state_size": 24, "conv_kernel": 3,
                    "layer_norm_epsilon": 0.01, "time_step_rank": 3, "tie_word_embeddings": True},
    # Biases of all products, none in the convolution, and sizes that are not said.
    "mamba2-biased": {**NO_HEADS, **{key: MAMBA2[key] for key in ("model_type", "hidden_size", "num_hidden_layers")}, "num_heads": 8, "head_dim": 12,
                      "state_size": 8, "use_bias": True, "use_conv_bias": False},
})

make_delta.ROUTERS += ("mixer.gate",)
usual_weights = make_dense.random_weights
# A class that knows experts has numbers of them also where no layer is of them.
make_dense.random_weights = lambda model, name, dtype: (usual_weights if name.startswith("granite") or (name.startswith("nemotron") and "moe" in model.config.layer_types)
                                                        else make_delta.delta_weights)(model, name, dtype)
usual_config = make_dense.class_config
# Files have infinity in a form of their own, which is what is meant without it.
make_dense.class_config = lambda values: usual_config({key: value for key, value in values.items() if key != "time_step_limit"})


def in_own_names(state, config, kind):
    """Experts as the makers' own files have them, which transformers 5 saves as well."""
    if kind == "mamba2":
        return state
    if kind == "nemotron_h":
        own = {"mtp.layers.0.enorm.weight": torch.ones(config.hidden_size)} if config.num_nextn_predict_layers else {}
        for key, value in state.items():
            key, (stem, _, what) = key.replace("model.", "backbone."), key.replace("model.", "backbone.").partition(".experts.")
            own.update({f"{stem}.experts.{i}.{what}.weight": expert.contiguous() for i, expert in enumerate(value)} if what else {key: value})
        return own
    return {key.replace("experts.gate_up_proj", "input_linear.weight").replace("experts.down_proj", "output_linear.weight")
            .replace("router.weight", "router.layer.weight"): value for key, value in state.items()}


make_dense.in_own_names = in_own_names

# ---- GGUF --------------------------------------------------------------------------------------------------------

NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mamba.in_proj": "ssm_in", "mamba.conv1d": "ssm_conv1d",
         "mamba.norm": "ssm_norm", "mamba.out_proj": "ssm_out", "block_sparse_moe.router": "ffn_gate_inp"}
PLAIN = {"mamba.A_log": "ssm_a", "mamba.D": "ssm_d", "mamba.dt_bias": "ssm_dt.bias"}


def begin_gguf(name, architecture, config):
    writer = gguf.GGUFWriter(os.path.join(OUT, f"{name}.gguf"), architecture)
    writer.add_name(f"palaver golden {name}")
    writer.add_context_length(getattr(config, "max_position_embeddings", None) or 2**20) # what the converter says of texts without an end
    writer.add_vocab_size(config.vocab_size)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    return writer


def add_space(writer, taps, state, groups, inner, heads):
    writer.add_ssm_conv_kernel(taps)
    writer.add_ssm_state_size(state)
    writer.add_ssm_group_count(groups)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_time_step_rank(heads)


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


NEMOTRON_NAMES = {"norm": "attn_norm", "mixer.q_proj": "attn_q", "mixer.k_proj": "attn_k", "mixer.v_proj": "attn_v", "mixer.o_proj": "attn_output",
                  "mixer.in_proj": "ssm_in", "mixer.conv1d": "ssm_conv1d", "mixer.norm": "ssm_norm", "mixer.out_proj": "ssm_out",
                  "mixer.up_proj": "ffn_up", "mixer.down_proj": "ffn_down", "mixer.gate": "ffn_gate_inp",
                  "mixer.shared_experts.up_proj": "ffn_up_shexp", "mixer.shared_experts.down_proj": "ffn_down_shexp"}
NEMOTRON_WHOLE = {"mixer.A_log": "ssm_a", "mixer.D": "ssm_d", "mixer.dt_bias": "ssm_dt.bias", "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
                  "mixer.experts.up_proj": "ffn_up_exps.weight", "mixer.experts.down_proj": "ffn_down_exps.weight"}
NEMOTRON_HEAD = {"model.embeddings.weight": "token_embd.weight", "model.norm_f.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def nemotron_tensor(config, key, value):
    if key in NEMOTRON_HEAD:
        return NEMOTRON_HEAD[key], value
    layer, rest = key.removeprefix("model.layers.").split(".", 1)
    to, (stem, _, kind) = f"blk.{layer}.", rest.rpartition(".")
    if rest in NEMOTRON_WHOLE:
        value = -np.exp(value) if rest == "mixer.A_log" else value
        return to + NEMOTRON_WHOLE[rest], value[:, None] if rest in ("mixer.A_log", "mixer.D") else value
    if stem in ("mixer.q_proj", "mixer.k_proj"): # which changes nothing where heads do not turn
        value = make_dense.permuted(value, config.num_attention_heads if "q_proj" in stem else config.num_key_value_heads)
    if stem == "mixer.norm":
        value = value.reshape(config.n_groups, -1)
    return f"{to}{NEMOTRON_NAMES[stem]}.{kind}", value.squeeze(1) if rest == "mixer.conv1d.weight" else value


def make_nemotron_gguf(name, config, state):
    kinds, mixes = config.layers_block_type, "moe" in config.layers_block_type
    writer = begin_gguf(name, "nemotron_h_moe" if mixes else "nemotron_h", config)
    writer.add_feed_forward_length([config.moe_intermediate_size if kind == "moe" else config.intermediate_size if kind == "mlp" else 0 for kind in kinds])
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv([config.num_key_value_heads if kind == FULL else 0 for kind in kinds])
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_scaling_finetuned(False)
    add_space(writer, config.conv_kernel, config.ssm_state_size, config.n_groups, config.mamba_num_heads * config.mamba_head_dim, config.mamba_num_heads)
    if mixes:
        writer.add_expert_count(config.n_routed_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_expert_shared_feed_forward_length(config.moe_shared_expert_intermediate_size)
        writer.add_expert_shared_count(config.n_shared_experts)
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
        writer.add_expert_group_count(config.n_group)
    for key, tensor in state.items():
        add_tensor(writer, *nemotron_tensor(config, key, tensor.float().numpy()), tensor.dtype)
    finish(writer)


FALCON_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
                "input_layernorm": "attn_norm", "pre_ff_layernorm": "ffn_norm", "mamba.in_proj": "ssm_in", "mamba.conv1d": "ssm_conv1d",
                "mamba.norm": "ssm_norm", "mamba.out_proj": "ssm_out", "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up",
                "feed_forward.down_proj": "ffn_down"}
FALCON_HEAD = {"model.embed_tokens.weight": "token_embd.weight", "model.final_layernorm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def make_mamba2_gguf(name, config, state):
    writer = begin_gguf(name, "mamba2", config)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    add_space(writer, config.conv_kernel, config.state_size, config.n_groups, config.num_heads * config.head_dim, config.num_heads)
    for key, tensor in state.items():
        if key != "lm_head.weight" or not config.tie_word_embeddings:
            add_tensor(writer, *nemotron_tensor(config, key.replace("backbone.", "model."), tensor.float().numpy()), tensor.dtype)
    finish(writer)


def falcon_multiplied(config, key, value):
    """As the converter does, but that products stay float32."""
    if "mamba.in_proj" in key:
        width, groups = config.mamba_d_ssm, config.mamba_n_groups * config.mamba_d_state
        sizes = [width, width, groups, groups, config.mamba_n_heads]
        return value * config.ssm_in_multiplier * np.repeat(config.ssm_multipliers, sizes)[:, None]
    by = {"q_proj": config.attention_in_multiplier, "k_proj": config.attention_in_multiplier * config.key_multiplier,
          "v_proj": config.attention_in_multiplier, "o_proj": config.attention_out_multiplier, "out_proj": config.ssm_out_multiplier,
          "gate_proj": config.mlp_multipliers[0], "down_proj": config.mlp_multipliers[1], "embed_tokens": config.embedding_multiplier,
          "lm_head": config.lm_head_multiplier}
    return value * by.get(key.split(".")[-2], 1)


def falcon_tensor(config, key, value):
    value = falcon_multiplied(config, key, value)
    if key in FALCON_HEAD:
        return FALCON_HEAD[key], value
    layer, rest = key.removeprefix("model.layers.").split(".", 1)
    to, (stem, _, kind) = f"blk.{layer}.", rest.rpartition(".")
    if rest in PLAIN:
        value = -np.exp(value) if rest == "mamba.A_log" else value
        return to + PLAIN[rest], value if rest == "mamba.dt_bias" else value[:, None]
    if stem == "mamba.norm":
        value = value.reshape(config.mamba_n_groups, -1)
    return f"{to}{FALCON_NAMES[stem]}.{kind}", value.squeeze(1) if rest == "mamba.conv1d.weight" else value


def make_falcon_gguf(name, config, state):
    writer = begin_gguf(name, "falcon-h1", config)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    add_space(writer, config.mamba_d_conv, config.mamba_d_state, config.mamba_n_groups, config.mamba_d_ssm, config.mamba_n_heads)
    for key, tensor in state.items():
        add_tensor(writer, *falcon_tensor(config, key, tensor.float().numpy()), torch.float32)
    finish(writer)


def add_tensor(writer, to, value, dtype):
    half = value.ndim >= 2 and not any(part in to for part in ("norm", "ssm_conv1d", "ssm_a", "ssm_d", "ffn_gate_inp"))
    writer.add_tensor(to, np.ascontiguousarray(value.astype(np.float16 if half and dtype == torch.float16 else np.float32)))


def make_gguf(name, config, state):
    writer = begin_gguf(name, "granitehybrid" if SPACE in config.layer_types else "granite", config)
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
    add_space(writer, config.mamba_d_conv, config.mamba_d_state, config.mamba_n_groups, config.mamba_expand * config.hidden_size, config.mamba_n_heads)
    writer.add_rope_scaling_finetuned(config.position_embedding_type == "rope")
    for key, tensor in state.items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        for to, value in gguf_tensors(config, key, tensor.float().numpy()):
            add_tensor(writer, to, value, tensor.dtype)
    finish(writer)


def make_corpus():
    corpus = os.path.join(os.path.dirname(OUT), "..", "fuzz", "corpus")
    for name in make_dense.MODELS:
        shutil.copyfile(os.path.join(OUT, name, "config.json"), os.path.join(corpus, "fuzz_config_json", name))
    make_small_nemotron(os.path.join(corpus, "fuzz_gguf", "nemotron_h_moe.gguf"))
    make_small_mamba2(os.path.join(corpus, "fuzz_gguf", "mamba2.gguf"))
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


def make_small_nemotron(path):
    writer = gguf.GGUFWriter(path, "nemotron_h_moe")
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_block_count(3)
    writer.add_feed_forward_length([0, 8, 0])
    writer.add_head_count(2)
    writer.add_head_count_kv([0, 0, 1])
    writer.add_key_length(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(3)
    writer.add_ssm_state_size(4)
    writer.add_ssm_group_count(1)
    writer.add_ssm_time_step_rank(2)
    writer.add_ssm_inner_size(16)
    writer.add_expert_count(2)
    writer.add_expert_used_count(1)
    writer.add_expert_feed_forward_length(8)
    writer.add_expert_shared_feed_forward_length(8)
    shapes = {"token_embd.weight": (8, 8), "output_norm.weight": (8,), "output.weight": (8, 8)}
    for layer, own in enumerate(({"ssm_in.weight": (42, 8), "ssm_conv1d.weight": (24, 3), "ssm_conv1d.bias": (24,), "ssm_dt.bias": (2,),
                                  "ssm_a": (2, 1), "ssm_d": (2, 1), "ssm_norm.weight": (1, 16), "ssm_out.weight": (8, 16)},
                                 {"ffn_gate_inp.weight": (2, 8), "exp_probs_b.bias": (2,), "ffn_up_exps.weight": (2, 8, 8), "ffn_down_exps.weight": (2, 8, 8),
                                  "ffn_up_shexp.weight": (8, 8), "ffn_down_shexp.weight": (8, 8)},
                                 {"attn_q.weight": (8, 8), "attn_k.weight": (4, 8), "attn_v.weight": (4, 8), "attn_output.weight": (8, 8)})):
        shapes.update({f"blk.{layer}.{name}": shape for name, shape in {"attn_norm.weight": (8,), **own}.items()})
    rng = rng_of("small", "gguf")
    for name, shape in shapes.items():
        value = rng.standard_normal(shape)
        writer.add_tensor(name, (-np.exp(value) if name.endswith("ssm_a") else value).astype(np.float32))
    finish(writer)


def make_small_mamba2(path):
    writer = gguf.GGUFWriter(path, "mamba2")
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_block_count(2)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(1e-5)
    add_space(writer, 3, 4, 1, 16, 2)
    shapes = {"token_embd.weight": (8, 8), "output_norm.weight": (8,)}
    for layer in range(2):
        own = {"attn_norm.weight": (8,), "ssm_in.weight": (42, 8), "ssm_conv1d.weight": (24, 3), "ssm_conv1d.bias": (24,), "ssm_dt.bias": (2,),
               "ssm_a": (2, 1), "ssm_d": (2, 1), "ssm_norm.weight": (1, 16), "ssm_out.weight": (8, 16)}
        shapes.update({f"blk.{layer}.{name}": shape for name, shape in own.items()})
    rng = rng_of("small", "gguf")
    for name, shape in shapes.items():
        value = rng.standard_normal(shape)
        writer.add_tensor(name, (-np.exp(value) if name.endswith("ssm_a") else value).astype(np.float32))
    finish(writer)


def make_one(name, report, index):
    config, _, state = make_dense.make_model(name, report, index)
    if name in ("nemotron_h", "nemotron_h-moe"): # of the others no GGUF file can have what they are made for
        make_nemotron_gguf(name, config, state)
    elif name in ("falcon_h1", "falcon_h1-norm"):
        make_falcon_gguf(name, config, state)
    elif name in ("mamba2", "mamba2-tied"): # llama.cpp has no biases of products
        make_mamba2_gguf(name, config, state)
    elif name.startswith("granite"):
        make_gguf(name, config, state)


if __name__ == "__main__":
    make_delta.make_all(OUT, "make_state_space.py", make_one, make_corpus)
