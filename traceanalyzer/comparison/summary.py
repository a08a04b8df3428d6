"""A capture of a run in numbers, small enough to be kept in a repository, and a side: several captures and their means.

Times are integer nanoseconds over the analysis window; what is per step is divided only where two sides are compared.
Means are exact, as fractions. A file of summaries is a JSON document with one capture a line, so that version control
shows what changed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.errors import TraceAnalyzerError

SUMMARY_VERSION = 1
# Names in a summary, and the bytes that they may take: templates make names of kernels long.
MOST_KERNELS, MOST_KERNEL_BYTES = 300, 22_000
MOST_OPERATORS, MOST_OPERATOR_BYTES = 200, 9_000
# More devices keep their step time, and of their ledgers only those of the slowest.
MOST_LEDGERS = 32
# Single steps are kept of the slowest devices, the first ones of each.
MOST_STEP_LISTS, MOST_STEPS = 4, 250

# Sums of numbers up to it, in any unit of a summary, are far from the ends of 64 bits and of doubles.
_LARGEST = 2**62
Whole = Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)]
Real = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]
Fact = str | Whole | bool | None | tuple[str, ...]


def _one_of(*words: str) -> Meta:
    return Meta(pattern=f"^({'|'.join(words)})$")


@dataclass(frozen=True)
class DeviceTimes:
    """The analysis window of one device; `device` None: the host, in a run without GPU work."""

    rank: Whole | None
    device: Whole | None
    window_ns: Whole
    step_count: Whole  # 0: no steps are known
    steps_ns: tuple[
        Whole, ...
    ]  # the first kept steps, in the order in which they ran; empty for fast ones of many devices
    buckets: Mapping[str, Whole] | None  # ns in the window, sums to window_ns; None: left out, the device is not slow

    @property
    def step_ns(self) -> float:
        """The mean step, or the window where no steps are known."""
        return self.window_ns / max(self.step_count, 1)


@dataclass(frozen=True)
class RunTimes:
    """The run's own ledger, where its ranks wait for each other: of the rank that the others wait for."""

    window_ns: Whole
    step_count: Whole
    buckets: Mapping[str, Whole]


@dataclass(frozen=True)
class NamedTime:
    """What ran under one name: how often, and the sum of its durations."""

    name: str
    kind: str  # class of a kernel; operator
    launch_count: Whole
    dur_ns: Whole


@dataclass(frozen=True)
class NamedTimes:
    """The names with most time, the others together, and the steps, of each device or trace, that hold them all."""

    rows: tuple[NamedTime, ...] = ()
    step_count: Whole = 1
    rest_count: Whole = 0  # names that are not in rows
    rest_launch_count: Whole = 0
    rest_ns: Whole = 0


@dataclass(frozen=True)
class FindingSummary:
    """The finding of a rule that saves most, of all places where the rule fired."""

    rule: str
    title: str
    severity: Annotated[str, _one_of(*SEVERITIES)]
    status: str  # as of a finding; suppressed: the project's settings silence it
    place: Annotated[str, _one_of("run", "rank", "device")]
    saving_ns: Whole | None  # bound in the window, of the run where there is one
    saving_share: Real | None
    step_count: Whole  # steps of the window that the saving is about
    # Time of the window that the finding alone owns, by bucket; that of kernels by their class: compute.gemm.
    owned_buckets: Mapping[str, Whole] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """One capture of a run."""

    label: str
    taken_at: str | None  # UTC; None: not in the trace
    made_by: str  # version of this program
    blocked: str | None  # why nothing can be said about the run
    # device: steps and ledgers are of devices; host: of the thread of the steps, as no GPU work was recorded
    time_of: Annotated[str, _one_of("device", "host")]
    fingerprint: Mapping[str, Fact]
    devices: tuple[DeviceTimes, ...]  # by rank and device
    run: RunTimes | None
    kernels: NamedTimes
    operators: NamedTimes
    findings: tuple[FindingSummary, ...]  # in the order of fixes
    outcomes: Mapping[str, str]  # rule → fired, latent, clear or abstained; of several places the first of these
    below_noise: Mapping[str, Real]  # rule → share of the window that it would save
    joint_saving_ns: Whole | None  # what all fixes of the plan save together in its window
    quality: Mapping[str, str] = field(default_factory=dict)  # rule about the trace → severity, from warning on
    summary_version: Whole = SUMMARY_VERSION

    @property
    def has_steps(self) -> bool:
        """Whether steps are known somewhere in the run."""
        return any(device.step_count for device in self.devices)


_HEAD = f'{{"summary_version": {SUMMARY_VERSION}, "captures": ['
_BEGINNING = b'{"summary_version":'
MAX_FILE_BYTES = 50_000_000


def is_summary_file(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_BEGINNING)) == _BEGINNING


def text_of(summaries: Sequence[Summary]) -> str:
    """Return the document of several captures."""
    plain = [asdict(item) for item in summaries]
    for item in plain:
        del item["summary_version"]  # said once for all
    lines = [json.dumps(item, sort_keys=True, ensure_ascii=False, allow_nan=False) for item in plain]
    return _HEAD + "\n" + ",\n".join(lines) + "\n]}\n"


@dataclass(frozen=True)
class _Document:
    """A file of summaries."""

    captures: Annotated[list[Summary], Meta(min_length=1)]


def read_summaries(path: Path) -> list[Summary]:
    """Return the captures in a file; raises TraceAnalyzerError with the field that is missing or wrong."""
    hint = "write it again: traceanalyzer export baseline FILE RUN"
    try:
        with path.open("rb") as file:  # which may have no end
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise TraceAnalyzerError(f"is larger than {MAX_FILE_BYTES:,} bytes", path, "is it a trace?")
        # Half a surrogate pair, which not every format can hold, becomes a question mark.
        document = json.loads(json.dumps(json.loads(content), ensure_ascii=False).encode("utf-8", "replace"))
    except OSError as error:
        raise TraceAnalyzerError(f"cannot be read: {error.strerror}", path) from error
    except (ValueError, RecursionError) as error:
        raise TraceAnalyzerError(f"is no file of summaries: {error}", path, hint) from error
    version = document.get("summary_version") if isinstance(document, dict) else None
    if version != SUMMARY_VERSION:
        start = repr(json.dumps(version)[:40])
        raise TraceAnalyzerError(f"summary_version is {start}; this program reads {SUMMARY_VERSION}", path, hint)
    try:
        return msgspec.convert(document, _Document).captures
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        raise TraceAnalyzerError(f"field {where.rstrip('`')}: {what}" if where else what, path, hint) from error


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
