"""The stacks of a run as a tree on a screen, each line a frame with its costs, or as a flame graph on a page."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence

from traceanalyzer.answers.flame import KINDS, FlameRow, Frame
from traceanalyzer.report.blocks import Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.charts.svg import SLICES, WIDE, Svg, drawing, escaped, fitted, words_on
from traceanalyzer.text.words import bucket_words, counted, duration, name_words, percent, size

ROW_PX = 18
# Narrower frames are left out, with what is inside them.
LEAST_PX = 0.5
LEAST_WORDS_PX = 30
MOST_ROWS = 200
_HUES = 4


def flame_graph(root: Frame, says: str, words: Callable[[int], str], *, width: int = WIDE) -> Svg:
    """Return the frames inside `root`; `words` says a value in its unit."""
    whole = max(root.value, 1)
    shapes: list[str] = []
    rows = 0
    waiting = [(root, 0.0, -1)]
    while waiting:
        frame, x, row = waiting.pop()
        span = frame.value / whole * width
        if row >= 0:
            rows = max(rows, row + 1)
            tooltip = f"{name_words(frame.name)}: {words(frame.value)}, {percent(frame.value / whole)}"
            shapes.append(_box(frame.name, tooltip, x, row * ROW_PX, span))
        if row + 1 == MOST_ROWS:
            continue
        for inner in frame.largest_first():
            room = inner.value / whole * width
            if room >= LEAST_PX:
                waiting.append((inner, x, row + 1))
            x += room
    return drawing(width, max(rows, 1) * ROW_PX, says, shapes, alone=True)


def _box(name: str, tooltip: str, x: float, y: float, span: float) -> str:
    token = f"frame-{zlib.crc32(name.encode(errors='replace')) % _HUES}"
    fill = SLICES[token][0]
    label = ""
    if span > LEAST_WORDS_PX:
        text = escaped(fitted(name_words(name), span - 8, 11))
        label = f'<text x="{x + 4:.1f}" y="{y + 13:.1f}" font-size="11" fill="{words_on(fill)}">{text}</text>'
    box = f'x="{x:.2f}" y="{y}" width="{max(span - 0.5, 0.3):.2f}" height="{ROW_PX - 1}"'
    return f'<g><title>{escaped(tooltip)}</title><rect {box} fill="{fill}"/>{label}</g>'


_INDENT = "· "
# A line has room for so many letters, next to so many levels and the numbers.
_LONGEST, _LONGEST_FIRST, _MOST_DEPTH = 66, 30, 8
_FOLDERS = re.compile(r"^[^():]*/(?=[^/]+\.py\(\d+\): )")
# What a run has to hold for a kind, where it holds none.
_MISSING = {
    "device": "no GPU operations were recorded",
    "host": "no host slices were recorded",
    "idle": "no device waited, or none ran",
    "memory": "allocations were not recorded: profile_memory=True of torch.profiler.profile records them, and "
    "`nsys profile --cuda-memory-usage=true` or, for AMD's devices, `rocprofv3 --memory-allocation-trace`",
}


def sections(root: Frame, rows: Sequence[FlameRow], kind: str, run: str, rank: int | None) -> list[Section]:
    """Return the tree; frames that are the only way to the next are one line with it."""
    where = [] if rank is None else [Text(f"rank {rank}")]
    head = Heading(run, (Text(f"flame of {kind}"), Text(value_words(root.value, kind)), *where))
    if not rows:
        return [Section((head, Paragraph(_MISSING[kind], role="caution")))]
    cells = tuple(
        (
            value_words(row.frame.value, kind),
            percent(row.frame.value / max(root.value, 1)),
            value_words(row.frame.own, kind) if row.frame.own else "–",
            _INDENT * min(row.depth, _MOST_DEPTH) + _chain_words(row),
        )
        for row in rows
    )
    table = Table(
        ("bytes" if kind == "memory" else "time", "share", "by itself", "frame"), cells, right=frozenset({0, 1, 2})
    )
    shown = sum(1 + len(row.around) for row in rows)
    left_out = _frame_count(root) - shown
    more = f"{counted(left_out, 'smaller frame')} not shown; --top shows more. " if left_out else ""
    note = f"{KINDS[kind]} {more}`traceanalyzer metrics show flame` has the definitions."
    return [Section((head, table)), Section((Paragraph(note, role="dim"),))]


def value_words(value: int, kind: str) -> str:
    """Say a value of a kind of flame in its unit."""
    return size(value) if kind == "memory" else duration(value)


def _chain_words(row: FlameRow) -> str:
    name = _short(row.frame.name, _LONGEST)
    if not row.around:
        return name
    first = _short(row.around[0], _LONGEST_FIRST)
    return f"{first} › {'… › ' if len(row.around) > 1 else ''}{_short(row.frame.name, _LONGEST - len(first) - 7)}"


def _short(name: str, longest: int) -> str:
    """Return a name without the folders of a Python file, cut at its end."""
    text = bucket_words(name_words(_FOLDERS.sub("", name)))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _frame_count(root: Frame) -> int:
    waiting, count = [root], -1
    while waiting:
        frame = waiting.pop()
        count += 1
        waiting += frame.inside.values()
    return count
