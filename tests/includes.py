#!/usr/bin/env python3
"""Who may include whom: data goes one way, and so do the includes (see README, "Working on palaver").

Rooms are listed from the ground up; a file includes files of its own room and of rooms below. Inside a room no files
include each other in a circle, where X.c, X.h and X_internal.h are one file. Prints each offence, exits with 1.
"""
import collections
import re
import subprocess
import sys

ROOMS = """
kernels/base
kernels
kernels/cpu
kernels/cuda
config
tokenizer
tokenizer/chat/jinja
tokenizer/chat
engine/files
engine/model
engine/cache
engine
engine/talk
app/markdown
app/terminal
app/terminal/editor
app/process
app/record
app/settings
app/ranks
app/models
app/options
app
app/watch
app/tools
app/chat
app/commands
app/modes
""".split()
# Headers that a room above shows to those below: plain options, which nothing but types stands in.
SHOWN = {"engine/options.h"}


def room(path):
    """The room a file belongs to: the longest name of a room that its path begins with; None: it has none."""
    inside = [r for r in ROOMS if path.startswith(r + "/")]
    return max(inside, key=len) if inside else None


def unit(path):
    return re.sub(r"(_internal)?\.(c|h|cc|cu|cuh)$", "", path)


def circles(graph):
    """Strongly connected components of more than one unit (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            cut = stack.index(node)
            if len(stack) - cut > 1:
                found.append(sorted(stack[cut:]))
            del stack[cut:]

    for node in list(graph):
        if node not in index:
            visit(node)
    return found


def main():
    sys.setrecursionlimit(10000)
    files = subprocess.check_output(["git", "ls-files"], text=True).split()
    files = [f for f in files if re.search(r"\.(c|h|cc|cu|cuh)$", f) and not f.startswith("tests/")]
    graph, offences = collections.defaultdict(set), []
    for path in files:
        main_file = path == "app/main.c"
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            found = re.match(r'#include "([^"]+)"', line)
            if not found:
                continue
            target = found.group(1)
            if room(path) is None or room(target) is None:
                offences.append(f"{path}:{number}: {target}: not in a room")
            elif not main_file and target not in SHOWN and ROOMS.index(room(target)) > ROOMS.index(room(path)):
                offences.append(f"{path}:{number}: includes {target}, which lies above")
            if unit(path) != unit(target) and not main_file:
                graph[unit(path)].add(unit(target))
    offences += ["a circle: " + " ".join(c) for c in circles(graph)]
    for offence in offences:
        print(offence, file=sys.stderr)
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
