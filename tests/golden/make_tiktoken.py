"""Small vocabularies of the kinds that tiktoken reads, in tests/golden/tokenizers/, and what it makes of 12,000 texts.

    python3 tests/golden/make_tiktoken.py      after make_tokenizers.py, whose texts and helpers this uses

    tekken/tekken.json      as Mistral's package has it, with special tokens listed; the ids are those of tiktoken's Encoding
                            over its pieces, plus the number of special tokens, as that package computes them
    tekken-old/tekken.json  the same pieces, without a list of special tokens, and more of them than ids
    qwen/qwen.tiktoken      as Qwen 1 has it, with NFC before everything
    glm4/tokenizer.model    as GLM-4 has it, special tokens in tokenizer_config.json
    NAME/ids.bin, ids.txt, special.bin  as make_tokenizers.py says
"""
import base64
import json
import os
import unicodedata

import tiktoken
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

import make_strings
from make_tokenizers import HERE, LLAMA3, QWEN2, fnv, write_ids, write_json

UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEFAULTS = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
            "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
            "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]
GLM4 = ["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>",
        "<|observation|>", "<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>"]


def byte_of():
    kept = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for byte in range(256):
        table[chr(byte) if byte in kept else chr(256 + extra)] = byte
        extra += byte not in kept
    return table


def train(pattern, size):
    """Pieces by rank: the bytes, then what a trainer merges."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated", invert=False),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.train_from_iterator(make_strings.corpus(), trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    table = byte_of()
    pieces = [bytes(table[c] for c in piece) for piece, _ in sorted(tok.get_vocab().items(), key=lambda item: item[1])]
    alphabet = [bytes([b]) for b in range(256)]
    return alphabet + [p for p in pieces if len(p) > 1]


def record(name, pattern, pieces, specials, first, texts, normalize=lambda t: t, ends=("", "")):
    """specials: id by text; the pieces' ids begin at `first`."""
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks={p: i for i, p in enumerate(pieces)},
                                 special_tokens={})
    encode = lambda t: [first + i for i in encoding.encode(normalize(t), disallowed_special=())]
    texts = [t.decode() for t in texts]
    write_ids(name, encode, texts)
    with open(f"{HERE}/{name}/special.bin", "wb") as f:
        for i in range(2000):
            ids = [specials[ends[0]], *encode_around(encode, specials, texts[i]), specials[ends[1]],
                   *encode_around(encode, specials, texts[i + 1])]
            f.write(fnv(ids).to_bytes(4, "little"))


def encode_around(encode, specials, text):
    """Special tokens within the text are recognised too, the longest of those that begin leftmost."""
    ids, start, at = [], 0, 0
    while at < len(text):
        found = max((s for s in specials if text.startswith(s, at)), key=len, default=None)
        if found is None:
            at += 1
            continue
        ids += encode(text[start:at]) + [specials[found]]
        start = at = at + len(found)
    return ids + encode(text[start:])


def tekken(name, pieces, listed, n_ids, n_special, texts):
    os.makedirs(f"{HERE}/{name}", exist_ok=True)
    vocab = [dict(rank=i, token_bytes=base64.b64encode(p).decode(), token_str=p.decode(errors="replace"))
             for i, p in enumerate(pieces)]
    value = dict(config=dict(pattern=TEKKEN, num_vocab_tokens=len(pieces), default_vocab_size=n_ids,
                             default_num_special_tokens=n_special, version="v7" if listed else "v3"), vocab=vocab)
    names = listed or DEFAULTS
    if listed:
        value["special_tokens"] = [dict(rank=i, token_str=s, is_control=True) for i, s in enumerate(listed)]
    write_json(f"{HERE}/{name}/tekken.json", value)
    specials = {s: i for i, s in enumerate(names)}
    specials.update({f"<SPECIAL_{i}>": i for i in range(len(names), n_special)})
    record(name, TEKKEN, pieces[:n_ids - n_special], specials, n_special, texts, ends=("<s>", "</s>"))


def tiktoken_file(path, pieces):
    with open(path, "w") as f:
        f.writelines(f"{base64.b64encode(p).decode()} {i}\n" for i, p in enumerate(pieces))


def fuzz_seeds():
    """The smallest vocabularies there are, for fuzz_ranks to begin with."""
    folder = os.path.join(os.path.dirname(__file__), "../fuzz/corpus/fuzz_ranks")
    os.makedirs(folder, exist_ok=True)
    pieces = [bytes([b]) for b in range(256)] + [b"th", b"the", b" the", b"  "]
    tiktoken_file(f"{folder}/lines", pieces)
    vocab = [dict(rank=i, token_bytes=base64.b64encode(p).decode()) for i, p in enumerate(pieces)]
    config = dict(pattern=TEKKEN, default_vocab_size=len(pieces) + 12, default_num_special_tokens=12)
    for name, more in (("tekken", {}), ("listed", dict(special_tokens=[dict(rank=1, token_str="<s>")]))):
        write_json(f"{folder}/{name}", dict(config=config, vocab=vocab, **more))


def main():
    valid, _ = make_strings.strings()
    pieces = train(TEKKEN, 1000)
    tekken("tekken", pieces, DEFAULTS + ["[THINK]", "[/THINK]"], 40 + len(pieces), 40, valid)
    tekken("tekken-old", pieces, None, 30 + len(pieces) - 100, 30, valid)

    os.makedirs(f"{HERE}/qwen", exist_ok=True)
    pieces = train(QWEN2, 900)
    tiktoken_file(f"{HERE}/qwen/qwen.tiktoken", pieces)
    write_json(f"{HERE}/qwen/tokenizer_config.json", dict(model_max_length=8192, tokenizer_class="QWenTokenizer"))
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
    specials = {s: len(pieces) + i for i, s in enumerate(names)}
    record("qwen", QWEN2, pieces, specials, 0, valid, lambda t: unicodedata.normalize("NFC", t),
           ends=("<|im_start|>", "<|im_end|>"))

    os.makedirs(f"{HERE}/glm4", exist_ok=True)
    pieces = train(LLAMA3, 900)
    tiktoken_file(f"{HERE}/glm4/tokenizer.model", pieces)
    specials = {s: len(pieces) + i for i, s in enumerate(GLM4)}
    write_json(f"{HERE}/glm4/tokenizer_config.json",
               dict(tokenizer_class="ChatGLM4Tokenizer", eos_token="<|endoftext|>", pad_token="<|endoftext|>",
                    added_tokens_decoder={str(i): dict(content=s, special=True, normalized=False, lstrip=False,
                                                       rstrip=False, single_word=False) for s, i in specials.items()}))
    record("glm4", LLAMA3, pieces, specials, 0, valid, ends=("[gMASK]", "<sop>"))
    fuzz_seeds()
    with open(f"{HERE}/provenance-tiktoken.txt", "w") as f:
        f.write(f"make_tiktoken.py with tiktoken {tiktoken.__version__}\n")


if __name__ == "__main__":
    main()
