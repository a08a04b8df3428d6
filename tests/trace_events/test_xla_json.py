"""XLA's own JSON shows each plane of a profile as a process: it means what the profile means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trace_event_tables import Tables, read

Event = dict[str, Any]
HOST, KERNEL = 701, "regs:32 static_shared:0 dynamic_shared:0 grid:64,1,1 block:128,1,1 occ_pct:100"


def process(pid: int, name: str) -> Event:
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


def lane(pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def drawn(pid: int, tid: int, name: str, ts: float, dur: float, **args: str) -> Event:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, **({"args": args} if args else {})}


def tables_of(*events: Event) -> Tables:
    return read(
        json.dumps({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]})
    )


def recorded_by(tables: Tables) -> tuple[Any, ...]:
    (trace,) = tables["traces"]
    return trace["format"], trace["recorder"], trace["framework"], trace["vendor"]


def categories(tables: Tables) -> dict[str, str]:
    return {row["name"]: row["category"] for row in tables["host_slices"]}


@pytest.mark.parametrize("named", [[], [process(HOST, "/host:CPU")]])
def test_a_file_of_device_work_alone_is_not_of_pytorch(named: list[Event]) -> None:
    fusion = drawn(3, 13, "fusion", 20, 2.5, correlation_id="5", hlo_module="jit_step", kernel_details=KERNEL)
    tables = tables_of(process(3, "/device:GPU:2"), *named, lane(3, 13, "Stream #13(Compute)"), fusion)
    assert recorded_by(tables)[:3] == ("chrome", "jax", "jax")
    assert [(op["device"], op["stream"], op["kind"], op["grid_x"]) for op in tables["gpu_ops"]] == [
        (2, 13, "kernel", 64)
    ]


def test_a_gpu_without_work_is_a_device() -> None:
    planes = [process(pid, f"/device:GPU:{pid - 1}") for pid in (1, 2, 3)]
    tables = tables_of(*planes, drawn(2, 7, "fusion", 1, 1, correlation_id="5", kernel_details=KERNEL))
    assert [row["device"] for row in tables["devices"]] == [0, 1, 2]


def test_lines_that_repeat_work_are_neither_work_nor_calls() -> None:
    tables = tables_of(
        process(3, "/device:GPU:0"),
        lane(3, 13, "Stream #13(Compute)"),
        lane(3, 20, "XLA Ops"),
        lane(3, 3_735_928_559, "Steps"),
        drawn(3, 13, "fusion", 10, 5, correlation_id="1", kernel_details=KERNEL),
        drawn(3, 20, "fusion.1", 10, 5, hlo_op="fusion.1"),
        drawn(3, 3_735_928_559, "0", 10, 9, step_name="0"),
    )
    assert [op["name"] for op in tables["gpu_ops"]] == ["fusion"]
    assert tables["host_slices"] == []
    shown = [(row["pid"], row["raw_category"], row["category"]) for row in tables["async_slices"]]
    assert sorted(shown) == [("/device:GPU:0", "Steps", "derived"), ("/device:GPU:0", "XLA Ops", "derived")]


def test_copies_of_amd_that_are_kernels_go_where_their_launch_says() -> None:
    tables = tables_of(
        process(1, "/device:GPU:0"),
        process(HOST, "/host:CPU"),
        lane(1, 17, "Stream #17(Kernel)"),
        drawn(HOST, 8, "hipMemcpyHtoDAsync", 1, 2, correlation_id="9"),
        drawn(
            1, 17, "__amd_rocclr_copyBuffer.kd", 5, 4, correlation_id="9", kernel_details=" grid:16,1,1 block:512,1,1"
        ),
        drawn(
            1,
            17,
            "__amd_rocclr_fillBufferAligned.kd",
            10,
            1,
            correlation_id="8",
            kernel_details=" grid:1,1,1 block:1,1,1",
        ),
        drawn(1, 17, "CopyDeviceToDevice", 15, 1, memcpy_details="kind:Unknown size:64 dest:2 async:1"),
        drawn(1, 17, "gemm", 20, 1, correlation_id="7", kernel_details="regs:2191500840 grid:1,1,1 block:1,1,1"),
    )
    found = sorted(
        (op["start_ns"], op["kind"], op["copy_kind"], op["registers_per_thread"]) for op in tables["gpu_ops"]
    )
    assert [op[1:] for op in found] == [
        ("memcpy", "HtoD", None),
        ("memset", None, None),
        ("memcpy", "DtoD", None),
        ("kernel", None, None),
    ]
    assert tables.defects == {"unset-launch-values": 1}


def test_slices_of_the_host_are_what_a_profile_says_they_are() -> None:
    tables = tables_of(
        process(HOST, "/host:CPU"),
        drawn(HOST, 1, "train", 0, 90, step_num="3"),
        drawn(HOST, 1, "data_wait", 1, 40),
        drawn(HOST, 1, "$<frozen importlib> find", 2, 1),
        drawn(HOST, 1, "PJRT_LoadedExecutable_Execute", 50, 9),
        drawn(HOST, 1, "PjitFunction(step)", 49, 20),
        drawn(HOST, 2, "dot.3", 51, 5, hlo_op="dot.3", hlo_module="jit_step"),
        drawn(HOST, 2, "data_wait on a thread without steps", 60, 5),
    )
    assert categories(tables) == {
        "train 3": "annotation",
        "data_wait": "annotation",
        "$<frozen importlib> find": "python",
        "PJRT_LoadedExecutable_Execute": "other",
        "PjitFunction(step)": "other",
        "dot.3": "cpu_op",
        "data_wait on a thread without steps": "other",
    }


def test_torch_xla_is_known_by_its_threads() -> None:
    tables = tables_of(process(HOST, "/host:CPU"), lane(HOST, 4, "tf_pytorchxla/77"), drawn(HOST, 4, "Run", 1, 2))
    assert recorded_by(tables) == ("chrome", "torch_xla", "pytorch", None)


HEAD = "%copy-done.1 = f32[256]{0} copy-done((f32[256]{0}, f32[256]{0:S(5)}, u32[]) %copy-start.1)"


def own_clock(offset_ps: int, duration_ps: int) -> dict[str, str]:
    return {"device_offset_ps": str(offset_ps), "device_duration_ps": str(duration_ps)}


def test_operations_of_a_tpu_are_timed_by_its_own_clock() -> None:
    tables = tables_of(
        process(3, "/device:TPU:0"),
        lane(3, 2, "XLA Modules"),
        lane(3, 3, "XLA Ops"),
        drawn(3, 2, "jit_step(7)", 100, 60, run_id="4"),
        drawn(3, 3, "while.1", 100, 50, hlo_category="while", **own_clock(90_000_000, 50_000_000)),
        drawn(
            3, 3, "copy-done.1", 120, 30, hlo_category="copy-done", long_name=HEAD, **own_clock(100_000_500, 30_000_600)
        ),
        drawn(3, 3, "all-reduce.2", 155, 5, hlo_category="all-reduce"),
    )
    (run,) = tables["async_slices"]
    columns = (
        "device",
        "stream",
        "name",
        "start_ns",
        "dur_ns",
        "self_ns",
        "copy_kind",
        "size_bytes",
        "is_comm",
        "run_id",
    )
    assert sorted(tuple(op[key] for key in columns) for op in tables["gpu_ops"]) == [
        (0, None, "all-reduce.2", 155_000, 5_000, None, None, None, True, run["event_id"]),
        (0, None, "copy-done.1", 100_000, 30_001, None, "HtoD", 1024, False, run["event_id"]),
        (0, None, "while.1", 90_000, 50_000, 19_999, None, None, False, run["event_id"]),
    ]
    assert {op["kind"] for op in tables["gpu_ops"]} == {"op"}
    assert recorded_by(tables) == ("chrome", "jax", "jax", "google")
    assert [row["name"] for row in tables["devices"]] == ["TPU"]
    (defect,) = tables["defects"]
    assert (defect["defect"], defect["example"]) == ("device-clock-mapped", "0.0 ms")


def test_runs_of_programs_are_the_work_of_a_tpu_that_shows_no_operation() -> None:
    tables = tables_of(
        process(3, "/device:TPU:0"),
        process(4, "/device:TPU:1"),
        *(lane(pid, 2, "XLA Modules") for pid in (3, 4)),
        lane(4, 3, "XLA Ops"),
        *(drawn(pid, 2, f"jit_step({number})", 100 * number, 60) for pid in (3, 4) for number in (1, 2)),
        drawn(4, 3, "fusion.1", 100, 50, hlo_category="fusion"),
    )
    runs = {(row["pid"], row["start_ns"]): row["event_id"] for row in tables["async_slices"]}
    assert len(runs) == 4
    columns = ("device", "kind", "name", "start_ns", "dur_ns", "is_comm", "run_id")
    assert sorted(tuple(op[key] for key in columns) for op in tables["gpu_ops"]) == [
        (0, "op", "jit_step(1)", 100_000, 60_000, False, runs["/device:TPU:0", 100_000]),
        (0, "op", "jit_step(2)", 200_000, 60_000, False, runs["/device:TPU:0", 200_000]),
        (1, "op", "fusion.1", 100_000, 50_000, False, runs["/device:TPU:1", 100_000]),
    ]
    assert tables.defects == {"programs-as-work": 2}


@pytest.mark.parametrize("name", ["/host:CPU", "/device:GPU:0", "/device:TPU:0"])
def test_a_file_without_events_is_of_jax(name: str) -> None:
    assert recorded_by(tables_of(process(701, name)))[:3] == ("chrome", "jax", "jax")
