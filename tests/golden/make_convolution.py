#!/usr/bin/env python3
"""Small random models with layers that convolve and known logits, in tests/golden/convolution/.

What the files are is said in make_dense.py, whose helpers this uses: folders with config.json in the form of the makers' own
files or of transformers', golden.json and transformers' logits and greedy text; NAME.gguf has the same weights under the names
of llama.cpp's converter (heads of keys by layer, 0 where it convolves; the taps as [hidden_size, taps]). It adds seeds of the
same kinds to tests/fuzz/corpus/.

usage: make_convolution.py [NAME …]  (needs numpy, torch, transformers, safetensors, gguf; all of them: writes PROVENANCE.txt)
"""
import os
import shutil
import sys

import gguf
import numpy as np
import safetensors
import torch
import transformers
from safetensors.torch import load_file, save_file

import make_dense
from make_models import SEED, finish, gguf_version, rng_of

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "convolution")
make_dense.OUT = OUT
CONV, FULL = "conv", "full_attention"
EXPERTS = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, num_dense_layers=1, use_expert_bias=True)

make_dense.MODELS = {
    # As transformers saves them.
    "lfm2": dict(model_type="lfm2", num_hidden_layers=5, norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=20000.0),
                 layer_types=[CONV, CONV, FULL, CONV, FULL], conv_L_cache=3, conv_bias=False, intermediate_size=100,
                 block_multiple_of=8, block_ffn_dim_multiplier=1.25, block_auto_adjust_ff_dim=True, tie_word_embeddings=True),
    # As the makers' own first files have them; with biases, which none of theirs has, and the last layer one that convolves.
    "lfm2-own": dict(model_type="lfm2", num_hidden_layers=4, norm_eps=1e-5, rope_theta=1000000.0, full_attn_idxs=[1],
                     conv_L_cache=4, conv_bias=True, conv_dim=40, conv_dim_out=40, block_dim=40,
                     block_ff_dim=48, block_auto_adjust_ff_dim=False, block_ffn_dim_multiplier=1.0, block_multiple_of=256,
                     block_norm_eps=1e-5, block_use_swiglu=True, use_pos_enc=True, num_heads=4, tie_embedding=False),
    "lfm2_moe": dict(model_type="lfm2_moe", num_hidden_layers=4, norm_eps=1e-5, layer_types=[CONV, FULL, CONV, FULL],
                     conv_L_cache=3, conv_bias=False, norm_topk_prob=True, routed_scaling_factor=1.5,
                     rope_parameters=dict(rope_type="default", rope_theta=20000.0), tie_word_embeddings=True, **EXPERTS),
    # No layer attends: what a text goes on with depends on its last nine tokens alone.
    "lfm2-short": dict(model_type="lfm2", num_hidden_layers=4, norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=20000.0),
                       layer_types=[CONV] * 4, conv_L_cache=3, conv_bias=False, intermediate_size=40,
                       block_auto_adjust_ff_dim=False, tie_word_embeddings=True),
    "lfm2_moe-apart": dict(model_type="lfm2_moe", num_hidden_layers=3, norm_eps=1e-5, layer_types=[CONV, FULL, CONV],
                           conv_L_cache=3, conv_bias=False, norm_topk_prob=False, routed_scaling_factor=1.0,
                           rope_theta=20000.0, tie_embedding=True, **EXPERTS),
}


NEW = dict(model_type="lfm3", hidden_size=48, head_dim=12, norm_eps=1e-5, sliding_window=6, conv_bias=False, use_sandwich_norm=True,
           use_attention_gate=True, tie_word_embeddings=True)
make_dense.MODELS.update({
    "lfm3": dict(num_hidden_layers=5, layer_types=[CONV, CONV, FULL, CONV, "sliding_attention"], conv_L_cache=5,
                 rope_parameters={FULL: dict(rope_type="proportional", rope_theta=50000.0, partial_rotary_factor=0.5),
                                  "sliding_attention": dict(rope_type="default", rope_theta=3000.0)}, **NEW),
    # As what config.json does not say has it: seven taps, which layers are of which kind, and both ropes.
    "lfm3-usual": dict(num_hidden_layers=6, **NEW),
})
make_dense.RENAMED["lfm3"] = (("self_attn.g_proj", "self_attn.gate_proj"),)
usual_weights = make_dense.random_weights
MARGIN = 0.05


