#!/usr/bin/env python3
"""Small random models of architectures other than LLaMA's family, and of rotary frequencies that go by the length of the
text, with known logits, in tests/golden/architectures/.

As in make_models.py, whose helpers this uses: each folder is a Hugging Face model with golden.json beside it, cases of
token ids and positions with the logits of transformers in float32 and eager attention. NAME.gguf has the same weights,
written with the gguf package under the names and in the order of llama.cpp's converter (q, k and v of GPT-NeoX and BLOOM
one after the other instead of head by head; LongRoPE's factors as tensors).

Cases: "prompt" at positions 0, 1, 2, …; "far" and "gap" elsewhere, so that positions are seen to be used:
  RoPE      at 40,000 and from 0 to 40,000, with angles computed in float64 as make_models.py does
  learned   at the last positions there are
  by length "short" is the beginning of the prompt, as long as the trained context; the prompt is longer; "between" and
            "longer" are beginnings of lengths between (dynamic NTK, whose frequencies change with every token)
  ALiBi     far: biases do not change with the place, so it has the prompt's logits; gap: half the tokens 200 further
            on, the model's own biases replaced by slope·(position − last position), in float64

It adds seeds of the same kinds to tests/fuzz/corpus/: run it after make_models.py, which empties those folders.
usage: make_architectures.py   (needs numpy, torch, transformers, safetensors, gguf; writes PROVENANCE.txt)
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
from transformers import AutoModelForCausalLM

from make_models import (FAR, N_TOKENS, SEED, finish, gguf_version, load_model, load_model_skeleton, make_config, rng_of)

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "architectures")
IDS = dict(vocab_size=128, bos_token_id=1, eos_token_id=2)

# name: config.json; the first ones as files of transformers 4 have them, gpt_neox-sequential as those of 5
MODELS = {
    "gptj": dict(model_type="gptj", n_embd=32, n_layer=2, n_head=2, n_inner=None, n_positions=256, rotary_dim=8,
                 activation_function="gelu_new", layer_norm_epsilon=1e-5, tie_word_embeddings=False, **IDS),
    "gpt_neox": dict(model_type="gpt_neox", hidden_size=48, num_hidden_layers=2, num_attention_heads=3,
                     intermediate_size=80, hidden_act="gelu", max_position_embeddings=256, rotary_pct=0.25,
                     rotary_emb_base=10000, layer_norm_eps=1e-5, use_parallel_residual=True,
                     tie_word_embeddings=False, **IDS),
    "gpt_neox-sequential": dict(model_type="gpt_neox", hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
                                intermediate_size=96, hidden_act="gelu_fast", max_position_embeddings=256,
                                rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=20000.0,
                                                     partial_rotary_factor=0.5),
                                layer_norm_eps=1e-5, use_parallel_residual=False, attention_bias=False,
                                tie_word_embeddings=True, **IDS),
    "opt": dict(model_type="opt", hidden_size=48, num_hidden_layers=2, num_attention_heads=4, ffn_dim=72,
                max_position_embeddings=128, activation_function="relu", do_layer_norm_before=True,
                word_embed_proj_dim=48, torch_dtype="float16", **IDS),
    "bloom": dict(model_type="bloom", n_embed=48, n_layer=2, num_attention_heads=6, n_inner=None, seq_length=256,
                  layer_norm_epsilon=1e-5, apply_residual_connection_post_layernorm=False, **IDS),
    "mpt": dict(model_type="mpt", d_model=32, n_layers=2, n_heads=4, max_seq_len=256, expansion_ratio=4,
                layer_norm_epsilon=1e-5, no_bias=True, learned_pos_emb=True,
                attn_config=dict(alibi=True, alibi_bias_max=8, attn_type="multihead_attention", clip_qkv=None,
                                 qk_ln=False, prefix_lm=False, softmax_scale=None), **IDS),
    "phi3": dict(model_type="phi3", hidden_size=48, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
                 intermediate_size=40, hidden_act="silu", max_position_embeddings=96, original_max_position_embeddings=24,
                 rms_norm_eps=1e-5, rope_theta=10000.0, partial_rotary_factor=0.75, sliding_window=None,
                 rope_scaling=dict(type="longrope", short_factor=[1.0, 1.05, 1.1, 1.2, 1.5, 1.9],
                                   long_factor=[1.1, 1.6, 2.9, 4.3, 5.1, 6.7]),
                 tie_word_embeddings=False, pad_token_id=0, **IDS),
    "llama-dynamic": dict(model_type="llama", hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                          num_key_value_heads=2, intermediate_size=40, hidden_act="silu", max_position_embeddings=20,
                          rms_norm_eps=1e-5, rope_theta=10000.0, rope_scaling=dict(type="dynamic", factor=4.0),
                          tie_word_embeddings=True, **IDS),
}
BY_LENGTH = {"phi3": 24, "llama-dynamic": 20} # the trained context
BETWEEN = {"between": 27, "longer": 33}
ALIBI_GAP = 200


def logits_of(model, ids, positions):
    """positions None: the model is not asked for any."""
    where = {} if positions is None else dict(position_ids=torch.tensor([positions]))
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False, attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                     **where).logits[0].float().numpy()


def random_weights(model, name):
    """Far from a fresh model's: attention is not uniform, and every part shows in the logits."""
    state = {}
    for key, tensor in model.state_dict().items():
        rng, shape = rng_of(name, key), tuple(tensor.shape)
        value = rng.standard_normal(shape)
        if key.endswith("bias"):
            value *= 0.5
        elif "norm" in key or "ln_" in key:
            value = 1 + 0.3 * value
        elif "embed_positions" in key:
            value *= 0.7
        elif not any(part in key for part in ("embed", "wte")):
            gain = 2 if any(part in key for part in ("q_proj", "k_proj", "query_key_value", "Wqkv", "qkv_proj")) else 1
            value *= gain / math.sqrt(shape[1])
        state[key] = torch.from_numpy(value.astype(np.float32))
    if model.config.tie_word_embeddings:
        pointer = model.get_output_embeddings().weight.data_ptr()
        embedding = next(key for key, value in model.state_dict().items() if value.data_ptr() == pointer)
        state["lm_head.weight"] = state[embedding]
    return state


