"""The report on a terminal: verdict, what limits trust, where the time goes, what to fix, what nobody could see."""

from __future__ import annotations

from collections import defaultdict
from typing import TextIO

from traceanalyzer.diagnosis import SEVERITIES, Diagnosis, Evidence, Finding, Fix, Outcome
from traceanalyzer.report.ledger_bar import alike, write_ledgers
from traceanalyzer.report.page import Page, Part
from traceanalyzer.report.verdict import (
    judge,
    ledger_of,
    problems,
    quality_findings,
    step_ns,
    time_findings,
)
from traceanalyzer.report.words import bucket_words, column_words, counted, duration, percent, ranges, value_words

MOST_FINDINGS = 6
MOST_ROWS = 3
MOST_GROUPS = 4
# Shares of unexplained time below this are not worth a word.
LEAST_SHARE = 0.005

_STYLES = {
    "blocker": "bold red",
    "critical": "bold red",
    "high": "red",
    "warning": "yellow",
    "medium": "yellow",
    "low": "cyan",
    "info": "cyan",
    "note": "dim",
}
_FOR_PROGRAMS = ("start_ns", "dur_ns")
_LIMITS_TRUST = SEVERITIES.index("warning")


def write(diagnosis: Diagnosis, stream: TextIO, *, verbose: bool = False) -> None:
    """Write the report; a healthy run takes two lines unless everything is asked for."""
    page = Page(stream)
    verdict = judge(diagnosis)
    style = {"healthy": "bold green", "sick": "bold", "blocked": "bold red"}.get(verdict.state, "bold yellow")
    if verdict.state == "healthy" and not verbose:
        page.paragraph(verdict.sentence, label=(f"{diagnosis.run}  ", "bold"), style=style)
        _write_quality(page, diagnosis, verbose=False, least=_LIMITS_TRUST)
        page.paragraph(_who_looked(diagnosis, healthy=True), style="dim")
        return
    page.line((diagnosis.run, "bold"), (f"  {_inventory(diagnosis)}", "dim"))
    page.paragraph(verdict.sentence, style=style)
    page.blank()
    _write_quality(page, diagnosis, verbose=verbose, least=0 if verbose else _LIMITS_TRUST)
    write_ledgers(page, diagnosis.ledgers, verbose=verbose)
    _write_order(page, diagnosis)
    _write_findings(page, diagnosis, verbose=verbose)
    _write_unexplained(page, diagnosis)
    _write_blind_spots(page, diagnosis, verbose=verbose)
    page.paragraph(_who_looked(diagnosis, healthy=False), style="dim")


def _inventory(diagnosis: Diagnosis) -> str:
    formats = " and ".join(sorted({trace.format for trace in diagnosis.traces}))
    words = [f"{counted(len(diagnosis.traces), f'{formats} trace')}"]
    ranks = [trace.rank for trace in diagnosis.traces if trace.rank is not None]
    world = max((trace.world_size or 0 for trace in diagnosis.traces), default=0)
    if ranks:
        words.append(f"rank{'' if len(set(ranks)) == 1 else 's'} {ranges(ranks)}" + (f" of {world}" if world else ""))
    words.append(counted(sum(trace.event_count for trace in diagnosis.traces), "event"))
    steps = sorted({ledger.step_count for ledger in diagnosis.ledgers})
    if steps:
        words.append(counted(steps[-1], "step") if steps[0] == steps[-1] else f"{steps[0]}-{steps[-1]} steps")
    return " · ".join(words)


def _write_quality(page: Page, diagnosis: Diagnosis, *, verbose: bool, least: int) -> None:
    wrote = False
    for finding in quality_findings(diagnosis):
        if SEVERITIES.index(finding.severity) < least:
            continue
        wrote = True
        mark: Part = (f"{finding.severity}  ", _STYLES[finding.severity])
        page.paragraph(f"{_where(diagnosis, finding)}{finding.message}", label=mark)
        for fix in finding.fixes[: None if verbose else 1]:
            page.paragraph(fix.text, indent=len(mark[0]), style="dim")
            if fix.code and verbose:
                page.code(fix.code, indent=len(mark[0]) + 2)
    lost = [defect for defect in diagnosis.defects if defect.severity == "loss"]
    if lost:
        wrote = True
        kinds = ", ".join(f"{defect.defect} ×{defect.count:,} in {defect.trace}" for defect in lost[:3])
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        page.paragraph(f"the file does not hold everything: {kinds}{more}", label=("lost  ", _STYLES["warning"]))
    if wrote:
        page.blank()


