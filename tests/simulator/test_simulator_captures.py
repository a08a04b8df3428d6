"""Graphs captured before a run and replayed in it: operators of the capture are those that the simulator knows."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.run import open_run
from tracesim.job import SimulatedJob, simulate_job

_CLASSES = {"aten::mm": "gemm", "aten::add": "elementwise", "aten::mul": "elementwise", "aten::softmax": "softmax"}
# By kernel names where the profiler records these in a capture (HIP), else by their order alone.
_MATCHED_BY = {"H100": "order", "B200": "order", "MI300X": "name"}
_KNOWN = "SELECT rank, operator, input_shapes FROM graph_operators ORDER BY rank, position"
_COVERED = "SELECT DISTINCT op_count, matched_count, capture_count, matched_share FROM graph_operator_coverage"


def scenario(device: str, seed: int = 0, kernel_count: int = 6, **more: Any) -> dict[str, Any]:
    """Return a scenario that replays a graph of random kernels twice a step."""
    chosen = random.Random(seed)
    operators = [chosen.choice(sorted(_CLASSES)) for _ in range(kernel_count)]
    captured = [{"kernel": chosen.randint(2, 40), "class": _CLASSES[name], "op": name} for name in operators]
    program = [{"py": 20}, {"graph": {}}, {"graph": {}}]
    return {"device": device, "steps": 2, "stacks": True, "captured": captured, "program": program, **more}


def written(job: SimulatedJob, folder: Path, device: str) -> Path:
    """Write a job's traces and captures into a new folder and return it."""
    folder.mkdir()
    job.write_kineto(folder, "rocm" if device == "MI300X" else "2025")
    return folder


def truth(job: SimulatedJob) -> list[tuple[int, str | None, Any]]:
    """Return rank, operator and shapes of each launch into the graph, as the simulator made them."""
    found = []
    for rank, run in enumerate(job.ranks):
        assert run.capture is not None
        found += [(rank, launch.operator, launch.input_shapes) for launch in run.capture.recording.captured]
    return found


@pytest.mark.parametrize(
    "device", ["H100", *(pytest.param(name, marks=pytest.mark.check) for name in ("B200", "MI300X"))]
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.check) for seed in range(1, 5))])
def test_kernels_of_a_replayed_graph_get_the_operators_that_launched_them(
    device: str, seed: int, tmp_path: Path
) -> None:
    job = simulate_job(scenario(device, seed, 4 + 3 * seed))
    folder = written(job, tmp_path / "run", device)
    with open_run(folder, store=tmp_path / "store") as run:
        assert (len(run.traces), [capture.trace for capture in run.captures]) == (1, ["capture_traces/rank0.json"])
        rows = run.sql(_KNOWN).fetchall()
        assert [(rank, name, shapes and json.loads(shapes)) for rank, name, shapes in rows] == truth(job)
        assert run.sql("SELECT DISTINCT matched_by FROM graph_operators").fetchall() == [(_MATCHED_BY[device],)]
        # Each replay does all of the graph's calls again.
        calls = dict(run.sql("SELECT name, sum(call_count) FROM op_summary GROUP BY name").fetchall())
        operators = [name for _, name, _ in truth(job)]
        assert calls == {name: 4 * operators.count(name) for name in set(operators)}
        (device_ns, own_ns), *_ = run.sql(
            "SELECT (SELECT sum(dur_ns) FROM gpu_ops), sum(device_self_sum_ns) FROM op_summary"
        ).fetchall()
        assert own_ns == device_ns


@pytest.mark.check
def test_each_rank_has_its_own_capture(tmp_path: Path) -> None:
    job = simulate_job(scenario("MI300X", ranks=2))
    folder = written(job, tmp_path / "run", "MI300X")
    (folder / "capture_traces" / "rank1.json").unlink()
    with open_run(folder, store=tmp_path / "store") as run:
        known = run.sql("SELECT rank, matched_share FROM graph_operator_coverage ORDER BY rank").fetchall()
        assert known == [(0, 1.0), (1, 0.0)]


@pytest.mark.check
def test_of_captures_of_several_sizes_the_one_with_the_graphs_kernels_counts(tmp_path: Path) -> None:
    job = simulate_job(scenario("H100", 1, 9))
    folder = written(job, tmp_path / "run", "H100")
    for other in (5, 8, 10):
        capture = simulate_job(scenario("H100", other, other)).ranks[0].capture
        assert capture is not None
        capture.write_kineto(folder / "capture_traces" / f"size{other}.json")
    with open_run(folder, store=tmp_path / "store") as run:
        assert len(run.captures) == 4
        assert run.sql(_COVERED).fetchall() == [(9, 9, 1, 1.0)]
        assert [row[1] for row in run.sql(_KNOWN).fetchall()] == [row[1] for row in truth(job)]


@pytest.mark.check
def test_connections_without_attribution_know_operators_of_graphs_too(tmp_path: Path) -> None:
    job = simulate_job(scenario("H100"))
    folder = written(job, tmp_path / "run", "H100")
    names = ["op_summary", "modelled_calls", "operator_arguments", "captured_launches"]
    with open_run(folder, store=tmp_path / "store", attribution=False) as run:
        bare = {name: run.sql(f"FROM {name} ORDER BY ALL").fetchall() for name in names}
        run.export(tmp_path / "exported", names)
        exported = {
            name: run.connection.sql(f"FROM '{tmp_path}/exported/{name}.parquet' ORDER BY ALL").fetchall()
            for name in names
        }
    with open_run(folder, store=tmp_path / "store", catalog=True) as run:
        assert {name: run.sql(f"FROM {name} ORDER BY ALL").fetchall() for name in names} == bare == exported
    assert all(bare.values())


@pytest.mark.check
def test_a_capture_alone_is_a_trace(tmp_path: Path) -> None:
    capture = simulate_job(scenario("H100")).ranks[0].capture
    assert capture is not None
    with open_run(capture.write_kineto(tmp_path / "capture.json"), store=tmp_path / "store") as run:
        assert (len(run.traces), run.captures) == (1, ())
        assert run.sql("SELECT count(*) FROM captured_launches").fetchall() == [(6,)]