# ---- positions ---------------------------------------------------------------------------------------------------

def rotary_angles(config, positions):
    """[n, rotary_dim/2] in float64."""
    if config.model_type == "gptj":
        dim, base, factor = config.rotary_dim, 10000.0, 1.0
    elif config.model_type == "phi3": # beyond its trained context
        rope = config.rope_parameters
        dim, base, factor = 2 * len(rope["long_factor"]), rope["rope_theta"], np.array(rope["long_factor"])
    else:
        rope = config.rope_parameters
        dim = int(config.hidden_size // config.num_attention_heads * rope["partial_rotary_factor"])
        base, factor = rope["rope_theta"], rope.get("factor", 1.0)
    return np.asarray(positions, dtype=np.float64)[:, None] * base ** (-np.arange(0, dim, 2) / dim) / factor


def with_exact_rope(model, positions, compute):
    angles = rotary_angles(model.config, positions)
    if model.config.model_type == "gptj":
        table = torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], axis=1)).float()
        held = [block.attn._get_embed_positions for block in model.transformer.h]
        for block in model.transformer.h: # it is asked for rows by position
            block.attn._get_embed_positions = lambda ids: torch.zeros(1, max(positions) + 1, table.shape[1]).index_copy(
                1, ids[0], table[None])
        logits = compute()
        for block, method in zip(model.transformer.h, held):
            block.attn._get_embed_positions = method
        return logits
    body, both = model.gpt_neox if model.config.model_type == "gpt_neox" else model.model, np.concatenate([angles, angles], axis=1)
    rope = body.rotary_emb
    body.rotary_emb = Constant(tuple(torch.from_numpy(part * rope.attention_scaling).float()[None]
                                     for part in (np.cos(both), np.sin(both))))
    logits = compute()
    body.rotary_emb = rope
    return logits