def margin(model, ids):
    """How far, at least, the last expert that is chosen is before the next one, in both cases."""
    found, near, first = [], list(range(len(ids))), len(ids) // 2
    positions = [near, near[:first] + [make_dense.GAP + p for p in near[first:]]]
    hooks = [layer.feed_forward.register_forward_hook(
        lambda block, args, _: found.append((block.gate.weight @ args[0][0].T).T.sigmoid() + block.expert_bias))
        for layer in model.model.layers if hasattr(layer.feed_forward, "gate")]
    for where in positions:
        make_dense.logits_of(model, ids, where)
    for hook in hooks:
        hook.remove()
    scores = torch.cat(found).sort(descending=True).values
    n = model.config.num_experts_per_tok
    return (scores[:, n - 1] - scores[:, n]).min().item()


def random_weights(model, name, dtype):
    """Of experts such that no choice is a near one: else what is rounded to 16 bits takes others, and the logits say nothing.
    Scores are near 0 and 1, and biases so far apart that these decide among them."""
    if model.config.model_type != "lfm2_moe":
        return usual_weights(model, name, dtype)
    ids = [1] + make_dense.rng_of(name, "prompt").integers(4, model.config.vocab_size, make_dense.N_TOKENS - 1).tolist()
    for attempt in range(10000):
        state = usual_weights(model, f"{name} {attempt}", dtype)
        for key in state:
            if key.endswith("feed_forward.gate.weight"):
                state[key] = state[key] * 16
            if key.endswith("expert_bias"):
                state[key] = torch.from_numpy(make_dense.rng_of(name, key, str(attempt)).permutation(len(state[key])) * 0.125).to(dtype)
        found = margin(make_dense.load(model.config, state, torch.float32), ids)
        if found >= MARGIN:
            print(f"{name}: attempt {attempt}, margin {found:.3f}")
            return state
    raise SystemExit(f"{name}: every choice of experts is a near one")


make_dense.random_weights = random_weights


def take_experts_apart(name):
    """As files of transformers 4 have them."""
    path = os.path.join(OUT, name, "model.safetensors")
    apart = {}
    for key, tensor in load_file(path).items():
        stem, _, what = key.partition(".experts.")
        for i, expert in enumerate(tensor if what else ()):
            if what == "down_proj":
                apart[f"{stem}.experts.{i}.w2.weight"] = expert.contiguous()
            else:
                gate, up = expert.chunk(2)
                apart[f"{stem}.experts.{i}.w1.weight"], apart[f"{stem}.experts.{i}.w3.weight"] = gate.contiguous(), up.contiguous()
        if not what:
            apart[key] = tensor
    save_file(apart, path, metadata={"format": "pt"})


NAMES = {"operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_output", "self_attn.q_layernorm": "attn_q_norm",
         "self_attn.k_layernorm": "attn_k_norm", "self_attn.qkv": "attn_qkv", "conv.in_proj": "shortconv.in_proj", "conv.conv": "shortconv.conv",
         "conv.out_proj": "shortconv.out_proj", "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up",
         "feed_forward.w2": "ffn_down", "feed_forward.gate": "ffn_gate_inp"}
HEAD = {"model.embed_tokens.weight": "token_embd.weight", "model.embedding_norm.weight": "token_embd_norm.weight"}


def gguf_tensors(key, value):
    if key in HEAD:
        yield HEAD[key], value
        return
    layer, rest = key.removeprefix("model.layers.").split(".", 1)
    if rest == "feed_forward.expert_bias":
        yield f"blk.{layer}.exp_probs_b.bias", value
    elif rest == "feed_forward.experts.gate_up_proj":
        gate, up = np.split(value, 2, axis=1)
        yield f"blk.{layer}.ffn_gate_exps.weight", gate
        yield f"blk.{layer}.ffn_up_exps.weight", up
    elif rest == "feed_forward.experts.down_proj":
        yield f"blk.{layer}.ffn_down_exps.weight", value
    else:
        yield f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight", value.squeeze(1) if rest == "conv.conv.weight" else value


