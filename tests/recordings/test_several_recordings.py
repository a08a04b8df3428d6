"""Several recordings of one rank are no ranks and no GPUs of their own: names of one process, ranks, times."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import rewritten_trace as rewritten
from click.testing import CliRunner
from conftest import ROOT
from rewritten_trace import Document
from self_check import closing

from traceanalyzer.cli import cli
from traceanalyzer.comparison.loading import diff
from traceanalyzer.ingest.sink import marks_in
from traceanalyzer.report import formats
from traceanalyzer.report.diagnosis_blocks import Selection
from traceanalyzer.run import open_run
from tracesim import simulate, simulate_job

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


@pytest.mark.check
def test_cycles_of_one_process_are_recordings_of_one_rank(tmp_path: Path) -> None:
    assert recordings(CYCLES, tmp_path / "store") == [(0, n, 3, "name", False) for n in (1, 2, 3)]
    screen = first_screen(CYCLES, tmp_path / "store")
    assert "one process, recorded 3 times" in screen
    assert "GPU busy with compute 14.7 % of each step, in 3 recordings" in screen
    assert "The steps of all 3 recordings are pooled: 6 steps of 1.11 ms to 2.36 ms" in " ".join(screen.split())
    assert "are not the ranks of one run" not in screen


@pytest.mark.check
def test_recordings_of_one_process_do_not_meet_in_collectives(tmp_path: Path) -> None:
    with open_run(TWO_CYCLES, store=tmp_path) as run:
        assert run.sql("SELECT max(present_count) FROM attribution.collective_members").fetchall() == [(1,)]
        assert run.sql("SELECT count(*) FROM ledger_rows WHERE bucket = 'dev.straggler_wait'").fetchall() == [(0,)]
        assert "show the same time" in formats_of(run)


def formats_of(run: Any) -> str:
    stream = io.StringIO()
    formats.write_diagnosis(run.diagnose(), "markdown", stream)
    return stream.getvalue()


@pytest.mark.check
@pytest.mark.parametrize("apart_us", [DAY_US, 60e6])
def test_files_of_one_device_at_different_times_are_recordings(
    apart_us: float, trace: Document, tmp_path: Path
) -> None:
    rewritten.write(trace, tmp_path / "run" / "first.json.gz")
    rewritten.write(later(trace, apart_us), tmp_path / "run" / "second.json.gz")
    assert recordings(tmp_path / "run", tmp_path / "store") == [(0, n, 2, "times", False) for n in (1, 2)]
    assert "look like" not in first_screen(tmp_path / "run", tmp_path / "store")


@pytest.mark.check
@pytest.mark.parametrize(("apart_us", "counts"), [(60e6, [2, 2]), (1_000, [1, 1])])
def test_numbered_files_are_ranks_where_their_times_meet(
    apart_us: float, counts: list[int], trace: Document, tmp_path: Path
) -> None:
    rewritten.write(trace, tmp_path / "run" / "trace_0.json.gz")
    rewritten.write(later(trace, apart_us), tmp_path / "run" / "trace_1.json.gz")
    assert [row[2] for row in recordings(tmp_path / "run", tmp_path / "store")] == counts


@pytest.mark.check
def test_files_of_one_device_at_one_time_are_not(trace: Document, tmp_path: Path) -> None:
    rewritten.write(trace, tmp_path / "run" / "first.json.gz")
    rewritten.write(later(trace, 1_000), tmp_path / "run" / "second.json.gz")
    assert [row[2] for row in recordings(tmp_path / "run", tmp_path / "store")] == [1, 1]


def sends(document: Document) -> Document:
    """Let the last kernel send something to other processes."""
    kernels = [event for event in document["traceEvents"] if event.get("cat") == "kernel"]
    sent = {**kernels[-1], "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL"}
    return {**document, "traceEvents": [*document["traceEvents"], sent]}


@pytest.mark.check
@pytest.mark.parametrize("base", [{}, {"baseTimeNanoseconds": 0}])
@pytest.mark.parametrize(
    ("pids", "apart_us", "changed", "counts"),
    [
        ((4242, 4242, 4242), 60e6, dict, [3, 3, 3]),
        ((4242, 4242, 4242), 1_000, dict, [1, 1, 1]),
        ((4242, 4242, 5000), 60e6, dict, [2, 2, 1]),
        ((4242, 4242, 4242), 60e6, sends, [1, 1, 1]),  # containers number their processes alike
    ],
)
def test_recordings_without_a_date_are_of_one_process_where_its_number_says_so(
    base: Document,
    pids: tuple[int, ...],
    apart_us: float,
    changed: Callable[[Document], Document],
    counts: list[int],
    trace: Document,
    tmp_path: Path,
) -> None:
    undated = {key: part for key, part in trace.items() if key != "baseTimeNanoseconds"} | base
    first_us = min(event["ts"] for event in trace["traceEvents"] if "ts" in event)
    for at, pid in enumerate(pids):
        recorded = changed(of_process(later(undated, at * apart_us + 3_600e6 - first_us), pid))
        rewritten.write(recorded, tmp_path / "run" / f"{'abc'[at]}.json.gz")
    assert [row[2] for row in recordings(tmp_path / "run", tmp_path / "store")] == counts


@pytest.mark.check
def test_two_runs_are_said_with_the_command_that_compares_them(trace: Document, tmp_path: Path) -> None:
    a = rewritten.write(trace, tmp_path / "a" / "rank0.json.gz")
    b = rewritten.write(of_process(later(trace, 60e6), 5000), tmp_path / "b" / "rank0.json.gz")
    screen = " ".join(first_screen([a, b], tmp_path / "store").replace("\\", "").split())
    assert "2 processes made the recordings of one rank, so they look like 2 runs" in screen
    assert f"traceanalyzer diff {a} {b}" in screen


@pytest.mark.check
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


def compared(base: Path, new: Path, store: Path, *more: str) -> tuple[int, dict[str, Any]]:
    command = ["diff", str(base), str(new), "--store", str(store), "--format", "json", "-q", *more]
    result = CliRunner().invoke(cli, command)
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.check
def test_diff_takes_the_recordings_of_a_folder_as_captures(tmp_path: Path) -> None:
    code, found = compared(CYCLES, CYCLES, tmp_path)
    assert code == 0
    assert [len(found[side]) for side in ("base", "new")] == [3, 3]


@pytest.mark.check
def test_a_gate_decides_by_the_recordings_of_two_folders(tmp_path: Path) -> None:
    slow, same, fast = (
        cycles(tmp_path / name, *({**SLOW, "loader_us": loader_us + at * 10} for at in range(3)))
        for name, loader_us in (("slow", 9_000), ("same", 9_005), ("fast", 6_000))
    )
    for base, new, code, verdict in ((slow, fast, 0, "faster"), (fast, slow, 1, "slower"), (slow, same, 0, "same")):
        exit_code, found = compared(base, new, tmp_path / "store", "--fail-on", "slower")
        assert (exit_code, found["judgement"]["verdict"]) == (code, verdict)
        assert [len(found[side]) for side in ("base", "new")] == [3, 3]


@pytest.mark.check
def test_recordings_of_other_work_are_no_captures(tmp_path: Path) -> None:
    base, new = cycles(tmp_path / "base", SLOW, SLOW, OTHER), cycles(tmp_path / "new", SLOW)
    command = ["diff", str(base), str(new), "--store", str(tmp_path / "store"), "--format", "json"]
    result = CliRunner().invoke(cli, command)
    assert [len(json.loads(result.stdout)[side]) for side in ("base", "new")] == [2, 1]
    assert "note: not compared: node1_4242" in result.stderr
    assert "its steps run other kernels" in result.stderr


@pytest.mark.check
def test_python_takes_the_recordings_of_a_folder_as_captures(tmp_path: Path) -> None:
    found = diff(cycles(tmp_path / "base", SLOW, SLOWER), cycles(tmp_path / "new", SLOW, SLOWER))
    assert [len(side) for side in (found.base, found.new)] == [2, 2]


def in_json(path: Path | list[Path], store: Path) -> dict[str, Any]:
    with open_run(path, store=store, with_settings=False) as run:
        found: dict[str, Any] = json.loads(run.diagnose().to_json())
    return found


def cycles(folder: Path, *jobs: dict[str, Any]) -> Path:
    """Write one simulated job after the other as recordings of one process."""
    for at, job in enumerate(jobs):
        (file,) = simulate_job(job).write_kineto(folder.parent / f"job{at}")
        document = later(rewritten.read(file), at * 60e6)
        rewritten.write(document, folder / f"node1_4242.{1_767_190_000_123_456_789 + at}.pt.trace.json.gz")
    return folder


SLOW = {"steps": 4, "kernels": 12, "loader_us": 9_000}
SLOWER = SLOW | {"loader_us": 12_000}
OTHER = {"steps": 4, "kernels": 40, "kernel_us": 300, "loader_us": 9_000}


@pytest.mark.check
def test_steps_of_alike_recordings_are_pooled(tmp_path: Path) -> None:
    found = in_json(cycles(tmp_path / "run", SLOW, SLOWER), tmp_path / "store")
    alone = [in_json(cycles(tmp_path / f"run{at}", job), tmp_path / "store") for at, job in enumerate((SLOW, SLOWER))]
    pooled, parts = found["run_ledger"], [item["ledgers"][0] for item in alone]
    assert pooled["recording_count"] == 2
    assert pooled["window_ns"] == sum(part["window_ns"] for part in parts)
    assert pooled["step_count"] == sum(part["step_count"] for part in parts)
    assert sum(bucket["dur_ns"] for bucket in pooled["buckets"]) == pooled["window_ns"]
    (loader,) = [item for item in found["findings"] if item["rule"] == "dataloader-bound"]
    of_each = [item for part in alone for item in part["findings"] if item["rule"] == "dataloader-bound"]
    assert loader["run_saving_ns"] == sum(item["saving_ns"] for item in of_each)
    assert loader["run_saving_share"] == pytest.approx(loader["run_saving_ns"] / pooled["window_ns"])
    assert loader["step_count"] == pooled["step_count"]
    assert f"saves up to {100 * loader['run_saving_share']:.1f} %" in loader["message"]
    (plan,) = found["plans"]
    assert (plan["trace"], plan["window_ns"], plan["step_count"]) == (None, pooled["window_ns"], pooled["step_count"])
    assert [(item["is_judged"], item["apart_because"]) for item in found["recordings"]] == [(True, None)] * 2


@pytest.mark.check
def test_the_same_recording_again_changes_no_share(tmp_path: Path) -> None:
    once = in_json(cycles(tmp_path / "once", SLOW), tmp_path / "store")
    twice = in_json(cycles(tmp_path / "twice", SLOW, SLOW), tmp_path / "store")
    # Quality is another matter: the steps of both together are enough.
    shares = {item["rule"]: item["saving_share"] for item in once["findings"] if item["kind"] == "finding"}
    assert "dataloader-bound" in shares
    assert {item["rule"]: item["run_saving_share"] for item in twice["findings"]} == pytest.approx(shares)


@pytest.mark.check
def test_the_same_recording_again_changes_no_count_in_a_message(tmp_path: Path) -> None:
    loader = rewritten.read(ROOT / "sample_traces" / "slow_loader" / "rank0.json.gz")
    for folder, count in (("once", 1), ("thrice", 3)):
        for at in range(count):
            rewritten.write(later(loader, at * 60e6), tmp_path / folder / f"{'abc'[at]}.json.gz")
    once, thrice = (
        {item["rule"]: item["message"] for item in in_json(tmp_path / folder, tmp_path / "store")["findings"]}
        for folder in ("once", "thrice")
    )
    assert "waits for the GPU 1× a step" in once["sync-in-step"]
    assert {rule: thrice[rule] for rule in ("sync-in-step", "dataloader-bound")}.items() <= once.items()


@pytest.mark.check
def test_recordings_of_other_work_are_listed_and_one_is_judged(tmp_path: Path) -> None:
    run = cycles(tmp_path / "run", SLOW, SLOWER, OTHER)
    found = in_json(run, tmp_path / "store")
    assert [(item["is_judged"], item["apart_because"]) for item in found["recordings"]] == [
        (True, None),
        (True, None),
        (False, "its steps run other kernels"),
    ]
    assert len(found["ledgers"]) == found["run_ledger"]["recording_count"] == 2
    assert {finding["trace"] for finding in found["findings"]} <= {item["trace"] for item in found["ledgers"]} | {None}
    screen = " ".join(first_screen(run, tmp_path / "store").replace("\\", "").split())
    assert "The steps of 2 of 3 recordings are pooled" in screen
    assert "The other is only listed: its steps run other kernels." in screen
    page = formats_as(run, tmp_path / "store", "html")
    assert "The steps of 2 of 3 recordings are pooled" in page
    assert "not judged" in page


@pytest.mark.check
def test_of_two_recordings_of_other_work_the_latest_is_judged(tmp_path: Path) -> None:
    run = cycles(tmp_path / "run", SLOW, OTHER)
    found = in_json(run, tmp_path / "store")
    assert [item["is_judged"] for item in found["recordings"]] == [False, True]
    assert found["run_ledger"] is None
    assert [ledger["trace"] for ledger in found["ledgers"]] == [found["recordings"][1]["trace"]]
    not_compute = sum(part["dur_ns"] for part in found["ledgers"][0]["buckets"] if part["bucket"] != "compute")
    assert sum(part["dur_ns"] for part in found["not_explained"]) <= not_compute
    screen = " ".join(first_screen(run, tmp_path / "store").replace("\\", "").split())
    assert "Of 2 recordings node1_4242.1767190000123456790 is judged, the latest" in screen


@pytest.mark.check
def test_two_recordings_of_a_real_rank_are_pooled(corpus: Path, tmp_path: Path) -> None:
    found = in_json(corpus / "kineto" / "resnet50_num_workers_0", tmp_path / "store")
    assert (found["run_ledger"]["step_count"], found["run_ledger"]["window_ns"]) == (8, 702_584_000 + 606_255_000)
    assert "GPU busy with compute 60.3 % of each step, in 2 recordings" in found["verdict"]["sentence"]
    assert next(item for item in found["findings"] if item["rule"] == "dataloader-bound")["confidence"] == "high"


def formats_as(path: Path, store: Path, layout: str) -> str:
    stream = io.StringIO()
    with open_run(path, store=store, with_settings=False) as run:
        formats.write_diagnosis(run.diagnose(), layout, stream)
    return stream.getvalue()


@pytest.mark.check
def test_few_steps_of_many_recordings_are_enough(tmp_path: Path) -> None:
    run = cycles(tmp_path / "run", *[{**SLOW, "steps": 3}] * 3)
    with open_run(run, store=tmp_path / "store", with_settings=False) as opened:
        found = opened.diagnose()
        page = opened.to_html(tmp_path / "page.html").read_text()
    assert {item.step_count for item in found.recordings} <= {1, 2}
    assert "tq-too-few-steps" not in {item.rule for item in found.findings}
    assert "3 recordings, one after the other" in page


@pytest.mark.check
def test_two_runs_on_two_devices_are_said_with_the_command_that_compares_them(tmp_path: Path) -> None:
    (file,) = simulate_job(SLOW).write_kineto(tmp_path / "job")
    document = rewritten.read(file)
    on_other = {**document, "traceEvents": [_on_device(event, 1) for event in later(document, 90e6)["traceEvents"]]}
    a = rewritten.write(document, tmp_path / "before" / "trace.json.gz")
    b = rewritten.write(on_other, tmp_path / "after" / "trace.json.gz")
    screen = " ".join(first_screen([a, b], tmp_path / "store").replace("\\", "").split())
    assert "are not the ranks of one run" in screen
    assert f"traceanalyzer diff {a} {b}" in screen


def _on_device(event: dict[str, Any], device: int) -> dict[str, Any]:
    args = event.get("args")
    if event.get("cat") not in rewritten.DEVICE_ROWS or not isinstance(args, dict):
        return event
    return {**event, "pid": device, "args": {**args, "device": device}}


@pytest.mark.check
def test_pooled_recordings_close(tmp_path: Path) -> None:
    with open_run(cycles(tmp_path / "run", SLOW, SLOWER), store=tmp_path / "store", with_settings=False) as run:
        diagnosis = run.diagnose()
    assert closing.marginals(diagnosis) == ()
    of_rank = Selection(rank=None).of(diagnosis)
    assert of_rank.run_ledger == diagnosis.run_ledger


@pytest.mark.check
def test_as_much_is_sure_of_a_saving_whether_a_program_was_recorded_once_or_twice(tmp_path: Path) -> None:
    program = [
        {"h2d": {"mb": 100, "us": 6_000, "pinned": True, "stream": 31, "wait": False}},
        {"event_record": {"stream": 31, "event": "batch"}},
        {"py": 6_300},
        {"stream_wait": {"on": "compute", "event": "batch"}},
        {"repeat": 50, "do": [{"kernel": {"class": "gemm", "us": 80, "py_us": 3}}]},
        {"sync": {"kind": "stream"}},
    ]
    document = rewritten.read(simulate({"steps": 6, "program": program}, seed=1).write_kineto(tmp_path / "a.json.gz"))
    rewritten.write(document, tmp_path / "once" / "first.json.gz")
    rewritten.write(document, tmp_path / "twice" / "first.json.gz")
    rewritten.write(later(document, 60e6), tmp_path / "twice" / "second.json.gz")
    sure = []
    for name in ("once", "twice"):
        with open_run(tmp_path / name, store=tmp_path / f"store_{name}", with_settings=False) as run:
            messages = {finding.rule: finding.message for finding in run.diagnose().findings}
        sure.append([re.findall(r"Only (.*?) is sure", messages[rule]) for rule in ("host-stalls", "sync-in-step")])
    assert sure[0] == sure[1]
    assert len(sure[0][0]) == 1  # what the compute stream was waiting for is open


@pytest.mark.check
def test_the_content_of_a_large_trace_is_known_again(tmp_path: Path) -> None:
    """Several threads write tables of so many events; a file that is given twice counts once by what they hold."""
    device = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 5, "args": {"stream": 7}}'
    values = '"Bytes": 512, "Total Allocated": 1, "Total Reserved": 1, "Device Type": 1, "Device Id": 0'
    marks = (
        f'{{"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": {at % 5}, "ts": {at}, "args": {{"Addr": {at}, '
        f'{values}}}}}, {{"ph": "s", "id": {at}, "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": {at % 5}, "ts": {at}}}'
        for at in range(150_000)
    )
    text = '{"schemaVersion": 1, "traceEvents": [' + ",\n".join((device, *marks)) + "]}"
    path = tmp_path / "rank0.json"
    path.write_text(text)
    contents = set()
    for number in range(3):
        with open_run(path, store=tmp_path / f"store{number}", attribution=False) as run:
            content, _ = marks_in(pq.read_schema(run.traces[0].folder / "traces.parquet").metadata)
            contents.add(content)
    assert len(contents) == 1


@pytest.mark.check
def test_the_late_rank_is_named_where_ranks_were_recorded_by_two_recorders(tmp_path: Path) -> None:
    job = simulate_job(
        {"ranks": 4, "steps": 6, "kernels": 40, "comm_us": 500, "faults": {"rank": 3, "loader_us": 9000}}
    )
    (tmp_path / "run").mkdir()
    for by_pytorch, by_nsys in ((0, 1), (2, 3)):
        job.write_kineto(tmp_path)[by_pytorch].rename(tmp_path / "run" / f"rank{by_pytorch}.json")
        job.write_nsys(tmp_path)[by_nsys].rename(tmp_path / "run" / f"rank{by_nsys}.sqlite")
    found = in_json(tmp_path / "run", tmp_path / "store")
    (late,) = [item for item in found["findings"] if item["rule"] == "comm-straggler-wait"]
    assert "Rank 3 is the last to enter" in late["message"]
