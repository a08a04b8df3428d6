"""What a diagnosis is: plain data that rules produce and reporters print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.display import OpenTables, display

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
# Why an outcome abstained whose query took too long or too much memory: the next time it may not.
LIMIT_REACHED = "limit-reached"

# From harmless to worst; quality findings use note, warning and blocker.
SEVERITIES = ("note", "info", "low", "warning", "medium", "high", "critical", "blocker")


@dataclass(frozen=True)
class Fix:
    """One way to fix what a finding names: what to do, and a snippet to paste."""

    text: str
    code: str | None = None
    lang: str = "python"
    effort: str = "code"  # recording (the program stays as it is), one-line, config, code or redesign


@dataclass(frozen=True)
class Evidence:
    """A small table that proves a finding; rows name places that can be found in a viewer."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class AttachedExplanation:
    """The cause of a finding, found by another rule: claims no time and is shown under the finding."""

    rule: str
    title: str
    confidence: str
    confidence_because: str
    trace: str | None
    rank: int | None
    device: int | None
    message: str
    why: str
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()
    references: tuple[str, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A rule that holds somewhere in the run.

    `saving_ns` is the bound: what removing only this cause can save in the analysis window; bounds overlap and are
    never summed. `owned_ns` is the time of the window that this finding alone owns; owned times add up.
    `marginal_ns` is what it adds when fixed after the findings before it; marginals add up to the joint bound.
    A negative one says that the window is longer with the fix, as its first step then begins earlier.
    Times are NULL (None) for quality findings. Shares are of the analysis window, and the run's is its slowest rank's.
    """

    rule: str
    title: str
    kind: str  # finding or quality
    severity: str
    confidence: str  # high, medium or low
    confidence_because: str  # what limits it; of a high one what it rests on
    trace: str | None
    rank: int | None
    device: int | None
    message: str
    why: str
    saving_ns: int | None
    saving_share: float | None
    owned_ns: int | None
    owned_share: float | None
    marginal_ns: int | None
    marginal_order: int | None
    # primary; alternative: another fix saves the same time; latent: saves nothing before the findings ahead of it are
    # fixed, its saving is what it adds after them.
    status: str
    run_saving_ns: int | None = None  # what the run saves, whose ranks wait for each other, if it is fixed on all
    run_saving_share: float | None = None
    # Of many ranks, where `run_saving_ns` could not be shown to be exact: what is saved at least.
    run_saving_least_ns: int | None = None
    # The claimed time of a step, where there are enough steps: its tenth and ninetieth percentile.
    step_p10_ns: int | None = None
    step_p90_ns: int | None = None
    step_hits: int | None = None  # steps with claimed time
    step_count: int | None = None  # kept steps
    same_on_ranks: tuple[int, ...] = ()
    same_on_traces: tuple[
        str, ...
    ] = ()  # more than one: this finding stands for all of them, its numbers are the worst's
    same_on_devices: tuple[int, ...] = ()  # more than one: those of one process that this finding stands for
    owned_buckets: dict[str, int] = field(default_factory=dict)  # owned_ns by bucket; compute by class: compute.gemm
    alternatives: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()
    explanations: tuple[AttachedExplanation, ...] = ()
    references: tuple[str, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What became of one rule in one place: fired, clear, latent, or abstained, with the reason and what unlocks it.

    Latent: the rule is clear now and fires once other fixes are made, which its finding names.
    """

    rule: str
    title: str
    state: str
    trace: str | None = None
    rank: int | None = None
    device: int | None = None
    reason: str | None = None
    detail: str | None = None
    unlock: str | None = None
    kind: str = "finding"  # finding, quality or explanation


@dataclass(frozen=True)
class BelowNoise:
    """What a rule found but is no finding, because it saves less than the spread of the steps."""

    rule: str
    title: str
    trace: str | None
    rank: int | None
    device: int | None
    saving_ns: int
    saving_share: float
    noise_share: float  # the least share of the window that these steps distinguish from chance


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
    share: float  # of the window
    call_count: int
    mean_ns: int  # mean duration of a call


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
    marked_step_ns: int | None = None  # mean length of the kept steps on the host, where the program marks its steps
    kernel_classes: tuple[KernelClass, ...] = ()  # largest first
    top_kernels: tuple[TopKernel, ...] = ()  # at most ten, largest first
    peaks_known: bool = False  # peak rates of the device are known, so rules could judge its kernels
    unjudged_share: float = 1.0  # of the time in which kernels compute, in kernels that no rule knows by name


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
class RunLedger:
    """The run's time, all ranks together: at each moment that of the rank which the others wait for."""

    window_ns: int  # of the slowest device
    step_count: int
    buckets: tuple[tuple[str, int], ...]  # (bucket, ns), largest first
    ranks: tuple[tuple[int | None, int], ...]  # (rank, ns for which the run waited for it), longest first


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
class PlannedFix:
    """One fix in the order of fixes: what it saves after those before it, and how long the window is then.

    The savings add up to what all of them save; one that costs time is negative.
    """

    rule: str
    status: str  # as of its finding
    saving_ns: int
    left_ns: int
    alternatives: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # of a latent one: the fixes without which it saves nothing


@dataclass(frozen=True)
class Enabling:
    """Two fixes that save more together than their sum."""

    rules: tuple[str, ...]
    alone_ns: tuple[int, ...]
    together_ns: int


@dataclass(frozen=True)
class FixPlan:
    """The order of fixes of one device; where ranks wait for each other, of the whole run (trace and device None)."""

    trace: str | None
    rank: int | None
    device: int | None
    window_ns: int
    step_count: int
    fixes: tuple[PlannedFix, ...]
    enablers: tuple[Enabling, ...] = ()


def plan_of_finding(plans: Sequence[FixPlan], finding: Finding) -> FixPlan | None:
    """Return the order of fixes in which a finding stands: its device's, or that of the whole run."""
    for plan in plans:
        if plan.trace is None or (plan.trace, plan.device) == (finding.trace, finding.device):
            return plan
    return None


@dataclass(frozen=True)
class HostFunction:
    """A function that CPU samples found while devices waited for a host of which nothing else was recorded."""

    name: str
    sample_count: int
    share: float  # of the samples in this time


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


@dataclass(frozen=True)
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
    ranks: tuple[RankSteps, ...] = ()  # of runs with four devices and more whose steps are known
    host_functions: tuple[HostFunction, ...] = ()  # most samples first
    host_hint: str | None = None  # how to record what the host does between recorded calls
    screening: Screening | None = None  # None: all ranks are opened
    kernel_counters: KernelCounters | None = None  # None: no table of Nsight Compute is read with the run
    schema_version: int = SCHEMA_VERSION

    def table(self, name: str) -> pa.Table:
        """Return findings, ledger, fixes or evidence as an Arrow table, one row each; raises for another name."""
        return display().diagnosis_table(self, name)

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return display().diagnosis_text(self, "markdown")

    def to_json(self) -> str:
        """Return everything as JSON (docs/json.md)."""
        return display().diagnosis_text(self, "json")

    def to_html(self, path: str | Path, run: OpenTables | None = None) -> Path:
        """Write the report as a page and return its path; with its open run it has timelines and tables."""
        file = Path(path)
        file.write_text(display().diagnosis_page(self, run), encoding="utf-8")
        return file

    def __str__(self) -> str:
        return display().diagnosis_text(self, "terminal")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("…" if cycle else str(self))

    def _repr_html_(self) -> str:
        return display().diagnosis_in_notebook(self)
