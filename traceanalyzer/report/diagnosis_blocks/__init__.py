"""A diagnosis, or a part of it, as sections of blocks, in the order in which a report shows them.

Here are its beginning and its end: what was read, the verdict, the order of fixes, and what was checked. A part is the
findings of one rank, or the first few; the verdict stays that of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from traceanalyzer.diagnosis import SEVERITIES, Diagnosis, Finding, FixPlan, PlannedFix, TraceDefect, plan_of_finding
from traceanalyzer.diagnosis.findings import asks_for_recording
from traceanalyzer.diagnosis.verdict import (
    LIMITS_TRUST,
    RunVerdict,
    has_no_compute,
    judge,
    pooled_ledger,
    problems,
    quality_findings,
    step_ns,
    time_findings,
)
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.diagnosis_blocks.findings import finding_sections, fix_block, left_out
from traceanalyzer.report.diagnosis_blocks.ledgers import alike, kernels_shown, ledger_sections, slowest_kernels
from traceanalyzer.report.diagnosis_blocks.ranks import quality_place, rank_sections
from traceanalyzer.report.diagnosis_blocks.trust import (
    below_noise_blocks,
    checked_words,
    left_out_sections,
    override_sections,
    record_words,
    recordings_blocks,
    skipped,
    skipped_sections,
    unexplained_sections,
)
from traceanalyzer.text.words import counted, duration, gain, listed, ranges, short_names

MOST_LOSSES = 3
_ROLES = {"healthy": "good", "sick": "strong", "blocked": "bad"}


def headline(diagnosis: Diagnosis, verdict: RunVerdict) -> Section:
    inventory = tuple(Text(words, "dim") for words in inventory_words(diagnosis))
    sentence = Paragraph(verdict.sentence, role=_ROLES.get(verdict.state, "caution"))
    screened = (Paragraph(words, role="dim"),) if (words := screening_words(diagnosis)) else ()
    return Section((Heading(run_name(diagnosis), inventory), sentence, *recordings_blocks(diagnosis), *screened))


def screening_words(diagnosis: Diagnosis) -> str:
    """Say which ranks were opened; nothing where all were."""
    screening = diagnosis.screening
    if screening is None:
        return ""
    count = f"{len(screening.opened):,} opened" if screening.opened else "none opened"
    every = "All " if screening.rank_count > 1 else ""
    words = f"{every}{counted(screening.rank_count, 'rank')} screened, {count}"
    if diagnosis.run_ledger is not None:
        words += "; bounds of the run are of all ranks"
    return f"{words}; evidence is of the opened ones." if screening.opened else f"{words}; no evidence is quoted."


def healthy_headline(diagnosis: Diagnosis, verdict: RunVerdict) -> Paragraph:
    """Return the verdict on a run in which nothing is to be fixed."""
    name = run_name(diagnosis)
    label = Text(short_names([name])[name], "strong")
    return Paragraph(verdict.sentence, role=_ROLES.get(verdict.state, "caution"), label=label)


def trust_blocks(diagnosis: Diagnosis, *, verbose: bool) -> tuple[Block, ...]:
    """Return what is wrong with the traces; without `verbose` only what limits trust."""
    shown = [finding for finding in quality_findings(diagnosis) if verbose or limits_trust(finding)]
    blocks: list[Block] = []
    for finding in shown:
        fixes = tuple(fix_block(fix, with_code=verbose) for fix in finding.fixes[: None if verbose else 1])
        message = f"{quality_place(diagnosis, finding)}{finding.message}"
        blocks.append(Paragraph(message, label=Text(finding.severity, finding.severity), blocks=fixes))
    lost = [defect for defect in diagnosis.defects if defect.severity == "loss"]
    if lost:
        kinds = "; ".join(_loss_words(defect, named=len(diagnosis.traces) > 1) for defect in lost[:MOST_LOSSES])
        more = f"; {counted(len(lost) - MOST_LOSSES, 'more kind')}" if len(lost) > MOST_LOSSES else ""
        words = f"what is shown is not everything: {kinds}{more}"
        blocks.append(Paragraph(words, label=Text("lost", "warning")))
    return tuple(blocks)


def _loss_words(defect: TraceDefect, *, named: bool) -> str:
    """Say what a kind of loss means, without its name in tables and without the advice that follows."""
    advice = defect.advice.split(";")[0]
    often = counted(defect.count, "time") if defect.count > 1 else ""
    place = " ".join(filter(None, (often, f"in {defect.trace}" if named else "")))
    return f"{place}, {advice}" if place else advice


def limits_trust(finding: Finding) -> bool:
    """Return whether a finding about the trace has to be read before anything else."""
    return SEVERITIES.index(finding.severity) >= LIMITS_TRUST


def footer(diagnosis: Diagnosis, *, verbose: bool, is_mute: bool) -> Paragraph:
    """Return how many rules were checked, and what `verbose` adds; without findings, what to record stands above."""
    more = left_out(diagnosis) + (["what to record"] if skipped(diagnosis) and not is_mute else [])
    tail = "" if verbose or not more else f" -v adds {listed(more)}."
    checked = checked_words(diagnosis, skips=not (verbose or is_mute))
    return Paragraph(f"{checked}.{tail}{record_words(diagnosis)}", role="dim")


def healthy_footer(diagnosis: Diagnosis) -> Paragraph:
    """Return how many rules were checked, and over how many steps."""
    slowest = pooled_ledger(diagnosis) or alike(diagnosis.ledgers)[0].worst
    steps = f"{counted(slowest.step_count, 'step')} of {duration(step_ns(slowest))}"
    window = steps if slowest.step_count else f"{duration(slowest.window_ns)}, no steps"
    return Paragraph(f"{checked_words(diagnosis)}; {window}; -v shows more.{record_words(diagnosis)}", role="dim")


def run_name(diagnosis: Diagnosis) -> str:
    """Return the name of the run's folder or file."""
    return Path(diagnosis.run).name or Path(diagnosis.run).resolve().name or diagnosis.run


