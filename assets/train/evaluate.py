"""Measures an exported model on prompts and conversations that it was not trained on.

usage: evaluate.py WORK FOLDER TEACHER.gguf [--prompts 300] [--cases 50] [--texts 2000]
       FOLDER, WORK/text/held.jsonl → WORK/evaluation.json
"""
import argparse
import json
import math
import os

import numpy as np
import sentencepiece
import tokenizers
import torch
from safetensors.torch import load_file

import prompts
import settings
import teacher
from decode import OVER, REPLY, SPOKEN, Conversation, Decoder, Sampling
from filter import repeated
from llama import Llama, Shape

SAMPLES = 20


class Student:
    """The exported folder: its shape, its weights, its vocabulary; ChatML in its tokens."""

    def __init__(self, folder, device, kind):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.shape = Shape(vocab=config["vocab_size"], hidden=config["hidden_size"], ffn=config["intermediate_size"],
                           layers=config["num_hidden_layers"], heads=config["num_attention_heads"],
                           kv_heads=config["num_key_value_heads"], head_dim=config["head_dim"],
                           theta=config["rope_theta"], eps=config["rms_norm_eps"],
                           context=config["max_position_embeddings"])
        weights = load_file(os.path.join(folder, "model.safetensors"))
        self.weights = {name: tensor.to(device, kind) for name, tensor in weights.items()}
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "tokenizer.model"))

    def turn(self, role, text):
        return self.opening(role) + self.pieces.encode(text) + [settings.END_ID] + self.pieces.encode("\n")

    def opening(self, role):
        return [settings.START_ID] + self.pieces.encode(f"{role}\n")

    def script(self, prompt, turns):
        ids = self.turn("system", prompt.system) if prompt.system else []
        for i, said in enumerate(prompt.turns[:turns]):
            ids += (self.pieces.encode("\n") if i else []) + self.turn("user", said) + self.opening("assistant") + [REPLY]
        return np.array(ids + [OVER], dtype=np.int32)

    def reply_texts(self, finished):
        """The replies' texts, and whether a control token stands in one."""
        texts, run, control = [], [], False
        for token in finished.tokens.tolist() + [0]:
            if token >= SPOKEN:
                run.append(token - SPOKEN)
            elif run:
                ids = run[:-1] if run[-1] == settings.END_ID else run
                control |= any(token in (settings.UNKNOWN_ID, settings.START_ID, settings.END_ID) for token in ids)
                texts.append(self.pieces.decode(ids))
                control |= "<|" in texts[-1]
                run = []
        return texts, control


def held_prompts(count, wanted):
    """The first `count` prompts beyond those the teacher saw whose first turn is held out and new."""
    found, seen, number = [], set(), 10_000_000
    while len(found) < count:
        prompt = prompts.compose(number)
        number += 1
        if prompt.held_out and wanted(prompt) and (prompt.system, prompt.turns) not in seen:
            seen.add((prompt.system, prompt.turns))
            found.append(prompt)
    return found


def talk(student, chosen, turns):
    """{number: Finished} of the chosen prompts' first turns."""
    scripts = [student.script(prompt, turns) for prompt in chosen]
    sampling = Sampling(settings.TEMPERATURE, settings.TOP_P, 1.0, settings.REPLY_LIMIT)
    decoder = Decoder(student.shape, student.weights, sampling, settings.END_ID, min(len(chosen), 300),
                      student.shape.context, max(map(len, scripts)))
    conversations = (Conversation(prompt.number, script) for prompt, script in zip(chosen, scripts))
    return {f.number: f for finished in decoder.run(conversations) for f in finished}


def judge_replies(student, count):
    chosen = held_prompts(count, lambda prompt: True)
    finished = talk(student, chosen, 1)
    samples, rates, ended, controls = [], [], 0, 0
    for prompt in chosen:
        texts, control = student.reply_texts(finished[prompt.number])
        ended += not finished[prompt.number].cut
        controls += control
        rates.append(repeated(texts[0]))
        samples.append(dict(system=prompt.system, user=prompt.turns[0], reply=texts[0]))
    return dict(prompts=count, ended=ended / count, repeated_4_grams=float(np.mean(rates)),
                with_control_tokens=controls, samples=samples[:SAMPLES])


