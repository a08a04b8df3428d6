"""Where the time goes: every bucket, other devices as thin bars, each step; what fixes save as a waterfall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from traceanalyzer.diagnosis import DeviceLedger, HostLedger, RunLedger
from traceanalyzer.diagnosis.shares import compute_share
from traceanalyzer.diagnosis.verdict import has_no_compute, pooled_ledger, step_ns
from traceanalyzer.report.blocks import Table
from traceanalyzer.report.charts import ledger_charts as drawn
from traceanalyzer.report.charts.ledger_charts import MOST_COLUMNS, StepTime, step_columns, waterfall
from traceanalyzer.report.charts.svg import NARROW, WIDE, token_of
from traceanalyzer.report.diagnosis_blocks import plan_rows, plan_sections
from traceanalyzer.report.diagnosis_blocks.ledgers import (
    LedgerGroup,
    alike,
    group_place,
    ledger_bar,
    ledger_sections,
    main_ledger,
    slowest_kernels,
)
from traceanalyzer.report.diagnosis_blocks.trust import recordings_table
from traceanalyzer.report.html.document import Part, bar_markup, blocks_markup, filled, part_of
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import bucket_words, counted, duration, gain, percent

MOST_BARS = 16
# A smaller part of a thin bar is hardly seen.
LEAST_KEY_SHARE = 0.01


def section(source: PageSource) -> Part | None:
    """Return the ledgers, the run's on top where ranks wait for each other."""
    diagnosis = source.diagnosis
    top = main_ledger(diagnosis)
    if top is None or has_no_compute(diagnosis):
        return None
    first, *_ = ledger_sections(diagnosis, verbose=False)
    groups = alike(diagnosis.ledgers)
    thin = [] if len(groups) == 1 and top is groups[0].worst else groups[:MOST_BARS]
    longest = max((step_ns(group.worst) for group in groups), default=0)
    recordings = recordings_table(diagnosis)
    values = {
        "bar": bar_markup(ledger_bar(top, codes=False, every=True)),
        "others": [_thin(group, source, longest) for group in thin],
        "keys": _further_keys(top, thin, source.model),
        "more": sum(len(group.members) for group in groups[MOST_BARS:]),
        "work": blocks_markup(slowest_kernels(diagnosis, most=0)[:1] if groups else first.blocks[1:]),
        "recordings": blocks_markup([recordings] if recordings is not None else []),
    }
    return part_of(first, "time", filled("ledger.html", values), "Time")


def _further_keys(
    top: DeviceLedger | RunLedger | HostLedger, thin: Sequence[LedgerGroup], model: str | None
) -> list[tuple[str, str]]:
    """Return fill and words of the buckets that the thin bars show and the legend above them does not have."""
    legend = {bucket for bucket, dur_ns in top.buckets if dur_ns}
    sizes: dict[str, int] = {}
    for group in thin:
        for bucket, dur_ns in group.worst.buckets:
            if bucket not in legend and dur_ns > LEAST_KEY_SHARE * group.worst.window_ns:
                sizes[bucket] = sizes.get(bucket, 0) + dur_ns
    ordered = sorted(sizes, key=lambda name: (-sizes[name], name))
    return [(token_of(bucket), bucket_words(bucket, model)) for bucket in ordered]


def _thin(group: LedgerGroup, source: PageSource, longest_ns: float) -> dict[str, object]:
    """Return the bar of devices that are alike, as long as their step is against the longest."""
    ledger = group.worst
    bar, fill = ledger_bar(ledger, codes=False, every=True), step_ns(ledger) / max(longest_ns, 1)
    drawings = [drawn.ledger_bar(bar, width=width, thin=True, fill=fill) for width in (WIDE, NARROW)]
    return {
        "place": group_place(group, source.diagnosis.ledgers),
        "time": duration(step_ns(ledger)),
        "share": percent(compute_share(ledger)),
        "wide": drawings[0],
        "narrow": drawings[1],
    }


def savings(source: PageSource) -> Part | None:
    """Return the waterfall of the leading plan; one fix needs no order."""
    sections = plan_sections(source.diagnosis)
    if not sections:
        return None
    now, *drops = plan_rows(source.diagnosis)
    says = "; ".join([f"now: {now.time}", *(f"{drop.name}: {drop.time} left, {drop.saves}" for drop in drops)])
    values = {
        "wide": waterfall(now, drops, says),
        "narrow": waterfall(now, drops, says, width=NARROW),
        "remarks": [drop for drop in drops if drop.remark],
        "enablers": blocks_markup(sections[0].blocks[1:]),
    }
    return part_of(sections[0], "savings", filled("savings.html", values), "Savings")


