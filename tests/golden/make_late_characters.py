"""Writes tokenizer/split/late_characters.h: what Oniguruma in the tokenizers package has in a class and Unicode 14 does not.

    python3 tests/golden/make_late_characters.py        (with Python 3.11, whose unicodedata is of Unicode 14)
"""
import os
import unicodedata

import tokenizers
from tokenizers import Regex, pre_tokenizers

OUT = os.path.join(os.path.dirname(__file__), "../../tokenizer/split/late_characters.h")
CLASSES = ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
           "Sm", "Sc", "Sk", "So", "Alphabetic", "Han"]

# Marks of Unicode 14 that have become alphabetic since.
CHANGED = {"Alphabetic": [*range(0x363, 0x370), 0xC04, 0xF82, 0xF83, *range(0x1DD3, 0x1DE7), 0x11080, 0x11081]}

assert unicodedata.unidata_version == "14.0.0"
LATE = [c for c in range(0x110000) if unicodedata.category(chr(c)) == "Cn"]
TEXT = "".join(map(chr, LATE))


def members(name):
    rest = pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed").pre_tokenize_str(TEXT)
    out = set(LATE)
    for _, (start, stop) in rest:
        out.difference_update(LATE[start:stop])
    return sorted(out)


def ranges(codes):
    out = []
    for c in codes:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return [r"\\x{%X}" % a if a == b else r"\\x{%X}-\\x{%X}" % (a, b) for a, b in out]


def lines(parts):
    out = [""]
    for part in parts:
        if len(out[-1]) + len(part) > 86:
            out.append("")
        out[-1] += part
    return "\n".join('     "%s"' % line for line in out)


def main():
    with open(OUT, "w") as f:
        f.write(f"// Written by tests/golden/make_late_characters.py with tokenizers {tokenizers.__version__}.\n"
                "//\n"
                "// Characters that came after Unicode 14, which is as far as PCRE2 10.42 knows them, by general category, and of\n"
                "// Alphabetic and of the script Han: as ranges of a pattern's class. Where PCRE2 is newer they change nothing.\n"
                "#ifndef PALAVER_TOKENIZER_LATE_CHARACTERS_H\n#define PALAVER_TOKENIZER_LATE_CHARACTERS_H\n\n"
                "static const struct {\n    const char *name, *ranges;\n} late_characters[] = {\n")
        for name in CLASSES:
            found = sorted(members(name) + CHANGED.get(name, []))
            if found:
                f.write('    {"%s",\n%s},\n' % (name, lines(ranges(found))))
        f.write("};\n\n#endif\n")


main()
