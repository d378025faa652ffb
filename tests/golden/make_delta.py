#!/usr/bin/env python3
"""Small random models with layers that recur and known logits, in tests/golden/delta/.

What the files are is said in make_dense.py, whose helpers this uses: folders with config.json in the form of the makers' own
files or of transformers', golden.json and transformers' logits and greedy text. NAME.gguf has the same weights under the names
and in the order of llama.cpp's converter: norms plus 1, rates of decay instead of their logarithms, and negated, the rows of
Qwen3-Next by part instead of by key's head, the heads of values of Qwen 3.5 in turn for each key's head. It adds seeds of the
same kinds to tests/fuzz/corpus/.

Weights are such that states matter: a head keeps between nearly nothing and nearly all of its state, a token on the average.
Of experts they are the best of ATTEMPTS, by how far the last expert that is chosen is before the next one, and in 16 bits
every token takes the same.

usage: make_delta.py [NAME …]  (needs numpy, torch, transformers, safetensors, gguf; all of them: writes PROVENANCE.txt)
"""
import os
import shutil
import sys
import types

import gguf
import numpy as np
import safetensors
import torch
import transformers
from safetensors.torch import load_file, save_file

import make_dense
from make_models import SEED, finish, gguf_version, rng_of

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "delta")
make_dense.OUT = OUT
ATTEMPTS = 200
DELTA, FULL = "linear_attention", "full_attention"
TODAY = dict(rope_type="default", rope_theta=20000.0, partial_rotary_factor=0.25)
OF_IMAGES = dict(mrope_interleaved=True, mrope_section=[11, 11, 10])
SIZES = dict(hidden_size=48, head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, linear_num_key_heads=2, linear_num_value_heads=4,
             linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4)
EXPERTS = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24)

make_dense.MODELS = {
    # As transformers saves it.
    "qwen3_next": dict(model_type="qwen3_next", num_hidden_layers=4, layer_types=[DELTA, FULL, DELTA, DELTA], norm_topk_prob=True,
                       decoder_sparse_step=1, mlp_only_layers=[], attention_bias=False, tie_word_embeddings=False,
                       rope_parameters=TODAY, **SIZES, **EXPERTS),
    # As the makers' own files have it; with biases, a layer without experts, sizes that differ, and a tied head.
    "qwen3_next-apart": dict(model_type="qwen3_next", num_hidden_layers=3, full_attention_interval=2, norm_topk_prob=False,
                             decoder_sparse_step=1, mlp_only_layers=[1], attention_bias=True, tie_word_embeddings=True,
                             rope_theta=10000.0, rope_scaling=None, partial_rotary_factor=0.5,
                             **dict(SIZES, linear_num_value_heads=6, linear_key_head_dim=8, linear_value_head_dim=24,
                                    linear_conv_kernel_dim=3), **EXPERTS),
    "qwen3_5": dict(model_type="qwen3_5_text", num_hidden_layers=4, layer_types=[DELTA, DELTA, FULL, DELTA], attention_bias=False,
                    tie_word_embeddings=False, attn_output_gate=True, full_attention_interval=4, mamba_ssm_dtype="float32",
                    mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False, output_gate_type="swish",
                    partial_rotary_factor=0.25, rope_parameters=dict(TODAY, **OF_IMAGES), **SIZES),
    # As many heads of values as of keys; nothing says which layers recur.
    "qwen3_5-equal": dict(model_type="qwen3_5_text", num_hidden_layers=5, attention_bias=True, tie_word_embeddings=True,
                          rope_parameters=dict(TODAY, **OF_IMAGES), **dict(SIZES, linear_num_key_heads=3, linear_num_value_heads=3)),
    "qwen3_5_moe": dict(model_type="qwen3_5_moe_text", num_hidden_layers=3, layer_types=[DELTA, FULL, DELTA], attention_bias=False,
                        tie_word_embeddings=False, intermediate_size=None, rope_parameters=dict(TODAY, **OF_IMAGES), **SIZES, **EXPERTS),
}

ROUTERS = ("mlp.gate", "block_sparse_moe.router")
usual_weights = make_dense.random_weights
usual_offset = make_dense.is_offset
make_dense.is_offset = lambda config: config.model_type.startswith("qwen3_") or usual_offset(config)


