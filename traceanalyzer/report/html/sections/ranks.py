"""The ranks: how long each works in each step before it waits for the others."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.report.charts.heat_map import heat_map
from traceanalyzer.report.charts.svg import NARROW, Svg
from traceanalyzer.report.html.document import Part
from traceanalyzer.report.html.markup import filled
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.report.words import counted, duration, listed, percent

LEAST_RANKS = 2
# More steps than these are put together in the picture; the slowest of each group is kept.
MOST_STEPS = 256
NAMED = 3
# Ranks that differ by less are alike.
ALIKE_SHARE = 0.01

Times = list[list[float | None]]


def section(source: PageSource) -> Part | None:
    """Return the heat map of a run with several ranks that have steps."""
    cells = {(row["rank"], row["step"]): row["own_ns"] for row in source.rows("rank_steps")}
    ranks, steps = sorted({rank for rank, _ in cells}), sorted({step for _, step in cells})
    if len(ranks) < LEAST_RANKS or not steps:
        return None
    times: Times = [[cells.get((rank, step)) for step in steps] for rank in ranks]
    means = [_mean(row) for row in times]
    order = sorted(range(len(ranks)), key=lambda at: (-means[at], ranks[at]))
    slowest, median = order[0], sorted(means)[len(means) // 2]
    apart = means[slowest] > (1 + ALIKE_SHARE) * median
    named = listed([f"rank {ranks[at]} {duration(means[at])}" for at in order[:NAMED]])
    columns = [_mean([row[at] for row in times]) for at in range(len(steps))]
    late = listed([str(steps[at]) for at in sorted(range(len(steps)), key=lambda at: (-columns[at], at))[:NAMED]])
    says = f"Time of {counted(len(ranks), 'rank')} in {counted(len(steps), 'step')} before waiting; slowest: {named}; slowest steps: {late}."
    shown, short = _grouped(steps, times)
    medians = [sorted(v for v in column if v is not None)[sum(v is not None for v in column) // 2] for column in zip(*short, strict=True)]
    relative: Times = [[None if v is None else v / m if m else 1.0 for v, m in zip(row, medians, strict=True)] for row in short]

    def draw(cells: Times, bars: Sequence[float], unit: str, width: int | None) -> Svg:
        options = {} if width is None else {"width": width}
        return heat_map(ranks, shown, cells, bars, says, slowest=ranks[slowest] if apart else None, unit=unit, **options)

    bars = [_mean(row) for row in relative]
    values = {
        "told": _told(source, ranks, means, slowest) if apart else _alike(means),
        "absolute": (draw(short, means, "ns", None), draw(short, means, "ns", NARROW)),
        "relative": (draw(relative, bars, "share", None), draw(relative, bars, "share", NARROW)),
        "named": f"Slowest ranks: {named}. Slowest steps: {late}.",
    }
    return Part("ranks", "Ranks", filled("ranks.html", values), "Ranks", "time of each step on each rank before it waits for others")


def _told(source: PageSource, ranks: Sequence[int], means: Sequence[float], slowest: int) -> str:
    median = sorted(means)[len(means) // 2]
    over = f", {percent(means[slowest] / median - 1)} over the median rank" if median else ""
    words = f"Rank {ranks[slowest]} works longest before it waits: {duration(means[slowest])} a step{over}."
    run = source.diagnosis.run_ledger
    if run is not None and run.ranks and run.window_ns:
        rank, dur_ns = run.ranks[0]
        words += f" The run waits most for rank {rank}: {percent(dur_ns / run.window_ns)} of its time."
    return words


def _alike(means: Sequence[float]) -> str:
    return f"All ranks work about as long: {duration(min(means))} to {duration(max(means))} a step."


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def _grouped(steps: Sequence[int], times: Times) -> tuple[list[int], Times]:
    each = -(-len(steps) // MOST_STEPS)
    groups = [range(at, min(at + each, len(steps))) for at in range(0, len(steps), each)]
    cells: Times = [[max((row[i] for i in group if row[i] is not None), default=None) for group in groups] for row in times]  # type: ignore[type-var]
    return [steps[group[0]] for group in groups], cells
