"""Processes that use one GPU, and processes that each have one: the identity of the GPU in the recording decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nsys_export import KERNEL, RUNTIME, STRINGS, call, kernel, write_sqlite

from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.report.inventory import take_inventory
from traceanalyzer.run import open_run

US = 1_000
Row = tuple[Any, ...]


def nsys(tmp_path: Path, gpus: list[dict[str, Any]], of_processes: dict[int, int]) -> Path:
    """Write two processes that each see their GPU as device 0: 3 kernels of 400 us each, which partly overlap."""
    calls, kernels = [], []
    for number, pid in enumerate((10, 11)):
        for nth in range(3):
            start = (nth * 1000 + number * 200) * US
            calls.append(call(start, start + 5 * US, nth + 1, pid=pid))
            kernels.append(kernel(start + 10 * US, start + 410 * US, nth + 1, pid=pid))
    seen = [{"gpuId": gpu, "cudaId": 0, "pid": pid, "uuid": gpus[gpu].get("uuid")} for pid, gpu in of_processes.items()]
    tables = {"StringIds": STRINGS, KERNEL: kernels, RUNTIME: calls, "TARGET_INFO_GPU": gpus}
    return write_sqlite(tmp_path / "run.sqlite", tables | ({"TARGET_INFO_CUDA_DEVICE": seen} if seen else {}))


def gpu(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": "NVIDIA H100", "cuDevice": number, "busLocation": f"0000:{number}b:00.0"} | more


def shared(path: Path, store: Path) -> list[Row]:
    with open_run(path, store=store, jobs=1) as run:
        columns = "process_count, span_ns // 1000, busy_ns // 1000, own_busy_ns // 1000, overlapped_ns // 1000"
        return run.connection.sql(f"SELECT {columns} FROM shared_gpus").fetchall()


# GPU 0   [== process 10 ==]         twice more, 1000 us apart
#                [== process 11 ==]
BOTH = [(2, 2600, 1800, 1200, 600)] * 2


@pytest.mark.check
@pytest.mark.parametrize(
    ("gpus", "of_processes", "expected"),
    [
        ([gpu(0, uuid="GPU-aa"), gpu(1, uuid="GPU-bb")], {10: 0, 11: 0}, BOTH),
        ([gpu(0, uuid="GPU-aa"), gpu(1, uuid="GPU-bb")], {10: 0, 11: 1}, []),
        ([gpu(0), gpu(1)], {10: 0, 11: 0}, BOTH),  # by their place on the bus
        ([gpu(0), gpu(1)], {10: 0, 11: 1}, []),
        ([gpu(0)], {}, BOTH),  # the machine has one GPU
        ([gpu(0), gpu(1)], {}, []),  # not recorded: each process may see its GPU as device 0
    ],
)
def test_processes_of_one_export_share_a_gpu(
    tmp_path: Path, gpus: list[dict[str, Any]], of_processes: dict[int, int], expected: list[Row]
) -> None:
    assert shared(nsys(tmp_path, gpus, of_processes), tmp_path / "store") == expected


@pytest.mark.check
def test_info_and_diagnosis_say_that_a_gpu_is_shared(tmp_path: Path) -> None:
    path = nsys(tmp_path, [gpu(0, uuid="GPU-aa")], {10: 0, 11: 0})
    with open_run(path, store=tmp_path / "store", jobs=1) as run:
        said = take_inventory(run.connection).uncertainties
        diagnosis = run.diagnose()
    assert any("2 processes share one GPU (NVIDIA H100), which works 69.2 % of the time" in words for words in said)
    assert [finding.rule for finding in diagnosis.findings if finding.rule == "tq-shared-gpu"]
    assert [ledger.shared_gpu.busy_ns for ledger in diagnosis.ledgers if ledger.shared_gpu] == [1_800_000] * 2


def kineto(tmp_path: Path, rank: int, at_us: int, **properties: Any) -> None:
    events = []
    for nth in range(3):
        start = at_us + nth * 1000
        events += [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": start, "dur": 5}
            | {"args": {"correlation": nth + 1}},
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": start + 10, "dur": 400}
            | {"args": {"device": 0, "stream": 7, "correlation": nth + 1}},
        ]
    document = {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_790_000_000_000_000_000,
        "host_name": "node1",
        "distributedInfo": {"rank": rank, "world_size": 2},
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100"} | properties],
        "traceEvents": events,
    }
    (tmp_path / f"rank{rank}.json").write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.check
@pytest.mark.parametrize(
    ("of_ranks", "expected"),
    [
        (({"uuid": "GPU-aa"}, {"uuid": "gpu-AA"}), BOTH),
        (({"uuid": "GPU-aa"}, {"uuid": "GPU-bb"}), []),
        (({"pciBusId": "0000:1B:00.0"}, {"pciBusId": "0000:1b:00.0"}), BOTH),
        (({}, {}), []),
    ],
)
def test_ranks_of_one_run_share_a_gpu_where_both_name_it(
    tmp_path: Path, of_ranks: tuple[dict[str, Any], ...], expected: list[Row]
) -> None:
    for rank, properties in enumerate(of_ranks):
        kineto(tmp_path, rank, 10 + rank * 200, **properties)
    assert shared(tmp_path, tmp_path / "store") == expected


@pytest.mark.check
def test_ranks_that_use_a_gpu_one_after_the_other_do_not_share_it(tmp_path: Path) -> None:
    kineto(tmp_path, 0, 10, uuid="GPU-aa")
    kineto(tmp_path, 1, 10_000, uuid="GPU-aa")
    assert shared(tmp_path, tmp_path / "store") == []


@pytest.mark.check
def test_time_of_another_process_is_no_pause_of_the_host(tmp_path: Path) -> None:
    # GPU 0   process 10 ====      ====      ====      ====    20 kernels of 95 us in a turn of 2 ms, 5 us apart
    #         process 11     ====      ====      ====      ====
    calls, kernels = [], []
    for pid, first in ((10, 0), (11, 2_000)):
        for nth in range(200):
            start = (first + nth // 20 * 4_000 + nth % 20 * 100) * US
            calls.append(call(start, start + 5 * US, nth + 1, pid=pid))
            kernels.append(kernel(start + 10 * US, start + 105 * US, nth + 1, pid=pid))
    tables = {"StringIds": STRINGS, KERNEL: kernels, RUNTIME: calls, "TARGET_INFO_GPU": [gpu(0, uuid="GPU-aa")]}
    with open_run(write_sqlite(tmp_path / "run.sqlite", tables), store=tmp_path / "store", jobs=1) as run:
        diagnosis = run.diagnose()
    assert {ledger.shared_gpu.busy_ns for ledger in diagnosis.ledgers if ledger.shared_gpu} == {38_000 * US}
    # The GPU is idle for 5 % of the time: without the other process, pauses of 50 % would be saved.
    assert max((finding.saving_share or 0.0 for finding in diagnosis.findings), default=0.0) < 0.06
    assert "No rule explains" not in judge(diagnosis).sentence
