"""A page of text on a terminal or in a pipe: wrapped to its width, coloured where colours are shown.

Code that is fitted to a width still runs: lines end only where the language allows it, never inside a word.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from traceanalyzer.text.visible import one_line, visible
from traceanalyzer.text.words import told_apart

# Lines longer than this are hard to read however wide the terminal is.
WIDEST = 120
NARROWEST = 60
# What a pipe gets, unless COLUMNS says otherwise.
PIPE_WIDTH = 100

# No column of a table is cut below this.
NARROWEST_CELL = 6
# Columns of words behind numbers that would be cut below this stand on a line of their own.
NARROWEST_WORDS = 10

# The space between a number and its unit, at which no line ends.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mµn]?s|[kKMGT]?i?B(?:/s)?|TFLOP/s)(?!\w))|(?<=×) ")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")  # of a module: ViTModel/ViTEncoder/ViTLayer
# How far words that go below the numbers of their row are indented.
_BELOW = 2
_NO_BREAK = "\N{NO-BREAK SPACE}"

Part = str | tuple[str, str]  # text, or (text, style)


def _styled(part: Part) -> tuple[str, str]:
    return (part, "") if isinstance(part, str) else part


class _Console(Console):
    """A console that leaves a closed pipe to the command line; rich would exit with 1, which means a finding."""

    def on_broken_pipe(self) -> None:
        raise  # rich calls this while it handles the error


class Page:
    """Writes styled lines that never pass the page's width."""

    def __init__(self, stream: TextIO) -> None:
        width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH
        # In a notebook, rich would show each line as an output of its own and write nothing into the stream.
        self._console = _Console(
            file=stream, width=width, highlight=False, markup=False, emoji=False, force_jupyter=False
        )
        self.width = max(NARROWEST, min(self._console.width, WIDEST))
        self._console.width = self.width  # COLUMNS=0 would leave no room for anything

    @property
    def colored(self) -> bool:
        """Whether colours are shown, so that they may carry meaning."""
        return self._console.color_system is not None and not self._console.no_color

    def line(self, *parts: Part) -> None:
        """Write one line; what does not fit is cut with an ellipsis."""
        text = Text()
        for part in parts:
            words, style = _styled(part)
            text.append(visible(words), style)
        text.truncate(self.width, overflow="ellipsis")
        text.rstrip()
        self._console.print(text, soft_wrap=True)

    def flow(self, parts: Sequence[Part], *, indent: int = 0) -> None:
        """Write parts one after the other, on as many lines as they need; a part is only split if it must be."""
        pairs = [(visible(words), style) for words, style in map(_styled, parts)]
        line: list[Part] = []
        used = indent
        for text, style in pairs:
            if line and used + cell_len(text.rstrip()) > self.width:
                self.line(" " * indent, *line)
                line, used, text = [], indent, text.lstrip(" ·")
            if not line and cell_len(text) > self.width - indent:
                *above, text = _lines(text, self.width - indent)
                for words in above:
                    self.line(" " * indent, (words, style))
            line.append((text, style))
            used += cell_len(text)
        self.line(" " * indent, *line)

    def blank(self) -> None:
        """Write an empty line."""
        self._console.print()

    def paragraph(self, text: str, *, label: Part = "", indent: int = 0, style: str = "") -> None:
        """Write wrapped text after a label; the lines below stand under the text and not under the label."""
        words, label_style = _styled(label)
        words = visible(words)
        hang = " " * indent + " " * cell_len(words)
        lines = _lines(one_line(text), self.width - len(hang)) or [""]
        self.line(" " * indent, (words, label_style), (lines[0], style))
        for line in lines[1:]:
            self.line(hang, (line, style))

    def code(self, code: str, *, indent: int, lang: str = "", style: str = "cyan") -> None:
        """Write a snippet or an address so that it can be pasted: no line ends inside a word, whatever the width."""
        for line in fitted(code, lang, self.width - indent):
            self._console.print(Text(" " * indent + visible(line), style=style), soft_wrap=True)

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        indent: int = 0,
        right: frozenset[int] = frozenset(),
        wraps_last: bool = False,
    ) -> None:
        """Write an aligned table; the widest column of words gives way where the page is too narrow.

        Where numbers leave no room for the words behind them, these go below. A last column that `wraps_last` continues
        on the next line instead.
        """
        room = self.width - indent
        rows = [[one_line(cell) for cell in row] for row in rows]
        if wraps_last:
            rows = _wrapped(columns, rows, room)
        numbers = max(right, default=-1) + 1
        below: list[str] = []
        if not wraps_last and right == frozenset(range(numbers)) and _crowded(columns, rows, numbers, room):
            below = _fitted([" · ".join(row[numbers:]) for row in (columns, *rows)], room - _BELOW)
            columns, rows = columns[:numbers], [row[:numbers] for row in rows]
        lines = aligned(columns, rows, room=room, right=right)
        for at, line in enumerate(lines):
            style = "" if at else "dim"
            self.line(" " * indent, (line, style))
            if below:
                self.line(" " * (indent + _BELOW), (below[at], style))


