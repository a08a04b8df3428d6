"""A small run is diagnosed alike from memory and from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.query import engine
from traceanalyzer.query.canonical import copy_run
from traceanalyzer.report.json import document
from traceanalyzer.run import open_run
from tracesim import simulate_job

RUN = {"ranks": 2, "steps": 3, "kernels": 20, "comm_us": 400, "shapes": True, "stacks": True}


def diagnosed(run: Path, store: Path) -> dict[str, Any]:
    with open_run(run, store=store, with_settings=False) as opened:
        return document(opened.diagnose())


@pytest.mark.check
def test_tables_in_memory_and_files_give_the_same_diagnosis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_job(RUN).write_kineto(tmp_path / "run")
    copied: list[Path] = []

    def noted(*parts: Any) -> None:
        copied.append(parts[2])
        copy_run(*parts)

    monkeypatch.setattr(engine, "copy_run", noted)
    from_memory = diagnosed(tmp_path / "run", tmp_path / "first")
    assert copied
    monkeypatch.setattr(engine, "is_small", lambda *run: False)
    assert diagnosed(tmp_path / "run", tmp_path / "second") == from_memory
