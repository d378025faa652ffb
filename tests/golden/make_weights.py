#!/usr/bin/env python3
"""What a LLaMA in float64 makes of tests/golden/models/quants.gguf with its linear layers converted, in
tests/golden/weights/.

CASE/golden.json, prompt.logits: the logits of the last tokens of the prompt of models/quants, as make_models.py writes
them. CASE is f16, bf16, int8, int4 or int8-head (the output matrix in 8 bits as well). The file's values are
gguf.quants'; they are rounded by numpy, and so are the activations that meet 8-bit weights (float32 arithmetic there,
as kernels/w8.h asks). All else is numpy in float64, by the formulas: no line of it is palaver's, nor any framework's.

q4.bin: groups of 32 float32 as random numbers have them, and the 18 bytes of the Q4_0 block that the search of
kernels/cpu/loops/convert.c should find, here in float32 and in the same order of sums.

usage: make_weights.py   (needs numpy, gguf; writes weights/PROVENANCE.txt)
"""
import importlib.metadata
import json
import pathlib
import platform
import shutil

import gguf
import numpy as np

from make_w8 import quantize

HERE = pathlib.Path(__file__).parent
OUT = HERE / "weights"
FILE = HERE / "models" / "quants.gguf"
FROM = 24  # the first position whose logits are kept
F32 = np.float32
LINEAR = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


# ---- the types ------------------------------------------------------------------------------------------

def to_f16(w):
    return w.astype(np.float16).astype(np.float64)


def to_bf16(w):
    bits = np.ascontiguousarray(w, F32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return rounded.astype(np.uint32).view(F32).astype(np.float64)


class Int8:
    """Rows as integers with a scale each; what meets them becomes such rows as well."""

    def __init__(self, w):
        self.q, self.scale = zip(*(quantize(row.astype(F32)) for row in w))
        self.q = np.array(self.q, np.int64)
        self.scale = np.array(self.scale, np.float64)

    def times(self, x):
        q, scale = zip(*(quantize(row.astype(F32)) for row in x))
        acc = np.array(q, np.int64) @ self.q.T
        return acc * np.array(scale, np.float64)[:, None] * self.scale


def nearest(x, inverse):
    return np.clip(np.rint((x * inverse).astype(F32)), -8, 7).astype(F32)


def q4_blocks(x):
    """[n, 32] float32 → (scales [n] float16, q [n, 32]): the search that convert.c tells of."""
    n = len(x)
    extreme = x[np.arange(n), np.abs(x).argmax(1)]
    steps = -(F32(7) + F32(0.125) * np.arange(16, dtype=F32))
    with np.errstate(divide="ignore", invalid="ignore"):
        inverses = (steps / extreme[:, None]).astype(F32)
        products, squares = np.zeros((n, 16), F32), np.zeros((n, 16), F32)
        for i in range(32):
            q = nearest(x[:, i : i + 1], inverses)
            products = (products + (x[:, i : i + 1] * q).astype(F32)).astype(F32)
            squares = (squares + q * q).astype(F32)
        best = np.zeros(n, int)
        row = np.arange(n)
        for k in range(1, 16):
            here = (products[row, k] * products[row, k]).astype(F32) * squares[row, best]
            there = (products[row, best] * products[row, best]).astype(F32) * squares[row, k]
            best = np.where(here.astype(F32) > there.astype(F32), k, best)
        fitted = (products[row, best] / squares[row, best]).astype(np.float16)
        usual = (extreme / F32(-8)).astype(np.float16)
        take = error(x, fitted) < error(x, usual)
        scale = np.where(take, fitted, usual)
        scale = np.where(np.abs(extreme) >= F32(2.0**-24), scale, np.float16(0))
        return scale, integers(x, scale)


def integers(x, scale):
    wide = scale.astype(F32)
    with np.errstate(divide="ignore"):
        inverse = np.where(wide == 0, F32(0), F32(1) / wide).astype(F32)
    return nearest(x, inverse[:, None])


def error(x, scale):
    """In lanes of eight, then these from the first to the last."""
    difference = (x - (scale.astype(F32)[:, None] * integers(x, scale)).astype(F32)).astype(F32)
    squared = (difference * difference).astype(F32)
    lanes, total = np.zeros((len(x), 8), F32), np.zeros(len(x), F32)
    for i in range(0, 32, 8):
        lanes = (lanes + squared[:, i : i + 8]).astype(F32)
    for lane in range(8):
        total = (total + lanes[:, lane]).astype(F32)
    return total


def to_int4(w):
    scale, q = q4_blocks(w.astype(F32).reshape(-1, 32))
    return (scale.astype(np.float64)[:, None] * q.astype(np.float64)).reshape(w.shape)


TYPES = {"f16": to_f16, "bf16": to_bf16, "int8": Int8, "int4": to_int4}


# ---- the model ------------------------------------------------------------------------------------------

def read_model():
    reader = gguf.GGUFReader(FILE)
    fields = {key: field.contents() for key, field in reader.fields.items() if key.startswith("llama.")}
    weights = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}
    return fields, weights