def _where(diagnosis: Diagnosis, finding: Finding) -> str:
    if len(diagnosis.traces) == 1:
        return ""
    if len(finding.same_on_ranks) > 1:
        return f"ranks {ranges(finding.same_on_ranks)}: "
    return f"rank {finding.rank}: " if finding.rank is not None else f"{finding.trace}: " if finding.trace else ""


def _write_order(page: Page, diagnosis: Diagnosis) -> None:
    """Write the waterfall: how long a step takes after each fix, in the order of fixes."""
    steps = [finding for finding in time_findings(diagnosis) if finding.marginal_ns]
    steps.sort(key=lambda finding: finding.marginal_order or len(steps))
    if len(steps) < 2 or len({(finding.trace, finding.device) for finding in steps}) != 1:
        return
    ledger = ledger_of(diagnosis, steps[0])
    if ledger is None or not ledger.window_ns:
        return
    per_step = max(ledger.step_count, 1)
    left_ns = ledger.window_ns
    rows = [("", "now", duration(left_ns / per_step), "", "")]
    for number, finding in enumerate(steps, 1):
        left_ns -= finding.marginal_ns or 0
        gain = f"−{percent((finding.marginal_ns or 0) / ledger.window_ns)}"
        rows.append((str(number), finding.rule, duration(left_ns / per_step), gain, f"{finding.confidence} confidence"))
    page.line(
        ("Fixed one after the other", "bold"), ("  at best; bounds of single fixes may overlap, these add up", "dim")
    )
    page.table(
        ("", "fix", "a step takes" if ledger.step_count else "it takes", "saves", ""),
        rows,
        indent=2,
        right=frozenset({2, 3}),
    )
    page.blank()


def _write_findings(page: Page, diagnosis: Diagnosis, *, verbose: bool) -> None:
    findings = problems(diagnosis)
    loud = [finding for finding in findings if verbose or SEVERITIES.index(finding.severity) > SEVERITIES.index("info")]
    shown = loud if verbose else loud[:MOST_FINDINGS]
    told: set[str] = set()
    for number, finding in enumerate(shown, 1):
        _write_finding(page, diagnosis, finding, number, told=finding.rule in told, verbose=verbose)
        told.add(finding.rule)
    rest = [finding for finding in findings if finding not in shown]
    if rest:
        page.line(("Also seen", "bold"), ("  -v tells more", "dim"))
        for finding in rest:
            saving = f"up to −{percent(finding.saving_share)}  " if finding.saving_share else ""
            page.paragraph(f"{saving}{finding.message}", label=(f"  {finding.severity}  ", _STYLES[finding.severity]))
        page.blank()


def _write_finding(
    page: Page, diagnosis: Diagnosis, finding: Finding, number: int, *, told: bool, verbose: bool
) -> None:
    beside = len(finding.title) + len(finding.rule) + 6 <= page.width
    if beside:
        mark: Part = (f"{number}  ", _STYLES[finding.severity])
        page.line(mark, (finding.title, "bold"), (f"  {finding.rule}", "dim"))
    else:
        page.paragraph(finding.title, label=(f"{number}  ", _STYLES[finding.severity]), style="bold")
    words = _saving(diagnosis, finding)
    saving: list[Part] = [(words, "bold"), " · "] if words else []
    page.flow(
        [
            *saving,
            (finding.severity, _STYLES[finding.severity]),
            f" · {finding.confidence} confidence",
            (f" · {_place(diagnosis, finding)}", "dim"),
            ("" if beside else f" · {finding.rule}", "dim"),
        ],
        indent=3,
    )
    page.paragraph(finding.message, indent=3)
    if finding.why and not told:
        page.paragraph(finding.why, label=("why  ", "dim"), indent=3)
    for evidence in finding.evidence:
        _write_evidence(page, evidence, verbose=verbose)
    for fix in finding.fixes if verbose else finding.fixes[:2]:
        if told:
            page.line("   ", ("fix  ", "bold green"), "as above")
            break
        _write_fix(page, fix)
    if finding.status == "alternative":
        page.paragraph("another fix above wins the same time", label=("either  ", "dim"), indent=3)
    elif finding.alternatives:
        page.paragraph("wins the same time: " + ", ".join(finding.alternatives), label=("either  ", "dim"), indent=3)
    if verbose:
        for reference in finding.references:
            page.paragraph(reference, label=("see  ", "dim"), indent=3, style="dim")
    page.blank()


def _saving(diagnosis: Diagnosis, finding: Finding) -> str:
    """Say the bound of a finding per step: what removing its cause alone can save."""
    ledger = ledger_of(diagnosis, finding)
    if finding.saving_ns is None or finding.saving_share is None or ledger is None:
        return ""
    unit = " a step" if ledger.step_count else ""
    return f"up to −{percent(finding.saving_share)}, {duration(finding.saving_ns / max(ledger.step_count, 1))}{unit}"


