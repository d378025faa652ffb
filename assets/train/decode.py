"""Many conversations at once: a loop that feeds scripts to a LLaMA and lets it reply where they say so.

A script is a list of token ids in which REPLY stands for "now it is the model's turn"; the model then speaks until its
end token, and the script goes on. Prompts are read token by token by the same step that speaks, so that a row is
always busy: when its conversation is over the next one takes its place. On a GPU the step is one CUDA graph. What many conversations
begin with is read once: its keys and values are copied into the rows that begin with it.
"""
import dataclasses

import numpy as np
import torch
from torch.nn import functional

from kernels import attend, sample
from llama import rotation

REPLY, OVER = -1, -2
SPOKEN = 1 << 20  # marks tokens in Row.tokens that the model has said


@dataclasses.dataclass
class Sampling:
    temperature: float
    top_p: float
    penalty: float  # of what the model has said in the conversation; 1 is none
    reply_limit: int  # tokens; a reply that reaches it is cut


@dataclasses.dataclass
class Conversation:
    number: int
    script: np.ndarray  # int32: token ids, REPLY, and at the end OVER
    prefix: int = 0  # which of the decoder's prefixes stands before it


@dataclasses.dataclass
class Finished:
    number: int  # of the conversation
    tokens: torch.Tensor  # [length] int32 without its prefix, SPOKEN marks the model's
    cut: bool  # the last reply did not end by itself


def enter(x, norm, weight, eps):
    return functional.linear(functional.rms_norm(x, norm.shape, norm, eps), weight)


def leave(x, attended, out, norm, gate_up, down, eps):
    x = x + functional.linear(attended, out)
    gate, up = functional.linear(functional.rms_norm(x, norm.shape, norm, eps), gate_up).chunk(2, dim=-1)
    return x + functional.linear(functional.silu(gate) * up, down)


def gather_layers(weights, shape):
    layers = []
    for i in range(shape.layers):
        def of(name, i=i):
            return weights[f"model.layers.{i}.{name}.weight"]
        layers.append(dict(
            norm=of("input_layernorm"), out=of("self_attn.o_proj"), norm2=of("post_attention_layernorm"),
            qkv=torch.cat([of(f"self_attn.{p}_proj") for p in "qkv"]),
            gate_up=torch.cat([of("mlp.gate_proj"), of("mlp.up_proj")]), down=of("mlp.down_proj")))
    return layers


