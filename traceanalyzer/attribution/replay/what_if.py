"""Answers to 'how long would a step take if …': causes that cost nothing, faster kernels, operators at their roof."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from traceanalyzer.attribution.columns import CAUSES, DeviceKey
from traceanalyzer.attribution.replay.bounds import Bounds, ScansOf
from traceanalyzer.attribution.replay.run_bounds import RunBound
from traceanalyzer.attribution.replay.scan import UNCERTAINTIES, OpSavings, WhatIf
from traceanalyzer.errors import TraceAnalyzerError, suggestion

# `--remove host` and `--remove dev` name all causes of a family; `--faster compute` names all kernels.
_FAMILIES = ("host", "dev")
EVERY_KERNEL = "compute"
AT_ROOF = "operators at their roof"
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

# A call that takes longer than its floor gets as much shorter in all of its operations; they may run at the same time.
_ROOF = """
SELECT
    floors.trace_id, ops.device, ops.op_id,
    CAST(round(ops.dur_ns * (1 - floors.floor_ns / floors.dur_ns)) AS BIGINT) AS saving_ns
FROM operator_floors AS floors
JOIN modelled_ops AS owned USING (trace_id, slice_id)
JOIN canonical.gpu_ops AS ops ON ops.trace_id = owned.trace_id AND ops.op_id = owned.op_id
WHERE floors.dur_ns > floors.floor_ns
"""
_ROOF_COVERAGE = """
WITH calls AS (
    SELECT
        trace_id, device,
        sum(op_sum_ns) FILTER (WHERE floor_ns IS NOT NULL) AS floor_ns,
        sum(op_sum_ns) FILTER (WHERE status = 'suspect') AS suspect_ns
    FROM operator_floors
    GROUP BY trace_id, device
),
kernels AS (
    SELECT
        trace_id, device,
        sum(dur_ns) AS kernel_ns
    FROM canonical.gpu_ops
    WHERE kind IN ('kernel', 'graph') AND NOT is_comm
    GROUP BY trace_id, device
)
SELECT
    kernels.trace_id, kernels.device,
    least(coalesce(calls.floor_ns, 0) / nullif(kernel_ns, 0), 1) AS known_share,
    least(coalesce(calls.suspect_ns, 0) / nullif(kernel_ns, 0), 1) AS suspect_share
FROM kernels
LEFT JOIN calls USING (trace_id, device)
"""

WhatIfs = Mapping[DeviceKey, WhatIf]

MANY_RANKS = "many-ranks: the scan of this many ranks could not be shown to be exact"
# A range narrower than this share of the window is one number.
_NARROW_SHARE = 0.01


@dataclass(frozen=True)
class Faster:
    """Kernels of a class, or whose names match a pattern, that run `factor` times as fast."""

    what: str
    factor: float


@dataclass(frozen=True)
class Change:
    """A question: causes that cost nothing (CAUSE, or CAUSE@RANK for one rank), and faster kernels or operators."""

    removed: tuple[str, ...] = ()
    faster: tuple[Faster, ...] = ()
    at_roof: bool = False  # each operator takes its floor, the least time that the device's data sheet allows

    def labels(self) -> tuple[str, ...]:
        """Return the name of each part, in their order."""
        faster = (f"{item.what} {item.factor:g}x" for item in self.faster)
        return (*self.removed, *faster, *((AT_ROOF,) if self.at_roof else ()))


@dataclass(frozen=True)
class Saving:
    """What the whole change, or a part of it, saves; None where bounds cannot be trusted."""

    change: str
    saved_ns: int | None
    at_least_ns: int | None  # saved even if all uncertainties turn out against the change
    seen: bool  # the trace contains what would change


@dataclass(frozen=True)
class RoofCoverage:
    """How much of a device's kernel time, without communication, the change to the roof reaches."""

    known_share: float  # in operators with a floor; the rest stays as recorded
    suspect_share: (
        float  # in operators that ran faster than their floor: a peak, a type or a clock is not what it seems
    )


@dataclass(frozen=True)
class DeviceAnswer:
    """The window of one device as it is, and what the change saves of it."""

    trace: str
    rank: int | None
    device: int
    window_ns: int
    step_count: int
    saved_ns: int | None  # at most
    at_least_ns: int | None
    open_because: str | None  # why the least and the most differ; None: they are the same
    abstains: str | None
    parts: tuple[Saving, ...]  # each part of the change alone; parts may overlap and do not add up
    roof: RoofCoverage | None = None  # None: the roof was not asked for, or no kernel ran


@dataclass(frozen=True)
class RunAnswer:
    """The slowest window of the run as it is, and what the change saves of it; ranks wait for each other."""

    window_ns: int
    step_count: int
    saved_ns: int | None
    at_least_ns: int | None
    open_because: str | None
    abstains: str | None
    meets: bool  # the ranks were scanned together, through their collectives
    parts: tuple[Saving, ...]


@dataclass(frozen=True)
class Answer:
    """What the change saves, per device and for the run."""

    change: Change
    devices: tuple[DeviceAnswer, ...]
    run: RunAnswer | None  # None: the run has one device


