"""A side of a comparison: several captures of one configuration, and their means, exact as fractions.

What a caller may choose about a comparison.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from traceanalyzer.comparison.summary import DeviceTimes, NamedTimes, Summary
from traceanalyzer.errors import TraceAnalyzerError

MIN_EFFECT_SHARE = 0.02


@dataclass(frozen=True)
class CompareOptions:
    """How two sides are compared."""

    align: str = "auto"  # auto, steps or work
    min_effect_share: float = MIN_EFFECT_SHARE  # a smaller change of the step is no change
    capture_spread: float | None = None  # known standard deviation between captures of one configuration, as a share
    rank: int | None = None  # compare only this rank
    device: int | None = None  # compare only this device
    accepted: tuple[str, ...] = ()  # differences that would block the verdict, and are named instead


DEFAULT_COMPARE_OPTIONS = CompareOptions()


ZERO = Fraction(0)


@dataclass(frozen=True)
class Ledger:
    """The ledger of one capture that is compared: the run's, or that of its slowest device."""

    window_ns: int
    step_count: int
    buckets: Mapping[str, int]
    steps_ns: tuple[int, ...]
    place: str  # the run, rank 1 device 0, host


@dataclass(frozen=True)
class Named:
    """What runs under one name in a unit: its mean launches and time, over the captures of a side."""

    name: str
    kind: str
    launches: Fraction
    dur_ns: Fraction


def ledger_of(summary: Summary, options: CompareOptions) -> Ledger | None:
    """Return what is compared of a capture; None where it has no window. Raises where a named place is not there."""
    chosen = options.rank is not None or options.device is not None
    if summary.run is not None and not chosen:
        slowest = _slowest(summary.devices)
        steps_ns = slowest.steps_ns if slowest else ()
        return Ledger(summary.run.window_ns, summary.run.step_count, summary.run.buckets, steps_ns, "the run")
    devices = [
        device
        for device in summary.devices
        if options.rank in (None, device.rank) and options.device in (None, device.device)
    ]
    if chosen and not devices and summary.devices:
        known = ", ".join(place_words(device) for device in summary.devices[:8])
        raise TraceAnalyzerError(f"no such rank and device in {summary.label}", "--rank, --device", f"known: {known}")
    slowest = _slowest(devices)
    if slowest is None:
        return None
    if slowest.buckets is None:
        raise TraceAnalyzerError(
            f"the summary of {summary.label} keeps the ledgers of its slowest devices only",
            "--rank, --device",
            "compare the runs themselves, or one of the slowest ranks",
        )
    return Ledger(slowest.window_ns, slowest.step_count, slowest.buckets, slowest.steps_ns, place_words(slowest))


def _slowest(devices: Sequence[DeviceTimes]) -> DeviceTimes | None:
    """Return the device with the longest step; those without steps count only where none has steps."""
    with_steps = [device for device in devices if device.step_count]
    return max(with_steps or devices, key=lambda device: device.step_ns, default=None)


def place_words(device: DeviceTimes) -> str:
    """Say which device this is."""
    rank = [] if device.rank is None else [f"rank {device.rank}"]
    return " ".join([*rank, "host" if device.device is None else f"device {device.device}"])


def mean_ledger(ledgers: Sequence[Ledger], scales: Sequence[Fraction]) -> dict[str, Fraction]:
    """Return the mean time of each bucket in a unit; every capture counts the same."""
    total: dict[str, Fraction] = defaultdict(lambda: ZERO)
    for ledger, scale in zip(ledgers, scales, strict=True):
        for bucket, dur_ns in ledger.buckets.items():
            total[bucket] += scale * dur_ns
    return {bucket: dur_ns / len(ledgers) for bucket, dur_ns in total.items()}


def mean_named(times: Sequence[NamedTimes], scales: Sequence[Fraction]) -> dict[str, Named]:
    """Return the mean launches and time of each name in a unit and device; every capture counts the same."""
    kinds: dict[str, str] = {}
    launches: dict[str, Fraction] = defaultdict(lambda: ZERO)
    dur_ns: dict[str, Fraction] = defaultdict(lambda: ZERO)
    for capture, scale in zip(times, scales, strict=True):
        for row in capture.rows:
            kinds[row.name] = row.kind
            launches[row.name] += scale * row.launch_count
            dur_ns[row.name] += scale * row.dur_ns
    count = len(times)
    return {name: Named(name, kinds[name], launches[name] / count, dur_ns[name] / count) for name in kinds}