def delta_weights(model, name, dtype):
    whole = model.state_dict()
    usual = types.SimpleNamespace(config=model.config, state_dict=lambda: {key: whole[key] for key in whole if not key.endswith(("A_log", ".D"))})
    state = usual_weights(usual, name, dtype)
    for key, tensor in whole.items():
        value = rng_of(name, key).standard_normal(tuple(tensor.shape))
        if key.endswith("A_log"):
            value = -0.5 + value
        elif key.endswith(".D"):
            pass
        elif key.endswith("dt_bias"):
            value = -1 + value
        elif key.endswith(("linear_attn.norm.weight", "mamba.norm.weight")):
            value = 1 + 0.3 * value
        elif key.endswith("conv1d.weight"):
            value = value / tensor.shape[2] ** 0.5
        else:
            continue
        state[key] = torch.from_numpy(np.asarray(value, np.float32)).to(dtype)
    return state


def choosing(router, logits):
    """What experts are chosen by."""
    return logits.sigmoid() + router.e_score_correction_bias.float() if hasattr(router, "e_score_correction_bias") else logits


def chosen(model, ids):
    """[(logits of routers, experts taken)] in both cases."""
    found, near, first = [], list(range(len(ids))), len(ids) // 2
    hooks = [router.register_forward_hook(lambda r, _, out: found.append((choosing(r, out[0].float()), out[2].sort(dim=-1).values)))
             for name, router in model.named_modules() if name.endswith(ROUTERS)]
    for where in (near, near[:first] + [make_dense.GAP + p for p in near[first:]]):
        make_dense.logits_of(model, ids, where)
    for hook in hooks:
        hook.remove()
    return found


def random_weights(model, name, dtype):
    if not getattr(model.config, "num_experts", 0) and not getattr(model.config, "num_local_experts", 0):
        return delta_weights(model, name, dtype)
    ids = [1] + make_dense.rng_of(name, "prompt").integers(4, model.config.vocab_size, make_dense.N_TOKENS - 1).tolist()
    best, margin, n = None, 0, model.config.num_experts_per_tok
    for attempt in range(ATTEMPTS):
        state = delta_weights(model, f"{name} {attempt}", dtype)
        for key in state:
            if key.endswith(tuple(f"{router}.weight" for router in ROUTERS)):
                state[key] = state[key] * 4
        found = chosen(make_dense.load(model.config, state, torch.float32), ids)
        scores = torch.cat([logits for logits, _ in found]).sort(descending=True).values
        least = (scores[:, n - 1] - scores[:, n]).min().item()
        if least <= margin:
            continue
        half = chosen(make_dense.load(model.config, state, torch.bfloat16), ids)
        if all(torch.equal(a[1], b[1]) for a, b in zip(found, half)):
            best, margin = state, least
            print(f"{name}: attempt {attempt}, margin {margin:.3f}")
    if best is None:
        raise SystemExit(f"{name}: every choice of experts is a near one")
    return best


make_dense.random_weights = random_weights


def take_experts_apart(name):
    """As files of transformers 4 have them."""
    path = os.path.join(OUT, name, "model.safetensors")
    apart = {}
    for key, tensor in load_file(path).items():
        stem, _, what = key.partition(".experts.")
        for i, expert in enumerate(tensor if what else ()):
            if what == "down_proj":
                apart[f"{stem}.experts.{i}.down_proj.weight"] = expert.contiguous()
            else:
                gate, up = expert.chunk(2)
                apart[f"{stem}.experts.{i}.gate_proj.weight"] = gate.contiguous()
                apart[f"{stem}.experts.{i}.up_proj.weight"] = up.contiguous()
        if not what:
            apart[key] = tensor
    save_file(apart, path, metadata={"format": "pt"})


# ---- GGUF --------------------------------------------------------------------------------------------------------

NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "self_attn.qkv": "attn_qkv", "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
         "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_ba": "ssm_ba",
         "linear_attn.in_proj_qkvz": "ssm_in", "linear_attn.conv1d": "ssm_conv1d", "linear_attn.norm": "ssm_norm",
         "linear_attn.out_proj": "ssm_out", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "mlp.gate": "ffn_gate_inp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
         "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp"}
HEAD = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
ARCHES = {"qwen3_next": "qwen3next", "qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe"}


