#!/usr/bin/env python3
"""Golden data of tests/kernels/cpu/test_cache_attention.c: cache_attention.bin, MultiHeadCacheAttention in numpy, from its definition
(OpenPPL's ppl.pmx, dynamic_batching.MultiHeadCacheAttention), in double precision over what the cache holds.

A sequence of records of 4-byte numbers: the attributes named in FIELDS, then seqlens and kvlens [batches], then query
[queries, num_heads, head_dim], keys and values of the whole sequences [keys, kv_heads, head_dim], attn_mask
[num_heads or 1, queries, mask_columns], attn_output [queries, num_heads, head_dim] as float32, then what the cache
holds, [keys, 2, kv_heads, head_dim]: the integer, or the bits of the float; and, quantised, the bits of the scales
[keys, 2, kv_heads, head_dim/quant_group]. Types are numbered as in kernels/dtype.h.
Needs numpy; cache_attention.txt says which version made the file.
"""
import math
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
F32, F16, BF16 = 0, 1, 2
FIELDS = ["num_heads", "head_dim", "num_kv_heads", "is_causal", "is_alibi", "num_layer", "layer_idx", "quant_bit",
          "quant_group", "page_size", "type", "cache_type", "scale_type", "batches", "decoding_batches", "mask_dims",
          "mask_columns"]
DEFAULTS = dict(num_heads=4, head_dim=8, num_kv_heads=0, is_causal=1, is_alibi=0, num_layer=1, layer_idx=0,
                quant_bit=0, quant_group=0, page_size=4, type=F32, cache_type=F32, scale_type=F32,
                decoding_batches=0, mask_dims=0, mask_columns=0)
# seqlens, kvlens, and what differs from the defaults
CASES = [
    ([5, 3], [5, 9], dict()),
    ([1, 1, 4], [7, 1, 6], dict(decoding_batches=2, num_heads=6, num_kv_heads=2, num_layer=3, layer_idx=1, type=F16,
                                cache_type=F16, page_size=3)),
    ([6, 2], [6, 11], dict(is_alibi=1, num_heads=6, num_kv_heads=2, quant_bit=8, quant_group=8, num_layer=2,
                           layer_idx=1)),
    ([3, 4], [8, 4], dict(is_causal=0, head_dim=32, num_heads=2, num_kv_heads=1, quant_bit=4, quant_group=16,
                          scale_type=F16, page_size=2)),
    ([2, 5], [4, 10], dict(type=F16, head_dim=12, quant_bit=8, quant_group=4, scale_type=F16, mask_dims=2,
                           mask_columns=16)),
    ([4, 1, 3], [4, 6, 5], dict(type=BF16, cache_type=BF16, num_heads=3, head_dim=10, mask_dims=3, mask_columns=15,
                                is_alibi=1, page_size=1)),
    ([1, 1, 1], [9, 5, 1], dict(type=F16, decoding_batches=3, head_dim=20, num_heads=2, quant_bit=4, quant_group=2,
                                is_alibi=1, page_size=1, is_causal=0)),
    ([0, 3, 0], [0, 7, 2], dict(cache_type=F16, num_heads=8, num_kv_heads=1, page_size=5)),
    ([2], [80], dict(num_heads=1, head_dim=16, quant_bit=4, quant_group=16, page_size=16, is_alibi=1)),
]


