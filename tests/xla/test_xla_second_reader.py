"""Protobuf's own decoder reads the same events, times and values as ours, from every public profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xspace import MS, PlaneMaker, Ref, space

from traceanalyzer.ingest.xla.defects import ProfileDefects
from traceanalyzer.ingest.xla.events import read_events
from traceanalyzer.ingest.xla.space import Plane, Space, read_space
from traceanalyzer.ingest.xla.stats import BYTES, Stats, one_value

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
descriptor_pool = pytest.importorskip("google.protobuf.descriptor_pool")
message_factory = pytest.importorskip("google.protobuf.message_factory")

# Message → fields: number, name, type, and whether it repeats. Text is read as bytes: it may be no UTF-8.
# A map is a repeated message of keys and values.
_SCHEMA: dict[str, list[tuple[int, str, str, bool]]] = {
    "Space": [(1, "planes", "Plane", True), (4, "hostnames", "bytes", True)],
    "Plane": [
        (1, "id", "int64", False),
        (2, "name", "bytes", False),
        (3, "lines", "Line", True),
        (4, "event_names", "EventEntry", True),
        (5, "stat_names", "StatEntry", True),
        (6, "stats", "Stat", True),
    ],
    "EventEntry": [(1, "key", "int64", False), (2, "value", "EventName", False)],
    "StatEntry": [(1, "key", "int64", False), (2, "value", "StatName", False)],
    "EventName": [(2, "name", "bytes", False), (5, "stats", "Stat", True)],
    "StatName": [(2, "name", "bytes", False)],
    "Line": [
        (1, "id", "int64", False),
        (2, "name", "bytes", False),
        (3, "timestamp_ns", "int64", False),
        (4, "events", "Event", True),
    ],
    "Event": [
        (1, "metadata_id", "int64", False),
        (2, "offset_ps", "int64", False),
        (3, "duration_ps", "int64", False),
        (4, "stats", "Stat", True),
    ],
    "Stat": [
        (1, "metadata_id", "int64", False),
        (2, "double_value", "double", False),
        (3, "uint64_value", "uint64", False),
        (4, "int64_value", "int64", False),
        (5, "str_value", "bytes", False),
        (6, "bytes_value", "bytes", False),
        (7, "ref_value", "uint64", False),
    ],
}
_NUMBERS = {"double": 1, "int64": 3, "uint64": 4, "message": 11, "bytes": 12}
_VALUES = ("double_value", "uint64_value", "int64_value", "str_value", "bytes_value", "ref_value")
Row = tuple[str, int, int, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def space_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="profile", syntax="proto3")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        if name == "Stat":
            message.oneof_decl.add(name="value")
        for number, field, kind, repeats in fields:
            one = message.field.add(name=field, number=number, label=3 if repeats else 1)
            one.type = _NUMBERS.get(kind, _NUMBERS["message"])
            if kind in _SCHEMA:
                one.type_name = f".profile.{kind}"
            if field in _VALUES:
                one.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("profile.Space"))


def theirs(space_class: Any, content: bytes) -> Iterator[tuple[str, list[Row]]]:
    """Yield the events of each line as protobuf decodes them."""
    for plane in space_class.FromString(content).planes:
        stat_names = {entry.key: entry.value.name.decode(errors="replace") for entry in plane.stat_names}
        names = {entry.key: entry.value.name.decode(errors="replace") for entry in plane.event_names}
        for line in plane.lines:
            rows = [
                (
                    names.get(event.metadata_id, f"?{event.metadata_id}"),
                    event.offset_ps,
                    event.duration_ps,
                    [pair for stat in event.stats if (pair := _pair(stat, stat_names)) is not None],
                )
                for event in line.events
            ]
            yield f"{plane.name.decode()} {line.id} {line.name.decode(errors='replace')}", rows


def _pair(stat: Any, names: dict[int, str]) -> tuple[str, str] | None:
    kind = stat.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(stat, kind)
    if kind == "ref_value":
        value = names.get(value, f"?{value}")
    elif kind == "str_value":
        value = value.decode(errors="replace")
    elif kind == "bytes_value":
        value = None
    # NaN is not equal to itself; its text is.
    return names.get(stat.metadata_id, f"?{stat.metadata_id}"), repr(value)


def ours(content: bytes) -> Iterator[tuple[str, list[Row]]]:
    """Yield the events of each line as our reader decodes them."""
    known = read_space(np.frombuffer(content, np.uint8), memoryview(content), "profile", ProfileDefects())
    for start, end in known.planes:
        plane = known.plane(start, end)
        for line_start, line_end in zip(plane.line_starts.tolist(), plane.line_ends.tolist(), strict=True):
            line = known.line(line_start, line_end)
            rows: list[Row] = []
            for batch in read_events(known, plane, line, 0):
                values = _values(known, plane, batch.stats, len(batch))
                named = [plane.event_names[place] for place in batch.name.tolist()]
                rows += zip(named, batch.offset_ps.tolist(), batch.dur_ps.tolist(), values, strict=True)
            yield f"{plane.name} {line.id} {line.name}", rows


def _values(known: Space, plane: Plane, stats: Stats, count: int) -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = [[] for _ in range(count)]
    for row, owner in enumerate(stats.owner.tolist()):
        value = None if stats.kind[row] == BYTES else one_value(known, plane, stats, row)
        found[owner].append((plane.stat_names[int(stats.key[row])], repr(value)))
    return found


def test_both_readers_agree_on_every_kind_of_value(space_class: Any) -> None:
    values = {"d": -0.5, "i": -(2**63), "text": "x\ny", "ref": Ref("name"), "raw": b"\xff\0"}
    plane = PlaneMaker("/device:GPU:0").line(-3, "Stream #1", [(5, MS, "a", values), (-9, 0, "b", {})])
    content = space(plane)
    assert list(ours(content)) == list(theirs(space_class, content))


@pytest.mark.check
def test_both_readers_agree_on_all_events_of_public_profiles(corpus: Path, space_class: Any) -> None:
    files = sorted((corpus / "xla").glob("*.xplane.pb"))
    if not files:
        pytest.skip(f"no profiles in {corpus / 'xla'}")
    for file in files:
        content = file.read_bytes()
        for mine, wanted in zip(ours(content), theirs(space_class, content), strict=True):
            assert mine == wanted, f"{file.name} {wanted[0]}"