def _place(diagnosis: Diagnosis, finding: Finding) -> str:
    if len(finding.same_on_ranks) > 1:
        total = len({trace.rank for trace in diagnosis.traces if trace.rank is not None})
        on = f"on {len(finding.same_on_ranks)} of {total} ranks" if total else f"ranks {ranges(finding.same_on_ranks)}"
        return f"{on}, worst rank {finding.rank}"
    device = f"device {finding.device}" if finding.device is not None else "no device"
    if finding.rank is None:
        return f"{finding.trace or 'the run'}, {device}"
    only = "only " if len({trace.rank for trace in diagnosis.traces}) > 1 else ""
    return f"{only}rank {finding.rank}, {device}"


def _write_evidence(page: Page, evidence: Evidence, *, verbose: bool) -> None:
    if not evidence.rows:
        return
    rows = evidence.rows if verbose else evidence.rows[:MOST_ROWS]
    more = f"  {len(evidence.rows) - len(rows)} more with -v" if len(rows) < len(evidence.rows) else ""
    page.line("   ", (evidence.title, "dim"), (more, "dim"))
    # What no row knows takes no room, and what is there for programs is told in other columns for people.
    shown = [
        i
        for i, column in enumerate(evidence.columns)
        if any(row[i] is not None for row in rows) and not (column in _FOR_PROGRAMS and "ms" in evidence.columns)
    ]
    cells = [[value_words(evidence.columns[i], row[i]) for i in shown] for row in rows]
    right = frozenset(at for at, i in enumerate(shown) if any(isinstance(row[i], int | float) for row in rows))
    page.table([column_words(evidence.columns[i]) for i in shown], cells, indent=5, right=right)


def _write_fix(page: Page, fix: Fix) -> None:
    page.paragraph(fix.text, label=("fix  ", "bold green"), indent=3)
    if fix.code:
        page.code(fix.code, indent=8)


def _write_unexplained(page: Page, diagnosis: Diagnosis) -> None:
    window_ns = sum(ledger.window_ns for ledger in diagnosis.ledgers)
    parts = [(bucket, ns / window_ns) for bucket, ns in diagnosis.not_explained if window_ns and ns > 0]
    total = sum(share for _, share in parts)
    if total < LEAST_SHARE:
        return
    named = ", ".join(
        f"{bucket_words(bucket)} {percent(share)}" for bucket, share in sorted(parts, key=lambda p: -p[1])[:4]
    )
    page.paragraph(f"{percent(total)} of the time: {named}", label=("Not explained by any rule  ", "bold"))


def _write_blind_spots(page: Page, diagnosis: Diagnosis, *, verbose: bool) -> None:
    """Write which rules could not look and what to record next time, one line a reason."""
    groups: dict[str, set[str]] = defaultdict(set)
    for outcome in abstained(diagnosis):
        groups[outcome.unlock or outcome.detail or outcome.reason or "no reason given"].add(outcome.rule)
    if not groups:
        return
    rules = set().union(*groups.values())
    page.line((f"{counted(len(rules), 'rule')} could not look", "bold"), ("  what would let them:", "dim"))
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    for what, names in ordered if verbose else ordered[:MOST_GROUPS]:
        listed = ", ".join(sorted(names)) if verbose or len(names) <= 2 else f"{min(names)} and {len(names) - 1} more"
        page.paragraph(f"{what} ({listed})", label="  - ")
    if not verbose and len(ordered) > MOST_GROUPS:
        page.line((f"  and {len(ordered) - MOST_GROUPS} more reasons; -v lists them", "dim"))


def abstained(diagnosis: Diagnosis) -> list[Outcome]:
    """Return the outcomes of rules that could look nowhere in the run."""
    looked = {outcome.rule for outcome in diagnosis.outcomes if outcome.state != "abstained"}
    return [o for o in diagnosis.outcomes if o.state == "abstained" and o.rule not in looked]


def _who_looked(diagnosis: Diagnosis, *, healthy: bool) -> str:
    blind = {outcome.rule for outcome in abstained(diagnosis)}
    rules = {outcome.rule for outcome in diagnosis.outcomes}
    words = f"{len(rules) - len(blind)} of {counted(len(rules), 'rule')} looked"
    if not healthy:
        return words + "."
    slowest = alike(diagnosis.ledgers)[0].worst
    steps = f"{counted(slowest.step_count, 'step')} of {duration(step_ns(slowest))}"
    window = steps if slowest.step_count else f"{duration(slowest.window_ns)}, no steps"
    return f"{words}{', the others lack data' if blind else ''}; {window}; -v shows where the time goes."
