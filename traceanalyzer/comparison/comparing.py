"""Compares two sides, each one capture of a configuration or more.

What else differs between them forbids a verdict, or is only named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from traceanalyzer.comparison import statistics
from traceanalyzer.comparison.differences import (
    LEAST_MATCHED_SHARE,
    Alignment,
    LedgerRow,
    NamedDifference,
    NamedRow,
    RankChanges,
    align,
    compare_ranks,
    ledger_difference,
    named_difference,
)
from traceanalyzer.comparison.statistics import Judgement, judge
from traceanalyzer.comparison.summary import (
    DEFAULT_COMPARE_OPTIONS,
    CompareOptions,
    Fact,
    Ledger,
    NamedTimes,
    Summary,
    ledger_of,
    mean_ledger,
    mean_named,
)
from traceanalyzer.comparison.verification import FindingChange, Verification, compare_findings, verify
from traceanalyzer.display import display

# Launches a unit that differ by less are the same program.
SAME_LAUNCHES_SHARE = 0.01
# Facts that say the same as another one.
_IMPLIED = {"sm_count": "gpu", "memory_bytes": "gpu", "rank_count": "world_size", "vendor": "gpu"}


@dataclass(frozen=True)
class Confounder:
    """A difference besides the program: its key for --accept-difference, and both sides in words."""

    key: str
    base: str
    new: str
    blocks: bool = False


def find_confounders(
    base: Sequence[Summary], new: Sequence[Summary], alignment: Alignment, options: CompareOptions
) -> tuple[Confounder, ...]:
    """Return what differs, what forbids a verdict first; an accepted difference forbids nothing."""
    found = [*_blocking(base, new, alignment), *_facts(base, new), *_within_sides(base, new), *_launches(base, new)]
    judged = [
        Confounder(item.key, item.base, item.new, item.blocks and item.key not in options.accepted) for item in found
    ]
    return tuple(sorted(judged, key=lambda item: not item.blocks))


def _blocking(base: Sequence[Summary], new: Sequence[Summary], alignment: Alignment) -> list[Confounder]:
    found = []
    blocked = [next((item.blocked for item in side if item.blocked), None) for side in (base, new)]
    if any(blocked):
        found.append(_pair("blocked", [why or "can be judged" for why in blocked], blocks=True))
    if _sides(base, "time_of") != _sides(new, "time_of"):
        found.append(Confounder("gpu-work", _gpu_work(base), _gpu_work(new), blocks=True))
    if alignment.problem is not None:
        found.append(Confounder("alignment", alignment.problem, alignment.problem, blocks=True))
    modes = [_fact(side, "mode") for side in (base, new)]
    if modes[0] != modes[1] and "unknown" not in modes[0] + modes[1] and all(modes):
        found.append(_pair("mode", modes, blocks=True))
    matched = [alignment.matched_base, alignment.matched_new]
    same_vendor = _fact(base, "vendor") == _fact(new, "vendor")
    low = [share for share in matched if share is not None and share < LEAST_MATCHED_SHARE]
    if low and same_vendor and not any(blocked):
        words = [f"{share or 0:.0%} matched".replace("%", " %") for share in matched]
        found.append(_pair("kernels", words, blocks=True))
    return found


def _facts(base: Sequence[Summary], new: Sequence[Summary]) -> list[Confounder]:
    keys = sorted({key for side in (base, new) for item in side for key in item.fingerprint})
    differing = {key for key in keys if _fact(base, key) != _fact(new, key)}
    found = []
    for key in keys:
        if key not in differing or _IMPLIED.get(key) in differing:
            continue
        sides = _fact(base, key), _fact(new, key)
        # An absent name of a mode blocks nothing, and is no other mode.
        if key == "mode" and all(sides) and "unknown" not in sides[0] + sides[1]:
            continue
        found.append(Confounder(key, sides[0] or "not recorded", sides[1] or "not recorded"))
    versions = _sides(base, "made_by"), _sides(new, "made_by")
    if versions[0] != versions[1]:
        found.append(_pair("traceanalyzer", [", ".join(sorted(side)) for side in versions]))
    for rule in sorted({rule for side in (base, new) for item in side for rule in item.quality}):
        counts = [sum(rule in item.quality for item in side) for side in (base, new)]
        if bool(counts[0]) != bool(counts[1]):
            found.append(_pair(f"quality {rule}", ["yes" if count else "no" for count in counts]))
    return found


def _within_sides(base: Sequence[Summary], new: Sequence[Summary]) -> list[Confounder]:
    """Return what differs among the captures of one side, which should be of one configuration."""
    found = []
    for name, side in (("base", base), ("new", new)):
        keys = sorted({key for item in side for key in item.fingerprint})
        mixed = [key for key in keys if len({item.fingerprint.get(key) for item in side}) > 1]
        if mixed:
            words = ", ".join(mixed)
            found.append(_pair(f"mixed {name}", [words, "–"] if name == "base" else ["–", words]))
    return found


def _launches(base: Sequence[Summary], new: Sequence[Summary]) -> list[Confounder]:
    """Return another number of launches a step: then a step is not the same work."""
    if not all(item.has_steps for side in (base, new) for item in side):
        return []
    counts = []
    for side in (base, new):
        named = mean_named([s.kernels for s in side], [Fraction(1, s.kernels.step_count) for s in side])
        counts.append(float(sum((item.launches for item in named.values()), Fraction(0))))
    if not all(counts) or abs(counts[1] / counts[0] - 1) <= SAME_LAUNCHES_SHARE:
        return []
    return [_pair("launches", [f"{count:,.0f} kernels a step" for count in counts])]


def _pair(key: str, words: Sequence[str], *, blocks: bool = False) -> Confounder:
    return Confounder(key, words[0], words[1], blocks)


def _gpu_work(side: Sequence[Summary]) -> str:
    return "no GPU work" if any(item.time_of == "host" for item in side) else "GPU work"


def _sides(side: Sequence[Summary], name: str) -> set[str]:
    return {getattr(item, name) for item in side}


def _fact(side: Sequence[Summary], key: str) -> str:
    return " or ".join(sorted({_fact_words(key, item.fingerprint.get(key)) for item in side} - {""}))


def _fact_words(key: str, fact: Fact) -> str:
    if fact is None:
        return ""
    if key == "memory_bytes" and not isinstance(fact, bool | str | tuple):
        return f"{fact / 2**30:.1f} GiB"
    if isinstance(fact, tuple):
        return ", ".join(fact)
    return {True: "yes", False: "no"}[fact] if isinstance(fact, bool) else str(fact)


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
        return str(display("results.diff_text", self, "terminal"))

    def _repr_html_(self) -> str:
        """Return the report for a notebook: drawings and tables without scripts."""
        return str(display("html.diff_page.diff_html", self))

    @property
    def blockers(self) -> tuple[Confounder, ...]:
        """What forbids a verdict."""
        return tuple(item for item in self.confounders if item.blocks)


def compare(base: Sequence[Summary], new: Sequence[Summary], options: CompareOptions = DEFAULT_COMPARE_OPTIONS) -> Diff:
    """Return what differs between captures of two configurations, and how sure that is."""
    no_window = Ledger(0, 0, {}, (), "nowhere")
    ledgers = tuple([ledger_of(item, options) or no_window for item in side] for side in (base, new))
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
    tested = [row for row in rows if abs(row.delta_ns) >= TESTED_SHARE * base_ns]
    values = [
        [
            [float(ledger.buckets.get(row.bucket, 0) * scale) for ledger, scale in zip(*side, strict=True)]
            for row in tested
        ]
        for side in zip(ledgers, scales, strict=True)
    ]
    shown = statistics.holm([statistics.welch(old, new).p_value or 0.0 for old, new in zip(*values, strict=True)])
    words = {row.bucket: _words(is_shown) for row, is_shown in zip(tested, shown, strict=True)}
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
    tested = [row for row in difference.rows if abs(row.delta_ns) >= TESTED_SHARE * base_ns and row.state == "changed"]
    by_name = [[{row.name: row.dur_ns for row in times.rows} for times in side] for side in sides]
    values = [
        [[float(times.get(row.name, 0) * scale) for times, scale in zip(*side, strict=True)] for row in tested]
        for side in zip(by_name, scales, strict=True)
    ]
    p_values = [statistics.welch(old, fresh).p_value or 0.0 for old, fresh in zip(*values, strict=True)]
    words = dict(zip((row.name for row in tested), map(_words, statistics.false_discoveries(p_values)), strict=True))
    rows: tuple[NamedRow, ...] = tuple(replace(row, shown=words.get(row.name, row.shown)) for row in difference.rows)
    return replace(difference, rows=rows)


def _named_scales(side: Sequence[NamedTimes], alignment: Alignment, at: int) -> list[Fraction]:
    if alignment.kind == "steps":
        return [Fraction(1, max(times.step_count, 1)) for times in side]
    scales = (alignment.base_scales, alignment.new_scales)[at]
    return [scale / max(times.step_count, 1) for scale, times in zip(scales, side, strict=True)]


def _words(is_shown: bool) -> str:
    return "shown" if is_shown else "not shown"
