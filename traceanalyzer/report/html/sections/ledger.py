"""Where the time goes: the ledger with every bucket, other devices as thin bars; what fixes save as a waterfall."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.diagnosis import DeviceLedger, Diagnosis, FixPlan, HostLedger, RunLedger
from traceanalyzer.diagnosis.verdict import compute_share, has_no_compute, step_ns
from traceanalyzer.report.blocks import Paragraph
from traceanalyzer.report.charts import ledger_charts as drawn
from traceanalyzer.report.charts.ledger_charts import Drop, waterfall
from traceanalyzer.report.charts.svg import NARROW, WIDE, token_of
from traceanalyzer.report.diagnosis_blocks.ledgers import (
    LedgerGroup,
    alike,
    group_place,
    ledger_bar,
    ledger_sections,
    main_ledger,
    slowest_kernels,
)
from traceanalyzer.report.diagnosis_blocks.plan import leading_plan, plan_notes, plan_remark, together_words
from traceanalyzer.report.diagnosis_blocks.trust import recordings_table
from traceanalyzer.report.html.document import Part, bar_markup, blocks_markup, filled, part_of
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import bucket_words, duration, gain, percent

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
        "keys": _further_keys(top, thin),
        "more": sum(len(group.members) for group in groups[MOST_BARS:]),
        "work": blocks_markup(slowest_kernels(diagnosis, most=0)[:1] if groups else first.blocks[1:]),
        "recordings": blocks_markup([recordings] if recordings is not None else []),
    }
    return part_of(first, "time", filled("ledger.html", values), "Time")


def _further_keys(top: DeviceLedger | RunLedger | HostLedger, thin: Sequence[LedgerGroup]) -> list[tuple[str, str]]:
    """Return fill and words of the buckets that the thin bars show and the legend above them does not have."""
    legend = {bucket for bucket, dur_ns in top.buckets if dur_ns}
    sizes: dict[str, int] = {}
    for group in thin:
        for bucket, dur_ns in group.worst.buckets:
            if bucket not in legend and dur_ns > LEAST_KEY_SHARE * group.worst.window_ns:
                sizes[bucket] = sizes.get(bucket, 0) + dur_ns
    return [(token_of(bucket), bucket_words(bucket)) for bucket in sorted(sizes, key=lambda name: (-sizes[name], name))]


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
