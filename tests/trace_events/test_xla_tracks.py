"""The work of devices that XLA's profiler writes for JAX and TensorFlow: events without a category."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from trace_event_tables import Tables, read

import traceanalyzer
from traceanalyzer.ingest.trace_events import assemble

CONTEXT = {"context_id": "$$1"}


def process(pid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


def work(name: str, ts: float, number: int, pid: int = 3, **details: str) -> dict[str, Any]:
    args = {**CONTEXT, "correlation_id": str(number), **details}
    return {"ph": "X", "pid": pid, "tid": 13, "ts": ts, "dur": 2.5, "name": name, "args": args}


def call(name: str, ts: float, number: int) -> dict[str, Any]:
    args = {**CONTEXT, "correlation_id": str(number), "device_id": "0"}
    return {"ph": "X", "pid": 701, "tid": 99, "ts": ts, "dur": 1.5, "name": name, "args": args}


KERNEL = "regs:32 static_shared:0 dynamic_shared:1024 grid:64,2,1 block:128,1,1 occ_pct:100"


def document(*events: dict[str, Any], **keys: Any) -> str:
    named = [process(3, "/device:GPU:0"), process(4, "/device:GPU:1"), process(701, "/host:CPU")]
    return json.dumps({"displayTimeUnit": "ns", "metadata": {}, **keys, "traceEvents": [*named, *events, {}]})


@pytest.fixture(scope="module")
def tables() -> Tables:
    host = {"ph": "X", "pid": 701, "tid": 99, "ts": 10.0, "dur": 30.0, "name": "PjitFunction(step)"}
    module = {"ph": "X", "pid": 3, "tid": 20, "ts": 20.0, "dur": 9.0, "name": "jit_step(7)"}
    return read(
        document(
            host,
            module,
            call("cuLaunchKernel", 12.0, 5),
            call("cuMemcpyHtoDAsync", 16.0, 6),
            work("loop_add_fusion", 20.0, 5, hlo_op="loop_add_fusion.1", kernel_details=KERNEL),
            work("MemcpyH2D", 24.0, 6, memcpy_details="kind_src:pageable kind_dst:device size:4096 dest:0 async:1"),
            work("Memset", 28.0, 7, Memset_details="kind:device num_bytes:64 async:1"),
            work("loop_add_fusion", 31.0, 8, pid=4, kernel_details=KERNEL, cuda_graph_id="9", cuda_graph_node_id="2"),
        )
    )


@pytest.mark.check
def test_work_lies_on_the_device_that_the_process_is_named_after(tables: Tables) -> None:
    assert sorted((op["device"], op["stream"], op["name"], op["kind"]) for op in tables["gpu_ops"]) == [
        (0, 13, "MemcpyH2D", "memcpy"),
        (0, 13, "Memset", "memset"),
        (0, 13, "loop_add_fusion", "kernel"),
        (1, 13, "loop_add_fusion", "kernel"),
    ]


def test_a_launch_and_a_copy_are_described(tables: Tables) -> None:
    by_name = {(op["name"], op["device"]): op for op in tables["gpu_ops"]}
    kernel = by_name["loop_add_fusion", 0]
    assert [kernel[key] for key in ("grid_x", "grid_y", "grid_z", "block_x", "registers_per_thread")] == [
        64,
        2,
        1,
        128,
        32,
    ]
    copy = by_name["MemcpyH2D", 0]
    assert [copy[key] for key in ("copy_kind", "src_kind", "dst_kind", "size_bytes")] == [
        "HtoD",
        "pageable",
        "device",
        4096,
    ]
    assert by_name["Memset", 0]["size_bytes"] == 64
    assert by_name["loop_add_fusion", 1]["graph_id"] == 9


def test_work_is_linked_to_the_call_that_launched_it(tables: Tables) -> None:
    calls = {row["slice_id"]: (row["category"], row["name"]) for row in tables["host_slices"]}
    launches = {op["correlation"]: calls.get(op["launch_id"]) for op in tables["gpu_ops"]}
    assert launches == {
        5: ("driver", "cuLaunchKernel"),
        6: ("driver", "cuMemcpyHtoDAsync"),
        7: None,
        8: None,
    }


def test_the_trace_is_of_jax_and_nothing_is_lost(tables: Tables) -> None:
    (trace,) = tables["traces"]
    assert (trace["format"], trace["recorder"], trace["framework"]) == ("chrome", "jax", "jax")
    assert [row["device"] for row in tables["devices"]] == [0, 1]
    assert tables.defects == {}


def test_names_alone_are_no_device_work() -> None:
    other = [
        work("MemcpyH2D", 24.0, 6),
        {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "name": "request", "args": {"correlation_id": "a7"}},
    ]
    tables = read(document(*other))
    assert tables["gpu_ops"] == []
    assert {row["category"] for row in tables["host_slices"]} == {"driver", "other"}


@pytest.mark.check
def test_what_is_no_number_or_no_description_is_counted() -> None:
    odd = {**call("cuLaunchKernel", 12.0, 5), "args": {**CONTEXT, "correlation_id": ["odd"], "device_id": "0"}}
    assert read(document(odd)).defects == {"bad-number": 1}
    assert read(document(work("fusion", 20.0, 5, kernel_details="odd"))).defects == {"bad-number": 1}


@pytest.fixture(scope="module")
def host_tables() -> Tables:
    """A launch of 2020 has the arguments of the work, and calls of AMD have no context."""
    step = {"ph": "X", "pid": 701, "tid": 99, "ts": 5.0, "dur": 90.0, "name": "train", "args": {"step_num": "41"}}
    frame = {"ph": "X", "pid": 701, "tid": 99, "ts": 6.0, "dur": 1.0, "name": "$loader.py:12 read"}
    launch = work("old_kernel", 10.0, 5, pid=701, kernel_details=KERNEL)
    hip = {"ph": "X", "pid": 701, "tid": 99, "ts": 20.0, "dur": 1.0, "name": "hipLaunchKernel"}
    hip["args"] = {"correlation_id": "6", "device_id": "22244"}
    return read(
        document(
            step,
            frame,
            launch,
            hip,
            work("old_kernel", 30.0, 5, kernel_details=KERNEL),
            work("k", 40.0, 6, kernel_details=KERNEL),
        )
    )


def test_the_host_is_no_device_although_its_launches_look_like_work(host_tables: Tables) -> None:
    slices = {row["slice_id"]: row["name"] for row in host_tables["host_slices"]}
    assert [(op["device"], op["name"], slices[op["launch_id"]]) for op in host_tables["gpu_ops"]] == [
        (0, "old_kernel", "old_kernel"),
        (0, "k", "hipLaunchKernel"),
    ]


def test_steps_are_marks_with_their_number_and_frames_are_python(host_tables: Tables) -> None:
    found = {row["name"]: (row["category"], row["raw_category"]) for row in host_tables["host_slices"]}
    assert found == {
        "train 41": ("annotation", "step_num"),
        "$loader.py:12 read": ("python", None),
        "old_kernel": ("driver", None),
        "hipLaunchKernel": ("runtime", None),
    }


@pytest.mark.parametrize(("limit", "is_cut"), [(9, True), (10, True), (11, False)])
def test_a_file_that_is_as_long_as_xlas_profiler_writes_says_so(
    limit: int, is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "_XLA_EVENT_LIMIT", limit)
    cut = read(document(*(work("fusion", 10.0 * number, number) for number in range(1, 11))))
    assert ("event-limit" in cut.defects) == is_cut


@pytest.mark.check
def test_a_packed_file_of_a_million_events_says_that_others_are_missing(tmp_path: Path) -> None:
    args = '{"context_id":"$$1","correlation_id":"%d","kernel_details":"regs:32"}'
    event = '{"ph":"X","pid":3,"tid":13,"ts":%d,"dur":1,"name":"fusion","args":' + args + "}"
    whole = document(call("PjitFunction(step)", 0, 0))
    file = tmp_path / "host.trace.json.gz"
    with gzip.open(file, "wt", compresslevel=1) as stream:
        stream.write(whole[: whole.rindex("{}]}")])
        stream.writelines(event % (2 * number, number + 1) + "," for number in range(999_999))
        stream.write("{}]}")
    with traceanalyzer.open_run(file, store=tmp_path / "store", attribution=False) as run:
        assert run.sql("SELECT count(*) FROM gpu_ops").fetchall() == [(999_999,)]
        assert run.sql("SELECT defect FROM defects").fetchall() == [("event-limit",)]
