"""Two steps of decoding many rows at once: attention over a static cache, and the draw of a token.

On a GPU each is one Triton kernel, which reads the cache only as far as a row goes and the logits a few times out of
the L1 cache; elsewhere plain PyTorch. `python kernels.py` compares the two (on a machine without a GPU:
TRITON_INTERPRET=1 python kernels.py).
"""
import math

import torch
import triton
import triton.language as tl

from llama import rotate


@triton.jit
def attend_kernel(qkv, k_cache, v_cache, cos, sin, positions, out, scale, HEADS: tl.constexpr, KV_HEADS: tl.constexpr,
                  GROUP: tl.constexpr, HALF: tl.constexpr, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    # A program per row and key head: rotates its queries and its key, stores key and value at the row's position,
    # and attends to what lies before, block by block, and to its own token, which it holds in registers.
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    share: tl.constexpr = HEADS // KV_HEADS
    dim: tl.constexpr = 2 * HALF
    position = tl.load(positions + row)
    d, g = tl.arange(0, HALF), tl.arange(0, GROUP)
    line = qkv + row * (HEADS + 2 * KV_HEADS) * dim
    c, s = tl.load(cos + position * HALF + d), tl.load(sin + position * HALF + d)

    q_at = line + (head * share + g[:, None]) * dim + d[None, :]
    mine = g[:, None] < share
    qa = tl.load(q_at, mask=mine, other=0.0).to(tl.float32)
    qb = tl.load(q_at + HALF, mask=mine, other=0.0).to(tl.float32)
    kind = k_cache.dtype.element_ty
    q1 = (qa * c[None, :] - qb * s[None, :]).to(kind)
    q2 = (qb * c[None, :] + qa * s[None, :]).to(kind)
    k_at = line + (HEADS + head) * dim + d
    ka, kb = tl.load(k_at).to(tl.float32), tl.load(k_at + HALF).to(tl.float32)
    k1, k2 = (ka * c - kb * s).to(kind), (kb * c + ka * s).to(kind)
    v1, v2 = tl.load(k_at + KV_HEADS * dim), tl.load(k_at + KV_HEADS * dim + HALF)
    cache = (row * KV_HEADS + head) * LENGTH * dim
    own = cache + position * dim + d
    tl.store(k_cache + own, k1)
    tl.store(k_cache + own + HALF, k2)
    tl.store(v_cache + own, v1)
    tl.store(v_cache + own + HALF, v2)

    own_score = q1.to(tl.float32) * k1.to(tl.float32)[None, :] + q2.to(tl.float32) * k2.to(tl.float32)[None, :]
    top = tl.sum(own_score, 1) * scale
    total = tl.full([GROUP], 1.0, tl.float32)
    y1 = tl.zeros([GROUP, HALF], tl.float32) + v1.to(tl.float32)[None, :]
    y2 = tl.zeros([GROUP, HALF], tl.float32) + v2.to(tl.float32)[None, :]
    for start in range(0, position, BLOCK):
        t = start + tl.arange(0, BLOCK)
        seen = t < position
        at = cache + t[:, None] * dim + d[None, :]
        b1 = tl.load(k_cache + at, mask=seen[:, None], other=0.0)
        b2 = tl.load(k_cache + at + HALF, mask=seen[:, None], other=0.0)
        score = (tl.dot(q1, tl.trans(b1)) + tl.dot(q2, tl.trans(b2))) * scale
        score = tl.where(seen[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        fade, weight = tl.exp(top - higher), tl.exp(score - higher[:, None])
        total = total * fade + tl.sum(weight, 1)
        w1 = tl.load(v_cache + at, mask=seen[:, None], other=0.0)
        w2 = tl.load(v_cache + at + HALF, mask=seen[:, None], other=0.0)
        y1 = y1 * fade[:, None] + tl.dot(weight.to(kind), w1)
        y2 = y2 * fade[:, None] + tl.dot(weight.to(kind), w2)
        top = higher
    out_at = out + row * HEADS * dim + (head * share + g[:, None]) * dim + d[None, :]
    tl.store(out_at, (y1 / total[:, None]).to(kind), mask=mine)
    tl.store(out_at + HALF, (y2 / total[:, None]).to(kind), mask=mine)


def attend(shape, qkv, k_cache, v_cache, cos, sin, positions):
    """qkv [rows, (heads + 2 kv_heads) head_dim] of the tokens at `positions` [rows] → [rows, heads head_dim].

    Keys and values are stored in the caches [rows, kv_heads, length, head_dim].
    """
    if not qkv.is_cuda:
        return attend_plainly(shape, qkv, k_cache, v_cache, cos, sin, positions)
    return attend_fast(shape, qkv, k_cache, v_cache, cos, sin, positions)


def attend_fast(shape, qkv, k_cache, v_cache, cos, sin, positions):
    out = torch.empty(qkv.shape[0], shape.heads * shape.head_dim, dtype=qkv.dtype, device=qkv.device)
    group = max(16, triton.next_power_of_2(shape.heads // shape.kv_heads))
    attend_kernel[(qkv.shape[0], shape.kv_heads)](
        qkv, k_cache, v_cache, cos, sin, positions, out, 1 / math.sqrt(shape.head_dim), HEADS=shape.heads,
        KV_HEADS=shape.kv_heads, GROUP=group, HALF=shape.head_dim // 2, LENGTH=k_cache.shape[2], BLOCK=64, num_warps=4)
    return out


def attend_plainly(shape, qkv, k_cache, v_cache, cos, sin, positions):
    rows, span = qkv.shape[0], int(positions.max()) + 1
    heads = qkv.view(rows, -1, shape.head_dim)
    c, s = cos[positions][:, None], sin[positions][:, None]
    q, k, v = heads.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
    every = torch.arange(rows, device=qkv.device)
    k_cache[every, :, positions] = rotate(k, c, s)
    v_cache[every, :, positions] = v
    share = shape.heads // shape.kv_heads
    keys = k_cache[:, :, :span].repeat_interleave(share, dim=1)
    values = v_cache[:, :, :span].repeat_interleave(share, dim=1)
    seen = torch.arange(span, device=qkv.device)[None, None, None] <= positions[:, None, None, None]
    y = torch.nn.functional.scaled_dot_product_attention(rotate(q, c, s)[:, :, None], keys, values, attn_mask=seen)
    return y.reshape(rows, -1)


@triton.jit
def sample_kernel(logits, used, numbers, positions, out, VOCAB: tl.constexpr, warmth, top_p, penalty,
                  BLOCK: tl.constexpr):
    # A program per row. It first puts the logits of used tokens down, in place. Scores lie below the best, which is 0;
    # the lowest that top_p keeps is found by bisection, in 14 steps to 2e-3. Then the token with the largest score plus
    # Gumbel noise, of Philox at (number, position, token).
    row = tl.program_id(0).to(tl.int64)
    line = logits + row * VOCAB
    i = tl.arange(0, BLOCK)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, VOCAB, BLOCK):
        x = tl.load(line + start + i, mask=start + i < VOCAB, other=float("-inf")).to(tl.float32)
        again = tl.load(used + row * VOCAB + start + i, mask=start + i < VOCAB, other=0) != 0
        x = tl.where(again, tl.where(x > 0, x / penalty, x * penalty), x)
        tl.store(line + start + i, x.to(logits.dtype.element_ty), mask=start + i < VOCAB)
        best = tl.maximum(best, x.to(logits.dtype.element_ty).to(tl.float32))
    tl.debug_barrier()
    top = tl.max(best, 0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, VOCAB, BLOCK):
        x = tl.load(line + start + i, mask=start + i < VOCAB, other=float("-inf")).to(tl.float32)
        total += tl.exp((x - top) * warmth)
    wanted = tl.sum(total, 0) * top_p
    low, high = -30.0, 0.0
    for _ in range(14):
        middle = (low + high) / 2
        kept = tl.zeros([BLOCK], tl.float32)
        for start in range(0, VOCAB, BLOCK):
            x = tl.load(line + start + i, mask=start + i < VOCAB, other=float("-inf")).to(tl.float32)
            score = (x - top) * warmth
            kept += tl.where(score >= middle, tl.exp(score), 0.0)
        enough = tl.sum(kept, 0) >= wanted
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
    number, position = tl.load(numbers + row), tl.load(positions + row)
    winner, winning = tl.zeros([BLOCK], tl.int32), tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, VOCAB, BLOCK):
        x = tl.load(line + start + i, mask=start + i < VOCAB, other=float("-inf")).to(tl.float32)
        score = (x - top) * warmth
        noise = -tl.log(-tl.log(tl.rand(number, position * VOCAB + start + i) * 0.999999 + 5e-7))
        noisy = tl.where(score >= low, score + noise, float("-inf"))
        better = noisy > winning
        winner = tl.where(better, start + i, winner)
        winning = tl.where(better, noisy, winning)
    most = tl.max(winning, 0)
    tl.store(out + row, tl.min(tl.where(winning == most, winner, VOCAB), 0))


def sample(logits, used, sampling, numbers, positions):
    """Tokens [rows] drawn from logits [rows, vocab], which it may change, as decode.Sampling says.

    used [rows, vocab] uint8 marks the tokens that the penalty is for. Of a row the tokens depend on its number and its position alone (int32 [rows] each), not on its neighbours.
    """
    if not logits.is_cuda:
        return sample_plainly(logits, used, sampling, numbers, positions)
    return sample_fast(logits, used, sampling, numbers, positions)


def sample_fast(logits, used, sampling, numbers, positions):
    out = torch.empty(logits.shape[0], dtype=torch.int32, device=logits.device)
    sample_kernel[(logits.shape[0],)](logits, used, numbers, positions, out, VOCAB=logits.shape[1],
                                      warmth=1 / sampling.temperature, top_p=sampling.top_p, penalty=sampling.penalty,
                                      BLOCK=2048, num_warps=8)
    return out


def sample_plainly(logits, used, sampling, numbers, positions):
    logits = torch.where(used == 0, logits, torch.where(logits > 0, logits / sampling.penalty, logits * sampling.penalty))
    # The likeliest thousand: a sort of all is slow, and what top_p keeps of a trained model's is less.
    chances, order = torch.softmax(logits.float() / sampling.temperature, dim=-1).topk(min(1000, logits.shape[1]), dim=-1)
    before = chances.cumsum(dim=-1) - chances
    heights = torch.where(before < sampling.top_p, chances, 0).cumsum(dim=-1)
    draws = [torch.rand((), generator=torch.Generator().manual_seed(int(n) * 100003 + int(p)))
             for n, p in zip(numbers, positions)]
    at = torch.searchsorted(heights, torch.stack(draws)[:, None].to(heights) * heights[:, -1:], right=True)
    return order.gather(1, at.clamp(max=order.shape[1] - 1))[:, 0].to(torch.int32)


def compare():
    """The kernels against plain PyTorch: attention over ragged rows, the shares of tokens over many draws."""
    from decode import Sampling
    from llama import Shape, rotation
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    shape = Shape(vocab=3000, hidden=288, ffn=1, layers=1, heads=9, kv_heads=3, head_dim=64)
    rows, length = 6, 192
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    positions = torch.tensor([0, 1, 63, 64, 65, 190], dtype=torch.int32, device=device)
    cos, sin = rotation(shape, length, device)
    caches = [torch.randn(rows, 3, length, 64, device=device).to(kind) for _ in range(2)]
    qkv = torch.randn(rows, 15 * 64, device=device).to(kind)
    results = []
    for form in (attend_fast, attend_plainly):
        k, v = caches[0].clone(), caches[1].clone()
        results.append((form(shape, qkv, k, v, cos, sin, positions if form is attend_fast else positions.long()), k, v))
    for fast, plain in zip(*results):
        error = (fast.float() - plain.float()).abs().max() / plain.float().abs().max()
        print(f"attend: {float(error):.1e} of the largest")
        assert error < (2e-2 if device == "cuda" else 1e-5)
    draws = 4000 if device == "cuda" else 200
    logits = (torch.randn(1, shape.vocab, device=device) * 2).expand(draws, -1).contiguous()
    used = (torch.rand(1, shape.vocab, device=device) < 0.5).to(torch.uint8).expand(draws, -1).contiguous()
    sampling = Sampling(0.7, 0.5, 1.3, 100)
    punished = torch.where(used[:1] == 0, logits[:1], torch.where(logits[:1] > 0, logits[:1] / 1.3, logits[:1] * 1.3))
    chances, order = torch.softmax(punished / 0.7, -1).sort(descending=True)
    kept = chances * (chances.cumsum(-1) - chances < 0.5)
    expected = torch.zeros_like(kept).scatter(1, order, kept / kept.sum())[0]
    zeros = torch.zeros(draws, dtype=torch.int32, device=device)
    steps = torch.arange(draws, dtype=torch.int32, device=device)
    for form in (sample_fast, sample_plainly):
        tokens = form(logits.clone(), used, sampling, zeros + 7, steps).long()
        seen = torch.bincount(tokens, minlength=shape.vocab) / draws
        distance = float((seen - expected).abs().sum() / 2)
        print(f"sample: {int((expected > 0).sum())} tokens kept, total variation {distance:.3f} over {draws} draws")
        assert not seen[expected == 0].any() and distance < 0.6 * math.sqrt(int((expected > 0).sum()) / draws)


if __name__ == "__main__":
    compare()