def make_gguf(name, config, state, file=None):
    """file: another one, with queries, keys and values in one."""
    if file:
        state = dict(state)
        for layer, kind in enumerate(config.layer_types):
            if kind == FULL:
                make_dense.fused(state, f"model.layers.{layer}.", make_dense.QKV, "self_attn.qkv", "weight")
    writer = gguf.GGUFWriter(os.path.join(OUT, f"{file or name}.gguf"), name.replace("_", ""))
    writer.add_name(f"palaver golden {name}")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(88 if name == "lfm2" else config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv([config.num_key_value_heads if kind == FULL else 0 for kind in config.layer_types])
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_shortconv_l_cache(config.conv_L_cache)
    if name == "lfm2_moe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_leading_dense_block_count(config.num_dense_layers)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
    for key, tensor in state.items():
        for to, value in gguf_tensors(key, tensor.float().numpy()) if key != "lm_head.weight" else ():
            half = value.ndim >= 2 and not any(part in to for part in ("norm", "shortconv.conv", "ffn_gate_inp"))
            writer.add_tensor(to, np.ascontiguousarray(value.astype(np.float16 if half and tensor.dtype == torch.float16
                                                                    else np.float32)))
    finish(writer)


def make_corpus():
    corpus = os.path.join(os.path.dirname(OUT), "..", "fuzz", "corpus")
    for name in ("lfm2", "lfm2-own", "lfm2_moe"):
        shutil.copyfile(os.path.join(OUT, name, "config.json"), os.path.join(corpus, "fuzz_config_json", name))
    writer = gguf.GGUFWriter(os.path.join(corpus, "fuzz_gguf", "lfm2.gguf"), "lfm2")
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_block_count(2)
    writer.add_feed_forward_length(8)
    writer.add_head_count(2)
    writer.add_head_count_kv([0, 1])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_shortconv_l_cache(3)
    both = {"attn_norm": (8,), "ffn_norm": (8,), "ffn_gate": (8, 8), "ffn_up": (8, 8), "ffn_down": (8, 8)}
    shapes = {"token_embd": (8, 8), "token_embd_norm": (8,)}
    for layer, own in enumerate(({"shortconv.in_proj": (24, 8), "shortconv.conv": (8, 3), "shortconv.out_proj": (8, 8)},
                                 {"attn_q": (8, 8), "attn_k": (4, 8), "attn_v": (4, 8), "attn_output": (8, 8), "attn_q_norm": (4,),
                                  "attn_k_norm": (4,)})):
        shapes.update({f"blk.{layer}.{name}": shape for name, shape in {**both, **own}.items()})
    rng = rng_of("small", "gguf")
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.standard_normal(shape).astype(np.float32))
    finish(writer)


def main():
    names = sys.argv[1:] or list(make_dense.MODELS)
    every = len(names) == len(make_dense.MODELS)
    if every:
        shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT, exist_ok=True)
    report = []
    for index, name in enumerate(make_dense.MODELS):
        if name not in names:
            continue
        config, _, state = make_dense.make_model(name, report, index)
        if name in ("lfm2", "lfm2_moe"):
            make_gguf(name, config, state)
        if name == "lfm2":
            make_gguf(name, config, state, "lfm2-fused")
        if name.endswith("-apart"):
            take_experts_apart(name)
    if every:
        make_corpus()
    with open(os.path.join(OUT, "PROVENANCE.txt"), "w") if every else sys.stdout as f:
        f.write(f"Made by tests/golden/make_convolution.py (seed {SEED}) with\n"
                f"Python {sys.version.split()[0]}, numpy {np.__version__}, torch {torch.__version__}, "
                f"transformers {transformers.__version__}, safetensors {safetensors.__version__}, gguf {gguf_version()}.\n"
                "Random weights, no one's data; what the files are is said at its top.\n" + "\n".join(report) + "\n")


if __name__ == "__main__":
    main()
