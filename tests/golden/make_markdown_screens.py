#!/usr/bin/env python3
"""Writes what tmux shows of markdown/reply.md, a reply with everything that Markdown has.

    make_markdown_screens.py    (needs tmux, 3.3a when they were last written, build/san/palaver and
                                 build/san/tests/app/markdown/test_markdown)

markdown/reply-40.txt, -80.txt and -120.txt: the text, of a reply that came in pieces. markdown/theme-dark-40.txt,
-light-80.txt, -mono-120.txt and so on: as `palaver --theme` shows it by /replay at that width; {1;35} stands before what is
bold and magenta, {} before what is as usual again. The screens are read by a person before they are kept; the tests compare the
screens of their own small terminal with them.
"""

import itertools
import json
import os
import re
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
PROGRAM = os.path.join(ROOT, "build/san/tests/app/markdown/test_markdown")
REPLY = os.path.join(HERE, "markdown", "reply.md")


def tmux(*words):
    return subprocess.run(["tmux", "-L", f"screens-{os.getpid()}", "-f", "/dev/null", *words], check=True, text=True,
                          capture_output=True, env=dict(os.environ, LC_ALL="C.UTF-8")).stdout


def start(columns, command):
    tmux("new-session", "-d", "-x", str(columns), "-y", "100", command)
    time.sleep(2)


def finish(screen, name):
    tmux("kill-server")
    time.sleep(0.5)
    with open(os.path.join(HERE, "markdown", name), "w", encoding="utf-8") as file:
        file.write(screen.rstrip("\n") + "\n")


def looks(line, look):
    """A line of capture-pane -e with {…} for what changes, and how it looks at its end."""
    out, shown = "", ()
    for sign in re.findall("\033\\[[0-9;]*m|\033\\].*?\033\\\\|.", line):
        if sign.startswith("\033["):
            for n in (int(n or 0) for n in sign[2:-1].split(";")):
                colour = n // 10 in (3, 9)
                if n in (0, 39):
                    look = tuple(p for p in look if n and p < 30)
                elif n != 49:  # the background is the terminal's everywhere
                    look = tuple(sorted({p for p in look if not (colour and p >= 30)} | {n}))
        elif not sign.startswith("\033]"):
            if look != shown:
                out, shown = out + "{" + ";".join(map(str, look)) + "}", look
            out += sign
    return re.sub(r"( |\{\})+$", "", out), look


def main():
    for columns in (40, 80, 120):
        start(columns, f"{PROGRAM} --show {REPLY} {columns}; sleep 60")
        finish(tmux("capture-pane", "-p"), f"reply-{columns}.txt")
    with tempfile.TemporaryDirectory() as home, open(REPLY, encoding="utf-8") as file:
        talk = os.path.join(home, "talk.json")
        with open(talk, "w", encoding="utf-8") as out:
            json.dump({"messages": [{"role": "user", "content": "Coffee?"},
                                    {"role": "assistant", "content": file.read()}]}, out)
        for theme, columns in itertools.product(("dark", "light", "mono"), (40, 80, 120)):
            own = f"HOME={home} XDG_CONFIG_HOME={home} XDG_STATE_HOME={home} NO_COLOR="
            start(columns, f"cd {ROOT}; env {own} build/san/palaver tests/golden/babbler --no-save --theme {theme} "
                      "--links always --no-gauge")
            for line in (f"/load {talk}", "/replay"):
                tmux("send-keys", "-l", line)
                tmux("send-keys", "Enter")
                time.sleep(1)
            look, lines = (), []
            for line in tmux("capture-pane", "-p", "-e").split("\n"):
                shown, look = looks(line, look)
                lines.append(shown)
            at = max(i for i, line in enumerate(lines) if line.endswith("/replay"))
            while not lines[-1] or lines[-1].endswith(">"):
                lines.pop()
            finish("\n".join(lines[at + 1:]), f"theme-{theme}-{columns}.txt")


if __name__ == "__main__":
    main()
