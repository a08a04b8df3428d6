"""The beginning and the end of a report: what was read, the verdict, what limits trust, and what was checked."""

from __future__ import annotations

from pathlib import Path

from traceanalyzer.diagnosis import SEVERITIES, Diagnosis, Finding, TraceDefect
from traceanalyzer.diagnosis.verdict import LIMITS_TRUST, RunVerdict, pooled_ledger, quality_findings, step_ns
from traceanalyzer.report.blocks import Block, Code, Heading, Paragraph, Section, Text
from traceanalyzer.report.diagnosis_blocks.findings import left_out
from traceanalyzer.report.diagnosis_blocks.ledgers import alike
from traceanalyzer.report.diagnosis_blocks.ranks import quality_place
from traceanalyzer.report.diagnosis_blocks.trust import checked_words, record_words, recordings_blocks, skipped
from traceanalyzer.text.words import counted, duration, listed, ranges, short_names

MOST_LOSSES = 3
_ROLES = {"healthy": "good", "sick": "strong", "blocked": "bad"}


def headline(diagnosis: Diagnosis, verdict: RunVerdict) -> Section:
    """Return the run, what it holds, and the verdict."""
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
        fixes: list[Block] = []
        for fix in finding.fixes if verbose else finding.fixes[:1]:
            code = (Code(fix.code, fix.lang),) if fix.code and verbose else ()
            fixes.append(Paragraph(fix.text, label=Text("fix", "good"), blocks=code))
        message = f"{quality_place(diagnosis, finding)}{finding.message}"
        blocks.append(Paragraph(message, label=Text(finding.severity, finding.severity), blocks=tuple(fixes)))
    lost = [defect for defect in diagnosis.defects if defect.severity == "loss"]
    if lost:
        kinds = "; ".join(_loss_words(defect, named=len(diagnosis.traces) > 1) for defect in lost[:MOST_LOSSES])
        more = f"; {counted(len(lost) - MOST_LOSSES, 'more kind')}" if len(lost) > MOST_LOSSES else ""
        words = f"the file does not hold everything: {kinds}{more}"
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
