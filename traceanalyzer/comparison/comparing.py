"""Compares two sides, each one capture of a configuration or more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from traceanalyzer.comparison import statistics
from traceanalyzer.comparison.aligning import Alignment, align
from traceanalyzer.comparison.confounders import Confounder, find_confounders
from traceanalyzer.comparison.differences import (
    LedgerRow,
    NamedDifference,
    NamedRow,
    ledger_difference,
    named_difference,
)
from traceanalyzer.comparison.finding_changes import FindingChange, compare_findings
from traceanalyzer.comparison.judging import Judgement, judge
from traceanalyzer.comparison.options import DEFAULT_COMPARE_OPTIONS, CompareOptions
from traceanalyzer.comparison.rank_changes import RankChanges, compare_ranks
from traceanalyzer.comparison.sides import Ledger, ledger_of, mean_ledger, mean_named
from traceanalyzer.comparison.summary import NamedTimes, Summary
from traceanalyzer.comparison.verification import Verification, verify
from traceanalyzer.display import display

DIFF_VERSION = 1
# Smaller changes, of the step, are not tested.
TESTED_SHARE = 0.005


@dataclass(frozen=True)
class Capture:
    """What one capture says of the compared time: its mean, and the steps it is made of."""

    label: str
    place: str
    time_ns: float  # a unit
    median_ns: float | None  # of its steps
    steps_ns: tuple[int, ...]


@dataclass(frozen=True)
class Diff:
    """What differs between two sides."""

    base: tuple[Capture, ...]
    new: tuple[Capture, ...]
    base_ns: int  # mean over captures, a unit: a step, or a unit of work
    new_ns: int
    alignment: Alignment
    judgement: Judgement
    ledger: tuple[LedgerRow, ...]  # adds up: base_ns, new_ns and their difference
    kernels: NamedDifference
    operators: NamedDifference
    findings: tuple[FindingChange, ...]
    confounders: tuple[Confounder, ...]
    ranks: RankChanges | None
    verification: Verification | None
    options: CompareOptions
    sides: tuple[tuple[Summary, ...], tuple[Summary, ...]]
    diff_version: int = DIFF_VERSION

    @property
    def delta_ns(self) -> int:
        """The change of the unit's time."""
        return self.new_ns - self.base_ns

    def __str__(self) -> str:
        """Return the report that the command prints."""
        return display().diff_text(self, "terminal")

    def _repr_html_(self) -> str:
        """Return the report for a notebook: drawings and tables without scripts."""
        return display().diff_in_notebook(self)

    @property
    def blockers(self) -> tuple[Confounder, ...]:
        """What forbids a verdict."""
        return tuple(item for item in self.confounders if item.blocks)


def compare(base: Sequence[Summary], new: Sequence[Summary], options: CompareOptions = DEFAULT_COMPARE_OPTIONS) -> Diff:
    """Return what differs between captures of two configurations, and how sure that is."""
    ledgers = tuple([ledger_of(item, options) or _no_window(item) for item in side] for side in (base, new))
    alignment = align(base, new, (ledgers[0], ledgers[1]), options)
    scales = alignment.base_scales, alignment.new_scales
    rows = ledger_difference(*(mean_ledger(side, scale) for side, scale in zip(ledgers, scales, strict=True)))
    base_ns, new_ns = sum(row.base_ns for row in rows), sum(row.new_ns for row in rows)
    captures = tuple(
        tuple(_capture(summary, ledger, scale) for summary, ledger, scale in zip(*side, strict=True))
        for side in ((base, ledgers[0], scales[0]), (new, ledgers[1], scales[1]))
    )
    confounders = find_confounders(base, new, alignment, options)
    judgement = _judge(captures[0], captures[1], base, new, confounders, alignment, options)
    kernels = _named([s.kernels for s in base], [s.kernels for s in new], alignment, base_ns)
    findings = compare_findings(base, new)
    return Diff(
        captures[0],
        captures[1],
        base_ns,
        new_ns,
        alignment,
        judgement,
        _tested_ledger(rows, ledgers, scales, base_ns),
        kernels,
        _named([s.operators for s in base], [s.operators for s in new], alignment, base_ns),
        findings,
        confounders,
        compare_ranks(base, new, alignment, is_comparable=judgement.verdict != "not comparable"),
        verify(base, alignment, findings, rows, kernels) if judgement.verdict != "not comparable" else None,
        options,
        (tuple(base), tuple(new)),
    )


def _no_window(summary: Summary) -> Ledger:
    return Ledger(0, 0, {}, (), "nowhere")


def _capture(summary: Summary, ledger: Ledger, scale: Fraction) -> Capture:
    ordered = sorted(ledger.steps_ns)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2 if ordered else None
    return Capture(summary.label, ledger.place, float(ledger.window_ns * scale), middle, ledger.steps_ns)


