"""The order of fixes: how long a step is after each of them.

What no finding is about: savings below the noise of the steps, and time that no rule explains.
"""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.diagnosis import Diagnosis, FixPlan, PlannedFix, plan_of_finding
from traceanalyzer.diagnosis.shares import unexplained_rest, unexplained_share
from traceanalyzer.diagnosis.verdict import pooled_ledger, time_findings
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.text.words import bucket_words, counted, duration, gain, listed, percent, short_names

MOST_BUCKETS = 4
# Shares of unexplained time below this are not worth a word.
LEAST_SHARE = 0.005
# Time of the host of which nothing is in the trace; from this share on it is worth a recording.
UNSEEN_HOST = "host.other"
TAIL = "edge.tail"
MUCH_UNSEEN_SHARE = 0.05
# Characters of a function's name; those of templates are longer.
MOST_NAME = 60


def below_noise_blocks(diagnosis: Diagnosis) -> tuple[Block, ...]:
    """Return what was found and may be chance, as the steps differ by more; each rule once, with its largest saving."""
    largest = {item.rule: item for item in reversed(diagnosis.below_noise)}
    if not largest:
        return ()
    worst = sorted(largest.values(), key=lambda item: -item.saving_share)
    floors = sorted({percent(item.noise_share) for item in diagnosis.below_noise})
    limit = f"savings under {floors[0]}" if len(floors) == 1 else "small savings"
    named = ", ".join(f"{item.rule} ({gain(item.saving_share)})" for item in worst)
    words = f"step times vary, so {limit} may be chance: {named}. Record more steps to tell."
    return (Paragraph(words, label=Text("below the noise", "strong")),)


def unexplained_sections(diagnosis: Diagnosis) -> list[Section]:
    """Return the largest buckets of the ledger that no finding owns."""
    window_ns = sum(ledger.window_ns for ledger in diagnosis.ledgers)
    parts = {bucket: ns for bucket, ns in diagnosis.not_explained if window_ns and ns > 0}
    rest = unexplained_rest(diagnosis)
    if not parts or rest.left < LEAST_SHARE:
        return []
    large, *more = sorted(parts.items(), key=lambda part: -part[1])[:MOST_BUCKETS]
    largest = [large, *(part for part in more if part[1] >= LEAST_SHARE * window_ns)]
    name = diagnosis.ledgers[0].device_name if diagnosis.ledgers else None
    if rest.gone < LEAST_SHARE:
        named = "; ".join(
            f"{bucket_words(bucket, name)} {unexplained_share(diagnosis, bucket, ns)}" for bucket, ns in largest
        )
    else:
        named = "; ".join(bucket_words(bucket, name) for bucket, _ in largest)
        named += f". Another {percent(rest.gone)} is in no finding either, but goes with the fixes above."
    blocks = [Paragraph(named, role="dim")]
    blocks += [Paragraph(words, role="dim") for words in _tails(diagnosis) if TAIL in dict(largest)]
    if parts.get(UNSEEN_HOST, 0) >= MUCH_UNSEEN_SHARE * window_ns:
        blocks.append(Paragraph(_unseen_host(diagnosis), role="dim"))
    share = f"{percent(rest.left)} of the time"
    return [Section(tuple(blocks), Heading("Not explained by any rule", (Text(share),)))]


def _tails(diagnosis: Diagnosis) -> list[str]:
    """Say what the host did after the last kernel."""
    return [finding.message for finding in diagnosis.findings if finding.rule == "tq-host-after-gpu"][:1]


def _unseen_host(diagnosis: Diagnosis) -> str:
    """Say what the host did where no call and no range of it was recorded, or how to record it."""
    if diagnosis.host_functions:
        found = ", ".join(f"{_short(item.name)} {percent(item.share)}" for item in diagnosis.host_functions)
        return f"CPU samples show what the host did there: {found} of the samples."
    hint = f": {diagnosis.host_hint}" if diagnosis.host_hint else ""
    return f"What the host did there was not recorded{hint}."


def _short(name: str) -> str:
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…"


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
        remark = plan_remark(plan, fix, confidences.get(fix.rule, "low"), [row[0] for row in rows[1:]])
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


def plan_remark(plan: FixPlan, fix: PlannedFix, confidence: str, before: Sequence[str]) -> str:
    """Say how sure a step of the order is, and on which of those `before` it depends."""
    if fix.saving_ns < 0:
        return f"delays nothing: only the first {'step' if plan.step_count else 'kernel'} begins earlier"
    if fix.status == "alternative":
        return f"already covered by {' or '.join(fix.alternatives) or 'the fixes above'}"
    if fix.status == "latent":
        needed = [rule for rule in before if rule in fix.after] or before
        return f"next bottleneck after {needed[-1]}" if needed else f"as limiting as {listed(fix.after)}: fix both"
    return f"{confidence} confidence"
