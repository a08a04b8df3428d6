"""The verdict on a comparison, how sure it is, the captures behind it, what else differs, and what a gate says."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.comparison.comparing import Capture, Diff
from traceanalyzer.comparison.gate import Check, GateResult
from traceanalyzer.comparison.statistics import Judgement, Needed
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.diff_blocks.changes import (
    change,
    finding_sections,
    ledger_sections,
    named_sections,
    rank_sections,
    signed_duration,
    unit_words,
    verification_sections,
)
from traceanalyzer.text.words import bucket_words, counted, duration, listed, percent


def diff_sections(diff: Diff, gate: GateResult | None = None, *, verbose: bool = False) -> tuple[Section, ...]:
    """Return the report of a comparison, with what a gate says where one was asked for."""
    return (
        headline(diff),
        *gate_sections(gate),
        *ledger_sections(diff, verbose=verbose),
        *captures_sections(diff, verbose=verbose),
        *finding_sections(diff),
        *verification_sections(diff),
        *rank_sections(diff, verbose=verbose),
        *named_sections(diff, verbose=verbose),
        *confounder_sections(diff),
    )


def gate_sections(gate: GateResult | None) -> list[Section]:
    """Return a table of the checks; nothing where no gate was asked for."""
    if gate is None or not gate.checks:
        return []
    rows = tuple((check.state, check.name, measured_words(check), limit_words(check)) for check in gate.checks)
    notes = [Paragraph(words, label=Text(check.name, "dim")) for check in gate.checks if (words := note(check))]
    return [Section((Table(("state", "check", "measured", "limit"), rows), *notes), Heading("Gate"))]


def measured_words(check: Check) -> str:
    if check.measured is None:
        return "–"
    words = _words(check.unit, check.measured)
    return f"{words} (at least {change(check.low)})" if check.low is not None and check.unit == "change" else words


def limit_words(check: Check) -> str:
    if check.unit == "verdict":
        return f"less than {percent(float(check.limit))} slower"
    if check.unit == "findings":
        return f"none of severity {check.limit} or worse"
    side = "at least" if check.name.endswith(".min") else "at most"
    return f"{side} {_words(check.unit, check.limit)}"


def note(check: Check) -> str:
    """Say why, and which exception holds."""
    exception = f"exception: {check.exception}" if check.exception else ""
    return "; ".join(words for words in (check.because, exception) if words)


def _words(unit: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if unit == "ms":
        return duration(value * 1e6)
    if unit == "share":
        return percent(value)
    if unit == "change":
        return change(value)
    if unit == "launches":
        return f"{value:+g} launches a step"
    return f"{value:g}"


_ROLES = {"faster": "good", "slower": "bad", "same": "good"}
MOST_CAPTURES = 12
MOST_CONFOUNDERS = 8


def headline(diff: Diff) -> Section:
    """Return the sides, the verdict in a sentence, and how sure it is."""
    heading = Heading(
        f"{side_name(diff.base)} → {side_name(diff.new)}",
        (inventory_of("base", diff.base), inventory_of("new", diff.new)),
    )
    sure = [Paragraph(words, role="dim") for words in how_sure(diff)]
    return Section((heading, Paragraph(sentence(diff), role=verdict_role(diff)), *sure))


def verdict_role(diff: Diff) -> str:
    """Return good, bad or caution."""
    return _ROLES.get(diff.judgement.verdict, "caution")


def sentence(diff: Diff) -> str:
    """Say the time before and after, the change, the verdict, and the bucket that explains most of it."""
    unit = unit_words(diff)
    times = f"{duration(diff.base_ns)} → {duration(diff.new_ns)} {unit}"
    if diff.judgement.verdict == "same" and diff.delta_ns == 0:
        return f"{times}: same."
    # What blocks a verdict leaves no change to name and nothing to explain.
    if diff.judgement.verdict == "not comparable":
        return f"{times}: not comparable."
    share = f" ({change(diff.delta_ns / diff.base_ns)})" if diff.base_ns else ""
    row = diff.ledger[0] if diff.ledger else None
    if row is None or not row.delta_ns:
        return f"{times}{share}: {diff.judgement.verdict}."
    words = f"{bucket_words(row.bucket)} {signed_duration(row.delta_ns)}"
    return f"{times}{share}: {diff.judgement.verdict}. Largest change: {words}."


def how_sure(diff: Diff) -> list[str]:
    """Say how sure the verdict is, and what would make it surer."""
    judgement = diff.judgement
    lines = [_interval_words(judgement)] if judgement.test is not None else []
    if judgement.because:
        lines.append(f"{judgement.because[:1].upper()}{judgement.because[1:]}.")
    lines += _needed_words(judgement)
    if judgement.because and judgement.verdict in ("unsure", "these captures differ"):
        lines.append(
            "Give more captures with --base and --new (three a side is a good start), or a known spread with "
            "--capture-spread."
        )
    if diff.alignment.kind == "work" and diff.alignment.work_ratio is not None:
        lines.append(
            f"Without steps on both sides, time is compared per unit of work: the new windows hold "
            f"{diff.alignment.work_ratio:.3f} times the work of the base windows, by launches of kernels that both "
            f"have; {diff.alignment.confidence} confidence."
        )
    return lines


def _interval_words(judgement: Judgement) -> str:
    parts = []
    if judgement.low_share is not None and judgement.high_share is not None:
        parts.append(f"95 % interval {change(judgement.low_share)} to {change(judgement.high_share)}")
    if judgement.p_value is not None:
        parts.append("p < 0.001" if judgement.p_value < 0.001 else f"p = {judgement.p_value:.2g}")
    return f"{', '.join(parts)} ({judgement.test})."


def _needed_words(judgement: Judgement) -> list[str]:
    if judgement.spread is None or judgement.verdict in ("faster", "slower") or not judgement.needed:
        return []
    spread = f"Captures of one side differ by {percent(judgement.spread)} (standard deviation)."
    return [f"{spread} Captures a side that show a change: {', '.join(map(_needed_for, judgement.needed))}."]


def _needed_for(item: Needed) -> str:
    captures = "over 1,000" if item.captures is None else f"{item.captures:,}"
    if item.is_measured:
        return f"{captures} for the change measured here"
    return f"{captures} for {item.effect_share * 100:g} %"


def captures_sections(diff: Diff, *, verbose: bool) -> list[Section]:
    """Return a line for each capture: where the time was measured, and its steps."""
    sides = [("base", item) for item in diff.base] + [("new", item) for item in diff.new]
    if not any(item.steps_ns for _, item in sides) and len(sides) == 2 and not verbose:
        return []
    shown = sides if verbose else sides[:MOST_CAPTURES]
    rows = tuple(
        (
            f"{side}: {item.label}",
            item.place,
            duration(item.time_ns),
            "–" if item.median_ns is None else duration(item.median_ns),
            _steps(item.steps_ns, verbose=verbose),
        )
        for side, item in shown
    )
    note = f"{len(sides) - len(shown)} more with -v" if len(shown) < len(sides) else ""
    columns = ("capture", "measured on", "mean", "median", "steps")
    table = Table(columns, rows, right=frozenset({2, 3}), note=note, wraps_last=verbose)
    return [Section((table,), Heading("Captures"))]


def _steps(steps_ns: Sequence[int], *, verbose: bool) -> str:
    if verbose or len(steps_ns) < 2:
        return ", ".join(map(duration, steps_ns)) or "–"
    return f"{len(steps_ns)}, {duration(min(steps_ns))} to {duration(max(steps_ns))}"


def confounder_sections(diff: Diff) -> list[Section]:
    """Return what else differs between the sides, and how to accept what forbids a verdict."""
    if not diff.confounders and not diff.options.accepted:
        return []
    shown = diff.confounders[:MOST_CONFOUNDERS]
    rows = tuple((item.key, item.base, item.new, "forbids a verdict" if item.blocks else "") for item in shown)
    note = f"{len(diff.confounders) - len(shown)} more in JSON" if len(shown) < len(diff.confounders) else ""
    blocks: list[Block] = [Table(("what", "base", "new", ""), rows, note=note)] if rows else []
    if diff.blockers:
        keys = " ".join(f"--accept-difference {item.key}" for item in diff.blockers)
        blocks.append(Paragraph(f"To compare all the same: {keys}", role="dim"))
    found = {item.key for item in diff.confounders}
    accepted = [key for key in diff.options.accepted if key in found]
    if accepted:
        blocks.append(Paragraph(f"Accepted: {listed(accepted)}.", role="caution"))
    if others := [key for key in diff.options.accepted if key not in found]:
        blocks.append(Paragraph(f"Accepted, but no difference here: {listed(others)}.", role="caution"))
    return [Section(tuple(blocks), Heading("Also different"))]


def inventory_of(side: str, captures: Sequence[Capture]) -> Text:
    """Say how many captures and steps a side has."""
    steps = sum(len(item.steps_ns) for item in captures)
    return Text(
        f"{side}: {counted(len(captures), 'capture')}, {counted(steps, 'step') if steps else 'no steps'}", "dim"
    )


def side_name(captures: Sequence[Capture]) -> str:
    """Return the name of a side: of its first capture, and how many more there are."""
    names = list(dict.fromkeys(item.label for item in captures))
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
