"""Answers 'how long would a step take if …': causes that cost nothing and kernels that run faster, all at once."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from traceanalyzer.attribution.bounds import Bounds, Place, RunBound
from traceanalyzer.attribution.buckets import CAUSES
from traceanalyzer.attribution.doubts import DOUBTS
from traceanalyzer.attribution.lead_scan import Scenario
from traceanalyzer.errors import TraceAnalyzerError, suggestion

# What `--remove host` and `--remove dev` stand for, and `--faster compute`.
_FAMILIES = ("host", "dev")
EVERY_KERNEL = "compute"
_FASTER = re.compile(r"^(?P<what>.+)=(?P<factor>[0-9.]+)x?$")

_DEVICES = """
SELECT trace_id, device, trace, rank, window_ns, step_count
FROM attribution.windows
JOIN canonical.traces USING (trace_id)
ORDER BY trace_id, device
"""
_KERNELS = """
SELECT ops.trace_id, ops.device, ops.op_id, ops.dur_ns
FROM gpu_ops AS ops
LEFT JOIN kernel_class_names AS names USING (name)
WHERE ops.kind = 'kernel'
  AND NOT ops.is_comm
  AND ($what = $every OR names.class = $what OR ($matches AND regexp_matches(ops.name, $what, 'i')))
"""
_CLASSES = "SELECT DISTINCT class FROM kernel_class_names"

Scenarios = Mapping[Place, Scenario]

# A range narrower than this share of the window is one number.
_NARROW_SHARE = 0.01


@dataclass(frozen=True)
class Faster:
    """Kernels of a class, or whose names match a pattern, that run `factor` times as fast."""

    what: str
    factor: float


@dataclass(frozen=True)
class Change:
    """What is asked: causes that cost nothing (CAUSE, or CAUSE@RANK for one rank), and faster kernels."""

    removed: tuple[str, ...] = ()
    faster: tuple[Faster, ...] = ()


@dataclass(frozen=True)
class Saving:
    """What a part of the change, or all of it, saves; NULL (None) where bounds cannot be trusted."""

    change: str
    saved_ns: int | None
    at_least_ns: int | None  # what is saved even where the rest is no faster than it had to be
    seen: bool  # the trace holds what would change


@dataclass(frozen=True)
class DeviceAnswer:
    """One device: its window as it is, and what the change saves of it."""

    trace: str
    rank: int | None
    device: int
    window_ns: int
    step_count: int
    saved_ns: int | None  # at most
    at_least_ns: int | None
    open_because: str | None  # why the saving may be anything from the least to the most; None: both are the same
    abstains: str | None
    parts: tuple[Saving, ...]  # each part of the change alone; they may overlap, and are never summed


@dataclass(frozen=True)
class RunAnswer:
    """All devices together: the run takes as long as its slowest device, and ranks wait for each other."""

    window_ns: int
    step_count: int
    saved_ns: int | None
    at_least_ns: int | None
    open_because: str | None
    abstains: str | None
    meets: bool  # ranks were scanned together, through their collectives
    parts: tuple[Saving, ...]


@dataclass(frozen=True)
class Answer:
    """What the change is worth, device by device and for the run."""

    change: Change
    devices: tuple[DeviceAnswer, ...]
    run: RunAnswer | None  # None: one device is all there is


def _open_because(doubts: Sequence[str], saved: Sequence[int | None], window_ns: int) -> str | None:
    """Return why the least that is saved falls short of the most, given the most, and less with each doubt more."""
    falls = [(before or 0) - (after or 0) for before, after in itertools.pairwise(saved)]
    if sum(falls) <= _NARROW_SHARE * window_ns:
        return None
    return "; ".join(doubt for doubt, fall_ns in zip(doubts, falls, strict=True) if fall_ns > sum(falls) / 10)


def parse_faster(text: str) -> Faster:
    """Return what `gemm=2x` says."""
    match = _FASTER.match(text.strip())
    factor = float(match["factor"]) if match and match["factor"].count(".") < 2 else 0.0
    if match is None or factor <= 1:
        raise TraceAnalyzerError(
            f"{text!r} is not CLASS=FACTORx with a factor above 1", "--faster", "for example --faster gemm=2x"
        )
    return Faster(match["what"].strip(), factor)


def causes_named(names: Sequence[str]) -> tuple[str, ...]:
    """Return the causes that names stand for; raises for a name that is none."""
    found: list[str] = []
    for name in names:
        cause = _cause_and_rank(name)[0]
        family = cause.removesuffix(".*")
        if family in _FAMILIES:
            found += sorted(known for known in CAUSES if known.startswith(f"{family}."))
        elif cause in CAUSES:
            found.append(cause)
        else:
            hint = suggestion(cause, sorted(CAUSES), f"host, dev or one of {', '.join(sorted(CAUSES))}")
            raise TraceAnalyzerError(f"no cause is called {cause!r}", "--remove", hint)
    return tuple(dict.fromkeys(found))


def _cause_and_rank(name: str) -> tuple[str, int | None]:
    cause, at, rank = name.partition("@")
    if at and not rank.isdecimal():
        raise TraceAnalyzerError(
            f"{name!r} names no rank", "--remove", "CAUSE@RANK, for example --remove host.dataloader@3"
        )
    return cause, int(rank) if at else None


def what_if(con: duckdb.DuckDBPyConnection, change: Change) -> Answer:
    """Return what a change saves on each device of the run behind a connection of the engine."""
    bounds = Bounds.load(con)
    parts = [*(_without(bounds, name) for name in change.removed), *(_with(con, item) for item in change.faster)]
    labels = [*change.removed, *(f"{item.what} {item.factor:g}x" for item in change.faster)]
    asked = [*parts, _joined(parts)]
    together = len(bounds.places) > 1 and bounds.run_abstains() is None
    doubted = bounds.with_doubts(DOUBTS)
    doubts, tellers = [*doubted], [bounds, *doubted.values()]
    runs = [[teller.run(part) for part in asked] for teller in tellers] if together else []
    devices = []
    for trace_id, device, trace, rank, window_ns, step_count in con.execute(_DEVICES).fetchall():
        place = (trace_id, device)
        abstains = bounds.abstains(*place)
        own = [part.get(place, Scenario()) for part in asked]
        saved: list[list[int | None]] = [[None] * len(own)] * len(tellers)
        if abstains is None and together:
            saved = _never_more([[run.devices[place] for run in told] for told in runs])
        elif abstains is None:
            saved = _never_more([teller.bounds(*place, own) for teller in tellers])
        known = bounds.causes(*place)
        seen = [bool(known.intersection(part.removed)) or bool(part.savings) for part in own]
        told = tuple(map(Saving, labels, saved[0][:-1], saved[-1][:-1], seen))
        in_all = [answers[-1] for answers in saved]
        why = _open_because(doubts, in_all, window_ns)
        devices.append(
            DeviceAnswer(trace, rank, device, window_ns, step_count, in_all[0], in_all[-1], why, abstains, told)
        )
    return Answer(change, tuple(devices), _run_answer(bounds, devices, doubts, runs))


def _never_more(saved: Sequence[Sequence[int]]) -> list[list[int | None]]:
    """Return savings with each doubt more, none of them above what it is without the last doubt."""
    return [[*least] for least in itertools.accumulate(saved, lambda most, also: [*map(min, most, also)])]


def _run_answer(
    bounds: Bounds, devices: Sequence[DeviceAnswer], doubts: Sequence[str], runs: Sequence[Sequence[RunBound]]
) -> RunAnswer | None:
    if len(devices) < 2:
        return None
    slowest = max(devices, key=lambda device: device.window_ns)
    saved = _never_more([[run.saved_ns for run in told] for told in runs])
    saved = saved or [[None] * (len(slowest.parts) + 1)] * (len(doubts) + 1)
    seen = [any(device.parts[i].seen for device in devices) for i in range(len(slowest.parts))]
    return RunAnswer(
        slowest.window_ns,
        slowest.step_count,
        saved[0][-1],
        saved[-1][-1],
        _open_because(doubts, [answers[-1] for answers in saved], slowest.window_ns),
        bounds.run_abstains(),
        bool(runs and bounds.together.meetings),
        tuple(map(Saving, (part.change for part in slowest.parts), saved[0][:-1], saved[-1][:-1], seen)),
    )


def _without(bounds: Bounds, name: str) -> Scenarios:
    causes = frozenset(causes_named([name]))
    rank = _cause_and_rank(name)[1]
    return {place: Scenario(causes) for place in bounds.places if rank is None or bounds.ranks.get(place[0]) == rank}


def _with(con: duckdb.DuckDBPyConnection, faster: Faster) -> Scenarios:
    return {place: Scenario(savings=savings) for place, savings in _savings(con, faster).items()}


def _joined(parts: Sequence[Scenarios]) -> Scenarios:
    """Return all parts at once; of two savings of one kernel the larger one counts."""
    found: dict[Place, Scenario] = {}
    for part in parts:
        for place, scenario in part.items():
            before = found.get(place, Scenario())
            savings = dict(before.savings or {})
            for op_id, saving_ns in (scenario.savings or {}).items():
                savings[op_id] = max(saving_ns, savings.get(op_id, 0))
            found[place] = Scenario(before.removed | scenario.removed, savings)
    return found


def _savings(con: duckdb.DuckDBPyConnection, faster: Faster) -> dict[Place, dict[int, int]]:
    classes = {name for (name,) in con.execute(_CLASSES).fetchall()}
    by_name = faster.what not in classes
    try:
        rows = con.execute(_KERNELS, {"what": faster.what, "every": EVERY_KERNEL, "matches": by_name}).fetchall()
    except duckdb.InvalidInputException as error:
        raise TraceAnalyzerError(
            f"{faster.what!r} is no pattern: {error}", "--faster", "a class, or a regular expression over kernel names"
        ) from error
    if not rows:
        known = ", ".join(sorted(classes - {"comm"})) or "none: the run has no kernels"
        raise TraceAnalyzerError(
            f"no kernel is of the class {faster.what!r} or has it in its name", "--faster", f"classes here: {known}"
        )
    savings: dict[Place, dict[int, int]] = {}
    for trace_id, device, op_id, dur_ns in rows:
        savings.setdefault((trace_id, device), {})[op_id] = dur_ns - round(dur_ns / faster.factor)
    return savings
