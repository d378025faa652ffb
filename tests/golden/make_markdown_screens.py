#!/usr/bin/env python3
"""Writes markdown/reply-40.txt, -80.txt and -120.txt: what tmux shows of markdown/reply.md, a reply that came in pieces.

    make_markdown_screens.py    (needs tmux, 3.3a when they were last written, and build/san/tests/app/markdown/test_markdown)

The screens are read by a person before they are kept; the test compares the screens of its own small terminal with them.
"""

import os
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "../../build/san/tests/app/markdown/test_markdown")


def tmux(*words):
    return subprocess.run(["tmux", "-L", f"screens-{os.getpid()}", "-f", "/dev/null", *words], check=True, text=True,
                          capture_output=True, env=dict(os.environ, LC_ALL="C.UTF-8")).stdout


for columns in (40, 80, 120):
    reply = os.path.join(HERE, "markdown", "reply.md")
    tmux("new-session", "-d", "-x", str(columns), "-y", "100", f"{PROGRAM} --show {reply} {columns}; sleep 60")
    time.sleep(2)
    screen = tmux("capture-pane", "-p")
    tmux("kill-server")
    time.sleep(0.5)
    with open(os.path.join(HERE, "markdown", f"reply-{columns}.txt"), "w", encoding="utf-8") as file:
        file.write(screen.rstrip("\n") + "\n")