def _open_because(uncertainties: Sequence[str], saved: Sequence[int | None], window_ns: int) -> str | None:
    """Return the uncertainties that explain why the least saving is below the most; None: the two are close.

    `saved` begins with the most, and holds one lower saving for each further uncertainty.
    """
    falls = [(before or 0) - (after or 0) for before, after in itertools.pairwise(saved)]
    if sum(falls) <= _NARROW_SHARE * window_ns:
        return None
    causes = zip(uncertainties, falls, strict=True)
    return "; ".join(uncertainty for uncertainty, fall_ns in causes if fall_ns > sum(falls) / 10)


def parse_faster(text: str) -> Faster:
    """Parse an argument of `--faster`, for example `gemm=2x`."""
    match = _FASTER.match(text.strip())
    factor = float(match["factor"]) if match and match["factor"].count(".") < 2 else 0.0
    if match is None or factor <= 1:
        raise TraceAnalyzerError(
            f"{text!r} is not CLASS=FACTORx with a factor above 1", "--faster", "for example --faster gemm=2x"
        )
    return Faster(match["what"].strip(), factor)


def causes_named(names: Sequence[str]) -> tuple[str, ...]:
    """Return the causes that arguments of `--remove` name.

    Raises TraceAnalyzerError for a name that is no cause.
    """
    causes: list[str] = []
    for name in names:
        cause = _cause_and_rank(name)[0]
        family = cause.removesuffix(".*")
        if family in _FAMILIES:
            causes += sorted(known for known in CAUSES if known.startswith(f"{family}."))
        elif cause in CAUSES:
            causes.append(cause)
        else:
            hint = suggestion(cause, sorted(CAUSES), f"host, dev or one of {', '.join(sorted(CAUSES))}")
            raise TraceAnalyzerError(f"no cause is called {cause!r}", "--remove", hint)
    return tuple(dict.fromkeys(causes))


def _cause_and_rank(name: str) -> tuple[str, int | None]:
    cause, at, rank = name.partition("@")
    if at and not rank.isdecimal():
        raise TraceAnalyzerError(
            f"{name!r} names no rank", "--remove", "CAUSE@RANK, for example --remove host.dataloader@3"
        )
    return cause, int(rank) if at else None


def what_if(con: duckdb.DuckDBPyConnection, change: Change, scans_of: ScansOf | None = None) -> Answer:
    """Return what a change saves on each device of the run that an engine connection holds.

    `scans_of` returns the scans of devices that are too many to be held (`Bounds.load`).
    Raises TraceAnalyzerError for a rank, a cause or kernels that the run does not hold.
    """
    bounds = Bounds.load(con, scans_of)
    for name in change.removed:
        _check_devices(bounds, name)
    parts = [*(_without(bounds, name) for name in change.removed), *(_with_faster(con, item) for item in change.faster)]
    coverage = _roof_coverage(con) if change.at_roof else {}
    if change.at_roof:
        parts.append(_at_roof(con))
    labels = change.labels()
    queries = [*parts, _joined(parts)]
    together = len(bounds.device_keys) > 1 and bounds.run_abstains() is None
    lower = bounds.lower_bounds(UNCERTAINTIES)
    uncertainties, from_most_to_least = [*lower], [bounds, *lower.values()]
    runs = [one.runs(queries) for one in from_most_to_least] if together else []
    if any(run.least for of_one in runs for run in of_one):
        uncertainties.append(MANY_RANKS)
        runs.append([run.least or run for run in runs[-1]])
    devices = []
    for trace_id, device, trace, rank, window_ns, step_count in con.execute(_DEVICES).fetchall():
        device_key = (trace_id, device)
        abstains = bounds.abstains(*device_key)
        what_ifs = [part.get(device_key, WhatIf()) for part in queries]
        saved: list[list[int | None]] = [[None] * len(what_ifs)] * (len(uncertainties) + 1)
        if abstains is None and together:
            saved = _never_more([[run.devices[device_key] for run in of_one] for of_one in runs])
        elif abstains is None:
            saved = _never_more([one.bounds(*device_key, what_ifs) for one in from_most_to_least])
        known = bounds.causes(*device_key)
        seen = [bool(known.intersection(part.removed)) or bool(part.savings) for part in what_ifs]
        parts_saved = tuple(map(Saving, labels, saved[0][:-1], saved[-1][:-1], seen))
        in_all = [answers[-1] for answers in saved]
        why = _open_because(uncertainties, in_all, window_ns)
        devices.append(
            DeviceAnswer(
                trace,
                rank,
                device,
                window_ns,
                step_count,
                in_all[0],
                in_all[-1],
                why,
                abstains,
                parts_saved,
                coverage.get(device_key),
            )
        )
    return Answer(change, tuple(devices), _run_answer(bounds, devices, uncertainties, runs))


def _never_more(saved: Sequence[Sequence[int]]) -> list[list[int | None]]:
    """Return the savings of each level, limited to those of the level before: an uncertainty never adds to a saving."""
    return [[*least] for least in itertools.accumulate(saved, lambda most, also: [*map(min, most, also)])]


