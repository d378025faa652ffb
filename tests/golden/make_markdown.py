#!/usr/bin/env python3
"""Writes markdown/cases.jsonl: texts in Markdown, and what of them a reader sees without any style.

    make_markdown.py            (needs markdown-it-py; 4.3.0 when they were last written)

What is seen comes from markdown-it-py, which passes CommonMark's own tests, with GitHub's tables and strikethrough. Raw
HTML and definitions of links are switched off there, as palaver shows both as they are written. Numbers of lists count as
seen, as they are written, and so does a fence's language. A star between two letters or digits is one: markdown-it is given another sign for it. Half of the texts are what models write, built from parts; half are characters that mean
something, thrown together, for nobody would write down what these show.
"""

import json
import os
import random
import re

from markdown_it import MarkdownIt

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = ("the a cat sat on mat and saw its own tail while naïve über 日本語 がある 😀 done 42 3.14 x_y snake_case_name "
         "e.g. don't C++ 100% a/b --flag well-known").split()
CODES = ["int main(void) { return 0; } // end", "def f(x):\n    return x * 2  # twice", "SELECT * FROM t WHERE a = 'b';",
         "echo \"$HOME\" | grep x\n\n\texit 1", "<a href=\"x\">y</a>", "{\"a\": [1, 2.5, null]}"]
LANGUAGES = ["c", "python", "sql", "bash", "html", "json", "", "no such", "rust ignore"]


def words(r, most=9):
    return " ".join(r.choice(WORDS) for _ in range(r.randint(1, most)))


def phrase(r):
    inner = words(r, 3)
    return r.choice([
        "**%s**", "*%s*", "_%s_", "***%s***", "~~%s~~", "`%s`", "``a`%s``", "[%s](http://example.org/a_b?c=d&e)",
        "[%s](<x y> \"title\")", "![%s](pic.png)", "**bold *both* %s**", "*a **b** %s*", "<http://ex.org/a_b> %s", "**%s",
        "*%s", "`%s", "[%s", "[%s](", "%s \\* \\_ \\\\ &amp; &lt; &#169;", "a*b*c %s", "2 * 3 * %s", "__%s__",
        "%s\\\nafter", "%s  \nafter", "[**%s**](y)", "**[%s](z)**", "%s! [no] (no)", "`` ` `` %s", "!%s!"]) % inner


def inline(r):
    return " ".join(r.choice([words, words, phrase])(r) for _ in range(r.randint(1, 5)))


def paragraph(r):
    return "\n".join(inline(r) for _ in range(r.randint(1, 3)))


def indented(text, by):
    return "\n".join(by + line if line else line for line in text.split("\n"))


def items(r, depth):
    mark, loose = r.choice(["- ", "* ", "+ ", "1. ", "7) "]), r.random() < 0.3
    out = []
    for i in range(r.randint(1, 4)):
        sign = mark if not mark[0].isdigit() else f"{int(mark[0]) + (i if r.random() < 0.7 else 0)}{mark[1:]}"
        text = inline(r)
        if depth < 3 and r.random() < 0.4:
            text += ("\n\n" if r.random() < 0.3 else "\n") + block(r, depth + 1)
        out.append(sign + indented(text, " " * len(sign)).lstrip(" "))
    return ("\n\n" if loose else "\n").join(out)


def table(r):
    n = r.randint(1, 4)
    row = lambda: "| " + " | ".join(r.choice([words(r, 2), phrase(r).replace("\n", " ").replace("|", ""), "a\\|b"])
                                    for _ in range(n)) + " |"
    rule = "|" + "|".join(r.choice(["---", ":--", "--:", ":-:", " --- "]) for _ in range(n)) + "|"
    return "\n".join([row(), rule] + [row() for _ in range(r.randint(0, 4))])


def block(r, depth=0):
    kind = r.randint(0, 9)
    if kind <= 2:
        return paragraph(r)
    if kind == 3:
        return "#" * r.randint(1, 6) + " " + inline(r).replace("\n", " ") + r.choice(["", " ##"])
    if kind == 4:
        fence = r.choice(["```", "~~~", "````"])
        return fence + r.choice(LANGUAGES) + "\n" + r.choice(CODES) + "\n" + fence
    if kind == 5:
        return "> " + block(r, depth + 1).replace("\n", "\n> ") if depth < 3 else words(r)
    if kind == 6 and depth == 0:
        return table(r)
    if kind == 7:
        return r.choice(["---", "***", "_ _ _", inline(r).replace("\n", " ") + "\n" + r.choice(["===", "---"])])
    return items(r, depth)


def document(r):
    parts = [block(r) for _ in range(r.randint(1, 3))]
    text = parts[0]
    for part in parts[1:]:
        text += r.choice(["\n\n", "\n\n", "\n\n", "\n", "\n\n\n"]) + part
    return text + r.choice(["", "\n", "\n\n"])


def noise(r):
    signs = ["*", "**", "_", "`", "``", "```", "[", "]", "(", ")", "](", "!", "#", "# ", ">", "> ", "-", "- ", "+ ", "1. ", "2) ",
             "|", "|-|", "&amp;", "<", ">", "\\", "a", "b", "c d", " ", " ", "  ", "    ", "\n", "\n", "\n\n", "=", "---", ":"]
    return "".join(r.choice(signs) for _ in range(r.randint(1, 30)))


WORD = "[0-9A-Za-z\u00aa-\u052f]"
STAR = "\ue000"  # a sign that nobody writes


def starred(text):
    return re.sub(rf"(?<={WORD})\*(?={WORD})", STAR, text)


def is_read_otherwise(text):
    """Powers, and backslashes that may be a path's or mathematics: tests/app/markdown/test_faithful.c has these."""
    return re.search(rf"{WORD}\*\*{WORD}|\\[A-Za-z0-9(\[]|[A-Za-z0-9]\\[.|]|\$", text)


def inline_text(token):
    out = ""
    for child in token.children or []:
        if child.type in ("softbreak", "hardbreak"):
            out += "\n"
        elif child.type == "image":
            out += inline_text(child)
        else:
            out += child.content
    return out


def seen(md, text):
    """The text of each block, in the order of the document."""
    out = []
    for token in md.parse(starred(text)):
        if token.type == "list_item_open" and token.info:
            out.append(token.info + token.markup)
        elif token.type == "inline":
            out.append(inline_text(token))
        elif token.type in ("fence", "code_block"):
            out += token.info.split()[:1] + [token.content]
    return " ".join(" ".join(out).replace(STAR, "*").split())


def main():
    md = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
    r = random.Random(20261122)
    with open(os.path.join(HERE, "markdown", "cases.jsonl"), "w", encoding="utf-8") as file:
        for i in range(820):
            text = document(r) if i % 2 == 0 else noise(r)
            if re.search(r"^ {4,}>", text, re.M):  # no quote where a paragraph goes on (CommonMark 5.1); markdown-it makes one
                continue
            if is_read_otherwise(text):
                continue
            file.write(json.dumps({"markdown": text, "seen": seen(md, text)}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
