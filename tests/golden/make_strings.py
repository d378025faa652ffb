"""The texts that the tokenizer tests encode, and the corpus that their small tokenizers are trained on.

Everything is made here from word parts and rules with a fixed seed; nothing is taken from anywhere.
"""
import random
import unicodedata

N_STRINGS = 12000

SYLLABLES = {
    "latin": "ta re ko shi men lu der van ti on al es ing ment pre com ter der ba lo fi que st ra ne qu ay oo th".split(),
    "accents": "é è ü ö ß ç ñ å ø ł ž ő ğ ı ê à ạ ế ư þ ð œ æ".split(),
    "cyrillic": "про ст ра на во да ле ни ка го ре ты ща ё й ъе ю из от по ж".split(),
    "greek": "κα λη μέ ρα το ως φι λο σο ά ώ ψ ξ".split(),
    "hebrew": "של ום ה ב ל ים ות מ כ ש".split(),
    "arabic": "ال سلا م علي كم مر حبا ة ء ك ت".split(),
    "devanagari": "न म स्ते भा र त क्या है ि ा ् ज्ञ".split(),
    "bengali": "বা ং লা ভা ষা ক্ষ".split(),
    "tamil": "வ ண க் கம் த மி ழ்".split(),
    "thai": "สวัส ดี ครับ ไทย น้ำ ที่".split(),
    "han": list("的一是不了人我在有他这为之大来以个中上们國語學時說話請問天氣"),
    "kana": list("こんにちはありがとうカタカナひらがなッャーがぎぐ"),
    "hangul": "안 녕 하 세 요 한 국 어 감 사 합 니 다".split(),
    "georgian": list("გამარჯობა"),
    "armenian": list("բարեւձեզ"),
    "ethiopic": list("ሰላምታ"),
    "math": list("𝐀𝔸𝒜∑∫√≠≤∞"),
    "fullwidth": list("ＡＢＣ１２３！？"),
}
WORDS = ("the a of and to in is it that was for on are with as I you he she they we be this have from or one had by "
         "word but not what all were when your can said there use an each which do how their if will up other about "
         "out many then them these so some her would make like him into time has look two more write go see number "
         "no way could people my than first water been call who oil its now find long down day did get come made "
         "may part question answer model token memory window reply").split()
SUFFIXES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'Re", "’s", "'ſ", "'K", "n't", "'x"]
EMOJI = ["😀", "😂", "❤️", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "👨🏿‍🚀", "1️⃣", "🤷🏻‍♀️", "☕", "🧑‍💻", "🫠", "🪿", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\u00a0", "\u3000", "\u2003", "\u200b", "\u180e",
          "\u0085", "\u2028", "\u1680", "\ufeff", "\v", "\f", "\x1c", "\x1f", " \t ", "    \n\n    "]
PUNCTUATION = list(".,;:!?-–—…\"'()[]{}<>/\\|@#$%^&*_+=~`«»¿¡、。「」،؟·•†§©®™€£¥°") + ["...", "!!", "?!", "->", "::", "//", "'''"]
SPECIALS = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<0x0A>", "<0x",
            "[INST]", "▁", "▁▁", "<tool_call>", "<keep>", "##", "Ġ", "Ċ"]
CODE = ["int main(void) {\n    return 0;\n}\n", "for (i = 0; i < n; i++) { a[i] += b[i]; }", "def f(x):\n\treturn x**2\n",
        "if x == None: pass  # why", "SELECT id, name FROM t WHERE n >= 10;", "#include <stdio.h>\n", "a->b.c[0]['k']",
        "{\"key\": [1, 2.5e-3, null]}", "<div class=\"a\">text</div>", "https://example.org/a?b=c&d=%20#e", "$HOME/.config",
        "x = 0xDEADBEEF & ~(1 << 31)", "camelCaseName snake_case_name CONSTANT_NAME", "\\frac{a}{b}", "e.g. i.e. U.S.A."]
MARKS = ["\u0301", "\u0308", "\u0323", "\u0327", "\u0302", "\u0331", "\u05b4", "\u064e", "\u093c", "\u3099", "\u0f71", "\u1dce"]


def word(rng):
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(WORDS)
    if kind < 0.6:
        w = "".join(rng.choice(SYLLABLES["latin"]) for _ in range(rng.randint(1, 4)))
        if rng.random() < 0.3:
            w += rng.choice(SYLLABLES["accents"])
        return w.capitalize() if rng.random() < 0.3 else w.upper() if rng.random() < 0.1 else w
    script = rng.choice(list(SYLLABLES))
    return "".join(rng.choice(SYLLABLES[script]) for _ in range(rng.randint(1, 5)))


