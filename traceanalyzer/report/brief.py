"""A diagnosis in three lines, for a chat or a log: the verdict, its cause, and the fix."""

from __future__ import annotations

from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.diagnosis.findings import worth_share
from traceanalyzer.diagnosis.verdict import has_no_compute, judge, problems, quality_findings
from traceanalyzer.report.diagnosis_blocks import run_name
from traceanalyzer.report.diagnosis_blocks.findings import NO_FIX, message_words, worth_words
from traceanalyzer.report.diagnosis_blocks.ledgers import ledger_bar, main_ledger
from traceanalyzer.text.visible import visible

# A longer snippet is for the report.
MOST_CODE = 160
MOST_OTHERS = 5


def brief_lines(diagnosis: Diagnosis) -> list[str]:
    """Return one to three lines: a run without a finding has no cause and no fix."""
    verdict = judge(diagnosis)
    lines = [f"{run_name(diagnosis)}: {verdict.sentence}"]
    cause = _cause(diagnosis, verdict.state)
    if cause is not None:
        lines.append(f"cause: {message_words(diagnosis, cause)} ({cause.rule})")
        if cause.fixes:
            fix = cause.fixes[0]
            code = " ".join((fix.code or "").split())
            lines.append(f"fix: {fix.text}" + (f" {code}" if code and len(code) <= MOST_CODE else ""))
        else:
            lines.append(f"fix: {NO_FIX}")
    return [visible(line) for line in lines]


def summary_lines(diagnosis: Diagnosis) -> list[str]:
    """Return what to paste into a ticket: the three lines, where the time goes, and the other findings."""
    lines = brief_lines(diagnosis)
    ledger = None if has_no_compute(diagnosis) else main_ledger(diagnosis)
    if ledger is not None:
        shares = ", ".join(f"{item.words} {item.cells[-1]}" for item in ledger_bar(ledger, codes=False).parts)
        lines.append(f"time: {shares}")
    firsts = {finding.rule: finding for finding in reversed(problems(diagnosis))}
    for finding in list(reversed(firsts.values()))[1 : MOST_OTHERS + 1]:
        saves = f", {worth_words(finding)}" if worth_share(finding) else ""
        lines.append(f"also: {finding.title} ({finding.rule}{saves})")
    return [visible(line) for line in lines]


def _cause(diagnosis: Diagnosis, state: str) -> Finding | None:
    """Return what the verdict is about: what makes a trace worthless, else the first problem."""
    found = quality_findings(diagnosis) if state in ("blocked", "no-gpu") else problems(diagnosis)
    return found[0] if found else None
