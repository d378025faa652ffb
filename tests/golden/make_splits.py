"""Records what the tokenizers package makes of 4,000 hard texts under the split rule of each name of tokenizer.ggml.pre.

    python3 tests/golden/make_splits.py

    texts.bin       u32 count, u32 0, then u16 length and bytes of each text, as tokenizers/strings.bin
    bytes/tokenizer.json, characters/vocab.json   vocabularies whose merges cross any border of words, so that a border that
                    is missing or in a wrong place shows: byte-level, and of characters as Gemma 4 has it
    RULE.bin        per ten texts the low 32 bits of FNV-1a (64 bit) over their ids, each as four bytes, low first

The rules are those of the models' own tokenizer.json, as their makers publish them and llama.cpp's comments quote them
(src/llama-vocab.cpp); for those that neither shows (afmoe, kimi-k2's Chinese, default) what llama.cpp computes.
"""
import collections
import json
import os
import random
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

sys.path.insert(0, os.path.dirname(__file__))
import make_strings  # noqa: E402

HERE = os.path.join(os.path.dirname(__file__), "splits")
N_TEXTS = 4000
GROUP = 10

CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+TAIL|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*TAIL|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT4O = CASED.replace("TAIL", SHORT + "?").replace("DIGITS", r"\p{N}{1,3}")
LLAMA3 = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CASED_LETTERS = ("[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7d"
                 "ᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ"
                 "𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]")
CJK = "[一-龥぀-ゟ゠-ヿ]+"
ASIAN = "[一-龥ࠀ-一가-\ud7ff]+"
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+SHORT?|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*SHORT?|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+").replace("SHORT", SHORT)


def split(*patterns):
    return [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]


def level(use_regex=False):
    return [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)]


def digits(single=True):
    return [pre_tokenizers.Digits(individual_digits=single)]


