"""The order of fixes: how long a step is after each of them."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.diagnosis import Diagnosis, FixPlan, PlannedFix, plan_of_finding
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.verdict import pooled_ledger, time_findings
from traceanalyzer.report.words import counted, duration, gain, listed, short_names


def leading_plan(diagnosis: Diagnosis) -> FixPlan | None:
    """Return the order of fixes of the run, or of the device of the first finding; None: there is none."""
    first = next(iter(time_findings(diagnosis)), None)
    plan = None if first is None else plan_of_finding(diagnosis.plans, first)
    return plan if plan is not None and plan.window_ns else None


def plan_sections(diagnosis: Diagnosis) -> list[Section]:
    """Return the leading order of fixes; one fix needs no order."""
    plan = leading_plan(diagnosis)
    if plan is None or len(plan.fixes) < 2:
        return []
    per_step = max(plan.step_count, 1)
    confidences = {finding.rule: finding.confidence for finding in reversed(diagnosis.findings)}
    rows = [("now", duration(plan.window_ns / per_step), "", "")]
    for fix in plan.fixes:
        saves = gain(fix.saving_ns / plan.window_ns)
        remark = plan_remark(fix, confidences.get(fix.rule, "low"), [row[0] for row in rows[1:]])
        rows.append((fix.rule, duration(fix.left_ns / per_step), saves, remark))
    columns = ("fix", "step time" if plan.step_count else "time", "saves", "")
    blocks: list[Block] = [Table(columns, tuple(rows), right=frozenset({1, 2}), wraps_last=True)]
    blocks += [Paragraph(words, role="dim") for words in together_words(plan)]
    notes = tuple(Text(note, "dim") for note in plan_notes(diagnosis, plan))
    return [Section(tuple(blocks), Heading("Cumulative savings (fixes applied in this order)", notes))]


def together_words(plan: FixPlan) -> list[str]:
    """Say which fixes save more together than alone."""
    sentences = []
    for group in plan.enablers:
        alone = listed([gain(saved_ns / plan.window_ns) for saved_ns in group.alone_ns])
        together = gain(group.together_ns / plan.window_ns)
        sentences.append(f"{listed(group.rules)} save more together than alone: {together} against {alone}")
    return sentences


def plan_notes(diagnosis: Diagnosis, plan: FixPlan) -> list[str]:
    """Say of what an order of fixes is."""
    notes = ["at best"]
    pooled = pooled_ledger(diagnosis)
    if pooled is not None:
        notes.append(f"of all {counted(pooled.step_count, 'step')} in {pooled.recording_count} recordings")
    elif plan.trace is None:
        notes.append("of the run, whose ranks wait for each other")
    elif len(diagnosis.plans) > 1:
        notes.append(short_names([trace.trace for trace in diagnosis.traces]).get(plan.trace, plan.trace))
    return notes


def plan_remark(fix: PlannedFix, confidence: str, before: Sequence[str]) -> str:
    """Say how sure a step of the order is, and on which of those `before` it depends."""
    if fix.saving_ns < 0:
        return "delays nothing: only the first step begins earlier"
    if fix.status == "alternative":
        return f"already covered by {' or '.join(fix.alternatives) or 'the fixes above'}"
    if fix.status == "latent":
        needed = [rule for rule in before if rule in fix.after] or before
        return f"next bottleneck after {needed[-1]}" if needed else f"as limiting as {listed(fix.after)}: fix both"
    return f"{confidence} confidence"