def times(w, x):
    return w.times(x) if isinstance(w, Int8) else x @ w.T


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def turned(x, positions, base):
    """Rotary embedding of neighbouring pairs. x [tokens, heads, head_dim]"""
    size = x.shape[-1]
    angles = positions[:, None] * base ** (-np.arange(0, size, 2) / size)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def attention(q, k, v):
    tokens, heads, size = q.shape
    share = heads // k.shape[1]
    out = np.empty_like(q)
    for h in range(heads):
        scores = q[:, h] @ k[:, h // share].T / np.sqrt(size)
        scores[np.triu_indices(tokens, 1)] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, h] = p / p.sum(-1, keepdims=True) @ v[:, h // share]
    return out.reshape(tokens, -1)


def logits_of(fields, w, ids):
    heads, kv_heads = fields["llama.attention.head_count"], fields["llama.attention.head_count_kv"]
    eps, base = fields["llama.attention.layer_norm_rms_epsilon"], fields["llama.rope.freq_base"]
    positions = np.arange(len(ids), dtype=np.float64)
    x = w["token_embd.weight"][ids]
    for layer in range(fields["llama.block_count"]):
        part = {name: w[f"blk.{layer}.{name}.weight"] for name in [*LINEAR, "attn_norm", "ffn_norm"]}
        h = norm(x, part["attn_norm"], eps)
        q, k, v = (times(part[name], h).reshape(len(ids), n, -1)
                   for name, n in (("attn_q", heads), ("attn_k", kv_heads), ("attn_v", kv_heads)))
        y = attention(turned(q, positions, base), turned(k, positions, base), v)
        x = x + times(part["attn_output"], y)
        h = norm(x, part["ffn_norm"], eps)
        gate = times(part["ffn_gate"], h)
        x = x + times(part["ffn_down"], gate / (1 + np.exp(-gate)) * times(part["ffn_up"], h))
    return times(w["output.weight"], norm(x, w["output_norm.weight"], eps))


def convert(weights, case):
    kind = TYPES[case.removesuffix("-head")]
    return {name: kind(value) if name.split(".")[-2] in LINEAR or (case.endswith("-head") and name == "output.weight")
            else value for name, value in weights.items()}


# ---- files ----------------------------------------------------------------------------------------------

def write_groups():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((400, 32)).astype(F32)
    x[100:200] *= (10 ** rng.uniform(-7, 5, 100)).astype(F32)[:, None]
    x[200:300] = rng.standard_t(2, (100, 32)).astype(F32)  # outliers
    x[300] = 0
    x[301] = 1e-9
    x[302] = F32(7) * np.arange(32, dtype=F32)
    scale, q = q4_blocks(x)
    stored = (q + 8).astype(np.uint8)
    blocks = np.concatenate([scale.view(np.uint8).reshape(-1, 2), stored[:, :16] | stored[:, 16:] << 4], 1)
    (OUT / "q4.bin").write_bytes(b"".join(row.tobytes() + block.tobytes() for row, block in zip(x, blocks)))


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    fields, weights = read_model()
    prompt = json.loads((HERE / "models" / "quants" / "golden.json").read_text())
    case = prompt["cases"][0]
    plain = logits_of(fields, weights, case["ids"])
    stored = np.fromfile(HERE / "models" / "quants" / "prompt.logits", "<f4").reshape(plain.shape)
    lines = [f"as the file has them: {np.abs(plain - stored).max() / np.abs(stored).max():.1e} from transformers"]
    for name in [*TYPES, "int8-head"]:
        logits = logits_of(fields, convert(weights, name), case["ids"])
        lines.append(f"{name}: the logits move by {np.abs(logits - plain).max() / np.abs(plain).max():.2g}")
        (OUT / name).mkdir()
        logits[FROM:].astype("<f4").tofile(OUT / name / "prompt.logits")
        (OUT / name / "golden.json").write_text(json.dumps({"vocab_size": prompt["vocab_size"], "cases": [
            {**case, "from": FROM, "logits": "prompt.logits"}]}))
    write_groups()
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in ("numpy", "gguf"))
    (OUT / "PROVENANCE.txt").write_text(
        f"Made by tests/golden/make_weights.py with\nPython {platform.python_version()}, {versions}.\n"
        "Relative to the largest logit:\n  " + "\n  ".join(lines) + "\n")


if __name__ == "__main__":
    main()
