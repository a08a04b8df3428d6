"""Findings on a terminal: each with what it saves, where, why, the evidence and the fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from traceanalyzer.diagnosis import SEVERITIES, AttachedExplanation, Diagnosis, Evidence, Finding, Fix
from traceanalyzer.report.page import Page, Part
from traceanalyzer.report.verdict import joint_fixes, ledger_of, problems, worth_share
from traceanalyzer.report.words import (
    column_words,
    counted,
    duration,
    gain,
    listed,
    percent,
    ranges,
    short_names,
    value_words,
)

MOST_FINDINGS = 6
MOST_ROWS = 3
MOST_PLACES = 4
MOST_FIXES = 2
# A finding in fewer of the steps says so.
FEW_STEPS_SHARE = 0.3
# Times of steps that differ by less are alike.
ALIKE_SHARE = 0.05
# What a finding's time is today is told beside its saving where it is at least this share of it.
LIKE_SAVING_SHARE = 0.5
# A fix that saves less than another by this much of it wins a part of its time, and not the same.
LIKE_RIVAL_SHARE = 0.2
# What a rank and the run save is told apart where it differs by more.
SAME_SHARE = 0.005

SEVERITY_STYLES = {
    "blocker": "bold red",
    "critical": "bold red",
    "high": "red",
    "warning": "yellow",
    "medium": "yellow",
    "low": "cyan",
    "info": "cyan",
    "note": "dim",
}
# Columns of evidence that others say for people.
_FOR_PROGRAMS = ("start_ns", "dur_ns")


def write_findings(page: Page, diagnosis: Diagnosis, *, verbose: bool) -> None:
    """Write the findings about the program in the order of fixes; the harmless ones take a line each."""
    findings = problems(diagnosis)
    loud = [finding for finding in findings if verbose or SEVERITIES.index(finding.severity) > SEVERITIES.index("info")]
    rules = list(dict.fromkeys(finding.rule for finding in loud))[: None if verbose else MOST_FINDINGS]
    told: set[tuple[str, str]] = set()
    for number, rule in enumerate(rules, 1):
        first, *others = [finding for finding in loud if finding.rule == rule]
        # What explains several findings is told under the first.
        news = tuple(item for item in first.explanations if (item.rule, item.message) not in told)
        told |= {(item.rule, item.message) for item in news}
        _write_finding(page, diagnosis, replace(first, explanations=news), number, others, verbose=verbose)
    shown = [finding for finding in loud if finding.rule in rules]
    rest = [finding for finding in findings if finding not in shown]
    if rest:
        page.line(("Also seen", "bold"), ("  -v tells more", "dim"))
        for finding in rest:
            saving = f"up to −{percent(worth_share(finding))}  " if worth_share(finding) else ""
            page.paragraph(
                f"{saving}{finding.message}", label=(f"  {finding.severity}  ", SEVERITY_STYLES[finding.severity])
            )
        page.blank()


def _write_finding(
    page: Page, diagnosis: Diagnosis, finding: Finding, number: int, others: Sequence[Finding], *, verbose: bool
) -> None:
    """Write one finding in full, and the places where the same rule fired too."""
    beside = len(finding.title) + len(finding.rule) + 6 <= page.width
    if beside:
        mark: Part = (f"{number}  ", SEVERITY_STYLES[finding.severity])
        page.line(mark, (finding.title, "bold"), (f"  {finding.rule}", "dim"))
    else:
        page.paragraph(finding.title, label=(f"{number}  ", SEVERITY_STYLES[finding.severity]), style="bold")
    _write_facts(page, diagnosis, finding, "" if beside else f" · {finding.rule}")
    page.paragraph(finding.message, indent=3)
    if finding.why:
        page.paragraph(finding.why, label=("why  ", "dim"), indent=3)
    for evidence in finding.evidence:
        _write_evidence(page, evidence, verbose=verbose)
    # Its own fix is what its saving is of; that of a reason follows with the reason.
    room = max(1, MOST_FIXES - sum(bool(told.fixes) for told in finding.explanations))
    for fix in finding.fixes if verbose else finding.fixes[:room]:
        _write_fix(page, fix)
    _write_rivals(page, diagnosis, finding)
    for explanation in finding.explanations:
        _write_explanation(page, explanation, verbose=verbose)
    for other in others if verbose else others[:MOST_PLACES]:
        _write_facts(page, diagnosis, other, "", lead="also  ")
        page.paragraph(other.message, indent=3, style="dim")
    if not verbose and len(others) > MOST_PLACES:
        page.line((f"   and in {counted(len(others) - MOST_PLACES, 'more place')}; -v tells more", "dim"))
    if verbose:
        for reference in finding.references:
            page.code(f"see  {reference}", indent=3, style="dim")
    page.blank()


def _write_rivals(page: Page, diagnosis: Diagnosis, finding: Finding) -> None:
    """Write which fixes win the same time: of equals one is enough, else the larger one makes the smaller needless."""
    rivals = " or ".join(finding.alternatives)
    worth: dict[str, float] = {}
    for item in problems(diagnosis):
        if item.rule in finding.alternatives:
            worth[item.rule] = max(worth_share(item), worth.get(item.rule, 0.0))
    if finding.status != "alternative":
        like = (1 - LIKE_RIVAL_SHARE) * worth_share(finding)
        equals = [rule for rule in finding.alternatives if worth.get(rule, 0.0) >= like]
        smaller = [rule for rule in finding.alternatives if rule not in equals]
        if equals:
            page.paragraph(f"{' or '.join(equals)}, which wins mostly the same time", label=("or   ", "dim"), indent=3)
        if smaller:
            covered = (
                f"{listed(smaller)}: what {'that' if len(smaller) == 1 else 'those'} would win is mostly won by this"
            )
            page.paragraph(covered, label=("covers  ", "dim"), indent=3)
        return
    if worth and worth_share(finding) < (1 - LIKE_RIVAL_SHARE) * min(worth.values()):
        page.paragraph(f"after {rivals}, which wins this time, too", label=("needless  ", "dim"), indent=3)
    else:
        instead = f"of {rivals or 'a fix above'}: they win mostly the same time, and one is enough"
        page.paragraph(instead, label=("instead  ", "dim"), indent=3)


def _write_explanation(page: Page, told: AttachedExplanation, *, verbose: bool) -> None:
    """Write why a finding is there, with what it says to do about that."""
    sure = "" if told.confidence == "high" else f" ({told.confidence} confidence)"
    page.paragraph(f"{told.message}{sure}  {told.rule}", label=("because  ", "yellow"), indent=3)
    for evidence in told.evidence:
        _write_evidence(page, evidence, verbose=verbose)
    for fix in told.fixes if verbose else told.fixes[:1]:
        _write_fix(page, fix, indent=5)


def _write_facts(page: Page, diagnosis: Diagnosis, finding: Finding, rule: str, *, lead: str = "") -> None:
    words = _saving(diagnosis, finding)
    saving: list[Part] = [(words, "bold"), " · "] if words else []
    severity = (finding.severity, SEVERITY_STYLES[finding.severity])
    place: list[Part] = [(f" · {_place(diagnosis, finding)}", "dim")]
    often = _often(finding)
    place += [(f" · {often}", "dim")] if often else []
    page.flow(
        [(lead, "dim"), *saving, severity, f" · {finding.confidence} confidence", *place, (rule, "dim")], indent=3
    )


def _often(finding: Finding) -> str:
    """Say how a finding's time lies over the steps: in few of them, or between what in nearly all."""
    if not finding.step_hits or not finding.step_count:  # in none: its time shows elsewhere today
        return ""
    if finding.step_hits < FEW_STEPS_SHARE * finding.step_count:
        return f"in {finding.step_hits} of {finding.step_count} steps"
    if finding.step_p10_ns is None or finding.step_p90_ns is None or not finding.step_p90_ns:
        return ""
    low, high = duration(finding.step_p10_ns), duration(finding.step_p90_ns)
    if finding.step_p90_ns < LIKE_SAVING_SHARE * (finding.saving_ns or 0) / finding.step_count:
        return ""  # most of the saving is time that shows elsewhere today
    alike = finding.step_p90_ns <= (1 + ALIKE_SHARE) * finding.step_p10_ns
    return "about the same in every step" if alike else f"{low} to {high} in 8 of 10 steps"