def inventory_words(diagnosis: Diagnosis) -> list[str]:
    """Say in short facts what the run holds."""
    formats = listed(sorted({trace.format for trace in diagnosis.traces}))
    words = [f"{counted(len(diagnosis.traces), f'{formats} trace')}"]
    ranks = [trace.rank for trace in diagnosis.traces if trace.rank is not None]
    world = max((trace.world_size or 0 for trace in diagnosis.traces), default=0)
    if ranks:
        words.append(f"rank{'' if len(set(ranks)) == 1 else 's'} {ranges(ranks)}" + (f" of {world}" if world else ""))
    again = sorted({trace.recording_count for trace in diagnosis.traces})
    if again and again[-1] > 1:
        what = f"recorded {again[-1]} times" if again[0] == again[-1] else f"recorded {again[0]} to {again[-1]} times"
        words[-1:] = [f"{words[-1]}, {what}"] if ranks else [words[-1], f"{_processes(diagnosis)}, {what}"]
    words.append(counted(sum(trace.event_count for trace in diagnosis.traces), "event"))
    pooled = pooled_ledger(diagnosis)
    steps = sorted({ledger.step_count for ledger in (diagnosis.ledgers if pooled is None else [pooled])})
    if steps:
        count = counted(steps[-1], "step") if steps[0] == steps[-1] else f"{steps[0]}-{steps[-1]} steps"
        words.append(count if steps[-1] else "no steps found")
    words += [change.what for change in diagnosis.overrides if change.kind == "steps"]
    return words


def _processes(diagnosis: Diagnosis) -> str:
    count = len({trace.rank_id for trace in diagnosis.traces})
    return "one process" if count == 1 else f"{count} processes"


def leading_plan(diagnosis: Diagnosis) -> FixPlan | None:
    """Return the order of fixes of the run, or of the device of the first finding; None: there is none."""
    first = next(iter(time_findings(diagnosis)), None)
    plan = None if first is None else plan_of_finding(diagnosis.plans, first)
    return plan if plan is not None and plan.window_ns else None


def plan_sections(diagnosis: Diagnosis) -> list[Section]:
    """Return the leading order of fixes; one fix needs no order."""
    plan, rows = leading_plan(diagnosis), plan_rows(diagnosis)
    if plan is None or len(rows) < 3:  # the first is today
        return []
    columns = ("fix", "step time" if plan.step_count else "time", "saves", "")
    cells = tuple((row.name, row.time, row.saves, row.remark) for row in rows)
    blocks: list[Block] = [Table(columns, cells, right=frozenset({1, 2}), wraps_last=True)]
    blocks += [Paragraph(words, role="dim") for words in _together_words(plan)]
    notes = tuple(Text(note, "dim") for note in _plan_notes(diagnosis, plan))
    return [Section(tuple(blocks), Heading("Cumulative savings (fixes applied in this order)", notes))]


