"""Programs on Intel's devices, as Kineto's plug-in for them writes their calls, kernels and copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_programs import copying_from_pageable_memory, launching_small_kernels, reading_values
from program_findings import diagnosed, lead_of, words
from torch_program import PVC, Gpu, TorchProgram

from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.run import open_run

ADD = (
    "at::native::xpu::VectorizedElementwiseKernel<4, at::native::xpu::AddFunctor<float>, at::detail::Array<char*, 3> >"
)


def move(program: TorchProgram, size_bytes: int, us: float, *, pinned: bool = False) -> None:
    with program.op("aten::to"), program.op("aten::_to_copy"), program.op("aten::copy_"):
        program.copy("HtoD", size_bytes, us, pinned=pinned)


def computing() -> TorchProgram:
    program = TorchProgram(PVC)
    for step in range(5):
        with program.step(step):
            for _ in range(40):
                program.run("aten::mm", "gemm_kernel", 400)
                program.run("aten::add", ADD, 60)
    return program


CASES: dict[str, tuple[Callable[[Gpu, str], TorchProgram], str, str]] = {
    "values": (reading_values, "sync-in-step", "value_cpu.copy_(value, non_blocking=True)"),
    "pageable memory": (copying_from_pageable_memory, "h2d-pageable", 'batch.to("xpu", non_blocking=True)'),
    "small kernels": (launching_small_kernels, "launch-bound", "torch.compile"),
}


@pytest.mark.check
@pytest.mark.parametrize("name", CASES)
def test_the_lead_and_its_fix_are_those_of_the_same_program_on_another_device(name: str, tmp_path: Path) -> None:
    program, rule, says = CASES[name]
    leading = lead_of(diagnosed(program(PVC, ADD).write(tmp_path / "trace.json")))
    assert leading.rule == rule
    assert says in words(leading)
    assert "cuda" not in words(leading)


@pytest.mark.check
def test_a_busy_device_is_healthy(tmp_path: Path) -> None:
    diagnosis = diagnosed(computing().write(tmp_path / "trace.json"))
    assert not [finding for finding in diagnosis.findings if finding.saving_share]
    assert "no rule found an issue" in judge(diagnosis).sentence


@pytest.mark.check
def test_every_argument_is_read(tmp_path: Path) -> None:
    program = copying_from_pageable_memory(PVC, ADD)
    move(program, 1_000_000, 40, pinned=True)
    program.item()
    with open_run(program.write(tmp_path / "trace.json"), store=tmp_path / "store", jobs=1) as run:
        assert run.sql("FROM defects").fetchall() == []
        assert run.sql("SELECT vendor, recorder, framework FROM traces").fetchall() == [("intel", "kineto", "pytorch")]
        assert run.sql("SELECT DISTINCT device, stream, context FROM gpu_ops").fetchall() == [(0, 7, 0x55D08918FC78)]
        copies = "SELECT DISTINCT copy_kind, src_kind, dst_kind FROM gpu_ops WHERE kind = 'memcpy' ORDER BY ALL"
        assert run.sql(copies).fetchall() == [
            ("DtoH", "device", "pageable"),
            ("HtoD", "pageable", "device"),
            ("HtoD", "pinned", "device"),
        ]
        # The call that launches is SYCL's, not Level Zero's inside it.
        launches = """
            SELECT DISTINCT calls.name
            FROM gpu_ops AS ops
            JOIN host_slices AS calls ON calls.slice_id = ops.launch_id
            ORDER BY ALL
        """
        assert run.sql(launches).fetchall() == [("urEnqueueKernelLaunch",), ("urEnqueueUSMMemcpy",)]


@pytest.mark.check
def test_a_wait_that_the_driver_records_too_is_one_wait(tmp_path: Path) -> None:
    with open_run(reading_values(PVC, ADD).write(tmp_path / "trace.json"), store=tmp_path / "store", jobs=1) as run:
        assert run.sql("SELECT call, kind, count(*) FROM host_waits GROUP BY ALL").fetchall() == [
            ("urEventWait", "event", 100)
        ]


@pytest.mark.check
def test_a_recording_of_the_device_alone_shows_whose_device_it_is(tmp_path: Path) -> None:
    program = computing()
    program.events = [event for event in program.events if event["cat"] == "kernel"]
    with open_run(program.write(tmp_path / "trace.json"), store=tmp_path / "store", jobs=1) as run:
        assert run.sql("SELECT vendor FROM traces").fetchall() == [("intel",)]


@pytest.mark.check
def test_calls_for_memory_and_code_are_told_once_by_what_they_do(tmp_path: Path) -> None:
    program = computing()
    for _ in range(3):
        for name in ("urUSMDeviceAlloc", "urUSMHostAlloc", "urUSMFree", "urProgramBuild"):
            program.call(name, 50)
    with open_run(program.write(tmp_path / "trace.json"), store=tmp_path / "store", jobs=1) as run:
        allocations = "SELECT name, alloc_count FROM allocations WHERE source = 'driver' ORDER BY name"
        assert run.sql(allocations).fetchall() == [("urUSMDeviceAlloc", 3), ("urUSMFree", 3), ("urUSMHostAlloc", 3)]
        setups = run.sql("SELECT kind, name, count(*) FROM setup_calls GROUP BY ALL").fetchall()
        assert setups == [("code", "urProgramBuild", 3)]
