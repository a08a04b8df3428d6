"""The defects of an export, each with its count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from traceanalyzer.ingest.device_check import DEVICE_DEFECTS

# defect → (severity, what it means and what to do)
KINDS = {
    "missing-table": (
        "note",
        "the export lacks a table that the analysis uses; record it again with the option named, or export all of it",
    ),
    "missing-columns": ("note", "the export's schema lacks columns that the analysis uses; they are read as unknown"),
    "unreadable-table": ("loss", "a table lacks the columns without which its rows mean nothing; it was left out"),
    "unreadable-rows": (
        "loss",
        "the database is damaged or was cut short: rows behind this place could not be read; export the report again",
    ),
    "unfinished-write": (
        "loss",
        "a rollback journal lies beside the database: whoever wrote it did not finish; export the report again",
    ),
    "other-version-of-table": (
        "note",
        "the export holds several versions of a table; the newest one with rows was read",
    ),
    "mixed-types": ("repair", "a number column holds something else; such values were read as unknown"),
    "number-out-of-range": ("loss", "a number is larger or smaller than any that nsys records; it was read as unknown"),
    "long-text": (
        "loss",
        "a text is longer than any that nsys writes: a name was cut to 65,536 bytes, other texts to 1 MiB, and longer "
        "binary data was left out",
    ),
    "invalid-utf8": ("repair", "text is no UTF-8; bad bytes were replaced"),
    "negative-duration": ("repair", "an event ends before it starts; its duration was set to zero"),
    "far-timestamp": (
        "loss",
        "the time lies minutes to years outside the recording, where hardly anything else does; it was left out",
    ),
    "no-times": ("loss", "an event has no start or no end; it was left out"),
    "backtrace-duplicate": (
        "repair",
        "the profiler wrote calls with backtraces twice (event class 67); the second rows were left out",
    ),
    "open-range": (
        "repair",
        "a range has no end: it was still open when the capture stopped, or was pushed and never popped; it was ended "
        "with the capture",
    ),
    "graph-replay-seen-twice": (
        "repair",
        "a graph replay was recorded both as a whole and node by node; the nodes were kept",
    ),
    "repeated-string": ("repair", "several strings share an id; one of them was used"),
    "missing-string": (
        "loss",
        "a name refers to a string that the export does not hold, and a collective without its name counts as compute; "
        "the event has no name",
    ),
    "device-lost": ("loss", "GPU work names no device that can be, and its context is of none; it was left out"),
    "unknown-process": (
        "note",
        "GPU work does not say which process issued it; it was tied to the only process of the export",
    ),
    "process-lost": ("loss", "GPU work does not say which of several processes issued it; it was left out"),
    "foreign-process": (
        "note",
        "host events of processes that drive no GPU; they are kept with the first trace of the file",
    ),
    "duplicate-correlation": (
        "repair",
        "several calls of one process share a correlation id; GPU work was tied to the first",
    ),
    "sync-without-call": (
        "note",
        "a synchronisation record has no API call in the capture; its kind was derived from the exporter's version",
    ),
    "unknown-clock": ("note", "the export does not say when the capture began; its times count from an unknown zero"),
    "profiler-warning": ("note", "nsys warned while recording; read it before trusting the numbers"),
    "profiler-error": ("loss", "nsys reported an error while recording; data may be missing"),
    "events-dropped": ("loss", "nsys says that events were dropped; record for a shorter time or with fewer options"),
    "no-gpu-work": (
        "note",
        "the export holds no GPU work: CUDA tracing was off, the process ran nothing on a GPU, or CUPTI was not usable",
    ),
    **DEVICE_DEFECTS,
}


@dataclass
class Defects:
    """Counts defects by kind; the first of each kind is kept as its example."""

    kinds: ClassVar[Mapping[str, tuple[str, str]]] = KINDS

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, count: int = 1, example: str = "") -> None:
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count
            self.examples.setdefault(kind, example)

    @property
    def lost(self) -> bool:
        """Return whether rows could not be read."""
        return "unreadable-rows" in self.counts

    @property
    def lost_records(self) -> bool:
        """Return whether records were left out as none: of what they were, nothing is known."""
        return "unreadable-record" in self.counts

    def table(self) -> pa.Table:
        """Return the rows of the canonical table."""
        kinds = list(self.counts)
        return pa.table(
            {
                "defect": pa.array(kinds, pa.string()),
                "severity": pa.array([self.kinds[kind][0] for kind in kinds], pa.string()),
                "defect_count": pa.array([self.counts[kind] for kind in kinds], pa.int64()),
                "example": pa.array([self.examples[kind][:300] or None for kind in kinds], pa.string()),
                "advice": pa.array([self.kinds[kind][1] for kind in kinds], pa.string()),
            }
        )
