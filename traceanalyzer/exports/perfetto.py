"""Chrome trace JSON for Perfetto: the original's bytes unchanged behind tracks of ours, or all from tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import IO, Any

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.exports import TracePart, known, rows_of
from traceanalyzer.exports.overlay import BoxPlace, Overlay
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.stream import ByteStream
from traceanalyzer.run import Run
from traceanalyzer.text.visible import masked, with_texts_masked

FIRST_PROCESS = 2_000_000_000
MOST_BYTES = 500_000_000
_BLOCK_BYTES = 2**20
_MOST_HEADER_BYTES = 64 * 2**20
_LIST_BEGINS = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[')
_GPU_OPS = """
    SELECT name, kind, device, stream, start_ns, dur_ns, correlation, size_bytes, is_comm
    FROM gpu_ops WHERE trace_id = $trace_id AND start_ns < $end_ns AND start_ns + dur_ns > $start_ns
    ORDER BY start_ns, op_id
"""
# Work that begins before other work of its stream has ended, and ends after it.
_CROSSING = """
    SELECT count(*) FILTER (WHERE start_ns < earlier_ns AND start_ns + dur_ns > earlier_ns)
    FROM (
        SELECT
            start_ns, dur_ns,
            max(start_ns + dur_ns) OVER (
                PARTITION BY device, stream ORDER BY start_ns, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS earlier_ns
        FROM canonical.gpu_ops WHERE trace_id = ?
    )
"""
_SLICES = """
    SELECT slices.name, category, thread_id, start_ns, dur_ns, correlation, input_shapes
    FROM host_slices AS slices WHERE trace_id = $trace_id AND start_ns < $end_ns AND start_ns + dur_ns > $start_ns
    ORDER BY start_ns, depth, slice_id
"""
_THREADS = """
    SELECT
        thread_id,
        coalesce(process_name, 'process ' || pid, 'host'),
        coalesce(thread_name, 'thread ' || tid, 'thread')
    FROM threads WHERE trace_id = $trace_id ORDER BY thread_id
"""
_ARROW = "follows"
_FOREVER_NS = (-(2**62), 2**62)
_HOST_PROCESS = 1
_FIRST_DEVICE_PROCESS = 1000


def write_perfetto(
    run: Run, part: TracePart, overlay: Overlay, target: IO[bytes], *, from_tables: bool = False
) -> None:
    """Write a trace and its overlay as JSON. Raises TraceAnalyzerError where it passes 500 MB.

    The original's bytes follow the overlay as they are where the whole of a JSON trace is wanted and its file is there.
    """
    limited = _Limited(target)
    if from_tables or part.window_ns is not None or not _has_original(part):
        _write_all(limited, part, overlay, _events_of_tables(run, part))
        return
    crossing_count = run.connection.execute(_CROSSING, [part.trace_id]).fetchall()[0][0]
    if crossing_count:
        note = (
            f"Perfetto leaves out {crossing_count:,} of the file's kernels and copies, which overlap others of their "
            "stream: an export with --from-tables draws them beside these"
        )
        overlay = replace(overlay, notes=(*overlay.notes, note))
    _write_behind_overlay(limited, part, overlay, _times_beside(run, part))


def _has_original(part: TracePart) -> bool:
    return part.trace.path.is_file() and _format(part) != "nsys" and _list_begins(part) is not None


def _format(part: TracePart) -> str:
    import pyarrow.parquet as pq

    return str(pq.ParquetFile(part.trace.folder / "traces.parquet").read(columns=["format"]).to_pylist()[0]["format"])


class _Limited:
    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._written_bytes = 0

    def write(self, data: bytes) -> None:
        self._written_bytes += len(data)
        if self._written_bytes > MOST_BYTES:
            raise TraceAnalyzerError(
                f"is longer than the {MOST_BYTES // 10**6} MB that Perfetto opens as JSON",
                "export perfetto",
                "give a part of it: --window A-B (ms since the start), or --step N",
            )
        self._target.write(data)


def _list_begins(part: TracePart) -> int | None:
    """Return how many plain bytes of a file stand before its first event; None: that is not found."""
    stream = ByteStream(part.trace.path, Losses())
    try:
        head = stream.read(_BLOCK_BYTES)
        if head.lstrip().startswith(b"["):
            return head.index(b"[") + 1
        while True:
            match = _LIST_BEGINS.search(head)
            if match is not None:
                return match.end()
            block = stream.read(_BLOCK_BYTES)
            if not block or len(head) > _MOST_HEADER_BYTES:
                return None
            head += block
    finally:
        stream.close()


def _write_behind_overlay(target: _Limited, part: TracePart, overlay: Overlay, times: _Times) -> None:
    begins = _list_begins(part) or 0
    stream = ByteStream(part.trace.path, Losses())
    try:
        target.write(stream.read(begins))
        rest = stream.read(_BLOCK_BYTES)
        events = list(_overlay_events(part, overlay, times))
        target.write(b"\n" + b",\n".join(events))
        target.write(b"\n" if rest.lstrip().startswith(b"]") else b",\n")
        while rest:
            target.write(rest)
            rest = stream.read(_BLOCK_BYTES)
    finally:
        stream.close()


def _write_all(target: _Limited, part: TracePart, overlay: Overlay, events: Iterator[bytes]) -> None:
    target.write(b'{"displayTimeUnit": "ns", "traceEvents": [')
    separator = b"\n"
    for source in (_overlay_events(part, overlay, _Times(padded_us)), events):
        for event in source:
            target.write(separator + event)
            separator = b",\n"
    target.write(b"\n]}\n")


@dataclass(frozen=True)
class _Times:
    """How times are written: as text, and to how many nanoseconds."""

    us: Callable[[int], str]
    grid_ns: int = 1


def _times_beside(run: Run, part: TracePart) -> _Times:
    """Return how to write our times beside those of the file, so that readers who guess the unit read both alike."""
    query = "SELECT defect FROM canonical.defects WHERE trace_id = ? AND ends_with(defect, '-fraction')"
    defects = {defect for (defect,) in run.connection.execute(query, [part.trace_id]).fetchall()}
    if "unpadded-fraction" in defects:
        return _Times(unpadded_us)
    return _Times(whole_us, 1000) if defects else _Times(padded_us)


def padded_us(time_ns: int) -> str:
    """Return nanoseconds as microseconds with three decimals, exactly."""
    whole, rest = divmod(abs(time_ns), 1000)
    return f"{'-' if time_ns < 0 else ''}{whole}.{rest:03}"


def unpadded_us(time_ns: int) -> str:
    """Return microseconds as a profiler of spring 2024 wrote them: the nanoseconds without leading zeros."""
    whole, rest = divmod(abs(time_ns), 1000)
    return f"{'-' if time_ns < 0 else ''}{whole}.{rest}"


def whole_us(time_ns: int) -> str:
    return str(time_ns // 1000)


def _overlay_events(part: TracePart, overlay: Overlay, times: _Times) -> Iterator[bytes]:
    rank = part.trace.rank
    process = FIRST_PROCESS + (part.trace_id if rank is None else rank)
    title = f"traceanalyzer {part.trace.trace if rank is None else f'rank {rank}'}"
    yield _named("process_name", process, 0, name=title)
    yield _named("process_sort_index", process, 0, sort_index=-1_000_000)
    begins: dict[BoxPlace, str] = {}
    for tid, track in enumerate(overlay.tracks, start=1):
        yield _named("thread_name", process, tid, name=track.name)
        yield _named("thread_sort_index", process, tid, sort_index=tid)
        end_ns = None
        for number, box in enumerate(track.boxes):
            begin_ns = (box.start_ns - part.base_ns) // times.grid_ns * times.grid_ns
            begin_ns = begin_ns if end_ns is None else max(begin_ns, end_ns)
            end_ns = (box.start_ns + box.dur_ns - part.base_ns) // times.grid_ns * times.grid_ns
            end_ns = max(end_ns, begin_ns + times.grid_ns)
            begins[tid - 1, number] = times.us(begin_ns)
            yield _slice(
                box.name, "traceanalyzer", process, tid, times.us(begin_ns), times.us(end_ns - begin_ns), box.args
            )
    for number, (source, target) in enumerate(overlay.arrows):
        for phase, (track_number, box_number) in (('"s"', source), ('"f","bp":"e"', target)):
            at = begins[track_number, box_number]
            yield (
                f'{{"ph":{phase},"id":{number},"cat":"traceanalyzer","name":"{_ARROW}","pid":{process},'
                f'"tid":{track_number + 1},"ts":{at}}}'
            ).encode()
    for counter in overlay.counters:
        for at_ns, value in counter.samples:
            name, at = _text(counter.name), times.us(at_ns - part.base_ns)
            yield f'{{"ph":"C","pid":{process},"tid":0,"name":{name},"ts":{at},"args":{{"calls":{value}}}}}'.encode()
    for note in overlay.notes:
        at = times.us(part.first_ns - part.base_ns)
        yield f'{{"ph":"i","s":"p","pid":{process},"tid":1,"name":{_text(note)},"ts":{at}}}'.encode()


def _events_of_tables(run: Run, part: TracePart) -> Iterator[bytes]:
    start_ns, end_ns = part.window_ns or _FOREVER_NS
    values = {"trace_id": part.trace_id, "start_ns": start_ns, "end_ns": end_ns}
    yield from _thread_names(run, part)
    beside = _Beside()
    for name, kind, device, stream, at, dur, correlation, size_bytes, is_comm in rows_of(run, _GPU_OPS, values):
        category = kind if kind in ("kernel", "graph") else f"gpu_{kind}"
        args = known(device=device, stream=stream, correlation=correlation, bytes=size_bytes)
        args |= {"collective": True} if is_comm else {}
        process, at_us = _FIRST_DEVICE_PROCESS + device, padded_us(at - part.base_ns)
        track = beside.track(device, stream or 0, at, at + dur)
        if beside.is_new:
            yield _named("thread_name", process, track, name=f"stream {stream or 0}, beside the work above")
            yield _named("thread_sort_index", process, track, sort_index=stream or 0)
        yield _slice(name, category, process, track, at_us, padded_us(dur), args)
    for name, category, thread_id, at, dur, correlation, shapes in rows_of(run, _SLICES, values):
        args = known(correlation=correlation, **{"Input Dims": shapes})
        yield _slice(name, category, _HOST_PROCESS, thread_id, padded_us(at - part.base_ns), padded_us(dur), args)


class _Beside:
    """Gives work that overlaps other work of its stream a track beside it: Perfetto leaves out what crosses on one."""

    def __init__(self) -> None:
        self._ends_ns: dict[tuple[int, int], dict[int, int]] = {}  # by track, of a stream
        self._next = 2**31
        self.is_new = False

    def track(self, device: int, stream: int, start_ns: int, end_ns: int) -> int:
        """Return the track of a piece of work, by start; `is_new` says whether it is the first beside a stream's."""
        ends_ns = self._ends_ns.setdefault((device, stream), {stream: start_ns})
        found = next((track for track, last_ns in ends_ns.items() if last_ns <= start_ns), None)
        self.is_new = found is None
        if found is None:
            found = self._next
            self._next += 1
        ends_ns[found] = end_ns
        return found


def _thread_names(run: Run, part: TracePart) -> Iterator[bytes]:
    yield _named("process_name", _HOST_PROCESS, 0, name=f"host of {part.trace.trace}")
    for thread_id, process, thread in rows_of(run, _THREADS, {"trace_id": part.trace_id}):
        yield _named("thread_name", _HOST_PROCESS, thread_id, name=f"{process}: {thread}")
    query = "SELECT DISTINCT device, coalesce(stream, 0) FROM gpu_ops WHERE trace_id = $trace_id ORDER BY ALL"
    for device, stream in rows_of(run, query, {"trace_id": part.trace_id}):
        yield _named("process_name", _FIRST_DEVICE_PROCESS + device, 0, name=f"device {device}")
        yield _named("thread_name", _FIRST_DEVICE_PROCESS + device, stream, name=f"stream {stream}")


def _slice(name: str | None, category: str, pid: int, tid: int, at: str, dur: str, args: dict[str, Any]) -> bytes:
    more = f',"args":{_text(args)}' if args else ""
    return (
        f'{{"ph":"X","cat":"{category}","name":{_text(name or "")},"pid":{pid},"tid":{tid}'
        f',"ts":{at},"dur":{dur}{more}}}'
    ).encode()


def _named(what: str, pid: int, tid: int, **args: Any) -> bytes:
    return f'{{"ph":"M","name":"{what}","pid":{pid},"tid":{tid},"args":{_text(args)}}}'.encode()


def _text(value: Any) -> str:
    """Return JSON in ASCII, secrets masked."""
    return _json_text(value) if isinstance(value, str) else json.dumps(with_texts_masked(value), default=str)


@lru_cache(2**16)
def _json_text(text: str) -> str:
    return json.dumps(masked(text))
