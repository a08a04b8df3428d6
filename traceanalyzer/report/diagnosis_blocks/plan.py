"""The order of fixes: how long a step is after each of them."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.diagnosis import Diagnosis, PlannedFix, plan_of_finding
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.verdict import time_findings
from traceanalyzer.report.words import duration, gain, listed, short_names


def plan_sections(diagnosis: Diagnosis) -> list[Section]:
    """Return the order of fixes of the run, or of the device of the first finding; one fix needs no order."""
    first = next(iter(time_findings(diagnosis)), None)
    plan = None if first is None else plan_of_finding(diagnosis.plans, first)
    if plan is None or not plan.window_ns or len(plan.fixes) < 2:
        return []
    per_step = max(plan.step_count, 1)
    confidences = {finding.rule: finding.confidence for finding in reversed(diagnosis.findings)}
    rows = [("now", duration(plan.window_ns / per_step), "", "")]
    for fix in plan.fixes:
        saves = gain(fix.saving_ns / plan.window_ns)
        remark = _remark(fix, confidences.get(fix.rule, "low"), [row[0] for row in rows[1:]])
        rows.append((fix.rule, duration(fix.left_ns / per_step), saves, remark))
    columns = ("fix", "step time" if plan.step_count else "time", "saves", "")
    blocks: list[Block] = [Table(columns, tuple(rows), right=frozenset({1, 2}), wraps_last=True)]
    for group in plan.enablers:
        alone = listed([gain(saved_ns / plan.window_ns) for saved_ns in group.alone_ns])
        together = gain(group.together_ns / plan.window_ns)
        words = f"{listed(group.rules)} save more together than alone: {together} against {alone}"
        blocks.append(Paragraph(words, role="dim"))
    names = short_names([trace.trace for trace in diagnosis.traces])
    notes = ["at best"]
    if plan.trace is None:
        notes.append("of the run, whose ranks wait for each other")
    elif len(diagnosis.plans) > 1:
        notes.append(names.get(plan.trace, plan.trace))
    heading = Heading("Cumulative savings (fixes applied in this order)", tuple(Text(note, "dim") for note in notes))
    return [Section(tuple(blocks), heading)]


def _remark(fix: PlannedFix, confidence: str, before: Sequence[str]) -> str:
    """Say how sure a step of the order is, and on which of those `before` it depends."""
    if fix.saving_ns < 0:
        return "delays nothing: only the first step begins earlier"
    if fix.status == "alternative":
        return f"already covered by {' or '.join(fix.alternatives) or 'the fixes above'}"
    if fix.status == "latent":
        needed = [rule for rule in before if rule in fix.after] or before
        return f"next bottleneck after {needed[-1] if needed else 'other fixes'}"
    return f"{confidence} confidence"
