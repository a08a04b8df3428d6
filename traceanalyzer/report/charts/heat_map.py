"""Ranks by steps as a heat map: darker is slower, a slow rank is a dark row, a slow step a dark column."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

from traceanalyzer.report.charts.svg import WIDE, Svg, drawing, fitted, words, words_px
from traceanalyzer.text.words import duration

RAMP = ("#eaf1f9", "#c9dcf1", "#9cbfe3", "#5f93cd", "#1f4f86")
MOST_HEIGHT = 320
LEAST_ROW_PX = 22
LEFT_PX = 56
MEANS_PX = 190
NARROW_MEANS_PX = 120
FOOT_PX = 56


def heat_map(
    ranks: Sequence[int],
    steps: Sequence[int],
    times: Sequence[Sequence[float | None]],
    means: Sequence[float],
    says: str,
    *,
    width: int = WIDE,
    slowest: int | None = None,
    unit: str = "ns",
    alone: bool = False,
) -> Svg:
    """Return a cell for each rank (row) and step (column); None is not known. `unit` is ns, or a share of the median.

    The mean of each rank stands beside its row as a bar, with the number of the `slowest`.
    """
    means_px = MEANS_PX if width == WIDE else NARROW_MEANS_PX
    plot = width - LEFT_PX - means_px
    height = _height(ranks)
    known = [value for row in times for value in row if value is not None] or [0.0]
    low, high = min(known), max(known)
    picture = base64.b64encode(_png([[_color(v, low, high) for v in row] for row in times])).decode()
    shapes = [
        f'<image class="heat" x="{LEFT_PX}" y="0" width="{plot}" height="{height}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{picture}"/>'
    ]
    shapes += _names(ranks, height)
    column = plot / len(steps)
    every = max(1, -(-34 * len(steps) // plot))
    for at in range(0, len(steps), every):
        shapes.append(
            words(
                LEFT_PX + (at + 0.5) * column,
                height + 15,
                str(steps[at]) if at else f"step {steps[at]}",
                tone="dim",
                anchor="middle",
                size=11,
            )
        )
    shapes += _means(ranks, means, slowest, LEFT_PX + plot + 12, width, height, unit)
    shapes += _key(low, high, height + 30, unit, width)
    return drawing(width, height + FOOT_PX, says, shapes, alone=alone)


def rank_bars(
    ranks: Sequence[int], times: Sequence[float], says: str, *, width: int = WIDE, slowest: int | None = None
) -> Svg:
    """Return a bar for each rank: the picture of a single step, of which a heat map has one column."""
    height = _height(ranks)
    return drawing(
        width, height, says, [*_names(ranks, height), *_means(ranks, times, slowest, LEFT_PX, width, height, "ns")]
    )


def _height(ranks: Sequence[int]) -> int:
    return min(max(len(ranks) * LEAST_ROW_PX, 60), MOST_HEIGHT)


def _names(ranks: Sequence[int], height: int) -> list[str]:
    row = height / len(ranks)
    every = max(1, -(-16 * len(ranks) // height))
    return [
        words(LEFT_PX - 8, (at + 0.5) * row + 4, f"rank {rank}", tone="dim", anchor="end", size=11)
        for at, rank in enumerate(ranks)
        if at % every == 0
    ]


def _means(
    ranks: Sequence[int], means: Sequence[float], slowest: int | None, x: float, width: float, height: int, unit: str
) -> list[str]:
    row = height / len(ranks)
    longest = max(means) or 1.0
    room = width - x - 5 - max(words_px(_said(mean, unit), 11, bold=True) for mean in means)
    shapes = []
    for at, (rank, mean) in enumerate(zip(ranks, means, strict=True)):
        token = "#c4472f" if rank == slowest else "#2f6fb7"
        name = "slower" if rank == slowest else "compute"
        shapes.append(
            f'<rect class="f-{name}" x="{x:.1f}" y="{at * row + row * 0.15:.2f}" width="{mean / longest * room:.2f}" '
            f'height="{max(row * 0.7, 0.6):.2f}" fill="{token}">'
            f"<title>rank {rank}: mean {_said(mean, unit)}</title></rect>"
        )
        if rank == slowest or (row >= 16 and len(ranks) <= 16):
            y = min(max((at + 0.5) * row + 4, 11), len(ranks) * row - 1)
            shapes.append(words(x + mean / longest * room + 5, y, _said(mean, unit), bold=rank == slowest, size=11))
    return shapes


def _key(low: float, high: float, y: float, unit: str, width: int) -> list[str]:
    boxes = [
        f'<rect x="{LEFT_PX + 24 + at * 24}" y="{y + 4}" width="24" height="10" fill="{color}"/>'
        for at, color in enumerate(RAMP)
    ]
    words_left = words(LEFT_PX + 16, y + 13, _said(low, unit), tone="dim", anchor="end", size=11)
    room = width - LEFT_PX - 156
    wordings = [f"{_said(high, unit)}   darker is slower{more}" for more in ("; bars at the right: mean of a rank", "")]
    said = next((words for words in wordings if words_px(words, 11) <= room), fitted(wordings[-1], room, 11))
    return [*boxes, words_left, words(LEFT_PX + 152, y + 13, said, tone="dim", size=11)]


def _said(value: float, unit: str) -> str:
    return duration(value) if unit == "ns" else f"{(value - 1) * 100:+.0f} %".replace("-", "−")


def _color(value: float | None, low: float, high: float) -> tuple[int, int, int]:
    if value is None:
        return (200, 204, 210)
    at = (value - low) / (high - low) * (len(RAMP) - 1) if high > low else 0.0
    below = min(int(at), len(RAMP) - 2)
    one, two = (tuple(int(RAMP[i][j : j + 2], 16) for j in (1, 3, 5)) for i in (below, below + 1))
    red, green, blue = (round(a + (b - a) * (at - below)) for a, b in zip(one, two, strict=True))
    return (red, green, blue)


def _png(rows: Sequence[Sequence[tuple[int, int, int]]]) -> bytes:
    """Return a picture of one pixel a colour, as the PNG format has it: header, packed rows, end."""
    size = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    packed = zlib.compress(b"".join(b"\0" + bytes(value for color in row for value in color) for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data) for kind, data in ((b"IHDR", size), (b"IDAT", packed), (b"IEND", b""))
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