class PlanRow(Struct, frozen=True):
    """A fix in its order: the time after it, what it saves, and how people read both; a loss is negative."""

    name: str
    left_ns: int
    saving_ns: int
    time: str
    saves: str
    remark: str


def plan_rows(diagnosis: Diagnosis) -> list[PlanRow]:
    """Return today and each fix of the leading order; people read times per step. Empty where no fix saves time."""
    plan = leading_plan(diagnosis)
    if plan is None:
        return []
    per_step = max(plan.step_count, 1)
    confidences = {finding.rule: finding.confidence for finding in reversed(diagnosis.findings)}
    rows = [PlanRow("now", plan.window_ns, 0, duration(plan.window_ns / per_step), "", "")]
    for fix in plan_fixes(diagnosis, plan):
        remark = _plan_remark(plan, fix, confidences.get(fix.rule, "low"), [row.name for row in rows[1:]])
        saves = gain(fix.saving_ns / plan.window_ns)
        rows.append(PlanRow(fix.rule, fix.left_ns, fix.saving_ns, duration(fix.left_ns / per_step), saves, remark))
    return rows


def plan_fixes(diagnosis: Diagnosis, plan: FixPlan) -> list[PlannedFix]:
    """Return the fixes of an order that change the program, each with the time that is left when the others stay.

    What a fix before it covers to less than 0.05 % has no row: its finding says so.
    """
    again = {finding.rule for finding in diagnosis.findings if asks_for_recording(finding)}
    fixes, stays_ns = [], 0
    for fix in plan.fixes:
        if fix.rule in again:
            stays_ns += fix.saving_ns
        elif fix.status != "alternative" or 2000 * abs(fix.saving_ns) >= plan.window_ns:
            fixes.append(replace(fix, left_ns=fix.left_ns + stays_ns))
    return fixes


def _together_words(plan: FixPlan) -> list[str]:
    """Say which fixes save more together than alone."""
    sentences = []
    for group in plan.enablers:
        alone = listed([gain(saved_ns / plan.window_ns) for saved_ns in group.alone_ns])
        together = gain(group.together_ns / plan.window_ns)
        sentences.append(f"{listed(group.rules)} save more together than alone: {together} against {alone}")
    return sentences


def _plan_notes(diagnosis: Diagnosis, plan: FixPlan) -> list[str]:
    notes = ["at best"]
    pooled = pooled_ledger(diagnosis)
    if pooled is not None:
        notes.append(f"of all {counted(pooled.step_count, 'step')} in {pooled.recording_count} recordings")
    elif plan.trace is None:
        notes.append("of the run, whose ranks wait for each other")
    elif len(diagnosis.plans) > 1:
        notes.append(short_names([trace.trace for trace in diagnosis.traces]).get(plan.trace, plan.trace))
    return notes


def _plan_remark(plan: FixPlan, fix: PlannedFix, confidence: str, before: Sequence[str]) -> str:
    """Say how sure a step of the order is, and on which of those `before` it depends."""
    if fix.saving_ns < 0:
        return f"delays nothing: only the first {'step' if plan.step_count else 'kernel'} begins earlier"
    if fix.status == "alternative":
        return f"already covered by {' or '.join(fix.alternatives) or 'the fixes above'}"
    if fix.status == "latent":
        later = [rule for rule in fix.after if rule not in before]
        return f"as limiting as {listed(later)}: fix both" if later else f"next bottleneck after {fix.after[-1]}"
    return f"{confidence} confidence"