class Constant(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        self.values = values

    def forward(self, *_, **__):
        return self.values


def alibi_slopes(n_heads):
    """Press et al., arXiv:2108.12409, as its authors extend it to numbers that are no powers of two."""
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return slopes + [2 ** (-4 * (2 * i + 1) / power) for i in range(n_heads - power)]


def with_alibi(model, positions, ids):
    """In float64, with biases by position; relative to the last one, so that softmax in float32 loses nothing."""
    away = torch.tensor([p - positions[-1] for p in positions], dtype=torch.float64)
    bias = torch.tensor(alibi_slopes(model.config.num_attention_heads), dtype=torch.float64)[:, None, None] * away
    body, kind = model.transformer, model.config.model_type
    setattr(body, "build_alibi_tensor" if kind == "bloom" else "build_mpt_alibi_tensor", lambda *_, **__: bias)
    model.double()
    logits = logits_of(model, ids, None)
    model.float()
    delattr(body, "build_alibi_tensor" if kind == "bloom" else "build_mpt_alibi_tensor")
    return logits


def make_cases(model, ids, trained):
    """[(name, positions, first compared, logits)]; trained: the context that frequencies go by, or None"""
    kind, near, half = model.config.model_type, list(range(N_TOKENS)), N_TOKENS // 2
    if kind in ("bloom", "mpt"):
        plain = logits_of(model, ids, None)
        check = np.abs(with_alibi(model, near, ids) - plain).max() / np.abs(plain).max()
        assert check < 3e-6, f"slopes are off: {check}"
        gap = near[:half] + [ALIBI_GAP + p for p in near[half:]]
        return [("prompt", near, 0, plain), ("far", [FAR + p for p in near], half, plain[half:]),
                ("gap", gap, half, with_alibi(model, gap, ids)[half:])]
    # Before the prompt: once it was beyond its trained context, transformers keeps dynamic NTK's frequencies there.
    short = [] if trained is None else [("short", near[:trained], 0, logits_of(model, ids[:trained], near[:trained]))]
    if kind == "llama":
        short += [(name, near[:n], 0, logits_of(model, ids[:n], near[:n])) for name, n in BETWEEN.items()]
    cases = [("prompt", near, 0, logits_of(model, ids, near))] + short
    if kind == "llama":
        return cases
    if kind == "opt":
        end = model.config.max_position_embeddings
        far = list(range(end - N_TOKENS, end))
        return cases + [("far", far, half, logits_of(model, ids, far)[half:])]
    for name, where in (("far", [FAR + p for p in near]), ("gap", near[:half] + [FAR + p for p in near[:half]])):
        if name == "gap" and short:
            continue # four cases would not differ in more
        run = lambda: logits_of(model, ids, where)
        cases.append((name, where, half, with_exact_rope(model, where, run)[half:]))
    return cases


# ---- files -------------------------------------------------------------------------------------------------------

def make_model(name, config_dict, report):
    folder = os.path.join(OUT, name)
    os.makedirs(folder)
    config = make_config(config_dict)
    dtype = getattr(torch, config_dict.get("torch_dtype", "float32"))
    state = {key: value.to(dtype).contiguous() for key, value in random_weights(load_model_skeleton(config), name).items()}
    model = load_model(config, state)
    saved = dict(state)
    if config.tie_word_embeddings:
        del saved["lm_head.weight"]
    if name == "gpt_neox": # as EleutherAI's files are; transformers 5 calls it lm_head itself
        saved["embed_out.weight"] = saved.pop("lm_head.weight")
    if name == "bloom": # as BigScience's files are, saved without the head
        saved = {key.removeprefix("transformer."): value for key, value in saved.items()}
    save_file(saved, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"architectures": [type(model).__name__], **config_dict}, f, indent=1)
    ids = [1] + rng_of(name, "prompt").integers(4, config.vocab_size, N_TOKENS - 1).tolist()
    cases = make_cases(model, ids, BY_LENGTH.get(name))
    for case, _, _, logits in cases:
        logits.astype("<f4").tofile(os.path.join(folder, f"{case}.logits"))
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump(dict(vocab_size=config.vocab_size, cases=[
            dict(name=case, ids=ids[:len(where)], positions=where, logits=f"{case}.logits", **{"from": first})
            for case, where, first, _ in cases]), f)
    # The files as they lie there, read again by transformers, give the same logits.
    again = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    plain = cases[0][3]
    assert np.array_equal(logits_of(again, ids, cases[0][1] if config.model_type not in ("bloom", "mpt") else None), plain), name
    moved = [f"{case} moves them by {np.abs(logits - plain[first:len(where)]).max() / np.abs(plain).max():.2g}"
             for case, where, first, logits in cases[1:]]
    report.append(f"{name}: |logits| <= {np.abs(plain).max():.3f}; " + ", ".join(moved))
    return config, state


