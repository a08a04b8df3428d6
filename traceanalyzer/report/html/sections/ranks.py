"""The ranks: how long each works in each step before it waits for the others; without steps, what each spends."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceanalyzer.diagnosis import DeviceLedger
from traceanalyzer.diagnosis.shares import compute_share
from traceanalyzer.report.charts.svg import NARROW, WIDE, Svg, drawing, fitted, words, words_px
from traceanalyzer.report.diagnosis_blocks.ledgers import run_bucket_words
from traceanalyzer.report.html.document import Part, filled
from traceanalyzer.report.html.sections.tables import MOST_ROWS, PageColumn, table_markup
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import counted, duration, listed, percent

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
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", size), (b"IDAT", packed), (b"IEND", b""))
    )


LEAST_RANKS = 2
# More steps than these are put together in the picture; the slowest of each group is kept.
MOST_STEPS = 256
NAMED = 3
# Ranks that differ by less are alike.
ALIKE_SHARE = 0.01
# What takes less of the run is not said of the rank that it waits for.
LEAST_TOLD_SHARE = 0.01

_COLUMNS = (
    PageColumn("rank", "rank", "count"),
    PageColumn("device", "device", "count"),
    PageColumn("window", "window_ns", "time"),
    PageColumn("busy with compute", "busy", "share"),
    PageColumn("exposed communication", "comm", "share"),
    PageColumn("idle", "idle", "share"),
)

Times = list[list[float | None]]


@dataclass(frozen=True)
class RankTimes:
    """The time before waiting of each rank (row) in each step (column); None: the rank has no such step."""

    ranks: list[int]
    steps: list[int]
    times: Times

    @property
    def means(self) -> list[float]:
        return [_mean(row) for row in self.times]


def section(source: PageSource) -> Part | None:
    """Return the heat map of a run with several ranks, and a table of their windows where they have no steps."""
    rows = [row for row in source.rows("rank_steps") if row["rank"] is not None]
    known = rank_times({(row["rank"], row["step"]): row["own_ns"] for row in rows})
    if known is None:
        return _without_steps(source)
    means = known.means
    order = sorted(range(len(means)), key=lambda at: (-means[at], known.ranks[at]))
    columns = [_mean(column) for column in zip(*known.times, strict=True)]
    late = sorted(range(len(columns)), key=lambda at: (-columns[at], at))[:NAMED]
    named = listed([f"rank {known.ranks[at]} {duration(means[at])}" for at in order[:NAMED]])
    words = f"Slowest ranks: {named}."
    if len(known.steps) > 1:
        words += f" Slowest steps: {listed([str(known.steps[at]) for at in late])}."
    says = f"{_says(known)}. {words}"
    apart = means[order[0]] > (1 + ALIKE_SHARE) * sorted(means)[len(means) // 2]
    slowest = known.ranks[order[0]] if apart else None
    values = {
        "outlier": _outlier_words(source, known, order[0]) if apart else alike_words(known.ranks, means),
        **_drawings(known, means, says, slowest),
        "named": words,
    }
    note = "time of each step on each rank before it waits for others"
    return Part("ranks", "Ranks", filled("ranks.html", values), "Ranks", note)


def _without_steps(source: PageSource) -> Part | None:
    ledgers = [ledger for ledger in source.diagnosis.ledgers if ledger.rank is not None and ledger.window_ns]
    if len({ledger.rank for ledger in ledgers}) < LEAST_RANKS:
        return None
    ordered = sorted(ledgers, key=lambda ledger: (ledger.rank or 0, ledger.trace, ledger.device))
    busiest, idlest = max(ordered, key=compute_share), min(ordered, key=compute_share)
    ends = [(percent(compute_share(ledger)), ledger.rank) for ledger in (idlest, busiest)]
    words = f"The GPU of each rank is busy with compute for {ends[0][0]}"
    if ends[0][0] != ends[1][0]:
        words = f"{words} (rank {ends[0][1]}) to {ends[1][0]} (rank {ends[1][1]})"
    rows = [_rank_row(ledger) for ledger in ordered]
    hidden = len(rows) - MOST_ROWS
    table = table_markup(
        "t-ranks",
        "Ranks",
        _COLUMNS,
        rows[:MOST_ROWS],
        more=f"{counted(hidden, 'more device')}" if hidden > 0 else "",
        longest=source.limits.name_letters,
    )
    body = filled("rank_windows.html", {"words": f"{words} of its window.", "table": table})
    return Part("ranks", "Ranks", body, "Ranks", "no steps are known: the whole window of each rank")


def _rank_row(ledger: DeviceLedger) -> dict[str, Any]:
    comm_ns = sum(
        ns for bucket, ns in ledger.buckets if bucket.startswith("dev.comm_") or bucket == "dev.straggler_wait"
    )
    busy = compute_share(ledger)
    comm = comm_ns / ledger.window_ns
    return {
        "rank": ledger.rank,
        "device": ledger.device,
        "window_ns": ledger.window_ns,
        "busy": busy,
        "comm": comm,
        "idle": max(0.0, 1 - busy - comm),
    }


def _drawings(known: RankTimes, means: list[float], says: str, slowest: int | None) -> dict[str, list[Svg]]:
    """Return the drawings for a desk and for a phone; a single step has no median of steps to compare with."""
    if len(known.steps) == 1:
        bars = [rank_bars(known.ranks, means, says, width=width, slowest=slowest) for width in (WIDE, NARROW)]
        return {"absolute": bars, "relative": []}
    shown = _grouped(known)
    relative = _relative(shown)
    return {
        "absolute": [_drawn(shown, means, says, slowest, width, "ns") for width in (WIDE, NARROW)],
        "relative": [_drawn(relative, relative.means, says, slowest, width, "share") for width in (WIDE, NARROW)],
    }


def rank_times(cells: Mapping[tuple[int, int], int]) -> RankTimes | None:
    """Return times by (rank, step) as a table; None for fewer than two ranks."""
    ranks, steps = sorted({rank for rank, _ in cells}), sorted({step for _, step in cells})
    if len(ranks) < LEAST_RANKS or not steps:
        return None
    return RankTimes(ranks, steps, [[cells.get((rank, step)) for step in steps] for rank in ranks])


def rank_map(cells: Mapping[tuple[int, int], int]) -> Svg | None:
    """Return the heat map of times by (rank, step) as a drawing that stands alone; None for fewer than two ranks."""
    known = rank_times(cells)
    if known is None:
        return None
    shown = _grouped(known)
    return heat_map(known.ranks, shown.steps, shown.times, known.means, _says(known), alone=True)


def _says(known: RankTimes) -> str:
    return f"Time of {counted(len(known.ranks), 'rank')} in {counted(len(known.steps), 'step')} before waiting"


def _drawn(shown: RankTimes, means: Sequence[float], says: str, slowest: int | None, width: int, unit: str) -> Svg:
    return heat_map(shown.ranks, shown.steps, shown.times, means, says, width=width, slowest=slowest, unit=unit)


def _outlier_words(source: PageSource, known: RankTimes, slowest: int) -> str:
    mean, median = known.means[slowest], sorted(known.means)[len(known.ranks) // 2]
    over = f", {percent(mean / median - 1)} over the median rank" if median else ""
    words = f"Rank {known.ranks[slowest]} works longest before it waits: {duration(mean)} a step{over}."
    run = source.diagnosis.run_ledger
    if run is not None and run.ranks and run.window_ns:
        rank, dur_ns = run.ranks[0]
        words += f" The run waits most for rank {rank}: {percent(dur_ns / run.window_ns)} of its time"
        spent = [(row["bucket"], row["dur_ns"] / run.window_ns) for row in source.rows("waited_for", [rank])]
        each = [
            f"{run_bucket_words(bucket, run)} {percent(share)}" for bucket, share in spent if share >= LEAST_TOLD_SHARE
        ]
        words += f" ({listed(each)})." if each else "."
    return words


def alike_words(ranks: Sequence[int], means: Sequence[float]) -> str:
    """Say how long ranks work of which none works longer than the median; one of them may still work shorter."""
    median, least = sorted(means)[len(means) // 2], min(means)
    if least >= (1 - ALIKE_SHARE) * median:
        ends = " to ".join(dict.fromkeys(map(duration, (least, max(means)))))
        return f"All ranks work about as long: {ends} a step."
    under = percent(1 - least / median)
    words = f"Rank {ranks[means.index(least)]} works shortest before it waits: {duration(least)} a step"
    return f"{words}, {under} under the median rank; no rank works much longer than that."


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def _relative(shown: RankTimes) -> RankTimes:
    """Return each time as a share of the median of its step."""
    medians = []
    for column in zip(*shown.times, strict=True):
        known = sorted(value for value in column if value is not None)
        medians.append(known[len(known) // 2] if known else 0.0)
    times: Times = [
        [
            None if value is None else value / median if median else 1.0
            for value, median in zip(row, medians, strict=True)
        ]
        for row in shown.times
    ]
    return RankTimes(shown.ranks, shown.steps, times)


def _grouped(known: RankTimes) -> RankTimes:
    """Put neighbouring steps together where there are many: the slowest of each group stands for it."""
    each = -(-len(known.steps) // MOST_STEPS)
    groups = [range(at, min(at + each, len(known.steps))) for at in range(0, len(known.steps), each)]
    times: Times = [
        [max((value for at in group if (value := row[at]) is not None), default=None) for group in groups]
        for row in known.times
    ]
    return RankTimes(known.ranks, [known.steps[group[0]] for group in groups], times)
