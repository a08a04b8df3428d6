"""The ranks: how long each works in each step before it waits for the others; without steps, what each spends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceanalyzer.diagnosis import DeviceLedger
from traceanalyzer.diagnosis.verdict import compute_share
from traceanalyzer.report.charts.heat_map import heat_map, rank_bars
from traceanalyzer.report.charts.svg import NARROW, WIDE, Svg
from traceanalyzer.report.html.document import Part, filled
from traceanalyzer.report.html.sections.tables import MOST_ROWS, PageColumn, table_markup
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import bucket_words, counted, duration, listed, percent

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
        """The mean of each rank."""
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
        told = [f"{bucket_words(bucket)} {percent(share)}" for bucket, share in spent if share >= LEAST_TOLD_SHARE]
        words += f" ({listed(told)})." if told else "."
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
    times = [[_slowest([row[at] for at in group]) for group in groups] for row in known.times]
    return RankTimes(known.ranks, [known.steps[group[0]] for group in groups], times)


def _slowest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