class Selection(Struct, frozen=True):
    """Which findings to show: those of a rank, those of the first rules in the order of fixes; None: all."""

    rank: int | None = None
    top: int | None = None

    def of(self, diagnosis: Diagnosis) -> Diagnosis:
        """Return a diagnosis with the chosen findings and ledgers alone; raises where the run has no such rank."""
        if self.rank is not None:
            known = sorted({trace.rank for trace in diagnosis.traces if trace.rank is not None})
            if self.rank not in known:
                hint = f"ranks here: {ranges(known)}" if known else "the traces name no ranks"
                raise TraceAnalyzerError(f"the run has no rank {self.rank}", "--rank", hint)
            diagnosis = replace(
                diagnosis,
                findings=tuple(
                    finding
                    for finding in diagnosis.findings
                    if finding.rank is None or self.rank in (finding.rank, *finding.same_on_ranks)
                ),
                ledgers=tuple(ledger for ledger in diagnosis.ledgers if ledger.rank == self.rank),
                run_ledger=pooled_ledger(diagnosis),
                host_ledgers=tuple(ledger for ledger in diagnosis.host_ledgers if ledger.rank == self.rank),
            )
        if self.top is not None:
            rules = list(dict.fromkeys(finding.rule for finding in problems(diagnosis)))[self.top :]
            shown = tuple(finding for finding in diagnosis.findings if finding.rule not in rules)
            diagnosis = replace(diagnosis, findings=shown)
        return diagnosis

    def words(self, whole: Diagnosis, part: Diagnosis) -> str | None:
        """Say how much is not shown, and what the rest is of; None: the report is that of the whole run."""
        options = [f"--rank {self.rank}"] if self.rank is not None else []
        options += [f"--top {self.top}"] if self.top is not None else []
        shown, found = (len({finding.rule for finding in problems(of)}) for of in (part, whole))
        if self.rank is None and shown == found:
            return None
        count = f"{shown} of {counted(found, 'finding')} shown ({', '.join(options)})"
        return f"{count}; all but the ledger is of the whole run."


EVERYTHING = Selection()


def diagnosis_sections(
    diagnosis: Diagnosis, *, verbose: bool = False, selection: Selection = EVERYTHING
) -> tuple[Section, ...]:
    """Return the report of a diagnosis; `verbose` adds definitions, rivals, further fixes and every skipped rule.

    `selection` chooses findings and ledgers; all else is of the whole run.
    """
    verdict = judge(diagnosis)
    part = selection.of(diagnosis)
    not_shown = selection.words(diagnosis, part)
    if verdict.state in ("healthy", "clear") and not verbose:
        return _healthy(diagnosis, verdict)
    trust, noise = trust_blocks(diagnosis, verbose=verbose), below_noise_blocks(diagnosis)
    # Where nothing can be said and nothing says why, what to record is the answer.
    is_mute = verdict.state in ("blocked", "no-gpu") and not any(map(limits_trust, quality_findings(diagnosis)))
    is_empty = has_no_compute(diagnosis)
    return (
        headline(diagnosis, verdict),
        *([Section(trust)] if trust else []),
        *([] if is_empty else ledger_sections(part, verbose=verbose)),
        *rank_sections(diagnosis),
        *plan_sections(diagnosis),
        *finding_sections(part, verbose=verbose),
        *([Section((Paragraph(not_shown, role="dim"),))] if not_shown else []),
        *([Section(noise)] if noise else []),
        *([] if is_empty else unexplained_sections(diagnosis)),
        *_counter_sections(diagnosis, verbose=verbose),
        *(skipped_sections(diagnosis, verbose=verbose) if verbose or is_mute else []),
        *override_sections(diagnosis),
        *left_out_sections(diagnosis.left_out, verbose=verbose),
        Section((footer(diagnosis, verbose=verbose, is_mute=is_mute),)),
    )


def _healthy(diagnosis: Diagnosis, verdict: RunVerdict) -> tuple[Section, ...]:
    """Return the verdict, what the GPU computes, and what was checked; what limits trust and was changed between."""
    kernels = slowest_kernels(diagnosis, most=kernels_shown(0, verbose=False))
    head, foot = (healthy_headline(diagnosis, verdict), *kernels), healthy_footer(diagnosis)
    between = (*recordings_blocks(diagnosis), *trust_blocks(diagnosis, verbose=False), *below_noise_blocks(diagnosis))
    more = [*_counter_sections(diagnosis, verbose=False), *override_sections(diagnosis)]
    more += left_out_sections(diagnosis.left_out)
    if not between and not more:
        return (Section((*head, foot)),)
    return (Section(head), *([Section(between)] if between else []), *more, Section((foot,)))


def _counter_sections(diagnosis: Diagnosis, *, verbose: bool) -> list[Section]:
    if diagnosis.kernel_counters is None:
        return []
    from traceanalyzer.report.diagnosis_blocks.counters import counter_sections

    return counter_sections(diagnosis.kernel_counters, verbose=verbose)
