"""Keeps of the teacher's conversations what is worth learning from.

Each reply must pass the checks below; a conversation ends before the first that does not, and is dropped if nothing is
left of it, or if what the user asks to be remembered was not. Of equal conversations one stays, of equal first turns
with equal replies SAME.
usage: filter.py WORK        WORK/raw → WORK/text/{train,held}.jsonl, WORK/filter.json (what was dropped, and why)
"""
import collections
import glob
import hashlib
import json
import multiprocessing
import os
import re
import sys

import numpy as np
import tokenizers

import prompts
from decode import SPOKEN

SAME = 8
LONGEST = 900  # bytes of a reply: about 200 tokens of the model's own vocabulary
SIGNS = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \n.,;:!?'\"()-–—/%°&*é")
STRAIGHT = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "…": "...", "\u00a0": " ", "\u2011": "-"})
FOREIGN = re.compile(r"<\||\|>|https?:|www\.|\b(User|Assistant|System|Human|AI):|\[[A-Z]|SmolLM|Hugging ?Face|OpenAI|ChatGPT|"
                     r"\bP\.S\.|#\w|as an AI language|Dear \w+,|Sincerely|Best regards|\b(los|una|est|les|und|der)\b")
# Our examples speak of these; a reply that does so unasked has copied.
COPIED = re.compile(r"puddle|donkey|candle burns|Walter|Speedy|tortoise|Zurich|plumber|Agnes|juggl|plums|goose|geese|Greta|glove|dentist")
STOP = set("what which when where with about that this there their have does mean word tell give please explain from your "
           "between difference would like could name list short story write poem little more simple words like describe "
           "know something interesting curious homework friend beginner brief always wanted school daughter teacher fact learn want sentence sentences child answer briefly question simply".split())
# Nobody wants to hear from a program of its family and its dog.
LIVED = re.compile(r"\b(my|our) (own )?(family|friends?|house|home|dog|cat|garden|husband|wife|children|kids|apartment|arms|"
                   r"daughter|son|sister|brother|mother|father|parents|childhood|website|blog|business|team|company|job|"
                   r"bag|body)\b|\bI('ve| have) (a|been|lived|worked|always)\b|\bI'm (a|an) (?!small|very small|little|"
                   r"language|computer|AI|friendly)|phone number|when I was", re.I)
NAMED = re.compile(r"\b(I am|I'm|[Mm]y name is|[Cc]all me) (?!Parley\b)[A-Z][a-z]+")  # the user's name is not the model's
TALKS = {"chat", "feeling", "self", "recall"}
ON_TOPIC = {"explain", "question", "define", "difference", "story", "poem", "manner"}
MANNER_SHOWS = {
    "Answer in one sentence.": re.compile(r"^[^.!?]*[.!?]$"),
    "You are a pirate. Talk like one.": re.compile(r"\b(arr|aye|matey|ye|hearty|hearties)\b", re.I),
    "You are a very polite butler.": re.compile(r"\b(dear guest|certainly|pleasure|of course|may I|sir|madam)\b", re.I),
    "You are a cheerful robot. Begin every answer with Beep!": re.compile(r"^Beep!"),
    "You are a wise old woman who likes to give advice.": re.compile(r"\b(my dear|dear)\b", re.I),
    "End every answer with a question to the user.": re.compile(r"\?$"),
    "You are enthusiastic about everything!": re.compile(r"!"),
}
state = {}


def grams(text, n=4):
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[i:i + n]) for i in range(len(words) - n + 1)]


def repeated(text):
    """The share of a text's 4-grams of words that stand in it before."""
    found = grams(text)
    return 1 - len(set(found)) / len(found) if found else 0.0


def looped(text):
    sentences = [s.strip().lower() for s in re.split(r"[.!?\n]", text) if len(s.split()) > 2]
    return repeated(text) > 0.08 or len(set(sentences)) < len(sentences)


def stems(text):
    return {word[:4] for word in re.findall(r"[a-z]{3,}", text.lower()) if word not in STOP}


