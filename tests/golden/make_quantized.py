#!/usr/bin/env python3
"""Small random models in the quantised formats of Hugging Face folders, with known logits, in tests/golden/quantized/.

Each folder is a model as its makers' tools would save it (config.json with quantization_config, safetensors with the
parts of each weight), with golden.json beside it. The weights are drawn at random, quantised to the nearest, and packed
here by the published descriptions: GPTQ as AutoGPTQ packs it (arXiv:2210.17323), AWQ as AutoAWQ's GEMM (arXiv:2306.00978),
FP8 as DeepSeek-V3 (arXiv:2412.19437) and fbgemm, compressed-tensors' pack-quantized, int-quantized and float-quantized,
bitsandbytes' int8 (arXiv:2208.07339) and nf4 (arXiv:2305.14314), MXFP4 as gpt-oss has it. The logits are transformers' in float32 with eager
attention over the numbers that the packed ones mean:

  exact  what the files mean
  held   where palaver holds a weight in a type that rounds it (engine/files/quantized/quantized.h says which), what that
         type means: minima in f16 (q4_1), f16
  made   of FP8 whose makers round what enters a layer as well: the same over rounded inputs, each a sum in float64 (the
         rule is in kernels/fp8.h; torch.float8_e4m3fn rounds)

usage: make_quantized.py   (needs numpy, torch, transformers, safetensors; writes PROVENANCE.txt, and the seeds of
tests/fuzz/corpus/fuzz_quantized)
"""
import json
import os
import shutil
import sys

import numpy as np
import safetensors
import torch
import transformers
from safetensors.torch import save_file

from make_models import BASE, load_model, load_model_skeleton, logits_of, make_config, random_weights, rng_of

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "quantized")
CORPUS = os.path.join(HERE, "..", "fuzz", "corpus", "fuzz_quantized")
N_TOKENS = 24

SMALL = dict(BASE, hidden_size=64, intermediate_size=96, num_hidden_layers=1, vocab_size=96, rope_theta=10000.0)
WIDE = dict(SMALL, hidden_size=128, intermediate_size=160)
LLAMA = dict(SMALL, model_type="llama")
WIDE_LLAMA = dict(WIDE, model_type="llama")
AWQ_NIBBLES = [0, 2, 4, 6, 1, 3, 5, 7]


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array))


def f16(array):
    return array.astype(np.float16).astype(np.float32)


def bf16(array):
    return tensor(array.astype(np.float32)).to(torch.bfloat16)


