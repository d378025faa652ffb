"""A LLaMA: its shape, its modules for training (parameters under Hugging Face's names), its rotation tables."""
import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass(frozen=True)
class Shape:
    vocab: int
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    theta: float = 10000.0
    eps: float = 1e-5
    context: int = 1024

    def parameters(self):
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        layer = attention + 3 * self.hidden * self.ffn + 2 * self.hidden
        return self.vocab * self.hidden + self.layers * layer + self.hidden


def rotation(shape, positions, device):
    """cos and sin of the angles, [positions, head_dim / 2], float32."""
    frequencies = shape.theta ** (-torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * frequencies
    return angles.cos().float().to(device), angles.sin().float().to(device)


def rotate(x, cos, sin):
    """Rotates the halves of the last dimension of x, [..., head_dim]; cos and sin broadcast to [..., head_dim / 2]."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=False)

    def forward(self, x, cos, sin):
        rows, length, _ = x.shape

        def heads(projection, n):
            return projection(x).view(rows, length, n, self.shape.head_dim).transpose(1, 2)

        q = rotate(heads(self.q_proj, self.shape.heads), cos, sin)
        k = rotate(heads(self.k_proj, self.shape.kv_heads), cos, sin)
        v = heads(self.v_proj, self.shape.kv_heads)
        share = self.shape.heads // self.shape.kv_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(rows, length, -1))


class Mlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.down_proj = nn.Linear(shape.ffn, shape.hidden, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, eps=shape.eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, eps=shape.eps)
        self.mlp = Mlp(shape)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, eps=shape.eps)


class Llama(nn.Module):
    """The head is the embedding's. Linear layers start at 0.02, those that add to the residual smaller by depth."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.model = Body(shape)
        cos, sin = rotation(shape, shape.context, "cpu")
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                adds = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * shape.layers) if adds else 0.02)

    def forward(self, ids):
        """ids [rows, length] → logits [rows, length, vocab]."""
        x = self.model.embed_tokens(ids)
        cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return functional.linear(self.model.norm(x), self.model.embed_tokens.weight)
