"""Reports and exports of real traces for other programs: each follows its schema."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import corpus_runs
from report_schemas import check_document, junit_root, sarif_results

from traceanalyzer.cli import cli
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.report import formats

# jsonschema takes a second for so many events of a profile; the first of each are held to the schema, and all to order.
MOST_EVENTS = 200


def written(diagnosis: Diagnosis, format_: str) -> str:
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, format_, stream)
    return stream.getvalue()


@pytest.mark.check
@pytest.mark.parametrize("path", list(corpus_runs()), ids=lambda path: path.name)
def test_reports_of_a_real_trace_follow_their_schemas(
    path: Path, tmp_path: Path, store_of: Callable[[Path], Path], diagnosis_of: Callable[[Path], Diagnosis]
) -> None:
    diagnosis = diagnosis_of(path)
    check_document(json.loads(written(diagnosis, "json")), "diagnosis")
    assert {item["ruleId"] for item in sarif_results(written(diagnosis, "sarif"))} == {
        finding.rule for finding in (*diagnosis.findings, *diagnosis.suppressed)
    }
    failed = [case.get("name") for case in junit_root(written(diagnosis, "junit")).iter("testcase") if len(case)]
    assert {finding.rule for finding in diagnosis.findings if finding.severity in ("high", "critical")} <= set(failed)
    target = tmp_path / "a.json"
    arguments = ["export", "speedscope", str(path), "-o", str(target), "-q", "--store", str(store_of(path))]
    answer = CliRunner().invoke(cli, arguments)
    assert answer.exit_code == 0, answer.output
    check_profile(json.loads(target.read_text(encoding="utf-8")))


def check_profile(document: Any) -> None:
    """Hold a profile for speedscope to its schema, and all of its events to their order."""
    frames = len(document["shared"]["frames"])
    for profile in document["profiles"]:
        stack: list[int] = []
        at = profile["startValue"]
        for event in profile["events"]:
            assert event["at"] >= at and event["frame"] < frames
            at = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert stack == [] and at <= profile["endValue"]
        del profile["events"][MOST_EVENTS:]
    del document["shared"]["frames"][MOST_EVENTS:]
    check_document(document, "speedscope-1.25.0")
