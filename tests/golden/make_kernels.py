#!/usr/bin/env python3
"""Golden data of tests/kernels/test_kernels.c: kernels_dequant.bin, what the gguf package makes of every block format, torch
of e4m3, and numpy of nf4.

A sequence of records: int32 dtype (kernels/dtype.h), int32 elements, int32 bytes, the bytes, float32 [elements].
Blocks are random bits, with random scales in half precision: ordinary ones, subnormal ones, zero, the largest.
Needs numpy, gguf and torch; kernels_dequant.txt says which versions made the file.
"""
import pathlib
import struct
from importlib.metadata import version

import numpy as np
import torch
from gguf import GGMLQuantizationType as G
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

HERE = pathlib.Path(__file__).parent
# In the order of kernels/dtype.h: the type, and the byte offsets of half-precision scales in a block.
TYPES = [(G.F32, []), (G.F16, []), (G.BF16, []), (G.Q8_0, [0]), (G.Q4_0, [0]), (G.Q4_1, [0, 2]), (G.Q5_0, [0]),
         (G.Q5_1, [0, 2]), (G.Q4_K, [0, 2]), (G.Q5_K, [0, 2]), (G.Q6_K, [208]),
         (G.Q2_K, [80, 82]), (G.Q3_K, [108]), (G.IQ4_NL, [0]), (G.IQ4_XS, [0]), (G.MXFP4, [])]


def scales(rng, n):
    """Half-precision scales as uint16: sign, then mostly exponents around 1, now and then an extreme."""
    values = (rng.standard_normal(n) * 2.0 ** rng.integers(-12, 4, n)).astype(np.float16)
    values[0::7] = np.frombuffer(rng.integers(1, 0x400, len(values[0::7]), dtype=np.uint16).tobytes(), np.float16)
    values[3::11] = 0
    values[5::13] = -65504 / 64
    return values.view(np.uint16)


def e4m3(rng):
    """352 elements in blocks of 128, the last one a quarter of it: float32 scales, every code but those of NaN."""
    codes = rng.permutation(np.resize([c for c in range(256) if c & 127 != 127], 384)).astype(np.uint8).reshape(3, 128)
    codes[2, 96:] = 0
    scales = np.array([1, 3.1e-4, 2.0**-130], np.float32).reshape(3, 1)
    numbers = torch.from_numpy(codes).view(torch.float8_e4m3fn).float().numpy()
    raw = np.concatenate([scales.view(np.uint8), codes], 1)
    return raw.reshape(-1), (numbers * scales).reshape(-1)[:352]


# arXiv:2305.14314, appendix E
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
                1.0], np.float32)


def nf4(rng):
    """Five blocks of 64: a float32 scale, codes in pairs, the first in the lower half of a byte."""
    codes = rng.integers(0, 256, (5, 32), dtype=np.uint8)
    scales = rng.standard_normal((5, 1)).astype(np.float32)
    numbers = NF4[np.stack([codes & 15, codes >> 4], -1).reshape(5, 64)]
    return np.concatenate([scales.view(np.uint8), codes], 1).reshape(-1), (numbers * scales).reshape(-1)


def main():
    rng = np.random.default_rng(20250131)
    out = b""
    for index, (kind, offsets) in enumerate(TYPES):
        size, block_bytes = GGML_QUANT_SIZES[kind]
        blocks = 24 if size == 32 else 6
        if size == 1:
            values = (rng.standard_normal(512) * 2.0 ** rng.integers(-20, 10, 512)).astype(np.float32)
            values[:8] = [0, -0.0, 1, -1, 65504, 2.0**-24, -(2.0**-15), np.inf]
            bits = values.view(np.uint32)
            raw = {G.F32: values, G.F16: values.astype(np.float16), G.BF16: (bits >> 16).astype(np.uint16)}[kind]
            raw = np.frombuffer(raw.tobytes(), np.uint8)
        else:
            raw = rng.integers(0, 256, (blocks, block_bytes), dtype=np.uint8)
            for offset in offsets:
                raw[:, offset:offset + 2] = scales(rng, blocks).view(np.uint8).reshape(blocks, 2)
            if kind == G.MXFP4:
                raw[:4, 0] = [0, 1, 2, 255] # exponents: two of subnormal scales, the first above, the last
            raw = raw.reshape(-1)
        with np.errstate(all="ignore"):
            values = dequantize(raw, kind) if kind != G.F32 else raw.view(np.float32)
        values = np.ascontiguousarray(values, np.float32).reshape(-1)
        out += struct.pack("<iii", index, values.size, raw.size) + raw.tobytes() + values.tobytes()
    for index, (raw, values) in enumerate([e4m3(rng), nf4(rng)], len(TYPES)):
        out += struct.pack("<iii", index, values.size, raw.size) + raw.tobytes() + values.tobytes()
    (HERE / "kernels_dequant.bin").write_bytes(out)
    made_by = f"tests/golden/make_kernels.py, gguf {version('gguf')}, numpy {version('numpy')}, torch {version('torch')}\n"
    (HERE / "kernels_dequant.txt").write_text(made_by)


if __name__ == "__main__":
    main()
