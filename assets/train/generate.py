"""Lets the teacher write the conversations: composes prompts, decodes thousands at once, writes tokens in parts.

It goes on where the parts in WORK/raw end. --random takes made-up weights of the teacher's shape, to measure speed
without its file: nothing is written.
usage: generate.py WORK TEACHER.gguf (--minutes 7 | --count 500) [--rows 4096] [--length 960] [--random]
       → WORK/raw/00000.npz … (numbers, cut, lengths, tokens), WORK/teacher.json (its tokenizer)
"""
import argparse
import glob
import multiprocessing
import os
import time

import numpy as np
import torch

import prompts
import settings
import teacher
from decode import OVER, REPLY, SPOKEN, Conversation, Decoder, Sampling
from llama import Llama

PART = 20000  # conversations in a file
MOST = 1500000  # conversations in a run: more than time allows
state = {}


def turn(role, text):
    return f"{settings.IM_START}{role}\n{text}{settings.IM_END}\n"


def prefix_text(system, talks):
    text = turn("system", system) if system else ""
    for talk in talks:
        text += "".join(turn("user" if i % 2 == 0 else "assistant", said) for i, said in enumerate(talk))
    return text


def prepare(number):
    """The script of a conversation; its system prompt stands in its prefix."""
    prompt = prompts.compose(number)
    script, between = [], ""
    for said in prompt.turns:
        text = between + turn("user", said) + f"{settings.IM_START}assistant\n"
        script += state["tokenizer"].encode(text).ids + [REPLY]
        between = "\n"
    return number, prompt.prefix, np.array(script + [OVER], dtype=np.int32)


class Parts:
    """Finished conversations, in files of PART."""

    def __init__(self, folder):
        self.folder, self.waiting = folder, []
        os.makedirs(folder, exist_ok=True)
        self.written = len(glob.glob(os.path.join(folder, "?????.npz")))
        self.next_number = 0
        for path in glob.glob(os.path.join(folder, "?????.npz")):
            self.next_number = max(self.next_number, int(np.load(path)["numbers"].max()) + 1)

    def add(self, finished):
        self.waiting += finished
        while len(self.waiting) >= PART:
            self.write(self.waiting[:PART])
            self.waiting = self.waiting[PART:]

    def write(self, finished):
        if not finished:
            return
        path = os.path.join(self.folder, f"{self.written:05}.npz")
        with open(path + ".new", "wb") as file:
            np.savez(file, numbers=np.array([f.number for f in finished]), cut=np.array([f.cut for f in finished]),
                     lengths=np.array([len(f.tokens) for f in finished]),
                     tokens=torch.cat([f.tokens for f in finished]).numpy())
        os.replace(path + ".new", path)
        self.written += 1


def random_weights(shape):
    torch.manual_seed(settings.SEED)
    return {name: p.detach() for name, p in Llama(shape).named_parameters()}


def load_teacher(options):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    if options.random:
        shape, tokenizer = teacher.SHAPE, None
        weights = random_weights(shape)
    else:
        shape, weights, tokenizer = teacher.load(options.teacher)
        tokenizer.save(os.path.join(options.work, "teacher.json"))
    return shape, weights, tokenizer, device, kind


def made_up(count):
    """Scripts for --random: 60 tokens of prompt, one reply, which ends by chance or at the limit."""
    for number in range(count):
        yield Conversation(number, np.array([100 + number % 1000] * 60 + [REPLY, OVER], dtype=np.int32), 0)


def run(options):
    os.makedirs(options.work, exist_ok=True)
    shape, weights, tokenizer, device, kind = load_teacher(options)
    parts = Parts(os.path.join(options.work, "raw"))
    begin, count = parts.next_number, options.count or MOST
    if options.random:
        conversations, prefixes = made_up(count), [[5] * 250]
    else:
        state["tokenizer"] = tokenizer
        # A short trial reads only the prefixes that it needs.
        needed = sorted({prompts.compose(number).prefix for number in range(begin, begin + count)}) \
            if count <= 1000 else range(len(prompts.prefixes()))
        place = {prefix: i for i, prefix in enumerate(needed)}
        prefixes = [tokenizer.encode(prefix_text(*prompts.prefixes()[prefix])).ids for prefix in needed]
        pool = multiprocessing.get_context("fork").Pool(options.workers)  # before the device is touched
        conversations = (Conversation(number, script, place[prefix]) for number, prefix, script in
                         pool.imap(prepare, range(begin, begin + count), chunksize=256))
    sampling = Sampling(settings.TEACHER_TEMPERATURE, settings.TEACHER_TOP_P, settings.TEACHER_PENALTY,
                        settings.TEACHER_LIMIT)
    started = time.time()
    weights = {name: tensor.to(device, kind) for name, tensor in weights.items()}
    decoder = Decoder(shape, weights, sampling, settings.TEACHER_END_ID, min(options.rows, count), options.length,
                      max(400, max(map(len, prefixes)) + 1), prefixes)
    print(f"ready after {time.time() - started:.0f} s, prefixes of up to {max(map(len, prefixes))} tokens", flush=True)
    started, told, steps, tokens, spoken, done = time.time(), time.time(), 0, 0, 0, 0
    for finished in decoder.run(conversations):
        steps += 1
        done += len(finished)
        tokens += sum(len(f.tokens) for f in finished)
        spoken += sum(int((f.tokens >= SPOKEN).sum()) for f in finished)
        if not options.random:
            parts.add(finished)
        over = options.minutes and time.time() - started > options.minutes * 60
        if over or time.time() - told > 20:
            told = time.time()
            seconds = told - started
            print(f"{seconds:.0f} s: {done} conversations, {tokens / 1e6:.1f} M tokens, {spoken / 1e6:.1f} M of them said, "
                  f"{tokens / seconds:,.0f} tokens a second, {seconds / steps / 16 * 1e3:.2f} ms a step", flush=True)
        if over:
            break
    parts.write(parts.waiting)
    print(f"{done} conversations, {tokens} tokens, {spoken} of them said, in {time.time() - started:.0f} s", flush=True)
    if not options.random:
        pool.terminate()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("work")
    arguments.add_argument("teacher")
    length = arguments.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float)
    length.add_argument("--count", type=int)
    arguments.add_argument("--rows", type=int, default=4096)
    arguments.add_argument("--length", type=int, default=960)
    arguments.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 3))
    arguments.add_argument("--random", action="store_true")
    run(arguments.parse_args())


if __name__ == "__main__":
    main()