def _saving(diagnosis: Diagnosis, finding: Finding) -> str:
    """Say the bound of a finding per step: what removing its cause alone can save."""
    ledger = ledger_of(diagnosis, finding)
    if finding.saving_ns is None or finding.saving_share is None or ledger is None:
        return ""
    unit = " a step" if ledger.step_count else ""
    joint = joint_fixes(diagnosis, finding)
    if joint is not None:
        others = listed([fix.rule for fix in joint.fixes if fix.rule != finding.rule])
        return f"only with {others}: together up to {gain(joint.share)}, {duration(joint.saving_ns)}{unit}"
    when = "will matter next: then " if finding.status == "latent" else ""
    own = f"−{percent(finding.saving_share)}"
    run_share = finding.run_saving_share
    if run_share is None or abs(run_share - finding.saving_share) <= SAME_SHARE:
        return f"{when}up to {own}, {duration(finding.saving_ns / max(ledger.step_count, 1))}{unit}"
    run_ns = (finding.run_saving_ns or 0) / max(ledger.step_count, 1)
    return f"{when}up to −{percent(run_share)} of the run, {duration(run_ns)}{unit} ({own} of its rank alone)"


def _place(diagnosis: Diagnosis, finding: Finding) -> str:
    if len(finding.same_on_ranks) > 1:
        total = len({trace.rank for trace in diagnosis.traces if trace.rank is not None})
        on = f"on {len(finding.same_on_ranks)} of {total} ranks" if total else f"ranks {ranges(finding.same_on_ranks)}"
        return f"{on}, worst rank {finding.rank}"
    if finding.trace is None:
        return "the run" if finding.rank is None else f"the run, rank {finding.rank}"
    device = f"device {finding.device}" if finding.device is not None else "the whole trace"
    if len(finding.same_on_devices) > 1:
        device = f"devices {ranges(finding.same_on_devices)}, worst {finding.device}"
    names = short_names([trace.trace for trace in diagnosis.traces])
    where = names.get(finding.trace or "", "the run")
    if len(finding.same_on_traces) > 1:
        return f"in {len(finding.same_on_traces)} of {len(names)} traces, worst in {where}"
    if finding.rank is None:
        return device if len(names) == 1 else f"{device} in {where}"
    if sum(ledger.rank == finding.rank and ledger.device == finding.device for ledger in diagnosis.ledgers) > 1:
        return f"rank {finding.rank}, {device} in {where}"
    only = "only " if len({trace.rank for trace in diagnosis.traces}) > 1 else ""
    return f"{only}rank {finding.rank}, {device}"