LEAST_STEPS = 2
SLOWEST = 5
# A step that is less longer than the median is like the others.
SLOWER_SHARE = 0.01
# The slowest of fewer steps are seen in the chart.
MANY_STEPS = 8


def steps(source: PageSource) -> Part | None:
    """Return the steps; one alone is the ledger already."""
    if not source.diagnosis.ledgers:
        return None
    group = alike(source.diagnosis.ledgers)[0]
    pooled = pooled_ledger(source.diagnosis)
    shown = [group.worst] if pooled is None else source.diagnosis.ledgers
    of_each = [source.rows("step_ledgers", [ledger.trace, ledger.device]) for ledger in shown]
    steps = [step for rows in of_each for step in step_times(rows)]
    if len(steps) < LEAST_STEPS:
        return None
    kept = [step for step in steps if not step.dropped]
    spread = _spread(kept)
    says = f"{counted(len(steps), 'step')}, {len(kept)} of them counted: {spread or 'none counted'}"
    note = note_of(steps)
    if pooled is not None:
        note = f"of {pooled.recording_count} recordings, one after the other: {note}"
    elif len(source.diagnosis.ledgers) > 1:
        note = f"{group_place(group, source.diagnosis.ledgers)}, the slowest is shown: {note}"
    values = {
        "wide": step_columns(steps, says, model=source.model),
        "narrow": step_columns(steps, says, width=NARROW, model=source.model),
        "slowest": blocks_markup(slowest_steps(kept, source.model)),
    }
    return Part("steps", "Steps", filled("drawings.html", values), "Steps", note)


def note_of(steps: list[StepTime]) -> str:
    """Say what the drawing shows, how long the steps take that count, and why others do not."""
    kept = [step for step in steps if not step.dropped]
    is_curve = len(steps) > MOST_COLUMNS
    note = "how long each step takes" if is_curve else "each step by what it was spent on"
    note += f"; counted ones take {_spread(kept)}" if kept else ""
    reasons = ", ".join(sorted({step.dropped for step in steps if step.dropped}))
    return f"{note}; {len(steps) - len(kept) if is_curve else '*'} not counted ({reasons})" if reasons else note


def _spread(kept: list[StepTime]) -> str:
    """Say how long steps take: `18.9 ms to 21.0 ms`, or one time where both read the same."""
    ends = [duration(end(step.dur_ns for step in kept)) for end in (min, max)] if kept else []
    return " to ".join(dict.fromkeys(ends))


def step_times(rows: list[dict[str, Any]]) -> list[StepTime]:
    """Return steps of rows of the query `step_ledgers`."""
    steps: dict[int, StepTime] = {}
    for row in rows:
        dropped = "" if row["kept"] else row["drop_reason"] or "not counted"
        step = steps.setdefault(row["step"], StepTime(row["step"], row["step_ns"], {}, dropped))
        if row["bucket"] is not None:
            steps[row["step"]] = StepTime(
                step.step, step.dur_ns, {**step.buckets, row["bucket"]: row["dur_ns"]}, step.dropped
            )
    return list(steps.values())


def slowest_steps(kept: list[StepTime], model: str | None) -> list[Table]:
    """Return the steps that take visibly longer than the median; of a few steps the chart shows them."""
    if len(kept) < MANY_STEPS:
        return []
    median = sorted(step.dur_ns for step in kept)[len(kept) // 2]
    names = {bucket for step in kept for bucket in step.buckets}
    usual = {name: sorted(step.buckets.get(name, 0) for step in kept)[len(kept) // 2] for name in names}
    rows = []
    slow = [step for step in kept if step.dur_ns > (1 + SLOWER_SHARE) * median]
    for step in sorted(slow, key=lambda step: (-step.dur_ns, step.step))[:SLOWEST]:
        more = max(sorted(step.buckets), key=lambda name: step.buckets[name] - usual[name], default="")
        excess = step.buckets.get(more, 0) - usual.get(more, 0)
        why = f"{bucket_words(more, model)} +{duration(excess)}" if excess > 0 else "–"
        rows.append((str(step.step), duration(step.dur_ns), gain(1 - step.dur_ns / median) if median else "–", why))
    columns = ("step", "time", "against the median", "most of it")
    return [Table(columns, tuple(rows), right=frozenset({0, 1, 2}), title="The slowest steps")] if rows else []
