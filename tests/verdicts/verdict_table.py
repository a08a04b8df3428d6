"""Hold the diagnosis of each real trace against its label, and count how often each confidence was right.

A label (verdicts/*.yaml) was written from the raw file. `leads` names the rules of which one must be the first finding
that saves time, or `state` the states that the verdict may have; `required` and `welcome` name more findings that are
right, `never` rules and phrases that are not. A row of the table is

    right   the lead, all that is required, and no fact or bound off
    partly  something right, but not in front, not all of it, or a number off
    wrong   something that must never be said, or a leading finding that the label does not know
    missed  nothing about the main thing
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from conftest import corpus_path

from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.diagnosis.verdict import judge, leading_finding, problems
from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "RESULTS.md"
OUTCOMES = ("right", "partly", "wrong", "missed")
CONFIDENCES = ("high", "medium", "low")


@dataclass(frozen=True)
class Row:
    """What became of one trace."""

    trace: str
    outcome: str
    lead: str
    remarks: tuple[str, ...]
    # confidence of each finding that the label knows, and whether it is right
    judged: tuple[tuple[str, bool], ...]


def labels() -> dict[str, dict[str, Any]]:
    """Return the labels by the trace's path below the corpus."""
    read = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml")))
    return {label["trace"]: label for label in read}


def rows(corpus: Path) -> list[Row]:
    """Diagnose every labelled trace, each in a store of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return [row(label, diagnosed(corpus / name, Path(folder) / name)) for name, label in labels().items()]


def diagnosed(path: Path, store: Path) -> Diagnosis:
    """Return what the rules that ship say of a trace; all tests share it."""
    with open_run(path, store=store) as run:
        return run.diagnose(settings=NO_SETTINGS)


def row(label: Mapping[str, Any], diagnosis: Diagnosis) -> Row:
    """Hold one diagnosis against its label."""
    state = judge(diagnosis).state
    leading = leading_finding(diagnosis)
    lead = leading.rule if leading else state
    said = {finding.rule for finding in diagnosis.findings}
    leads = set(label.get("leads", ()))
    right = leads | set(label.get("required", ())) | set(label.get("welcome", ()))
    absent = [f"{name} is absent" for name in label.get("required", ()) if name not in said]
    banned = [f"says {item}" for item in forbidden(label, diagnosis)]
    off = [*facts_off(label, diagnosis), *bounds_broken(label, diagnosis)]
    stated = state in label.get("state", ())
    if banned or (leading and not stated and lead not in right):
        outcome = "wrong"
    elif (stated or lead in leads) and not absent and not off:
        outcome = "right"
    elif stated or said & right:
        outcome = "partly"
    else:
        outcome = "missed"
    wanted = " or ".join([*label.get("leads", ()), *label.get("state", ())])
    misplaced = [] if stated or lead in leads else [f"{wanted} does not lead"]
    return Row(label["trace"], outcome, lead, (*banned, *misplaced, *absent, *off), tuple(judged(label, diagnosis)))


def judged(label: Mapping[str, Any], diagnosis: Diagnosis) -> Iterable[tuple[str, bool]]:
    """Yield the confidence of every finding about the program that the label calls right or wrong."""
    right = {*label.get("leads", ()), *label.get("required", ()), *label.get("welcome", ())}
    wrong = {item["rule"] for item in label.get("never", ()) if "rule" in item}
    for finding in problems(diagnosis):
        if finding.rule in right | wrong:
            yield finding.confidence, finding.rule in right


def forbidden(label: Mapping[str, Any], diagnosis: Diagnosis) -> list[str]:
    """Return the rules and phrases that must never be said and are."""
    rules = {finding.rule for finding in diagnosis.findings}
    words = " ".join([judge(diagnosis).sentence, *map(_words, diagnosis.findings)]).casefold()
    found = (item.get("rule") in rules or item.get("phrase", "\0").casefold() in words for item in label["never"])
    return [
        item.get("rule") or repr(item["phrase"]) for item, there in zip(label["never"], found, strict=True) if there
    ]


def _words(finding: Finding) -> str:
    return " ".join([finding.title, finding.message, finding.why, *(fix.text for fix in finding.fixes)])


def facts_off(label: Mapping[str, Any], diagnosis: Diagnosis) -> list[str]:
    """Return the facts with a number in the report that lies too far from the raw file's."""
    found = []
    for fact in label["facts"]:
        if "told" in fact:
            number = told(fact["told"], diagnosis)
            if abs(number - fact["value"]) > fact["tolerance"]:
                found.append(f"{fact['told']} {number:.4g} instead of {fact['value']:g}")
    return found


def told(what: str, diagnosis: Diagnosis) -> float:
    """Return a number of the report; of several devices the largest, counts are of all."""
    match what:
        case "gpu_ops":
            return sum(trace.gpu_op_count for trace in diagnosis.traces)
        case "window_ms":
            return max((ledger.window_ns for ledger in diagnosis.ledgers), default=0) / 1e6
        case "steps":
            return max((ledger.step_count for ledger in diagnosis.ledgers), default=0)
        case "compute_share":
            shares = (dict(ledger.buckets).get("compute", 0) / ledger.window_ns for ledger in diagnosis.ledgers)
            return max(shares, default=0.0)
    raise ValueError(what)


def bounds_broken(label: Mapping[str, Any], diagnosis: Diagnosis) -> list[str]:
    """Return the fixes that saved more, measured after they were made, than the report says they save at most."""
    found = []
    for pair in label.get("pairs", ()):
        bounds = [
            finding.saving_share
            for finding in diagnosis.findings
            if finding.rule == pair["rule"]
            and finding.saving_share is not None
            and pair["file"] in (finding.trace, *finding.same_on_traces)
        ]
        if bounds and max(bounds) < pair["measured_saving_share"]:
            found.append(f"{pair['rule']} {max(bounds):.3f} at most, {pair['measured_saving_share']:.3f} measured")
    return found


def table(found: list[Row]) -> str:
    """Return the table of verdicts/RESULTS.md."""
    counts = Counter(item.outcome for item in found)
    lines = [
        "# Verdicts on real traces",
        "",
        "`make verdicts` rewrites this page. Labels were written from the raw files; what counts as right is said in",
        "`tests/verdicts/verdict_table.py`. `make check` holds the outcomes: none may get worse.",
        "",
        f"| traces | {' | '.join(OUTCOMES)} |",
        "|---:|---:|---:|---:|---:|",
        f"| {len(found)} | {' | '.join(str(counts[name]) for name in OUTCOMES)} |",
        "",
        "| confidence | findings that labels name | right | share |",
        "|---|---:|---:|---:|",
    ]
    for confidence in CONFIDENCES:
        marks = [right for item in found for name, right in item.judged if name == confidence]
        share = f"{sum(marks) / len(marks):.0%}" if marks else "–"
        lines.append(f"| {confidence} | {len(marks)} | {sum(marks)} | {share} |")
    lines += ["", "| trace | outcome | leads or state | remarks |", "|---|---|---|---|"]
    lines += [f"| {item.trace} | {item.outcome} | {item.lead} | {'; '.join(item.remarks)} |" for item in found]
    return "\n".join(lines) + "\n"


def outcomes(text: str) -> dict[str, str]:
    """Read the outcome of each trace back from the table."""
    cells = (
        line.strip("| ").split(" | ")
        for line in text.splitlines()
        if line.startswith(("| kineto/", "| more/", "| nsys/"))
    )
    return {row[0]: row[1] for row in cells}


if __name__ == "__main__":
    sys.stdout.write(table(rows(corpus_path())))
