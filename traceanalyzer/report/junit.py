"""Results as JUnit XML, which continuous integration shows as tests.

The elements and attributes are those of the schema of the Jenkins xUnit plugin.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.gate import FAILED, NOT_JUDGED, UNSURE, Check, check_diff
from traceanalyzer.diagnosis import SEVERITIES, Diagnosis
from traceanalyzer.diagnosis.verdict import step_ns
from traceanalyzer.report.diff_blocks.changes import signed_duration
from traceanalyzer.report.diff_blocks.headline import limit_words, measured_words, note, sentence
from traceanalyzer.report.formats import Context
from traceanalyzer.text.visible import one_line, visible_lines
from traceanalyzer.text.words import bucket_words, duration, gain

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HARMLESS = SEVERITIES.index("info")
MOST_ROWS = 12


@dataclass(frozen=True)
class Case:
    """One test case; `failure` is type, message and text, `skipped` a reason."""

    name: str
    failure: tuple[str, str, str] | None = None
    skipped: str | None = None


def write_diff(diff: Diff, stream: TextIO, context: Context) -> None:
    """Write a case for each check of the gate; where none was asked for, for the step time and new findings."""
    checks = (context.gate or check_diff(diff, (), ("slower", "new-finding"))).checks
    rows = "\n".join(
        f"{bucket_words(row.bucket)}: {duration(row.base_ns)} → {duration(row.new_ns)}, {signed_duration(row.delta_ns)}"
        for row in diff.ledger[:MOST_ROWS]
    )
    text = f"{sentence(diff)}\n{rows}"
    cases = [_case(check, text, context.unsure) for check in checks]
    _write("traceanalyzer diff", cases, diff.new_ns / 1e9, stream)


def write(diagnosis: Diagnosis, stream: TextIO, context: Context) -> None:
    """Write a case for each rule, which fails where it found something that matters, and for each budget."""
    cases = []
    findings = {finding.rule: finding for finding in reversed(diagnosis.findings)}
    abstained: dict[str, str] = {}
    for outcome in diagnosis.outcomes:
        if outcome.kind != "explanation":
            abstained.setdefault(outcome.rule, "")
            if outcome.state == "abstained":
                abstained[outcome.rule] = outcome.detail or outcome.reason or "data not recorded"
    for rule in sorted(abstained.keys() | findings.keys()):
        finding = findings.get(rule)
        if finding is not None and SEVERITIES.index(finding.severity) > _HARMLESS:
            saving = f" (up to {gain(finding.saving_share)})" if finding.saving_share else ""
            cases.append(Case(rule, (finding.severity, f"{finding.title}{saving}", one_line(finding.message))))
        elif finding is None and abstained.get(rule):
            cases.append(Case(rule, skipped=abstained[rule]))
        else:
            cases.append(Case(rule))
    cases += [_case(check, "", None) for check in context.gate.checks] if context.gate else []
    longest_ns = max(map(step_ns, diagnosis.ledgers), default=0.0)
    _write("traceanalyzer diagnose", cases, longest_ns / 1e9, stream)


def _case(check: Check, text: str, unsure: str | None) -> Case:
    message = f"{check.name}: {check.state}; measured {measured_words(check)}; the limit: {limit_words(check)}"
    message += f"; {note(check)}" if note(check) else ""
    if check.state == FAILED or (check.state == UNSURE and unsure == "fail"):
        kind = (
            "slower" if check.unit in ("verdict", "change") else "new-finding" if check.unit == "findings" else "budget"
        )
        return Case(check.name, (kind, message, text))
    if check.state in (UNSURE, NOT_JUDGED) and not (check.state == UNSURE and unsure == "pass"):
        return Case(check.name, skipped=message)
    return Case(check.name)


def _write(name: str, cases: Sequence[Case], seconds: float, stream: TextIO) -> None:
    counts = {"tests": str(len(cases)), "failures": str(sum(case.failure is not None for case in cases)), "errors": "0"}
    root = ET.Element("testsuites", counts)
    skipped = str(sum(case.skipped is not None for case in cases))
    # Times are those of tests, which take none here: the step's is a property.
    suite = ET.SubElement(root, "testsuite", {"name": name, **counts, "skipped": skipped, "time": "0"})
    step = {"name": "step time in seconds", "value": f"{seconds:.9f}"}
    ET.SubElement(ET.SubElement(suite, "properties"), "property", step)
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", {"name": _legal(case.name), "classname": name.replace(" ", "."), "time": "0"}
        )
        if case.failure is not None:
            kind, message, text = case.failure
            failure = ET.SubElement(element, "failure", {"type": kind, "message": _legal(message)})
            failure.text = _legal(text)
        elif case.skipped is not None:
            ET.SubElement(element, "skipped", {"message": _legal(case.skipped)})
    ET.indent(root)
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    stream.write(ET.tostring(root, encoding="unicode"))
    stream.write("\n")


def _legal(text: str) -> str:
    """Return a text that XML 1.0 can hold and that steers nobody, secrets masked."""
    return _ILLEGAL.sub("�", visible_lines(text))