def judge_memory(student, count):
    chosen = held_prompts(count, lambda prompt: prompt.kind == "recall")
    finished, right, missed = talk(student, chosen, None), 0, []
    for prompt in chosen:
        texts, _ = student.reply_texts(finished[prompt.number])
        # A reply that was cut leaves fewer texts than turns.
        good = len(texts) == len(prompt.turns) and all(
            not words or any(word in text.lower() for word in words) for words, text in zip(prompt.expected, texts))
        right += good
        if not good:
            missed.append([part for pair in zip(prompt.turns, texts) for part in pair])
    return dict(cases=count, right=right, missed=missed[:5])


def bits_per_byte(model, encode, lines, device):
    """(bits a byte, perplexity a byte) of the replies' texts with their ends, each after what was said before it."""
    nats = size = 0.0
    with torch.no_grad():
        for line in lines:
            ids, spoken = encode(json.loads(line)["messages"])
            row = torch.tensor(ids[:settings.CONTEXT], device=device)[None]
            mask = torch.tensor(spoken[:settings.CONTEXT], device=device)[None, 1:]
            losses = torch.nn.functional.cross_entropy(model(row[:, :-1])[0].float(), row[0, 1:], reduction="none")
            nats += float((losses * mask[0]).sum())
            size += sum(len(m["text"].encode()) + 1 for m in json.loads(line)["messages"] if m["role"] == "assistant")
    return dict(bits_per_byte=nats / math.log(2) / size, perplexity_per_byte=math.exp(nats / size))


def model_of(shape, weights, device):
    """In float32: a module's rotation tables follow the type of its weights, and in 16 bits cost more than those."""
    model = Llama(shape)
    model.load_state_dict(weights)
    return model.to(device).eval()


def judge_texts(student, work, gguf, count, device):
    with open(os.path.join(work, "text", "held.jsonl"), encoding="utf-8") as file:
        lines = [line for line, _ in zip(file, range(count))]
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(work, "teacher.json"))

    def runs(messages, opening, text, ending):
        ids, spoken = [], []
        for message in messages:
            for part, counts in ((opening(message["role"]), False), (text(message["text"]), True), (ending, False)):
                ids += part
                spoken += [counts and message["role"] == "assistant"] * len(part)
        return ids, spoken

    def student_runs(messages):
        return runs(messages, student.opening, lambda text: student.pieces.encode(text) + [settings.END_ID],
                    student.pieces.encode("\n"))

    def teacher_runs(messages):
        return runs(messages, lambda role: tokenizer.encode(f"{settings.IM_START}{role}\n").ids,
                    lambda text: tokenizer.encode(text + settings.IM_END).ids, tokenizer.encode("\n").ids)

    own = bits_per_byte(model_of(student.shape, student.weights, device), student_runs, lines, device)
    shape, weights, _ = teacher.load(gguf)
    return dict(texts=len(lines), model=own,
                teacher=bits_per_byte(model_of(shape, weights, device), teacher_runs, lines, device))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("work")
    arguments.add_argument("folder")
    arguments.add_argument("teacher")
    arguments.add_argument("--prompts", type=int, default=300)
    arguments.add_argument("--cases", type=int, default=50)
    arguments.add_argument("--texts", type=int, default=2000)
    options = arguments.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    student = Student(options.folder, device, torch.bfloat16 if device == "cuda" else torch.float32)
    result = dict(replies=judge_replies(student, options.prompts), memory=judge_memory(student, options.cases),
                  held_out=judge_texts(student, options.work, options.teacher, options.texts, device))
    with open(os.path.join(options.work, "evaluation.json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    replies = {key: value for key, value in result["replies"].items() if key != "samples"}
    print(json.dumps(dict(result, replies=replies), indent=1))


if __name__ == "__main__":
    main()
