"""A critical path as tracks of a timeline, and as a table."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import IO

from traceanalyzer.exports.overlay import BoxPlace, Overlay, OverlayBox, Track
from traceanalyzer.hta import CriticalPath
from traceanalyzer.text.csv_rows import CsvRows
from traceanalyzer.text.words import duration, percent

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
        written.add(
            (
                position,
                part.kind,
                part.source,
                part.source_position,
                part.target,
                part.target_position,
                part.start_ns,
                part.end_ns,
                part.weight_ns,
            )
        )
    span = path.window.start_ns, path.window.start_ns + path.span_ns
    written.add((len(path.parts), "left_out", "", "", "", "", *span, path.kind_ns["left_out"]))
    target.write(text.getvalue().encode())