class Decoder:
    """rows conversations of at most `length` tokens each; `room` is the longest script or prefix."""

    def __init__(self, shape, weights, sampling, end, rows, length, room, prefixes=((),)):
        self.shape, self.sampling, self.end, self.length = shape, sampling, end, length
        self.embedding, self.norm = weights["model.embed_tokens.weight"], weights["model.norm.weight"]
        self.layers = gather_layers(weights, shape)
        self.device, kind = self.embedding.device, self.embedding.dtype
        caches = (shape.layers, 2, rows, shape.kv_heads, length, shape.head_dim)
        self.caches = torch.zeros(caches, dtype=kind, device=self.device)
        self.cos, self.sin = rotation(shape, length, self.device)
        fast = self.device.type == "cuda"
        self.enter, self.leave = [torch.compile(f, dynamic=False) if fast else f for f in (enter, leave)]

        def state(*sizes, kind=torch.int32):
            return torch.zeros(*sizes, dtype=kind, device=self.device)

        self.script, self.heard = state(rows, room), state(rows, length)
        self.used = state(rows, shape.vocab, kind=torch.uint8)
        self.token, self.position, self.at, self.number, self.said = (state(rows) for _ in range(5))
        self.replying, self.cut = state(rows, kind=torch.bool), state(rows, kind=torch.bool)
        self.done = torch.ones(rows, dtype=torch.bool, device=self.device)
        self.graph = self.capture() if fast else None
        self.prefix_lengths = torch.tensor([len(prefix) for prefix in prefixes], dtype=torch.int32)
        self.prefix_caches = torch.cat([self.read(prefixes[i:i + rows]) for i in range(0, len(prefixes), rows)], dim=2)

    def read(self, prefixes):
        """The caches of prefixes, [layers, 2, n, kv_heads, longest of all, head_dim]."""
        rows = [row for row, prefix in enumerate(prefixes) if prefix]
        scripts = [np.array([*prefixes[row], OVER], dtype=np.int32) for row in rows]
        self.place(rows, [0] * len(rows), scripts, [0] * len(rows))
        while not bool(self.done.all()):
            self.advance()
        return self.caches[:, :, :len(prefixes), :, :int(self.prefix_lengths.max())].clone()

    def advance(self):
        self.graph.replay() if self.graph else self.step()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph

    def step(self):
        x = functional.embedding(self.token, self.embedding)
        positions = self.position if self.device.type == "cuda" else self.position.long()
        for layer, cache in zip(self.layers, self.caches):
            qkv = self.enter(x, layer["norm"], layer["qkv"], self.shape.eps)
            attended = attend(self.shape, qkv, cache[0], cache[1], self.cos, self.sin, positions)
            x = self.leave(x, attended, layer["out"], layer["norm2"], layer["gate_up"], layer["down"], self.shape.eps)
        logits = self.enter(x, self.norm, self.embedding, self.shape.eps)
        drawn = sample(logits, self.used, self.sampling, self.number, self.position)
        names = ("token", "position", "at", "said", "replying", "cut", "done", "heard")
        for name, value in zip(names, self.follow_script(drawn)):
            getattr(self, name).copy_(value)
        said = self.token[:, None].long()
        self.used.scatter_(1, said, torch.maximum(self.used.gather(1, said), self.replying[:, None].to(torch.uint8)))

    def follow_script(self, drawn):
        """Each row's next state, from what its script says and what was drawn for it."""
        item = self.script.gather(1, self.at[:, None].long())[:, 0]
        begins = ~self.replying & (item == REPLY)
        speaks = self.replying | begins
        token = torch.where(speaks, drawn, item).int()
        said = torch.where(begins, 0, self.said) + speaks.int()
        over = ~speaks & (item == OVER)
        ended = speaks & (token == self.end)
        full = self.position + 2 >= self.length
        cut = ~self.done & ~over & ((speaks & ~ended & (said >= self.sampling.reply_limit)) | full)
        done = self.done | over | cut
        position = torch.where(done, self.position, self.position + 1)
        marked = torch.where(speaks, token | SPOKEN, token)
        here = torch.arange(self.length, device=self.device)[None] == position[:, None]
        heard = torch.where(here & ~done[:, None], marked[:, None], self.heard)
        at = torch.where(self.replying | done, self.at, self.at + 1)
        return (torch.where(done, self.token, token), position, at, said, speaks & ~ended, self.cut | cut, done, heard)

    def begin(self, rows, conversations):
        kinds = torch.tensor([conversation.prefix for conversation in conversations])
        longest = self.prefix_caches.shape[4]
        for i in range(0, len(rows) if longest else 0, 256):  # what is copied at once stays small
            some = torch.tensor(rows[i:i + 256], device=self.device)
            self.caches[:, :, some, :, :longest] = self.prefix_caches[:, :, kinds[i:i + 256].to(self.device)]
        self.place(rows, [c.number for c in conversations], [c.script for c in conversations],
                   self.prefix_lengths[kinds].tolist())

    def place(self, rows, numbers, scripts, positions):
        """Scripts into rows, each to be read from its position on."""
        lines = torch.full((len(rows), self.script.shape[1]), OVER, dtype=torch.int32)
        for line, script in zip(lines, scripts):
            line[:len(script)] = torch.from_numpy(script)
        index, lines = torch.tensor(rows, dtype=torch.int64, device=self.device), lines.to(self.device)
        places = torch.tensor(positions, dtype=torch.int32, device=self.device)
        self.script[index], self.token[index] = lines, lines[:, 0]
        self.position[index], self.heard[index, places.long()] = places, lines[:, 0]
        self.number[index] = torch.tensor(numbers, dtype=torch.int32, device=self.device)
        self.at[index] = 1
        for state in (self.said, self.replying, self.cut, self.done, self.used):
            state[index] = 0

    def run(self, conversations, window=16):
        """Yields lists of Finished for an iterator of Conversation, about every `window` steps."""
        conversations, tenants = iter(conversations), {}
        while True:
            finished = self.collect(tenants)
            free = [row for row in range(len(self.done)) if row not in tenants]
            new = [conversation for _, conversation in zip(free, conversations)]
            if new:
                self.begin(free[:len(new)], new)
                tenants.update(zip(free, new))
            if not tenants and not finished:
                return
            for _ in range(window if tenants else 0):
                self.advance()
            yield finished

    def collect(self, tenants):
        rows = [row for row in self.done.nonzero()[:, 0].tolist() if row in tenants]
        if not rows:
            return []
        index = torch.tensor(rows, device=self.device)
        heard, ends, cuts = (x[index].cpu() for x in (self.heard, self.position, self.cut))
        finished = []
        for row, tokens, end, cut in zip(rows, heard, ends, cuts):
            conversation = tenants.pop(row)
            begin = int(self.prefix_lengths[conversation.prefix])
            finished.append(Finished(conversation.number, tokens[begin:end + 1], bool(cut)))
        return finished
