"""Findings as SARIF 2.1.0, which code hosts show beside the lines of code that they are about."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TextIO
from urllib.parse import quote

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.gate import FAILED, Check
from traceanalyzer.comparison.verification import FindingChange
from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.report.diff_blocks.headline import limit_words, measured_words
from traceanalyzer.report.formats import Context
from traceanalyzer.settings.settings import FILE_NAME
from traceanalyzer.text.visible import write_json
from traceanalyzer.text.words import gain, percent
from traceanalyzer.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
# What GitHub shows of a run.
MOST_RESULTS = 5_000
_LEVELS = {"blocker": "error", "critical": "error", "high": "error", "medium": "warning", "warning": "warning"}
# A Python frame as the PyTorch profiler writes it: train.py(42): step
_FRAME = re.compile(r"^(?P<file>[^<>\n]+\.py)\((?P<line>\d+)\): (?P<function>.+)$")
_BUDGET = "budget"
_BASELINE_STATES = {"new": "new", "gone": "absent"}


def write(diagnosis: Diagnosis, stream: TextIO, context: Context) -> None:
    """Write the findings of a diagnosis; frames in files below the source root become lines of code."""
    root = context.source_root
    if root is None:  # that of the repository
        folders = (Path.cwd(), *Path.cwd().parents)
        root = next((folder for folder in folders if (folder / ".git").exists()), None)
    results = [_result(finding, root) for finding in diagnosis.findings]
    results += [_result(item, root) | {"suppressions": [{"kind": "external"}]} for item in diagnosis.suppressed]
    rules = {item.rule: _rule(item) for item in (*diagnosis.findings, *diagnosis.suppressed)}
    broken = [check for check in (context.gate.checks if context.gate else ()) if check.state == FAILED]
    if broken:
        results = [_broken(check) for check in broken] + results
        rules[_BUDGET] = {"id": _BUDGET, "shortDescription": {"text": "A budget of the project is exceeded"}}
    _write(results[:MOST_RESULTS], rules, stream)


def write_diff(diff: Diff, stream: TextIO, _: Context) -> None:
    """Write the findings of both sides, with what became of them as `baselineState`."""
    changes = diff.findings[:MOST_RESULTS]
    rules = {item.rule: {"id": item.rule, "shortDescription": {"text": item.title}} for item in changes}
    _write([_changed(item) for item in changes], rules, stream)


def _write(results: Sequence[dict[str, Any]], rules: Mapping[str, dict[str, Any]], stream: TextIO) -> None:
    order = {rule: at for at, rule in enumerate(sorted(rules))}
    driver = {"name": "traceanalyzer", "version": __version__, "rules": [rules[rule] for rule in order]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [result | {"ruleIndex": order[result["ruleId"]]} for result in results],
    }
    write_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, stream)


def _rule(finding: Finding) -> dict[str, Any]:
    pages = [address for address in finding.references if address.startswith("https://")]
    rule: dict[str, Any] = {"id": finding.rule, "shortDescription": {"text": finding.title}}
    if finding.why:
        rule["fullDescription"] = {"text": finding.why}
    return rule | ({"helpUri": pages[0]} if pages else {})


def _result(finding: Finding, source_root: Path | None) -> dict[str, Any]:
    frame = next(_frames(finding, source_root), None)
    where = _settings_file()
    if frame is not None:
        file, line, _ = frame
        where = {
            "physicalLocation": {
                "artifactLocation": {"uri": file, "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": line},
            }
        }
    names = [finding.trace or "run", *([] if finding.device is None else [f"device {finding.device}"])]
    where["logicalLocations"] = [{"fullyQualifiedName": "/".join(names), "kind": "module"}]
    place = "run" if finding.trace is None else "rank" if finding.device is None else "device"
    key = (finding.rule, place, *((frame[0], frame[2]) if frame else ("", "")))
    says_it = re.search(r"\bsaves? up to\b", finding.message)
    saving = f" Fixing it saves up to {percent(finding.saving_share)}." if finding.saving_share and not says_it else ""
    return {
        "ruleId": finding.rule,
        "level": _LEVELS.get(finding.severity, "note"),
        "message": {"text": f"{finding.message}{saving}"},
        "locations": [where],
        "partialFingerprints": {"finding/v1": _hash(key)},
        "properties": {"severity": finding.severity, "confidence": finding.confidence},
    }


def _changed(item: FindingChange) -> dict[str, Any]:
    shares = [gain(share) if share else "nothing" for share in (item.base_share, item.new_share)]
    return {
        "ruleId": item.rule,
        "level": _LEVELS.get(item.severity, "note"),
        "message": {"text": f"{item.title}: {item.state}; promised saving {shares[0]} before, {shares[1]} now."},
        "locations": [_settings_file()],
        "baselineState": _BASELINE_STATES.get(item.state, "unchanged"),
        "partialFingerprints": {"finding/v1": _hash((item.rule, "", "", ""))},
        "properties": {"severity": item.severity, "state": item.state},
    }


def _broken(check: Check) -> dict[str, Any]:
    return {
        "ruleId": _BUDGET,
        "level": "error",
        "message": {"text": f"{check.name}: {measured_words(check)}; the limit: {limit_words(check)}."},
        "locations": [_settings_file()],
        "partialFingerprints": {"finding/v1": _hash((_BUDGET, check.name))},
    }


def _settings_file() -> dict[str, Any]:
    """Return where a finding stands that no line of code is known for: hosts show nothing without a file."""
    location = {"uri": FILE_NAME, "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": location, "region": {"startLine": 1}}}


def _frames(finding: Finding, source_root: Path | None) -> Iterator[tuple[str, int, str]]:
    """Yield file, line and function of the Python frames in a finding's evidence whose files lie below a folder.

    Recorded paths are of the machine that recorded: the longest ending that exists below the folder counts.
    """
    if source_root is None:
        return
    root = source_root.resolve()
    cells = [cell for table in finding.evidence for row in table.rows for cell in row if isinstance(cell, str)]
    for cell in cells:
        found = _FRAME.match(cell.strip())
        if found is None or int(found["line"]) < 1:
            continue
        parts = [part for part in PurePosixPath(found["file"].replace("\\", "/")).parts if part not in ("/", "..")]
        for start in range(len(parts)):
            below = root.joinpath(*parts[start:])
            if below.is_file() and below.resolve().is_relative_to(root):
                yield quote(PurePosixPath(*parts[start:]).as_posix()), int(found["line"]), found["function"]
                break


def _hash(key: Sequence[str]) -> str:
    """Return what stays the same when numbers change or a line moves."""
    return hashlib.blake2b("\n".join(key).encode(errors="replace"), digest_size=16).hexdigest()
