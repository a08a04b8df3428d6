"""The defects of a profile, each with its count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# defect → (severity, what it means and what to do)
KINDS = {
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
    "bad-duration": ("loss", "an event lasts longer than 30 days; it was left out"),
    "bad-timestamp": ("loss", "an event has a time that no clock shows; it was left out"),
    "aggregated-events": ("note", "events without a time stand for several occurrences; no time is counted for them"),
    "unknown-name": ("loss", "events refer to names that the file does not hold; they are called by their ids"),
    "mixed-clock-base": (
        "note",
        "some lines count from the start of the profile and others from 1970; they may not lie on one clock",
    ),
    "unknown-clock": ("note", "the profile does not say when it began; its times count from an unknown zero"),
    "crossing-slices": ("note", "slices of one thread overlap without nesting; each keeps its own time"),
    "duplicate-plane": (
        "note",
        "several planes have one name, as in profiles that were joined; each was read by itself",
    ),
    "device-clock-mapped": (
        "note",
        "the profiler maps the device's clock to the host's unevenly; operations are timed by the device's own clock, "
        "and the greatest distance of the two is the example",
    ),
    "unset-launch-values": (
        "note",
        "the profiler wrote registers or shared memory that no device has (it never set them); they are unknown",
    ),
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
_EXAMPLE_CHARS = 300


@dataclass
class ProfileDefects:
    """Counts defects by kind; the first of each kind is kept as its example."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, count: int = 1, example: str = "", offset: int | None = None) -> None:
        """Count a defect; a count of zero is none."""
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count
            self.examples.setdefault(kind, example)
            if offset is not None:
                self.offsets.setdefault(kind, offset)

    def table(self) -> pa.Table:
        """Return the rows of the canonical table."""
        import pyarrow as pa

        kinds = sorted(self.counts)
        return pa.table(
            {
                "defect": pa.array(kinds, pa.string()),
                "severity": pa.array([KINDS[kind][0] for kind in kinds], pa.string()),
                "defect_count": pa.array([self.counts[kind] for kind in kinds], pa.int64()),
                "first_offset": pa.array([self.offsets.get(kind) for kind in kinds], pa.int64()),
                "example": pa.array([self.examples[kind][:_EXAMPLE_CHARS] or None for kind in kinds], pa.string()),
                "advice": pa.array([KINDS[kind][1] for kind in kinds], pa.string()),
            }
        )
