"""What a diagnosis was made from: traces and their defects, and what was changed about the rules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TraceSummary:
    """What one trace of the run is and how far to trust it."""

    trace: str
    format: str
    rank: int | None
    world_size: int | None
    event_count: int
    gpu_op_count: int
    truncated: bool
    recorder: str | None = None  # canonical table traces
    framework: str | None = None
    rank_id: int = 0  # metric recordings
    recording: int = 1
    recording_count: int = 1
    is_overlapping: bool = False


@dataclass(frozen=True)
class LeftOut:
    """A file of the run's folder that is none of its recordings, or cannot be read."""

    file: str  # its path below the run's folder
    reason: str
    hint: str | None


@dataclass(frozen=True)
class TraceDefect:
    """A kind of defect found in one trace."""

    trace: str
    defect: str
    severity: str
    count: int
    first_offset: int | None
    advice: str


@dataclass(frozen=True)
class Override:
    """Something that the project or the caller changed about the rules."""

    # parameter, off, suppressed, ended (a suppression whose day is over), rules (more rule files), names (more names
    # of a host cause), device (a model for devices without a name), peaks (rates of a model) or steps (those chosen)
    kind: str
    rule: str | None
    what: str
    reason: str | None
    until: str | None  # last day of a suppression, as 2027-03-31
    origin: str  # the settings file, --set, --device or --step
