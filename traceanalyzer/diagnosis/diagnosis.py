"""Everything that a report says about a run: traces and their defects, changed rules, counters, where time went."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.diagnosis.findings import BelowNoise, Finding, FixPlan, Outcome
from traceanalyzer.diagnosis.flops import FlopsUse
from traceanalyzer.display import OpenTables, display
from traceanalyzer.text.words import counted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class KernelClass:
    """The compute kernels of one class in the analysis window of a device."""

    name: str  # class of the metric kernel_class, or graph: recorded whole
    wall_ns: int  # the classes' times add up to the time in which kernels compute
    share: float  # of that time
    call_count: int


@dataclass(frozen=True)
class TopKernel:
    """One of the compute kernels that take most of the analysis window of a device."""

    name: str  # as written
    kernel_class: str
    wall_ns: int  # its part of the window; of kernels that run at once, each has its part of the time
    share: float  # of the window: in which at least one thread runs it
    call_count: int
    mean_ns: int  # mean duration of a call


@dataclass(frozen=True)
class SharedGpu:
    """The time of a GPU that several processes use, and the part of one of them."""

    gpu: str  # its UUID, else its bus and host
    process_count: int  # processes whose work it ran
    span_ns: int  # from the start of their first operation to the end of their last
    busy_ns: int  # time in which an operation of any of them runs
    kernel_ns: int  # time in which a kernel of any of them runs
    own_busy_ns: int  # time in which an operation of this process runs
    overlapped_ns: int  # part of own_busy_ns in which an operation of another process runs, too


@dataclass(frozen=True)
class DeviceLedger:
    """The analysis window of one device, cut into buckets that add up to it, and what computes in it."""

    trace: str
    rank: int | None
    device: int
    device_name: str | None
    window_ns: int
    step_count: int
    step_source: str | None
    buckets: tuple[tuple[str, int], ...]  # (bucket, ns), largest first; sums to window_ns
    # Mean length of the kept steps on the host, from the start of the window on; None where nothing marks steps.
    marked_step_ns: int | None = None
    kernel_classes: tuple[KernelClass, ...] = ()  # largest first
    top_kernels: tuple[TopKernel, ...] = ()  # at most ten, largest first
    peaks_known: bool = False  # peak rates of the device are known, so rules could judge its kernels
    unjudged_share: float = 1.0  # of the time in which kernels compute, in kernels that no rule knows by name
    shared_gpu: SharedGpu | None = None  # None: no other process of the run is known to use the GPU


@dataclass(frozen=True)
class TopOperator:
    """One of the operators that take most of the window of a thread, without the operators inside them."""

    name: str
    self_ns: int
    share: float  # of the window, whose time threads that run operators at once share equally
    call_count: int


@dataclass(frozen=True)
class HostLedger:
    """The steps of the thread that runs them, in a trace of a run without GPU work, cut into buckets that add up."""

    trace: str
    rank: int | None
    window_ns: int
    step_count: int  # 0: none are marked
    buckets: tuple[tuple[str, int], ...]  # (bucket, ns), largest first; sums to window_ns
    top_operators: tuple[TopOperator, ...] = ()  # at most ten, largest first

    @property
    def own_step_ns(self) -> float:
        """The mean length of a step without the wait for other ranks, which the fastest rank has most of."""
        return (self.window_ns - dict(self.buckets).get("host.comm_cpu", 0)) / max(self.step_count, 1)


@dataclass(frozen=True)
class StandsOut:
    """By how much a device's own time exceeds the median of its role, and in what."""

    step_hits: int  # steps in which it is clearly longer
    more_ns: int  # mean of all steps
    more_share: float  # of the median
    bucket: str  # what differs most from the median of its role
    bucket_more_ns: int
    bucket_more_share: float | None  # of the median of this bucket; None: others have none of it


@dataclass(frozen=True)
class RankSteps:
    """The own time of a device in each step, without communication, compared with devices in the same role."""

    trace: str
    rank: int | None
    device: int
    role: int  # devices that run the same kernels equally often have the same number
    own_ns: tuple[int, ...]  # of each kept step
    more_share: tuple[float, ...]  # by how much each is above the median of its role in this step, as a share of that
    stands_out: StandsOut | None = None


@dataclass(frozen=True)
class Screening:
    """Which ranks of a large run were opened: every rank is screened, and evidence is quoted from opened ones."""

    rank_count: int
    opened: tuple[str, ...]  # traces


@dataclass(frozen=True)
class LateBegin:
    """A rank that begins its window later than another one, and is waited for meanwhile."""

    rank: int | None
    after_rank: int | None
    dur_ns: int


@dataclass(frozen=True)
class RunLedger:
    """The run's time, all ranks together: at each moment that of the rank which the others wait for.

    Of ranks that were recorded several times, all recordings whose steps are pooled.
    """

    window_ns: int  # of the slowest device; the sum over pooled recordings
    step_count: int
    buckets: tuple[tuple[str, int], ...]  # (bucket, ns), largest first
    ranks: tuple[tuple[int | None, int], ...]  # (rank, ns for which the run waited for it), longest first
    recording_count: int = 1  # whose steps are pooled
    late_begin: LateBegin | None = None  # of the rank that the run waits for first


