"""Public profiles of XLA against numbers that an independent reader worked out, to the last integer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xspace import Tables, read

from traceanalyzer.ingest.xla.defects import ProfileDefects
from traceanalyzer.ingest.xla.events import LineEvents, read_events
from traceanalyzer.ingest.xla.space import LineHead, Plane, Space, read_space
from traceanalyzer.ingest.xla.wire import Int

pytestmark = pytest.mark.check
FILES = (
    "jax07_mi300x8_conv_roctracer",
    "jax08_mi300_attention",
    "jax08_mi300_gemm",
    "jax08_mi300x8_conv",
    "jax_gfx950_te_attention",
    "jax_nostep",
    "jax_odd",
    "jax_recompile",
    "jax_tpu_v6e4_host_offload",
    "jax_train_default",
    "jax_train_h0",
    "jax_train_py0",
    "tf_keras",
    "tf_v100x8_2020",
    "torch_xla",
)
_WORK = ("kernel", "memcpy", "memset", "graph")


def union(starts: Int, ends: Int) -> int:
    if not len(starts):
        return 0
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    first = np.flatnonzero(np.append(True, starts[1:] > ends[:-1]))
    return int((np.append(ends[first[1:] - 1], ends[-1]) - starts[first]).sum())


def numbers_of_line(line: LineHead, batches: list[LineEvents]) -> dict[str, Any]:
    starts = (
        np.concatenate([batch.offset_ps for batch in batches] or [np.empty(0, np.int64)]) + line.timestamp_ns * 1000
    )
    lengths = np.concatenate([batch.dur_ps for batch in batches] or [np.empty(0, np.int64)])
    return {
        "id": line.id,
        "name": line.name,
        "timestamp_ns": line.timestamp_ns,
        "events": len(starts),
        "sum_ps": int(lengths.sum()),
        "union_ps": union(starts, starts + lengths),
        "first_ps": int(starts.min()) if len(starts) else None,
        "last_ps": int((starts + lengths).max()) if len(starts) else None,
        "zero_length": int((lengths == 0).sum()),
        "sub_ns": int(((starts % 1000 != 0) | (lengths % 1000 != 0)).sum()),
    }


def numbers_of_plane(space: Space, plane: Plane) -> dict[str, Any]:
    lines = []
    for start, end in zip(plane.line_starts.tolist(), plane.line_ends.tolist(), strict=True):
        line = space.line(start, end)
        lines.append(numbers_of_line(line, list(read_events(space, plane, line, 0))))
    stats = {key: value for key, value in plane.stats.items() if value is not None}
    return {"name": plane.name, "id": plane.id, "lines": lines, "stats": stats}


@pytest.fixture(scope="module")
def expected(corpus: Path) -> dict[str, dict[str, Any]]:
    path = corpus / "expected" / "xla.json"
    if not path.is_file():
        pytest.skip(f"no {path}")
    return {item["file"]: item for item in json.loads(path.read_text(encoding="utf-8"))}


def picked(numbers: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    return {key: numbers[key] for key in like}


@pytest.mark.parametrize("name", FILES)
def test_every_line_has_the_times_of_an_independent_reader(
    corpus: Path, expected: dict[str, dict[str, Any]], name: str
) -> None:
    content = (corpus / "xla" / f"{name}.xplane.pb").read_bytes()
    wanted = expected[f"{name}.xplane.pb"]
    defects = ProfileDefects()
    space = read_space(np.frombuffer(content, np.uint8), memoryview(content), name, defects)
    assert (space.hostnames, space.errors, space.warnings) == (
        wanted["hostnames"],
        wanted["errors"],
        wanted["warnings"],
    )
    for (start, end), plane in zip(space.planes, wanted["planes"], strict=True):
        found = numbers_of_plane(space, space.plane(start, end))
        assert end - start == plane["bytes"]
        assert picked(found, {"name": 0, "id": 0, "stats": 0}) == picked(plane, {"name": 0, "id": 0, "stats": 0})
        assert found["lines"] == [picked(line, like) for line, like in zip(plane["lines"], found["lines"], strict=True)]
    assert not defects.counts


@pytest.fixture(scope="module")
def tables_of(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    known: dict[str, Tables] = {}

    def tables(name: str) -> Tables:
        if name not in known:
            known[name] = read(corpus / "xla" / f"{name}.xplane.pb", tmp_path_factory.mktemp(name))
        return known[name]

    return tables


@pytest.mark.parametrize("name", FILES)
def test_work_of_each_device_is_that_of_an_independent_reader(
    expected: dict[str, dict[str, Any]], tables_of: Any, name: str
) -> None:
    tables, wanted = tables_of(name), expected[f"{name}.xplane.pb"]
    assert {f"/device:{_word(row)}:{row['device']}" for row in tables["devices"]} == set(wanted["devices"])
    for plane, device in wanted["devices"].items():
        ops = [op for op in tables["gpu_ops"] if op["device"] == int(plane.rpartition(":")[2])]
        assert len(ops) == device["ops"]
        if device["kind"] == "tpu":
            clock = device["device_clock"]
            assert [op["kind"] for op in ops] == ["op"] * device["ops"]
            base = tables["traces"][0]["base_ns"]
            assert min(op["start_ns"] for op in ops) - base == clock["first_ps"] // 1000
            assert max(op["start_ns"] + op["dur_ns"] for op in ops) - base == clock["last_ps"] // 1000
            continue
        kinds = {kind: counted for kind, counted in device["by_kind"].items() if kind in _WORK}
        assert Counter(op["kind"] for op in ops) == {kind: counted["count"] for kind, counted in kinds.items()}
        for kind, counted in kinds.items():
            assert sum(op["dur_ns"] for op in ops if op["kind"] == kind) * 1000 == counted["sum_ps"]
        starts = np.array([op["start_ns"] for op in ops], np.int64)
        ends = starts + np.array([op["dur_ns"] for op in ops], np.int64)
        assert union(starts, ends) * 1000 == device["busy_union_ps"]
        assert sum(op["launch_id"] is not None for op in ops) == device["launch_matched"]


def _word(row: dict[str, Any]) -> str:
    return "TPU" if row["vendor"] == "google" else "GPU"


@pytest.mark.parametrize("name", FILES)
def test_marks_of_steps_are_those_of_an_independent_reader(
    expected: dict[str, dict[str, Any]], tables_of: Any, name: str
) -> None:
    tables = tables_of(name)
    base = tables["traces"][0]["base_ns"] or 0
    marks = [row for row in tables["host_slices"] if row["raw_category"] == "step_num"]
    found = sorted((row["start_ns"] - base, row["name"], row["dur_ns"]) for row in marks)
    wanted = [step for step in expected[f"{name}.xplane.pb"]["steps"] if step["source"] == "host step_num"]
    assert found == sorted(
        (step["start_ps"] // 1000, f"{step['name']} {step['step_num']}", step["dur_ps"] // 1000) for step in wanted
    )
