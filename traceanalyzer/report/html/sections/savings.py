"""Cumulative savings: how long a step is after each fix, as a waterfall."""

from __future__ import annotations

from traceanalyzer.diagnosis import Diagnosis, FixPlan
from traceanalyzer.report.blocks import Paragraph
from traceanalyzer.report.charts.svg import NARROW
from traceanalyzer.report.charts.waterfall import Drop, waterfall
from traceanalyzer.report.diagnosis_blocks.plan import leading_plan, plan_notes, plan_remark, together_words
from traceanalyzer.report.html.document import Part
from traceanalyzer.report.html.markup import blocks_markup, filled
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import duration, gain


def section(source: PageSource) -> Part | None:
    """Return the waterfall of the leading plan; one fix needs no order."""
    plan = leading_plan(source.diagnosis)
    if plan is None or len(plan.fixes) < 2:
        return None
    now, drops = plan_drops(source.diagnosis, plan)
    says = "; ".join([f"now: {now.time}", *(f"{drop.name}: {drop.time} left, {drop.saves}" for drop in drops)])
    values = {
        "wide": waterfall(now, drops, says),
        "narrow": waterfall(now, drops, says, width=NARROW),
        "remarks": [drop for drop in drops if drop.remark],
        "enablers": blocks_markup([Paragraph(words, role="dim") for words in together_words(plan)]),
    }
    title = "Cumulative savings"
    note = f"fixes applied in this order; {', '.join(plan_notes(source.diagnosis, plan))}"
    return Part("savings", title, filled("savings.html", values), "Savings", note)


def plan_drops(diagnosis: Diagnosis, plan: FixPlan) -> tuple[Drop, list[Drop]]:
    """Return today and each fix of a plan as rows of a waterfall, with times per step."""
    per_step = max(plan.step_count, 1)
    confidences = {finding.rule: finding.confidence for finding in reversed(diagnosis.findings)}
    drops: list[Drop] = []
    for fix in plan.fixes:
        remark = plan_remark(plan, fix, confidences.get(fix.rule, "low"), [drop.name for drop in drops])
        saves = gain(fix.saving_ns / plan.window_ns)
        drops.append(Drop(fix.rule, fix.left_ns, fix.saving_ns, duration(fix.left_ns / per_step), saves, remark))
    return Drop("now", plan.window_ns, 0, duration(plan.window_ns / per_step), "", ""), drops
