"""Files into which tools merged the traces of several ranks: whose processes are whose, and what stays open."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.trace_events import TraceEventIngester
from traceanalyzer.ingest.trace_events.merged_ranks import (
    DeviceProcess,
    Process,
    SeveralRanksError,
    find_ranks,
)

Pid = str | None


def host(pid: Pid, at: int, *names: str, calls: int = 5) -> Process:
    """Return a process with calls, or with operators alone, whose events begin at this place."""
    return Process(pid, at, calls, 5, 0, (at + 1, at + 49), names)


def device(pid: Pid, at: int, *names: str) -> Process:
    """Return a process that stands for a device."""
    return Process(pid, at, 0, 0, 5, None, names)


def marks(pid: Pid, at: int) -> Process:
    """Return a process of the profiler's own marks."""
    return Process(pid, at, 0, 0, 0, None, ())


def found(
    processes: Sequence[Process],
    devices: Mapping[Pid, int] | None = None,
    first_rank: int | None = None,
    launches: Mapping[Pid, Mapping[Pid, int]] | None = None,
) -> tuple[list[int | None], dict[tuple[Pid, int], int | None]] | None:
    """Return the ranks, and the rank of each process by the place of its first event."""
    places = {process.pid: process.first_id for process in processes}
    merged = find_ranks(
        processes,
        lambda: {pid: DeviceProcess(number, places[pid], places[pid] + 9) for pid, number in (devices or {}).items()},
        lambda later: launches or {},
        first_rank,
    )
    if merged is None:
        return None
    ranks_of = {
        (process.pid, process.first_id): merged.ranks[member.group]
        for process in processes
        for member in merged.members
        if member.pid == process.pid and member.first_id <= process.first_id <= member.last_id
    }
    assert len(ranks_of) == len(processes)
    return list(merged.ranks), ranks_of


