"""What traceanalyzer knows of a trace, as tracks: steps, ledger, gaps, findings, queue depth, the critical path."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field
from itertools import pairwise
from typing import IO, Any

from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.exports import TracePart, known, rows_of
from traceanalyzer.hta import CriticalPath
from traceanalyzer.run import Run
from traceanalyzer.text.visible import CsvRows
from traceanalyzer.text.words import bucket_words, duration, percent

SHORTEST_GAP_NS = 20_000
_LEDGER = """
    SELECT device, start_ns, dur_ns, bucket, cause, step, blame_name, blame_op, blame_annotation, blame_python
    FROM attribution.ledger_rows WHERE trace_id = $trace_id ORDER BY device, start_ns
"""
_STEPS = """
    SELECT device, start_ns, end_ns - start_ns, coalesce(name, 'step ' || step), step, kept, drop_reason
    FROM attribution.steps WHERE trace_id = $trace_id AND start_ns IS NOT NULL ORDER BY device, start_ns
"""
_GAPS = """
    SELECT device, start_ns, dur_ns, before_name, after_name, launch_late_ns
    FROM kernel_gaps WHERE trace = $trace AND dur_ns >= $shortest_ns ORDER BY device, start_ns
"""
_DEPTHS = """
    SELECT device, stream, start_ns, depth FROM queue_depth_changes WHERE trace_id = $trace_id
    ORDER BY device, stream, start_ns
