"""Managed memory in exports: moves of pages with cause and direction, and page faults with the code behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nsys_export import MEMCPY, STRINGS, global_pid, ingest, launched

from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS
from tracesim import simulate

READ_BACK = {
    "steps": 4,
    "page_faults": True,
    "program": [
        {"kernel": {"us": 300, "class": "elementwise", "on_host_mb": 8}},
        {"repeat": 20, "do": [{"kernel": {"us": 100}}]},
        {"read_managed": {"mb": 4, "name": "print_sums"}},
    ],
}


def test_moves_keep_cause_and_direction_and_are_copies_too(tmp_path: Path) -> None:
    process = {"globalPid": global_pid(10), "deviceId": 0, "contextId": 0, "streamId": 0, "correlationId": 0}
    times: dict[str, Any] = {"start": 500, "end": 520, "bytes": 4096, "srcKind": 7, "dstKind": 7}
    copies = [
        {**process, **times, "copyKind": 1, "migrationCause": 0},
        {**process, **times, "copyKind": 11, "migrationCause": 2},
        {**process, **times, "copyKind": 12, "migrationCause": 4},
        {**process, **times, "copyKind": 13, "migrationCause": 9},
    ]
    found = ingest(tmp_path, {**launched(1), MEMCPY: copies})
    moves = found.rows("managed_memory")
    told = [(move["kind"], move["copy_kind"], move["cause"], move["size_bytes"], move["dur_ns"]) for move in moves]
    assert told == [
        ("move", "HtoD", "page fault", 4096, 20),
        ("move", "DtoH", "eviction", 4096, 20),
        ("move", "DtoD", None, 4096, 20),
    ]
    assert {move["event_id"] for move in moves} < set(found.column("gpu_ops", "op_id"))


@pytest.mark.check
@pytest.mark.parametrize("device", [None, -1])
def test_moves_and_faults_that_name_no_device_are_on_that_of_their_context_or_on_none(
    device: int | None, tmp_path: Path
) -> None:
    process = {"globalPid": global_pid(10), "streamId": 0, "correlationId": 0}
    times: dict[str, Any] = {"start": 500, "end": 520, "bytes": 4096, "srcKind": 7, "dstKind": 7, "copyKind": 11}
    copies = [
        {**process, **times, "deviceId": 3, "contextId": 8},
        {**process, **times, "deviceId": device, "contextId": 8, "start": 501},
        {**process, **times, "deviceId": device, "contextId": 9, "start": 502},
    ]
    fault: dict[str, Any] = {
        "start": 503,
        "end": 530,
        "globalPid": global_pid(10),
        "deviceId": device,
        "numberOfPageFaults": 7,
    }
    found = ingest(tmp_path, {**launched(1), MEMCPY: copies, "CUDA_UM_GPU_PAGE_FAULT_EVENTS": [fault]})
    rows = sorted(found.rows("managed_memory"), key=lambda row: row["start_ns"])
    assert [(row["kind"], row["device"]) for row in rows] == [
        ("move", 3),
        ("move", 3),
        ("move", None),
        ("gpu_fault", None),
    ]


def test_page_faults_have_their_device_or_the_function_that_touched_the_page(tmp_path: Path) -> None:
    strings = [*STRINGS, {"id": 100, "value": "fill(float*)"}]
    of_gpu = {"start": 500, "end": 530, "globalPid": global_pid(10), "deviceId": 0, "numberOfPageFaults": 7}
    of_cpu = {"start": 600, "globalPid": global_pid(10), "address": 4096, "CpuInstruction": 100}
    tables = {"CUDA_UM_GPU_PAGE_FAULT_EVENTS": [of_gpu], "CUDA_UM_CPU_PAGE_FAULT_EVENTS": [of_cpu]}
    first, second = ingest(tmp_path, {**launched(1), "StringIds": strings, **tables}).rows("managed_memory")
    by_cpu, by_gpu = sorted((first, second), key=lambda fault: str(fault["kind"]))
    assert (by_gpu["kind"], by_gpu["device"], by_gpu["dur_ns"], by_gpu["fault_count"]) == ("gpu_fault", 0, 30, 7)
    assert (by_cpu["kind"], by_cpu["device"], by_cpu["dur_ns"]) == ("cpu_fault", None, 0)
    assert by_cpu["function"] == "fill(float*)"


def test_an_export_without_managed_memory_has_no_such_rows(tmp_path: Path) -> None:
    assert ingest(tmp_path, launched(2)).rows("managed_memory") == []


@pytest.mark.check
def test_a_simulated_program_says_which_kernels_and_which_host_code_wait_for_pages(tmp_path: Path) -> None:
    run = simulate(READ_BACK, seed=4)
    run.write_nsys(tmp_path / "program.sqlite")
    moved = sum(move.size_bytes for move in run.recording.migrations)
    with open_run(tmp_path / "program.sqlite", store=tmp_path / "store", jobs=1) as opened:
        ((bytes_told, faults_told),) = opened.connection.execute(
            "SELECT sum(size_bytes), sum(fault_count) FROM managed_migrations"
        ).fetchall()
        diagnosis = opened.diagnose(settings=NO_SETTINGS)
    found = next(finding for finding in diagnosis.findings if finding.rule == "uvm-migration")
    faults = [move for move in run.recording.migrations if move.cause == "page fault"]
    assert bytes_told == moved
    assert faults_told == sum(move.function is None for move in faults)
    assert "4 kernels wait for pages" in found.message
    host_code = next(table for table in found.evidence if table.title.startswith("Host code"))
    assert host_code.rows[0] == ("print_sums", sum(move.function is not None for move in faults))
