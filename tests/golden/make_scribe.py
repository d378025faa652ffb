#!/usr/bin/env python3
"""tests/golden/scribe: a small LLaMA that was trained, for tests of what a model makes of a text longer than its context.

It learned the C sources of this repository (without the tests), in windows of 96 tokens that begin with <s>, token 0. stream.bin
is text it has never seen, the beginning of a test's source: little-endian uint16 ids, <s> first. Byte-level BPE of 512 pieces, of
which the files here need only the ids. Weights are kept in float16.

usage: make_scribe.py [STEPS]   (needs numpy, torch, transformers, tokenizers; some seven minutes on one core; writes PROVENANCE.txt)
"""
import glob
import hashlib
import math
import os
import sys

import numpy as np
import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
OUT = os.path.join(HERE, "scribe")
CONTEXT, VOCAB, BATCH, RATE = 96, 512, 16, 4e-3
STREAM = 11 * CONTEXT
HELD_OUT = "tests/engine/cache/test_shift.c"
CONFIG = dict(vocab_size=VOCAB, hidden_size=80, intermediate_size=216, num_hidden_layers=4, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, tie_word_embeddings=True,
              bos_token_id=0, eos_token_id=None, rope_theta=1000.0)


def read(path):
    with open(path) as f:
        return f.read()


def make_tokenizer(texts):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False))
    return tokenizer


def train(model, ids, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.1)
    rng = np.random.default_rng(1)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 100) * (0.02 + 0.49 * (1 + math.cos(math.pi * step / steps)))
        at = rng.integers(0, len(ids) - CONTEXT, BATCH)
        rows = torch.from_numpy(np.stack([np.concatenate([[0], ids[a:a + CONTEXT - 1]]) for a in at]))
        loss = model(input_ids=rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 200 == 0:
            print(f"{step}: {loss.item():.3f}", flush=True)
    return loss.item()


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    torch.manual_seed(1)
    torch.set_num_threads(1)
    rooms = ("app", "config", "engine", "kernels", "kernels/cpu", "tokenizer")
    texts = [read(f) for room in rooms for f in sorted(glob.glob(os.path.join(ROOT, room, "*.[ch]")))]
    tokenizer = make_tokenizer(texts)
    ids = np.concatenate([tokenizer.encode(text).ids for text in texts]).astype(np.int64)
    model = LlamaForCausalLM(LlamaConfig(**CONFIG))
    loss = train(model, ids, steps)
    os.makedirs(OUT, exist_ok=True)
    state = {key: value.half().contiguous() for key, value in model.state_dict().items() if key != "lm_head.weight"}
    save_file(state, os.path.join(OUT, "model.safetensors"), metadata={"format": "pt"})
    model.config.dtype = torch.float16
    model.config.save_pretrained(OUT)
    stream = [0] + tokenizer.encode(read(os.path.join(ROOT, HELD_OUT))).ids[:STREAM - 1]
    np.array(stream, dtype="<u2").tofile(os.path.join(OUT, "stream.bin"))
    digest = hashlib.sha256("".join(texts).encode()).hexdigest()
    with open(os.path.join(OUT, "PROVENANCE.txt"), "w") as f:
        f.write(f"Made by tests/golden/make_scribe.py: {steps} steps over {len(ids)} tokens of this repository's own sources as they were\n"
                f"(sha256 of all in one: {digest}),\n"
                f"{sum(p.numel() for p in model.parameters())} parameters, last loss {loss:.3f}; stream.bin is the beginning of {HELD_OUT}.\n"
                f"Python {sys.version.split()[0]}, numpy {np.__version__}, torch {torch.__version__}, transformers {transformers.__version__}, "
                f"tokenizers {tokenizers.__version__}.\n")


if __name__ == "__main__":
    main()
