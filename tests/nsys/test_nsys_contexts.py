"""Contexts in exports: which there are, and what the profiler's own records tell about their creation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from nsys_export import STRINGS, Rows, global_tid, ingest, launched

from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS
from tracesim import simulate

CREATED, MANAGED = "CUDA profiling data flush on context created", "CUPTI: Resource Management"
TEXTS: Rows = [*STRINGS, {"id": 100, "value": CREATED}, {"id": 101, "value": MANAGED}]


def noted(*records: tuple[int, str]) -> list[dict[str, Any]]:
    names = {CREATED: 100, MANAGED: 101}
    return [
        {"start": at, "end": at + 5, "globalTid": global_tid(10), "nameId": names[name], "overheadType": 1}
        for at, name in records
    ]


def created(folder: Path, contexts: Sequence[int], *records: tuple[int, str]) -> list[tuple[int, int, int | None]]:
    rows = [{"processId": 10, "contextId": context, "deviceId": context - 1} for context in contexts]
    tables = {**launched(1), "StringIds": TEXTS, "TARGET_INFO_CUDA_CONTEXT_INFO": rows}
    if records:
        tables["PROFILER_OVERHEAD"] = noted(*records)
    return [(row["context"], row["device"], row["created_ns"]) for row in ingest(folder, tables).rows("contexts")]


@pytest.mark.check
def test_each_context_has_the_instant_that_the_profiler_noted(tmp_path: Path) -> None:
    assert created(tmp_path, [1, 2], (40, MANAGED), (50, CREATED), (70, CREATED)) == [(1, 0, 50), (2, 1, 70)]


def test_older_versions_tell_it_of_one_context_by_what_cupti_did(tmp_path: Path) -> None:
    assert created(tmp_path, [1], (40, MANAGED), (45, MANAGED)) == [(1, 0, 40)]


def test_nothing_is_told_where_it_is_not_known_which_context_was_meant(tmp_path: Path) -> None:
    assert created(tmp_path, [1, 2], (50, CREATED)) == [(1, 0, None), (2, 1, None)]


def test_contexts_from_before_the_recording_have_no_instant(tmp_path: Path) -> None:
    assert created(tmp_path, [1]) == [(1, 0, None)]


@pytest.mark.check
def test_a_simulated_program_says_that_its_context_takes_longer_than_its_work(tmp_path: Path) -> None:
    program = [{"first": {"steps": 1}, "do": [{"context": {"us": 150_000}}]}, {"repeat": 20, "do": [{"kernel": 100}]}]
    simulate({"steps": 5, "program": program}, seed=4).write_nsys(tmp_path / "program.sqlite")
    with open_run(tmp_path / "program.sqlite", store=tmp_path / "store", jobs=1) as run:
        diagnosis = run.diagnose(settings=NO_SETTINGS)
    note = next(finding for finding in diagnosis.findings if finding.rule == "tq-setup-before-gpu")
    assert "creating a context takes 151.0 ms in cudaMalloc" in note.message