GGUF_NAMES = {
    "phi3": ("model.layers.", {
        "input_layernorm": "attn_norm", "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}, {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}),
    "gpt_neox": ("gpt_neox.layers.", {
        "input_layernorm": "attn_norm", "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
        "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}, {
        "gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "lm_head": "output"}),
    "bloom": ("transformer.h.", {
        "input_layernorm": "attn_norm", "self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
        "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}, {
        "transformer.word_embeddings": "token_embd", "transformer.word_embeddings_layernorm": "token_embd_norm",
        "transformer.ln_f": "output_norm"}),
    "mpt": ("transformer.blocks.", {
        "norm_1": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output", "norm_2": "ffn_norm",
        "ffn.up_proj": "ffn_up", "ffn.down_proj": "ffn_down"}, {
        "transformer.wte": "token_embd", "transformer.norm_f": "output_norm"}),
}


def gguf_tensor(config, key):
    """The name; None for a head that is tied."""
    prefix, of_layer, of_model = GGUF_NAMES[config.model_type]
    stem, kind = key.rsplit(".", 1)
    if key.startswith(prefix):
        layer, rest = stem[len(prefix):].split(".", 1)
        return f"blk.{layer}.{of_layer[rest]}.{kind}"
    return f"{of_model[stem]}.{kind}" if stem in of_model else None


def qkv_by_part(value, n_heads):
    """[heads, 3, head_dim, …] to [3, heads, head_dim, …]"""
    return value.reshape(n_heads, 3, -1, *value.shape[1:]).swapaxes(0, 1).reshape(value.shape)


def add_phi3(writer, config):
    rope, original = config.rope_parameters, config.original_max_position_embeddings
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(2 * len(rope["long_factor"]))
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_scaling_orig_ctx_len(original)
    writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(config.max_position_embeddings / original) / math.log(original)))
    writer.add_sliding_window(0)
    for length in ("long", "short"):
        writer.add_tensor(f"rope_factors_{length}.weight", np.array(rope[f"{length}_factor"], dtype=np.float32))


def make_gguf(name, path, config, state):
    kind = config.model_type
    writer = gguf.GGUFWriter(path, {"gpt_neox": "gptneox"}.get(kind, kind))
    writer.add_name(f"palaver golden {name}")
    writer.add_context_length(config.max_position_embeddings if kind == "phi3" else 256)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size if kind in ("gpt_neox", "phi3") else 4 * config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if kind == "phi3":
        add_phi3(writer, config)
    else:
        writer.add_layer_norm_eps(1e-5)
    if kind == "gpt_neox":
        head = config.hidden_size // config.num_attention_heads
        writer.add_rope_dimension_count(int(config.rope_parameters["partial_rotary_factor"] * head))
        writer.add_parallel_residual(config.use_parallel_residual)
    if kind == "mpt":
        writer.add_max_alibi_bias(8.0)
    for key, tensor in state.items():
        to, value = gguf_tensor(config, key), tensor.float().numpy()
        if to is None or (key == "lm_head.weight" and config.tie_word_embeddings):
            continue
        if "query_key_value" in key:
            value = qkv_by_part(value, config.num_attention_heads)
        writer.add_tensor(to, np.ascontiguousarray(value))
    finish(writer)


CORPUS = os.path.join(os.path.dirname(OUT), "..", "fuzz", "corpus")


def make_corpus():
    for name in MODELS:
        shutil.copyfile(os.path.join(OUT, name, "config.json"), os.path.join(CORPUS, "fuzz_config_json", name))
    for name in ("gpt_neox", "bloom"):
        tiny = dict(MODELS[name], vocab_size=4)
        tiny.update(dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, rotary_pct=0.5)
                    if name == "gpt_neox" else dict(n_embed=12, n_layer=1, num_attention_heads=3))
        config = make_config(tiny)
        state = random_weights(load_model_skeleton(config), f"tiny {name}")
        make_gguf(f"tiny {name}", os.path.join(CORPUS, "fuzz_gguf", f"{name}.gguf"), config, state)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    transformers.logging.set_verbosity_error()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    report = []
    for name, config_dict in MODELS.items():
        config, state = make_model(name, config_dict, report)
        if name in GGUF_NAMES: # of each kind one
            make_gguf(name, os.path.join(OUT, f"{name}.gguf"), config, state)
    make_corpus()
    with open(os.path.join(OUT, "PROVENANCE.txt"), "w") as f:
        f.write("Made by tests/golden/make_architectures.py (seed %d) with\nPython %s, numpy %s, torch %s, transformers %s, "
                "safetensors %s, gguf %s.\nRandom weights, no one's data; what the files are is said at its top.\n"
                "Relative to the largest logit:\n  %s\n"
                % (SEED, sys.version.split()[0], np.__version__, torch.__version__, transformers.__version__,
                   safetensors.__version__, gguf_version(), "\n  ".join(report)))
    print(open(os.path.join(OUT, "PROVENANCE.txt")).read())


if __name__ == "__main__":
    main()