def aligned(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, room: int | None, right: frozenset[int] = frozenset()
) -> list[str]:
    """Return a header and rows as lines of aligned cells; the widest columns give way until `room` is kept.

    Words give way first, then the names of numbers; a number that is cut says nothing, or something else.
    """
    widths = _widths(columns, rows)
    numbers = _widths([""] * len(columns), rows)
    least = [max(NARROWEST_CELL, numbers[i]) if i in right else NARROWEST_CELL for i in range(len(columns))]
    shrink = [i for i in range(len(columns)) if i not in right]
    for may_shrink in (shrink, range(len(columns))) if room is not None else ():
        while _line_width(widths) > (room or 0) and (wide := [i for i in may_shrink if widths[i] > least[i]]):
            widths[max(wide, key=lambda i: (widths[i], -i))] -= 1
    fitted_columns = [
        _fitted(column, width) for column, width in zip(zip(columns, *rows, strict=True), widths, strict=True)
    ]
    return [_aligned(row, widths, right) for row in zip(*fitted_columns, strict=True)]


def _crowded(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: int, room: int) -> bool:
    """Say whether numbers, the first columns, leave too little room for the words behind them."""
    widths = _widths(columns, rows)
    return (
        0 < numbers < len(widths)
        and _line_width([*widths[:numbers], *(min(width, NARROWEST_WORDS) for width in widths[numbers:])]) > room
    )


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(cell_len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _wrapped(columns: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[list[str]]:
    """Return rows whose last cell fits beside the others, each with as many rows below it as that takes."""
    others = [max(cell_len(row[i]) for row in (columns, *rows)) for i in range(len(columns) - 1)]
    left = max(room - sum(width + 2 for width in others), NARROWEST_CELL)
    lines = []
    for *cells, remark in rows:
        first, *more = _lines(remark, left) or [""]
        lines += [[*cells, first], *([*[""] * len(cells), line] for line in more)]
    return lines


def _lines(text: str, width: int) -> list[str]:
    """Return a text wrapped between words, but not between a number and its unit."""
    lines = textwrap.wrap(_UNIT.sub(_NO_BREAK, text), max(width, NARROWEST_CELL), break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _fitted(cells: Sequence[str], width: int) -> list[str]:
    """Return the cells of a column, those cut that have no room."""
    if all(cell_len(cell) <= width for cell in cells):
        return list(cells)
    # Paths of files and modules, and traces, differ at their ends, names at their beginnings.
    ends = ["…" + cell[len(cell) - width + 1 :] if _is_place(cell) and cell_len(cell) > width else "" for cell in cells]
    return [end or name for end, name in zip(ends, told_apart(cells, width), strict=True)]


def _aligned(cells: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    padded = []
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if i in right else cell + space)
    return "  ".join(padded).rstrip()


def _is_place(cell: str) -> bool:
    return (".py" in cell and "/" in cell) or "#pid" in cell or _PATH.fullmatch(cell) is not None


# How the languages of fixes begin a comment; code in others is shown as it is.
_COMMENTS = {"python": "#", "bash": "#", "cpp": "//"}
_CONTINUED = "    "


@dataclass(frozen=True)
class _Break:
    """A place at which a line may end; the lower its rank, the better."""

    at: int
    follows: int  # where the rest begins
    rank: int = 0
    column: int | None = None  # where the rest stands; None: below the line's own beginning, and deeper
    suffix: str = ""


@dataclass(frozen=True)
class _Scan:
    """What a line of code is made of."""

    breaks: tuple[_Break, ...]
    comment_at: int | None
    depth: int  # open brackets at its end


def fitted(code: str, lang: str, width: int) -> list[str]:
    """Return the lines of code, those wider than `width` folded where that changes nothing; others stay too wide."""
    lines: list[str] = []
    depth = 0
    for raw in code.rstrip("\n").split("\n"):
        line = raw.expandtabs(4).rstrip()
        if lang not in _COMMENTS or '"""' in code or ("<<" in code and lang == "bash"):
            lines.append(line)
            continue
        scan = _scan(line, lang, depth)
        goes_on = bool(lines) and lines[-1].endswith("\\")
        lines += [line] if len(line) <= width else _folded(line, scan, lang, width, goes_on=goes_on)
        depth = scan.depth
    return lines


def _folded(line: str, scan: _Scan, lang: str, width: int, *, goes_on: bool) -> list[str]:
    """Put a comment above its code, then end lines at the best place that fits."""
    indent = line[: len(line) - len(line.lstrip())]
    above: list[str] = []
    if scan.comment_at is not None and not goes_on:
        leader = f"{indent}{_COMMENTS[lang]} "
        comment = line[scan.comment_at :].removeprefix(_COMMENTS[lang]).strip()
        above = textwrap.wrap(
            comment,
            width,
            initial_indent=leader,
            subsequent_indent=leader,
            break_long_words=False,
            break_on_hyphens=False,
        )
        line = line[: scan.comment_at].rstrip()
    below: list[str] = []
    start, prefix = 0, ""
    while len(prefix) + len(line) - start > width:
        left = [end for end in scan.breaks if start < end.at < len(line)]
        if not left:
            break
        fit = [end for end in left if len(prefix) + end.at - start + len(end.suffix) <= width]
        end = min(fit, key=lambda end: (end.rank, -end.at)) if fit else left[0]
        below.append(prefix + line[start : end.at] + end.suffix)
        is_near = end.column is not None and end.column <= max(width // 2, len(indent))
        start, prefix = end.follows, " " * (end.column or 0) if is_near else indent + _CONTINUED
    return [*above, *below, *([prefix + line[start:]] if line else [])]


def _scan(line: str, lang: str, depth: int) -> _Scan:
    """Return where a line may end, outside of quotes.

    C++ may end lines between words, a shell too if it says so; Python inside brackets, and elsewhere if it says so.
    Python and C++ may end them behind an opening bracket, where nothing else fits.
    """
    indent = len(line) - len(line.lstrip())
    brackets = [indent] * depth  # where the inside of each open one stands
    breaks: list[_Break] = []
    quote, escaped = "", False
    is_directive = lang == "cpp" and line.lstrip().startswith("#")
    for at, char in enumerate(line):
        if escaped:
            escaped = False
        elif char == "\\" and not (lang == "bash" and quote == "'"):
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif line.startswith(_COMMENTS[lang], at) and (at == 0 or line[at - 1] == " "):
            return _Scan(tuple(breaks), at, len(brackets))
        elif char in "([{":
            brackets.append(at + 1)
            if lang != "bash" and not is_directive and line[at + 1 : at + 2] not in ("", ")", "]", "}"):
                breaks.append(_Break(at + 1, at + 1, rank=1))
        elif char in ")]}":
            del brackets[-1:]
        elif char == " " and at > indent and not is_directive:
            if lang == "bash" or (lang == "python" and not brackets):
                breaks.append(_Break(at, at + 1, rank=0 if lang == "bash" else 2, suffix=" \\"))
            else:
                breaks.append(_Break(at, at + 1, column=brackets[-1] if brackets else None))
    return _Scan(tuple(breaks), None, len(brackets))
