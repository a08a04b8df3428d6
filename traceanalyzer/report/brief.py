"""A diagnosis in three lines, for a chat or a log: the verdict, its cause, and the fix."""

from __future__ import annotations

from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.diagnosis.verdict import judge, problems, quality_findings
from traceanalyzer.report.diagnosis_blocks.headline import run_name
from traceanalyzer.text.visible import visible


def brief_lines(diagnosis: Diagnosis) -> list[str]:
    """Return one to three lines: a run without a finding has no cause and no fix."""
    verdict = judge(diagnosis)
    lines = [f"{run_name(diagnosis)}: {verdict.sentence}"]
    cause = _cause(diagnosis, verdict.state)
    if cause is not None:
        lines.append(f"cause: {cause.message} ({cause.rule})")
        if cause.fixes:
            fix = cause.fixes[0]
            code = " ".join((fix.code or "").split())
            lines.append(f"fix: {fix.text}" + (f" {code}" if code and len(code) <= MOST_CODE else ""))
    return [visible(line) for line in lines]


# A longer snippet is for the report.
MOST_CODE = 160


def _cause(diagnosis: Diagnosis, state: str) -> Finding | None:
    """Return what the verdict is about: what makes a trace worthless, else the first problem."""
    found = quality_findings(diagnosis) if state in ("blocked", "no-gpu") else problems(diagnosis)
    return found[0] if found else None