@pytest.mark.parametrize(
    ("labels", "ranks"),
    [
        (["[TP00]", "[TP01]"], [0, 1]),
        (["[TP02]", "[TP05]"], [2, 5]),
        (["[TP00-DP00-PP00-EP00]", "[TP01-DP00-PP00-EP01]"], [0, 1]),
        (["[TP00-PP00]", "[TP01-PP00]", "[TP00-PP01]", "[TP01-PP01]"], [0, 1, 2, 3]),
        (["[TP00-DP00]", "[TP01-DP00]", "[TP02-DP01]", "[TP03-DP01]"], [0, 1, 2, 3]),
        (["[TP00-DP00]", "[TP01-DP00]", "[TP00-DP01]", "[TP01-DP01]"], [0, 1, 2, 3]),
        (["[rank 7]", "[rank 3]"], [7, 3]),
        (["[0]", "[1]"], [0, 1]),
        (["rank0", "rank1"], [0, 1]),
        (["Rank 0:", "Rank 1:"], [0, 1]),
        (["rank_0_", "rank_1_"], [0, 1]),
        (["r0", "r1"], [0, 1]),
        (["0/", "1/"], [0, 1]),
        (["TP0 PP0", "TP0 PP1"], [0, 1]),
    ],
)
def test_labels_before_the_numbers_of_processes_name_ranks(labels: list[str], ranks: list[int]) -> None:
    gap = "" if labels[0].endswith(("/", "_")) else " "
    processes = [
        process
        for at, label in enumerate(labels)
        for process in (
            host(f"{label}{gap}3241", 100 * at),
            device(f"{label}{gap}0", 100 * at + 50),
        )
    ]
    expected = {(process.pid, process.first_id): ranks[process.first_id // 100] for process in processes}
    assert found(processes) == (ranks, expected)


@pytest.mark.parametrize("behind", ["{} [TP0{}]", "{} (rank {})", "{}_rank{}", "{} rank {}"])
def test_labels_behind_the_numbers_of_processes_name_ranks(behind: str) -> None:
    processes = [host(behind.format(3241, 0), 0), device(behind.format(0, 0), 50)]
    processes += [host(behind.format(3241, 1), 100), device(behind.format(0, 1), 150)]
    assert found(processes) == ([0, 1], {(p.pid, p.first_id): p.first_id // 100 for p in processes})


@pytest.mark.parametrize("behind", ["{}_{}", "{}/{}", "{}.{}"])
@pytest.mark.parametrize("pids", [(3241, 3241), (3241, 3242), (7, 7)])
def test_of_two_numbers_the_rank_is_the_one_whose_processes_are_host_and_device(
    behind: str, pids: tuple[int, int]
) -> None:
    processes = [host(behind.format(pids[0], 0), 0), device(behind.format(0, 0), 50)]
    processes += [host(behind.format(pids[1], 1), 100), device(behind.format(0, 1), 150)]
    assert found(processes) == ([0, 1], {(p.pid, p.first_id): p.first_id // 100 for p in processes})


def test_of_two_numbers_of_processes_without_devices_the_rank_is_the_lower_one() -> None:
    processes = [host("3241_0", 0), host("3242_1", 100)]
    assert found(processes) == ([0, 1], {("3241_0", 0): 0, ("3242_1", 100): 1})


def test_names_of_processes_name_ranks() -> None:
    processes = [
        device("2", 0, "RANK 0 - GPU"),
        device("100000003", 10, "RANK 1 - GPU", "python"),
        device("200000004", 20, "GPU of rank 2 (local rank 0)"),
        marks("Spans", 25),
    ]
    ranks, ranks_of = found(processes) or ([], {})
    assert ranks == [0, 1, 2]
    assert [ranks_of[process.pid, process.first_id] for process in processes] == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("shifts", "first_rank", "ranks"),
    [
        ([0, 10**8], None, [0, 1]),
        ([0, 10**8, 2 * 10**8, 3 * 10**8], 0, [0, 1, 2, 3]),
        ([0, 10**6, 3 * 10**6], None, [0, 1, 3]),
        ([10**7, 2 * 10**7], None, [0, 1]),
        ([0, 2**32], 4, [4, 5]),
        ([10**8, 0], 1, [0, 1]),  # merged from the last to the first: the header is rank 1's
    ],
)
def test_numbers_of_processes_that_were_shifted_name_ranks(
    shifts: list[int], first_rank: int | None, ranks: list[int]
) -> None:
    processes = [
        process
        for at, shift in enumerate(shifts)
        for process in (
            host(str(shift + 4_242), 100 * at),
            device(str(shift + at % 2), 100 * at + 50),
            marks(f"Spans {at}", 100 * at + 60),
        )
    ]
    devices: dict[Pid, int] = {str(shift + at % 2): at % 2 for at, shift in enumerate(shifts)}
    place = dict(zip(sorted(shifts), ranks, strict=True))
    expected = {(p.pid, p.first_id): place[shifts[p.first_id // 100]] for p in processes}
    assert found(processes, devices, first_rank) == (ranks, expected)


@pytest.mark.parametrize("pids", [("0", "1"), ("0", "0")])
def test_files_written_one_after_the_other_are_ranks_by_their_place(pids: tuple[str, str]) -> None:
    processes = [host("3241", 0), device(pids[0], 50), host("3242", 100)]
    processes += [device(pids[1], 150)] if pids[1] != pids[0] else []
    places = {"0": (50, 199 if pids[1] == "0" else 90), "1": (150, 190)}
    devices: dict[Pid, DeviceProcess] = {pid: DeviceProcess(int(pid), *places[pid]) for pid in set(pids)}
    merged = find_ranks(processes, lambda: devices, lambda later: {}, None)
    assert merged is not None
    assert merged.ranks == (0, 1)
    spans = {(member.pid, member.group): (member.first_id, member.last_id) for member in merged.members}
    assert spans["3241", 0] == (0, 99)
    assert spans[pids[1], 1][0] == 100


def test_files_written_from_the_last_rank_to_the_first_are_ranks_by_their_devices() -> None:
    processes = [host("3241", 0), device("1", 50), host("3242", 100), device("0", 150)]
    assert found(processes, {"1": 1, "0": 0}, first_rank=1) == (
        [1, 0],
        {("3241", 0): 1, ("1", 50): 1, ("3242", 100): 0, ("0", 150): 0},
    )


@pytest.mark.parametrize(
    ("launches", "is_known"),
    [
        ({"0": {"3241": 5}, "1": {"3242": 5}}, True),
        ({"1": {"3241": 5}, "0": {"3242": 5}}, True),
        ({"0": {"3241": 5, "3242": 5}, "1": {"3241": 5, "3242": 5}}, False),
        ({"0": {"3241": 5}, "1": {"3241": 5}}, False),
        ({"0": {"3241": 3}, "1": {"3242": 5}}, False),
    ],
)
def test_ids_of_their_own_tell_whose_work_is_whose(launches: Mapping[Pid, Mapping[Pid, int]], is_known: bool) -> None:
    processes = [host("3241", 0), host("3242", 20), device("0", 5), device("1", 25)]
    if not is_known:
        with pytest.raises(SeveralRanksError):
            found(processes, {"0": 0, "1": 1}, launches=launches)
        return
    ranks = {hosts: int(pid or 0) for pid, owners in launches.items() for hosts in owners}
    ranks_of = {(p.pid, p.first_id): ranks.get(p.pid, int(p.pid or 0)) for p in processes}
    assert found(processes, {"0": 0, "1": 1}, launches=launches) == ([ranks["3241"], ranks["3242"]], ranks_of)


@pytest.mark.parametrize(
    ("devices", "first_rank", "ranks"),
    [
        ([2, 0, 1], None, [2, 0, 1]),  # sorted by time: which rank comes first says nothing
        ([2, 0, 1], 0, [2, 0, 1]),
        ([1, 0, 2], 5, [5, 4, 6]),  # the header is that of the file which came first
        ([0, 0, 0], 4, [4, 5, 6]),  # each rank sees its device as the first
        ([0, 1, 0], 4, [4, 5, 6]),
    ],
)
def test_ranks_of_a_host_are_in_the_order_of_their_devices(
    devices: list[int], first_rank: int | None, ranks: list[int]
) -> None:
    processes = [host(f"{324 + at}", 100 * at) for at in range(3)]
    processes += [device(f"GPU {at}", 100 * at + 50) for at in range(3)]
    numbers: dict[Pid, int] = {f"GPU {at}": number for at, number in enumerate(devices)}
    launches: dict[Pid, dict[Pid, int]] = {f"GPU {at}": {f"{324 + at}": 5} for at in range(3)}
    result = found(processes, numbers, first_rank, launches)
    assert result is not None
    assert result[0] == ranks


@pytest.mark.parametrize(("first_rank", "ranks"), [(0, [1, 0]), (None, [None, None])])
def test_processes_that_show_calls_and_work_are_ranks_where_the_header_is_that_of_a_rank(
    first_rank: int | None, ranks: list[int | None]
) -> None:
    processes = [Process(f"Rank-{name}", at, 5, 5, 5, (at, 99), ()) for at, name in enumerate("ab")]
    launches: dict[Pid, dict[Pid, int]] = {process.pid: {process.pid: 5} for process in processes}
    result = found(processes, {"Rank-a": 1, "Rank-b": 0}, first_rank, launches)
    assert result is not None
    assert result[0] == ranks


def test_processes_without_work_on_a_device_may_be_those_of_one_program() -> None:
    assert found([host("3241", 0, calls=0), host("3242", 20, calls=0)]) is None


def test_processes_whose_work_lies_in_between_stay_open() -> None:
    with pytest.raises(SeveralRanksError, match="3241, 3242"):
        found([host("3241", 0), host("3242", 20), device("0", 5), device("1", 25)], {"0": 0, "1": 1})


def test_a_device_on_which_calls_are_drawn_is_no_rank() -> None:
    drawn = Process("0", 50, 5, 0, 5, (51, 60), ("python", "AIU 0"))
    assert found([host("3241", 0, "python", "CPU"), drawn], {"0": 0}) is None
    with pytest.raises(SeveralRanksError):
        found([host("3241", 0), host("3242", 20), drawn], {"0": 0})


@pytest.mark.parametrize(
    "processes",
    [
        [host("3241", 0, "python", "CPU"), device("0", 50, "python", "GPU 0"), device("1", 60, "GPU 1"), marks("", 99)],
        [host("3241", 0, "python rank 3"), device("0", 50, "rank 3 GPU 0")],
        [host("[TP01] 3241", 0), device("[TP01] 0", 50)],
        [host("3241", 0), Process("3300", 20, 0, 9, 0, (20, 30), ()), device("0", 50)],
        [host("1704067200", 0), device("0", 50)],
        [host("3241.0", 0), device("0.0", 50)],
        [host("python (3241)", 0), device("GPU (0)", 50), device("GPU (1)", 60)],
        [marks("rank 0", 0), marks("rank 1", 10), host("3241", 20), device("0", 50)],
        [device("0", 0), device("7", 50)],
        [],
    ],
)
def test_a_rank_alone_is_one_trace(processes: list[Process]) -> None:
    assert (
        found(
            processes,
            {
                process.pid: int(process.pid or 0)
                for process in processes
                if process.gpu_count and (process.pid or "").isdigit()
            },
        )
        is None
    )


def rank_events(pid: object, gpu: object, at: float = 0.0, **more: Any) -> list[dict[str, Any]]:
    """Return three launches with their kernels; each rank numbers them alike."""
    rows: list[dict[str, Any]] = []
    for number in (1, 2, 3):
        ids = {"correlation": number, "External id": number}
        shared: dict[str, Any] = {"ph": "X", "tid": 7}
        ts = at + 10 * number
        rows += [
            {
                **shared,
                "cat": "cpu_op",
                "name": "aten::mm",
                "pid": pid,
                "ts": ts,
                "dur": 5,
                "args": {"External id": number},
            },
            {
                **shared,
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "pid": pid,
                "ts": ts + 1,
                "dur": 2,
                "args": ids,
            },
            {
                **shared,
                "cat": "kernel",
                "name": f"k{pid}",
                "pid": gpu,
                "ts": ts + 4,
                "dur": 5,
                "args": {**ids, "device": 0, "stream": 7},
            },
            {"ph": "s", "cat": "ac2g", "id": number, "name": "ac2g", "pid": pid, "tid": 7, "ts": ts + 1},
            {"ph": "f", "cat": "ac2g", "id": number, "name": "ac2g", "pid": gpu, "tid": 7, "ts": ts + 4, "bp": "e"},
        ]
    return rows


def ingested(
    folder: Path, rows: Sequence[Mapping[str, Any]], chunk_bytes: int = 2**20, **header: Any
) -> dict[str, Path]:
    """Ingest a file of these events, and return the folders of its traces."""
    file = folder / "merged.json"
    file.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": rows}))
    out = folder / "out"
    out.mkdir()
    TraceEventIngester(chunk_bytes).ingest(file, out, IngestOptions())
    return {path.name: path for path in sorted(out.iterdir())}


def rows_of(folder: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of a trace."""
    return [row for file in sorted(folder.glob(f"{table}*.parquet")) for row in pq.read_table(file).to_pylist()]


@pytest.mark.check
@pytest.mark.parametrize("chunk_bytes", [2**20, 700])
def test_each_rank_is_a_trace_whose_ids_are_its_own(tmp_path: Path, chunk_bytes: int) -> None:
    rows = rank_events("[TP00] 3241", "[TP00] 0") + rank_events("[TP01] 3241", "[TP01] 0", 3.0)
    header = {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}}
    traces = ingested(tmp_path, sorted(rows, key=lambda row: row["ts"]), chunk_bytes, **header)
    assert list(traces) == ["rank0", "rank1"]
    for rank, folder in enumerate(traces.values()):
        (trace,) = rows_of(folder, "traces")
        assert (trace["rank"], trace["world_size"], trace["event_count"]) == (rank, 2, 15)
        calls = {row["slice_id"]: row for row in rows_of(folder, "host_slices")}
        ops = rows_of(folder, "gpu_ops")
        assert [calls[op["launch_id"]]["correlation"] for op in ops] == [1, 2, 3]
        assert {op["name"] for op in ops} == {f"k[TP0{rank}] 3241"}
        assert {row["pid"] for row in rows_of(folder, "threads")} == {"3241", "0"}
        assert len(rows_of(folder, "event_args")) == 9
        (defect,) = rows_of(folder, "defects")
        assert (defect["defect"], defect["severity"]) == ("merged-ranks", "note")
        assert "[TP00], [TP01]" in defect["example"]


@pytest.mark.check
def test_ranks_with_ids_of_their_own_are_told_apart_by_their_launches(tmp_path: Path) -> None:
    other = [
        {**row, "args": {**row["args"], "correlation": 100 + row["args"]["correlation"]}}
        if "correlation" in row.get("args", {})
        else row
        for row in rank_events(3242, 1, 3.0)
    ]
    traces = ingested(tmp_path, sorted(rank_events(3241, 0) + other, key=lambda row: row["ts"]))
    assert list(traces) == ["rank0", "rank1"]
    for folder, name in zip(traces.values(), ("k3241", "k3242"), strict=True):
        ops = rows_of(folder, "gpu_ops")
        assert {op["name"] for op in ops} == {name}
        assert all(op["launch_id"] is not None and op["cpu_op_id"] is not None for op in ops)


@pytest.mark.check
@pytest.mark.parametrize("apart_us", [6.0, -6.0])
def test_ranks_that_number_launches_alike_are_told_apart_by_whose_work_can_have_started(
    tmp_path: Path, apart_us: float
) -> None:
    rows = rank_events(3241, 0, 20.0) + rank_events(3242, 1, 20.0 + apart_us)
    traces = ingested(tmp_path, sorted(rows, key=lambda row: (row["cat"], row["ts"])))
    assert list(traces) == ["rank0", "rank1"]
    for folder in traces.values():
        (name,) = {op["name"] for op in rows_of(folder, "gpu_ops")}
        assert name in {f"k{row['pid']}" for row in rows_of(folder, "threads")}
        assert all(op["launch_id"] is not None for op in rows_of(folder, "gpu_ops"))


def test_ranks_that_work_at_one_time_are_not_told_apart_by_order(tmp_path: Path) -> None:
    rows = rank_events(3241, 0) + rank_events(3242, 1, 3.0)
    traces = ingested(tmp_path, sorted(rows, key=lambda row: row["ts"]))
    assert list(traces) == ["0"]
    assert [row["defect"] for row in rows_of(traces["0"], "defects")] == ["several-processes"]


def test_a_number_that_all_launches_have_makes_no_ranks_of_one_process(tmp_path: Path) -> None:
    rows = [
        row | {"args": {**row["args"], "correlation": 1}} if "correlation" in row.get("args", ()) else row
        for later_us in range(100)
        for row in rank_events(3241, 0, 1e3 * later_us)
    ]
    traces = ingested(tmp_path, rows)
    assert list(traces) == ["0"]
    assert "several-processes" not in {row["defect"] for row in rows_of(traces["0"], "defects")}


@pytest.mark.sampled
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("later_us", [3.0, 1e6])  # at the same time, or one after the other
def test_ranks_whose_processes_have_equal_numbers_are_named(tmp_path: Path, in_order: bool, later_us: float) -> None:
    rows = rank_events(3241, 0) + rank_events(3241, 0, later_us)
    traces = ingested(tmp_path, sorted(rows, key=lambda row: row["ts"]) if in_order else rows)
    assert list(traces) == ["0"]
    defects = {row["defect"]: row["example"] for row in rows_of(traces["0"], "defects")}
    assert defects["several-processes"] == "process 3241"
    assert {op["launch_id"] for op in rows_of(traces["0"], "gpu_ops")} == {None}


def test_ids_that_two_processes_use_link_nothing_where_their_work_cannot_be_told_apart(tmp_path: Path) -> None:
    rows = rank_events(3241, 0) + rank_events(3242, 0, 3.0)
    own = {"correlation": 9, "device": 0, "stream": 7}
    rows.append(
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "pid": 3241,
            "tid": 7,
            "ts": 90,
            "dur": 1,
            "args": own,
        }
    )
    rows.append({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 95, "dur": 1, "args": own})
    traces = ingested(tmp_path, sorted(rows, key=lambda row: row["ts"]))
    assert list(traces) == ["0"]
    ops = rows_of(traces["0"], "gpu_ops")
    assert {op["correlation"] for op in ops if op["launch_id"] is not None} == {9}
    assert {op["cpu_op_id"] for op in ops} == {None}
    assert [row["defect"] for row in rows_of(traces["0"], "defects")] == ["several-processes"]


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("cases/15_sglang_merged/input/merged-1767190000.trace.json.gz", 2),
        ("small/merged_ranks_same_correlations.json", 2),
        ("small/merged_ranks_nccl_only.json.gz", 4),
    ],
)
def test_reported_files_of_merged_ranks_are_a_trace_a_rank(corpus: Path, tmp_path: Path, name: str, ranks: int) -> None:
    file = corpus.parent / "recordings" / name
    if not file.is_file():
        pytest.skip(f"no {file.name}")
    TraceEventIngester().ingest(file, tmp_path, IngestOptions())
    traces = sorted(tmp_path.iterdir())
    assert [rows_of(folder, "traces")[0]["rank"] for folder in traces] == list(range(ranks))
    for folder in traces:
        has_calls = bool(rows_of(folder, "host_slices"))
        assert {op["launch_id"] is not None for op in rows_of(folder, "gpu_ops")} == {has_calls}
