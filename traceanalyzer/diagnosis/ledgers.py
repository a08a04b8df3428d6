"""Where the time of a run went: on each device, on all ranks together, and step by step."""

from __future__ import annotations

from dataclasses import dataclass


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
    marked_step_ns: int | None = (
        None  # mean length of the kept steps on the host, from the window's start on; None: no marks
    )
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
    share: float  # of the window
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
    """The run's time, all ranks together: at each moment that of the rank which the others wait for.

    Of ranks that were recorded several times, all recordings whose steps are pooled.
    """

    window_ns: int  # of the slowest device; the sum over pooled recordings
    step_count: int
    buckets: tuple[tuple[str, int], ...]  # (bucket, ns), largest first
    ranks: tuple[tuple[int | None, int], ...]  # (rank, ns for which the run waited for it), longest first
    recording_count: int = 1  # whose steps are pooled


@dataclass(frozen=True)
class HostFunction:
    """A function that CPU samples found while devices waited for a host of which nothing else was recorded."""

    name: str
    sample_count: int
    share: float  # of the samples in this time
