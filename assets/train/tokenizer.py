"""Trains the model's SentencePiece vocabulary (BPE, byte fallback) on the filtered conversations.

usage: tokenizer.py WORK [--pieces N] [--megabytes N]     WORK/text/train.jsonl → WORK/tokenizer.model
"""
import argparse
import json
import os
import random

import sentencepiece

from settings import IM_END, IM_START, PIECES, SEED, UNKNOWN, UNKNOWN_ID, START_ID, END_ID


def texts(path, megabytes):
    """Lines of the conversations' texts, a random sample of about that size."""
    keep = min(1.0, megabytes * 1e6 / max(os.path.getsize(path), 1))
    chance = random.Random(SEED)
    with open(path, encoding="utf-8") as file:
        for line in file:
            if chance.random() > keep:
                continue
            for message in json.loads(line)["messages"]:
                # No dummy space is put in front of a text: "system", "user" and "assistant" stand at the beginning of
                # one too, behind their control token.
                yield message["role"]
                yield from (part for part in message["text"].split("\n") if part)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("work")
    arguments.add_argument("--pieces", type=int, default=PIECES)
    arguments.add_argument("--megabytes", type=float, default=40)
    options = arguments.parse_args()
    os.chdir(options.work)  # the model holds the prefix it was written by: no path of whoever made it
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=texts(os.path.join("text", "train.jsonl"), options.megabytes),
        model_prefix="tokenizer", model_type="bpe", vocab_size=options.pieces,
        byte_fallback=True, split_digits=True, character_coverage=0.9999, hard_vocab_limit=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False,
        unk_id=UNKNOWN_ID, bos_id=START_ID, eos_id=END_ID, pad_id=-1, unk_piece=UNKNOWN, bos_piece=IM_START,
        eos_piece=IM_END, max_sentence_length=16384, num_threads=os.cpu_count(), minloglevel=1)
    os.remove("tokenizer.vocab")
    print(f"tokenizer.model: {options.pieces} pieces")


if __name__ == "__main__":
    main()
