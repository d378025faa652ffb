"""Fills in the model card from what the steps have measured.

usage: card.py WORK FOLDER [--run NAME]
       WORK/{filter,evaluation}.json, WORK/NAME/summary.json → FOLDER/README.md
"""
import argparse
import json
import os
import string

import numpy as np

import settings


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


def talk(sample):
    lines = [f"system: {sample['system']}"] if sample["system"] else []
    lines += [f"user: {sample['user']}", f"{settings.NAME}: {sample['reply']}"]
    return "\n".join(f"    {line}" for text in lines for line in text.split("\n"))


def values(work, folder, run):
    counts, measured, summary = read(work, "filter.json"), read(work, "evaluation.json"), read(work, run, "summary.json")
    replies, memory, held = measured["replies"], measured["memory"], measured["held_out"]
    shape = settings.SHAPES[summary["shape"]]
    return dict(
        name=settings.NAME, parameters=f"{shape.parameters() / 1e6:.1f} million",
        size=f"{os.path.getsize(os.path.join(folder, 'model.safetensors')) / 1e6:.0f}",
        refusals=f"{counts.get('refuse: kept', 0):,}", layers=shape.layers, hidden=shape.hidden, heads=shape.heads,
        kv_heads=shape.kv_heads, context=f"{shape.context:,}", pieces=f"{shape.vocab:,}", temperature=settings.TEMPERATURE,
        top_p=settings.TOP_P, conversations=f"{counts['train']:,}", megabytes=f"{counts['bytes'] / 1e6:.0f}",
        tokens=f"{int(np.load(os.path.join(work, 'packed', 'train.offsets.npy'))[-1]):,}",
        teacher_temperature=settings.TEACHER_TEMPERATURE,
        generated=f"{sum(n for key, n in counts.items() if key.endswith(': all')):,}", held_out=settings.HELD_OUT,
        steps=f"{summary['steps']:,}", batch=summary["batch"], seen=f"{summary['tokens']:,}", rate=summary["rate"],
        minutes=round(summary["seconds"] / 60), prompts=replies["prompts"], limit=settings.REPLY_LIMIT,
        ended=f"{replies['ended']:.1%}", repeated=f"{replies['repeated_4_grams']:.1%}",
        controls=replies["with_control_tokens"], right=memory["right"], cases=memory["cases"],
        held_loss=f"{summary['held_loss']:.3f}", texts=held["texts"], samples=len(replies["samples"]),
        own_perplexity=f"{held['model']['perplexity_per_byte']:.3f}", own_bits=f"{held['model']['bits_per_byte']:.3f}",
        teacher_perplexity=f"{held['teacher']['perplexity_per_byte']:.3f}",
        teacher_bits=f"{held['teacher']['bits_per_byte']:.3f}", talks="\n\n".join(map(talk, replies["samples"])))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("work")
    arguments.add_argument("folder")
    arguments.add_argument("--run", default="run")
    options = arguments.parse_args()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "card.md"), encoding="utf-8") as template:
        card = string.Template(template.read()).substitute(values(options.work, options.folder, options.run))
    with open(os.path.join(options.folder, "README.md"), "w", encoding="utf-8") as out:
        out.write(card)
    print(os.path.join(options.folder, "README.md"))
