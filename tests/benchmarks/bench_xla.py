"""Time the ingest of a large profile of XLA against that of the same events as JSON.

    python tests/benchmarks/bench_xla.py PROFILE [TIMES] [FOLDER]

PROFILE is an .xplane.pb; its events are repeated TIMES (120) over, one after the other, and compiled programs are left
out: of the public profile of eight V100 that makes 227 MB and 2.8 million events. Each ingest is measured in a process
of its own. The bar: at most 10 CPU seconds and 1.2 GB, and 0.7 of the CPU seconds of the JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.trace_events import TraceEventIngester
from traceanalyzer.ingest.xla import XlaIngester
from traceanalyzer.ingest.xla.defects import ProfileDefects
from traceanalyzer.ingest.xla.events import read_events
from traceanalyzer.ingest.xla.space import Plane, Space, read_space
from traceanalyzer.ingest.xla.stats import one_value
from traceanalyzer.ingest.xla.wire import BLOCK, fields

_LINES, _EVENTS, _OFFSET = 3, 4, 2
_ROUNDS = 2


def varint(number: int) -> bytes:
    """Return a number as the wire format has it."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def block(field: int, content: bytes) -> bytes:
    """Return a field that holds bytes."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def _without_offset(view: memoryview, start: int, end: int) -> tuple[bytes, int]:
    """Return an event's other fields, and its offset."""
    rest, offset = bytearray(), 0
    for one in fields(view, start, end):
        if one.number == _OFFSET:
            offset = one.value
        elif one.wire == BLOCK:
            rest += block(one.number, bytes(view[one.value : one.value + one.length]))
        else:
            rest += varint(one.number << 3) + varint(one.value)
    return bytes(rest), offset


def write_profile(source: Path, target: Path, times: int) -> None:
    """Write the profile with its events repeated, each round behind the one before."""
    content = source.read_bytes()
    view = memoryview(content)
    known = read_space(np.frombuffer(content, np.uint8), view, source, ProfileDefects())
    period = _period(known)
    with target.open("wb") as file:
        for start, end in known.planes:
            if known.plane(start, end).name == "/host:metadata":
                continue
            parts = []
            for one in fields(view, start, end):
                part = bytes(view[one.value : one.value + one.length]) if one.wire == BLOCK else b""
                if one.number == _LINES:
                    part = _repeated(view, one.value, one.value + one.length, times, period)
                parts.append(
                    block(one.number, part) if one.wire == BLOCK else varint(one.number << 3) + varint(one.value)
                )
            file.write(block(1, b"".join(parts)))


def _period(known: Space) -> int:
    """Return how long the events of the file take, in ps."""
    ends = [0]
    for start, end in known.planes:
        plane = known.plane(start, end)
        for line in map(known.line, plane.line_starts.tolist(), plane.line_ends.tolist()):
            ends += [int((batch.offset_ps + batch.dur_ps).max()) for batch in read_events(known, plane, line, 0)]
    return max(ends) + 10**6


def _repeated(view: memoryview, start: int, end: int, times: int, period: int) -> bytes:
    head, events = [], []
    for one in fields(view, start, end):
        if one.number == _EVENTS:
            events.append(_without_offset(view, one.value, one.value + one.length))
        elif one.wire == BLOCK:
            head.append(block(one.number, bytes(view[one.value : one.value + one.length])))
        else:
            head.append(varint(one.number << 3) + varint(one.value))
    for turn in range(times):
        head += [
            block(_EVENTS, varint(_OFFSET << 3) + varint(offset + turn * period) + rest) for rest, offset in events
        ]
    return b"".join(head)


def write_json(source: Path, target: Path) -> None:
    """Write all events of a profile as the Chrome JSON that XLA's own export has."""
    content = source.read_bytes()
    known = read_space(np.frombuffer(content, np.uint8), memoryview(content), source, ProfileDefects())
    with target.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","traceEvents":[')
        for pid, (start, end) in enumerate(known.planes):
            _write_plane(file, known, known.plane(start, end), pid)
        file.write("{}]}")


def _write_plane(file: object, known: Space, plane: Plane, pid: int) -> None:
    write = file.write  # type: ignore[attr-defined]
    write(json.dumps({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": plane.name}}) + ",\n")
    for line in map(known.line, plane.line_starts.tolist(), plane.line_ends.tolist()):
        for batch in read_events(known, plane, line, 0):
            args: list[dict[str, object]] = [{} for _ in range(len(batch))]
            texts: dict[tuple[int, int, int], object] = {}
            for row, owner in enumerate(batch.stats.owner.tolist()):
                key = (int(batch.stats.kind[row]), int(batch.stats.value[row]), int(batch.stats.key[row]))
                if key not in texts:
                    texts[key] = one_value(known, plane, batch.stats, row)
                args[owner][plane.stat_names[key[2]]] = texts[key]
            for name, offset, dur, values in zip(
                batch.name.tolist(), batch.offset_ps.tolist(), batch.dur_ps.tolist(), args, strict=True
            ):
                ts = (line.timestamp_ns * 1000 + offset) / 1e6
                event = {"ph": "X", "pid": pid, "tid": line.id % 2**31, "ts": ts, "dur": dur / 1e6}
                write(json.dumps({**event, "name": plane.event_names[name], "args": values}) + ",\n")


def ingest(path: Path) -> None:
    """Ingest a file, and print its CPU seconds and peak memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        ingester = XlaIngester() if path.name.endswith(".pb") else TraceEventIngester()
        ingester.ingest(path, Path(folder), IngestOptions(jobs=1))
        print(time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main(profile: Path, times: int, folder: Path) -> None:
    """Write both files, and say what each takes."""
    large, as_json = folder / "large.xplane.pb", folder / "large.json"
    write_profile(profile, large, times)
    write_json(large, as_json)
    best = {}
    for path in (large, as_json):
        command = [sys.executable, __file__, "--ingest", str(path)]
        runs = [
            tuple(map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()))
            for _ in range(_ROUNDS)
        ]
        best[path], peak_mb = min(runs)[0], max(run[1] for run in runs)
        print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, {best[path]:.1f} CPU s, {peak_mb:.0f} MB at most")
    print(f"{best[large] / best[as_json]:.2f} of the JSON")


if __name__ == "__main__":
    if sys.argv[1] == "--ingest":
        ingest(Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            count = int(sys.argv[2]) if len(sys.argv) > 2 else 120
            main(Path(sys.argv[1]), count, Path(sys.argv[3]) if len(sys.argv) > 3 else Path(scratch))
