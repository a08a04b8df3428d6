"""The steps of the slowest device: each by what it was spent on, and the five slowest as a table."""

from __future__ import annotations

from typing import Any

from traceanalyzer.diagnosis.verdict import pooled_ledger
from traceanalyzer.report.blocks import Table
from traceanalyzer.report.charts.ledger_charts import MOST_COLUMNS, StepTime, step_columns
from traceanalyzer.report.charts.svg import NARROW
from traceanalyzer.report.diagnosis_blocks.ledgers import alike, group_place
from traceanalyzer.report.html.document import Part, blocks_markup, filled
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import bucket_words, counted, duration, gain

LEAST_STEPS = 2
SLOWEST = 5
# The slowest of fewer steps are seen in the chart.
MANY_STEPS = 8


def section(source: PageSource) -> Part | None:
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
        "wide": step_columns(steps, says),
        "narrow": step_columns(steps, says, width=NARROW),
        "slowest": blocks_markup([_slowest(kept)]) if len(kept) >= MANY_STEPS else "",
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


def _slowest(kept: list[StepTime]) -> Table:
    median = sorted(step.dur_ns for step in kept)[len(kept) // 2]
    names = {bucket for step in kept for bucket in step.buckets}
    usual = {name: sorted(step.buckets.get(name, 0) for step in kept)[len(kept) // 2] for name in names}
    rows = []
    for step in sorted(kept, key=lambda step: (-step.dur_ns, step.step))[:SLOWEST]:
        more = max(sorted(step.buckets), key=lambda name: step.buckets[name] - usual[name], default="")
        excess = step.buckets.get(more, 0) - usual.get(more, 0)
        why = f"{bucket_words(more)} +{duration(excess)}" if excess > 0 else "–"
        rows.append((str(step.step), duration(step.dur_ns), gain(1 - step.dur_ns / median) if median else "–", why))
    columns = ("step", "time", "against the median", "most of it")
    return Table(columns, tuple(rows), right=frozenset({0, 1, 2}), title="The slowest steps")
