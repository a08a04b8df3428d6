"""Ids of CUDA graphs: 0, which Kineto writes on all GPU work since 2026, is no graph."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from trace_event_tables import events, read

GPU_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}


def with_graph_ids(document: dict[str, Any], graph: object, node: object) -> str:
    """Return a trace as JSON in which all GPU work has these two ids."""
    for event in document["traceEvents"]:
        if str(event.get("cat", "")).lower() in GPU_CATEGORIES:
            event["args"] |= {"graph id": graph, "graph node id": node}
    return json.dumps(document)


@pytest.mark.check
@pytest.mark.parametrize("sample", ["launch_bound", "slow_loader"])
def test_ids_of_0_on_all_gpu_work_change_no_table(root: Path, sample: str) -> None:
    document = json.loads(gzip.decompress((root / "sample_traces" / sample / "rank0.json.gz").read_bytes()))
    plain, zero = read(json.dumps(document)), read(with_graph_ids(document, 0, 0))
    for table in ("gpu_ops", "host_slices", "syncs", "flows", "defects"):
        without_args = [
            [{key: row[key] for key in row if key != "args"} for row in rows[table]] for rows in (plain, zero)
        ]
        assert without_args[0] == without_args[1]


@pytest.mark.check
@pytest.mark.parametrize(
    ("graph", "node", "kept"),
    [
        (0, 0, (None, None)),
        ('"0"', '"0"', (None, None)),
        (0, 7, (None, None)),
        (-1, -1, (None, None)),
        (4_294_967_295, 18_446_744_073_709_551_615, (None, None)),
        (18_446_744_073_709_551_615, 0, (None, None)),
        (3, 0, (3, 0)),
        (3, 12_884_901_888, (3, 12_884_901_888)),
    ],
)
@pytest.mark.parametrize("names", [("graph id", "graph node id"), ("cuda_graph_id", "cuda_graph_node_id")])
@pytest.mark.parametrize("category", ["kernel", "gpu_memcpy", "gpu_memset"])
def test_a_node_belongs_to_a_graph_other_than_0(
    graph: object, node: object, kept: tuple[int | None, int | None], names: tuple[str, str], category: str
) -> None:
    args = f'"stream": 7, "device": 0, "correlation": 9, "{names[0]}": {graph}, "{names[1]}": {node}'
    kernel = f'"ph": "X", "cat": "{category}", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {{{args}}}'
    tables = read(events(f"{{{kernel}}}"))
    (op,) = tables["gpu_ops"]
    assert (op["graph_id"], op["graph_node_id"]) == kept
    assert tables.defects == {}


@pytest.mark.parametrize(
    ("args", "stream"),
    [
        ('"stream": 60, "original_stream": 21', 21),
        ('"stream": 21, "annotated_stream": 60', 21),
        ('"stream": 60', 60),
    ],
)
def test_work_that_is_drawn_on_another_lane_keeps_the_stream_that_it_ran_on(args: str, stream: int) -> None:
    # torch.profiler of September 2026: export_chrome_trace(..., cuda_graph_annotations=..., graph_lanes="all").
    names = f'"device": 0, "correlation": 9, "graph id": 5, "graph node id": 103, "name": "layer 1", {args}'
    kernel = f'"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 60, "ts": 1, "dur": 2, "args": {{{names}}}'
    tables = read(events(f"{{{kernel}}}"))
    (op,) = tables["gpu_ops"]
    assert (op["stream"], op["name"]) == (stream, "k")
    assert tables.defects == {}