def fault(prompt, at, reply, before):
    """Why a reply is not good enough, or None. `before` are the replies before it."""
    asked = prompt.turns[at]
    if not reply or len(reply.encode()) > LONGEST:
        return "length"
    if not set(reply) <= SIGNS:
        return "signs"
    if FOREIGN.search(reply):
        return "foreign"
    if COPIED.search(reply) and not COPIED.search(asked):
        return "copied"
    if prompt.kind in TALKS and (LIVED.search(reply) or NAMED.search(reply)):
        return "lived"
    if looped(reply):
        return "loop"
    if not re.search(r"[.!?\"')]$", reply) and not (prompt.kind in ("list", "tips", "poem") and "\n" in reply) \
            and len(reply.split()) > 6:
        return "ending"
    if re.search(r"^\d+\.\s*$|^\W+$", reply, re.M):
        return "empty item"
    if prompt.expected[at] and not any(word in reply.lower() for word in prompt.expected[at]):
        return "expected"
    if prompt.kind == "recall" and prompt.expected[at] and (
            not re.search(r"\byou", reply, re.I) or re.search(r"\b(my|mine|I)\b", reply)):
        return "expected"
    if at == 0 and prompt.kind in ON_TOPIC and not stems(asked) & stems(reply):
        return "off topic"
    if prompt.system in MANNER_SHOWS and not MANNER_SHOWS[prompt.system].search(reply):
        return "manner"
    mine = set(grams(reply))
    for other in before:
        if reply == other or (len(mine) > 4 and len(mine & set(grams(other))) > 0.3 * len(mine)):
            return "says it again"
    return None


def replies_of(tokens):
    """The texts the model has said, in turns; the last may lack its end."""
    texts, run = [], []
    for token in tokens.tolist() + [0]:
        if token >= SPOKEN:
            run.append(token - SPOKEN)
        elif run:
            texts.append(state["tokenizer"].decode(run, skip_special_tokens=True).translate(STRAIGHT).strip())
            run = []
    return texts


def judge(prompt, replies, cut):
    """(kept messages or None, faults)."""
    messages = [dict(role="system", text=prompt.system)] if prompt.system else []
    kept, faults = [], []
    for at, reply in enumerate(replies):
        why = "cut" if cut and at == len(replies) - 1 else fault(prompt, at, reply, kept)
        if why:
            faults.append(why)
            break
        kept.append(reply)
        messages += [dict(role="user", text=prompt.turns[at]), dict(role="assistant", text=reply)]
    if prompt.kind == "recall" and not any(prompt.expected[:len(kept)]):
        return None, faults or ["expected"]
    return (messages if kept else None), faults


def start_worker(path):
    state["tokenizer"] = tokenizers.Tokenizer.from_file(path)


def read_part(path):
    with np.load(path) as part:  # which reads an array whenever it is asked for it
        numbers, cuts, lengths, tokens = (part[name] for name in ("numbers", "cut", "lengths", "tokens"))
    kept, counts = [], collections.Counter()
    for number, cut, end, length in zip(numbers, cuts, np.cumsum(lengths), lengths):
        prompt = prompts.compose(int(number))
        messages, faults = judge(prompt, replies_of(tokens[end - length:end]), bool(cut))
        counts.update(f"{prompt.kind}: {why}" for why in faults)
        counts[f"{prompt.kind}: all"] += 1
        if messages:
            counts[f"{prompt.kind}: kept"] += 1
            kept.append((prompt.held_out, json.dumps(dict(number=int(number), kind=prompt.kind, messages=messages))))
    return kept, counts


def digest(value):
    return hashlib.blake2b(json.dumps(value).lower().encode(), digest_size=8).digest()


def main(work):
    os.makedirs(os.path.join(work, "text"), exist_ok=True)
    counts, wholes, firsts = collections.Counter(), set(), collections.Counter()
    size = 0
    with open(os.path.join(work, "text", "train.jsonl"), "w", encoding="utf-8") as train, \
            open(os.path.join(work, "text", "held.jsonl"), "w", encoding="utf-8") as held, \
            multiprocessing.Pool(initializer=start_worker, initargs=(os.path.join(work, "teacher.json"),)) as pool:
        for kept, found in pool.imap(read_part, sorted(glob.glob(os.path.join(work, "raw", "?????.npz")))):
            counts.update(found)
            for held_out, line in kept:
                messages = json.loads(line)["messages"]
                whole, first = digest(messages), digest(messages[:3 if messages[0]["role"] == "system" else 2])
                firsts[first] += 1
                if whole in wholes or firsts[first] > SAME:
                    counts["said before"] += 1
                    continue
                wholes.add(whole)
                (held if held_out else train).write(line + "\n")
                counts["held out" if held_out else "train"] += 1
                size += sum(len(m["text"]) for m in messages)
    counts["bytes"] = size
    with open(os.path.join(work, "filter.json"), "w", encoding="utf-8") as file:
        json.dump(dict(sorted(counts.items())), file, indent=1)
    print(f"{counts['train']} conversations to train on, {counts['held out']} held out, {size / 1e6:.1f} MB of text")
    for kind in [*prompts.KINDS, "manner"]:
        why = {k.split(": ")[1]: n for k, n in counts.items() if k.startswith(f"{kind}: ")}
        print(f"  {kind}: {why.pop('kept', 0)} of {why.pop('all', 0)}; {dict(sorted(why.items(), key=lambda x: -x[1]))}")


if __name__ == "__main__":
    main(sys.argv[1])