@dataclass(frozen=True)
class HostFunction:
    """A function that CPU samples found while devices waited for a host of which nothing else was recorded."""

    name: str
    sample_count: int
    share: float  # of the samples in this time


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


@dataclass(frozen=True)
class CountedKernel:
    """One kernel as launched, by its counters: the time is the trace's, and the headroom a ceiling."""

    name: str
    tier: str  # how its counters were found, as in the metric ncu_join
    sum_ns: int
    limited_by: str | None
    sm_share: float | None
    memory_share: float | None
    headroom_ns: int | None


@dataclass(frozen=True)
class ModelDisagreement:
    """An operator with shapes of which counters say something else than the model of its cost."""

    operator: str
    input_shapes: str | None
    sum_ns: int
    flops_factor: float | None
    traffic_factor: float | None
    verdict: str


@dataclass(frozen=True)
class KernelCounters:
    """What counters of Nsight Compute say of a run's kernels."""

    files: tuple[str, ...]
    launch_count: int
    lost_count: int
    lost_example: str | None
    matched_share: float | None  # of the kernel time without communication
    kernels: tuple[CountedKernel, ...]  # most headroom first
    compared_count: int  # operators by shapes
    disagreements: tuple[ModelDisagreement, ...]  # most time first


SCHEMA_VERSION = 1


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Everything that a report says about a run."""

    run: str
    traces: tuple[TraceSummary, ...]
    ledgers: tuple[DeviceLedger, ...]
    findings: tuple[Finding, ...]  # quality first, then in the order of fixes
    outcomes: tuple[Outcome, ...]
    not_explained: tuple[tuple[str, int], ...]  # (bucket, ns) that no finding owns, compute left out
    defects: tuple[TraceDefect, ...]
    suppressed: tuple[Finding, ...] = ()  # findings that the project's settings silence: in no order of fixes
    overrides: tuple[Override, ...] = ()
    plans: tuple[FixPlan, ...] = ()
    below_noise: tuple[BelowNoise, ...] = ()  # largest first
    run_ledger: RunLedger | None = None  # None: one device, or ranks that cannot be followed together
    recordings: tuple[Recording, ...] = ()  # of runs in which a rank was recorded several times
    ranks: tuple[RankSteps, ...] = ()  # of runs with four devices and more whose steps are known
    host_functions: tuple[HostFunction, ...] = ()  # most samples first
    host_ledgers: tuple[HostLedger, ...] = ()  # of a run without GPU work
    host_hint: str | None = None  # how to record what the host does between recorded calls
    captured_share: float | None = None  # of the time in replayed graphs, by operators of captures; None: no capture
    flops: tuple[FlopsUse, ...] = ()  # of the whole run first, where it has several devices
    screening: Screening | None = None  # None: all ranks are opened
    kernel_counters: KernelCounters | None = None  # None: no table of Nsight Compute is read with the run
    left_out: tuple[LeftOut, ...] = ()  # files beside the traces that the run does not count
    schema_version: int = SCHEMA_VERSION

    def table(self, name: str) -> pa.Table:
        """Return findings, ledger, fixes or evidence as an Arrow table, one row each; raises for another name."""
        rows: pa.Table = display("results.diagnosis_table", self, name)
        return rows

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return str(display("results.diagnosis_text", self, "markdown"))

    def to_json(self) -> str:
        """Return everything as JSON (docs/json.md)."""
        return str(display("results.diagnosis_text", self, "json"))

    def to_html(self, path: str | Path, run: OpenTables | None = None) -> Path:
        """Write the report as a page and return its path; with its open run it has timelines and tables."""
        file = Path(path)
        file.write_text(display("html.page.page", self, run), encoding="utf-8")
        return file

    def __repr__(self) -> str:
        held = f"{counted(len(self.traces), 'trace')}, {counted(len(self.findings), 'finding')}"
        return f"<Diagnosis of {self.run}: {held}>"

    def __str__(self) -> str:
        return str(display("results.diagnosis_text", self, "terminal"))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("…" if cycle else str(self))

    def _repr_html_(self) -> str:
        return str(display("html.notebook.diagnosis_html", self))


def gpu_count(diagnosis: Diagnosis) -> int:
    """Return how many GPUs worked in the run: several recordings of a rank, or processes that share, show the same."""
    shared = [ledger.shared_gpu.gpu for ledger in diagnosis.ledgers if ledger.shared_gpu is not None]
    return _device_count(diagnosis) - len(shared) + len(set(shared))


def _device_count(diagnosis: Diagnosis) -> int:
    of_trace: dict[str, set[int]] = {}
    for ledger in diagnosis.ledgers:
        of_trace.setdefault(ledger.trace, set()).add(ledger.device)
    of_rank: dict[int, int] = {}
    for trace in diagnosis.traces:
        seen = of_rank.get(trace.rank_id, 0)
        of_rank[trace.rank_id] = max(seen, len(of_trace.get(trace.trace, ())))
    return sum(of_rank.values())


# Runs of so many ranks are opened whole.
DETAIL_RANKS = 64


@dataclass(frozen=True)
class DetailRanks:
    """How many ranks are opened at most, or which: by default those of which a report says most."""

    most: int = DETAIL_RANKS
    ranks: tuple[int, ...] = ()