def number(rng):
    digits = "".join(rng.choice("0123456789") for _ in range(rng.choice([1, 2, 3, 4, 5, 7, 12, 30])))
    return rng.choice([digits, digits, f"{digits}.{rng.randint(0, 99)}", f"-{digits}", f"{digits}%", f"{digits}km",
                       "".join(chr(0x660 + int(d)) for d in digits[:5]), "".join(chr(0x966 + int(d)) for d in digits[:4]),
                       "½", "Ⅷ", "²³", "٣٫٥", "12:34:56", "1,234,567", "3.14159"])


def code_point(rng):
    while True:
        block = rng.random()
        top = 0x80 if block < 0.2 else 0x800 if block < 0.4 else 0x10000 if block < 0.8 else 0x110000
        c = rng.randrange(top)
        # What a Unicode version added later is classed differently by libraries of different age.
        if 0xD800 <= c < 0xE000 or (unicodedata.category(chr(c)) == "Cn" and rng.random() < 0.9):
            continue
        return chr(c)


def sentence(rng):
    parts = []
    for _ in range(rng.randint(1, 8)):
        w = word(rng)
        if rng.random() < 0.1:
            w += rng.choice(SUFFIXES)
        if rng.random() < 0.08:
            w = number(rng)
        if rng.random() < 0.04:
            w = rng.choice(EMOJI)
        parts.append(w + (rng.choice(PUNCTUATION) if rng.random() < 0.15 else ""))
    return " ".join(parts)


def mixture(rng):
    kinds = [lambda: word(rng), lambda: word(rng), lambda: rng.choice(SPACES), lambda: rng.choice(SPACES),
             lambda: rng.choice(PUNCTUATION), lambda: number(rng), lambda: rng.choice(EMOJI), lambda: rng.choice(SUFFIXES),
             lambda: code_point(rng), lambda: rng.choice(SPECIALS), lambda: rng.choice(MARKS), lambda: chr(rng.randrange(32))]
    return "".join(rng.choice(kinds)() for _ in range(rng.randint(1, 9)))


def marks(rng):
    return "".join(rng.choice("aeiouAnoक한ᄒがΩ ") + "".join(rng.choice(MARKS) for _ in range(rng.randint(0, 4)))
                   for _ in range(rng.randint(1, 4)))


def strings():
    """All texts as bytes; the valid ones first, then those that are no UTF-8."""
    rng = random.Random(20)
    out = ["", " ", "  ", "\n", "a", "Hello", " Hello", "Hello ", "Hello world", "Hello  world", "\u2581", "\x00", "a\x00b",
           "don't DON'T I'll we’ve", "1234567890", "e\u0301 é", "日本語のテキスト", "👩‍👩‍👧‍👦", "\U0010ffff", "\ufffd"]
    out += [chr(c) for c in range(0x80)]
    out += [" " * n for n in (*range(3, 34), 63, 64, 65, 100)] + [" " * n + "x" for n in range(1, 18)]
    out += ["\n" * n + "x" for n in range(2, 10)] + ["a" * n for n in (2, 3, 5, 47, 48, 49, 50, 200, 500)]
    out += ["\t" * n + "return x" for n in range(1, 6)] + ["ab" * 100, "0" * 100, "!" * 60, "=" * 80, "é" * 60, "😀" * 40]
    out += CODE + EMOJI + SPECIALS + SPACES + [a + s + "b" for a in ("a", "") for s in SPACES]
    out += [w + s for w in ("I", "they", "é", "1", "") for s in SUFFIXES]
    makers = [sentence] * 8 + [mixture] * 7 + [marks] + [lambda r: "".join(code_point(r) for _ in range(r.randint(1, 8)))] * 2
    makers += [lambda r: number(r) + r.choice(["", " "]) + number(r), lambda r: r.choice(CODE) + r.choice(SPACES) + word(r)]
    seen = set(out)
    while len(out) < N_STRINGS - 300:
        text = rng.choice(makers)(rng)
        if text not in seen and len(text.encode()) < 600:
            seen.add(text)
            out.append(text)
    valid = [t.encode() for t in out]
    broken = []
    bad = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf0\x9f\x98", b"\x80", b"\xc3", b"\xf8\x88"]
    while len(broken) < N_STRINGS - len(valid):
        text = "".join(rng.choice([word, mixture])(rng) for _ in range(rng.randint(0, 2))).encode()
        at = rng.randint(0, len(text))
        broken.append(text[:at] + rng.choice(bad) + text[at:])
    return valid, broken


def corpus():
    """Sentences to train on; other ones than the texts that are encoded."""
    rng = random.Random(7)
    out = [sentence(rng) for _ in range(6000)]
    for _ in range(300):
        out.append(rng.choice(CODE) + rng.choice(EMOJI) + rng.choice(SPACES[:8]) + number(rng) + " " * rng.choice([2, 4, 8]) + word(rng))
    return out
