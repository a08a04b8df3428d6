"""What a summary is: one capture of a run in numbers, small enough to be kept in a repository.

Times are integer nanoseconds over the analysis window; what is per step is divided only where two sides are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SUMMARY_VERSION = 1
# Names in a summary, and the bytes that they may take: templates make names of kernels long.
MOST_KERNELS, MOST_KERNEL_BYTES = 300, 22_000
MOST_OPERATORS, MOST_OPERATOR_BYTES = 200, 9_000
# More devices keep their step time, and of their ledgers only those of the slowest.
MOST_LEDGERS = 32
# Single steps are kept of the slowest devices, the first ones of each.
MOST_STEP_LISTS, MOST_STEPS = 4, 250

Fact = str | int | bool | None | tuple[str, ...]


@dataclass(frozen=True)
class DeviceTimes:
    """The analysis window of one device; `device` None: the host, in a run without GPU work."""

    rank: int | None
    device: int | None
    window_ns: int
    step_count: int  # 0: no steps are known
    steps_ns: tuple[
        int, ...
    ]  # the first kept steps, in the order in which they ran; empty for fast ones of many devices
    buckets: Mapping[str, int] | None  # ns in the window, sums to window_ns; None: left out, the device is not slow

    @property
    def step_ns(self) -> float:
        """The mean step, or the window where no steps are known."""
        return self.window_ns / max(self.step_count, 1)


@dataclass(frozen=True)
class RunTimes:
    """The run's own ledger, where its ranks wait for each other: of the rank that the others wait for."""

    window_ns: int
    step_count: int
    buckets: Mapping[str, int]


@dataclass(frozen=True)
class NamedTime:
    """What ran under one name: how often, and the sum of its durations."""

    name: str
    kind: str  # class of a kernel; operator
    launch_count: int
    dur_ns: int


@dataclass(frozen=True)
class NamedTimes:
    """The names with most time, the others together, and the steps, of each device or trace, that hold them all."""

    rows: tuple[NamedTime, ...] = ()
    step_count: int = 1
    rest_count: int = 0  # names that are not in rows
    rest_launch_count: int = 0
    rest_ns: int = 0


@dataclass(frozen=True)
class FindingSummary:
    """The finding of a rule that saves most, of all places where the rule fired."""

    rule: str
    title: str
    severity: str
    status: str  # as of a finding; suppressed: the project's settings silence it
    place: str  # run, rank or device
    saving_ns: int | None  # bound in the window, of the run where there is one
    saving_share: float | None
    step_count: int  # steps of the window that the saving is about
    # Time of the window that the finding alone owns, by bucket; that of kernels by their class: compute.gemm.
    owned_buckets: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """One capture of a run."""

    label: str
    taken_at: str | None  # UTC; None: not in the trace
    made_by: str  # version of this program
    blocked: str | None  # why nothing can be said about the run
    time_of: str  # device: steps and ledgers are of devices; host: of the training thread, as no GPU work was recorded
    fingerprint: Mapping[str, Fact]
    devices: tuple[DeviceTimes, ...]  # by rank and device
    run: RunTimes | None
    kernels: NamedTimes
    operators: NamedTimes
    findings: tuple[FindingSummary, ...]  # in the order of fixes
    outcomes: Mapping[str, str]  # rule → fired, latent, clear or abstained; of several places the first of these
    below_noise: Mapping[str, float]  # rule → share of the window that it would save
    joint_saving_ns: int | None  # what all fixes of the plan save together in its window
    quality: Mapping[str, str] = field(default_factory=dict)  # rule about the trace → severity, from warning on
    summary_version: int = SUMMARY_VERSION

    @property
    def has_steps(self) -> bool:
        """Whether steps are known somewhere in the run."""
        return any(device.step_count for device in self.devices)
