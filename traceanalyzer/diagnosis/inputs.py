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
    kernel_count: int = 0  # of the GPU operations: kernels and recorded graphs, without communication
    kernel_sum_ns: int = 0


@dataclass(frozen=True)
class Recording:
    """The steps of one device in one of several recordings of its rank, and whether the report is about them."""

    trace: str
    rank: int | None
    device: int
    rank_id: int  # metric recordings
    recording: int  # of its rank, from 1, by time
    recording_count: int
    session: int  # recordings of several ranks with the same number were made together
    step_count: int
    window_ns: int
    step_mean_ns: int | None  # None: no steps are known
    step_min_ns: int | None
    step_max_ns: int | None
    is_judged: bool  # its steps are those of the report, alone or pooled with other recordings; else it is only listed
    apart_because: str | None  # why its steps are not pooled with those that are judged; None: they are


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