def _run_answer(
    bounds: Bounds, devices: Sequence[DeviceAnswer], uncertainties: Sequence[str], runs: Sequence[Sequence[RunBound]]
) -> RunAnswer | None:
    if len(devices) < 2:
        return None
    slowest = max(devices, key=lambda device: device.window_ns)
    saved = _never_more([[run.saved_ns for run in of_one] for of_one in runs])
    saved = saved or [[None] * (len(slowest.parts) + 1)] * (len(uncertainties) + 1)
    seen = [any(device.parts[i].seen for device in devices) for i in range(len(slowest.parts))]
    return RunAnswer(
        slowest.window_ns,
        slowest.step_count,
        saved[0][-1],
        saved[-1][-1],
        _open_because(uncertainties, [answers[-1] for answers in saved], slowest.window_ns),
        bounds.run_abstains(),
        bool(runs and bounds.together.sync_points),
        tuple(map(Saving, (part.change for part in slowest.parts), saved[0][:-1], saved[-1][:-1], seen)),
    )


def _check_devices(bounds: Bounds, name: str) -> None:
    """Raise TraceAnalyzerError where no device of the run, or none of the named rank, has time of a cause.

    A device without an answer counts as one that may have it.
    """
    rank = _cause_and_rank(name)[1]
    ranks = {device_key: bounds.ranks.get(device_key[0]) for device_key in bounds.device_keys}
    device_keys = [device_key for device_key in bounds.device_keys if rank is None or ranks[device_key] == rank]
    if not ranks:
        return
    if not device_keys:
        known = ", ".join(map(str, sorted({known for known in ranks.values() if known is not None})))
        hint = f"ranks here: {known}" if known else "the traces name no ranks; leave out the @"
        raise TraceAnalyzerError(f"{name!r}: the run has no rank {rank}", "--remove", hint)
    queries = set(causes_named([name]))
    if any(
        bounds.abstains(*device_key) is not None or queries & bounds.causes(*device_key) for device_key in device_keys
    ):
        return
    here = sorted(CAUSES & {cause for device_key in device_keys for cause in bounds.causes(*device_key)})
    where = "the run" if rank is None else f"rank {rank}"
    hint = f"causes there: {', '.join(here)}" if here else "no cause has time there"
    raise TraceAnalyzerError(f"{name!r}: {where} has no time of this cause", "--remove", hint)


def _without(bounds: Bounds, name: str) -> WhatIfs:
    causes = frozenset(causes_named([name]))
    rank = _cause_and_rank(name)[1]
    return {
        device_key: WhatIf(causes)
        for device_key in bounds.device_keys
        if rank is None or bounds.ranks.get(device_key[0]) == rank
    }


def _at_roof(con: duckdb.DuckDBPyConnection) -> WhatIfs:
    """Return the savings of operators that take their floor.

    An operator that a cache made faster than its floor stays as it is.
    """
    return _with_savings(con.execute(_ROOF).fetchall())


def _with_savings(rows: Iterable[tuple[int, int, int, int]]) -> WhatIfs:
    savings: dict[DeviceKey, dict[int, int]] = {}
    for trace_id, device, op_id, saving_ns in rows:
        savings.setdefault((trace_id, device), {})[op_id] = saving_ns
    return {device_key: WhatIf(savings=of_device) for device_key, of_device in savings.items()}


def _roof_coverage(con: duckdb.DuckDBPyConnection) -> dict[DeviceKey, RoofCoverage]:
    """Return how much of each device's kernel time has a floor.

    Raises TraceAnalyzerError where none has: the answer would be 'nothing to save'.
    """
    coverage = {
        (trace_id, device): RoofCoverage(known_share, suspect_share)
        for trace_id, device, known_share, suspect_share in con.execute(_ROOF_COVERAGE).fetchall()
    }
    if coverage and not any(one.known_share for one in coverage.values()):
        raise TraceAnalyzerError(
            "no operator of the run has a floor",
            "--at-roof",
            "floors need input shapes (record_shapes=True) and a device whose peaks are known (--device, or "
            "`[devices.peaks]` in settings); `traceanalyzer sql RUN 'FROM cost_coverage'` shows what is missing",
        )
    return coverage


def _joined(parts: Sequence[WhatIfs]) -> WhatIfs:
    """Return all parts as one; of two savings of one kernel the larger one counts."""
    joined: dict[DeviceKey, WhatIf] = {}
    for part in parts:
        for device_key, what in part.items():
            before = joined.get(device_key, WhatIf())
            savings = OpSavings.of(before.savings or {}).joined(OpSavings.of(what.savings or {}))
            joined[device_key] = WhatIf(before.removed | what.removed, savings)
    return joined


def _with_faster(con: duckdb.DuckDBPyConnection, faster: Faster) -> WhatIfs:
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
    return _with_savings(
        (trace_id, device, op_id, dur_ns - round(dur_ns / faster.factor)) for trace_id, device, op_id, dur_ns in rows
    )
