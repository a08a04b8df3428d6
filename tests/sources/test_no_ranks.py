"""Files of a folder that are no further ranks of the run: copies, and launches that were recorded into graphs."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from trace_event_tables import events, slice_text

import traceanalyzer

TRACE = events(slice_text("op"))


def call(name: str, ts: int, dur: int = 2, correlation: int | None = None) -> dict[str, object]:
    args = {} if correlation is None else {"correlation": correlation}
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def kernel(ts: int, correlation: int) -> dict[str, object]:
    args = {"correlation": correlation, "device": 0, "stream": 7}
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": ts, "dur": 5, "args": args}


def document(*rows: dict[str, object], **metadata: object) -> str:
    return json.dumps({"traceEvents": rows, **metadata})


def work(start: int = 0) -> list[dict[str, object]]:
    calls = [call("cudaLaunchKernel", start + 10 * n, correlation=n + 1) for n in range(10)]
    return calls + [kernel(start + 10 * n + 3, n + 1) for n in range(10)]


def captured(begin: str = "cudaStreamBeginCapture_v2", end: str = "cudaStreamEndCapture_v2") -> list[dict[str, object]]:
    launch = "hipLaunchKernel" if begin.startswith("hip") else "cudaLaunchKernel"
    return [call(begin, 0), *(call(launch, 10 + 5 * n, correlation=n + 1) for n in range(12)), call(end, 90)]


def read(folder: Path) -> tuple[list[str], list[str]]:
    with traceanalyzer.open_run(folder) as run:
        return [trace.trace for trace in run.traces], [error.what for error in run.set_aside]


@pytest.mark.check
def test_a_trace_beside_its_packed_copy_counts_once(tmp_path: Path) -> None:
    text = document(*work(), distributedInfo={"rank": 0, "world_size": 2})
    (tmp_path / "rank0.json").write_text(text)
    (tmp_path / "rank0.json.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "rank1.json").write_text(document(*work(5), distributedInfo={"rank": 1, "world_size": 2}))
    (tmp_path / "trace (1).json").write_text(text)
    traces, set_aside = read(tmp_path)
    assert traces == ["rank0.json", "rank1.json"]
    assert set_aside == ["holds the same as rank0.json, which counts once"] * 2


@pytest.mark.check
def test_a_copy_under_another_name_counts_once(tmp_path: Path) -> None:
    for name in ("rank0.json", "backup.json"):
        (tmp_path / name).write_text(TRACE)
    assert read(tmp_path) == (["rank0.json"], ["holds the same as rank0.json, which counts once"])


def cut(text: str, share: float = 0.6) -> str:
    return text[: int(len(text) * share)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("whole", "part"),
    [("rank0.json", "rank0_cut.json"), ("rank0.json", "download.json"), ("trace.json", "a copy.json")],
)
def test_a_cut_copy_beside_the_whole_is_set_aside(tmp_path: Path, whole: str, part: str) -> None:
    text = document(*work())
    (tmp_path / whole).write_text(text)
    (tmp_path / part).write_text(cut(text))
    assert read(tmp_path) == ([whole], [f"holds only events of {whole}, which counts once"])


@pytest.mark.check
def test_cut_copies_of_each_length_are_of_the_whole(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": work(), "baseTimeNanoseconds": 10**18, "distributedInfo": {"rank": 0}})
    (tmp_path / "rank0.json").write_text(text)
    (tmp_path / "rank0.part.json.gz").write_bytes(gzip.compress(cut(text).encode())[:-20])
    (tmp_path / "rank0_b.json").write_text(cut(text, 0.3))
    closed = json.dumps({"traceEvents": work()[:15], "baseTimeNanoseconds": 10**18})
    (tmp_path / "rank0_closed.json").write_text(closed)
    assert read(tmp_path) == (["rank0.json"], ["holds only events of rank0.json, which counts once"] * 3)


@pytest.mark.check
def test_a_copy_in_another_order_or_without_some_events_is_set_aside(tmp_path: Path) -> None:
    rows = work()
    more = [{"ph": "C", "name": "Queue Length", "pid": 0, "ts": 1.0, "args": {"7": 1}}]
    (tmp_path / "rank0.json").write_text(document(*rows, *more, distributedInfo={"rank": 0}))
    (tmp_path / "rank0_sorted.json").write_text(document(*reversed(rows)))
    (tmp_path / "rank0_gpu_only.json").write_text(document(*(row for row in rows if row["cat"] != "cuda_runtime")))
    assert read(tmp_path) == (["rank0.json"], ["holds only events of rank0.json, which counts once"] * 2)


@pytest.mark.check
def test_of_two_copies_with_the_same_events_one_counts(tmp_path: Path) -> None:
    rows = work()
    (tmp_path / "a.json").write_text(document(*rows))
    (tmp_path / "b.json").write_text(document(*reversed(rows)))
    assert read(tmp_path) == (["a.json"], ["holds only events of a.json, which counts once"])


@pytest.mark.check
def test_what_begins_otherwise_or_is_of_another_process_or_rank_is_no_cut_copy(tmp_path: Path) -> None:
    rows = work()
    (tmp_path / "rank0.json").write_text(document(*rows))
    (tmp_path / "other_pid.json").write_text(document(*({**row, "pid": 5} for row in rows[:15])))
    (tmp_path / "other_times.json").write_text(document(rows[0], *({**row, "ts": 7} for row in rows[1:3])))
    (tmp_path / "rank1.json").write_text(cut(document(*rows)))
    assert read(tmp_path)[1] == []


@pytest.mark.check
def test_ranks_whose_names_say_so_are_no_copies(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"rank{rank}.json").write_text(TRACE)
    assert read(tmp_path) == (["rank0.json", "rank1.json", "rank2.json"], [])


@pytest.mark.check
def test_other_recordings_of_a_rank_are_no_copies(tmp_path: Path) -> None:
    for number, start in enumerate((0, 5000)):
        (tmp_path / f"rank0.{number}.json").write_text(document(*work(start)))
    assert read(tmp_path) == (["rank0.0.json", "rank0.1.json"], [])


@pytest.mark.check
@pytest.mark.parametrize(
    "marks",
    [
        ("cudaStreamBeginCapture_v2", "cudaStreamEndCapture_v2"),
        ("hipStreamBeginCapture", "hipStreamEndCapture"),
        ("torch/cuda/graphs.py(98): capture_begin", "torch/cuda/graphs.py(119): capture_end"),
    ],
)
def test_launches_recorded_into_graphs_are_no_rank(tmp_path: Path, marks: tuple[str, str]) -> None:
    (tmp_path / "rank0.json").write_text(document(*work()))
    (tmp_path / "capture_traces").mkdir()
    (tmp_path / "capture_traces" / "graph_rank_0.bs1.json").write_text(document(*captured(*marks)))
    traces, set_aside = read(tmp_path)
    assert traces == ["rank0.json"]
    assert set_aside == ["holds launches that were recorded into graphs, not work of the run"]


def test_a_capture_given_alone_is_read(tmp_path: Path) -> None:
    (tmp_path / "capture.json").write_text(document(*captured()))
    assert read(tmp_path) == (["capture.json"], [])


@pytest.mark.check
def test_a_run_that_captures_and_replays_is_a_rank(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(document(*work()))
    replayed = [*captured(), call("cudaGraphLaunch", 100, correlation=50), kernel(103, 50)]
    (tmp_path / "rank1.json").write_text(document(*replayed))
    assert read(tmp_path) == (["rank0.json", "rank1.json"], [])


@pytest.mark.check
def test_a_rank_whose_kernels_were_not_recorded_is_a_rank(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(document(*work()))
    calls = [call("cudaLaunchKernel", 10 * n, correlation=n + 1) for n in range(10)]
    (tmp_path / "rank1.json").write_text(document(*calls))
    assert read(tmp_path) == (["rank0.json", "rank1.json"], [])


def test_what_is_no_file_is_named_as_left_out(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(TRACE)
    (tmp_path / "node1").mkdir()
    (tmp_path / "rank1.json").symlink_to(tmp_path / "gone.json")
    (tmp_path / "node1" / "rank2.json").symlink_to(tmp_path / "rank2.json")
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    (tmp_path / "null.json").symlink_to(os.devnull)
    (tmp_path / ".hidden.json").symlink_to(tmp_path / "gone.json")
    os.mkfifo(tmp_path / "rank3.json")
    with traceanalyzer.open_run(tmp_path) as run:
        said = {Path(str(error.where)).name: error.what for error in run.unreadable}
    assert sorted(said) == ["loop.json", "null.json", "rank1.json", "rank2.json", "rank3.json"]
    assert said["rank1.json"] == f"is a link to {tmp_path / 'gone.json'}, which is not there"
    assert said["rank3.json"] == said["null.json"] == "is a device, a pipe or a socket"


def test_links_to_files_are_no_losses(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(TRACE)
    run_folder = tmp_path / "run"
    run_folder.mkdir()
    (run_folder / "rank0.json").symlink_to(tmp_path / "rank0.json")
    with traceanalyzer.open_run(run_folder) as run:
        assert ([trace.trace for trace in run.traces], run.unreadable) == (["rank0.json"], ())


LEFT_BEHIND = (
    "rank0.json.tmp",
    "rank0.json.gz.part",
    "rank1.json.crdownload",
    "rank0.json~",
    "rank0.json.bak",
    "rank0.json.orig",
    "#rank0.json#",
    "rank0 (1).json",
    "rank0 - Copy.json",
    "Copy of rank0.json",
    "rank0.json.1",
    "sub/rank0.json.old",
)


@pytest.mark.check
@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_a_file_left_behind_is_no_further_rank_whatever_it_holds(name: str, tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(document(*work()))
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(document(*work(7)))
    with traceanalyzer.open_run(tmp_path) as run:
        assert [trace.trace for trace in run.traces] == ["rank0.json"]
        assert [error.where for error in run.set_aside] == [str(file)]


@pytest.mark.check
@pytest.mark.parametrize("name", ["rank0.json.tmp", "rank0 (1).json", "rank0.json.bak"])
def test_a_file_left_behind_is_read_where_there_is_no_other(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(document(*work()))
    assert read(tmp_path) == ([name], [])


@pytest.mark.check
def test_a_second_download_beside_other_traces_is_a_trace(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(document(*work()))
    (tmp_path / "rank1 (1).json").write_text(document(*work(7)))
    assert read(tmp_path) == (["rank0.json", "rank1 (1).json"], [])


@pytest.mark.check
def test_a_file_left_behind_is_read_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(document(*work()))
    (tmp_path / "a.json.bak").write_text(document(*work(7)))
    with traceanalyzer.open_run([tmp_path / "a.json", tmp_path / "a.json.bak"]) as run:
        assert len(run.traces) == 2


def test_hidden_parts_of_a_trace_are_named(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(document(*work()))
    (tmp_path / ".rank0.json.swp").write_bytes(b"b0VIM 9.0")
    (tmp_path / ".notes.txt.swp").write_bytes(b"b0VIM 9.0")
    (tmp_path / "notes.txt~").write_bytes(b"text")
    with traceanalyzer.open_run(tmp_path) as run:
        assert [error.where for error in run.set_aside] == [str(tmp_path / ".rank0.json.swp")]


@pytest.mark.check
@pytest.mark.parametrize("first", ["segments", "device_traces", "allocator_settings"])
def test_a_snapshot_of_memory_is_named_with_what_reads_it(first: str, tmp_path: Path) -> None:
    whole = {
        "segments": [{"device": 0, "total_size": 2_097_152, "segment_type": "small"}],
        "device_traces": [[{"action": "alloc", "addr": 1, "size": 512, "time_us": 1}]],
        "allocator_settings": {},
    }
    snapshot = {first: whole.pop(first), **whole}
    (tmp_path / "rank0.json").write_text(document(*work()))
    (tmp_path / "memory.json").write_text(json.dumps(snapshot))
    (tmp_path / "config.json").write_text('{"segments": 3}')
    with traceanalyzer.open_run(tmp_path) as run:
        assert [(error.where, error.hint) for error in run.set_aside] == [
            (str(tmp_path / "memory.json"), "traceanalyzer memory FILE shows it")
        ]