def pack(numbers, bits, axis):
    """Unsigned numbers of `bits` bits into int32, the first in the lowest bits, along `axis`, padded with zeros."""
    per = 32 // bits
    numbers = np.moveaxis(numbers, axis, -1).astype(np.uint32)
    numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % per)])
    words = np.zeros(numbers.shape[:-1] + (numbers.shape[-1] // per,), np.uint32)
    for i in range(per):
        words |= numbers[..., i::per] << np.uint32(bits * i)
    return np.moveaxis(words, -1, axis).view(np.int32)


def quantize(w, bits, groups, symmetric):
    """w [out, in], groups [in] → unsigned q [out, in], zero and scale [out, n_groups]; w ≈ (q - zero)·scale."""
    n, largest = groups.max() + 1, 2**bits - 1
    zero, scale = np.zeros((len(w), n), np.int64), np.zeros((len(w), n), np.float32)
    for g in range(n):
        part = w[:, groups == g]
        if symmetric:
            scale[:, g] = np.abs(part).max(1) / (largest / 2 - 0.5)
            zero[:, g] = 2**(bits - 1)
        else:
            low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
            scale[:, g] = (high - low) / largest
            zero[:, g] = np.clip(np.rint(-low / scale[:, g]), 1, largest)
    scale = f16(scale)
    q = np.clip(np.rint(w / scale[:, groups]) + zero[:, groups], 0, largest).astype(np.int64)
    return q, zero, scale


# ---- what palaver holds --------------------------------------------------------------------------------------------

def as_q4_1(q, zero, scale, groups):
    return (q * scale[:, groups] + f16(-zero * scale)[:, groups]).astype(np.float32)


# ---- methods: (name, w) → parts, exact, held ---------------------------------------------------------------------------

def groups_of(columns, size):
    return np.arange(columns) // (columns if size < 0 else size)


def integers(w, bits, size, symmetric, order=None, reordered=False):
    groups = groups_of(w.shape[1], size) if order is None else order
    q, zero, scale = quantize(w, bits, groups, symmetric)
    exact = ((q - zero[:, groups]) * scale[:, groups]).astype(np.float32)
    scattered = not reordered and any(len(set(groups[i:i + 32])) > 1 for i in range(0, len(groups), 32))
    if bits == 8:
        held = exact if symmetric and not scattered else f16(exact)
    elif scattered:
        held = f16(exact)
    else:
        held = exact if symmetric else as_q4_1(q, zero, scale, groups)
    return q, zero, scale, groups, exact, held


def input_of(name):
    """The weight's name without what tells it from others of the same input, whose Hessian orders their columns alike."""
    for part in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"):
        name = name.replace(part, "in")
    return name


def alone(name):
    """Whether the weight has its input for itself."""
    return "o_proj" in name or "down_proj" in name


def gptq(bits, size, symmetric=True, v2=False, act_order=False, alike=False):
    def method(name, w):
        order = None
        if act_order:
            order = rng_of(input_of(name) if alike else name, "order").permutation(groups_of(w.shape[1], size))
        q, zero, scale, groups, exact, held = integers(w, bits, size, symmetric, order, alike or alone(name))
        parts = {"qweight": tensor(pack(q.T, bits, 0)), "qzeros": tensor(pack(zero.T - (not v2), bits, 1)),
                 "scales": tensor(scale.T.astype(np.float16)), "g_idx": tensor(groups.astype(np.int32))}
        return parts, exact, held
    config = dict(quant_method="gptq", bits=bits, group_size=size, sym=symmetric, desc_act=act_order, damp_percent=0.1,
                  true_sequential=True, static_groups=False, lm_head=False,
                  checkpoint_format="gptq_v2" if v2 else "gptq", meta=dict(quantizer=["made up:1.0"]))
    return method, config


def awq(size):
    def method(name, w):
        q, zero, scale, _, exact, held = integers(w, 4, size, False)
        parts = {"qweight": tensor(pack(q.T.reshape(w.shape[1], -1, 8)[:, :, AWQ_NIBBLES].reshape(w.shape[1], -1), 4, 1)),
                 "qzeros": tensor(pack(zero.T.reshape(zero.shape[1], -1, 8)[:, :, AWQ_NIBBLES].reshape(zero.shape[1], -1), 4, 1)),
                 "scales": tensor(scale.T.astype(np.float16))}
        return parts, exact, held
    return method, dict(quant_method="awq", bits=4, group_size=size, zero_point=True, version="gemm",
                        modules_to_not_convert=["lm_head"])


def e4m3(w, scale):
    codes = tensor(np.clip(w / scale, -448, 448).astype(np.float32)).to(torch.float8_e4m3fn)
    exact = (codes.float().numpy() * scale).astype(np.float32)
    return codes, exact, exact


def fp8_tensor(name, w):
    scale = np.float32(np.abs(w).max() / 448)
    codes, exact, held = e4m3(w, scale)
    return {"weight": codes, "weight_scale_inv": torch.tensor(scale), "activation_scale": torch.tensor(0.02)}, exact, held


def fp8_channel(name, w):
    scale = (np.abs(w).max(1, keepdims=True) / 448).astype(np.float32)
    codes, exact, held = e4m3(w, scale)
    return {"weight": codes, "weight_scale": tensor(scale), "input_scale_ub": torch.tensor([1200.0])}, exact, held


def fp8_block(name, w):
    rows, cols = (-(-n // 128) for n in w.shape)
    scale = np.zeros((rows, cols), np.float32)
    for r in range(rows):
        for c in range(cols):
            scale[r, c] = np.abs(w[r * 128:(r + 1) * 128, c * 128:(c + 1) * 128]).max() / 448
    codes, exact, held = e4m3(w, np.kron(scale, np.ones((128, 128), np.float32))[:w.shape[0], :w.shape[1]])
    return {"weight": codes, "weight_scale_inv": tensor(scale)}, exact, held


def packed(bits, size, symmetric=True, act_order=False):
    def method(name, w):
        order = rng_of(name, "order").permutation(groups_of(w.shape[1], size)) if act_order else None
        q, zero, scale, groups, exact, held = integers(w, bits, size, symmetric, order, alone(name))
        parts = {"weight_packed": tensor(pack(q, bits, 1)), "weight_scale": tensor(scale.astype(np.float16)),
                 "weight_shape": torch.tensor(w.shape)}
        if not symmetric:
            parts["weight_zero_point"] = tensor(pack(zero, bits, 0))
        if act_order:
            parts["weight_g_idx"] = tensor(groups.astype(np.int32))
        return parts, exact, held
    weights = dict(num_bits=bits, type="int", symmetric=symmetric, strategy="channel" if size < 0 else "group",
                   group_size=None if size < 0 else size, dynamic=False, actorder="group" if act_order else None,
                   observer="minmax", observer_kwargs={}, block_structure=None)
    return method, compressed(weights, None, "pack-quantized")


def compressed(weights, inputs, form):
    return dict(quant_method="compressed-tensors", format=form, quantization_status="compressed", kv_cache_scheme=None,
                global_compression_ratio=1.5, ignore=["lm_head", "re:.*mlp.gate$"], sparsity_config={},
                config_groups=dict(group_0=dict(targets=["Linear"], weights=weights, input_activations=inputs,
                                                output_activations=None)))


def int8_channel(name, w):
    scale = bf16(np.abs(w).max(1, keepdims=True) / 127)
    q = np.clip(np.rint(w / scale.float().numpy()), -128, 127).astype(np.int8)
    exact = (q * scale.float().numpy()).astype(np.float32)
    return {"weight": tensor(q), "weight_scale": scale}, exact, (q * f16(scale.float().numpy())).astype(np.float32)


def fp8_compressed(name, w):
    scale = bf16(np.abs(w).max(1, keepdims=True) / 448)
    codes, exact, held = e4m3(w, scale.float().numpy())
    return {"weight": codes, "weight_scale": scale, "input_scale": torch.tensor([0.02])}, exact, held


def int8_rows(name, w):
    largest = np.abs(w).max(1).astype(np.float32)
    q = np.rint(w / largest[:, None] * 127).astype(np.int8)
    exact = (q * (largest[:, None] / 127)).astype(np.float32)
    held = (q * f16(largest * np.float32(1.0 / 127))[:, None]).astype(np.float32)
    return {"weight": tensor(q), "SCB": tensor(largest), "weight_format": torch.tensor(0, dtype=torch.uint8)}, exact, held


# arXiv:2305.14314, appendix E
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
                1.0], np.float32)


def nf4(double):
    def method(name, w):
        blocks = w.reshape(-1, 64)
        absmax = np.abs(blocks).max(1).astype(np.float32)
        parts = {}
        state = dict(quant_type="nf4", blocksize=64, dtype="bfloat16", shape=list(w.shape))
        if double: # codes of eight bits, here evenly spaced, with a scale for each 256 of them
            offset = float(absmax.mean())
            table = np.linspace(-1, 1, 256).astype(np.float32)
            centred = np.pad(absmax - np.float32(offset), (0, -len(absmax) % 256)).reshape(-1, 256)
            nested = np.abs(centred).max(1).astype(np.float32)
            codes = np.abs((centred / nested[:, None])[..., None] - table).argmin(-1)
            absmax = (table[codes] * nested[:, None] + np.float32(offset)).reshape(-1)[:len(absmax)].astype(np.float32)
            parts = {"weight.absmax": tensor(codes.reshape(-1)[:len(absmax)].astype(np.uint8)),
                     "weight.nested_absmax": tensor(nested), "weight.nested_quant_map": tensor(table)}
            state.update(nested_blocksize=256, nested_dtype="float32", nested_offset=offset)
        codes = np.abs((blocks / absmax[:, None])[..., None] - NF4).argmin(-1)
        exact = (NF4[codes] * absmax[:, None]).astype(np.float32).reshape(w.shape)
        flat = codes.reshape(-1).astype(np.uint8)
        parts = {"weight": tensor(flat[0::2] << 4 | flat[1::2]).reshape(-1, 1), "weight.absmax": tensor(absmax), **parts,
                 "weight.quant_map": tensor(NF4),
                 "weight.quant_state.bitsandbytes__nf4": tensor(np.frombuffer(json.dumps(state).encode(), np.uint8))}
        return parts, exact, exact if w.shape[1] % 64 == 0 else f16(exact)
    return method, dict(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=False, _load_in_4bit=True,
                        _load_in_8bit=False, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=double,
                        bnb_4bit_compute_dtype="bfloat16", bnb_4bit_quant_storage="uint8", llm_int8_threshold=6.0,
                        llm_int8_skip_modules=["lm_head"], llm_int8_has_fp16_weight=False,
                        llm_int8_enable_fp32_cpu_offload=False)


# OCP Microscaling Formats, version 1.0: e2m1, and a power of two for each 32 of them
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def mxfp4_experts(key, value):
    """Experts of gpt-oss [experts, in, out], packed along `in`; the rest stays as it is."""
    if "experts" not in key or key.endswith("bias"):
        return None
    w = value.swapaxes(1, 2).reshape(value.shape[0], value.shape[2], -1, 32)
    exponent = np.floor(np.log2(np.abs(w).max(-1, keepdims=True))) - 2
    codes = np.abs(np.abs(w / 2.0**exponent)[..., None] - E2M1).argmin(-1)
    exact = (np.where(w < 0, -1, 1) * E2M1[codes] * 2.0**exponent).astype(np.float32)
    codes = (codes + 8 * (w < 0)).astype(np.uint8)
    exact = exact.reshape(value.shape[0], value.shape[2], value.shape[1]).swapaxes(1, 2)
    return {key + "_blocks": tensor(codes[..., 0::2] | codes[..., 1::2] << 4),
            key + "_scales": tensor((exponent[..., 0] + 127).astype(np.uint8))}, exact, exact


def mixtral_experts(method, key, value):
    """Mixtral's experts one by one, as the original file has them, and its other layers."""
    if value.ndim == 2 and "self_attn" in key:
        stem = key.removesuffix("weight")
        parts, exact, held = method(key, value)
        return {stem + part: content for part, content in parts.items()}, exact, held
    if "experts" not in key:
        return None
    exact, held, parts = np.zeros_like(value, np.float32), np.zeros_like(value, np.float32), {}
    base = key.split("mlp.")[0] + "block_sparse_moe.experts"
    for expert, whole in enumerate(value):
        half = len(whole) // 2
        pieces = dict(w1=slice(0, half), w3=slice(half, None)) if "gate_up" in key else dict(w2=slice(None))
        for name, rows in pieces.items():
            some, exact[expert, rows], held[expert, rows] = method(key, whole[rows])
            parts.update({f"{base}.{expert}.{name}.{part}": content for part, content in some.items()})
    return parts, exact, held


def awq_experts(key, value):
    return mixtral_experts(awq(32)[0], key, value)


def fp8_experts(key, value):
    return mixtral_experts(fp8_block, key, value)


FP8 = dict(quant_method="fp8", activation_scheme="dynamic", fmt="e4m3")
DYNAMIC = dict(num_bits=8, type="int", symmetric=True, strategy="token", dynamic=True)
INT8 = dict(num_bits=8, type="int", symmetric=True, strategy="channel", dynamic=False)
FLOAT8 = dict(num_bits=8, type="float", symmetric=True, strategy="channel", dynamic=False)
# q, k, v in one tensor, and gate and up
PHI3 = dict(SMALL, model_type="phi3", num_key_value_heads=2, pad_token_id=0)
# q, k, v of each head in turn, biases
NEOX = dict(model_type="gpt_neox", hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=96,
            hidden_act="gelu", max_position_embeddings=256, rotary_pct=0.25, rotary_emb_base=10000, layer_norm_eps=1e-5,
            use_parallel_residual=True, tie_word_embeddings=False, vocab_size=96, bos_token_id=1, eos_token_id=2,
            torch_dtype="float32")

MIXTRAL = dict(LLAMA, model_type="mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None)
GPT_OSS = dict(SMALL, model_type="gpt_oss", num_local_experts=4, num_experts_per_tok=2, intermediate_size=32, head_dim=16,
               sliding_window=8, layer_types=["sliding_attention"], swiglu_limit=7.0, attention_bias=True,
               rope_parameters=dict(rope_type="default", rope_theta=150000.0))
GPT_OSS.pop("rope_theta")

MODELS = {
    "gptq-g128": (dict(WIDE_LLAMA, intermediate_size=256), gptq(4, 128)),
    "gptq-asym-g32": (PHI3, gptq(4, 32, symmetric=False)),
    "gptq-act-order": (LLAMA, gptq(4, 32, act_order=True)),
    "gptq-act-order-alike": (dict(WIDE_LLAMA, intermediate_size=160), gptq(4, 32, act_order=True, alike=True)),
    "gptq-act-order-asym": (LLAMA, gptq(4, 32, symmetric=False, act_order=True, alike=True)),
    "gptq-v2": (LLAMA, gptq(4, -1, symmetric=False, v2=True)),
    "gptq-int8": (NEOX, gptq(8, 64)),
    "gptq-int8-asym": (LLAMA, gptq(8, -1, symmetric=False)),
    "awq": (LLAMA, awq(32)),
    "fp8-tensor": (LLAMA, (fp8_tensor, dict(FP8, activation_scheme="static", modules_to_not_convert=["lm_head"]))),
    "fp8-channel": (LLAMA, (fp8_channel, dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0,
                                              modules_to_not_convert=["lm_head"]))),
    "fp8-block": (WIDE_LLAMA, (fp8_block, dict(FP8, weight_block_size=[128, 128]))),
    "fp8-powers": (WIDE_LLAMA, (fp8_block, dict(FP8, weight_block_size=[128, 128], scale_fmt="ue8m0"))),
    "ct-int4": (LLAMA, packed(4, 32)),
    "ct-int4-asym": (LLAMA, packed(4, -1, symmetric=False)),
    "ct-int4-order": (LLAMA, packed(4, 32, act_order=True)),
    "ct-int8-packed": (LLAMA, packed(8, 32)),
    "ct-int8": (LLAMA, (int8_channel, compressed(INT8, DYNAMIC, "int-quantized"))),
    "ct-fp8": (LLAMA, (fp8_compressed, compressed(FLOAT8, dict(DYNAMIC, type="float"), "float-quantized"))),
    "bnb-nf4": (LLAMA, nf4(False)),
    "bnb-nf4-double": (dict(WIDE_LLAMA, intermediate_size=192), nf4(True)),
    "bnb-int8": (LLAMA, (int8_rows, dict(quant_method="bitsandbytes", load_in_8bit=True, load_in_4bit=False,
                                         llm_int8_threshold=6.0, llm_int8_skip_modules=None))),
    "awq-experts": (MIXTRAL, (awq_experts, dict(awq(32)[1], modules_to_not_convert=["gate", "lm_head"]))),
    "fp8-experts": (MIXTRAL, (fp8_experts, dict(FP8, weight_block_size=[128, 128],
                                                modules_to_not_convert=["gate", "lm_head"]))),
    "mxfp4": (GPT_OSS, (mxfp4_experts, dict(quant_method="mxfp4", modules_to_not_convert=[
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]))),
}
# How inputs are rounded, and by which fixed scale.
MADE = {"fp8-tensor": ("rows", 0.02), "fp8-channel": ("rows", 0), "fp8-block": ("groups", 0), "fp8-powers": ("powers", 0),
        "ct-fp8": ("rows", 0), "fp8-experts": ("groups", 0)}
WHOLE = (awq_experts, fp8_experts, mxfp4_experts) # methods that choose what to quantise, and name the parts, themselves


def is_linear(key, value):
    return value.ndim == 2 and not any(part in key for part in ("embed", "lm_head"))


def round_inputs(x, how, fixed):
    """x [..., columns] as e4m3 times scales: of rows ("rows"), of 128 columns ("groups", "powers": with powers of two)."""
    size = x.shape[-1] if how == "rows" or fixed else 128
    out = []
    for part in x.split(size, -1):
        scale = part.abs().amax(-1, keepdim=True) / 448 if not fixed else torch.full_like(part[..., :1], fixed)
        if how == "powers" and not fixed:
            scale = torch.exp2(torch.ceil(torch.log2(scale)))
        out.append((part / scale).clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype) * scale)
    return torch.cat(out, -1)


class RoundedInputs:
    """While it is entered, linear layers with a weight of the model that is quantised round their inputs."""

    def __init__(self, model, quantised, how, fixed):
        model.config._experts_implementation = "eager" # which is linear layers
        self.how, self.fixed, self.linear = how, fixed, torch.nn.functional.linear
        self.places = {p.untyped_storage().data_ptr() for n, p in model.named_parameters() if n in quantised}

    def __enter__(self):
        def linear(x, w, bias=None):
            if w.untyped_storage().data_ptr() not in self.places:
                return self.linear(x, w, bias)
            self.met.add(w.untyped_storage().data_ptr())
            return self.linear(round_inputs(x, self.how, self.fixed).double(), w.double()).to(x.dtype)
        self.met = set()
        torch.nn.functional.linear = linear
        return self

    def __exit__(self, *_):
        torch.nn.functional.linear = self.linear
        assert self.met >= self.places, "a quantised layer was not met"


def write_case(folder, name, config, state, ids, cases, rounding=None):
    model = load_model(config, state)
    if rounding:
        with RoundedInputs(model, *rounding):
            logits = logits_of(model, ids, list(range(len(ids))))
    else:
        logits = logits_of(model, ids, list(range(len(ids))))
    logits.astype("<f4").tofile(os.path.join(folder, f"{name}.logits"))
    cases.append({"name": name, "ids": ids, "positions": list(range(len(ids))), "from": 0, "logits": f"{name}.logits"})
    return logits


def make(name, config_dict, method, quantization, report):
    folder = os.path.join(OUT, name)
    os.makedirs(folder)
    config = make_config(config_dict)
    saved, exact, held, quantised = {}, {}, {}, set()
    for key, value in random_weights(load_model_skeleton(config), name).items():
        if method in WHOLE:
            made = method(key, value.double().numpy())
            if made:
                saved.update({part: content.clone().contiguous() for part, content in made[0].items()})
                quantised.add(key)
                exact[key], held[key] = tensor(made[1]), tensor(made[2])
                continue
        if method in WHOLE or not is_linear(key, value):
            name_in_file = key.replace("mlp.gate.", "block_sparse_moe.gate.") if method in (awq_experts, fp8_experts) else key
            saved[name_in_file] = value.to(torch.float16).contiguous()
            exact[key] = held[key] = saved[name_in_file].float()
            continue
        stem = key.removesuffix("weight")
        quantised.add(key)
        parts, means, rounded = method(name + key, value.double().numpy())
        saved.update({stem + part: content.clone().contiguous() for part, content in parts.items()})
        exact[key], held[key] = tensor(means), tensor(rounded)
    save_file(saved, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({**config_dict, "torch_dtype": "float16", "quantization_config": quantization}, f, indent=1)
    ids, cases = [1] + rng_of(name, "prompt").integers(4, config.vocab_size, N_TOKENS - 1).tolist(), []
    right = write_case(folder, "exact", config, exact, ids, cases)
    line = f"{name}: |logits| <= {np.abs(right).max():.3f}"
    if any(not torch.equal(exact[key], held[key]) for key in exact):
        near = write_case(folder, "held", config, held, ids, cases)
        line += f"; as they are held they are off by {np.abs(near - right).max() / np.abs(right).max():.1e}"
    if name in MADE:
        rounding = ({key for key in exact if key in quantised}, *MADE[name])
        near = write_case(folder, "made", config, exact, ids, cases, rounding)
        line += f"; with inputs in FP8 they are off by {np.abs(near - right).max() / np.abs(right).max():.1e}"
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump(dict(vocab_size=config.vocab_size, cases=cases), f)
    report.append(line)
    write_seed(name, saved, quantization)


def write_seed(name, saved, quantization):
    """The config's length in two bytes, the config, and one quantised weight, with the shapes that the model has."""
    part = next(key for key in saved if "layers.0" in key and key.split(".")[-1] in
                ("qweight", "weight_packed", "weight_scale", "weight_scale_inv", "SCB", "absmax", "down_proj_blocks"))
    stem = part.split(".weight.absmax")[0].rsplit("." + part.split(".")[-1], 1)[0] if "_blocks" not in part else part[:-7]
    one = {key: value for key, value in saved.items() if key.startswith((stem + ".", stem + "_blocks", stem + "_scales"))}
    config = json.dumps({"quantization_config": quantization}).encode()
    with open(os.path.join(CORPUS, name), "wb") as f:
        f.write(len(config).to_bytes(2, "little") + config + safetensors.torch.save(one))


def main():
    for folder in (OUT, CORPUS):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    torch.set_num_threads(1)
    report = []
    for name, (config_dict, (method, quantization)) in MODELS.items():
        make(name, config_dict, method, quantization, report)
    with open(os.path.join(OUT, "PROVENANCE.txt"), "w") as f:
        f.write(f"Made by tests/golden/make_quantized.py with\nPython {sys.version.split()[0]}, numpy {np.__version__}, "
                f"torch {torch.__version__}, transformers {transformers.__version__}, safetensors "
                f"{safetensors.__version__}.\nRandom weights, no one's data; what the files are is said at its top.\n"
                "Relative to the largest logit:\n" + "".join(f"  {line}\n" for line in report))


if __name__ == "__main__":
    main()
