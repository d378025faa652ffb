"""Trains the model on the packed conversations.

Rows of 1,024 tokens begin with a conversation and hold the ones that follow it in that epoch's order, the last of them
cut: to the model a row is one long talk that changes its subject now and then. AdamW, a short warm-up, cosine to 2%;
the loss counts every token in the first part and the replies' alone in the last 40%. The number of steps is given, or
follows from --minutes and the speed of the first steps. A checkpoint is written every --save steps; the same command
goes on from it.
usage: train.py WORK --shape wide [--minutes 12 | --steps 500] [--batch 128] [--rate 2e-3] [--out NAME]
       WORK/packed → WORK/NAME/{state.pt,weights.pt,log.txt}
"""
import argparse
import bisect
import contextlib
import json
import math
import os
import time

import numpy as np
import torch
from torch.nn import functional

from llama import Llama
from settings import CONTEXT, SEED, SHAPES

MEASURE_FROM, MEASURE_TO = 30, 130  # steps by which the speed is judged; the first ones compile
REPLIES_ONLY = 0.6  # of the steps, from where on the loss counts the replies alone
WARM_UP = 200


class Rows:
    """The packed conversations of a part, in rows of CONTEXT + 1 tokens that begin with a conversation."""

    def __init__(self, work, part, device):
        folder = os.path.join(work, "packed")
        self.tokens = torch.from_numpy(np.fromfile(os.path.join(folder, f"{part}.bin"), dtype=np.int16)).to(device)
        self.offsets = np.load(os.path.join(folder, f"{part}.offsets.npy"))
        self.device = device

    def epoch(self, seed):
        """(tokens in that epoch's order, int64 starts of rows)."""
        order = np.random.default_rng(seed).permutation(len(self.offsets) - 1)
        lengths = np.diff(self.offsets)[order]
        begins = np.cumsum(lengths) - lengths
        shift = torch.from_numpy(self.offsets[:-1][order] - begins).to(self.device)
        shift = shift.repeat_interleave(torch.from_numpy(lengths).to(self.device))
        flat = self.tokens[shift + torch.arange(len(shift), device=self.device)]
        begins, starts, at = begins.tolist(), [], 0
        while at < len(begins) and begins[at] + CONTEXT + 1 <= len(flat):
            starts.append(begins[at])
            at = bisect.bisect_left(begins, begins[at] + CONTEXT, at)
        return flat, torch.tensor(starts, dtype=torch.int64, device=self.device)

    def batches(self, size, seed):
        """Endless (inputs, targets, spoken), each [size, CONTEXT]; rows left over at an epoch's end are dropped."""
        reach = torch.arange(CONTEXT + 1, device=self.device)
        epoch = 0
        while True:
            flat, starts = self.epoch([seed, epoch])
            if len(starts) < size:
                raise SystemExit(f"{len(starts)} rows are too few for a batch of {size}")
            for i in range(0, len(starts) - size + 1, size):
                row = flat[starts[i:i + size, None] + reach].long()
                ids = row & 0x7fff
                yield ids[:, :-1], ids[:, 1:], (row[:, 1:] < 0).float()
            epoch += 1


def loss_of(model, ids, targets, weights):
    logits = model(ids)
    losses = functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / weights.sum()


def precision(device):
    return torch.autocast("cuda", dtype=torch.bfloat16) if device == "cuda" else contextlib.nullcontext()


def rate_at(step, steps, peak):
    if step < WARM_UP or not steps:
        return peak * min(1.0, (step + 1) / WARM_UP)
    done = (step - WARM_UP) / max(1, steps - WARM_UP)
    return peak * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def held_loss(loss, work, batch, device):
    """Nats a reply token of the held-out conversations."""
    rows = Rows(work, "held", device)
    total = count = 0
    flat, starts = rows.epoch([SEED, 0])
    size = min(batch, len(starts))
    reach = torch.arange(CONTEXT + 1, device=device)
    with torch.no_grad(), precision(device):
        for i in range(0, min(len(starts) - size + 1, 16 * size), size):
            row = flat[starts[i:i + size, None] + reach].long()
            ids, spoken = row & 0x7fff, (row[:, 1:] < 0).float()
            total += float(loss(ids[:, :-1], ids[:, 1:], spoken)) * float(spoken.sum())
            count += float(spoken.sum())
    return total / max(count, 1)


