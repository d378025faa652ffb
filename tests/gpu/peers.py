#!/usr/bin/env python3
"""Decoding of Llama-2-7B (weights made up, bf16) beside palaver, on one card in one run:

  transformers            as it is (sdpa attention, a cache that grows), and compiled (static cache, CUDA graphs)
  FlashDecoding           a decoder of a few lines in one CUDA graph, its layers compiled by PyTorch, with attention by
                          PyTorch's flash kernel, which cuts the keys of one query into splits (Dao et al. 2023)
  palaver                 `palaver bench --shape llama2-7b --weights bf16`

and prints ms a step, and palaver's ratio to each. FlashDecoding++ (Hong et al., arXiv:2311.01282) reports up to 4.86 x
Hugging Face and 1.37 x FlashDecoding, on an A100. Steps of the peers are a forward pass and an argmax; palaver's have
its default sampling, and come to the host.

    peers.py PALAVER [--batch 1 8] [--depth 1024 8192] [--skip-compiled] [--layers 32]
    peers.py --check        the small decoder against transformers on the CPU, then nothing else
"""

import argparse
import re
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import DynamicCache, StaticCache

STEPS, WARM_UP = 24, 6


def llama2_7b(layers):
    return LlamaConfig(vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=layers,
                       num_attention_heads=32, num_key_value_heads=32, max_position_embeddings=16384,
                       rms_norm_eps=1e-5)


def tiny():
    return LlamaConfig(vocab_size=320, hidden_size=128, intermediate_size=352, num_hidden_layers=3,
                       num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256)


def median_ms(step, device):
    """Median milliseconds of step(i), each begun when the one before it is done."""
    times = []
    for i in range(WARM_UP + STEPS):
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        step(i)
        torch.cuda.synchronize(device)
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times[WARM_UP:])[STEPS // 2]


# ---- transformers ---------------------------------------------------------------------------------------------


@torch.inference_mode()
def fill(model, cache, batch, depth):
    """`depth` tokens of every row into the cache, in pieces that bound the memory."""
    device = model.device
    ids = torch.randint(0, model.config.vocab_size, (batch, depth), device=device)
    for first in range(0, depth, 1024):
        piece = ids[:, first:first + 1024]
        at = torch.arange(first, first + piece.shape[1], device=device)
        model(piece, past_key_values=cache, use_cache=True, position_ids=at[None].expand(batch, -1), logits_to_keep=1)


@torch.inference_mode()
def transformers_ms(model, batch, depth):
    cache = DynamicCache(config=model.config)
    fill(model, cache, batch, depth)
    ids = torch.zeros(batch, 1, dtype=torch.long, device=model.device)

    def step(i):
        at = torch.full((batch, 1), depth + i, dtype=torch.long, device=model.device)
        logits = model(ids, past_key_values=cache, use_cache=True, position_ids=at).logits
        ids.copy_(logits[:, -1:].argmax(-1))

    return median_ms(step, model.device)


@torch.inference_mode()
def transformers_compiled_ms(model, batch, depth):
    torch.compiler.reset()
    cache = StaticCache(config=model.config, max_cache_len=depth + WARM_UP + STEPS + 2)
    fill(model, cache, batch, depth)
    forward = torch.compile(model.forward, mode="reduce-overhead", fullgraph=False)
    ids = torch.zeros(batch, 1, dtype=torch.long, device=model.device)
    at = torch.full((batch, 1), depth, dtype=torch.long, device=model.device)

    def step(i):
        at.fill_(depth + i)
        torch.compiler.cudagraph_mark_step_begin()
        ids.copy_(forward(ids, past_key_values=cache, use_cache=True, position_ids=at).logits[:, -1:].argmax(-1))

    return median_ms(step, model.device)


# ---- a decoder with FlashDecoding -----------------------------------------------------------------------------


def norm(x, weight, eps):
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def turn(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def before_attention(x, weight, w_qkv, cos, sin, eps, heads):
    """x [batch, hidden] to queries, keys and values [batch, heads, head_dim]."""
    q, k, v = F.linear(norm(x, weight, eps), w_qkv).view(x.shape[0], 3, heads, -1).unbind(1)
    return turn(q, cos, sin), turn(k, cos, sin), v


def after_attention(x, y, w_o, weight, w_gate_up, w_down, eps):
    x = x + F.linear(y, w_o)
    gate, up = F.linear(norm(x, weight, eps), w_gate_up).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, w_down)


class FlashDecoder:
    """One token of each row behind `depth` cached ones. The weights are the model's."""

    def __init__(self, model, batch, depth, compiled):
        c = model.config
        self.heads, self.eps, self.depth = c.num_attention_heads, c.rms_norm_eps, depth
        self.embedding, self.head = model.model.embed_tokens.weight, model.lm_head.weight
        self.last_norm = model.model.norm.weight
        self.layers = []
        for l in model.model.layers:
            a, m = l.self_attn, l.mlp
            self.layers.append((l.input_layernorm.weight,
                                torch.cat((a.q_proj.weight, a.k_proj.weight, a.v_proj.weight)), a.o_proj.weight,
                                l.post_attention_layernorm.weight,
                                torch.cat((m.gate_proj.weight, m.up_proj.weight)), m.down_proj.weight))
        size = (batch, depth + 1, self.heads, c.hidden_size // self.heads)
        kind = dict(dtype=model.dtype, device=model.device)
        self.keys = [torch.randn(size, **kind) for _ in self.layers]
        self.values = [torch.randn(size, **kind) for _ in self.layers]
        with torch.no_grad():
            at = torch.full((1, 1), depth, device=model.device)
            cos, sin = model.model.rotary_emb(self.keys[0], at)
        self.cos, self.sin = cos[0], sin[0]
        self.ids = torch.zeros(batch, dtype=torch.long, device=model.device)
        wrap = (lambda f: torch.compile(f, mode="max-autotune-no-cudagraphs")) if compiled else (lambda f: f)
        self.before, self.after = wrap(before_attention), wrap(after_attention)

    def logits(self):
        x = F.embedding(self.ids, self.embedding)
        for i, (n1, qkv, o, n2, gate_up, down) in enumerate(self.layers):
            q, k, v = self.before(x, n1, qkv, self.cos, self.sin, self.eps, self.heads)
            self.keys[i][:, self.depth], self.values[i][:, self.depth] = k, v
            y = F.scaled_dot_product_attention(q[:, :, None], self.keys[i].transpose(1, 2),
                                               self.values[i].transpose(1, 2))
            x = self.after(x, y.reshape(x.shape), o, n2, gate_up, down, self.eps)
        return F.linear(norm(x, self.last_norm, self.eps), self.head)

    def step(self):
        self.ids.copy_(self.logits().argmax(-1))


@torch.inference_mode()
def flash_decoding_ms(model, batch, depth):
    torch.compiler.reset()
    decoder = FlashDecoder(model, batch, depth, True)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                decoder.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            decoder.step()
    return median_ms(lambda i: graph.replay(), model.device)


@torch.inference_mode()
def check():
    """The small decoder computes what transformers does: its logits behind a cache that transformers has filled."""
    torch.manual_seed(1)
    model = LlamaForCausalLM(tiny()).eval()
    batch, depth = 2, 37
    cache = DynamicCache(config=model.config)
    fill(model, cache, batch, depth)
    decoder = FlashDecoder(model, batch, depth, False)
    for i in range(model.config.num_hidden_layers):
        decoder.keys[i][:, :depth] = cache.layers[i].keys.transpose(1, 2)
        decoder.values[i][:, :depth] = cache.layers[i].values.transpose(1, 2)
    decoder.ids.copy_(torch.tensor([5, 300]))
    mine = decoder.logits()
    theirs = model(decoder.ids[:, None], past_key_values=cache, position_ids=torch.full((batch, 1), depth)).logits[:, 0]
    error = ((mine - theirs).norm() / theirs.norm()).item()
    print(f"the small decoder's logits differ from transformers' by {error:.1e} of their norm")
    return 0 if error < 1e-5 else 1


# ---- palaver --------------------------------------------------------------------------------------------------


def palaver_ms(program, batch, depth):
    command = [program, "bench", "--shape", "llama2-7b", "--weights", "bf16", "--device", "cuda",
               "--context", str(depth + 256), "--decode", str(WARM_UP + STEPS)]
    if batch == 1:
        command += ["--prefill", "16", "--depth", str(depth)]
    else:
        command += ["--prefill", str(depth), "--parallel", str(batch)]
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"decode .*?([0-9.]+) ms a token" if batch == 1 else r"decode +([0-9.]+) ms a step", done.stdout)
    if not found:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip() or done.stdout}")
    return float(found[1])


