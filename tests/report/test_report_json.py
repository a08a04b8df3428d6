"""The JSON report keeps to its schema and loses nothing."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from report_diagnoses import healthy, loader_finding, many_ranks, sick, without_gpu

from traceanalyzer.diagnosis import Diagnosis, Evidence
from traceanalyzer.report.json import document, write


@pytest.fixture(scope="module")
def schema(root: Path) -> dict[str, Any]:
    """The schema that docs/json.md documents."""
    loaded: dict[str, Any] = json.loads((root / "docs" / "diagnosis.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(loaded)
    return loaded


@pytest.mark.parametrize("diagnosis", [sick(), healthy(), many_ranks(), without_gpu()])
def test_document_keeps_to_its_schema(diagnosis: Diagnosis, schema: dict[str, Any]) -> None:
    jsonschema.validate(document(diagnosis), schema)


def test_every_field_of_a_diagnosis_is_in_the_document() -> None:
    assert {field.name for field in dataclasses.fields(Diagnosis)} <= document(sick()).keys()


def test_written_text_is_one_json_object_with_a_newline() -> None:
    stream = io.StringIO()
    write(sick(), stream)
    assert stream.getvalue().endswith("}\n")
    assert json.loads(stream.getvalue()) == document(sick())


def test_values_without_a_json_word_survive() -> None:
    import datetime
    from decimal import Decimal

    row = (float("nan"), float("inf"), Decimal(5), Decimal("0.5"), datetime.date(2026, 1, 2), b"\x01")
    odd = loader_finding(evidence=(Evidence("odd", tuple("abcdef"), (row,)),))
    finding = document(sick(findings=(odd,)))["findings"][0]
    assert finding["evidence"][0]["rows"] == [[None, None, 5, 0.5, "2026-01-02", "01"]]


def test_buckets_of_a_ledger_add_up_to_its_window() -> None:
    ledger = document(sick())["ledgers"][0]
    assert sum(bucket["dur_ns"] for bucket in ledger["buckets"]) == ledger["window_ns"]
