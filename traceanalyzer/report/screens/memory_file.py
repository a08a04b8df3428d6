"""What a snapshot or an exported timeline of PyTorch's memory says, as blocks or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TextIO

from traceanalyzer.answers.memory_snapshot import SnapshotTotals
from traceanalyzer.answers.memory_timeline import CATEGORIES, TimelineTotals
from traceanalyzer.report.blocks import Heading, Paragraph, Section, Table, Text
from traceanalyzer.text import visible
from traceanalyzer.text.words import counted, name_words, size

SCHEMA_VERSION = 1
MOST_LINES = 15
Totals = Sequence[SnapshotTotals] | TimelineTotals


def sections(totals: Totals, file: str) -> list[Section]:
    """Return what was in use, and who held it: at the end in a snapshot, at the peak in a timeline."""
    if isinstance(totals, TimelineTotals):
        opening = Heading(file, (Text("exported memory timeline"),))
        return [Section((opening,)), *(Section((table,)) for table in _of_timeline(totals))]
    opening = Heading(file, (Text("memory snapshot"),))
    if not totals:
        nothing = "The snapshot lists no memory: it has neither segments nor events."
        return [Section((opening, Paragraph(nothing, role="caution")))]
    return [Section((opening,)), *(section for device in totals for section in _of_device(device))]


def write_json(totals: Totals, file: str, stream: TextIO) -> None:
    """Write the totals as one JSON object, in bytes."""
    if isinstance(totals, TimelineTotals):
        by_category = {
            key: dict(zip(CATEGORIES, getattr(totals, key), strict=True)) for key in ("at_peak", "peaks", "at_end")
        }
        said = {"kind": "timeline", **asdict(totals), **by_category}
    else:
        said = {"kind": "snapshot", "devices": [asdict(device) for device in totals]}
    visible.write_json({"schema_version": SCHEMA_VERSION, "file": file, **said}, stream)


def _of_device(totals: SnapshotTotals) -> Iterator[Section]:
    rows = [
        ("reserved", size(totals.reserved_bytes), "all segments"),
        ("allocated", size(totals.allocated_bytes), "blocks that the program holds"),
        ("fragmented", size(totals.fragmented_bytes), "free in segments that are partly used"),
        ("releasable", size(totals.releasable_bytes), "in segments that nothing uses"),
        ("rounding", size(totals.rounding_bytes), "what blocks have beyond what was asked for"),
    ]
    if totals.peak_bytes is not None:
        late = ", which begins late" if totals.history_begins_late else ""
        rows.append(("peak", size(totals.peak_bytes), f"in a history of {counted(totals.entry_count, 'event')}{late}"))
    yield Section((_table(f"Device {totals.device}", ("", "memory", ""), rows),))
    if totals.unreadable_count:
        words = f"Left out: {counted(totals.unreadable_count, 'size')} of no number, or of no memory."
        yield Section((Paragraph(words, role="caution"),))
    held = [(name_words(line), size(held_bytes)) for line, held_bytes in totals.lines.items()]
    if held:
        yield Section((_held(f"Held on device {totals.device}", "line of the program", held),))


def _of_timeline(totals: TimelineTotals) -> tuple[Table, ...]:
    rows = [
        ("older", size(totals.older_bytes), "in use before the first event"),
        ("peak", size(totals.peak_bytes), f"in {counted(totals.event_count, 'event')}"),
    ]
    by_size = sorted(zip(CATEGORIES, totals.at_peak, strict=True), key=lambda pair: -pair[1])
    held = [(category.replace("_", " "), size(held_bytes)) for category, held_bytes in by_size]
    return _table("In use", ("", "memory", ""), rows), _held("Alive at the peak", "kind", held)


def _held(title: str, noun: str, held: Sequence[tuple[str, str]]) -> Table:
    more = len(held) - MOST_LINES
    table = _table(title, ("memory", noun), [(words, name) for name, words in held[:MOST_LINES]], right=0)
    return Table(table.columns, table.rows, table.right, title, f"and {more:,} more" if more > 0 else "")


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], right: int = 1) -> Table:
    return Table(columns, tuple(rows), frozenset({right}), title)