"""


@dataclass(frozen=True)
class OverlayBox:
    """An interval of a track; those of one track are in order and never overlap."""

    name: str
    start_ns: int
    dur_ns: int  # above 0
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Track:
    """A row of a timeline."""

    name: str
    boxes: tuple[OverlayBox, ...]


@dataclass(frozen=True)
class Counter:
    """A number over time: its value from each time on."""

    name: str
    samples: tuple[tuple[int, int], ...]


# The number of a track, and the number of one of its boxes.
BoxPlace = tuple[int, int]


@dataclass(frozen=True)
class Overlay:
    """The tracks of one trace, and what is wrong with the trace as a whole.

    Arrows lead from a box to one that starts later or at the same time.
    """

    tracks: tuple[Track, ...]
    counters: tuple[Counter, ...]
    notes: tuple[str, ...]
    arrows: tuple[tuple[BoxPlace, BoxPlace], ...] = ()


def overlay_of(run: Run, part: TracePart, diagnosis: Diagnosis) -> Overlay:
    """Return the tracks of a part of a run; what only touches its window is in them whole."""
    values: dict[str, Any] = {"trace_id": part.trace_id}
    of_gaps = {"trace": part.trace.trace, "shortest_ns": SHORTEST_GAP_NS}
    steps = [
        (device, OverlayBox(name, at, max(1, dur), known(step=step, kept=kept, dropped=why)))
        for device, at, dur, name, step, kept, why in rows_of(run, _STEPS, values)
    ]
    step_ns = {(device, box.args["step"]): box.dur_ns for device, box in steps}
    ledger = [
        (
            device,
            OverlayBox(
                bucket_words(bucket),
                at,
                dur,
                known(
                    bucket=bucket,
                    cause=cause,
                    step=step,
                    step_percent=_percent(dur, step_ns.get((device, step))),
                    blame=blame,
                    operator=operator,
                    annotation=annotation,
                    python=python,
                ),
            ),
        )
        for device, at, dur, bucket, cause, step, blame, operator, annotation, python in rows_of(run, _LEDGER, values)
    ]
    gaps = [
        (device, OverlayBox("gap", at, dur, known(after=before, before=after, launch_late_ns=late)))
        for device, at, dur, before, after, late in rows_of(run, _GAPS, of_gaps)
    ]
    tracks = [
        *_by_device("steps", steps, part),
        *_by_device("ledger", ledger, part),
        *_finding_tracks(diagnosis, part),
        *_by_device("gaps ≥ 20 µs", gaps, part),
    ]
    notes = tuple(f"{f.rule}: {f.message}" for f in diagnosis.findings if f.kind == "quality" and _is_of(f, part))
    return Overlay(tuple(tracks), tuple(_counters(run, part)), notes)


def _by_device(name: str, boxes: list[tuple[int, OverlayBox]], part: TracePart) -> Iterator[Track]:
    devices = sorted({device for device, _ in boxes})
    for device in devices:
        title = f"{name}, device {device}" if len(devices) > 1 else name
        yield from _tracks(title, (box for owner, box in boxes if owner == device), part)


def _finding_tracks(diagnosis: Diagnosis, part: TracePart) -> Iterator[Track]:
    for finding in diagnosis.findings:
        if finding.kind != "quality" and _is_of(finding, part):
            yield from _tracks(finding.rule, _evidence_boxes(finding, part.trace.trace), part)


def _is_of(finding: Finding, part: TracePart) -> bool:
    return finding.trace in (None, part.trace.trace) or part.trace.trace in finding.same_on_traces


def _evidence_boxes(finding: Finding, trace: str) -> Iterator[OverlayBox]:
    for evidence in finding.evidence:
        if not {"start_ns", "dur_ns"} <= set(evidence.columns):
            continue
        for values in evidence.rows:
            row = dict(zip(evidence.columns, values, strict=True))
            at, dur = row.get("start_ns"), row.get("dur_ns")
            if isinstance(at, int) and isinstance(dur, int) and row.get("trace", trace) == trace:
                yield OverlayBox(
                    finding.title, at, max(1, dur), known(message=finding.message, evidence=evidence.title)
                )


def _tracks(name: str, boxes: Iterable[OverlayBox], part: TracePart) -> Iterator[Track]:
    """Return boxes in as few tracks as hold them without overlap."""
    lanes: list[list[OverlayBox]] = []
    for box in sorted(boxes, key=lambda box: (box.start_ns, -box.dur_ns)):
        if not _is_in(part, box.start_ns, box.start_ns + box.dur_ns):
            continue
        free = next((lane for lane in lanes if lane[-1].start_ns + lane[-1].dur_ns <= box.start_ns), None)
        if free is None:
            lanes.append([box])
        else:
            free.append(box)
    for number, lane in enumerate(lanes, start=1):
        yield Track(name if number == 1 else f"{name} ({number})", tuple(lane))


def _is_in(part: TracePart, start_ns: int, end_ns: int) -> bool:
    return part.window_ns is None or (end_ns > part.window_ns[0] and start_ns < part.window_ns[1])


def _counters(run: Run, part: TracePart) -> Iterator[Counter]:
    samples: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for device, stream, at, depth in rows_of(run, _DEPTHS, {"trace_id": part.trace_id}):
        if _is_in(part, at, at + 1):
            samples.setdefault((device, stream), []).append((at, depth))
    devices = {device for device, _ in samples}
    for (device, stream), values in samples.items():
        name = f"queue depth stream {stream}" + (f", device {device}" if len(devices) > 1 else "")
        yield Counter(name, tuple(values))


def _percent(part_ns: int, whole_ns: int | None) -> float | None:
    return round(100 * part_ns / whole_ns, 2) if whole_ns else None


# As `PathPart` has them.
COLUMNS = ("position", "kind", "from", "from_event_id", "to", "to_event_id", "start_ns", "end_ns", "weight_ns")
# Parts on a device; the others begin on the host.
_OF_DEVICE = frozenset({"device", "kernel_kernel"})


def critical_path_overlay(path: CriticalPath) -> Overlay:
    """Return two tracks with the parts of a path that last, arrows between them, and its summary as a note."""
    boxes: tuple[list[OverlayBox], list[OverlayBox]] = [], []
    places: list[BoxPlace] = []
    for part in path.parts:
        if part.end_ns == part.start_ns:
            continue
        track = int(part.kind in _OF_DEVICE)
        places.append((track, len(boxes[track])))
        boxes[track].append(
            OverlayBox(
                part.source if part.source == part.target else f"{part.source} → {part.target}",
                part.start_ns,
                part.end_ns - part.start_ns,
                {"critical": 1, "kind": part.kind if part.weight_ns else "left_out", "weight_ns": part.weight_ns},
            )
        )
    names = "critical path (HTA), host", "critical path (HTA), device"
    tracks = tuple(Track(name, tuple(found)) for name, found in zip(names, boxes, strict=True))
    arrows = tuple(pair for pair in pairwise(places) if pair[0][0] != pair[1][0])
    return Overlay(tracks, (), (critical_path_words(path),), arrows)


def critical_path_words(path: CriticalPath) -> str:
    """Return the length of a path, its kinds, and what the definition leaves out, in shares of the span."""
    span_ns = max(path.span_ns, 1)
    counted = ", ".join(
        f"{kind} {percent(time_ns / span_ns)}"
        for kind, time_ns in path.kind_ns.items()
        if kind != "left_out" and time_ns
    )
    left_out = f"the definition leaves out {percent(path.kind_ns['left_out'] / span_ns)}"
    return f"critical path {duration(path.length_ns)} of {duration(path.span_ns)}: {counted or 'empty'}; {left_out}"


def write_critical_path_table(path: CriticalPath, target: IO[bytes]) -> None:
    """Write the parts of a path as CSV, in order, with what no part counts as a last row of kind left_out."""
    text = io.StringIO()
    written = CsvRows(text)
    written.add(COLUMNS)
    for position, part in enumerate(path.parts):
        written.add((position, *astuple(part)))
    span = path.window.start_ns, path.window.start_ns + path.span_ns
    written.add((len(path.parts), "left_out", "", "", "", "", *span, path.kind_ns["left_out"]))
    target.write(text.getvalue().encode())
