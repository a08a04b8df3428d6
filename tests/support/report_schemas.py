"""The schemas of formats for programs: what a test holds a report against."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema.validators import validator_for
from tiers import needed

_TESTS = Path(__file__).parents[1]


def check_document(document: Any, name: str) -> None:
    """Hold a JSON document to one of our schemas in docs/, or to another program's in tests/schemas."""
    _validator(name).validate(document)


def sarif_results(text: str) -> list[dict[str, Any]]:
    """Return the results of a SARIF document that follows the schema of OASIS, each with its rule."""
    document = json.loads(text)
    check_document(document, "sarif-2.1.0")
    (run,) = document["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(ids[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    found: list[dict[str, Any]] = run["results"]
    return found


def junit_root(text: str) -> ET.Element:
    """Return the root of a JUnit document that follows the schema of Jenkins, and whose counts are right."""
    root = ET.fromstring(text)
    _junit_schema().validate(text)
    suite = root[0]
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
        assert suite.attrib[name] == str(sum(1 for _ in suite.iter(tag)))
    return root


@cache
def _validator(name: str) -> Any:
    ours = _TESTS.parent / "docs" / f"{name}.schema.json"
    file = ours if ours.exists() else _TESTS / "schemas" / f"{name}.json"
    schema = json.loads(file.read_text(encoding="utf-8"))
    return validator_for(schema)(schema)


@cache
def _junit_schema() -> Any:
    return needed("xmlschema").XMLSchema(_TESTS / "schemas" / "junit-10.xsd")