def bfloat(x):
    """float32 rounded to bfloat16, nearest even, as bits."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint32)


def rounded(x, kind):
    """The bits of x in a type, and its value as float32."""
    x = np.asarray(x, np.float32)
    if kind == F16:
        half = x.astype(np.float16)
        return half.view(np.uint16).astype(np.uint32), half.astype(np.float32)
    if kind == BF16:
        bits = bfloat(x)
        return bits, (bits << 16).astype(np.uint32).view(np.float32)
    return x.view(np.uint32), x


def stored(x, c):
    """What the cache holds of x [..., head_dim], its scales, and its value as attention reads it."""
    if not c["quant_bit"]:
        bits, values = rounded(x, c["cache_type"])
        return bits, np.zeros(0, np.uint32), values
    most = 2 ** (c["quant_bit"] - 1) - 1
    groups = x.reshape(*x.shape[:-1], -1, c["quant_group"])
    scale = np.maximum(np.abs(groups).max(-1, keepdims=True) / np.float32(most), np.float32(1e-5))
    bits, scale = rounded(scale, c["scale_type"])
    q = np.clip(np.rint(groups / scale), -most, most)
    values = (q.astype(np.float32) * scale).reshape(x.shape)
    return q.astype(np.int32).view(np.uint32).reshape(x.shape), bits[..., 0], values


def alibi_slopes(n):
    """As the authors' code has them."""
    def of_power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start ** i for i in range(n)]
    closest = 2 ** math.floor(math.log2(n))
    return of_power(closest) + (alibi_slopes(2 * closest)[0::2][:n - closest] if closest < n else [])


def attention(c, seqlens, kvlens, query, keys, values, mask):
    heads, dim = c["num_heads"], c["head_dim"]
    group = heads // (c["num_kv_heads"] or heads)
    out = np.zeros(query.shape)
    slopes = alibi_slopes(heads)
    first = column = 0
    for b, (seqlen, kvlen) in enumerate(zip(seqlens, kvlens)):
        for i in range(seqlen):
            for h in range(heads):
                k = keys[column:column + kvlen, h // group].astype(np.float64)
                scores = k @ query[first + i, h].astype(np.float64) / math.sqrt(dim)
                at = kvlen - seqlen + i
                if c["is_alibi"]:
                    scores -= slopes[h] * (at - np.arange(kvlen))
                if c["mask_dims"]:
                    scores += mask[h if c["mask_dims"] == 3 else 0, first + i, column:column + kvlen]
                if c["is_causal"] and b >= c["decoding_batches"]:
                    scores[at + 1:] = -np.inf
                weights = np.exp(scores - scores.max())
                out[first + i, h] = weights @ values[column:column + kvlen, h // group] / weights.sum()
        first += seqlen
        column += kvlen
    return out


def main():
    rng = np.random.default_rng(20250404)
    out = b""
    for seqlens, kvlens, changes in CASES:
        c = DEFAULTS | changes | dict(batches=len(seqlens))
        kv_heads = c["num_kv_heads"] or c["num_heads"]
        draw = lambda *shape: rounded(rng.standard_normal(shape) * 1.5, c["type"])[1]
        query = draw(sum(seqlens), c["num_heads"], c["head_dim"])
        keys = draw(sum(kvlens), kv_heads, c["head_dim"])
        values = draw(sum(kvlens), kv_heads, c["head_dim"])
        keys[0], values[-1] = 0, 1e-7 # scales at their least
        values = rounded(values, c["type"])[1]
        keys[1::5] *= 16
        mask = np.zeros(0, np.float32)
        if c["mask_dims"]:
            mask = draw(c["num_heads"] if c["mask_dims"] == 3 else 1, sum(seqlens), c["mask_columns"])
            mask[:, :, 2::7] = -np.inf
        k_bits, k_scales, k_read = stored(keys, c)
        v_bits, v_scales, v_read = stored(values, c)
        result = attention(c, seqlens, kvlens, query, k_read, v_read, mask)
        assert np.isfinite(result).all()
        scales = np.stack([k_scales, v_scales], 1) if c["quant_bit"] else np.zeros(0, np.uint32)
        out += np.array([c[f] for f in FIELDS] + seqlens + kvlens, np.int32).tobytes()
        for array in query, keys, values, mask, result:
            out += np.ascontiguousarray(array, np.float32).tobytes()
        out += np.stack([k_bits, v_bits], 1).tobytes() + np.ascontiguousarray(scales).tobytes()
    (HERE / "cache_attention.bin").write_bytes(out)
    (HERE / "cache_attention.txt").write_text(f"tests/golden/make_cache_attention.py, numpy {np.__version__}\n")


if __name__ == "__main__":
    main()
