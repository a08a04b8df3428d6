"""Simulated tables that lie on disk are those that were simulated, by this very code."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
import simulated_tables
from simulated_tables import ROOT, remembered

from tracesim import simulate_job

WORKLOAD = json.dumps({"ranks": 2, "steps": 2, "kernels": 5, "comm_us": 100})


class Counted:
    """The simulator, and how often it was asked."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, sim: str) -> Mapping[str, pa.Table]:
        self.count += 1
        return simulate_job(json.loads(sim)).canonical_tables()


def test_tables_on_disk_are_those_that_were_simulated(tmp_path: Path) -> None:
    simulated = Counted()
    first, second = (remembered(simulated, tmp_path)(WORKLOAD) for _ in range(2))
    assert simulated.count == 1
    assert second == first
    remembered(simulated, tmp_path)(json.dumps({"steps": 2, "kernels": 5}))
    assert simulated.count == 2


def test_another_simulator_simulates_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Counted()
    remembered(simulated, tmp_path)(WORKLOAD)
    monkeypatch.setattr(simulated_tables, "code_hash", lambda: "of other code")
    (older,) = tmp_path.iterdir()
    remembered(simulated, tmp_path)(WORKLOAD)
    assert simulated.count == 2
    os.utime(older, (0, 0))
    remembered(simulated, tmp_path)
    assert [folder.name for folder in tmp_path.iterdir()] == ["of other code"]


def test_the_hash_covers_what_the_simulator_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hash_of(**files: str) -> str:
        monkeypatch.setattr(simulated_tables, "ROOT", tmp_path)
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".py").write_text(text)
        return simulated_tables.code_hash.__wrapped__()

    hashes = [hash_of(tracesim__job="a"), hash_of(tracesim__job="b"), hash_of(traceanalyzer__schema__tables="a")]
    assert len(set(hashes)) == 3
    assert hash_of(traceanalyzer__report__page="a") == hashes[-1]


def test_the_simulator_is_made_of_nothing_else() -> None:
    imports = re.compile(r"^\s*(?:from traceanalyzer\.(\w+)|from traceanalyzer import (\w+))", re.MULTILINE)
    # What runs rules on tables, and finds their mistakes, makes none.
    users = {"in_memory.py", "rule_tests.py", "rule_lint.py"}
    makers = (path for path in (ROOT / "tracesim").rglob("*.py") if path.name not in users)
    imported = {found for path in makers for found in imports.findall(path.read_text())}
    # Errors are raised, and are in no table.
    assert {one or other for one, other in imported} == {"errors", "schema"}