def tiled(config, value, axis, size):
    """Heads of values that lie by their key's head, in turn for each key's head."""
    keys, shape = config.linear_num_key_heads, value.shape
    split = value.reshape(*shape[:axis], keys, config.linear_num_value_heads // keys, size, *shape[axis + 1:])
    return split.swapaxes(axis, axis + 1).reshape(shape)


def reordered(config, rest, value):
    """As the converter does for Qwen 3.5."""
    size, n_qk = config.linear_value_head_dim, 2 * config.linear_num_key_heads * config.linear_key_head_dim
    if rest in ("linear_attn.in_proj_qkv.weight", "linear_attn.conv1d.weight"):
        return np.concatenate([value[:n_qk], tiled(config, value[n_qk:], 0, size)])
    if rest == "linear_attn.in_proj_z.weight":
        return tiled(config, value, 0, size)
    if rest == "linear_attn.out_proj.weight":
        return tiled(config, value, 1, size)
    if rest in ("linear_attn.in_proj_b.weight", "linear_attn.in_proj_a.weight", "linear_attn.A_log", "linear_attn.dt_bias"):
        return tiled(config, value, 0, 1)
    return value


def by_part(config, value):
    """Rows of each key's head together, into all queries, keys and values, and the gate."""
    share = config.linear_num_value_heads // config.linear_num_key_heads * config.linear_value_head_dim
    rows = value.reshape(config.linear_num_key_heads, -1, value.shape[1])
    parts = np.split(rows, np.cumsum([config.linear_key_head_dim, config.linear_key_head_dim, share]), axis=1)
    q, k, v, z = (part.reshape(-1, value.shape[1]) for part in parts)
    return np.concatenate([q, k, v]), z


def gguf_tensors(config, key, value, legacy):
    norm = key.endswith("norm.weight") and not key.endswith("linear_attn.norm.weight")
    if norm:
        value = value + 1
    if key in HEAD:
        yield HEAD[key], value
        return
    layer, rest = key.removeprefix("model.layers.").split(".", 1)
    to = f"blk.{layer}."
    if config.model_type != "qwen3_next":
        value = reordered(config, rest, value)
    if rest == "linear_attn.A_log":
        yield to + "ssm_a", -np.exp(value)
    elif rest == "linear_attn.dt_bias":
        yield to + "ssm_dt.bias", value
    elif rest == "linear_attn.in_proj_qkvz.weight" and not legacy:
        qkv, gate = by_part(config, value)
        yield to + "attn_qkv.weight", qkv
        yield to + "attn_gate.weight", gate
    elif rest == "mlp.experts.gate_up_proj":
        gate, up = np.split(value, 2, axis=1)
        yield to + "ffn_gate_exps.weight", gate
        yield to + "ffn_up_exps.weight", up
    elif rest == "mlp.experts.down_proj":
        yield to + "ffn_down_exps.weight", value
    else:
        stem, kind = rest.rsplit(".", 1)
        yield f"{to}{NAMES[stem]}.{kind}", value.squeeze(1 if stem.endswith("conv1d") else 0) if stem.endswith(("conv1d", "expert_gate")) else value


def make_gguf(name, config, state, file=None):
    """file: another one, with queries, keys and values of attention in one and a layer that predicts further tokens, or with
    what recurs as llama.cpp's first converter left it."""
    state, further = dict(state), 1 if file and file.endswith("fused") else 0
    for layer, kind in enumerate(config.layer_types):
        if kind == FULL and further:
            make_dense.fused(state, f"model.layers.{layer}.", make_dense.QKV, "self_attn.qkv", "weight")
    writer = gguf.GGUFWriter(os.path.join(OUT, f"{file or name}.gguf"), ARCHES[config.model_type])
    writer.add_name(f"palaver golden {name}")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers + further)
    if further:
        writer.add_nextn_predict_layers(further)
        for name in ("attn_norm", "nextn.enorm", "nextn.hnorm"): # some of its tensors
            writer.add_tensor(f"blk.{config.num_hidden_layers}.{name}.weight", np.ones(config.hidden_size, np.float32))
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(int(config.head_dim * config.rope_parameters["partial_rotary_factor"]))
    if config.model_type != "qwen3_next":
        writer.add_rope_dimension_sections([11, 11, 10, 0])
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_inner_size(config.linear_value_head_dim * config.linear_num_value_heads)
    writer.add_full_attention_interval(4)
    # llama.cpp reads it where layers are not by the interval.
    writer.add_array(f"{ARCHES[config.model_type]}.attention.recurrent_layers", [kind == DELTA for kind in config.layer_types] + [False] * further)
    if hasattr(config, "num_experts"):
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if getattr(config, "intermediate_size", None):
        writer.add_feed_forward_length(config.intermediate_size)
    for key, tensor in state.items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        for to, value in gguf_tensors(config, key, tensor.float().numpy(), file and file.endswith("legacy")):
            half = value.ndim >= 2 and not any(part in to for part in ("norm", "ssm_conv1d", "ffn_gate_inp"))
            writer.add_tensor(to, np.ascontiguousarray(value.astype(np.float16 if half and tensor.dtype == torch.float16
                                                                    else np.float32)))
    finish(writer)


