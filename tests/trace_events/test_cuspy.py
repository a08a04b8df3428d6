"""What PyTorch's recorder of 2026 writes (torch.profiler._cuspy, main of September 2026) is read as what Kineto writes.

It names no kind of a copy or memset, draws the work of graphs on lanes and arrows between nodes, and has records of
nodes that compute nothing.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from trace_event_tables import Tables, events, read

WORK = {"device": 0, "context": 1}


def complete(category: str, name: str, track: tuple[int, int], start_us: float, args: dict[str, Any]) -> dict[str, Any]:
    process, thread = track
    times = {"ts": start_us, "dur": 40.0}
    return {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, **times, "args": args}


def tables_of(*written: dict[str, Any]) -> Tables:
    return read(events(*map(json.dumps, written)))


def launch(name: str, start_us: float, number: int) -> dict[str, Any]:
    return complete("cuda_runtime", name, (77, 77), start_us, {"cbid": 1, "correlation": number})


def copied(name: str, **kinds: str) -> dict[str, Any]:
    args = WORK | {"stream": 7, "correlation": 1, "bytes": 4096} | {key.replace("_", " "): kinds[key] for key in kinds}
    return complete("gpu_memcpy", name, (0, 7), 110.0, args)


def replayed(lane: int, **args: int) -> dict[str, Any]:
    own = {key.replace("_", " ") if key.startswith("graph") else key: args[key] for key in args}
    return complete("kernel", "gemm", (0, lane), 210.0, WORK | {"correlation": 2, "grid": [8, 1, 1]} | own)


@pytest.mark.check
def test_the_tables_are_those_of_kineto() -> None:
    calls = [launch("cudaMemcpyAsync", 100.0, 1), launch("cudaGraphLaunch", 200.0, 2)]
    kineto = [*calls, copied("Memcpy HtoD (Pageable -> Device)"), replayed(21, stream=21, graph_id=5, graph_node_id=3)]
    node = {"stream": 21, "correlation": 2, "graph id": 5, "graph node id": 4}
    arrow = {"cat": "ac2g", "name": "ac2g", "id": 1 << 40, "pid": 0, "tid": 7}
    cuspy = [
        *calls,
        copied("Memcpy", copy_kind="HtoD", src_kind="pageable", dst_kind="device"),
        replayed(7, stream=7, original_stream=21, graph_id=5, graph_node_id=3),
        complete("graph_event_node", "EventRecord", (0, 7), 250.0, WORK | node),
        complete("graph_host_node", "HostNode: callback", (0, 7), 250.0, WORK | node | {"host thread": 80}),
        arrow | {"ph": "s", "ts": 200.0},
        arrow | {"ph": "f", "ts": 210.0, "bp": "e"},
    ]
    before, after = (tables_of(*written) for written in (kineto, cuspy))
    own = [[{key: row[key] for key in row if key != "args"} for row in tables["gpu_ops"]] for tables in (before, after)]
    assert own[0] == own[1]
    assert [row["copy_kind"] for row in own[1]] == ["HtoD", None]
    assert [row["stream"] for row in own[1]] == [7, 21]
    assert [row["name"] for row in after["host_slices"]] == ["cudaMemcpyAsync", "cudaGraphLaunch"]
    assert after.defects == {}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "source", "target", "read_as"),
    [
        ("DtoH", "device", "pinned", ("DtoH", "device", "pinned")),
        ("HtoA", "pinned", "array", ("HtoD", "pinned", "array")),
        ("PtoP", "device", "device", ("PtoP", "device", "device")),
        ("DtoD", "device", "managed", ("DtoD", "device", "managed")),
        (9, "pageable", "pageable", ("HtoH", "pageable", "pageable")),
    ],
)
def test_a_copy_has_the_kind_that_stands_beside_its_name(kind: Any, source: str, target: str, read_as: Any) -> None:
    copy = copied("Memcpy", copy_kind=kind, src_kind=source, dst_kind=target)
    (op,) = tables_of(launch("cudaMemcpyAsync", 100.0, 1), copy)["gpu_ops"]
    assert (op["copy_kind"], op["src_kind"], op["dst_kind"]) == read_as


def test_a_memset_has_the_memory_that_stands_beside_its_name() -> None:
    memset = complete("gpu_memset", "Memset", (0, 7), 110.0, WORK | {"stream": 7, "correlation": 1, "memory kind": 3})
    (op,) = tables_of(launch("cudaMemsetAsync", 100.0, 1), memset)["gpu_ops"]
    assert (op["name"], op["dst_kind"]) == ("Memset (Device)", "device")