# name: (steps before the model, NFC, ignore_merges)
RULES = {
    "gpt-2": (level(True), False, False),
    "olmo": (level(True), True, False),
    "smollm": (digits() + level(True), False, False),
    "command-r": (digits() + level(True), True, False),
    "bloom": (split(BLOOM) + level(), False, False),
    "viking": (split(BLOOM) + digits() + level(), False, False),
    "falcon": ([pre_tokenizers.Punctuation("contiguous")] + level(True) + digits(False) + split("[0-9][0-9][0-9]"), False, False),
    "llama-bpe": (split(LLAMA3) + level(), False, True),
    "dbrx": (split(LLAMA3) + level(), False, False),
    "jais-2": (split(LLAMA3.replace(r"\s+(?!\S)|\s+", "|".join(r"\s{%d}(?!\S)" % n for n in (512, 256, 128, 64, 32, 16, 8, 4))
                                    + r"|\s{1,2}(?!\S)|\s{1}")) + level(), False, False),
    "minicpm5": (split(r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")) + level(), False, True),
    "qwen2": (split(QWEN2) + level(), True, False),
    "qwen35": (split(SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
               + level(), True, False),
    "stablelm2": (split(QWEN2) + level(), False, False),
    "laguna": (split(r"[^\n]+|[\n]+", QWEN2) + level(), False, False),
    "ufakzeka": (split(QWEN2[len(SHORT) + 1:]) + level(), False, False),
    "seed-coder": (split(SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}" "\r\n" r"]+|\s*[" "\r\n" r"]+|\s+(?!\S)|\s+")
                   + level(), False, False),
    "bailingmoe": (split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
                   + level(), False, False),
    "exaone-moe": (split(SHORT + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|"
                         r"\s+(?!\S)|\s+") + level(), False, False),
    "deepseek-llm": (split("[\r\n]", r"\s?" + CASED_LETTERS + "+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", ASIAN) + digits() + level(),
                     False, False),
    "deepseek-coder": (split("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", ASIAN) + digits() + level(), False, False),
    "deepseek-v3": (split(r"\p{N}{1,3}", CJK, DEEPSEEK3) + level(), False, False),
    "spark2_5": (split(r"\p{N}{1,3}", CJK, DEEPSEEK3.replace(r"[\r\n]*|\s*[\r\n]+|", r"|[\r\n]|"), r"\p{N}") + level(), False, False),
    "afmoe": (split(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
                    "[一-鿿㐀-䶿\uf900-\ufaff぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-\ud7afᄀ-ᇿ]+", DEEPSEEK3) + level(), False, False),
    "tekken": (split(CASED.replace("TAIL", "").replace("DIGITS", r"\p{N}")) + level(), False, True),
    "gpt-4o": (split(GPT4O) + level(), False, False),
    "granite-embed-multi-97m": (split(GPT4O) + level(), False, True),
    "youtu": (split("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + CJK, GPT4O.replace("{1,3}", "")) + level(), False, True),
    "tiny_aya": (split(r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O) + level(), False, False),
    "kimi-k2": (split(KIMI) + level(), False, False),
    "superbpe": (split(r"\p{N}+", r"(?=(\d{3})+(?!\d))") + level(), False, False),
    "chameleon": (split("<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )") + digits()
                  + [pre_tokenizers.Punctuation("isolated")] + level(True), False, False),
    "default": (split(r"[\p{P}\$\+<=>\^~\|]+", r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)", r"\p{N}+",
                      "[0-9][0-9][0-9]") + level(), False, False),
}

HARD = ["I'M İstanbul'da DIŞARI dışarı I'Ll we'VE 'ſ'S 'K", "x²y³ ¹½¼¾ H₂O ⅷ Ⅷ 1²", "a\r\nb\r\n\r\nc\r\rd\n\r", "tab\t\tx \t y\t", "end   ", "  \n  \n",
        "ÅÅÅå ABCdef HTTPServer XMLHttpRequest iPhone McDonald ΑΒΓαβγ АБВабв", "1234567 12345 123 12 1 0001 1,234,567.89 ٠١٢٣٤٥ १२३४५६७",
        "漢字かな交じり文テスト123漢字abc 漢字", "한국어 텍스트 테스트 한국어", "ㄅㄆㄇ ㄱㄴㄷ 。、「」—…“”", "é é ñ ạ̈ क्षि नमस्ते ไทยน้ำ", "👩‍👩‍👧‍👦👍🏽🇩🇪🇫🇷🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️1️⃣",
        "𝐀𝔸𝒜𐐀𐐨𞤀𞤢𒀀 𝟎𝟏𝟐", "<sentinel:12> IMGIMGABCZ IMGIMGZ x    y  z", "https://a.b/c//d?e=f#g/\n/h/", "foo_bar-baz.qux:quux;corge", "!!!...???///\n\n///x",
        " '" , "''s", "' s", "don't DON'T don’t 'twas rock'n'roll o'clock'll", "\u00a0\u2003\u3000x \u200b\u200d\ufeff y\u0085z\u2028", "µªº ʰʱ ǅǈǋ ﬁ ﬀ ℡№",
        "\U0001fa77love \U0001fabf's \U0001fae8x \U00031350\u5b57 \u1c89a \U0001e4f01"]  # of Unicode 15 and 16


def text(rng):
    kinds = [make_strings.sentence, make_strings.mixture, make_strings.marks, make_strings.number,
             lambda r: "".join(make_strings.code_point(r) for _ in range(r.randint(1, 6))),
             lambda r: r.choice(HARD), lambda r: r.choice(make_strings.CODE), lambda r: r.choice(make_strings.SPACES) * r.randint(1, 9),
             lambda r: "".join(r.choice("aAbBéÉſİıßΣς'sSdDlLtT  漢かは1²\u0301\n") for _ in range(r.randint(1, 12)))]
    return "".join(rng.choice(kinds)(rng) for _ in range(rng.randint(1, 3)))


def texts():
    rng = random.Random(5)
    out = list(HARD)
    while len(out) < N_TEXTS:
        t = text(rng)
        # What a Unicode version added later is classed differently by libraries of different age.
        if len(t.encode()) < 400 and not any(unicodedata.category(c) == "Cn" for c in t):
            out.append(t)
    return out


def fnv(ids):
    h = 0xCBF29CE484222325
    for b in b"".join(struct.pack("<I", i) for i in ids):
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h & 0xFFFFFFFF


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def record(name, tok, all_texts):
    ids = [tok.encode(t, add_special_tokens=False).ids for t in all_texts]
    with open(f"{HERE}/{name}.bin", "wb") as f:
        f.writelines(struct.pack("<I", fnv(sum(ids[i:i + GROUP], []))) for i in range(0, len(ids), GROUP))
    return sum(map(len, ids))


def training(all_texts):
    """Sentences, code and runs, and texts of the same kind as those that are recorded."""
    rng = random.Random(6)
    return make_strings.corpus()[:3000] + [text(rng) for _ in range(3000)]


def byte_level(all_texts):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = level()[0]
    tok.train_from_iterator(training(all_texts), trainers.BpeTrainer(
        vocab_size=1800, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, max_token_length=8))
    data = json.loads(tok.to_str())
    # Pieces that no merge leads to, for rules that take a word that is a piece as it is.
    vocab, count = data["model"]["vocab"], collections.Counter()
    for t in all_texts:
        count.update(w for w, _ in pre_tokenizers.Sequence(split(LLAMA3) + level()).pre_tokenize_str(t))
    for word in [w for w, _ in count.most_common(2000) if w not in vocab][:60]:
        vocab[word] = len(vocab)
    write_json(f"{HERE}/bytes/tokenizer.json", data)
    for name, (steps, nfc, ignore_merges) in RULES.items():
        model = data["model"]
        tok = Tokenizer(models.BPE(model["vocab"], [tuple(m) for m in model["merges"]], ignore_merges=ignore_merges))
        if nfc:
            tok.normalizer = normalizers.NFC()
        tok.pre_tokenizer = pre_tokenizers.Sequence(steps)
        print(f"  {name}: {record(name, tok, all_texts)} ids")


def characters(all_texts):
    """As Gemma 4: characters, U+2581 for spaces, <0x0A> for bytes."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Replace(" ", "▁")
    specials = ["<pad>", "<eos>", "<bos>", "<unk>"] + ["<0x%02X>" % b for b in range(256)]
    tok.train_from_iterator(training(all_texts), trainers.BpeTrainer(
        vocab_size=1500, special_tokens=specials, limit_alphabet=500, show_progress=False, max_token_length=8))
    model = json.loads(tok.to_str())["model"]
    tok = Tokenizer(models.BPE(model["vocab"], [tuple(m) for m in model["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Replace(" ", "▁")
    tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    types = [2 if p == "<unk>" else 3 if i < 4 else 6 if i < 260 else 1 for i, p in enumerate(pieces)]
    write_json(f"{HERE}/characters/vocab.json", dict(model="gemma4", pieces=pieces, scores=[0.0] * len(pieces), types=types,
                                                     merges=[" ".join(m) for m in model["merges"]]))
    print(f"  gemma4: {record('gemma4', tok, all_texts)} ids")


def main():
    os.makedirs(HERE, exist_ok=True)
    all_texts = texts()
    with open(f"{HERE}/texts.bin", "wb") as f:
        f.write(struct.pack("<II", len(all_texts), 0))
        f.write(b"".join(struct.pack("<H", len(t.encode())) + t.encode() for t in all_texts))
    byte_level(all_texts)
    characters(all_texts)
    with open(f"{HERE}/provenance.txt", "w") as f:
        f.write(f"make_splits.py with tokenizers {tokenizers.__version__}, Unicode {unicodedata.unidata_version} for what is left out\n")


main()
