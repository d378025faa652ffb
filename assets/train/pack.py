"""Turns the filtered conversations into tokens.

A conversation is one run of int16 in PART.bin: token ids, minus 32768 where the reply's tokens are (its text and its
end token); PART.offsets.npy [n + 1] says where each begins. PART.bytes.npy [n] counts the bytes of the replies' texts.
usage: pack.py WORK       WORK/tokenizer.model, WORK/text/{train,held}.jsonl → WORK/packed/
"""
import json
import multiprocessing
import os
import sys

import numpy as np
import sentencepiece

from settings import CONTEXT, END_ID, START_ID

SPOKEN = -32768
state = {}


def start_worker(model):
    state["pieces"] = sentencepiece.SentencePieceProcessor(model_file=model)


def encode(line):
    """(int16 tokens, bytes of the replies) of a conversation in a line of JSON."""
    pieces, ids, size = state["pieces"], [], 0
    newline = pieces.encode("\n")
    for message in json.loads(line)["messages"]:
        ids += [START_ID] + pieces.encode(f"{message['role']}\n")
        said = pieces.encode(message["text"]) + [END_ID]
        if message["role"] == "assistant":
            said = [token + SPOKEN for token in said]
            size += len(message["text"].encode())
        ids += said + newline
    return np.array(ids[:CONTEXT], dtype=np.int16), size


def pack(work, part):
    model = os.path.join(work, "tokenizer.model")
    with open(os.path.join(work, "text", f"{part}.jsonl"), encoding="utf-8") as file, \
            multiprocessing.Pool(initializer=start_worker, initargs=(model,)) as pool:
        runs, sizes = zip(*pool.imap(encode, file, chunksize=2000))
    folder = os.path.join(work, "packed")
    os.makedirs(folder, exist_ok=True)
    tokens = np.concatenate(runs)
    tokens.tofile(os.path.join(folder, f"{part}.bin"))
    np.save(os.path.join(folder, f"{part}.offsets.npy"), np.cumsum([0] + [len(run) for run in runs]))
    np.save(os.path.join(folder, f"{part}.bytes.npy"), np.array(sizes))
    print(f"{part}: {len(runs)} conversations, {len(tokens)} tokens, {np.mean(tokens < 0):.0%} of them in replies, "
          f"{sum(sizes) / np.sum(tokens < 0):.2f} bytes a reply token")


if __name__ == "__main__":
    for name in ("train", "held"):
        pack(sys.argv[1], name)