def make_corpus():
    corpus = os.path.join(os.path.dirname(OUT), "..", "fuzz", "corpus")
    for name in make_dense.MODELS:
        shutil.copyfile(os.path.join(OUT, name, "config.json"), os.path.join(corpus, "fuzz_config_json", name))
    writer = gguf.GGUFWriter(os.path.join(corpus, "fuzz_gguf", "qwen35.gguf"), "qwen35")
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_block_count(2)
    writer.add_feed_forward_length(8)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_key_length(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_rope_dimension_count(2)
    writer.add_rope_dimension_sections([11, 11, 10, 0])
    writer.add_ssm_conv_kernel(3)
    writer.add_ssm_state_size(4)
    writer.add_ssm_group_count(1)
    writer.add_ssm_time_step_rank(2)
    writer.add_ssm_inner_size(8)
    writer.add_full_attention_interval(2)
    both = {"attn_norm": (8,), "post_attention_norm": (8,), "ffn_gate": (8, 8), "ffn_up": (8, 8), "ffn_down": (8, 8)}
    shapes = {"token_embd": (8, 8), "output_norm": (8,)}
    for layer, own in enumerate(({"attn_qkv": (16, 8), "attn_gate": (8, 8), "ssm_beta": (2, 8), "ssm_alpha": (2, 8), "ssm_conv1d": (16, 3),
                                  "ssm_norm": (4,), "ssm_out": (8, 8)},
                                 {"attn_q": (16, 8), "attn_k": (4, 8), "attn_v": (4, 8), "attn_output": (8, 8), "attn_q_norm": (4,),
                                  "attn_k_norm": (4,)})):
        shapes.update({f"blk.{layer}.{name}": shape for name, shape in {**both, **own}.items()})
    rng = rng_of("small", "gguf")
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.standard_normal(shape).astype(np.float32))
    writer.add_tensor("blk.0.ssm_a", -np.exp(rng.standard_normal(2)).astype(np.float32))
    writer.add_tensor("blk.0.ssm_dt.bias", rng.standard_normal(2).astype(np.float32))
    finish(writer)


def make_one(name, report, index):
    config, _, state = make_dense.make_model(name, report, index)
    if name != "qwen3_next-apart":
        make_gguf(name, config, state)
    if name == "qwen3_next":
        make_gguf(name, config, state, "qwen3_next-legacy")
    if name == "qwen3_5":
        make_gguf(name, config, state, "qwen3_5-fused")
    if name.endswith("-apart"):
        take_experts_apart(name)


def make_all(out, script, make, corpus):
    """make_dense.MODELS, or those that are named, and what is said of all."""
    wanted = sys.argv[1:]
    if not wanted:
        shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out, exist_ok=True)
    report = []
    for index, name in enumerate(make_dense.MODELS):
        if not wanted or name in wanted:
            make(name, report, index)
    print("\n".join(report))
    if wanted:
        return
    corpus()
    with open(os.path.join(out, "PROVENANCE.txt"), "w") as f:
        f.write(f"Made by tests/golden/{script} (seed {SEED}) with\n"
                f"Python {sys.version.split()[0]}, numpy {np.__version__}, torch {torch.__version__}, "
                f"transformers {transformers.__version__}, safetensors {safetensors.__version__}, gguf {gguf_version()}.\n"
                "Random weights, no one's data; what the files are is said at its top.\n" + "\n".join(report) + "\n")


if __name__ == "__main__":
    make_all(OUT, "make_delta.py", make_one, make_corpus)
