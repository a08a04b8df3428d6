"""Several recordings of one rank are no ranks and no GPUs of their own: names of one process, ranks, times."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import rewritten_trace as rewritten
from click.testing import CliRunner
from conftest import ROOT
from rewritten_trace import Document

from traceanalyzer.cli import cli
from traceanalyzer.report import formats
from traceanalyzer.run import open_run
from traceanalyzer.simulator import simulate_job

DATA = ROOT / "tests" / "data"
CYCLES, TWO_CYCLES = DATA / "device" / "cycles", DATA / "recordings" / "default_names_two_cycles"
TWICE = {"ranks": 2, "steps": 3, "kernels": 6, "comm_us": 400}
DAY_US = 86_400e6


def recordings(path: Path | list[Path], store: Path) -> list[tuple[Any, ...]]:
    with open_run(path, store=store, attribution=False) as run:
        return run.sql(
            "FROM recordings SELECT rank_id, recording, recording_count, known_by, is_overlapping"
        ).fetchall()


def first_screen(path: Path | list[Path], store: Path) -> str:
    stream = io.StringIO()
    with open_run(path, store=store, with_settings=False) as run:
        formats.write_diagnosis(run.diagnose(), "markdown", stream)
    return stream.getvalue()


def later(document: Document, us: float) -> Document:
    events = [event | {"ts": event["ts"] + us} if "ts" in event else event for event in document["traceEvents"]]
    return {**document, "traceEvents": events}


def of_process(document: Document, pid: int) -> Document:
    events = [event | {"pid": pid} if event.get("pid") == 4242 else event for event in document["traceEvents"]]
    return {**document, "traceEvents": events}


@pytest.fixture
def trace() -> Document:
    return rewritten.read(ROOT / "sample_traces" / "launch_bound" / "rank0.json.gz")


def test_cycles_of_one_process_are_recordings_of_one_rank(tmp_path: Path) -> None:
    assert recordings(CYCLES, tmp_path / "store") == [(0, n, 3, "name", False) for n in (1, 2, 3)]
    screen = first_screen(CYCLES, tmp_path / "store")
    assert "one process, recorded 3 times" in screen
    assert "GPU busy with compute 12.6 % to 16.3 % of each step, in 3 recordings" in screen
    assert "are not the ranks of one run" not in screen


def test_recordings_of_one_process_do_not_meet_in_collectives(tmp_path: Path) -> None:
    with open_run(TWO_CYCLES, store=tmp_path) as run:
        assert run.sql("SELECT max(present_count) FROM attribution.collective_members").fetchall() == [(1,)]
        assert run.sql("SELECT count(*) FROM ledger_rows WHERE bucket = 'dev.straggler_wait'").fetchall() == [(0,)]
        assert "show the same time" in formats_of(run)


def formats_of(run: Any) -> str:
    stream = io.StringIO()
    formats.write_diagnosis(run.diagnose(), "markdown", stream)
    return stream.getvalue()


@pytest.mark.parametrize("apart_us", [DAY_US, 60e6])
def test_files_of_one_device_at_different_times_are_recordings(
    apart_us: float, trace: Document, tmp_path: Path
) -> None:
    rewritten.write(trace, tmp_path / "run" / "first.json.gz")
    rewritten.write(later(trace, apart_us), tmp_path / "run" / "second.json.gz")
    assert recordings(tmp_path / "run", tmp_path / "store") == [(0, n, 2, "times", False) for n in (1, 2)]
    assert "look like" not in first_screen(tmp_path / "run", tmp_path / "store")


def test_files_of_one_device_at_one_time_are_not(trace: Document, tmp_path: Path) -> None:
    rewritten.write(trace, tmp_path / "run" / "first.json.gz")
    rewritten.write(later(trace, 1_000), tmp_path / "run" / "second.json.gz")
    assert [row[2] for row in recordings(tmp_path / "run", tmp_path / "store")] == [1, 1]


def test_two_runs_are_said_with_the_command_that_compares_them(trace: Document, tmp_path: Path) -> None:
    a = rewritten.write(trace, tmp_path / "a" / "rank0.json.gz")
    b = rewritten.write(of_process(later(trace, 60e6), 5000), tmp_path / "b" / "rank0.json.gz")
    screen = " ".join(first_screen([a, b], tmp_path / "store").replace("\\", "").split())
    assert "2 processes made the recordings of one rank, so they look like 2 runs" in screen
    assert f"traceanalyzer diff {a} {b}" in screen


def test_ranks_that_were_recorded_twice_meet_in_each_session(tmp_path: Path) -> None:
    # rank 0  [first]          [second]
    # rank 1  [first]          [second]
    for rank, file in enumerate(simulate_job(TWICE).write_kineto(tmp_path / "job")):
        document = rewritten.read(file)
        for at, name in enumerate(("first", "second")):
            rewritten.write(later(document, at * 60e6), tmp_path / "run" / name / f"rank{rank}.json.gz")
    assert recordings(tmp_path / "run", tmp_path / "store") == [
        (0, 1, 2, "rank", False),
        (0, 2, 2, "rank", False),
        (2, 1, 2, "rank", False),
        (2, 2, 2, "rank", False),
    ]
    with open_run(tmp_path / "run", store=tmp_path / "store") as run:
        met = run.sql("""
            SELECT match_id, count(DISTINCT recordings.rank_id), count(DISTINCT recordings.session)
            FROM attribution.collective_members JOIN recordings USING (trace_id) GROUP BY match_id
        """).fetchall()
        assert {row[1:] for row in met} == {(2, 1)}
        assert "ranks 0, 1 of 2, recorded 2 times" in formats_of(run).replace("\\", "")


def test_diff_takes_the_recordings_of_a_folder_as_captures(tmp_path: Path) -> None:
    command = ["diff", str(CYCLES), str(CYCLES), "--store", str(tmp_path), "--format", "json"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    assert [len(json.loads(result.stdout)[side]) for side in ("base", "new")] == [3, 3]
