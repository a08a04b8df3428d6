"""Writes small profiles of XLA (XSpace) field by field, and reads their canonical tables."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.xla import XlaIngester
from traceanalyzer.schema import trace_tables

US, MS = 10**6, 10**9  # in ps
START_NS = 1_790_000_000_000_000_000
Stat: TypeAlias = "float | int | str | bytes | Ref"
Event: TypeAlias = tuple[int, int, str, Mapping[str, Any]]  # offset and duration in ps, name, stats


class Ref(str):
    """A text that stands in the file as a reference to a name."""

    __slots__ = ()


class Unsigned(int):
    """A number that stands in the file as one without a sign."""


class Pairs(tuple[tuple[str, Any], ...]):
    """Values in their order, of which several may have one name."""

    __slots__ = ()

    def items(self) -> Pairs:
        return self


def varint(number: int) -> bytes:
    number %= 2**64
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def number_field(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block_field(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


class PlaneMaker:
    """Collects the lines of a plane; metadata follows them, as profilers write it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.event_names: dict[str, int] = {}
        self.stat_names: dict[str, int] = {}
        self.name_stats: dict[str, Mapping[str, Any]] = {}
        self.display_names: dict[str, str] = {}
        self.lines: list[bytes] = []
        self.stats: dict[str, Any] = {}

    def _stat(self, key: str, value: Any) -> bytes:
        head = number_field(1, self.stat_names.setdefault(key, len(self.stat_names) + 1))
        if isinstance(value, Ref):
            return head + number_field(7, self.stat_names.setdefault(str(value), len(self.stat_names) + 1))
        if isinstance(value, float):
            return head + varint(2 << 3 | 1) + struct.pack("<d", value)
        if isinstance(value, str):
            return head + block_field(5, value)
        if isinstance(value, Unsigned):
            return head + number_field(3, value)
        return head + (block_field(6, value) if isinstance(value, bytes) else number_field(4, value))

    def line(self, line_id: int, name: str, events: Sequence[Event], timestamp_ns: int = 1000) -> PlaneMaker:
        content = number_field(1, line_id) + block_field(2, name) + number_field(3, timestamp_ns)
        for offset, dur, label, stats in events:
            event = number_field(1, self.event_names.setdefault(label, len(self.event_names) + 1))
            event += number_field(2, offset) + (number_field(3, dur) if dur else b"")
            event += b"".join(block_field(4, self._stat(key, value)) for key, value in stats.items())
            content += block_field(4, event)
        self.lines.append(content)
        return self

    def content(self) -> bytes:
        events = b""
        for name, number in self.event_names.items():
            own = b"".join(block_field(5, self._stat(k, v)) for k, v in self.name_stats.get(name, {}).items())
            if name in self.display_names:
                own += block_field(4, self.display_names[name])
            events += block_field(
                4, number_field(1, number) + block_field(2, number_field(1, number) + block_field(2, name) + own)
            )
        stats = b"".join(block_field(6, self._stat(key, value)) for key, value in self.stats.items())
        names = b"".join(
            block_field(5, number_field(1, number) + block_field(2, number_field(1, number) + block_field(2, name)))
            for name, number in self.stat_names.items()
        )
        lines = b"".join(block_field(3, line) for line in self.lines)
        return block_field(2, self.name) + lines + events + names + stats


def space(*planes: PlaneMaker | bytes, start_ns: int | None = START_NS, more: bytes = b"") -> bytes:
    made = [plane if isinstance(plane, bytes) else plane.content() for plane in planes]
    if start_ns is not None:
        task = PlaneMaker("Task Environment")
        task.stats = {"profile_start_time": start_ns, "profile_stop_time": start_ns + 10**8}
        made.append(task.content())
    return b"".join(block_field(1, plane) for plane in made) + more


Tables: TypeAlias = "dict[str, list[dict[str, Any]]]"


def read(content: bytes | Path, folder: Path) -> Tables:
    """Return the rows of every canonical table of a profile."""
    if isinstance(content, Path):
        path = content
    else:
        path = folder / "host.xplane.pb"
        path.write_bytes(content)
    tables = folder / f"tables-{path.name}"
    tables.mkdir()
    XlaIngester().ingest(path, tables, IngestOptions())
    found = {file.stem: pq.read_table(file).to_pylist() for file in sorted((tables / "0").glob("*.parquet"))}
    return {name: found.get(name, []) for name in trace_tables()}
