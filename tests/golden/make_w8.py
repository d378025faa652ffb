"""Writes w8.bin: rows of float32 and what kernels/w8.h must make of them, computed by numpy alone.

    python3 tests/golden/make_w8.py

Each record is int32 cols, float32 x[cols], then the row as DTYPE_W8 has it: int8 q[cols], zeros up to a multiple of 16
bytes, float32 scale, 12 zero bytes. Arithmetic is IEEE float32 throughout: scale = absmax/127, q = rint(x/scale).
"""
import pathlib
import struct

import numpy as np

F32 = np.float32


def quantize(x):
    absmax = np.max(np.abs(x)) if x.size else F32(0)
    if not np.isfinite(absmax):
        return np.zeros(x.size, np.int8), F32(np.nan)
    scale = F32(absmax / F32(127))
    if scale < np.finfo(F32).tiny:
        return np.zeros(x.size, np.int8), F32(0)
    q = np.rint((x / scale).astype(F32))
    return np.clip(q, -127, 127).astype(np.int8), scale


def rows():
    rng = np.random.default_rng(8)
    for cols in [1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 576, 1536]:
        yield rng.standard_normal(cols).astype(F32)
    for size in [1e-30, 1e-6, 1e6, 1e30]:  # far from one
        yield (rng.standard_normal(100) * size).astype(F32)
    outlier = rng.standard_normal(300).astype(F32)
    outlier[137] = -4000
    yield outlier
    # Ties: with absmax 127 the scale is 1, and halves go to the even integer.
    yield np.array([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -126.5, 0, -0.0], F32)
    yield np.zeros(40, F32)
    yield np.array([1e-40, -2e-40, 0], F32)  # no normal scale
    yield np.full(20, F32(127) * np.finfo(F32).tiny, F32)  # the smallest normal one
    yield np.array([np.finfo(F32).max, -np.finfo(F32).max, 1], F32)
    for bad in [np.inf, -np.inf, np.nan]:
        x = rng.standard_normal(50).astype(F32)
        x[17] = bad
        yield x


def main():
    out = b""
    for x in rows():
        with np.errstate(over="ignore"):
            q, scale = quantize(x)
        padding = -x.size % 16
        out += struct.pack("<i", x.size) + x.tobytes()
        out += q.tobytes() + bytes(padding) + struct.pack("<f", scale) + bytes(12)
    (pathlib.Path(__file__).parent / "w8.bin").write_bytes(out)


if __name__ == "__main__":
    main()