def row(name, ms, ours):
    print(f"  {name:<34} {ms:8.2f} ms a step   {ms / ours:5.2f} x palaver's time", flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("palaver", nargs="?")
    args.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    args.add_argument("--depth", type=int, nargs="+", default=[1024, 8192])
    args.add_argument("--skip-compiled", action="store_true", help="without compiled transformers: minutes a cell")
    args.add_argument("--layers", type=int, default=32, help="of the peers, to try the script; palaver has 32")
    args.add_argument("--check", action="store_true")
    a = args.parse_args()
    if a.check:
        return check()
    if not a.palaver:
        args.error("which palaver?")
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}, transformers {transformers.__version__}")
    ours = {(b, d): palaver_ms(a.palaver, b, d) for b in a.batch for d in a.depth}
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(llama2_7b(a.layers)).eval()
    peers = [("transformers", transformers_ms), ("FlashDecoding, PyTorch compiled", flash_decoding_ms)]
    if not a.skip_compiled:
        peers.append(("transformers, compiled", transformers_compiled_ms))
    for batch, depth in ours:
        print(f"Llama-2-7B bf16, {batch} row{'s' * (batch > 1)}, {depth} cached")
        row("palaver", ours[batch, depth], ours[batch, depth])
        for name, measure in peers:
            try:
                row(name, measure(model, batch, depth), ours[batch, depth])
            except Exception as e:  # one peer's failure is told, and the table goes on
                print(f"  {name:<34} failed: {type(e).__name__}: {str(e).splitlines()[0]}", flush=True)
            torch.cuda.empty_cache()
    return 0


sys.exit(main())
