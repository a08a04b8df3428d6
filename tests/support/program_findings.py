"""What the diagnosis of a program that a test wrote says first, and in which words."""

from __future__ import annotations

from pathlib import Path

from traceanalyzer.diagnosis import AttachedExplanation, Diagnosis, Finding
from traceanalyzer.diagnosis.verdict import leading_finding
from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS


def diagnosed(trace: Path) -> Diagnosis:
    """Diagnose a trace, or a folder of them, by the rules that ship."""
    with open_run(trace, store=trace.with_name("store"), jobs=1) as run:
        return run.diagnose(settings=NO_SETTINGS)


def lead_of(diagnosis: Diagnosis) -> Finding:
    """Return the finding that the headline names."""
    leading = leading_finding(diagnosis)
    assert leading is not None
    return leading


def words(finding: Finding) -> str:
    """Return a finding with what explains it, fixes and code included."""
    parts: list[Finding | AttachedExplanation] = [finding, *finding.explanations]
    return " ".join(text for part in parts for text in (part.message, *(fix.code or "" for fix in part.fixes)))
