"""The ingester: one profile in, the canonical tables of one trace out."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions, Progress
from traceanalyzer.ingest.device_check import BRIEF_SILENCE_NS
from traceanalyzer.ingest.nsys.times import (
    ALIKE,
    check_times_of_devices,
    find_shared_launches,
    leave_out_repeated_work,
    open_shared_launches,
)
from traceanalyzer.ingest.sink import TraceSink, recognise_framework
from traceanalyzer.ingest.xla.defects import ProfileDefects
from traceanalyzer.ingest.xla.device import DeviceWriter
from traceanalyzer.ingest.xla.host import HostPlaneWriter
from traceanalyzer.ingest.xla.launches import ModuleLaunches
from traceanalyzer.ingest.xla.space import CUT_AT_ONCE, Plane, Space, read_space
from traceanalyzer.ingest.xla.stats import Value

_TASK, _PROGRAMS, _SCOPES = "Task Environment", "/host:metadata", "/host:__ScopeRangeCallStack__"
_DROPPED = re.compile(r"(\d+) (?:\w+ )?events? dropped")
_VERSIONS = (("jax_version", "jax"), ("jaxlib_version", "jaxlib"))
# What names show which framework recorded the profile; from the most specific to the least.
RECORDERS = (
    ("torch_xla", re.compile(r"tf_pytorchxla/|PjRtComputationClient::")),
    ("jax", re.compile(r"PjitFunction\(")),
    ("tensorflow", re.compile(r"EagerExecute|FunctionRun|ExecutorState::Process")),
)
FRAMEWORKS = {"torch_xla": "pytorch", "jax": "jax", "tensorflow": "tensorflow"}
# Frameworks whose own profiler is that of XLA.
RECORDED_BY_ITSELF = ("jax", "tensorflow")
# How a framework names its compiled programs and what they come from: all that a profile without host events shows.
PROGRAMS = (
    ("torch_xla", re.compile(r"(?:\w+\.)?SyncTensorsGraph\.")),
    ("jax", re.compile(r"(?:jit|pjit|pmap)(?:_|\()")),
    ("tensorflow", re.compile(r"cluster_\d|a_inference_|__inference_")),
)


class XlaTrace:
    """One profile on its way into canonical tables."""

    def __init__(
        self, content: memoryview, path: Path, sink: TraceSink, options: IngestOptions, defects: ProfileDefects
    ) -> None:
        self._path = path
        self._sink = sink
        self._options = options
        self._defects = defects
        self._size = path.stat().st_size
        self._space = read_space(np.frombuffer(content, np.uint8), content, path, defects)

    def write(self) -> None:
        """Write all tables: the host first, because GPU work refers to it."""
        space = self._space
        self._leave_out_repeated()
        planes = space.read_planes = self._once([space.plane(start, end) for start, end in space.planes])
        self._check_names(planes)
        tasks = [plane.stats for plane in planes if plane.name == _TASK]
        task = next(iter(tasks), {})
        self._defects.add("several-sessions", max(len({_start_of(one) for one in tasks} - {None}) - 1, 0))
        base_ns = _start_of(task)
        if base_ns is None:
            self._defects.add("unknown-clock")
        elif isinstance(stop_ns := task.get("profile_stop_time"), int) and stop_ns > base_ns:
            space.bounds_ns = -BRIEF_SILENCE_NS, stop_ns - base_ns + BRIEF_SILENCE_NS
        about = next((plane.stats for plane in planes if plane.name == _PROGRAMS and plane.stats), {})
        pid = str(about.get("process_id", "/host:CPU"))
        host = HostPlaneWriter(space, self._sink, base_ns or 0, self._tell)
        for plane in planes:
            if plane.name.startswith("/host:") and plane.name not in (_PROGRAMS, _SCOPES):
                host.write(plane, pid)
        host.finish()
        device = DeviceWriter(space, self._sink, base_ns or 0, ModuleLaunches(host.facts))
        # Planes of unknown names, too: what they hold is no work, but where the name of a device was lost.
        others = [plane for plane in planes if not plane.name.startswith("/host:")]
        for plane in sorted(others, key=lambda plane: not plane.name):
            device.write(plane)
        if space.has_lines_inside:
            self._defects.add("clocks-contradict", space.outside_count, space.outside_example)
        self._defects.add("mixed-clock-base", min(space.epoch_lines, space.relative_lines))
        self._note_messages()
        self._finish(planes, host, device, base_ns, about)

    def _finish(
        self,
        planes: list[Plane],
        host: HostPlaneWriter,
        device: DeviceWriter,
        base_ns: int | None,
        about: dict[str, Value],
    ) -> None:
        sink = self._sink
        rows = [device.facts.rows[number] for number in sorted(device.facts.rows)]
        sink.append("devices", pa.Table.from_pylist(rows, sink.schema("devices")))
        sink.append("metadata", pa.Table.from_pylist(_metadata(planes, self._space), sink.schema("metadata")))
        sink.finish("host_slices")
        sink.finish("gpu_ops")
        self._check_devices(device)
        recorder = _recorder(planes, host.line_names, about)
        framework = FRAMEWORKS.get(recorder or "") or self._framework(device.facts.vendor)
        times = [time for time in (host.facts.first_ns, device.facts.first_ns) if time is not None]
        ends = [time for time in (host.facts.last_ns, device.facts.last_ns) if time is not None]
        hostnames = self._space.hostnames
        trace = {
            "trace": self._path.name,
            "path": str(self._path),
            "format": "xplane",
            "recorder": recorder or (framework if framework in RECORDED_BY_ITSELF else None),
            "framework": framework,
            "producer": _producer(about),
            "vendor": device.facts.vendor,
            "host": hostnames[0].strip().partition(":")[0] or None if hostnames else None,
            "base_ns": base_ns,
            "first_ns": min(times, default=None),
            "last_ns": max(ends, default=None),
            "size_bytes": self._size,
            "event_count": self._space.event_count,
            "truncated": self._space.is_cut,
            "has_shapes": False,
            "has_stacks": host.facts.has_stacks,
            "has_memory": host.facts.has_memory or device.facts.has_memory,
            "has_sync_events": False,
        }
        sink.append("traces", pa.Table.from_pylist([trace], sink.schema("traces")))
        sink.append("defects", self._defects.table())
        self._options.report(Progress(self._path, self._size, self._size, self._space.event_count))

    def _check_devices(self, device: DeviceWriter) -> None:
        """Leave out work that stands in the file twice, open links that prove nothing, and correct contradicting times.

        Launches of XLA come from several threads, so that their order proves no start.
        """
        facts = device.facts
        are_shared, may_err = facts.shares_launches(), facts.has_overlaps or facts.clocks_may_differ()
        if not are_shared and not may_err:
            return
        ops, slices = self._sink.path("gpu_ops"), self._sink.path("host_slices")
        with duckdb.connect() as connection:
            leave_out_repeated_work(connection, ops, self._defects, None, ALIKE)
            if are_shared and find_shared_launches(connection, ops):
                open_shared_launches(connection, ops, slices)
            if not may_err:
                return
            check_times_of_devices(connection, ops, slices, self._defects, waits=None)
            span = "SELECT min(start_ns), max(start_ns + dur_ns) FROM read_parquet($ops)"
            facts.first_ns, facts.last_ns = connection.execute(span, {"ops": str(ops)}).fetchall()[0]

    def _framework(self, vendor: str | None) -> str | None:
        with duckdb.connect() as connection:
            return recognise_framework(connection, self._sink, vendor=vendor)

    def _tell(self, read_bytes: int) -> None:
        self._options.report(Progress(self._path, min(read_bytes, self._size), self._size, self._space.event_count))

    def _leave_out_repeated(self) -> None:
        """Read planes once that the file holds several times, byte for byte, and so what it says of them."""
        space = self._space
        kept: dict[int, list[tuple[int, int]]] = {}  # by their lengths
        for start, end in space.planes:
            alike = kept.setdefault(end - start, [])
            content = space.data[start:end]
            if not any(np.array_equal(content, space.data[other:last]) for other, last in alike):
                alike.append((start, end))
        found = sorted(place for places in kept.values() for place in places)
        self._defects.add("repeated-plane", len(space.planes) - len(found))
        space.planes = found
        space.warnings, space.errors = list(dict.fromkeys(space.warnings)), list(dict.fromkeys(space.errors))

    def _once(self, planes: list[Plane]) -> list[Plane]:
        """Return planes without lines that stand in the first one of their name, too, as where files were merged."""
        first_of: dict[str, Plane] = {}
        lines_of: dict[str, set[bytes]] = {}
        kept = []
        for plane in planes:
            first = first_of.setdefault(plane.name, plane)
            fresh = np.ones(len(plane.line_starts), np.bool_)
            if first is not plane and (first.event_names, first.stat_names) == (plane.event_names, plane.stat_names):
                if plane.name not in lines_of:
                    lines_of[plane.name] = set(self._lines(first))
                fresh[:] = [line not in lines_of[plane.name] for line in self._lines(plane)]
            if not fresh.all():
                self._defects.add("repeated-plane", 1, plane.name)
                plane.line_starts, plane.line_ends = plane.line_starts[fresh], plane.line_ends[fresh]
            if fresh.any() or not len(fresh):
                kept.append(plane)
        return kept

    def _lines(self, plane: Plane) -> Iterator[bytes]:
        for start, end in zip(plane.line_starts.tolist(), plane.line_ends.tolist(), strict=True):
            yield hashlib.blake2b(self._space.view[start:end], digest_size=16).digest()

    def _check_names(self, planes: list[Plane]) -> None:
        names = [plane.name for plane in planes]
        if not any(name.startswith(("/host:", "/device:")) or name == _TASK for name in names):
            hint = "give the .xplane.pb that the profiler wrote"
            what = "is no profile of XLA: none of its planes is of a host or a device"
            if self._space.is_cut and names == [""] and self._space.begins_plane():
                what = CUT_AT_ONCE
            raise TraceAnalyzerError(what, self._path, hint)
        repeated = {name for name in names if names.count(name) > 1}
        self._defects.add("duplicate-plane", len(repeated), ", ".join(sorted(repeated)))

    def _note_messages(self) -> None:
        for text in self._space.warnings:
            dropped = [int(number) for number in _DROPPED.findall(text) if len(number) < 19]
            if "dropped" in text:
                self._defects.add("events-dropped", sum(dropped) or 1, text)
            else:
                self._defects.add("profiler-warning", 1, text)
        for text in self._space.errors:
            dropped = [int(number) for number in _DROPPED.findall(text) if len(number) < 19]
            self._defects.add("events-dropped" if dropped else "profiler-error", sum(dropped) or 1, text)


def _start_of(task: dict[str, Value]) -> int | None:
    start = task.get("profile_start_time")
    return start if isinstance(start, int) and 0 < start < 4 * 10**18 else None


def recorder_shown(names: Collection[str], programs: Collection[str]) -> str | None:
    """Return the framework that recorded a profile, by names of the host's events, else by those of programs."""
    for known, shown in ((RECORDERS, names), (PROGRAMS, programs)):
        for recorder, pattern in known:
            if any(pattern.match(name) for name in shown):
                return recorder
    return None


