#!/usr/bin/env python3
"""Records a real talk in a real terminal and writes it as a picture: the one in the README.

    record_talk.py                                        the talk below with the default model -> assets/talk.svg
    record_talk.py --out FILE --size 80x24 --say LINE --say LINE -- PROGRAM ARGUMENT…

The program runs in a pseudo-terminal of its own, the lines are typed one key after the other as soon as it reads them, and
what it prints goes through the small terminal emulator below: what came out of the program is what the picture shows. The
whole talk is drawn, also what has scrolled off the screen. With a fixed seed and temperature 0 the text is the same in every
run; the speeds in the line of figures are those of the machine. A control sequence that the emulator does not know is an
error, so that nothing is drawn wrong in silence. Python's standard library is all it needs.
"""

import argparse
import codecs
import fcntl
import html
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
import unicodedata
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = "build/palaver --device cpu --stats --temperature 0".split()
TALK = ["What is the capital of France?", "And of Italy?", "/undo",
        "What are the steps to brew tea? Use a numbered list.",
        "Write a Python function that adds two numbers.", "/tree", "/context"]
KEY_SECONDS = 0.04  # between two keys: some 25 a second, a fast typist
QUIET_SECONDS = 0.4  # without output while the program reads keys: it waits for the next line
WAIT_SECONDS = 120  # for one reply


class Style(NamedTuple):
    """How a cell looks. Colours are None (the terminal's own) or 0 to 15."""

    fore: int = None
    back: int = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    struck: bool = False


PLAIN = Style()
BLANK = (" ", PLAIN)
SGR_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "struck"}
SGR_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("struck",), 39: ("fore",), 49: ("back",)}


class Terminal:
    """The part of an xterm that palaver and libedit use: a grid of cells, a cursor, and the rows that have scrolled off."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.grid = [self.blank_row() for _ in range(rows)]
        self.scrolled = []  # rows that left at the top, oldest first
        self.row = self.column = 0
        self.style = PLAIN
        self.prompts = 0  # how often bracketed paste was turned on: each time an editor begins to read a line
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.pending = ""  # a control sequence that has not ended yet

    def blank_row(self):
        return [BLANK] * self.columns

    def feed(self, data):
        text = self.pending + self.decoder.decode(data)
        self.pending = ""
        at = 0
        while at < len(text):
            if text[at] == "\033":
                end = self.sequence_end(text, at)
                if end is None:
                    self.pending = text[at:]
                    return
                self.control(text[at + 1 : end])
                at = end
            else:
                self.character(text[at])
                at += 1

    @staticmethod
    def sequence_end(text, at):
        """Where the control sequence that begins at `at` ends, or None where it is not whole yet."""
        if at + 1 >= len(text):
            return None
        if text[at + 1] == "[":
            return next((i + 1 for i in range(at + 2, len(text)) if "@" <= text[i] <= "~"), None)
        if text[at + 1] == "]":
            ends = (text.find(mark, at) + len(mark) for mark in ("\a", "\033\\") if mark in text[at:])
            return min(ends, default=None)
        length = 3 if text[at + 1] in "()" else 2
        return at + length if at + length <= len(text) else None

    def character(self, c):
        if c == "\n":
            self.line_feed()
        elif c == "\r":
            self.column = 0
        elif c == "\b":
            self.column = max(0, min(self.column, self.columns - 1) - 1)
        elif c == "\t":
            self.column = min(self.columns - 1, self.column // 8 * 8 + 8)
        elif c == "\a":
            pass
        elif unicodedata.category(c) == "Cc":
            raise ValueError(f"the program sent the control character {c!r}")
        elif unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf"):
            row, at = self.grid[self.row], max(0, self.column - 1)
            row[at] = (row[at][0] + c, row[at][1])
        else:
            self.put(c, 2 if unicodedata.east_asian_width(c) in "WF" else 1)

    def put(self, c, width):
        # A full row wraps when the next character comes, not before: as in every xterm.
        if self.column + width > self.columns:
            self.column = 0
            self.line_feed()
        row = self.grid[self.row]
        row[self.column] = (c, self.style)
        if width == 2:
            row[self.column + 1] = ("", self.style)
        self.column += width

    def line_feed(self):
        if self.row + 1 < self.rows:
            self.row += 1
        else:
            self.scrolled.append(self.grid.pop(0))
            self.grid.append(self.blank_row())

    def control(self, sequence):
        if sequence[0] in "]()=>":  # titles, the clipboard, links, character sets, the keypad: nothing to be seen
            return
        if sequence[0] != "[":
            raise ValueError(f"the program sent ESC {sequence!r}, which this terminal does not know")
        final, inside = sequence[-1], sequence[1:-1]
        if inside[:1] == "?":
            self.prompts += inside + final == "?2004h"
            return
        numbers = [int(n or 0) for n in inside.split(";")]
        if final == "m":
            self.select_style(numbers)
        elif final in "ABCDH":
            self.move(final, numbers)
        elif final in "JK":
            self.erase(final, numbers[0])
        else:
            raise ValueError(f"the program sent CSI {sequence[1:]!r}, which this terminal does not know")

    def move(self, final, numbers):
        n = max(1, numbers[0])
        at = min(self.column, self.columns - 1)
        row, column = {
            "A": (self.row - n, at), "B": (self.row + n, at), "C": (self.row, at + n), "D": (self.row, at - n),
            "H": (n - 1, max(1, numbers[1]) - 1 if len(numbers) > 1 else 0),
        }[final]
        self.row, self.column = max(0, min(row, self.rows - 1)), max(0, min(column, self.columns - 1))

    def erase(self, final, part):
        """J erases the screen, K the row: 0 from the cursor on, 1 up to it, 2 all."""
        column = min(self.column, self.columns - 1)
        first, last = {0: (column, self.columns), 1: (0, column + 1), 2: (0, self.columns)}[part]
        self.grid[self.row][first:last] = [BLANK] * (last - first)
        if final == "J":
            for r in {0: range(self.row + 1, self.rows), 1: range(self.row), 2: range(self.rows)}[part]:
                self.grid[r] = self.blank_row()

    def select_style(self, numbers):
        for n in numbers:
            side = {3: "fore", 4: "back", 9: "fore", 10: "back"}.get(n // 10)
            if n == 0:
                self.style = PLAIN
            elif n in SGR_ON:
                self.style = self.style._replace(**{SGR_ON[n]: True})
            elif n in SGR_OFF:
                self.style = self.style._replace(**{name: getattr(PLAIN, name) for name in SGR_OFF[n]})
            elif side and n % 10 < 8:
                self.style = self.style._replace(**{side: n % 10 + (8 if n >= 90 else 0)})
            else:
                raise ValueError(f"the program sent SGR {n}, which this terminal does not know")

    def whole(self):
        """All rows, those that have scrolled off first, without the empty ones at the end."""
        rows, row = self.scrolled + self.grid, len(self.scrolled) + self.row
        while len(rows) > row + 1 and rows[-1] == self.blank_row():
            rows.pop()
        return rows, (row, min(self.column, self.columns - 1))


def environment(home):
    """This process's own, without the settings of the person who records; the folder of models stays."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PALAVER_") and k not in ("NO_COLOR", "COLORTERM")}
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local/share")
    return kept | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "HOME": home, "XDG_DATA_HOME": data,
                   "XDG_STATE_HOME": home + "/state", "XDG_CONFIG_HOME": home + "/config"}