def _judge(
    base: Sequence[Capture],
    new: Sequence[Capture],
    base_summaries: Sequence[Summary],
    new_summaries: Sequence[Summary],
    confounders: Sequence[Confounder],
    alignment: Alignment,
    options: CompareOptions,
) -> Judgement:
    identical = _contents(base_summaries) == _contents(new_summaries)
    blocker = next((item for item in confounders if item.blocks), None)
    times = [[capture.time_ns for capture in side] for side in (base, new)]
    if blocker is not None and not identical:
        means = [sum(side) / len(side) for side in times]
        change = means[1] / means[0] - 1 if means[0] > 0 else None
        return Judgement("not comparable", change, because=_why_blocked(blocker))
    by_steps = alignment.kind == "steps" and len(base) == len(new) == 1
    return judge(
        times[0],
        times[1],
        steps_ns=(base[0].steps_ns, new[0].steps_ns) if by_steps else ((), ()),
        min_effect_share=options.min_effect_share,
        capture_spread=options.capture_spread,
        identical=identical,
        is_unit_sure=alignment.confidence != "low" and alignment.problem is None,
    )


def _contents(side: Sequence[Summary]) -> list[Summary]:
    """Return captures without their labels, in an order that depends on them alone."""
    plain = [replace(item, label="", taken_at=None, made_by="") for item in side]
    return sorted(plain, key=repr)


def _why_blocked(blocker: Confounder) -> str:
    if blocker.key == "alignment":
        return blocker.base
    if blocker.key == "blocked":
        return "; ".join(
            f"{side}: {words}"
            for side, words in (("base", blocker.base), ("new", blocker.new))
            if words != "can be judged"
        )
    if blocker.key == "kernels":
        return f"too few kernels have the same names: {blocker.base} by time on the base, {blocker.new} on the new side"
    if blocker.key == "gpu-work":
        return f"the base has {blocker.base}, the new side {blocker.new}"
    return f"{blocker.key} differs: {blocker.base} → {blocker.new}"


def _tested_ledger(
    rows: Sequence[LedgerRow],
    ledgers: Sequence[Sequence[Ledger]],
    scales: tuple[Sequence[Fraction], Sequence[Fraction]],
    base_ns: int,
) -> tuple[LedgerRow, ...]:
    """Return rows with what captures show; Holm's correction over those that matter."""
    if min(map(len, ledgers)) < 2:
        return tuple(rows)
    asked = [row for row in rows if abs(row.delta_ns) >= TESTED_SHARE * base_ns]
    values = [
        [
            [float(ledger.buckets.get(row.bucket, 0) * scale) for ledger, scale in zip(*side, strict=True)]
            for row in asked
        ]
        for side in zip(ledgers, scales, strict=True)
    ]
    shown = statistics.holm([statistics.welch(old, new).p_value or 0.0 for old, new in zip(*values, strict=True)])
    words = {row.bucket: _words(is_shown) for row, is_shown in zip(asked, shown, strict=True)}
    return tuple(replace(row, shown=words.get(row.bucket, row.shown)) for row in rows)


def _named(
    base: Sequence[NamedTimes], new: Sequence[NamedTimes], alignment: Alignment, base_ns: int
) -> NamedDifference:
    """Return the difference of kernels or operators in a unit and device, tested where captures allow it."""
    sides = (base, new)
    scales = [_named_scales(side, alignment, at) for at, side in enumerate(sides)]
    difference = named_difference(*(mean_named(side, scale) for side, scale in zip(sides, scales, strict=True)))
    if min(map(len, sides)) < 2:
        return difference
    asked = [row for row in difference.rows if abs(row.delta_ns) >= TESTED_SHARE * base_ns and row.state == "changed"]
    by_name = [[{row.name: row.dur_ns for row in times.rows} for times in side] for side in sides]
    values = [
        [[float(times.get(row.name, 0) * scale) for times, scale in zip(*side, strict=True)] for row in asked]
        for side in zip(by_name, scales, strict=True)
    ]
    p_values = [statistics.welch(old, fresh).p_value or 0.0 for old, fresh in zip(*values, strict=True)]
    words = dict(zip((row.name for row in asked), map(_words, statistics.false_discoveries(p_values)), strict=True))
    rows: tuple[NamedRow, ...] = tuple(replace(row, shown=words.get(row.name, row.shown)) for row in difference.rows)
    return replace(difference, rows=rows)


def _named_scales(side: Sequence[NamedTimes], alignment: Alignment, at: int) -> list[Fraction]:
    if alignment.kind == "steps":
        return [Fraction(1, max(times.step_count, 1)) for times in side]
    scales = (alignment.base_scales, alignment.new_scales)[at]
    return [scale / max(times.step_count, 1) for scale, times in zip(scales, side, strict=True)]


def _words(is_shown: bool) -> str:
    return "shown" if is_shown else "not shown"