def _recorder(planes: list[Plane], line_names: Collection[str], about: dict[str, Value]) -> str | None:
    names, programs = set(line_names), set[str]()
    for plane in planes:
        if plane.name.startswith("/host:") and plane.name not in (_PROGRAMS, _SCOPES):
            names.update(plane.event_names)
        else:
            programs.update(plane.event_names, plane.stat_names)
    if "jax_version" in about and not any(RECORDERS[0][1].match(name) for name in names):
        return "jax"
    return recorder_shown(names, programs)


def _producer(about: dict[str, Value]) -> str | None:
    return ", ".join(f"{label} {about[key]}" for key, label in _VERSIONS if about.get(key) is not None) or None


def _metadata(planes: list[Plane], space: Space) -> list[dict[str, str]]:
    """Return what planes say about themselves, as JSON."""
    rows = [
        {"key": f"{plane.name} {key}", "value": json.dumps(value, ensure_ascii=False)}
        for plane in planes
        if plane.name != _SCOPES
        for key, value in plane.stats.items()
        if value is not None
    ]
    for label, texts in (("warnings", space.warnings), ("errors", space.errors), ("hostnames", space.hostnames)):
        if texts:
            rows.append({"key": label, "value": json.dumps(texts, ensure_ascii=False)})
    return rows