class Talk:
    """A program in a pseudo-terminal, and the terminal that shows what it prints."""

    def __init__(self, command, columns, rows, home):
        self.terminal = Terminal(columns, rows)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                os.execvpe(command[0], command, environment(home))
            except OSError as error:
                print(f"{command[0]}: {error.strerror}")
                os._exit(127)

    def listen(self, seconds):
        """Shows what comes within some seconds. False where the program has ended, None where nothing came."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return None
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # Linux says EIO when the other side is closed
            data = b""
        self.terminal.feed(data)
        return bool(data)

    def wait_for_prompt(self, number):
        """Until the program has begun to read its line `number` (the first is 1) and is quiet."""
        end = time.monotonic() + WAIT_SECONDS
        while (came := self.listen(QUIET_SECONDS)) or self.terminal.prompts < number:
            if came is False:
                rows, _ = self.terminal.whole()
                raise RuntimeError("the program has ended: " + " ".join("".join(c for c, _ in r).strip() for r in rows[-3:]))
            if time.monotonic() > end:
                raise RuntimeError(f"no prompt within {WAIT_SECONDS} seconds")

    def say(self, line):
        prompt = self.terminal.prompts
        for key in line:
            os.write(self.fd, key.encode())
            end = time.monotonic() + KEY_SECONDS
            while (left := end - time.monotonic()) > 0:
                self.listen(left)
        os.write(self.fd, b"\r")
        self.wait_for_prompt(prompt + 1)

    def leave(self):
        os.write(self.fd, b"\x04")
        end = time.monotonic() + 10
        while time.monotonic() < end and self.listen(1) is not False:
            pass
        if time.monotonic() >= end:
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


# ---- the picture -----------------------------------------------------------------------------------------------------
CELL, LINE, SIZE, PAD, BAR = 8.4, 18, 14, 14, 30
BACK, FORE, FRAME = "#1b1f27", "#d8dee9", "#4a5160"
SIXTEEN = ("#5c6573 #f07178 #a5d67b #f0c674 #82aaff #d7a1f0 #7fdbd3 #d8dee9 "
           "#7c8696 #ff8b92 #bdea94 #ffd98c #9cbcff #e4b8f7 #9aeee6 #ffffff").split()


def colour_of(colour, own):
    return own if colour is None else SIXTEEN[colour]


def half_way(a, b, share):
    mixed = (round(int(a[i : i + 2], 16) * share + int(b[i : i + 2], 16) * (1 - share)) for i in (1, 3, 5))
    return "#%02x%02x%02x" % tuple(mixed)


def runs_of(row):
    """(first column, columns, text, style) of each run of cells that look alike; blank ends of the row are left out."""
    end = max((i + 1 for i, cell in enumerate(row) if cell != BLANK), default=0)
    start = 0
    for i in range(1, end + 1):
        if i == end or row[i][1] != row[start][1]:
            yield start, i - start, "".join(c for c, _ in row[start:i]), row[start][1]
            start = i


def draw_run(row, start, columns, text, style):
    """The background, if it has one of its own, and the text of one run."""
    fore, back = colour_of(style.fore, FORE), colour_of(style.back, BACK)
    if style.reverse:
        fore, back = back, fore
    if style.dim:
        fore = half_way(fore, back, 0.62)
    x, y, width = PAD + start * CELL, BAR + PAD + row * LINE, columns * CELL
    if back != BACK:
        yield f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LINE}" fill="{back}"/>'
    if text.strip():
        looks = f' fill="{fore}"' if fore != FORE else ""
        looks += ' font-weight="bold"' if style.bold else ""
        looks += ' font-style="italic"' if style.italic else ""
        looks += ' text-decoration="underline"' if style.underline else ""
        looks += ' text-decoration="line-through"' if style.struck else ""
        yield (f'<text x="{x:.1f}" y="{y + 13}" textLength="{width:.1f}"{looks}>{html.escape(text, quote=False)}</text>')


def picture(rows, cursor, columns, title):
    width, height = round(2 * PAD + columns * CELL), BAR + 2 * PAD + len(rows) * LINE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img">',
        f"<title>{html.escape(title)}</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="{BACK}" stroke="{FRAME}"/>',
        f'<path d="M1 {BAR}.5H{width - 1}" stroke="{FRAME}"/>',
        *(f'<circle cx="{PAD + 6 + 18 * i}" cy="15" r="5" fill="{FRAME}"/>' for i in range(3)),
        f'<text x="{width // 2}" y="20" fill="{SIXTEEN[8]}" font-family="sans-serif" font-size="13" text-anchor="middle">'
        f"{html.escape(title)}</text>",
        "<g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" "
        f'font-size="{SIZE}" fill="{FORE}" style="white-space:pre" xml:space="preserve">',
    ]
    for number, row in enumerate(rows):
        for run in runs_of(row):
            lines.extend(draw_run(number, *run))
    lines.append(f'<rect x="{PAD + cursor[1] * CELL:.1f}" y="{BAR + PAD + cursor[0] * LINE}" width="{CELL}" height="{LINE}" '
                 f'fill="{FORE}" opacity="0.7"/>')
    return "\n".join(lines + ["</g>", "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default=os.path.join(HERE, "talk.svg"))
    parser.add_argument("--size", default="96x28", help="columns x rows of the terminal")
    parser.add_argument("--say", action="append", metavar="LINE", help="a line to type; repeatable")
    parser.add_argument("--title", default="palaver")
    parser.add_argument("program", nargs="*", help="and its arguments, after --")
    asked = parser.parse_args()
    columns, rows = (int(n) for n in asked.size.split("x"))
    if not asked.program:
        os.chdir(os.path.dirname(HERE))
    with tempfile.TemporaryDirectory() as home:
        talk = Talk(asked.program or PROGRAM, columns, rows, home)
        talk.wait_for_prompt(1)
        for line in asked.say or TALK:
            talk.say(line)
        drawn = picture(*talk.terminal.whole(), columns, asked.title)
        status = talk.leave()
    if status != 0:
        sys.exit(f"record_talk: the program ended with status {status}; nothing is written")
    with open(asked.out, "w", encoding="utf-8") as file:
        file.write(drawn)
    print(f"{asked.out}: {len(drawn.encode())} bytes", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, RuntimeError, OSError) as error:
        sys.exit(f"record_talk: {error}")
