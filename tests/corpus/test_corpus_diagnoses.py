"""Real traces: the diagnosis of each is the one that was reviewed, finding by finding.

The files beside this one (golden/corpus_diagnoses) hold what a performance engineer who looked at the trace expects of
it, with a sentence why each finding is right, and which rules are rightly silent. `--golden` renews their numbers and
keeps the sentences; what is new comes in with UNREVIEWED, which fails until somebody has judged it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.report.json import document
from traceanalyzer.rules.rule_file.model import EXPERIMENTAL
from traceanalyzer.rules.rule_set.loading import load_rules

GOLDEN = Path(__file__).parents[1] / "golden" / "corpus_diagnoses"
UNREVIEWED = "UNREVIEWED"
# Bounds may move by this much of the window when attribution learns something; beyond it somebody should look.
BOUND_TOLERANCE = 0.02
EXPECTED = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(GOLDEN.glob("*.yaml"))}


@pytest.fixture(scope="module")
def schema(root: Path) -> dict[str, Any]:
    """The schema that docs/json.md documents."""
    loaded: dict[str, Any] = json.loads((root / "docs" / "diagnosis.schema.json").read_text(encoding="utf-8"))
    return loaded


@pytest.mark.gate
@pytest.mark.parametrize("name", EXPECTED)
def test_diagnosis_is_the_reviewed_one(
    name: str, corpus: Path, schema: dict[str, Any], diagnosis_of: Callable[[Path], Diagnosis], golden: bool
) -> None:
    expected = EXPECTED[name]
    diagnosis = diagnosis_of(corpus / expected["trace"])
    check_document(document(diagnosis), schema)
    if golden:
        renew(name, expected, diagnosis)
        return
    told = [summary(finding) for finding in diagnosis.findings]
    assert [without_numbers(item) for item in told] == [without_numbers(item) for item in expected["findings"]]
    for item, wanted in zip(told, expected["findings"], strict=True):
        assert item.get("saving") == pytest.approx(wanted.get("saving"), abs=BOUND_TOLERANCE), item["rule"]
    looked = {outcome.rule for outcome in diagnosis.outcomes}
    for item in expected.get("silent", []):
        assert item["rule"] not in {finding["rule"] for finding in told}, item
        assert item["rule"] in looked, item


def test_every_finding_of_a_real_trace_was_reviewed() -> None:
    for name, expected in EXPECTED.items():
        for item in [*expected["findings"], *expected.get("silent", [])]:
            assert item["why_right"] != UNREVIEWED, (name, item["rule"])
            assert len(item["why_right"].split()) >= 4, (name, item["rule"])


def test_a_rule_that_a_reviewed_diagnosis_shows_is_not_experimental() -> None:
    shown = {item["rule"] for expected in EXPECTED.values() for item in expected["findings"]}
    shown |= {
        rule for expected in EXPECTED.values() for item in expected["findings"] for rule in item.get("explained_by", [])
    }
    assert [rule.id for rule in load_rules() if rule.status == EXPERIMENTAL and rule.id in shown] == []


def test_every_trace_of_the_corpus_has_a_reviewed_diagnosis(corpus: Path) -> None:
    traces = {str(path.relative_to(corpus)) for kind in ("kineto", "nsys") for path in (corpus / kind).iterdir()}
    assert traces == {expected["trace"] for expected in EXPECTED.values()}


def check_document(told: dict[str, Any], schema: dict[str, Any]) -> None:
    """Hold the JSON report of a diagnosis to its schema, and what adds up in it to its sum."""
    jsonschema.validate(told, schema)
    json.dumps(told, allow_nan=False)
    for ledger in [*told["ledgers"], *([told["run_ledger"]] if told["run_ledger"] else [])]:
        assert sum(bucket["dur_ns"] for bucket in ledger["buckets"]) == ledger["window_ns"]
    for plan in told["plans"]:
        left_ns = plan["window_ns"]
        for fix in plan["fixes"]:
            left_ns -= fix["saving_ns"]
            assert fix["left_ns"] == left_ns
    claimed = {finding["rule"] for finding in told["findings"] if finding["marginal_ns"] is not None}
    assert claimed == {fix["rule"] for plan in told["plans"] for fix in plan["fixes"]}


def summary(finding: Finding) -> dict[str, Any]:
    """Return what a golden file keeps of a finding."""
    place = {"rank": finding.rank, "device": finding.device, "ranks": list(finding.same_on_ranks)}
    told: dict[str, Any] = {
        "rule": finding.rule,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "status": finding.status,
        **{name: value for name, value in place.items() if value not in (None, [])},
    }
    if finding.saving_share is not None:
        told["saving"] = round(finding.saving_share, 3)
    if finding.explanations:
        told["explained_by"] = [item.rule for item in finding.explanations]
    return told


def without_numbers(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("saving", "why_right")}


def renew(name: str, expected: dict[str, Any], diagnosis: Diagnosis) -> None:
    """Rewrite a golden file with what is told now, and the sentences of the findings that it already had."""
    reasons: dict[str, list[str]] = {}
    for item in expected["findings"]:
        reasons.setdefault(item["rule"], []).append(item["why_right"])
    findings = []
    for finding in diagnosis.findings:
        known = reasons.get(finding.rule, [])
        # Where a rule is told of several places, each has its own sentence, in order.
        why = known.pop(0) if known else UNREVIEWED
        findings.append({**summary(finding), "why_right": why})
    document = {**expected, "findings": findings}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=118)
    (GOLDEN / f"{name}.yaml").write_text(text, encoding="utf-8")