class Run:
    def __init__(self, options):
        self.options = options
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.folder = os.path.join(options.work, options.out)
        os.makedirs(self.folder, exist_ok=True)
        torch.manual_seed(SEED)
        torch.set_float32_matmul_precision("high")
        self.model = Llama(SHAPES[options.shape]).to(self.device)
        matrices = [p for p in self.model.parameters() if p.dim() == 2]
        vectors = [p for p in self.model.parameters() if p.dim() < 2]
        self.optimizer = torch.optim.AdamW(
            [dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0.0)],
            lr=options.rate, betas=(0.9, 0.95), fused=self.device == "cuda")
        self.step, self.steps, self.spent = 0, options.steps, 0.0  # spent: seconds of earlier calls
        self.resume()

        def loss(*batch):
            return loss_of(self.model, *batch)
        self.loss = torch.compile(loss, dynamic=False) if self.device == "cuda" else loss

    def resume(self):
        path = os.path.join(self.folder, "state.pt")
        if not os.path.exists(path):
            return
        state = torch.load(path, map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.steps, self.spent = state["step"], state["steps"], state["spent"]
        self.note(f"goes on from step {self.step}")

    def save(self):
        """state.pt to go on from; weights.pt, bfloat16, for the next steps and to travel in two pieces."""
        def write(name, what):
            path = os.path.join(self.folder, name)
            torch.save(what, path + ".new")
            os.replace(path + ".new", path)
        write("state.pt", dict(model=self.model.state_dict(), optimizer=self.optimizer.state_dict(), step=self.step,
                               steps=self.steps, spent=self.spent + time.time() - self.started))
        write("weights.pt", dict(shape=self.options.shape, step=self.step, weights={
            name: tensor.to(torch.bfloat16) for name, tensor in self.model.state_dict().items()}))

    def note(self, text):
        print(text, flush=True)
        with open(os.path.join(self.folder, "log.txt"), "a", encoding="utf-8") as file:
            file.write(text + "\n")

    def train(self):
        batches = Rows(self.options.work, "train", self.device).batches(self.options.batch, SEED + self.step)
        started = self.started = time.time()
        tokens = self.options.batch * CONTEXT
        seen, mean = 0, None
        while not self.steps or self.step < self.steps:
            ids, targets, spoken = next(batches)
            late = self.steps and self.step >= REPLIES_ONLY * self.steps
            with precision(self.device):
                loss = self.loss(ids, targets, spoken if late else torch.ones_like(spoken))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            for group in self.optimizer.param_groups:
                group["lr"] = rate_at(self.step, self.steps, self.options.rate)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.step, seen = self.step + 1, seen + 1
            mean = loss.detach() if mean is None else 0.98 * mean + 0.02 * loss.detach()
            if not self.steps and seen == 1:
                compiled = self.clock()  # --minutes are those of training: deeper shapes take longer to compile
            if not self.steps and seen == MEASURE_FROM:
                began = self.clock()
            if not self.steps and seen == MEASURE_TO:
                each = (self.clock() - began) / (MEASURE_TO - MEASURE_FROM)
                self.steps = seen + max(1, int((self.options.minutes * 60 - (time.time() - compiled)) / each))
                self.note(f"{tokens / each:,.0f} tokens a second: {self.steps} steps")
            if self.step % 100 == 0 or seen in (1, 10):
                self.note(f"step {self.step}/{self.steps or '?'}, {time.time() - started:.0f} s, loss {float(mean):.4f}")
            if self.step % self.options.save == 0:
                self.save()
        self.save()
        self.model.eval()
        summary = dict(shape=self.options.shape, parameters=self.model.shape.parameters(), steps=self.steps,
                       batch=self.options.batch, rate=self.options.rate, tokens=self.steps * tokens,
                       seconds=round(self.spent + time.time() - started), held_loss=held_loss(
                           self.loss, self.options.work, self.options.batch, self.device))
        self.note(json.dumps(summary))
        with open(os.path.join(self.folder, "summary.json"), "w", encoding="utf-8") as file:
            json.dump(summary, file)

    def clock(self):
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.time()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("work")
    arguments.add_argument("--shape", choices=SHAPES, required=True)
    length = arguments.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float)
    length.add_argument("--steps", type=int, default=0)
    arguments.add_argument("--batch", type=int, default=128)
    arguments.add_argument("--rate", type=float, default=2e-3)
    arguments.add_argument("--save", type=int, default=1000)
    arguments.add_argument("--out", default="run")
    Run(arguments.parse_args()).train()


if __name__ == "__main__":
    main()
