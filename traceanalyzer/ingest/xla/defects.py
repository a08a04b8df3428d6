"""The defects of a profile, each with its count."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from traceanalyzer.ingest.device_check import DEVICE_DEFECTS, PROFILED_DEFECTS
from traceanalyzer.ingest.nsys.defects import KINDS as KINDS_OF_DATABASES
from traceanalyzer.ingest.nsys.defects import Defects

# defect → (severity, what it means and what to do)
KINDS = {
    **{kind: KINDS_OF_DATABASES[kind] for kind in ("far-timestamp", *DEVICE_DEFECTS)},
    "truncated": (
        "loss",
        "the file ends inside a plane: the job was killed while writing, or the copy is incomplete; names come last in "
        "a plane, so events of the last one may be called ?1, ?2 …",
    ),
    "damaged-message": ("loss", "bytes are no fields of a profile; what lies around them is read; copy the file again"),
    "trailing-data": ("loss", "bytes behind the end of the profile were not read"),
    "gzip-damaged": ("loss", "the compressed stream ends early or is damaged; everything before is analysed"),
    "invalid-utf8": ("repair", "text is no UTF-8; bad bytes were replaced"),
    "long-text": ("loss", "a text is longer than any that profilers write; it was cut to 65,536 bytes"),
    "negative-duration": ("repair", "an event ends before it starts; its duration was set to zero"),
    "bad-duration": (
        "loss",
        "an event lasts longer than 30 days, or for minutes after the recording was stopped, or after all other events "
        "where no stop is written; it was left out",
    ),
    "bad-timestamp": (
        "loss",
        "an event has a time that no clock shows, or one minutes before or after the recording, or all other events "
        "where no stop is written; it was left out",
    ),
    "aggregated-events": ("note", "events without a time stand for several occurrences; no time is counted for them"),
    "unknown-name": (
        "loss",
        "events or their values refer to names that the file does not hold; they are called by their ids, so what such "
        "values say, as of launches or sizes, is not known",
    ),
    "mixed-clock-base": (
        "note",
        "some lines count from the start of the profile and others from 1970; they may not lie on one clock",
    ),
    "unknown-clock": ("note", "the profile does not say when it began; its times count from an unknown zero"),
    "several-sessions": (
        "loss",
        "the file holds several recordings, as where profiles were joined: the times of all of them count from the "
        "start of the first one, so they lie over each other; give each profile as a file of its own",
    ),
    "crossing-slices": ("note", "slices of one thread overlap without nesting; each keeps its own time"),
    "unnamed-device": (
        "repair",
        "a plane has no name, but streams of work: it was read as that of a GPU, whose number is not known",
    ),
    "repeated-plane": (
        "repair",
        "a plane or its lines stand in the file several times, byte for byte, as where files of one recording were "
        "joined; they were read once",
    ),
    "duplicate-plane": (
        "note",
        "several planes have one name, as in profiles that were joined; each was read by itself",
    ),
    **PROFILED_DEFECTS,
    "events-dropped": (
        "loss",
        "the profiler dropped events because its buffers were full; record for a shorter time, or fewer devices",
    ),
    "profiler-warning": ("note", "the profiler warned while recording; read it before trusting the numbers"),
    "profiler-error": ("loss", "the profiler reported an error while recording; data may be missing"),
    "command-buffer": (
        "note",
        "kernels of a command buffer (CUDA graph) do not say which operation of the program they belong to; their "
        "times are right, and their operators unknown. "
        "XLA_FLAGS=--xla_gpu_enable_command_buffer= records them one by one",
    ),
}


@dataclass
class ProfileDefects(Defects):
    """Counts defects by kind; the first of each kind is kept as its example, with its place in the file."""

    kinds = KINDS

    offsets: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, count: int = 1, example: str = "", offset: int | None = None) -> None:
        super().add(kind, count, example)
        if count and offset is not None:
            self.offsets.setdefault(kind, offset)

    def table(self) -> pa.Table:
        """Return the rows of the canonical table."""
        offsets = pa.array([self.offsets.get(kind) for kind in self.counts], pa.int64())
        return super().table().append_column("first_offset", offsets)