def _write_evidence(page: Page, evidence: Evidence, *, verbose: bool) -> None:
    if not evidence.rows:
        return
    rows = evidence.rows if verbose else evidence.rows[:MOST_ROWS]
    more = f"  {len(evidence.rows) - len(rows)} more with -v" if len(rows) < len(evidence.rows) else ""
    page.line("   ", (evidence.title, "dim"), (more, "dim"))
    shown = _telling_columns(evidence, rows)
    cells = [[value_words(evidence.columns[i], row[i]) for i in shown] for row in rows]
    right = frozenset(at for at, i in enumerate(shown) if any(isinstance(row[i], int | float) for row in rows))
    page.table([column_words(evidence.columns[i]) for i in shown], cells, indent=5, right=right)


def _telling_columns(evidence: Evidence, rows: Sequence[tuple[object, ...]]) -> list[int]:
    """Return the columns worth showing: what no row knows, what another column says too, and what is there for programs
    takes no room."""
    for_people = any(column.endswith("ms") for column in evidence.columns)
    shown: list[int] = []
    seen: list[tuple[object, ...]] = []
    for i, column in enumerate(evidence.columns):
        values = tuple(row[i] for row in rows)
        if all(value is None for value in values) or (for_people and column in _FOR_PROGRAMS):
            continue
        if values in seen and all(isinstance(value, str) for value in values):
            continue
        shown.append(i)
        seen.append(values)
    return shown


def _write_fix(page: Page, fix: Fix, *, indent: int = 3) -> None:
    page.paragraph(fix.text, label=("fix  ", "bold green"), indent=indent)
    if fix.code:
        page.code(fix.code, indent=indent + 5)
