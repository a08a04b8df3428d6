"""Every file that `make fuzz` once found a fault with ends in a result or in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fuzz.__main__ import seeds
from fuzz.trying import fault_of

from traceanalyzer.pipeline.finding import STORE_NAME

CRASHERS = sorted(
    path for path in (Path(__file__).parents[1] / "crashers").glob("*") if path.suffix in (".json", ".sqlite")
)


@pytest.mark.check
@pytest.mark.parametrize("path", CRASHERS, ids=lambda path: path.name)
def test_what_once_failed_is_taken(path: Path) -> None:
    assert fault_of(path.read_bytes(), f"trace{path.suffix}", whole=True) is None


def test_stores_beside_the_traces_are_not_mutated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = tmp_path / "corpus"
    record = corpus / STORE_NAME / "sources" / "a.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"folder": "a"}))
    monkeypatch.setenv("TRACEANALYZER_CORPUS", str(tmp_path / "none"))
    wanted = seeds(tmp_path)
    monkeypatch.setenv("TRACEANALYZER_CORPUS", str(corpus))
    assert seeds(tmp_path) == wanted
