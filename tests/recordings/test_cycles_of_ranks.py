"""Several ranks with several cycles each, in one folder under the default names of PyTorch's handler."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import rewritten_trace as rewritten
from click.testing import CliRunner

from traceanalyzer.cli import cli
from traceanalyzer.run import open_run
from tracesim import simulate, simulate_job

pytestmark = pytest.mark.check

JOB = {"ranks": 2, "steps": 3, "kernels": 6, "comm_us": 400}
MINUTE_US = 60e6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cycles(tmp_path, JOB)


def write_cycles(tmp_path: Path, job: dict[str, Any]) -> Path:
    """Write 2 ranks, each a process of its own, in 2 cycles a minute apart."""
    for rank, file in enumerate(simulate_job(job).write_kineto(tmp_path / "job")):
        document = rewritten.read(file)
        for cycle in range(2):
            events = [
                event
                | {"pid": 5000 + rank if event.get("pid") == 4242 else event.get("pid")}
                | ({"ts": event["ts"] + cycle * MINUTE_US} if "ts" in event else {})
                for event in document["traceEvents"]
            ]
            name = f"node1_{5000 + rank}.17640000{cycle:02}000000{rank:03}.pt.trace.json.gz"
            rewritten.write({**document, "traceEvents": events}, tmp_path / "run" / name)
    return tmp_path / "run"


def asked(*words: str | Path) -> str:
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_each_rank_is_one_rank_recorded_twice(folder: Path, tmp_path: Path) -> None:
    with open_run(folder, store=tmp_path / "store") as run:
        assert run.sql("SELECT rank, count(*) FROM traces GROUP BY rank ORDER BY rank").fetchall() == [(0, 2), (1, 2)]
        met = run.sql("""
            SELECT match_id, count(DISTINCT recordings.rank_id), count(DISTINCT recordings.session)
            FROM attribution.collective_members JOIN recordings USING (trace_id) GROUP BY match_id
        """).fetchall()
        assert met
        assert {row[1:] for row in met} == {(2, 1)}


def test_every_command_counts_two_ranks(folder: Path, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "store")
    assert "2 of 2" in asked("info", folder, *store)
    page = tmp_path / "page.html"
    for screen in (
        asked("diagnose", folder, *store),
        asked("diagnose", folder, *store, "-o", page) or page.read_text(),
    ):
        assert "recorded 2 times" in screen
        assert "rank 2" not in screen
        assert "have several traces" not in screen
    found = json.loads(asked("diff", folder, folder, *store, "--format", "json", "-q"))
    assert [len(found[side]) for side in ("base", "new")] == [2, 2]


def test_a_rank_that_lacks_a_cycle_meets_the_others_in_the_cycle_that_it_has(folder: Path, tmp_path: Path) -> None:
    next(folder.glob("*_5001.1764000000*")).unlink()
    with open_run(folder, store=tmp_path / "store") as run:
        sessions = run.sql("SELECT rank, session FROM recordings ORDER BY rank, recording").fetchall()
        assert sessions == [(0, 1), (0, 2), (1, 2)]
        met = run.sql("""
            SELECT session, count(DISTINCT recordings.rank_id)
            FROM attribution.collective_members JOIN recordings USING (trace_id) GROUP BY session ORDER BY session
        """).fetchall()
        assert met == [(1, 1), (2, 2)]
    screen = " ".join(asked("diagnose", folder, "--store", tmp_path / "store").split())
    assert "Rank 1 was recorded in 1 of 2 cycles" in screen
    assert "ranks of different runs" not in screen


def test_the_late_rank_is_named_in_two_cycles_as_in_one(tmp_path: Path) -> None:
    job = JOB | {"steps": 6, "comm_us": 900, "faults": {"rank": 1, "loader_us": 9_000}}
    run = write_cycles(tmp_path, job)
    simulate_job(job).write_kineto(tmp_path / "once")
    found, expected = (
        json.loads(asked("diagnose", folder, "--store", tmp_path / f"store_{folder.name}", "--format", "json"))
        for folder in (run, tmp_path / "once")
    )
    one, other = (
        next(item for item in diagnosis["findings"] if item["rule"] == "comm-straggler-wait")
        for diagnosis in (found, expected)
    )
    assert (one["rank"], one["message"]) == (other["rank"], other["message"])
    assert one["saving_share"] == pytest.approx(other["saving_share"], abs=0.001)
    assert found["findings"][0]["rule"] == expected["findings"][0]["rule"]


def test_a_fix_saves_of_the_judged_cycle_what_it_saves_of_one_alone(tmp_path: Path) -> None:
    job = JOB | {"steps": 1, "comm_us": 900, "faults": {"rank": 1, "loader_us": 9_000}}
    folders = write_cycles(tmp_path, job), tmp_path / "once"
    for number, file in enumerate(simulate_job(job).write_kineto(tmp_path / "marked")):
        rewritten.write(rewritten.read(file), folders[1] / f"rank{number}.json.gz")
    found = []
    for folder in folders:
        for file in folder.iterdir():
            document = rewritten.read(file)
            unmarked = [item for item in document["traceEvents"] if "ProfilerStep" not in str(item.get("name"))]
            rewritten.write({**document, "traceEvents": unmarked}, file)
        report = json.loads(asked("diagnose", folder, "--store", tmp_path / f"store_{folder.name}", "--format", "json"))
        found.append([(item["rule"], item["run_saving_share"]) for item in report["findings"]])
    of_cycles, once = ([item for item in of_one if item[1]] for of_one in found)
    assert "comm-blocking" in dict(once)
    assert of_cycles == once


def test_a_cycle_without_the_late_rank_is_listed_and_blames_no_collective(tmp_path: Path) -> None:
    run = write_cycles(tmp_path, JOB | {"steps": 4, "comm_us": 900, "faults": {"rank": 1, "loader_us": 9_000}})
    next(run.glob("*_5001.1764000000*")).unlink()
    found = json.loads(asked("diagnose", run, "--store", tmp_path / "store", "--format", "json"))
    judged = {item["trace"]: item["is_judged"] for item in found["recordings"]}
    assert [judged[name] for name in sorted(judged)] == [False, True, True]
    shares = [(item["rule"], item["saving_share"]) for item in found["findings"] if item["kind"] == "finding"]
    assert shares[0][0] == "dataloader-bound"
    assert max(share for rule, share in shares if rule == "comm-blocking") < 0.3


def test_exports_of_one_rank_that_name_no_host_show_one_gpu(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for number in range(2):
        file = simulate({"steps": 4, "kernels": 6, "jitter": 0.1}, number).write_nsys(folder / f"rank0_{number}.sqlite")
        with contextlib.closing(sqlite3.connect(file)) as database:
            database.execute(f"UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + {number} * 60e9")
            database.commit()
    said = asked("info", folder, "--store", tmp_path / "store")
    assert "rank 0, recorded 2 times" in said
    assert "1 of 1" in said
    assert "both recordings" in said
